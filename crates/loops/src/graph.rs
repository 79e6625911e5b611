//! The graph of the phases: sorted by `needs`, with every reference resolved.

mod ancestors;
pub mod select;
mod sort;

use std::collections::BTreeMap;

use windlass_kernel::run::plan::PhaseCondition;

use crate::error::{Diagnostic, Problem};
use crate::parts::effect::{self, ReferenceKind};
use crate::parts::phase::Draft;

/// The graph, with phases as indices into `drafts`.
struct Graph<'a> {
    drafts: &'a [Draft],
    /// For each phase the phases that it needs.
    needs: Vec<Vec<usize>>,
    /// The phases that effects name, in the file's order.
    references: Vec<Link<'a>>,
}

/// A phase that an effect names.
struct Link<'a> {
    judged: usize,
    target: usize,
    reference: &'a effect::Reference,
}

impl Graph<'_> {
    fn id(&self, index: usize) -> String {
        self.drafts.get(index).map(|draft| draft.phase.id.clone()).unwrap_or_default()
    }

    fn is_intervention(&self, index: usize) -> bool {
        self.drafts.get(index).is_some_and(|draft| draft.phase.when == PhaseCondition::Intervention)
    }

    fn needs(&self, index: usize) -> &[usize] {
        self.needs.get(index).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Checks the graph and sorts the phases.
pub fn order(drafts: Vec<Draft>) -> Result<Vec<Draft>, Diagnostic> {
    let order = {
        let graph = resolve(&drafts)?;
        let order = sort::sort(&graph)?;
        interventions(&graph)?;
        ancestors::check(&graph, &order)?;
        order
    };
    let mut drafts: Vec<Option<Draft>> = drafts.into_iter().map(Some).collect();
    Ok(order.into_iter().filter_map(|index| drafts.get_mut(index)?.take()).collect())
}

fn resolve(drafts: &[Draft]) -> Result<Graph<'_>, Diagnostic> {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, draft) in drafts.iter().enumerate() {
        let name = draft.phase.id.as_str();
        if let Some(first) = names.insert(name, index) {
            let first_line = drafts.get(first).map_or(0, |draft| draft.position.line);
            let problem =
                Problem::DuplicateName { what: "the phase", name: name.to_owned(), first_line };
            return Err(problem.at(draft.position));
        }
    }
    let unknown = |found: &str, key| effect::unknown(found, key, names.keys().copied());
    let mut graph = Graph { drafts, needs: Vec::with_capacity(drafts.len()), references: vec![] };
    for (index, draft) in drafts.iter().enumerate() {
        let mut needs = Vec::with_capacity(draft.phase.needs.len());
        for (name, position) in draft.phase.needs.iter().zip(&draft.need_positions) {
            let Some(need) = names.get(name.as_str()) else {
                return Err(unknown(name, "`needs`").at(*position));
            };
            if *need == index {
                return Err(Problem::NeedsItself(name.clone()).at(*position));
            }
            needs.push(*need);
        }
        graph.needs.push(needs);
        for reference in &draft.references {
            let Some(target) = names.get(reference.phase.as_str()) else {
                return Err(unknown(&reference.phase, reference.kind.key()).at(reference.position));
            };
            graph.references.push(Link { judged: index, target: *target, reference });
        }
    }
    Ok(graph)
}

/// Checks that no phase needs an intervention, which a run may never enter, and that every
/// intervention is reachable from a regular phase.
fn interventions(graph: &Graph<'_>) -> Result<(), Diagnostic> {
    for (index, draft) in graph.drafts.iter().enumerate() {
        for (need, position) in graph.needs(index).iter().zip(&draft.need_positions) {
            if graph.is_intervention(*need) {
                let (phase, need) = (draft.phase.id.clone(), graph.id(*need));
                return Err(Problem::NeedsIntervention { phase, need }.at(*position));
            }
        }
    }
    let mut leads: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for link in
        graph.references.iter().filter(|link| link.reference.kind == ReferenceKind::Intervene)
    {
        let problem = if !graph.is_intervention(link.target) {
            Problem::NotIntervention(graph.id(link.target))
        } else if link.target == link.judged {
            Problem::IntervenesInItself(graph.id(link.target))
        } else {
            leads.entry(link.judged).or_default().push(link.target);
            continue;
        };
        return Err(problem.at(link.reference.position));
    }
    let mut reached: Vec<bool> =
        (0..graph.drafts.len()).map(|index| !graph.is_intervention(index)).collect();
    let mut open: Vec<usize> =
        leads.keys().copied().filter(|index| !graph.is_intervention(*index)).collect();
    while let Some(index) = open.pop() {
        for target in leads.get(&index).into_iter().flatten() {
            if let Some(seen @ false) = reached.get_mut(*target) {
                *seen = true;
                open.push(*target);
            }
        }
    }
    let lost = graph.drafts.iter().zip(reached).find(|(_, reached)| !reached);
    lost.map_or(Ok(()), |(draft, _)| {
        Err(Problem::NoIntervene(draft.phase.id.clone()).at(draft.position))
    })
}
