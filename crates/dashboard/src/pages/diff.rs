//! A diff, line by line, with the numbers of its lines. A script lets people comment on a line.

use std::rc::Rc;

use maud::{Markup, html};
use windlass_text::patch;

/// A line of a diff.
#[derive(Debug, PartialEq, Eq)]
struct Line<'a> {
    kind: Kind,
    text: &'a str,
    /// The file and line that a comment is about.
    place: Option<(Rc<str>, usize)>,
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
    let mut file = Rc::from("");
    let mut lines = Vec::new();
    // Not `lines`, which hides the other kind of line ends.
    for text in text.strip_suffix('\n').unwrap_or(text).split('\n').filter(|_| !text.is_empty()) {
        let mut place = None;
        let kind = match text.as_bytes() {
            [b'+', ..] if !part.is_over() => {
                place = Some((Rc::clone(&file), part.next.1));
                part.left.1 = part.left.1.saturating_sub(1);
                part.next.1 += 1;
                Kind::Added
            }
            [b'-', ..] if !part.is_over() => {
                place = Some((Rc::clone(&file), part.next.0));
                part.left.0 = part.left.0.saturating_sub(1);
                part.next.0 += 1;
                Kind::Removed
            }
            [b' ', ..] | [] if !part.is_over() => {
                place = Some((Rc::clone(&file), part.next.1));
                part.left = (part.left.0.saturating_sub(1), part.left.1.saturating_sub(1));
                part.next = (part.next.0 + 1, part.next.1 + 1);
                Kind::Same
            }
            [b'@', b'@', ..] => {
                part = Part::read(text).unwrap_or_default();
                Kind::Hunk
            }
            [b'd', b'i', b'f', b'f', b' ', ..] => {
                // The part before may have been cut.
                (file, part) = (Rc::from(""), Part::default());
                Kind::File
            }
            _ => {
                let named = patch::name(text, "+++ b/").or_else(|| patch::name(text, "--- a/"));
                if let Some(named) = named {
                    file = Rc::from(named);
                }
                Kind::Meta
            }
        };
        lines.push(Line { kind, text, place });
    }
    lines
}

/// The lines of the files that are shown unfolded.
const OPEN_LINES_MAX: usize = 1_000;

/// The part of a diff about one file.
struct FileDiff<'l, 'a> {
    lines: &'l [Line<'a>],
    name: String,
    added: usize,
    removed: usize,
    /// Whether a part of it was left out.
    is_cut: bool,
}

/// The files of a diff, in their order.
fn files<'l, 'a>(lines: &'l [Line<'a>]) -> Vec<FileDiff<'l, 'a>> {
    let starts = |line: &Line<'_>| line.kind == Kind::File;
    let mut files = Vec::new();
    let mut rest = lines;
    while !rest.is_empty() {
        let next = rest.iter().skip(1).position(starts).map_or(rest.len(), |at| at + 1);
        let (lines, after) = rest.split_at_checked(next).unwrap_or((rest, &[]));
        rest = after;
        let count = |kind| lines.iter().filter(|line| line.kind == kind).count();
        let (added, removed) = (count(Kind::Added), count(Kind::Removed));
        let head = lines.iter().take_while(|line| line.kind != Kind::Hunk);
        let head: Vec<&str> = head.map(|line| line.text).collect();
        let is_cut = lines.last().is_some_and(|line| line.text.starts_with('…'));
        files.push(FileDiff {
            name: patch::name_of(&head.join("\n")),
            added,
            removed,
            is_cut,
            lines,
        });
    }
    files
}

/// Shows a diff, file by file. The name keeps the addresses of its files apart from those of other diffs.
pub(super) fn show(text: &str, name: &str) -> Markup {
    let lines = lines(text);
    let files = files(&lines);
    let mut shown = 0;
    let opens: Vec<bool> = files
        .iter()
        .map(|file| {
            shown += file.lines.len();
            shown <= OPEN_LINES_MAX
        })
        .collect();
    let counts = |file: &FileDiff<'_, '_>| {
        html! { span.added { "+" (file.added) } " " span.removed { "−" (file.removed) } @if file.is_cut { strong { " and more" } } }
    };
    html! {
        @if files.len() > 1 {
            ul.files { @for (number, file) in files.iter().enumerate() {
                li { a href=(format!("#{name}-{number}")) { (file.name) } " " (counts(file)) }
            } }
        }
        @for ((number, file), is_open) in files.iter().enumerate().zip(opens) {
            details.file #(format!("{name}-{number}")) open[is_open || files.len() == 1] {
                summary { code { (file.name) } " " (counts(file)) }
                div.scroll.diff tabindex="0" role="group" aria-label=(format!("Diff of {}", file.name)) {
                    @for line in file.lines { (shown_line(line)) }
                }
            }
        }
    }
}

fn shown_line(line: &Line<'_>) -> Markup {
    let Line { kind, text, place } = line;
    html! {
        @match place {
            Some((file, number)) => {
                @let removed = if *kind == Kind::Removed { " (removed)" } else { "" };
                div class=(kind.class()) data-at=(format!("{file}:{number}{removed}")) {
                    span.no { (number) } span.text { (text) }
                }
            }
            None => div class=(kind.class()) { (text) },
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
        let number =
            line.and_then(|line| line.place.as_ref()).map(|(_, number)| number.to_string());
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
        let lines = lines(PATCH);
        let places: Vec<_> = lines
            .iter()
            .filter_map(|line| line.place.as_ref())
            .map(|(file, at)| (&**file, *at))
            .collect();
        let x = "src/x.rs";
        assert_eq!(places, [(x, 10), (x, 11), (x, 11), (x, 12), ("y", 1)]);
        let shown = show(PATCH, "diff").into_string();
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
            .filter_map(|line| line.place.clone())
            .map(|(file, _)| file.to_owned())
            .collect();
        assert_eq!(files, ["z", "z", "z"].map(Rc::from));
    }

    #[test]
    fn each_file_has_its_name_and_its_counts() {
        let binary =
            "diff --git a/a b/c.png b/a b/c.png\nnew file mode 100644\nBinary files differ\n";
        let gone = "diff --git a/g b/g\n--- a/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n";
        let text = format!("{PATCH}{binary}{gone}");
        let lines = lines(&text);
        let found: Vec<_> = files(&lines)
            .iter()
            .map(|file| (file.name.clone(), file.added, file.removed))
            .collect();
        let expected = [("src/x.rs", 1, 1), ("y", 1, 0), ("a b/c.png", 0, 0), ("g", 0, 1)];
        assert_eq!(found, expected.map(|(name, added, removed)| (name.to_owned(), added, removed)));
        assert_eq!(files(&lines).iter().map(|file| file.lines.len()).sum::<usize>(), lines.len());
        let shown = show(&text, "diff").into_string();
        assert!(shown.contains("href=\"#diff-2\"") && shown.contains("id=\"diff-2\""), "{shown}");
    }

    #[test]
    fn a_file_that_is_cut_says_so_and_hides_no_other() {
        let text =
            format!("--- a/w w\t\n+++ b/w w\t\n@@ -1,9 +1,9 @@\n+one\r\n… 9 more bytes\n{PATCH}");
        let text = format!("diff --git a/w w b/w w\n{text}");
        let lines = lines(&text);
        let files = files(&lines);
        let found: Vec<_> = files.iter().map(|file| (&*file.name, file.is_cut)).collect();
        assert_eq!(found, [("w w", true), ("src/x.rs", false), ("y", false)]);
        let shown = show(&text, "diff").into_string();
        assert!(shown.contains("data-at=\"w w:1\"") && shown.contains("and more"), "{shown}");
        assert!(shown.contains("+one\r<"), "an other line end is there: {shown}");
        assert!(shown.contains("data-at=\"src/x.rs:11 (removed)\""), "{shown}");
    }

    #[test]
    fn long_diffs_are_folded() {
        let file = |name: &str| {
            let lines = "+x\n".repeat(600);
            format!(
                "diff --git a/{name} b/{name}\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,600 @@\n{lines}"
            )
        };
        let shown = show(&format!("{}{}", file("a"), file("b")), "diff").into_string();
        assert_eq!(shown.matches("<details").count(), 2);
        assert_eq!(shown.matches(" open>").count(), 1, "the second is folded");
        // One file alone is what somebody came for.
        assert!(show(&file("a"), "diff").into_string().contains(" open>"));
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
