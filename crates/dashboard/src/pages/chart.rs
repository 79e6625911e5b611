//! Plots: our own pictures, made by the server. Each has a table with the same numbers, so that nothing is said by a
//! picture alone.

use maud::{Markup, html};

/// The height of a column plot, and the width of a column with its gap, in units of the picture.
const HEIGHT: u64 = 100;
const STEP: u64 = 10;
const GAP: u64 = 2;

/// A column: its name, its value, and the value in words.
pub(super) struct Column {
    pub(super) name: String,
    pub(super) value: u64,
    pub(super) words: String,
}

/// The height of a bar out of `full`: at least one unit if there is something at all.
fn share(value: u64, most: u64, full: u64) -> u64 {
    let part = u128::from(value) * u128::from(full) / u128::from(most.max(1));
    u64::try_from(part).unwrap_or(full).max(u64::from(value > 0))
}

/// Columns side by side, as wide as there is room.
pub(super) fn columns(title: &str, columns: &[Column]) -> Markup {
    let most = columns.iter().max_by_key(|column| column.value);
    let (most, words) = most.map_or((0, ""), |column| (column.value, column.words.as_str()));
    let count = u64::try_from(columns.len()).unwrap_or_default();
    let width = count.max(1) * STEP;
    let (first, last) = (columns.first(), columns.last());
    let name =
        |column: Option<&Column>| column.map(|column| column.name.clone()).unwrap_or_default();
    html! {
        figure.plot {
            figcaption { strong { (title) } span.faint { "at most " (words) " a day" } }
            svg viewBox=(format!("0 0 {width} {HEIGHT}")) preserveAspectRatio="none" role="img"
                aria-label=(format!("{title} by day, from {} to {}; at most {words}. The table below has the numbers.", name(first), name(last))) {
                line.axis x1="0" y1=(HEIGHT) x2=(width) y2=(HEIGHT) {}
                @for (at, column) in (0..).zip(columns) {
                    @let tall = share(column.value, most, HEIGHT);
                    rect.bar x=(at * STEP + GAP / 2) y=(HEIGHT - tall) width=(STEP - GAP) height=(tall) {
                        title { (column.name) ": " (column.words) }
                    }
                }
            }
            div.ends { span { (name(first)) } @if columns.len() > 1 { span { (name(last)) } } }
        }
    }
}

/// A bar in a row of a table, beside its number.
pub(super) fn bar(value: u64, most: u64) -> Markup {
    let width = share(value, most, HEIGHT);
    html! {
        svg.row-bar viewBox=(format!("0 0 {HEIGHT} 10")) preserveAspectRatio="none" aria-hidden="true" {
            rect.bar x="0" y="0" width=(width) height="10" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_in_proportion_and_never_vanishes() {
        assert_eq!(share(0, 10, 100), 0);
        assert_eq!(share(1, 1_000_000, 100), 1);
        assert_eq!(share(5, 10, 100), 50);
        assert_eq!(share(u64::MAX, u64::MAX, 100), 100);
        assert_eq!(share(0, 0, 100), 0);
    }

    #[test]
    fn names_are_escaped() {
        let columns = super::columns(
            "Cost",
            &[Column { name: "<b>".to_owned(), value: 1, words: "1".to_owned() }],
        );
        let text = columns.into_string();
        assert!(text.contains("&lt;b&gt;") && !text.contains("<b>"), "{text}");
    }
}
