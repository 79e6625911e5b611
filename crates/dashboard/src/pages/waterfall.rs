//! When a run worked and when it waited, as a picture and as a table.

use maud::{Markup, html};
use windlass_kernel::Timestamp;

use super::layout::words;
use crate::timeline::{Span, SpanKind, Timeline};

/// The width of the picture, of its names, of the space at its end, and of the shortest bar.
const WIDTH: i64 = 1160;
const NAMES: i64 = 190;
const MARGIN: i64 = 14;
const BAR_MIN: i64 = 3;
/// The height of a row and of its bar.
const ROW: i64 = 24;
const BAR: i64 = 14;
/// The longest name that fits.
const NAME_CHARS: usize = 22;
/// The most rows; a run with more shows its newest.
const ROWS_MAX: usize = 100;

/// Shows a timeline; `now` ends what goes on.
pub(super) fn show(timeline: &Timeline, now: Timestamp) -> Markup {
    let mut rows: Vec<(&str, u32, Vec<&Span>)> = Vec::new();
    for span in &timeline.spans {
        match rows
            .iter_mut()
            .find(|(phase, attempt, _)| (*phase, *attempt) == (&span.phase, span.attempt))
        {
            Some((_, _, spans)) => spans.push(span),
            None => rows.push((&span.phase, span.attempt, vec![span])),
        }
    }
    let left_out = rows.len().saturating_sub(ROWS_MAX);
    rows.drain(..left_out);
    let shown = || rows.iter().flat_map(|(_, _, spans)| spans.iter().copied());
    let from = shown().map(|span| span.from.unix_ms()).min().unwrap_or_default();
    let to = shown().map(|span| end(span, now)).max().unwrap_or(from).max(from + 1);
    let x = |ms: i64| NAMES + (ms - from) * (WIDTH - NAMES - MARGIN) / (to - from);
    let total = |kind: SpanKind| {
        let ms: i64 = shown().filter(|span| span.kind == kind).map(|span| length(span, now)).sum();
        words(ms.unsigned_abs())
    };
    let height = i64::try_from(rows.len()).unwrap_or_default() * ROW + ROW;
    html! {
        @if rows.is_empty() { p.faint { "Nothing has begun yet." } } @else {
            p.legend {
                span.key.work {} " works, " (total(SpanKind::Work)) " in all "
                span.key.wait {} " waits, " (total(SpanKind::Wait)) " "
                @if shown().any(|span| span.kind == SpanKind::Interruption) {
                    span.key.interruption {} " interrupted, " (total(SpanKind::Interruption))
                }
            }
            @if left_out > 0 { p.faint { (left_out) " older rows are left out." } }
            div.scroll.graph.waterfall tabindex="0" role="group" aria-label="Timeline" {
                svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label="When each phase worked and when it waited" {
                    @for (at, (phase, attempt, spans)) in rows.iter().enumerate() {
                        @let y = i64::try_from(at).unwrap_or_default() * ROW + ROW / 2;
                        text.name x="12" y=(y + BAR - 3) { (name(phase, *attempt)) }
                        line.rule x1=(NAMES) y1=(y + BAR / 2) x2=(WIDTH - MARGIN) y2=(y + BAR / 2) {}
                        @for span in spans {
                            @let left = x(span.from.unix_ms());
                            @let width = (x(end(span, now)) - left).max(BAR_MIN);
                            rect class=(format!("span {}", span.kind.as_str())) x=(left.min(WIDTH - MARGIN - BAR_MIN)) y=(y) width=(width) height=(BAR) rx="3" {
                                title { (phase) " " (span.kind.word()) " " (words(length(span, now).unsigned_abs())) }
                            }
                        }
                    }
                }
            }
            details { summary { "As a table" }
                div.scroll tabindex="0" role="group" aria-label="Table" { table {
                    thead { tr { th { "Phase" } th { "Attempt" } th { "What" } th { "From" } th { "How long" } } }
                    tbody { @for span in shown() { tr {
                        td { (span.phase) }
                        td.number { (span.attempt) }
                        td { (span.kind.word()) }
                        td.number { (span.from) }
                        td.number { (words(length(span, now).unsigned_abs())) @if span.to.is_none() { " so far" } }
                    } } }
                } }
            }
        }
    }
}

fn end(span: &Span, now: Timestamp) -> i64 {
    span.to.unwrap_or(now).unix_ms().max(span.from.unix_ms())
}

fn length(span: &Span, now: Timestamp) -> i64 {
    end(span, now) - span.from.unix_ms()
}

fn name(phase: &str, attempt: u32) -> String {
    let attempt = if attempt > 1 { format!(" ({attempt})") } else { String::new() };
    let room = NAME_CHARS.saturating_sub(attempt.chars().count());
    let short: String = if phase.chars().count() > room {
        phase.chars().take(room.saturating_sub(1)).chain(['…']).collect()
    } else {
        phase.to_owned()
    };
    format!("{short}{attempt}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_unix_ms(1_700_000_000_000 + seconds * 1000).unwrap()
    }

    #[test]
    fn working_is_told_from_waiting_and_what_goes_on_ends_now() {
        let span = |kind, from, to: Option<i64>| Span {
            phase: "build".to_owned(),
            attempt: 2,
            kind,
            from: at(from),
            to: to.map(at),
        };
        let spans = vec![span(SpanKind::Work, 0, Some(10)), span(SpanKind::Wait, 10, None)];
        let timeline = Timeline { spans, ..Timeline::default() };
        let html = show(&timeline, at(70)).into_string();
        assert!(html.contains("works, 10 s in all"), "{html}");
        assert!(html.contains("waits, 60 s"), "{html}");
        assert!(html.contains("build (2)") && html.contains("so far"), "{html}");
        // A clock that went back makes no negative width.
        let html = show(&timeline, at(-100)).into_string();
        assert!(!html.contains("width=\"-"), "{html}");
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(name("a-very-long-name-of-a-phase", 1).chars().count(), NAME_CHARS);
        assert_eq!(name("a-very-long-name-of-a-phase", 12).chars().count(), NAME_CHARS);
    }
}
