//! Routes lines from one row of boxes to the next so that each can be followed.

use std::collections::{BTreeMap, BTreeSet};

/// Lines that share one track: all of its sources lead to all of its targets.
#[derive(Debug)]
pub struct Group {
    /// Columns at which lines come in from above.
    pub above: Vec<usize>,
    /// Columns at which lines go out below.
    pub below: Vec<usize>,
    /// The track, from 0; none when the line goes straight down.
    pub track: Option<usize>,
}

impl Group {
    fn span(&self) -> (usize, usize) {
        let columns = || self.above.iter().chain(&self.below).copied();
        (columns().min().unwrap_or_default(), columns().max().unwrap_or_default())
    }

    fn is_straight(&self) -> bool {
        let (left, right) = self.span();
        left == right
    }
}

/// Where lines meet a cell: its middle column and the distance to its edges.
#[derive(Clone, Copy)]
pub struct Port {
    pub middle: usize,
    pub reach: usize,
}

/// Routes the lines between two rows; `None` if they cannot be drawn without ambiguity.
pub fn route(
    from: &BTreeMap<usize, Port>,
    to: &BTreeMap<usize, Port>,
    lines: &[(usize, usize)],
) -> Option<(Vec<Group>, usize)> {
    let mut targets: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (source, target) in lines {
        targets.entry(*source).or_default().insert(*target);
    }
    // Sources with the same targets share a group, so that joined lines are unambiguous.
    let mut together: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
    for (source, targets) in targets {
        together.entry(targets.into_iter().collect()).or_default().push(source);
    }
    let middle = |cells: &[usize], ports: &BTreeMap<usize, Port>| {
        let columns: Vec<usize> =
            cells.iter().filter_map(|cell| Some(ports.get(cell)?.middle)).collect();
        columns.iter().sum::<usize>() * 16 / columns.len().max(1)
    };
    let mut together: Vec<(Vec<usize>, Vec<usize>)> = together.into_iter().collect();
    together.sort_by_key(|(_, sources)| middle(sources, from));
    let mut incoming: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (group, (targets, _)) in together.iter().enumerate() {
        for target in targets {
            incoming.entry(*target).or_default().push(group);
        }
    }
    let mut groups: Vec<Group> = together
        .iter()
        .map(|(_, sources)| {
            let above = sources.iter().filter_map(|cell| Some(from.get(cell)?.middle)).collect();
            Group { above, below: Vec::new(), track: None }
        })
        .collect();
    for (target, coming) in &incoming {
        let port = to.get(target)?;
        let width = coming.len() - 1;
        if width > port.reach {
            return None;
        }
        for (index, group) in coming.iter().enumerate() {
            // Two columns apart, around the middle.
            groups.get_mut(*group)?.below.push(port.middle + 2 * index - width);
        }
    }
    let tracks = assign(&mut groups)?;
    Some((groups, tracks))
}

/// Gives each group a track where it touches no other group and none of its vertical lines runs
/// into one of another group.
fn assign(groups: &mut [Group]) -> Option<usize> {
    let mut open: BTreeSet<usize> = (0..groups.len())
        .filter(|index| groups.get(*index).is_some_and(|group| !group.is_straight()))
        .collect();
    // If a column has a line from above and another one below, the group from above must turn off
    // on a higher track than the group that goes down there.
    let meets =
        |above: &Group, below: &Group| above.above.iter().any(|index| below.below.contains(index));
    for straight in groups.iter().filter(|group| group.is_straight()) {
        let others = || groups.iter().filter(|group| !group.is_straight());
        if others().any(|other| meets(straight, other) || meets(other, straight)) {
            return None;
        }
    }
    let mut tracks = 0;
    let mut placed: Vec<usize> = Vec::new();
    while !open.is_empty() {
        let is_free = |index: &usize| {
            let Some(group) = groups.get(*index) else { return false };
            let mut rest = open.iter().filter(|other| *other != index);
            !rest.any(|other| groups.get(*other).is_some_and(|other| meets(other, group)))
        };
        let next = open.iter().copied().find(is_free)?;
        open.remove(&next);
        let (left, right) = groups.get(next)?.span();
        let mut track = 0;
        for other in placed.iter().filter_map(|index| groups.get(*index)) {
            let (other_left, other_right) = other.span();
            let overlaps = left <= other_right + 1 && other_left <= right + 1;
            if overlaps && let Some(used) = other.track {
                track = track.max(used + 1);
            }
        }
        groups.get_mut(next)?.track = Some(track);
        tracks = tracks.max(track + 1);
        placed.push(next);
    }
    Some(tracks)
}
