//! The phases of a run as a picture: from left to right by what they need, in colour and in words.

use std::collections::BTreeMap;

use maud::{Markup, html};

use crate::model::PhaseItem;

/// The size of a phase and the space around it.
const WIDTH: usize = 148;
const HEIGHT: usize = 52;
const GAP_X: usize = 28;
const GAP_Y: usize = 20;
/// The longest name that fits.
const NAME_CHARS: usize = 15;

/// Where a phase lies: column and row.
type Place = (usize, usize);

/// Draws phases; `held` is the one that waits for a person.
pub(super) fn draw(phases: &[PhaseItem], held: Option<&str>) -> Markup {
    let places = places(phases);
    let columns = places.values().map(|(column, _)| column + 1).max().unwrap_or(0);
    let rows = places.values().map(|(_, row)| row + 1).max().unwrap_or(0);
    let width = columns * (WIDTH + GAP_X) + GAP_X;
    let height = rows * (HEIGHT + GAP_Y) + GAP_Y;
    let place = |id: &str| places.get(id).copied();
    html! {
        div.scroll.graph tabindex="0" role="group" aria-label="Phases" {
            svg width=(width) height=(height) viewBox=(format!("0 0 {width} {height}")) role="img" aria-label="The phases and what they need" {
                @for phase in phases {
                    @for need in &phase.needs {
                        @if let (Some(from), Some(to)) = (place(need), place(&phase.id)) {
                            path.edge d=(edge(from, to)) {}
                        }
                    }
                }
                @for phase in phases {
                    @if let Some(at) = place(&phase.id) { (node(phase, at, held == Some(phase.id.as_str()))) }
                }
            }
        }
    }
}

/// The place of each phase: behind all that it needs.
fn places(phases: &[PhaseItem]) -> BTreeMap<&str, Place> {
    let mut columns: BTreeMap<&str, usize> = BTreeMap::new();
    // A plan has no cycles, so this ends; if one had, each phase would still be placed.
    for _ in phases {
        for phase in phases {
            let needs = phase.needs.iter().filter_map(|need| columns.get(need.as_str()));
            let column = needs.max().map_or(0, |column| (column + 1).min(phases.len()));
            columns.insert(&phase.id, column);
        }
    }
    let mut rows: BTreeMap<usize, usize> = BTreeMap::new();
    let mut places = BTreeMap::new();
    for phase in phases {
        let column = columns.get(phase.id.as_str()).copied().unwrap_or_default();
        let row = rows.entry(column).or_default();
        places.insert(phase.id.as_str(), (column, *row));
        *row += 1;
    }
    places
}

fn corner((column, row): Place) -> (usize, usize) {
    (GAP_X + column * (WIDTH + GAP_X), GAP_Y + row * (HEIGHT + GAP_Y))
}

fn edge(from: Place, to: Place) -> String {
    let ((x1, y1), (x2, y2)) = (corner(from), corner(to));
    let (x1, y1, y2) = (x1 + WIDTH, y1 + HEIGHT / 2, y2 + HEIGHT / 2);
    let middle = (x1 + x2) / 2;
    format!("M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}")
}

fn node(phase: &PhaseItem, at: Place, is_held: bool) -> Markup {
    let (x, y) = corner(at);
    let status = if is_held { "held" } else { phase.status.as_str() };
    let word = match (is_held, phase.attempt) {
        (true, _) => "waits for you".to_owned(),
        (false, 2..) => format!("{} ({})", phase.status, phase.attempt),
        (false, _) => phase.status.clone(),
    };
    let title = phase.title.as_deref().unwrap_or(&phase.id);
    let name: String = title.chars().take(NAME_CHARS).collect();
    let cut = if name.len() < title.len() { "…" } else { "" };
    html! {
        g class=(format!("node status-{status}")) {
            title { (title) ": " (word) ", by " (phase.doer) }
            rect x=(x) y=(y) width=(WIDTH) height=(HEIGHT) rx="8" {}
            text.name x=(x + 12) y=(y + 22) { (name) (cut) }
            text.word x=(x + 12) y=(y + 40) { (word) @if phase.gate.is_some() { " · gate" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(id: &str, needs: &[&str]) -> PhaseItem {
        PhaseItem {
            id: id.to_owned(),
            title: None,
            status: "pending".to_owned(),
            attempt: 0,
            doer: "agent a".to_owned(),
            needs: needs.iter().map(|&need| need.to_owned()).collect(),
            gate: None,
            started_at: None,
            duration_ms: None,
            verdict: None,
            summary: None,
            failure: None,
            calls: Vec::new(),
        }
    }

    #[test]
    fn a_phase_stands_behind_what_it_needs() {
        let phases =
            [phase("c", &["a", "b"]), phase("a", &[]), phase("b", &["a"]), phase("d", &[])];
        let places = places(&phases);
        assert_eq!(places["a"], (0, 0));
        assert_eq!(places["b"], (1, 0));
        assert_eq!(places["c"], (2, 0));
        assert_eq!(places["d"], (0, 1));
    }

    #[test]
    fn a_cycle_is_drawn_and_names_are_escaped() {
        let phases = [phase("<a>", &["b"]), phase("b", &["<a>"])];
        let text = draw(&phases, Some("b")).into_string();
        assert!(text.contains("&lt;a&gt;") && !text.contains("<a>"), "{text}");
        assert!(text.contains("status-held"), "{text}");
    }
}
