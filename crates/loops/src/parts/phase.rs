//! One phase with its checks and its gate.

use std::collections::BTreeMap;

use windlass_kernel::run::plan::{Check, CheckTiming, Doer, Gate, Phase, PhaseCondition};

use crate::error::{Fault, Place, Problem, shown};
use crate::parts::doer::{self, Context};
use crate::parts::effect::{self, Judge, Reference};
use crate::parts::shape::{self, Fields};
use crate::parts::{consensus, text};
use crate::yaml::{Node, Value};

/// A phase with the places that the graph's errors name.
#[derive(Debug)]
pub struct Draft {
    pub phase: Phase,
    pub at: Place,
    /// The place of each name in `needs`.
    pub needs_at: Vec<Place>,
    pub references: Vec<Reference>,
    /// Whether it is left out unless a variant includes it.
    pub optional: bool,
}

const KEYS: [&str; 9] =
    ["id", "needs", "when", "optional", "branch", "doer", "outputs", "checks", "gate"];

pub fn read(node: &Node, context: Context<'_>) -> Result<Draft, Fault> {
    let fields = Fields::of(node, "phases", "a phase", &KEYS)?;
    let id_node = fields.need("id")?;
    let id = text::id(id_node, "id", "the id of a phase")?;
    let (needs, needs_at) = needs(fields.get("needs"))?;
    let when = fields.get("when").map(when).transpose()?.unwrap_or_default();
    let doer = doer::read(fields.need("doer")?, context)?;
    let outputs = outputs(fields.get("outputs"))?;
    let mut references = Vec::new();
    let checks = checks(fields.get("checks"), context, &mut references)?;
    let gate = fields.get("gate").map(|node| gate(node, &mut references)).transpose()?;
    let optional = fields.get("optional").map(|node| shape::boolean(node, "optional"));
    let optional = optional.transpose()?.unwrap_or(false);
    let branch = fields.get("branch").map(|node| branch(node, &id, &doer, context));
    let branch = branch.transpose()?.unwrap_or(false);
    let gate_at = fields.get("gate").map_or(id_node.at, |node| node.at);
    consensus::check_gate(&id, &doer, gate.as_ref(), gate_at)?;
    let phase = Phase { branch, checks, doer, gate, id, needs, outputs, when };
    Ok(Draft { phase, at: id_node.at, needs_at, references, optional })
}

/// Whether a phase works in a work tree of its own, which only some can.
fn branch(node: &Node, id: &str, doer: &Doer, context: Context<'_>) -> Result<bool, Fault> {
    if !shape::boolean(node, "branch")? {
        return Ok(false);
    }
    let writes = match doer {
        Doer::Agent { .. } | Doer::Command { .. } => None,
        Doer::Builtin { .. } => Some("a builtin"),
        Doer::Consensus { .. } => Some("a consensus"),
        Doer::Person { .. } => Some("a person"),
    };
    match writes {
        Some(doer) => Err(Problem::BranchDoer(id.to_owned(), doer).at(node.at)),
        None if !context.checkpoints => {
            Err(Problem::BranchWithoutCheckpoints(id.to_owned()).at(node.at))
        }
        None => Ok(true),
    }
}

fn needs(node: Option<&Node>) -> Result<(Vec<String>, Vec<Place>), Fault> {
    let Some(node) = node else { return Ok((Vec::new(), Vec::new())) };
    let items = shape::list(node, "needs")?;
    let mut seen = BTreeMap::new();
    let mut names = Vec::with_capacity(items.len());
    for item in items {
        let name = shape::string(item, "needs")?;
        if let Some(first) = seen.insert(name, item.at.line) {
            let problem = Problem::DuplicateName { what: "the need", name: shown(name), first };
            return Err(problem.at(item.at));
        }
        names.push(name.to_owned());
    }
    Ok((names, items.iter().map(|item| item.at).collect()))
}

fn when(node: &Node) -> Result<PhaseCondition, Fault> {
    if let Value::Text(_) = node.value {
        return shape::choice(node, "when", &[("intervention", ())])
            .map(|()| PhaseCondition::Intervention);
    }
    let fields = Fields::of(node, "when", "a condition", &["fact", "in"])?;
    let fact = text::word(fields.need("fact")?, "fact", "the name of a fact")?;
    let values = fields.need("in")?;
    let one_of = shape::list(values, "in")?
        .iter()
        .map(|item| text::line(item, "in"))
        .collect::<Result<Vec<_>, _>>()?;
    if one_of.is_empty() {
        return Err(Problem::Empty("in".to_owned()).at(values.at));
    }
    Ok(PhaseCondition::Fact { fact, one_of })
}

fn outputs(node: Option<&Node>) -> Result<Vec<String>, Fault> {
    let Some(node) = node else { return Ok(Vec::new()) };
    let mut patterns = Vec::new();
    for item in shape::list(node, "outputs")? {
        let pattern = text::line(item, "outputs")?;
        let outside = pattern.starts_with(['/', '~'])
            || pattern.contains(['\\', ':'])
            || pattern.split('/').any(|part| part.is_empty() || part == ".." || part == ".");
        if outside {
            return Err(Problem::Pattern(shown(&pattern)).at(item.at));
        }
        patterns.push(pattern);
    }
    Ok(patterns)
}

fn checks(
    node: Option<&Node>,
    context: Context<'_>,
    references: &mut Vec<Reference>,
) -> Result<Vec<Check>, Fault> {
    let Some(node) = node else { return Ok(Vec::new()) };
    let mut seen = BTreeMap::new();
    let mut checks = Vec::new();
    for item in shape::list(node, "checks")? {
        let fields = Fields::of(item, "checks", "a check", &["id", "at", "doer", "verdicts"])?;
        let id_node = fields.need("id")?;
        let id = text::id(id_node, "id", "the id of a check")?;
        if let Some(first) = seen.insert(id.clone(), id_node.at.line) {
            let problem = Problem::DuplicateName { what: "the check", name: id, first };
            return Err(problem.at(id_node.at));
        }
        let words = [("before", CheckTiming::Before), ("after", CheckTiming::After)];
        let at = shape::choice(fields.need("at")?, "at", &words)?;
        let doer_node = fields.need("doer")?;
        let doer = doer::read(doer_node, context)?;
        let people = match &doer {
            Doer::Consensus { .. } => Some("reviewers, who are asked only as a phase"),
            Doer::Person { .. } => Some("a person, who is asked only as a phase"),
            Doer::Agent { .. } | Doer::Builtin { .. } | Doer::Command { .. } => None,
        };
        if let Some(people) = people {
            return Err(Problem::CheckByPeople(people).at(doer_node.at));
        }
        let judge = Judge { what: "check", id: &id, at: id_node.at };
        let verdicts = effect::verdicts(fields.get("verdicts"), judge, references)?;
        checks.push(Check { at, doer, id, verdicts });
    }
    Ok(checks)
}

fn gate(node: &Node, references: &mut Vec<Reference>) -> Result<Gate, Fault> {
    let fields = Fields::of(node, "gate", "a gate", &["id", "verdicts"])?;
    let id_node = fields.need("id")?;
    let id = text::id(id_node, "id", "the id of a gate")?;
    let judge = Judge { what: "gate", id: &id, at: id_node.at };
    let verdicts = effect::verdicts(fields.get("verdicts"), judge, references)?;
    Ok(Gate { id, verdicts })
}
