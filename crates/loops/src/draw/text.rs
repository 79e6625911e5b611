//! A plan for a terminal: rows of boxes, top to bottom, and below what each judge's verdicts do.

use std::collections::BTreeMap;

use windlass_kernel::run::plan::{Phase, Plan};

use crate::draw::canvas::{Canvas, Style, styled};
use crate::draw::layout::{Kind, Layout};
use crate::draw::route::{self, Port};
use crate::draw::{Colours, describe, list};

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
    let cut = |text: &str| describe::safe(text, BOX_CHARS_MAX - 1);
    let mut lines =
        vec![(cut(&phase.id), Style::Name), (cut(&describe::doer(&phase.doer)), Style::Plain)];
    lines.extend(describe::when(&phase.when).map(|when| (cut(&when), Style::Plain)));
    lines.extend(describe::branch(phase).map(|branch| (branch, Style::Plain)));
    for check in &phase.checks {
        lines.push((cut(&format!("✓ {}", check.id)), Style::Gate));
    }
    if let Some(gate) = &phase.gate {
        lines.push((cut(&format!("◇ {}", gate.id)), Style::Gate));
    }
    if describe::is_held(phase) {
        lines.push(("‖ may hold".to_owned(), Style::Hold));
    }
    lines
}

/// What a cell shows, and its width.
struct Shape {
    lines: Vec<(String, Style)>,
    width: usize,
}

fn shape(plan: &Plan, kind: Kind) -> Shape {
    let Kind::Phase(at) = kind else { return Shape { lines: Vec::new(), width: 1 } };
    let lines = plan.phases.get(at).map(content).unwrap_or_default();
    let inner = lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or_default();
    // Odd, so that a box has a middle and boxes below each other share it.
    Shape { lines, width: (inner + 4) | 1 }
}

fn boxes(plan: &Plan, colours: Colours) -> Option<Vec<String>> {
    let layout = Layout::of(plan);
    if !layout.is_layered {
        return None;
    }
    let rows: Vec<Vec<(usize, Shape)>> = layout
        .rows
        .iter()
        .map(|row| {
            let cells = row.iter().filter_map(|at| Some((*at, layout.cell(*at)?.kind)));
            cells.map(|(at, kind)| (at, shape(plan, kind))).collect()
        })
        .collect();
    let width = |row: &[(usize, Shape)]| {
        row.iter().map(|(_, shape)| shape.width + GAP).sum::<usize>().saturating_sub(GAP)
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
        for (cell, shape) in row {
            let reach = shape.width.saturating_sub(3) / 2;
            ports.insert(*cell, Port { middle: x + shape.width / 2, reach });
            places.push(x);
            x += shape.width + GAP;
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
            near && layout.cell(*cell).is_some_and(|cell| cell.kind != Kind::Pass)
        };
        to.iter().any(hit)
    };
    for x in groups.iter().flat_map(|group| &group.below).filter(|x| is_phase(x)) {
        canvas.write(*x, bottom, "▼", Style::Line);
    }
    for (cell, port) in from {
        let leaves = lines.iter().any(|(source, _)| source == cell);
        let is_box = layout.cell(*cell).is_some_and(|cell| cell.kind != Kind::Pass);
        if leaves && is_box {
            canvas.write(port.middle, top.saturating_sub(1), "┬", Style::Line);
        }
    }
    Some(())
}

fn draw_row(canvas: &mut Canvas, layout: &Layout, row: &[(usize, Shape)], places: &[usize]) {
    let height = row.iter().map(|(_, shape)| shape.lines.len()).max().unwrap_or_default();
    let top = canvas.height();
    for ((cell, shape), x) in row.iter().zip(places) {
        if layout.cell(*cell).is_some_and(|cell| cell.kind == Kind::Pass) {
            canvas.vertical(*x, top, top + height + 1, usize::MAX);
            continue;
        }
        let inside = shape.width - 2;
        canvas.write(*x, top, &format!("┌{}┐", "─".repeat(inside)), Style::Line);
        for at in 0..height {
            let y = top + 1 + at;
            canvas.write(*x, y, "│", Style::Line);
            canvas.write(x + inside + 1, y, "│", Style::Line);
            if let Some((line, style)) = shape.lines.get(at) {
                canvas.write(x + 2, y, line, *style);
            }
        }
        let bottom = format!("└{}┘", "─".repeat(inside));
        canvas.write(*x, top + height + 1, &bottom, Style::Line);
    }
}
