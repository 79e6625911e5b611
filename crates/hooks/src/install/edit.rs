//! Changes to a JSON text that leave everything else as it is written.

use std::collections::BTreeSet;
use std::ops::Range;

use super::json::{Node, PieceKind, pieces};
use super::render::{Json, Layout, Style};

/// A part of a text and what it is replaced by.
#[derive(Clone, Debug)]
pub(crate) struct Splice {
    pub span: Range<usize>,
    pub text: String,
}

impl Splice {
    fn remove(span: Range<usize>) -> Self {
        Self { span, text: String::new() }
    }

    fn insert(at: usize, text: String) -> Self {
        Self { span: at..at, text }
    }
}

/// The text with all replacements, none of which may overlap; none, if some do.
pub(crate) fn applied(text: &str, mut splices: Vec<Splice>) -> Option<String> {
    splices.sort_by_key(|splice| (splice.span.start, splice.span.end));
    let mut edited = String::with_capacity(text.len());
    let mut at = 0;
    for splice in &splices {
        edited.push_str(text.get(at..splice.span.start)?);
        edited.push_str(&splice.text);
        at = splice.span.end;
    }
    edited.push_str(text.get(at..)?);
    Some(edited)
}

/// What is added to a container: an element, or a member with its key.
pub(crate) struct Item<'a> {
    pub key: Option<&'a str>,
    pub json: &'a Json,
}

/// Adds items at the end of a container.
pub(crate) fn insertion(
    text: &str,
    style: &Style,
    container: &Node,
    items: &[Item<'_>],
) -> Vec<Splice> {
    let present = container.items();
    let (Some(first), Some(last)) = (present.first(), present.last()) else {
        return vec![into_empty(text, style, container, items)];
    };
    let inner_end = container.span.end - 1;
    let before_first = text.get(container.span.start..first.start).unwrap_or("");
    if !before_first.contains('\n') {
        let added: String =
            items.iter().map(|item| style.comma() + &style.item(item, &Layout::Inline)).collect();
        return vec![Splice::insert(last.end, added)];
    }
    let indent = line_indent(text, first.start);
    let separator = format!("{}{indent}", style.newline);
    let layout = Layout::Lines { indent: indent.to_owned() };
    let added: Vec<String> =
        items.iter().map(|item| separator.clone() + &style.item(item, &layout)).collect();
    let added = added.join(",");
    match comments_end(text, last.end..inner_end) {
        // The comments after the last item stay with it.
        Some(end) => {
            vec![Splice::insert(last.end, ",".to_owned()), Splice::insert(end, added)]
        }
        None => vec![Splice::insert(last.end, format!(",{added}"))],
    }
}

fn into_empty(text: &str, style: &Style, container: &Node, items: &[Item<'_>]) -> Splice {
    let inner = container.span.start + 1..container.span.end - 1;
    let comments = comments_end(text, inner.clone());
    let rendered = |layout: &Layout| items.iter().map(|item| style.item(item, layout)).collect();
    if !style.lines && comments.is_none() {
        let rendered: Vec<String> = rendered(&Layout::Inline);
        return Splice { span: inner, text: rendered.join(&style.comma()) };
    }
    let base = line_indent(text, container.span.start);
    let indent = format!("{base}{}", style.unit);
    let rendered: Vec<String> = rendered(&Layout::Lines { indent: indent.clone() });
    let newline = style.newline;
    let body = rendered.join(&format!(",{newline}{indent}"));
    let added = format!("{newline}{indent}{body}");
    match comments {
        // What is after the comments, at least the end of a line, stays.
        Some(end) => {
            let rest = text.get(end..inner.end).unwrap_or("");
            let closing =
                if rest.contains('\n') { String::new() } else { newline.to_owned() + base };
            Splice::insert(end, added + &closing)
        }
        None => Splice { span: inner, text: format!("{added}{newline}{base}") },
    }
}

/// The end of the last comment in a part of the text, without the end of its line.
fn comments_end(text: &str, gap: Range<usize>) -> Option<usize> {
    let pieces = pieces(text, gap);
    let last = pieces.iter().rev().find(|piece| piece.kind.is_comment())?;
    let comment = text.get(last.span.clone()).unwrap_or("");
    Some(last.span.start + comment.trim_end_matches(['\r', '\n']).len())
}

/// The spaces and tabs with which the line of this byte begins.
pub(crate) fn line_indent(text: &str, at: usize) -> &str {
    let before = text.get(..at).unwrap_or("");
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.get(start..).unwrap_or("");
    line.get(..line.len() - line.trim_start_matches([' ', '\t']).len()).unwrap_or("")
}

/// Takes items out of a container, with one comma each and the space around it. Comments stay.
pub(crate) fn removal(text: &str, container: &Node, removed: &BTreeSet<usize>) -> Vec<Splice> {
    let items = container.items();
    let kept_first = (0..items.len()).find(|index| !removed.contains(index));
    let mut splices = Vec::new();
    for (index, item) in items.iter().enumerate().filter(|(index, _)| removed.contains(index)) {
        splices.push(Splice::remove(item.clone()));
        let after_kept = kept_first.is_some_and(|kept| kept < index);
        let before = index.checked_sub(1).and_then(|before| items.get(before));
        let rest = text.get(item.end..).unwrap_or("");
        splices.extend(match (before, items.get(index + 1)) {
            (Some(before), next) if after_kept => {
                comma_before(text, before.end..item.start, next.is_none() && ends_line(rest))
            }
            (_, Some(next)) => comma_after(text, item.end..next.start),
            (_, None) => Vec::new(),
        });
    }
    if let (None, Some(first), Some(last)) = (kept_first, items.first(), items.last()) {
        let open = container.span.start + 1..first.start;
        let close = last.end..container.span.end - 1;
        let has_comments = |gap: &Range<usize>| comments_end(text, gap.clone()).is_some();
        if !has_comments(&open) && !has_comments(&close) {
            splices.extend([Splice::remove(open), Splice::remove(close)]);
        }
    }
    splices
}

/// Takes out the comma before an item, and the space up to the item.
fn comma_before(text: &str, gap: Range<usize>, line_ends: bool) -> Vec<Splice> {
    let pieces = pieces(text, gap.clone());
    let Some(comment) = pieces.iter().rev().find(|piece| piece.kind.is_comment()) else {
        return vec![Splice::remove(gap)];
    };
    // The end of a comment's line may go if another one follows the item.
    let cut = comments_end(text, gap.clone()).filter(|_| line_ends);
    let cut = cut.unwrap_or(comment.span.end);
    let commas = pieces.iter().filter(|it| it.kind == PieceKind::Comma && it.span.start < cut);
    let commas = commas.map(|piece| Splice::remove(piece.span.clone()));
    commas.chain([Splice::remove(cut..gap.end)]).collect()
}

/// Takes out the comma after an item, and the space around it if there is nothing else.
fn comma_after(text: &str, gap: Range<usize>) -> Vec<Splice> {
    let pieces = pieces(text, gap.clone());
    if !pieces.iter().any(|piece| piece.kind.is_comment()) {
        return vec![Splice::remove(gap)];
    }
    let commas = pieces.iter().filter(|piece| piece.kind == PieceKind::Comma);
    commas.map(|piece| Splice::remove(piece.span.clone())).collect()
}

/// Whether a text begins with the end of a line.
fn ends_line(text: &str) -> bool {
    text.trim_start_matches([' ', '\t', '\r']).starts_with('\n')
}
