//! Several reviewers, of whom enough must approve.

use std::collections::BTreeMap;

use windlass_kernel::run::plan::{Doer, Gate, Reviewer};
use windlass_kernel::run::{APPROVED, CONDITIONAL, REJECTED};

use crate::error::{Fault, Place, Problem, shown};
use crate::parts::doer::{self, Context};
use crate::parts::shape::{self, Fields};
use crate::parts::{number, text};
use crate::yaml::Node;

/// The most reviewers.
const REVIEWERS_MAX: usize = 20;
/// The longest check-list.
const CHECKLIST_MAX: usize = 100;

pub fn read(node: &Node, context: Context<'_>) -> Result<Doer, Fault> {
    let known = ["consensus", "reviewers", "quorum", "checklist"];
    let fields = Fields::of(node, "doer", "a consensus as doer", &known)?;
    let question = fields.need("consensus")?;
    let question = text::prose(question, "consensus", text::LINE_CHARS_MAX * 8)?;
    let reviewers = reviewers(fields.need("reviewers")?, context)?;
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

/// The entries of a list that has some, and not too many.
fn some<'a>(node: &'a Node, key: &'static str, most: usize) -> Result<&'a [Node], Fault> {
    let items = shape::list(node, key)?;
    if items.is_empty() {
        return Err(Problem::NoEntries { key }.at(node.at));
    }
    if items.len() > most {
        return Err(Problem::TooMany { key, most }.at(node.at));
    }
    Ok(items)
}

fn checklist(node: &Node) -> Result<Vec<String>, Fault> {
    let items = some(node, "checklist", CHECKLIST_MAX)?;
    items.iter().map(|item| text::line(item, "checklist")).collect()
}

fn reviewers(node: &Node, context: Context<'_>) -> Result<Vec<Reviewer>, Fault> {
    let mut seen = BTreeMap::new();
    let mut reviewers = Vec::new();
    for item in some(node, "reviewers", REVIEWERS_MAX)? {
        let reviewer = reviewer(item, context)?;
        // A review is recorded under a name: an agent and a person may not share one.
        if let Some(first) = seen.insert(reviewer.name().to_owned(), item.at.line) {
            let name = shown(reviewer.name());
            return Err(Problem::DuplicateName { what: "the reviewer", name, first }.at(item.at));
        }
        reviewers.push(reviewer);
    }
    Ok(reviewers)
}

fn reviewer(node: &Node, context: Context<'_>) -> Result<Reviewer, Fault> {
    let fields = Fields::of(node, "reviewers", "a reviewer", &["agent", "prompt", "person"])?;
    if fields.get("person").is_none() {
        fields.need("agent")?;
        return Ok(match doer::agent(node, context)? {
            Doer::Agent { agent, prompt } => Reviewer::Agent { agent, prompt },
            Doer::Builtin { .. }
            | Doer::Command { .. }
            | Doer::Consensus { .. }
            | Doer::Person { .. } => return Err(Problem::OneDoer.at(node.at)),
        });
    }
    let fields = Fields::of(node, "reviewers", "a person as reviewer", &["person"])?;
    let person = fields.need("person")?;
    let name = text::line(person, "person")?;
    if name.trim() != name || name.chars().count() > text::NAME_CHARS_MAX {
        let problem = Problem::BadName {
            what: "the name of a person",
            found: shown(&name),
            allowed: "text without space around it",
            most: text::NAME_CHARS_MAX,
        };
        return Err(problem.at(person.at));
    }
    Ok(Reviewer::Person { name })
}

/// The gate of a consensus knows everything that it can come to.
pub fn check_gate(id: &str, doer: &Doer, gate: Option<&Gate>, at: Place) -> Result<(), Fault> {
    let Doer::Consensus { .. } = doer else { return Ok(()) };
    let Some(gate) = gate else {
        let message = format!("the phase `{id}` asks reviewers and has no gate");
        return Err(Problem::ConsensusGate(message).at(at));
    };
    let missing = [APPROVED, CONDITIONAL, REJECTED]
        .into_iter()
        .find(|verdict| !gate.verdicts.contains_key(*verdict));
    match missing {
        None => Ok(()),
        Some(verdict) => {
            let message = format!(
                "the gate `{}` of the phase `{id}` does not know the verdict `{verdict}`",
                gate.id
            );
            Err(Problem::ConsensusGate(message).at(at))
        }
    }
}
