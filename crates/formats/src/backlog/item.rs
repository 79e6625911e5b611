//! Parses headings and items.

use std::ops::Range;

use windlass_kernel::Digest;

use super::scan::{Line, lines};
use super::{Item, Priority, Problem, ProblemKind};

/// An item and its position in the text.
pub(super) struct LocatedItem {
    pub(super) item: Item,
    /// The column where it starts.
    pub(super) column: usize,
    /// The offset of the character in its checkbox.
    pub(super) checkbox_offset: usize,
    /// The bytes of its line, without the line's end.
    pub(super) bytes: Range<usize>,
}

/// Words of an item that waits for something.
pub(super) const BLOCKED: [&str; 3] = ["blocked", "depends on", "waiting for"];
/// Words that begin what an item waits for, if they follow a dash. They end the field before them.
const WAITS: [&str; 3] = ["blocked by", "depends on", "waiting for"];

/// The state of the parser.
#[derive(Default)]
struct Parser {
    /// The priority of the current section and the level of its heading.
    section: Option<(Priority, usize)>,
    any_section: bool,
    /// The indent of the last item: deeper lines belong to it.
    item_indent: Option<usize>,
    in_list: bool,
    items: Vec<LocatedItem>,
    problems: Vec<Problem>,
}

/// All items of all priorities, and all problems of the text.
pub(super) fn items(text: &str) -> (Vec<LocatedItem>, Vec<Problem>) {
    let (lines, unclosed) = lines(text);
    let mut parser = Parser::default();
    for line in &lines {
        parser.line(line);
    }
    parser.problems.extend(unclosed);
    if !parser.any_section && parser.problems.is_empty() {
        parser.problems.push(Problem { line: 1, column: 1, kind: ProblemKind::NoPriorities });
    }
    (parser.items, parser.problems)
}

impl Parser {
    fn line(&mut self, line: &Line<'_>) {
        let visible = line.visible.as_str();
        let body = visible.trim_start();
        let at = visible.len() - body.len();
        let indent = visible.chars().take_while(|char| char.is_whitespace());
        let indent = indent.map(|char| if char == '\t' { 4 } else { 1 }).sum();
        if body.is_empty() {
            return;
        }
        if let Some((level, title)) = heading(body).filter(|_| indent < 4) {
            self.heading(line, at, level, title);
        } else if let Some(marker) = bullet(body) {
            self.bullet(line, at, indent, marker);
        } else if indent == 0 {
            (self.item_indent, self.in_list) = (None, false);
        }
    }

    fn heading(&mut self, line: &Line<'_>, at: usize, level: usize, title: &str) {
        (self.item_indent, self.in_list) = (None, false);
        match priority(title) {
            Some(Ok(priority)) => {
                self.section = Some((priority, level));
                self.any_section = true;
            }
            Some(Err(name)) => {
                self.section = None;
                self.problem(line, at, ProblemKind::UnknownPriority(name));
            }
            None if self.section.is_some_and(|(_, own)| level > own) => {}
            None => self.section = None,
        }
    }

    fn bullet(&mut self, line: &Line<'_>, at: usize, indent: usize, marker: usize) {
        let is_code = !self.in_list && indent >= 4;
        let is_part = self.item_indent.is_some_and(|item| indent >= item + 2);
        if is_code || is_part {
            return;
        }
        self.in_list = true;
        let box_start = at + marker;
        match checkbox(line.visible.get(box_start..).unwrap_or_default()) {
            Checkbox::None => self.item_indent = None,
            Checkbox::Invalid => {
                self.item_indent = Some(indent);
                if self.section.is_some() {
                    self.problem(line, box_start, ProblemKind::Checkbox);
                }
            }
            Checkbox::Valid { done } => {
                self.item_indent = Some(indent);
                if let Some((priority, _)) = self.section {
                    self.item(line, at, box_start, priority, done);
                }
            }
        }
    }

    fn item(
        &mut self,
        line: &Line<'_>,
        at: usize,
        box_start: usize,
        priority: Priority,
        done: bool,
    ) {
        let text_start = box_start + 3;
        let text = line.visible.get(text_start..).unwrap_or_default();
        let is_required = priority.is_selectable() && !done;
        let bold = bold(text);
        if bold.is_none() && is_required {
            self.problem(line, at, ProblemKind::NoTitle);
        }
        let after_title = bold.as_ref().map_or(0, |bold| bold.end + 2);
        let fields = Fields::read(text, after_title);
        if let Some((field, offset)) = fields.repeated.filter(|_| is_required) {
            self.problem(line, text_start + offset, ProblemKind::DuplicateField(field));
        }
        let title = bold.and_then(|range| text.get(range)).or_else(|| text.get(..fields.start));
        let title = title.unwrap_or_default().trim().to_owned();
        for (field, value) in [("DoD", &fields.dod), ("Owner", &fields.owner)] {
            if is_required && value.is_none() {
                let title = title.clone();
                self.problem(line, at, ProblemKind::NoField { field, title });
            }
        }
        let lower = line.visible.to_lowercase();
        let item = Item {
            line: line.number,
            priority,
            done,
            title,
            dod: fields.dod,
            owner: fields.owner,
            context: fields.context,
            blocked: BLOCKED.iter().any(|word| lower.contains(word)),
            waits_for: Vec::new(),
            stuck: None,
            digest: Digest::of(line.raw.as_bytes()),
        };
        let bytes = line.start..line.start + line.raw.len();
        let column = line.column(at);
        self.items.push(LocatedItem {
            item,
            column,
            checkbox_offset: line.start + box_start + 1,
            bytes,
        });
    }

    fn problem(&mut self, line: &Line<'_>, byte: usize, kind: ProblemKind) {
        self.problems.push(Problem { line: line.number, column: line.column(byte), kind });
    }
}

/// The level and the text of a heading.
fn heading(body: &str) -> Option<(usize, &str)> {
    let text = body.trim_start_matches('#');
    let level = body.len() - text.len();
    let is_heading = (1..=6).contains(&level) && (text.is_empty() || text.starts_with([' ', '\t']));
    is_heading.then(|| (level, text.trim()))
}

/// The priority that a heading names, or the name of an unknown one.
fn priority(title: &str) -> Option<Result<Priority, String>> {
    let digits = title.strip_prefix('P')?;
    let end = digits.find(|char: char| !char.is_ascii_digit()).unwrap_or(digits.len());
    let (number, after) = digits.split_at(end);
    if number.is_empty() || after.starts_with(|char: char| char.is_alphanumeric() || char == '_') {
        return None;
    }
    let name: String = format!("P{number}").chars().take(20).collect();
    Some(name.parse().map_err(|_| name))
}

/// The length of a list item's marker with the white space after it.
fn bullet(body: &str) -> Option<usize> {
    let after = if let Some(rest) = body.strip_prefix(['-', '*', '+']) {
        rest
    } else {
        let rest = body.trim_start_matches(|char: char| char.is_ascii_digit());
        if !(1..=9).contains(&(body.len() - rest.len())) {
            return None;
        }
        rest.strip_prefix(['.', ')'])?
    };
    let text = after.trim_start();
    (after.len() > text.len()).then(|| body.len() - text.len())
}

/// The checkbox at the start of a list item.
enum Checkbox {
    None,
    Invalid,
    Valid { done: bool },
}

fn checkbox(text: &str) -> Checkbox {
    let Some((content, after)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']'))
    else {
        return Checkbox::None;
    };
    let short = content.chars().count() <= 1 || content.trim().is_empty();
    if !short || after.starts_with(['(', '[', ':']) {
        return Checkbox::None;
    }
    let apart = after.is_empty() || after.starts_with(char::is_whitespace);
    match content {
        " " if apart => Checkbox::Valid { done: false },
        "x" | "X" if apart => Checkbox::Valid { done: true },
        _ => Checkbox::Invalid,
    }
}

/// The range of the title between its `**`, if the text starts with one.
fn bold(text: &str) -> Option<Range<usize>> {
    let inner = text.trim_start().strip_prefix("**")?;
    let start = text.len() - inner.len();
    let length = inner.find("**")?;
    let title = inner.get(..length)?;
    (!title.trim().is_empty()).then_some(start..start + length)
}

/// The fields of an item.
struct Fields {
    dod: Option<String>,
    owner: Option<String>,
    context: Option<String>,
    /// The first repeated field, and its offset.
    repeated: Option<(&'static str, usize)>,
    /// Where the first field starts, its dash included.
    start: usize,
}

/// The names of fields; `Done:` is followed by the evidence.
const NAMES: [&str; 4] = ["DoD", "Owner", "Context", "Done"];

/// The name of a part that only ends the field before it.
const NO_FIELD: &str = "";

impl Fields {
    /// Reads the fields of `text` from the byte `from` on.
    fn read(text: &str, from: usize) -> Self {
        let mut starts: Vec<(&'static str, Range<usize>)> = Vec::new();
        for dash in dashes(text).into_iter().filter(|dash| dash.end > from) {
            let after = text.get(dash.end..).unwrap_or_default();
            let name = NAMES.iter().find(|name| {
                after.get(..name.len()).is_some_and(|word| word.eq_ignore_ascii_case(name))
                    && after.get(name.len()..).is_some_and(|rest| rest.starts_with(':'))
            });
            if let Some(name) = name {
                starts.push((name, dash.start..dash.end + name.len() + 1));
            } else if WAITS.iter().any(|words| {
                after.get(..words.len()).is_some_and(|found| found.eq_ignore_ascii_case(words))
            }) {
                starts.push((NO_FIELD, dash));
            }
        }
        let ends = starts.iter().skip(1).map(|(_, range)| range.start).chain([text.len()]);
        let mut fields = Self {
            dod: None,
            owner: None,
            context: None,
            repeated: None,
            start: starts.first().map_or(text.len(), |(_, range)| range.start),
        };
        let mut seen = Vec::new();
        for ((name, range), end) in starts.iter().zip(ends) {
            let value = text.get(range.end..end).unwrap_or_default().trim();
            let value = (!value.is_empty()).then(|| value.to_owned());
            if *name == NO_FIELD {
                continue;
            }
            if seen.contains(name) {
                let at = range.end - name.len() - 1;
                fields.repeated = fields.repeated.or(Some((*name, at)));
                continue;
            }
            seen.push(*name);
            match *name {
                "DoD" => fields.dod = value,
                "Owner" => fields.owner = value,
                "Context" => fields.context = value,
                _ => {}
            }
        }
        fields
    }
}

/// Every dash between fields, with the white space around it.
fn dashes(text: &str) -> Vec<Range<usize>> {
    let mut dashes: Vec<Range<usize>> = Vec::new();
    for mark in ["—", "–", "--"] {
        for (at, _) in text.match_indices(mark) {
            let before = text.get(..at).unwrap_or_default();
            let after = text.get(at + mark.len()..).unwrap_or_default();
            let start = before.trim_end().len();
            let end = text.len() - after.trim_start().len();
            if start < at && end > at + mark.len() {
                dashes.push(start..end);
            }
        }
    }
    dashes.sort_by_key(|dash| dash.start);
    dashes
}
