//! A diff, line by line, with the numbers of its lines. A script lets people comment on a line.

use maud::{Markup, html};

/// A line of a diff.
#[derive(Debug, PartialEq, Eq)]
struct Line<'a> {
    kind: Kind,
    text: &'a str,
    /// The file and line that a comment is about.
    place: Option<(&'a str, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The beginning of a file.
    File,
    /// The beginning of a part.
    Hunk,
    /// What git says about a file.
    Meta,
    Added,
    Removed,
    Same,
}

impl Kind {
    const fn class(self) -> &'static str {
        match self {
            Self::File => "line file",
            Self::Hunk => "line hunk",
            Self::Meta => "line meta",
            Self::Added => "line add",
            Self::Removed => "line del",
            Self::Same => "line same",
        }
    }
}

/// How many lines a part still has, and the numbers of the next ones: before and after.
#[derive(Clone, Copy, Default)]
struct Part {
    left: (usize, usize),
    next: (usize, usize),
}

impl Part {
    /// Reads `@@ -1,2 +3,4 @@`.
    fn read(line: &str) -> Option<Self> {
        let mut ranges = line.strip_prefix("@@ -")?.split(' ');
        let range = |text: &str| {
            let (start, count) = text.split_once(',').unwrap_or((text, "1"));
            Some((start.parse::<usize>().ok()?, count.parse::<usize>().ok()?))
        };
        let before = range(ranges.next()?)?;
        let after = range(ranges.next()?.strip_prefix('+')?)?;
        Some(Self { left: (before.1, after.1), next: (before.0, after.0) })
    }

    const fn is_over(self) -> bool {
        self.left.0 == 0 && self.left.1 == 0
    }
}

/// Reads a patch. What a file contains is never taken for what git says: a part knows how long it is.
fn lines(text: &str) -> Vec<Line<'_>> {
    let mut part = Part::default();
    let mut file = "";
    let mut lines = Vec::new();
    for text in text.lines() {
        let mut place = None;
        let kind = match text.as_bytes() {
            [b'+', ..] if !part.is_over() => {
                place = Some((file, part.next.1));
                part.left.1 = part.left.1.saturating_sub(1);
                part.next.1 += 1;
                Kind::Added
            }
            [b'-', ..] if !part.is_over() => {
                place = Some((file, part.next.0));
                part.left.0 = part.left.0.saturating_sub(1);
                part.next.0 += 1;
                Kind::Removed
            }
            [b' ', ..] | [] if !part.is_over() => {
                place = Some((file, part.next.1));
                part.left = (part.left.0.saturating_sub(1), part.left.1.saturating_sub(1));
                part.next = (part.next.0 + 1, part.next.1 + 1);
                Kind::Same
            }
            [b'@', b'@', ..] => {
                part = Part::read(text).unwrap_or_default();
                Kind::Hunk
            }
            [b'd', b'i', b'f', b'f', b' ', ..] => {
                file = "";
                Kind::File
            }
            _ => {
                let named = text.strip_prefix("+++ b/").or_else(|| text.strip_prefix("--- a/"));
                if let Some(named) = named {
                    file = named;
                }
                Kind::Meta
            }
        };
        lines.push(Line { kind, text, place });
    }
    lines
}

/// Shows a diff.
pub(super) fn show(text: &str) -> Markup {
    html! {
        div.scroll.diff tabindex="0" role="group" aria-label="Diff" {
            @for Line { kind, text, place } in lines(text) {
                @match place {
                    Some((file, number)) => {
                        @let removed = if kind == Kind::Removed { " (removed)" } else { "" };
                        div class=(kind.class()) data-at=(format!("{file}:{number}{removed}")) {
                            span.no { (number) } span.text { (text) }
                        }
                    }
                    None => div class=(kind.class()) { (text) },
                }
            }
        }
    }
}

/// A row of two columns: before and after.
type Row<'l, 'a> = (Option<&'l Line<'a>>, Option<&'l Line<'a>>);

/// The rows of a part: what was removed beside what was added.
fn rows<'l, 'a>(lines: &'l [Line<'a>]) -> Vec<Row<'l, 'a>> {
    let mut rows = Vec::new();
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    let pair = |removed: &mut Vec<&'l Line<'a>>, added: &mut Vec<&'l Line<'a>>| {
        let count = removed.len().max(added.len());
        let (mut left, mut right) = (removed.drain(..), added.drain(..));
        (0..count).map(|_| (left.next(), right.next())).collect::<Vec<_>>()
    };
    for line in lines {
        match line.kind {
            Kind::Removed => removed.push(line),
            Kind::Added => added.push(line),
            Kind::File | Kind::Hunk | Kind::Meta | Kind::Same => {
                rows.extend(pair(&mut removed, &mut added));
                rows.push((Some(line), Some(line)));
            }
        }
    }
    rows.extend(pair(&mut removed, &mut added));
    rows
}

/// Shows a diff in two columns: before and after.
pub(super) fn side_by_side(text: &str) -> Markup {
    let lines = lines(text);
    let cell = |line: Option<&Line<'_>>| {
        let number = line.and_then(|line| line.place).map(|(_, number)| number.to_string());
        let class = line.map_or("none", |line| line.kind.class());
        // The sign at the beginning of the line is the column.
        let text = line.and_then(|line| line.text.get(1..)).unwrap_or_default().to_owned();
        html! { td.no { (number.unwrap_or_default()) } td class=(class) { (text) } }
    };
    html! {
        div.scroll.diff.beside tabindex="0" role="group" aria-label="Diff, before and after" {
            table {
                colgroup { col.number; col; col.number; col; }
                thead { tr { th { span.away { "Line" } } th { "Before" } th { span.away { "Line" } } th { "After" } } }
                tbody { @for (before, after) in rows(&lines) {
                    @match (before, after) {
                        (Some(one), Some(_)) if one.place.is_none() => {
                            tr { td class=(one.kind.class()) colspan="4" { (one.text) } }
                        }
                        (before, after) => tr { (cell(before)) (cell(after)) },
                    }
                } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "diff --git a/src/x.rs b/src/x.rs\nindex 1..2 100644\n--- a/src/x.rs\n+++ b/src/x.rs\n\
        @@ -10,3 +10,3 @@ fn a()\n same\n-old\n+<b>new</b>\n same\n\
        diff --git a/y b/y\nnew file mode 100644\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+one\n";

    #[test]
    fn lines_have_their_kind_their_file_and_their_number() {
        let places: Vec<_> = lines(PATCH).into_iter().filter_map(|line| line.place).collect();
        let x = "src/x.rs";
        assert_eq!(places, [(x, 10), (x, 11), (x, 11), (x, 12), ("y", 1)]);
        let shown = show(PATCH).into_string();
        assert!(shown.contains("data-at=\"src/x.rs:11 (removed)\""), "{shown}");
        assert!(!shown.contains("<b>"));
    }

    #[test]
    fn what_a_file_contains_is_not_taken_for_what_git_says() {
        let text = "--- a/z\n+++ b/z\n@@ -1,2 +1,2 @@\n--- a/other\n+++ b/other\n same\n";
        let kinds: Vec<Kind> = lines(text).iter().map(|line| line.kind).collect();
        let meta = Kind::Meta;
        assert_eq!(kinds, [meta, meta, Kind::Hunk, Kind::Removed, Kind::Added, Kind::Same]);
        let files: Vec<_> = lines(text)
            .iter()
            .filter_map(|line| line.place)
            .map(|(file, _)| file.to_owned())
            .collect();
        assert_eq!(files, ["z", "z", "z"]);
    }

    #[test]
    fn what_was_removed_stands_beside_what_was_added() {
        let text = "--- a/z\n+++ b/z\n@@ -1,3 +1,2 @@\n-one\n-two\n+three\n same\n";
        let lines = lines(text);
        let texts: Vec<_> = rows(&lines)
            .iter()
            .skip(3)
            .map(|(before, after)| (before.map(|line| line.text), after.map(|line| line.text)))
            .collect();
        let same = (Some(" same"), Some(" same"));
        assert_eq!(texts, [(Some("-one"), Some("+three")), (Some("-two"), None), same]);
        let shown = side_by_side(text).into_string();
        assert!(shown.contains("<td class=\"line add\">three</td>"), "{shown}");
    }

    #[test]
    fn a_broken_patch_is_shown_as_it_is() {
        for text in ["@@", "@@ -a +b @@\n+x", "@@ -1 +1 @@\n+a\n+b\n+c", "\n\n", "+", "-"] {
            assert_eq!(lines(text).len(), text.lines().count(), "{text}");
            side_by_side(text);
        }
    }
}
