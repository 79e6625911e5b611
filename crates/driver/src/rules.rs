//! The rules that checks and verification consist of, each a function of facts.

use std::collections::BTreeSet;

use crate::outcome::{FailureClass, Finding};
use crate::paths::{contains, denies, is_plain};
use crate::{
    DriverConfig, Facts, Intent, ModelId, Outcome, Response, SandboxFacts, Selection,
    check_consistency, may_write,
};

pub(crate) type RuleResult = Result<(), Finding>;

/// A required fact.
pub(crate) fn known<'a, T>(fact: Option<&'a T>, what: &str) -> Result<&'a T, Finding> {
    fact.ok_or_else(|| Finding::missing(format!("{what} is not known")))
}

pub(crate) fn intent<'a>(config: &'a DriverConfig, facts: &Facts) -> Result<&'a Intent, Finding> {
    let name = known(facts.intent.as_ref(), "the intent")?;
    config
        .intent(name)
        .ok_or_else(|| Finding::scope(format!("the intent `{name}` is not in the configuration")))
}

/// Work that cannot be recorded is not allowed, so an unknown state of telemetry fails too.
pub(crate) fn telemetry(facts: &Facts) -> RuleResult {
    match facts.telemetry_writable {
        Some(true) => Ok(()),
        Some(false) => Err(Finding::policy("telemetry cannot be written")),
        None => Err(Finding::policy("whether telemetry can be written is not known")),
    }
}

pub(crate) fn sandbox(facts: &Facts) -> Result<&SandboxFacts, Finding> {
    let sandbox = known(facts.sandbox.as_ref(), "the state of the sandbox")?;
    check_consistency(&sandbox.recorded, &sandbox.observed)
        .map_err(|error| Finding::policy(error.to_string()))?;
    if sandbox.recorded.intent != facts.intent {
        return Err(Finding::policy("the sandbox is recorded for another intent"));
    }
    Ok(sandbox)
}

pub(crate) fn questions(facts: &Facts) -> RuleResult {
    match known(facts.questions_open.as_ref(), "whether questions are open")?.as_slice() {
        [] => Ok(()),
        [first, ..] => Err(Finding::missing(format!("a question is open: `{first}`"))),
    }
}

/// Checks the selected model against every table of the configuration.
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
    let is_routed = |name: &ModelId| {
        if *is_fallback { routed.fallbacks.contains(name) } else { name == logical }
    };
    let Some(works) = works.filter(|model| is_routed(&model.name)) else {
        return refuse(format!("`{resolved}` is neither model `{logical}` nor its fallback"));
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

pub(crate) fn invoked(facts: &Facts, selection: &Selection) -> RuleResult {
    let invoked = known(facts.model_invoked.as_ref(), "the model that answered")?;
    if *invoked == selection.resolved {
        return Ok(());
    }
    let reason = format!("`{invoked}` answered, but `{}` was selected", selection.resolved);
    Err(Finding::authority(reason))
}

/// Checks that the context file exists, is valid, and has not changed since the task began.
///
/// A person is asked for it once; if it is still not usable, the task halts.
pub(crate) fn context_file(facts: &Facts) -> RuleResult {
    let context = known(facts.context.as_ref(), "the context file")?;
    let unusable = |reason: &str| {
        if context.was_asked {
            return Finding::policy(format!("{reason}, and the person was already asked"));
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

/// Checks what the intent needs of the project: its context file, its memory.
pub(crate) fn context(intent: &Intent, facts: &Facts) -> RuleResult {
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

/// Checks that only allowed paths have changed.
pub(crate) fn scope(config: &DriverConfig, intent: &Intent, facts: &Facts) -> RuleResult {
    let changed = known(facts.paths_changed.as_ref(), "what changed")?;
    let allowed = known(facts.paths_allowed.as_ref(), "what may change")?;
    let denied = known(facts.paths_denied.as_ref(), "what may not change")?;
    let sandbox = &known(facts.sandbox.as_ref(), "the state of the sandbox")?.recorded.sandbox;
    for path in changed {
        let why = if !is_plain(path) {
            "is not a plain path inside the project"
        } else if denied.iter().any(|scope| denies(scope, path)) {
            "may never change"
        } else if !allowed.iter().any(|scope| contains(scope, path)) {
            "is outside the scope of the task"
        } else if !may_write(config, sandbox, &intent.name, path) {
            "may not change while the sandbox is on"
        } else {
            continue;
        };
        return Err(Finding::scope(format!("`{path}` {why}")));
    }
    Ok(())
}

pub(crate) fn well_formed(facts: &Facts) -> RuleResult {
    if *known(facts.output_well_formed.as_ref(), "whether the output is well formed")? {
        return Ok(());
    }
    Err(Finding::structural("the output is not well formed"))
}

/// Checks that everything the output names exists; in a critical intent anything else halts.
pub(crate) fn hallucination(intent: &Intent, facts: &Facts) -> RuleResult {
    let sets: [(&str, &Option<BTreeSet<String>>); 3] = [
        ("paths", &facts.claimed_paths_missing),
        ("symbols", &facts.claimed_symbols_missing),
        ("citations", &facts.claimed_citations_missing),
    ];
    // A known hallucination is reported before unknown facts.
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

pub(crate) fn contract(facts: &Facts) -> RuleResult {
    let declared = known(facts.output_keys_declared.as_ref(), "which keys the output must have")?;
    let present = known(facts.output_keys.as_ref(), "which keys the output has")?;
    match declared.iter().find(|key| !present.contains(*key)) {
        None => Ok(()),
        Some(key) => Err(Finding::structural(format!("the output lacks `{key}`"))),
    }
}

/// Checks that the output answers the intent, without open questions.
pub(crate) fn alignment(intent: &Intent, facts: &Facts) -> RuleResult {
    let answered = known(facts.output_intent.as_ref(), "the intent that the output answers")?;
    if *answered != intent.name {
        let reason = format!("the output answers `{answered}`, not `{}`", intent.name);
        return Err(Finding::scope(reason));
    }
    questions(facts)
}

/// Checks that the used calls and tokens are within the profile.
pub(crate) fn spent(config: &DriverConfig, facts: &Facts, selection: &Selection) -> RuleResult {
    let usage = known(facts.usage.as_ref(), "what the task has used")?;
    if *usage.profile() != selection.profile {
        return Err(Finding::policy("the task is counted against another profile"));
    }
    usage.within(config).map_err(|error| Finding::policy(error.to_string()))
}

pub(crate) fn next_call(config: &DriverConfig, facts: &Facts, selection: &Selection) -> RuleResult {
    spent(config, facts, selection)?;
    let usage = known(facts.usage.as_ref(), "what the task has used")?;
    let next = known(facts.next_call.as_ref(), "the next call")?;
    usage.admit(config, *next).map_err(|error| Finding::policy(error.to_string()))
}

pub(crate) fn passed(facts: &Facts) -> RuleResult {
    match known(facts.verification.as_ref(), "how verification ended")? {
        Outcome::Pass => Ok(()),
        other @ (Outcome::AskUser | Outcome::InterventionRequired | Outcome::Halt) => {
            Err(Finding::policy(format!("verification ended in {other}")))
        }
    }
}

/// Checks a condition for leaving the sandbox that must be known to be `false`.
pub(crate) fn absent(fact: Option<bool>, what: &str, reason: &str) -> RuleResult {
    if *known(fact.as_ref(), what)? { Err(Finding::policy(reason)) } else { Ok(()) }
}
