//! The phases as a graph: each after those it needs, and every name leads somewhere.

mod ancestors;
pub mod select;
mod sort;

use std::collections::BTreeMap;

use windlass_kernel::run::plan::PhaseCondition;

use crate::error::{Fault, Problem};
use crate::near;
use crate::parts::effect::{self, Way};
use crate::parts::phase::Draft;

/// What the drafts' names stand for: places in the file's order.
struct Graph<'a> {
    drafts: &'a [Draft],
    /// For each phase those it needs.
    needs: Vec<Vec<usize>>,
    /// For each phase what its gate and checks name, in the file's order.
    references: Vec<Link<'a>>,
}

/// A name in an effect, resolved.
struct Link<'a> {
    judged: usize,
    target: usize,
    reference: &'a effect::Reference,
}

impl Graph<'_> {
    fn id(&self, at: usize) -> String {
        self.drafts.get(at).map(|draft| draft.phase.id.clone()).unwrap_or_default()
    }

    fn is_intervention(&self, at: usize) -> bool {
        self.drafts.get(at).is_some_and(|draft| draft.phase.when == PhaseCondition::Intervention)
    }

    fn needs(&self, at: usize) -> &[usize] {
        self.needs.get(at).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Checks the graph and sorts the phases.
pub fn order(drafts: Vec<Draft>) -> Result<Vec<Draft>, Fault> {
    let order = {
        let graph = resolve(&drafts)?;
        let order = sort::sort(&graph)?;
        interventions(&graph)?;
        ancestors::check(&graph, &order)?;
        order
    };
    let mut drafts: Vec<Option<Draft>> = drafts.into_iter().map(Some).collect();
    Ok(order.into_iter().filter_map(|at| drafts.get_mut(at)?.take()).collect())
}

fn resolve(drafts: &[Draft]) -> Result<Graph<'_>, Fault> {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, draft) in drafts.iter().enumerate() {
        let name = draft.phase.id.as_str();
        if let Some(first) = names.insert(name, at) {
            let first = drafts.get(first).map_or(0, |draft| draft.at.line);
            let problem =
                Problem::DuplicateName { what: "the phase", name: name.to_owned(), first };
            return Err(problem.at(draft.at));
        }
    }
    let unknown = |found: &str, key| {
        let near = near::nearest(found, names.keys().copied());
        effect::unknown(found, key, near)
    };
    let mut graph = Graph { drafts, needs: Vec::with_capacity(drafts.len()), references: vec![] };
    for (at, draft) in drafts.iter().enumerate() {
        let mut needs = Vec::with_capacity(draft.phase.needs.len());
        for (name, place) in draft.phase.needs.iter().zip(&draft.needs_at) {
            let Some(need) = names.get(name.as_str()) else {
                return Err(unknown(name, "`needs`").at(*place));
            };
            if *need == at {
                return Err(Problem::NeedsItself(name.clone()).at(*place));
            }
            needs.push(*need);
        }
        graph.needs.push(needs);
        for reference in &draft.references {
            let Some(target) = names.get(reference.phase.as_str()) else {
                return Err(unknown(&reference.phase, reference.by.key()).at(reference.at));
            };
            graph.references.push(Link { judged: at, target: *target, reference });
        }
    }
    Ok(graph)
}

/// No phase waits for an intervention, which a run may never enter, and every intervention has a
/// phase from which a run comes to it.
fn interventions(graph: &Graph<'_>) -> Result<(), Fault> {
    for (at, draft) in graph.drafts.iter().enumerate() {
        for (need, place) in graph.needs(at).iter().zip(&draft.needs_at) {
            if graph.is_intervention(*need) {
                let (phase, need) = (draft.phase.id.clone(), graph.id(*need));
                return Err(Problem::NeedsIntervention { phase, need }.at(*place));
            }
        }
    }
    let mut leads: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for link in graph.references.iter().filter(|link| link.reference.by == Way::Intervene) {
        let problem = if !graph.is_intervention(link.target) {
            Problem::NotIntervention(graph.id(link.target))
        } else if link.target == link.judged {
            Problem::IntervenesInItself(graph.id(link.target))
        } else {
            leads.entry(link.judged).or_default().push(link.target);
            continue;
        };
        return Err(problem.at(link.reference.at));
    }
    let mut reached: Vec<bool> =
        (0..graph.drafts.len()).map(|at| !graph.is_intervention(at)).collect();
    let mut open: Vec<usize> =
        leads.keys().copied().filter(|at| !graph.is_intervention(*at)).collect();
    while let Some(at) = open.pop() {
        for target in leads.get(&at).into_iter().flatten() {
            if let Some(seen @ false) = reached.get_mut(*target) {
                *seen = true;
                open.push(*target);
            }
        }
    }
    let lost = graph.drafts.iter().zip(reached).find(|(_, reached)| !reached);
    lost.map_or(Ok(()), |(draft, _)| Err(Problem::NoIntervene(draft.phase.id.clone()).at(draft.at)))
}
