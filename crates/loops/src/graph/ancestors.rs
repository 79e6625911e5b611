//! Checks the targets of effects: `redo` must go back, and `intervene` to a phase that is ready.
//!
//! Whether one phase comes before another is asked for 64 phases at a time, in one pass over the
//! graph: asking for each effect alone would take quadratic time.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Diagnostic, Problem};
use crate::graph::{Graph, Link};
use crate::parts::effect::ReferenceKind;

/// Refuses the first effect in the file with a target that is not allowed.
pub fn check(graph: &Graph<'_>, order: &[usize]) -> Result<(), Diagnostic> {
    let mut asked: BTreeSet<usize> = BTreeSet::new();
    let mut intervened: BTreeSet<usize> = BTreeSet::new();
    for link in &graph.references {
        match link.reference.kind {
            ReferenceKind::Redo => asked.insert(link.target),
            ReferenceKind::Intervene => intervened.insert(link.target),
        };
    }
    asked.extend(intervened.iter().flat_map(|index| graph.needs(*index)));
    let asked: Vec<usize> = asked.into_iter().collect();
    let mut first_wrong = usize::MAX;
    for group in asked.chunks(64) {
        let bits: BTreeMap<usize, u64> =
            group.iter().zip(0..64).map(|(index, bit)| (*index, 1 << bit)).collect();
        let needed: BTreeMap<usize, u64> =
            intervened.iter().map(|index| (*index, mask(graph.needs(*index), &bits))).collect();
        let before = before(graph, order, &bits);
        let is_wrong = |link: &Link<'_>| {
            let before = before.get(link.judged).copied().unwrap_or_default();
            let wanted = match link.reference.kind {
                ReferenceKind::Redo if link.target == link.judged => 0,
                ReferenceKind::Redo => bits.get(&link.target).copied().unwrap_or_default(),
                ReferenceKind::Intervene => needed.get(&link.target).copied().unwrap_or_default(),
            };
            before & wanted != wanted
        };
        let wrong = graph.references.iter().position(is_wrong);
        first_wrong = first_wrong.min(wrong.unwrap_or(usize::MAX));
    }
    let Some(link) = graph.references.get(first_wrong) else { return Ok(()) };
    let (target, judged) = (graph.id(link.target), graph.id(link.judged));
    let problem = match link.reference.kind {
        ReferenceKind::Redo => Problem::RedoNotBack(target, judged),
        ReferenceKind::Intervene => Problem::InterveneNotReady { phase: target, judged },
    };
    Err(problem.at(link.reference.position))
}

fn mask(phases: &[usize], bits: &BTreeMap<usize, u64>) -> u64 {
    phases.iter().filter_map(|index| bits.get(index)).fold(0, |mask, bit| mask | bit)
}

/// For each phase, which of the phases in `bits` come before it.
fn before(graph: &Graph<'_>, order: &[usize], bits: &BTreeMap<usize, u64>) -> Vec<u64> {
    let mut own = vec![0u64; graph.drafts.len()];
    for (index, bit) in bits {
        if let Some(own) = own.get_mut(*index) {
            *own = *bit;
        }
    }
    let mut before = vec![0u64; graph.drafts.len()];
    for index in order {
        let of = |need: &usize| {
            before.get(*need).copied().unwrap_or_default()
                | own.get(*need).copied().unwrap_or_default()
        };
        let mask = graph.needs(*index).iter().fold(0, |mask, need| mask | of(need));
        if let Some(slot) = before.get_mut(*index) {
            *slot = mask;
        }
    }
    before
}
