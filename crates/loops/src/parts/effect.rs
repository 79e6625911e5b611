//! What follows from a verdict.

use std::collections::BTreeMap;

use windlass_kernel::run::plan::{Effect, FAILED, RunOutcome, Trigger};

use crate::error::{Fault, Place, Problem, shown};
use crate::parts::shape::{self, Fields};
use crate::parts::{number, settings, text};
use crate::yaml::{Node, Value};

/// How deep `then` may be nested.
pub const THEN_MAX: usize = 4;
/// How often a phase may be done again.
const REDO_MAX: u32 = 1000;

/// A phase that an effect names.
#[derive(Debug)]
pub struct Reference {
    pub at: Place,
    pub phase: String,
    pub by: Way,
}

/// How an effect leads to a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Intervene,
    Redo,
}

impl Way {
    pub const fn key(self) -> &'static str {
        match self {
            Self::Intervene => "`intervene`",
            Self::Redo => "`redo`",
        }
    }
}

/// What judges: a gate or a check, by its name.
#[derive(Clone, Copy)]
pub struct Judge<'a> {
    pub what: &'static str,
    pub id: &'a str,
    pub at: Place,
}

/// Reads all verdicts, and collects the phases that they name.
pub fn verdicts(
    node: Option<&Node>,
    judge: Judge<'_>,
    references: &mut Vec<Reference>,
) -> Result<BTreeMap<String, Effect>, Fault> {
    let none = |at| Problem::NoVerdicts(judge.what, judge.id.to_owned()).at(at);
    let node = node.ok_or_else(|| none(judge.at))?;
    let entries = shape::map(node, "verdicts")?;
    if entries.is_empty() {
        return Err(none(node.at));
    }
    let mut verdicts = BTreeMap::new();
    for (key, value) in entries {
        if !text::is_word(&key.name) {
            return Err(text::bad_word(&key.name, "a verdict").at(key.at));
        }
        if matches!(value.value, Value::Null) {
            return Err(Problem::NoEffect(key.name.clone()).at(key.at));
        }
        verdicts.insert(key.name.clone(), effect(value, 0, references)?);
    }
    // What failed gave no verdict: this one alone would let nothing but failures pass.
    let mut given = verdicts.iter().filter(|(name, _)| name.as_str() != FAILED);
    if !given.any(|(_, effect)| continues(effect)) {
        return Err(Problem::NeverContinues(judge.what, judge.id.to_owned()).at(node.at));
    }
    Ok(verdicts)
}

fn continues(effect: &Effect) -> bool {
    match effect {
        Effect::Continue => true,
        Effect::Intervene { then, .. } | Effect::Redo { then, .. } => continues(then),
        Effect::Block | Effect::Hold { .. } | Effect::Stop { .. } => false,
    }
}

fn effect(node: &Node, depth: usize, references: &mut Vec<Reference>) -> Result<Effect, Fault> {
    if depth > THEN_MAX {
        return Err(Problem::ThenTooDeep(THEN_MAX).at(node.at));
    }
    if let Value::Text(_) = node.value {
        let words = [("continue", true), ("block", false)];
        let goes_on = shape::choice(node, "effect", &words)?;
        return Ok(if goes_on { Effect::Continue } else { Effect::Block });
    }
    let all = ["redo", "max", "then", "hold", "approvals", "intervene", "stop", "outcome"];
    let fields = Fields::of(node, "effect", "an effect", &all)?;
    let [kind] = fields.among(&["redo", "hold", "intervene", "stop"])[..] else {
        return Err(Problem::OneEffect.at(node.at));
    };
    match kind {
        "redo" => {
            let fields = Fields::of(node, "effect", "`redo`", &["redo", "max", "then"])?;
            let phase = named(fields.need("redo")?, Way::Redo, references)?;
            let max = number::small(fields.need("max")?, "max", REDO_MAX)?;
            Ok(Effect::Redo { max, phase, then: then(&fields, depth, references)? })
        }
        "intervene" => {
            let fields = Fields::of(node, "effect", "`intervene`", &["intervene", "then"])?;
            let phase = named(fields.need("intervene")?, Way::Intervene, references)?;
            Ok(Effect::Intervene { phase, then: then(&fields, depth, references)? })
        }
        "hold" => hold(node),
        _ => stop(node),
    }
}

fn named(node: &Node, by: Way, references: &mut Vec<Reference>) -> Result<String, Fault> {
    let key = match by {
        Way::Intervene => "intervene",
        Way::Redo => "redo",
    };
    let phase = shape::string(node, key)?.to_owned();
    references.push(Reference { at: node.at, phase: phase.clone(), by });
    Ok(phase)
}

fn then(
    fields: &Fields<'_>,
    depth: usize,
    references: &mut Vec<Reference>,
) -> Result<Box<Effect>, Fault> {
    let Some(node) = fields.get("then") else { return Ok(Box::new(Effect::Block)) };
    effect(node, depth + 1, references).map(Box::new)
}

fn hold(node: &Node) -> Result<Effect, Fault> {
    let fields = Fields::of(node, "effect", "`hold`", &["hold", "approvals"])?;
    let triggers = [Trigger::EscalationRequested, Trigger::WaiverRequested]
        .map(|trigger| (trigger.as_str(), trigger));
    let trigger = shape::choice(fields.need("hold")?, "hold", &triggers)?;
    let approvals = fields.get("approvals").map(settings::approvals).transpose()?;
    Ok(Effect::Hold { approvals, trigger })
}

fn stop(node: &Node) -> Result<Effect, Fault> {
    let fields = Fields::of(node, "effect", "`stop`", &["stop", "outcome"])?;
    let reason = text::line(fields.need("stop")?, "stop")?;
    let outcomes =
        [RunOutcome::Blocked, RunOutcome::EscalationRequested, RunOutcome::WaiverRequested]
            .map(|outcome| (outcome.as_str(), outcome));
    let outcome = fields.get("outcome").map(|node| shape::choice(node, "outcome", &outcomes));
    Ok(Effect::Stop { outcome: outcome.transpose()?.unwrap_or(RunOutcome::Blocked), reason })
}

/// A message's name for a phase that is not there.
pub fn unknown(found: &str, key: &'static str, near: Option<String>) -> Problem {
    Problem::UnknownPhase { key, found: shown(found), near }
}
