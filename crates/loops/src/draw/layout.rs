//! Arranges phases in rows, each below the phases that it needs.

use std::collections::BTreeMap;

use windlass_kernel::run::plan::Plan;

/// The most cells that lines pass through; beyond, lines go straight from box to box.
const PASSES_MAX: usize = 5_000;
/// How many times the rows are sorted.
const SWEEPS: usize = 4;

/// What a cell contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellKind {
    /// A phase, by its index in the plan.
    Phase(usize),
    /// A line to a row further down.
    Pass,
}

/// A cell of a row.
#[derive(Clone, Debug)]
pub struct Cell {
    pub kind: CellKind,
    /// The cells above it that lines come from.
    pub above: Vec<usize>,
    /// The cells below it that lines go to.
    pub below: Vec<usize>,
}

/// All cells, and their order in each row.
#[derive(Debug)]
pub struct Layout {
    pub cells: Vec<Cell>,
    pub rows: Vec<Vec<usize>>,
    /// Whether every line goes from a row to the next one.
    pub is_layered: bool,
}

/// For each phase the indices of the phases it needs; those not before it are ignored.
pub fn needs(plan: &Plan) -> Vec<Vec<usize>> {
    let mut positions: BTreeMap<&str, usize> = BTreeMap::new();
    let mut needs = Vec::with_capacity(plan.phases.len());
    for (index, phase) in plan.phases.iter().enumerate() {
        let known = phase.needs.iter().filter_map(|need| positions.get(need.as_str()).copied());
        needs.push(known.collect());
        positions.insert(&phase.id, index);
    }
    needs
}

/// For each phase its row: below the lowest of the phases it needs.
pub fn levels(needs: &[Vec<usize>]) -> Vec<usize> {
    let mut levels: Vec<usize> = Vec::with_capacity(needs.len());
    for needs in needs {
        let lowest = needs.iter().filter_map(|need| levels.get(*need)).max();
        levels.push(lowest.map_or(0, |level| level + 1));
    }
    levels
}

impl Layout {
    pub fn of(plan: &Plan) -> Self {
        let needs = needs(plan);
        let levels = levels(&needs);
        let level = |index: usize| levels.get(index).copied().unwrap_or_default();
        let mut reach: Vec<usize> = levels.clone();
        for (index, needs) in needs.iter().enumerate() {
            for need in needs {
                if let Some(reach) = reach.get_mut(*need) {
                    *reach = (*reach).max(level(index));
                }
            }
        }
        let passes: usize = reach
            .iter()
            .zip(&levels)
            .map(|(reach, level)| reach.saturating_sub(level + 1))
            .fold(0, usize::saturating_add);
        let mut layout = Self {
            cells: (0..levels.len()).map(|index| Cell::new(CellKind::Phase(index))).collect(),
            rows: vec![Vec::new(); levels.iter().max().map_or(0, |most| most + 1)],
            is_layered: passes <= PASSES_MAX,
        };
        for index in 0..levels.len() {
            layout.place(index, level(index));
        }
        // One line leaves each phase; it goes down as far as its lowest follower.
        let mut tails: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for (index, needs) in needs.iter().enumerate() {
            for need in needs {
                let from = if layout.is_layered {
                    layout.extend(*need, level(*need), level(index), &mut tails)
                } else {
                    *need
                };
                layout.join(from, index);
            }
        }
        layout.sort();
        layout
    }

    /// The cell in the row above `to` on the line that leaves `need`.
    fn extend(
        &mut self,
        need: usize,
        from: usize,
        to: usize,
        tails: &mut BTreeMap<(usize, usize), usize>,
    ) -> usize {
        let mut cell = need;
        for row in from + 1..to {
            let known = tails.get(&(need, row)).copied();
            cell = known.unwrap_or_else(|| {
                let pass = self.cells.len();
                self.cells.push(Cell::new(CellKind::Pass));
                self.place(pass, row);
                self.join(cell, pass);
                tails.insert((need, row), pass);
                pass
            });
        }
        cell
    }

    fn place(&mut self, cell: usize, row: usize) {
        if let Some(row) = self.rows.get_mut(row) {
            row.push(cell);
        }
    }

    fn join(&mut self, from: usize, to: usize) {
        if let Some(cell) = self.cells.get_mut(from) {
            cell.below.push(to);
        }
        if let Some(cell) = self.cells.get_mut(to) {
            cell.above.push(from);
        }
    }

    /// Sorts each row by the mean position of the neighbours (barycenter method), down and up.
    fn sort(&mut self) {
        let mut positions = vec![0.0f64; self.cells.len()];
        let mut rows = std::mem::take(&mut self.rows);
        let note = |row: &[usize], positions: &mut Vec<f64>| {
            // Counted from the middle, so that rows of different lengths compare.
            let middle = (row.len() as f64 - 1.0) / 2.0;
            for (index, cell) in row.iter().enumerate() {
                if let Some(position) = positions.get_mut(*cell) {
                    *position = index as f64 - middle;
                }
            }
        };
        rows.iter().for_each(|row| note(row, &mut positions));
        for sweep in 0..SWEEPS {
            let is_down = sweep % 2 == 0;
            let count = rows.len();
            for step in 0..count {
                let index = if is_down { step } else { count - 1 - step };
                let Some(row) = rows.get_mut(index) else { continue };
                let middle = |cell: &usize| {
                    let neighbours = self.cells.get(*cell).map(|cell| {
                        if is_down { cell.above.as_slice() } else { cell.below.as_slice() }
                    });
                    let neighbours = neighbours.unwrap_or_default();
                    let sum: f64 =
                        neighbours.iter().filter_map(|neighbour| positions.get(*neighbour)).sum();
                    let own = positions.get(*cell).copied().unwrap_or_default();
                    if neighbours.is_empty() { own } else { sum / neighbours.len() as f64 }
                };
                row.sort_by(|one, other| middle(one).total_cmp(&middle(other)));
                note(row, &mut positions);
            }
        }
        self.rows = rows;
    }

    pub fn cell(&self, index: usize) -> Option<&Cell> {
        self.cells.get(index)
    }
}

impl Cell {
    const fn new(kind: CellKind) -> Self {
        Self { kind, above: Vec::new(), below: Vec::new() }
    }
}
