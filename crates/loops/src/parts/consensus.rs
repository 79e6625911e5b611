//! Several reviewers, of whom enough must approve.

use std::collections::BTreeMap;

use windlass_kernel::run::plan::{Doer, Gate, Reviewer};
use windlass_kernel::run::{APPROVED, CONDITIONAL, REJECTED};
use windlass_text::Position;
use windlass_text::yaml::Node;

use crate::error::{Diagnostic, Problem, shown};
use crate::parts::doer::{self, Context};
use crate::parts::fields::{self, Fields};
use crate::parts::{number, text};

/// The most reviewers.
const REVIEWERS_MAX: usize = 20;
/// The longest check-list.
const CHECKLIST_MAX: usize = 100;

pub fn read(node: &Node, context: Context<'_>) -> Result<Doer, Diagnostic> {
    let known = ["consensus", "reviewers", "quorum", "checklist"];
    let fields = Fields::new(node, "doer", "a consensus as doer", &known)?;
    let question = fields.required("consensus")?;
    let question = text::prose(question, "consensus", text::LINE_CHARS_MAX * 8)?;
    let reviewers = reviewers(fields.required("reviewers")?, context)?;
    let all = u32::try_from(reviewers.len()).unwrap_or(u32::MAX);
    let quorum = fields.get("quorum").map(|node| number::small(node, "quorum", all));
    let checklist = fields.get("checklist").map(checklist).transpose()?;
    Ok(Doer::Consensus {
        checklist: checklist.unwrap_or_default(),
        question,
        quorum: quorum.transpose()?.unwrap_or(all),
        reviewers,
    })
}

/// The entries of a list that has 1 to `max` of them.
fn entries<'a>(node: &'a Node, key: &'static str, max: usize) -> Result<&'a [Node], Diagnostic> {
    let items = fields::list(node, key)?;
    if items.is_empty() {
        return Err(Problem::NoEntries { key }.at(node.position));
    }
    if items.len() > max {
        return Err(Problem::TooMany { key, max }.at(node.position));
    }
    Ok(items)
}

fn checklist(node: &Node) -> Result<Vec<String>, Diagnostic> {
    let items = entries(node, "checklist", CHECKLIST_MAX)?;
    items.iter().map(|item| text::line(item, "checklist")).collect()
}

fn reviewers(node: &Node, context: Context<'_>) -> Result<Vec<Reviewer>, Diagnostic> {
    let mut seen = BTreeMap::new();
    let mut reviewers = Vec::new();
    for item in entries(node, "reviewers", REVIEWERS_MAX)? {
        let reviewer = reviewer(item, context)?;
        // A review is recorded under a name: an agent and a person may not share one.
        if let Some(first_line) = seen.insert(reviewer.name().to_owned(), item.position.line) {
            let name = shown(reviewer.name());
            return Err(
                Problem::DuplicateName { what: "the reviewer", name, first_line }.at(item.position)
            );
        }
        reviewers.push(reviewer);
    }
    Ok(reviewers)
}

fn reviewer(node: &Node, context: Context<'_>) -> Result<Reviewer, Diagnostic> {
    let fields = Fields::new(node, "reviewers", "a reviewer", &["agent", "prompt", "person"])?;
    if fields.get("person").is_none() {
        fields.required("agent")?;
        return Ok(match doer::agent(node, context)? {
            Doer::Agent { agent, prompt } => Reviewer::Agent { agent, prompt },
            Doer::Builtin { .. }
            | Doer::Command { .. }
            | Doer::Consensus { .. }
            | Doer::Person { .. } => return Err(Problem::OneDoer.at(node.position)),
        });
    }
    let fields = Fields::new(node, "reviewers", "a person as reviewer", &["person"])?;
    let person = fields.required("person")?;
    let name = text::line(person, "person")?;
    if name.trim() != name || name.chars().count() > text::NAME_CHARS_MAX {
        let problem = Problem::BadName {
            what: "the name of a person",
            found: shown(&name),
            allowed: "text without surrounding spaces",
            max: text::NAME_CHARS_MAX,
        };
        return Err(problem.at(person.position));
    }
    Ok(Reviewer::Person { name })
}

/// Checks that the gate of a consensus maps every verdict that reviewers can give.
pub fn check_gate(
    id: &str,
    doer: &Doer,
    gate: Option<&Gate>,
    position: Position,
) -> Result<(), Diagnostic> {
    let Doer::Consensus { .. } = doer else { return Ok(()) };
    let Some(gate) = gate else {
        let message = format!("the phase `{id}` asks reviewers and has no gate");
        return Err(Problem::ConsensusGate(message).at(position));
    };
    let missing = [APPROVED, CONDITIONAL, REJECTED]
        .into_iter()
        .find(|verdict| !gate.verdicts.contains_key(*verdict));
    match missing {
        None => Ok(()),
        Some(verdict) => {
            let message = format!(
                "the gate `{}` of the phase `{id}` does not map the verdict `{verdict}`",
                gate.id
            );
            Err(Problem::ConsensusGate(message).at(position))
        }
    }
}
