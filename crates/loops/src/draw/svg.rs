//! A plan as a self-contained SVG.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use windlass_kernel::run::plan::{Doer, Phase, PhaseCondition, Plan};

use crate::draw::describe::{self, LineKind};
use crate::draw::layout::{CellKind, Layout};
use crate::draw::mermaid::back_references;

const LETTER: usize = 8;
const LINE: usize = 17;
const MARGIN: usize = 24;
const GAP: usize = 28;
const BAND: usize = 44;
const LANE: usize = 14;
const LANES_MAX: usize = 12;
const HEAD: usize = 56;

/// Text and lines outside boxes have mid-tones, which are visible on white and on black.
const STYLE: &str = "text{font:13px ui-monospace,Menlo,Consolas,monospace;fill:#1f2933}\
.n{font-weight:700}.m{fill:#9a5b00}.h{fill:#7a2e9d}.t{fill:#7b8794;font-weight:700}\
.s{fill:#7b8794}.e{fill:none;stroke:#7b8794;stroke-width:1.5}\
.b{fill:none;stroke:#c2570c;stroke-width:1.3;stroke-dasharray:5 4}\
rect{fill:#f5f7fa;stroke:#52606d;stroke-width:1.5}\
.agent{stroke:#2563eb}.command{stroke:#15803d}.person{stroke:#7a2e9d;stroke-width:2.5}\
.i{stroke-dasharray:5 4}";

/// The rectangle of a box, or of a point that a line passes.
#[derive(Clone, Copy)]
struct Rect {
    x: usize,
    y: usize,
    width: usize,
    height: usize,
}

impl Rect {
    const fn middle(self) -> usize {
        self.x + self.width / 2
    }
}

/// Draws a plan as a self-contained SVG.
#[must_use]
pub fn svg(plan: &Plan) -> String {
    let layout = Layout::of(plan);
    let contents: Vec<Vec<(&str, String)>> = plan.phases.iter().map(content).collect();
    let (rects, inner, bottom) = place(&layout, &contents);
    let mut body = String::new();
    edges(&mut body, &layout, &rects);
    let lanes = back_edges(&mut body, plan, &rects, inner);
    for (index, phase) in plan.phases.iter().enumerate() {
        let (Some(rect), Some(lines)) = (rects.get(&index), contents.get(index)) else { continue };
        draw_box(&mut body, phase, *rect, lines);
    }
    let settings = describe::settings(plan);
    let title = describe::safe(&format!("{}: {}", describe::name(plan), plan.title), 200);
    let words = title.chars().count().max(settings.chars().count()) * LETTER;
    let width = (inner + lanes * LANE).max(MARGIN + words) + MARGIN;
    let mut out = String::new();
    put(
        &mut out,
        format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 {width} {bottom}\" \
             width=\"{width}\" height=\"{bottom}\">\n<title>{0}</title>\n<style>{STYLE}</style>\n\
             <defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" \
             markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#7b8794\"/></marker>\
             <marker id=\"r\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" \
             markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#c2570c\"/></marker></defs>\n\
             <text class=\"t\" x=\"{MARGIN}\" y=\"24\">{0}</text>\n\
             <text class=\"s\" x=\"{MARGIN}\" y=\"43\">{1}</text>\n",
            escape(&title),
            escape(&settings),
        ),
    );
    out.push_str(&body);
    out.push_str("</svg>\n");
    out
}

fn put(out: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(what);
}

fn content(phase: &Phase) -> Vec<(&'static str, String)> {
    let lines = describe::lines(phase).into_iter().map(|(kind, line)| {
        let class = match kind {
            LineKind::Name => "n",
            LineKind::Detail => "d",
            LineKind::Judge => "m",
            LineKind::Hold => "h",
        };
        (class, describe::safe(&line, 40))
    });
    lines.collect()
}

/// The rectangle of each cell, the right edge of all, and the bottom edge.
fn place(
    layout: &Layout,
    contents: &[Vec<(&str, String)>],
) -> (BTreeMap<usize, Rect>, usize, usize) {
    let size = |cell: usize| match layout.cell(cell).map(|cell| cell.kind) {
        Some(CellKind::Phase(index)) => {
            let lines = contents.get(index).map(Vec::as_slice).unwrap_or_default();
            let longest = lines.iter().map(|(_, line)| line.chars().count()).max();
            (longest.unwrap_or_default() * LETTER + 24, lines.len() * LINE + 14)
        }
        Some(CellKind::Pass) | None => (2, 0),
    };
    let width = |row: &[usize]| row.iter().map(|cell| size(*cell).0 + GAP).sum::<usize>();
    let widest = layout.rows.iter().map(|row| width(row)).max().unwrap_or(GAP) - GAP;
    let mut rects = BTreeMap::new();
    let mut y = HEAD + 8;
    for row in &layout.rows {
        let height = row.iter().map(|cell| size(*cell).1).max().unwrap_or_default();
        let mut x = MARGIN + (widest + GAP - width(row)) / 2;
        for cell in row {
            let width = size(*cell).0;
            rects.insert(*cell, Rect { x, y, width, height });
            x += width + GAP;
        }
        y += height + BAND;
    }
    (rects, MARGIN + widest, y.saturating_sub(BAND) + MARGIN + 8)
}

fn edges(out: &mut String, layout: &Layout, rects: &BTreeMap<usize, Rect>) {
    for (index, cell) in layout.cells.iter().enumerate() {
        let Some(from) = rects.get(&index) else { continue };
        if cell.kind == CellKind::Pass {
            let (x, top, end) = (from.middle(), from.y, from.y + from.height);
            put(out, format_args!("<path class=\"e\" d=\"M{x} {top}V{end}\"/>\n"));
        }
        for below in &cell.below {
            let Some(to) = rects.get(below) else { continue };
            let (x, y) = (from.middle(), from.y + from.height);
            let (end_x, end_y) = (to.middle(), to.y);
            let half = y + (end_y.saturating_sub(y)) / 2;
            let is_end = layout.cell(*below).is_some_and(|cell| cell.kind != CellKind::Pass);
            let head = if is_end { " marker-end=\"url(#a)\"" } else { "" };
            let path = format!("M{x} {y}C{x} {half} {end_x} {half} {end_x} {end_y}");
            put(out, format_args!("<path class=\"e\" d=\"{path}\"{head}/>\n"));
        }
    }
}

/// Draws lines back and to interventions in lanes at the right; returns the number of lanes.
fn back_edges(out: &mut String, plan: &Plan, rects: &BTreeMap<usize, Rect>, inner: usize) -> usize {
    let names: BTreeMap<&str, usize> =
        plan.phases.iter().enumerate().map(|(index, phase)| (phase.id.as_str(), index)).collect();
    let mut used = 0;
    for (index, phase) in plan.phases.iter().enumerate() {
        for (verdict, effect, target) in back_references(phase) {
            let to = names.get(target).and_then(|to| rects.get(to));
            let (Some(from), Some(to)) = (rects.get(&index), to) else { continue };
            let step = used % LANES_MAX;
            let lane = inner + (step + 1) * LANE;
            used += 1;
            // Between the rows, so that no box hides it.
            let (x, y) = (from.x + from.width - 10, from.y + from.height);
            let (end_x, end_y) = (to.x + to.width - 10 - step % 4 * 6, to.y);
            let (out_y, in_y) = (y + 8 + step % 4 * 3, end_y - 20 + step % 4 * 3);
            let words = escape(&describe::safe(&format!("{verdict}: {effect} → {target}"), 200));
            put(
                out,
                format_args!(
                    "<path class=\"b\" d=\"M{x} {y}V{out_y}H{lane}V{in_y}H{end_x}V{end_y}\" \
                     marker-end=\"url(#r)\"><title>{words}</title></path>\n"
                ),
            );
        }
    }
    used.min(LANES_MAX)
}

fn draw_box(out: &mut String, phase: &Phase, rect: Rect, lines: &[(&str, String)]) {
    let Rect { x, y, width, height } = rect;
    let kind = match phase.doer {
        Doer::Agent { .. } => "agent",
        Doer::Builtin { .. } => "builtin",
        Doer::Command { .. } => "command",
        Doer::Consensus { .. } | Doer::Person { .. } => "person",
    };
    let dashed = if phase.when == PhaseCondition::Always { "" } else { " i" };
    put(
        out,
        format_args!(
            "<rect class=\"{kind}{dashed}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"6\"/>\n"
        ),
    );
    for (index, (class, line)) in lines.iter().enumerate() {
        let (x, y) = (x + 12, y + 20 + index * LINE);
        let line = escape(line);
        put(out, format_args!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{line}</text>\n"));
    }
}

/// Escapes XML syntax and replaces characters that XML does not allow.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            control if control.is_control() => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}
