//! The rules that checks and verification are made of, each a judgement over facts.

use std::collections::BTreeSet;

use crate::outcome::{FailureClass, Finding};
use crate::paths::{denies, holds, is_plain};
use crate::{
    DriverConfig, Facts, Intent, ModelId, Outcome, Response, SandboxFacts, Selection, consistent,
    may_write,
};

pub(crate) type Judged = Result<(), Finding>;

/// A fact that must be known.
pub(crate) fn known<'a, T>(fact: Option<&'a T>, what: &str) -> Result<&'a T, Finding> {
    fact.ok_or_else(|| Finding::missing(format!("{what} is not known")))
}

pub(crate) fn intent<'a>(config: &'a DriverConfig, facts: &Facts) -> Result<&'a Intent, Finding> {
    let name = known(facts.intent.as_ref(), "the intent")?;
    config.intent(name).ok_or_else(|| {
        Finding::scope(format!("the intent `{name}` is not one of the configuration"))
    })
}

/// Nothing may be done that cannot be recorded, so not knowing is as bad as not being able to.
pub(crate) fn telemetry(facts: &Facts) -> Judged {
    match facts.telemetry_writable {
        Some(true) => Ok(()),
        Some(false) => Err(Finding::policy("telemetry cannot be written")),
        None => Err(Finding::policy("whether telemetry can be written is not known")),
    }
}

pub(crate) fn sandbox(facts: &Facts) -> Result<&SandboxFacts, Finding> {
    let sandbox = known(facts.sandbox.as_ref(), "the state of the sandbox")?;
    consistent(&sandbox.recorded, &sandbox.observed)
        .map_err(|error| Finding::policy(error.to_string()))?;
    if sandbox.recorded.intent != facts.intent {
        return Err(Finding::policy("the sandbox is recorded for another intent"));
    }
    Ok(sandbox)
}

pub(crate) fn questions(facts: &Facts) -> Judged {
    match known(facts.questions_open.as_ref(), "whether questions are open")?.as_slice() {
        [] => Ok(()),
        [first, ..] => Err(Finding::missing(format!("a question is open: `{first}`"))),
    }
}

/// The selected model may work on the intent, by every table of the configuration.
pub(crate) fn selection<'a>(
    config: &DriverConfig,
    intent: &Intent,
    facts: &'a Facts,
) -> Result<&'a Selection, Finding> {
    let selection = known(facts.selection.as_ref(), "the selected model")?;
    let Selection { logical, resolved, tier, profile, role, is_fallback } = selection;
    let refuse = |reason: String| Err(Finding::authority(reason));
    let routed =
        config.models.get(logical).filter(|_| config.route(&intent.name).contains(logical));
    let Some(routed) = routed else {
        return refuse(format!("intent `{}` is not routed to model `{logical}`", intent.name));
    };
    let works = config.model_of(resolved);
    let stands_in = |name: &ModelId| {
        if *is_fallback { routed.fallbacks.contains(name) } else { name == logical }
    };
    let Some(works) = works.filter(|model| stands_in(&model.name)) else {
        return refuse(format!("`{resolved}` does not stand for model `{logical}`"));
    };
    if works.tier != *tier || !intent.tiers.contains(tier) {
        return refuse(format!(
            "intent `{}` does not allow `{resolved}` of tier `{}`, selected as `{tier}`",
            intent.name, works.tier
        ));
    }
    if routed.profile != *profile || intent.role != *role {
        return refuse(format!(
            "model `{logical}` was selected with profile `{profile}` and role `{role}`"
        ));
    }
    Ok(selection)
}

pub(crate) fn invoked(facts: &Facts, selection: &Selection) -> Judged {
    let invoked = known(facts.model_invoked.as_ref(), "the model that answered")?;
    if *invoked == selection.resolved {
        return Ok(());
    }
    let reason = format!("`{invoked}` answered, and `{}` was selected", selection.resolved);
    Err(Finding::authority(reason))
}

/// The context file is there, valid, and the one that the task began with.
///
/// A person is asked for it once; if it is still not usable, the task halts.
pub(crate) fn context_file(facts: &Facts) -> Judged {
    let context = known(facts.context.as_ref(), "the context file")?;
    let unusable = |reason: &str| {
        if context.was_asked {
            return Finding::policy(format!("{reason}, and the person was asked before"));
        }
        Finding::missing(reason)
    };
    if !context.is_present {
        return Err(unusable("the context file is missing"));
    }
    match context.is_valid {
        Some(true) => {}
        Some(false) => return Err(unusable("the context file is not valid")),
        None => return Err(Finding::missing("whether the context file is valid is not known")),
    }
    let now = known(context.digest.as_ref(), "the context file's digest")?;
    let then = known(context.digest_assembled.as_ref(), "the assembled context's digest")?;
    if now != then {
        return Err(Finding::policy("the context file changed while the task ran"));
    }
    Ok(())
}

/// What the intent needs of the project: its context file, its memory.
pub(crate) fn context(intent: &Intent, facts: &Facts) -> Judged {
    if intent.project_bound {
        context_file(facts)?;
    }
    if !intent.restore_required {
        return Ok(());
    }
    if *known(facts.memory_restored.as_ref(), "whether the memory was restored")? {
        return Ok(());
    }
    Err(Finding::policy(format!("intent `{}` needs the memory restored first", intent.name)))
}

/// Only what may change has changed.
pub(crate) fn scope(config: &DriverConfig, intent: &Intent, facts: &Facts) -> Judged {
    let changed = known(facts.paths_changed.as_ref(), "what changed")?;
    let allowed = known(facts.paths_allowed.as_ref(), "what may change")?;
    let denied = known(facts.paths_denied.as_ref(), "what may not change")?;
    let sandbox = &known(facts.sandbox.as_ref(), "the state of the sandbox")?.recorded.sandbox;
    for path in changed {
        let why = if !is_plain(path) {
            "is no plain path inside the project"
        } else if denied.iter().any(|scope| denies(scope, path)) {
            "may not change in any case"
        } else if !allowed.iter().any(|scope| holds(scope, path)) {
            "is outside what the task may change"
        } else if !may_write(config, sandbox, &intent.name, path) {
            "may not change while the sandbox is on"
        } else {
            continue;
        };
        return Err(Finding::scope(format!("`{path}` {why}")));
    }
    Ok(())
}

pub(crate) fn well_formed(facts: &Facts) -> Judged {
    if *known(facts.output_well_formed.as_ref(), "whether the output is well formed")? {
        return Ok(());
    }
    Err(Finding::structural("the output is not well formed"))
}

/// What the output names exists; in a critical intent anything else halts.
pub(crate) fn hallucination(intent: &Intent, facts: &Facts) -> Judged {
    let sets: [(&str, &Option<BTreeSet<String>>); 3] = [
        ("paths", &facts.claimed_paths_missing),
        ("symbols", &facts.claimed_symbols_missing),
        ("citations", &facts.claimed_citations_missing),
    ];
    // First what is known to be wrong: a hallucination is not excused by what is not known.
    for (what, missing) in sets {
        let Some(first) = missing.as_ref().and_then(BTreeSet::first) else { continue };
        let reason = format!("the output names {what} that do not exist, as `{first}`");
        if !intent.critical {
            return Err(Finding::structural(reason));
        }
        return Err(Finding {
            class: FailureClass::HallucinationCriticalIntent,
            response: Response::VerificationFailed,
            reason,
        });
    }
    for (what, missing) in sets {
        known(missing.as_ref(), &format!("whether the {what} that the output names exist"))?;
    }
    Ok(())
}

pub(crate) fn contract(facts: &Facts) -> Judged {
    let declared = known(facts.output_keys_declared.as_ref(), "what the output must hold")?;
    let present = known(facts.output_keys.as_ref(), "what the output holds")?;
    match declared.iter().find(|key| !present.contains(*key)) {
        None => Ok(()),
        Some(key) => Err(Finding::structural(format!("the output lacks `{key}`"))),
    }
}

/// The output answers the intent that was asked for, with nothing left open.
pub(crate) fn alignment(intent: &Intent, facts: &Facts) -> Judged {
    let answered = known(facts.output_intent.as_ref(), "the intent that the output answers")?;
    if *answered != intent.name {
        let reason = format!("the output answers `{answered}`, not `{}`", intent.name);
        return Err(Finding::scope(reason));
    }
    questions(facts)
}

/// What was spent is within the profile, and so is the next call if there is one to come.
pub(crate) fn spent(config: &DriverConfig, facts: &Facts, selection: &Selection) -> Judged {
    let usage = known(facts.usage.as_ref(), "what the task has spent")?;
    if *usage.profile() != selection.profile {
        return Err(Finding::policy("the task is counted against another profile"));
    }
    usage.within(config).map_err(|error| Finding::policy(error.to_string()))
}

pub(crate) fn next_call(config: &DriverConfig, facts: &Facts, selection: &Selection) -> Judged {
    spent(config, facts, selection)?;
    let usage = known(facts.usage.as_ref(), "what the task has spent")?;
    let next = known(facts.next_call.as_ref(), "the next call")?;
    usage.admit(config, *next).map_err(|error| Finding::policy(error.to_string()))
}

pub(crate) fn passed(facts: &Facts) -> Judged {
    match known(facts.verification.as_ref(), "how verification ended")? {
        Outcome::Pass => Ok(()),
        other @ (Outcome::AskUser | Outcome::InterventionRequired | Outcome::Halt) => {
            Err(Finding::policy(format!("verification ended in {other}")))
        }
    }
}

/// A condition for leaving the sandbox that must be known to be `false`.
pub(crate) fn absent(fact: Option<bool>, what: &str, reason: &str) -> Judged {
    if *known(fact.as_ref(), what)? { Err(Finding::policy(reason)) } else { Ok(()) }
}
