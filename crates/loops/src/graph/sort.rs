//! Sorts the phases topologically; among those that could be next, the first in the file.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use windlass_text::Position;

use crate::error::{Diagnostic, Problem};
use crate::graph::Graph;

/// How many phases of a cycle a message shows.
const SHOWN_MAX: usize = 8;

/// The order, or an error that shows a cycle.
pub fn sort(graph: &Graph<'_>) -> Result<Vec<usize>, Diagnostic> {
    let count = graph.drafts.len();
    let mut waits: Vec<usize> = graph.needs.iter().map(Vec::len).collect();
    let mut followers: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (index, needs) in graph.needs.iter().enumerate() {
        for need in needs {
            if let Some(followers) = followers.get_mut(*need) {
                followers.push(index);
            }
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> = waits
        .iter()
        .enumerate()
        .filter(|(_, waits)| **waits == 0)
        .map(|(index, _)| Reverse(index))
        .collect();
    let mut order = Vec::with_capacity(count);
    while let Some(Reverse(index)) = ready.pop() {
        order.push(index);
        for follower in followers.get(index).into_iter().flatten() {
            if let Some(waits) = waits.get_mut(*follower) {
                *waits -= 1;
                if *waits == 0 {
                    ready.push(Reverse(*follower));
                }
            }
        }
    }
    if order.len() == count { Ok(order) } else { Err(cycle(graph, &waits)) }
}

/// A cycle among the phases that still wait.
fn cycle(graph: &Graph<'_>, waits: &[usize]) -> Diagnostic {
    let is_waiting = |index: &usize| waits.get(*index).is_some_and(|waits| *waits > 0);
    let mut index = (0..graph.drafts.len()).find(is_waiting).unwrap_or_default();
    let mut path = Vec::new();
    let mut seen = BTreeMap::new();
    // A phase that waits needs another one that does, so the walk comes back to one it has seen.
    while !seen.contains_key(&index) {
        seen.insert(index, path.len());
        path.push(index);
        index = graph.needs(index).iter().copied().find(|need| is_waiting(need)).unwrap_or(index);
    }
    let mut cycle = path.split_off(seen.get(&index).copied().unwrap_or_default());
    let first = (0..cycle.len()).min_by_key(|index| cycle.get(*index)).unwrap_or_default();
    cycle.rotate_left(first);
    let start = cycle.first().copied().unwrap_or_default();
    let next = cycle.get(1).copied().unwrap_or(start);
    let mut names: Vec<String> =
        cycle.iter().take(SHOWN_MAX).map(|index| graph.id(*index)).collect();
    if cycle.len() > SHOWN_MAX {
        names.push("…".to_owned());
    }
    names.push(graph.id(start));
    let index = graph.needs(start).iter().position(|need| *need == next);
    let draft = graph.drafts.get(start);
    let position = index.and_then(|index| draft?.need_positions.get(index).copied());
    let position = position.or(draft.map(|draft| draft.position));
    let problem = Problem::Cycle(names.join(" → "));
    problem.at(position.unwrap_or(Position::START))
}
