//! A plan for a terminal: rows of boxes, top to bottom, then the effect of every verdict.

use std::collections::BTreeMap;

use windlass_kernel::run::plan::{Phase, Plan};

use crate::draw::canvas::{Canvas, Style, styled};
use crate::draw::describe::{self, LineKind};
use crate::draw::layout::{CellKind, Layout};
use crate::draw::route::{self, Port};
use crate::draw::{Colours, list};

/// The widest line.
pub const WIDTH: usize = 80;
/// More phases than this are shown as a list.
const BOXES_MAX: usize = 60;
/// The widest text in a box.
const BOX_CHARS_MAX: usize = 30;
/// Between two boxes.
const GAP: usize = 3;

/// Draws a plan for a terminal of 80 columns; a graph that does not fit is shown as a list.
#[must_use]
pub fn text(plan: &Plan, colours: Colours) -> String {
    let title = format!("{}: {}", describe::name(plan), describe::safe(&plan.title, 200));
    let mut lines: Vec<String> =
        list::wrap(&title, 0).into_iter().map(|line| styled(&line, Style::Name, colours)).collect();
    lines.extend(list::wrap(&describe::settings(plan), 0));
    lines.push(String::new());
    let boxes = (plan.phases.len() <= BOXES_MAX).then(|| boxes(plan, colours)).flatten();
    lines.extend(boxes.unwrap_or_else(|| list::phases(plan, colours)));
    lines.extend(list::judges(plan, colours));
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

/// The lines in a phase's box.
fn content(phase: &Phase) -> Vec<(String, Style)> {
    let lines = describe::lines(phase).into_iter().map(|(kind, line)| {
        let style = match kind {
            LineKind::Name => Style::Name,
            LineKind::Detail => Style::Plain,
            LineKind::Judge => Style::Gate,
            LineKind::Hold => Style::Hold,
        };
        (describe::safe(&line, BOX_CHARS_MAX - 1), style)
    });
    lines.collect()
}

/// The lines of a cell, and its width.
struct CellContent {
    lines: Vec<(String, Style)>,
    width: usize,
}

fn cell_content(plan: &Plan, kind: CellKind) -> CellContent {
    let CellKind::Phase(index) = kind else { return CellContent { lines: Vec::new(), width: 1 } };
    let lines = plan.phases.get(index).map(content).unwrap_or_default();
    let inner = lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or_default();
    // Odd, so that a box has a middle column and boxes in a column share it.
    CellContent { lines, width: (inner + 4) | 1 }
}

fn boxes(plan: &Plan, colours: Colours) -> Option<Vec<String>> {
    let layout = Layout::of(plan);
    if !layout.is_layered {
        return None;
    }
    let rows: Vec<Vec<(usize, CellContent)>> = layout
        .rows
        .iter()
        .map(|row| {
            let cells = row.iter().filter_map(|index| Some((*index, layout.cell(*index)?.kind)));
            cells.map(|(index, kind)| (index, cell_content(plan, kind))).collect()
        })
        .collect();
    let width = |row: &[(usize, CellContent)]| {
        row.iter().map(|(_, content)| content.width + GAP).sum::<usize>().saturating_sub(GAP)
    };
    let widest = rows.iter().map(|row| width(row)).max().unwrap_or_default() | 1;
    if widest > WIDTH {
        return None;
    }
    let mut canvas = Canvas::new(widest);
    let mut above: BTreeMap<usize, Port> = BTreeMap::new();
    for row in &rows {
        let mut x = (widest - width(row)) / 2;
        let mut ports = BTreeMap::new();
        let mut places = Vec::new();
        for (cell, content) in row {
            let reach = content.width.saturating_sub(3) / 2;
            ports.insert(*cell, Port { middle: x + content.width / 2, reach });
            places.push(x);
            x += content.width + GAP;
        }
        if !above.is_empty() {
            band(&mut canvas, &layout, &above, &ports)?;
        }
        draw_row(&mut canvas, &layout, row, &places);
        above = ports;
    }
    Some(canvas.render(colours))
}

fn band(
    canvas: &mut Canvas,
    layout: &Layout,
    from: &BTreeMap<usize, Port>,
    to: &BTreeMap<usize, Port>,
) -> Option<()> {
    let below = |cell: &usize| layout.cell(*cell).map(|cell| cell.below.clone());
    let lines: Vec<(usize, usize)> = from
        .keys()
        .flat_map(|cell| below(cell).unwrap_or_default().into_iter().map(|to| (*cell, to)))
        .collect();
    let (groups, tracks) = route::route(from, to, &lines)?;
    let top = canvas.height();
    let bottom = top + tracks;
    for (owner, group) in (1..).zip(&groups) {
        let Some(track) = group.track else {
            for x in &group.above {
                canvas.vertical(*x, top, bottom, owner);
            }
            continue;
        };
        canvas.track(top + track, &group.above, &group.below, owner);
        for x in group.above.iter().filter(|_| track > 0) {
            canvas.vertical(*x, top, top + track - 1, owner);
        }
        for x in &group.below {
            canvas.vertical(*x, top + track + 1, bottom, owner);
        }
    }
    let is_phase = |x: &usize| {
        let hit = |(cell, port): (&usize, &Port)| {
            let near = port.middle.abs_diff(*x) <= port.reach;
            near && layout.cell(*cell).is_some_and(|cell| cell.kind != CellKind::Pass)
        };
        to.iter().any(hit)
    };
    for x in groups.iter().flat_map(|group| &group.below).filter(|x| is_phase(x)) {
        canvas.write(*x, bottom, "▼", Style::Line);
    }
    for (cell, port) in from {
        let leaves = lines.iter().any(|(source, _)| source == cell);
        let is_box = layout.cell(*cell).is_some_and(|cell| cell.kind != CellKind::Pass);
        if leaves && is_box {
            canvas.write(port.middle, top.saturating_sub(1), "┬", Style::Line);
        }
    }
    Some(())
}

fn draw_row(canvas: &mut Canvas, layout: &Layout, row: &[(usize, CellContent)], places: &[usize]) {
    let height = row.iter().map(|(_, content)| content.lines.len()).max().unwrap_or_default();
    let top = canvas.height();
    for ((cell, content), x) in row.iter().zip(places) {
        if layout.cell(*cell).is_some_and(|cell| cell.kind == CellKind::Pass) {
            canvas.vertical(*x, top, top + height + 1, usize::MAX);
            continue;
        }
        let inside = content.width - 2;
        canvas.write(*x, top, &format!("┌{}┐", "─".repeat(inside)), Style::Line);
        for index in 0..height {
            let y = top + 1 + index;
            canvas.write(*x, y, "│", Style::Line);
            canvas.write(x + inside + 1, y, "│", Style::Line);
            if let Some((line, style)) = content.lines.get(index) {
                canvas.write(x + 2, y, line, *style);
            }
        }
        let bottom = format!("└{}┘", "─".repeat(inside));
        canvas.write(*x, top + height + 1, &bottom, Style::Line);
    }
}
