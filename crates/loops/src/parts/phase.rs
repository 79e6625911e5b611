//! One phase with its checks and its gate.

use std::collections::BTreeMap;

use windlass_kernel::run::plan::{Check, CheckTiming, Doer, Effect, Gate, Phase, PhaseCondition};
use windlass_text::yaml::{Node, Value};
use windlass_text::{Glob, Position};

use crate::error::{Diagnostic, Problem, shown};
use crate::parts::doer::{self, Context};
use crate::parts::effect::{self, Judge, Reference};
use crate::parts::fields::{self, Fields};
use crate::parts::{consensus, number, text};

/// A phase with the positions that errors of the graph refer to.
#[derive(Debug)]
pub struct Draft {
    pub phase: Phase,
    pub position: Position,
    /// The position of each name in `needs`.
    pub need_positions: Vec<Position>,
    pub references: Vec<Reference>,
    /// Whether it takes part only if a variant includes it.
    pub optional: bool,
}

const KEYS: [&str; 10] =
    ["id", "title", "needs", "when", "optional", "branch", "doer", "outputs", "checks", "gate"];

pub fn read(node: &Node, context: Context<'_>) -> Result<Draft, Diagnostic> {
    let fields = Fields::new(node, "phases", "a phase", &KEYS)?;
    let id_node = fields.required("id")?;
    let id = text::id(id_node, "id", "the id of a phase")?;
    let title = fields.get("title").map(|node| text::line(node, "title")).transpose()?;
    let (needs, need_positions) = needs(fields.get("needs"))?;
    let when = fields.get("when").map(when).transpose()?.unwrap_or_default();
    let doer = doer::read(fields.required("doer")?, context)?;
    let outputs = outputs(fields.get("outputs"))?;
    let mut references = Vec::new();
    let checks = checks(fields.get("checks"), context, &mut references)?;
    let gate = fields.get("gate").map(|node| gate(node, &mut references)).transpose()?;
    let optional = fields.get("optional").map(|node| fields::boolean(node, "optional"));
    let optional = optional.transpose()?.unwrap_or(false);
    let branch = fields.get("branch").map(|node| branch(node, &id, &doer, context));
    let branch = branch.transpose()?.unwrap_or(false);
    let gate_position = fields.get("gate").map_or(id_node.position, |node| node.position);
    consensus::check_gate(&id, &doer, gate.as_ref(), gate_position)?;
    let phase = Phase { branch, checks, doer, gate, id, needs, outputs, title, when };
    Ok(Draft { phase, position: id_node.position, need_positions, references, optional })
}

/// Whether a phase works in a work tree of its own, which only some doers can.
fn branch(node: &Node, id: &str, doer: &Doer, context: Context<'_>) -> Result<bool, Diagnostic> {
    if !fields::boolean(node, "branch")? {
        return Ok(false);
    }
    let reader = match doer {
        Doer::Agent { .. } | Doer::Command { .. } => None,
        Doer::Builtin { .. } => Some("a builtin"),
        Doer::Consensus { .. } => Some("a consensus"),
        Doer::Person { .. } => Some("a person"),
    };
    match reader {
        Some(doer) => Err(Problem::BranchDoer(id.to_owned(), doer).at(node.position)),
        None if !context.checkpoints => {
            Err(Problem::BranchWithoutCheckpoints(id.to_owned()).at(node.position))
        }
        None => Ok(true),
    }
}

fn needs(node: Option<&Node>) -> Result<(Vec<String>, Vec<Position>), Diagnostic> {
    let Some(node) = node else { return Ok((Vec::new(), Vec::new())) };
    let items = fields::list(node, "needs")?;
    let mut seen = BTreeMap::new();
    let mut names = Vec::with_capacity(items.len());
    for item in items {
        let name = fields::string(item, "needs")?;
        if let Some(first_line) = seen.insert(name, item.position.line) {
            let problem =
                Problem::DuplicateName { what: "the need", name: shown(name), first_line };
            return Err(problem.at(item.position));
        }
        names.push(name.to_owned());
    }
    Ok((names, items.iter().map(|item| item.position).collect()))
}

fn when(node: &Node) -> Result<PhaseCondition, Diagnostic> {
    if let Value::Text(_) = node.value {
        return fields::choice(node, "when", &[("intervention", ())])
            .map(|()| PhaseCondition::Intervention);
    }
    let fields = Fields::new(node, "when", "a condition", &["fact", "in"])?;
    let fact = text::word(fields.required("fact")?, "fact", "the name of a fact")?;
    let values = fields.required("in")?;
    let one_of = fields::list(values, "in")?
        .iter()
        .map(|item| text::line(item, "in"))
        .collect::<Result<Vec<_>, _>>()?;
    if one_of.is_empty() {
        return Err(Problem::Empty("in".to_owned()).at(values.position));
    }
    Ok(PhaseCondition::Fact { fact, one_of })
}

fn outputs(node: Option<&Node>) -> Result<Vec<String>, Diagnostic> {
    let Some(node) = node else { return Ok(Vec::new()) };
    let mut patterns = Vec::new();
    for item in fields::list(node, "outputs")? {
        let pattern = text::line(item, "outputs")?;
        Glob::in_workspace(&pattern)
            .map_err(|error| Problem::Pattern(error.to_string()).at(item.position))?;
        patterns.push(pattern);
    }
    Ok(patterns)
}

const CHECK_FIELDS: &[&str] = &["id", "at", "doer", "pinned", "verdicts"];

fn checks(
    node: Option<&Node>,
    context: Context<'_>,
    references: &mut Vec<Reference>,
) -> Result<Vec<Check>, Diagnostic> {
    let Some(node) = node else { return Ok(Vec::new()) };
    let mut seen = BTreeMap::new();
    let mut checks = Vec::new();
    for item in fields::list(node, "checks")? {
        let fields = Fields::new(item, "checks", "a check", CHECK_FIELDS)?;
        let id_node = fields.required("id")?;
        let id = text::id(id_node, "id", "the id of a check")?;
        if let Some(first_line) = seen.insert(id.clone(), id_node.position.line) {
            let problem = Problem::DuplicateName { what: "the check", name: id, first_line };
            return Err(problem.at(id_node.position));
        }
        let at = timing(fields.required("at")?)?;
        let doer_node = fields.required("doer")?;
        let doer = doer::read(doer_node, context)?;
        let people = match &doer {
            Doer::Consensus { .. } => Some("reviewers: only a phase can ask them"),
            Doer::Person { .. } => Some("a person: only a phase can ask one"),
            Doer::Agent { .. } | Doer::Builtin { .. } | Doer::Command { .. } => None,
        };
        if let Some(people) = people {
            return Err(Problem::CheckByPeople(people).at(doer_node.position));
        }
        let judge = Judge { what: "check", id: &id, position: id_node.position };
        let verdicts = effect::verdicts(fields.get("verdicts"), judge, references)?;
        let pinned_node = fields.get("pinned");
        let pinned = doer::pinned(pinned_node)?;
        if let (Some(node), false) = (pinned_node, matches!(doer, Doer::Command { .. })) {
            let message = format!("the check `{id}` has `pinned`, but no command");
            let hint = "remove `pinned`: only a program is given files";
            return Err(Problem::Rule { message, hint }.at(node.position));
        }
        if let CheckTiming::During { .. } = at {
            audit_rules(&id, &doer, &verdicts).map_err(|problem| problem.at(id_node.position))?;
        }
        checks.push(Check { at, doer, id, pinned, verdicts });
    }
    Ok(checks)
}

/// `before`, `after`, or `{ during: { every: 7, chance_percent: 5 } }`.
fn timing(node: &Node) -> Result<CheckTiming, Diagnostic> {
    if !matches!(node.value, Value::Map(_)) {
        let words = [("before", CheckTiming::Before), ("after", CheckTiming::After)];
        return fields::choice(node, "at", &words);
    }
    let fields = Fields::new(node, "at", "the time of a check", &["during"])?;
    let during = fields.required("during")?;
    let fields = Fields::new(during, "during", "an audit", &["every", "chance_percent"])?;
    let whole = |name: &'static str, least: u64, most: u64| {
        fields.get(name).map(|node| number::whole(node, name, least, most)).transpose()
    };
    let every = whole("every", 1, 10_000)?.unwrap_or(10_000);
    let chance = whole("chance_percent", 0, 100)?.unwrap_or_default();
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    Ok(CheckTiming::During { chance_percent: small(chance), every: small(every), seed: None })
}

/// An audit is made by an agent, and lets the work go on or blocks it.
fn audit_rules(id: &str, doer: &Doer, verdicts: &BTreeMap<String, Effect>) -> Result<(), Problem> {
    let message = if !matches!(doer, Doer::Agent { .. }) {
        format!("the check `{id}` is made during the work, but not by an agent")
    } else if !verdicts.values().all(|effect| matches!(effect, Effect::Continue | Effect::Block)) {
        format!(
            "the check `{id}` is made during the work, so its verdicts can only continue or block"
        )
    } else {
        return Ok(());
    };
    let hint = "make it a check before or after the work, or change it";
    Err(Problem::Rule { message, hint })
}

fn gate(node: &Node, references: &mut Vec<Reference>) -> Result<Gate, Diagnostic> {
    let fields = Fields::new(node, "gate", "a gate", &["id", "verdicts"])?;
    let id_node = fields.required("id")?;
    let id = text::id(id_node, "id", "the id of a gate")?;
    let judge = Judge { what: "gate", id: &id, position: id_node.position };
    let verdicts = effect::verdicts(fields.get("verdicts"), judge, references)?;
    Ok(Gate { id, verdicts })
}
