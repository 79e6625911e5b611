//! Verdicts and their effects.

use std::collections::BTreeMap;

use windlass_kernel::run::plan::{Effect, FAILED, RunOutcome, Trigger};
use windlass_text::yaml::{Node, Value};
use windlass_text::{Position, nearest};

use crate::error::{Diagnostic, Problem, shown};
use crate::parts::fields::{self, Fields};
use crate::parts::{number, settings, text};

/// How deep `then` may be nested.
pub const THEN_MAX: usize = 4;
/// How often a phase may be done again.
const REDO_MAX: u32 = 1000;

/// A phase that an effect names.
#[derive(Debug)]
pub struct Reference {
    pub position: Position,
    pub phase: String,
    pub kind: ReferenceKind,
}

/// The effect that names a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceKind {
    Intervene,
    Redo,
}

impl ReferenceKind {
    pub const fn key(self) -> &'static str {
        match self {
            Self::Intervene => "`intervene`",
            Self::Redo => "`redo`",
        }
    }
}

/// A gate or a check, as messages name it.
#[derive(Clone, Copy)]
pub struct Judge<'a> {
    pub what: &'static str,
    pub id: &'a str,
    pub position: Position,
}

/// Reads all verdicts and collects the phases that they name.
pub fn verdicts(
    node: Option<&Node>,
    judge: Judge<'_>,
    references: &mut Vec<Reference>,
) -> Result<BTreeMap<String, Effect>, Diagnostic> {
    let none = |position| Problem::NoVerdicts(judge.what, judge.id.to_owned()).at(position);
    let node = node.ok_or_else(|| none(judge.position))?;
    let entries = fields::map(node, "verdicts")?;
    if entries.is_empty() {
        return Err(none(node.position));
    }
    let mut verdicts = BTreeMap::new();
    for (key, value) in entries {
        if !text::is_word(&key.name) {
            return Err(text::bad_word(&key.name, "a verdict").at(key.position));
        }
        if matches!(value.value, Value::Null) {
            return Err(Problem::NoEffect(key.name.clone()).at(key.position));
        }
        verdicts.insert(key.name.clone(), effect(value, 0, references)?);
    }
    // `failed` is not a verdict on work: alone it would let only failures continue.
    let mut given = verdicts.iter().filter(|(name, _)| name.as_str() != FAILED);
    if !given.any(|(_, effect)| continues(effect)) {
        return Err(Problem::NeverContinues(judge.what, judge.id.to_owned()).at(node.position));
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

fn effect(
    node: &Node,
    depth: usize,
    references: &mut Vec<Reference>,
) -> Result<Effect, Diagnostic> {
    if depth > THEN_MAX {
        return Err(Problem::ThenTooDeep(THEN_MAX).at(node.position));
    }
    if let Value::Text(_) = node.value {
        let words = [("continue", true), ("block", false)];
        let goes_on = fields::choice(node, "effect", &words)?;
        return Ok(if goes_on { Effect::Continue } else { Effect::Block });
    }
    let all = ["redo", "max", "then", "hold", "approvals", "intervene", "stop", "outcome"];
    let fields = Fields::new(node, "effect", "an effect", &all)?;
    let [kind] = fields.present(&["redo", "hold", "intervene", "stop"])[..] else {
        return Err(Problem::OneEffect.at(node.position));
    };
    match kind {
        "redo" => {
            let fields = Fields::new(node, "effect", "`redo`", &["redo", "max", "then"])?;
            let phase = named(fields.required("redo")?, ReferenceKind::Redo, references)?;
            let max = number::small(fields.required("max")?, "max", REDO_MAX)?;
            Ok(Effect::Redo { max, phase, then: then(&fields, depth, references)? })
        }
        "intervene" => {
            let fields = Fields::new(node, "effect", "`intervene`", &["intervene", "then"])?;
            let phase = named(fields.required("intervene")?, ReferenceKind::Intervene, references)?;
            Ok(Effect::Intervene { phase, then: then(&fields, depth, references)? })
        }
        "hold" => hold(node),
        _ => stop(node),
    }
}

fn named(
    node: &Node,
    kind: ReferenceKind,
    references: &mut Vec<Reference>,
) -> Result<String, Diagnostic> {
    let key = match kind {
        ReferenceKind::Intervene => "intervene",
        ReferenceKind::Redo => "redo",
    };
    let phase = fields::string(node, key)?.to_owned();
    references.push(Reference { position: node.position, phase: phase.clone(), kind });
    Ok(phase)
}

fn then(
    fields: &Fields<'_>,
    depth: usize,
    references: &mut Vec<Reference>,
) -> Result<Box<Effect>, Diagnostic> {
    let Some(node) = fields.get("then") else { return Ok(Box::new(Effect::Block)) };
    effect(node, depth + 1, references).map(Box::new)
}

fn hold(node: &Node) -> Result<Effect, Diagnostic> {
    let fields = Fields::new(node, "effect", "`hold`", &["hold", "approvals"])?;
    let triggers = [Trigger::EscalationRequested, Trigger::WaiverRequested]
        .map(|trigger| (trigger.as_str(), trigger));
    let trigger = fields::choice(fields.required("hold")?, "hold", &triggers)?;
    let approvals = fields.get("approvals").map(settings::approvals).transpose()?;
    Ok(Effect::Hold { approvals, trigger })
}

fn stop(node: &Node) -> Result<Effect, Diagnostic> {
    let fields = Fields::new(node, "effect", "`stop`", &["stop", "outcome"])?;
    let reason = text::line(fields.required("stop")?, "stop")?;
    let outcomes =
        [RunOutcome::Blocked, RunOutcome::EscalationRequested, RunOutcome::WaiverRequested]
            .map(|outcome| (outcome.as_str(), outcome));
    let outcome = fields.get("outcome").map(|node| fields::choice(node, "outcome", &outcomes));
    Ok(Effect::Stop { outcome: outcome.transpose()?.unwrap_or(RunOutcome::Blocked), reason })
}

/// The problem of a name that is none of the phases `known`.
pub fn unknown<'a>(
    found: &str,
    key: &'static str,
    known: impl IntoIterator<Item = &'a str>,
) -> Problem {
    let suggestion = nearest(found, known).map(str::to_owned);
    Problem::UnknownPhase { key, found: shown(found), suggestion }
}
