//! The text of a workflow file: four sections, and in the third the instructions of each step.

use std::collections::BTreeMap;

use windlass_text::Position;

use super::file::WorkflowStep;
use crate::error::{Diagnostic, Problem, shown};
use crate::markdown::Document;

/// The sections, in order.
const SECTIONS: [&str; 4] = ["Overview", "When to Use", "Steps", "Success Metrics"];
/// The section with the instructions of each step.
const STEPS: &str = "Steps";

/// The lines of Markdown text with their numbers, and whether a line is inside a code block.
pub fn lines(text: &str, first: usize) -> impl Iterator<Item = Line<'_>> {
    let mut fence: Option<(char, usize)> = None;
    (first..).zip(text.lines()).map(move |(number, text)| {
        let was_inside = fence.is_some();
        if let Some((character, length, rest)) = fence_of(text) {
            match fence {
                None => fence = Some((character, length)),
                Some((opened, least)) if opened == character && length >= least => {
                    if rest.trim().is_empty() {
                        fence = None;
                    }
                }
                Some(_) => {}
            }
        }
        Line { number, text, is_code: was_inside || fence.is_some() }
    })
}

/// A line of Markdown text.
pub struct Line<'a> {
    pub number: usize,
    pub text: &'a str,
    pub is_code: bool,
}

impl Line<'_> {
    /// The line's first column.
    pub const fn position(&self) -> Position {
        Position { line: self.number, column: 1 }
    }
}

/// The character and the length of a code fence, and the text after it.
fn fence_of(line: &str) -> Option<(char, usize, &str)> {
    let line = line.trim_start();
    let character = line.chars().next().filter(|first| matches!(first, '`' | '~'))?;
    let rest = line.trim_start_matches(character);
    let length = line.len() - rest.len();
    // Backticks further on make it code inside a line.
    let inline = character == '`' && rest.contains('`');
    (length >= 3 && !inline).then_some((character, length, rest))
}

/// A heading and the text below it.
struct Part {
    heading: String,
    position: Position,
    text: String,
}

/// Splits lines at headings of this level, written as its marks.
fn split<'a>(
    lines: impl Iterator<Item = Line<'a>>,
    marks: &str,
) -> (Vec<Line<'a>>, Vec<(Part, Vec<Line<'a>>)>) {
    let mut before = Vec::new();
    let mut parts: Vec<(Part, Vec<Line<'a>>)> = Vec::new();
    for line in lines {
        let heading = line.text.strip_prefix(marks).filter(|_| !line.is_code);
        if let Some(heading) = heading.and_then(|rest| rest.strip_prefix(' ')) {
            let (heading, position) = (heading.trim().to_owned(), line.position());
            parts.push((Part { heading, position, text: String::new() }, Vec::new()));
        } else if let Some((part, lines)) = parts.last_mut() {
            part.text.push_str(line.text);
            part.text.push('\n');
            lines.push(line);
        } else {
            before.push(line);
        }
    }
    (before, parts)
}

/// Checks the sections, and returns the instructions of each step.
pub fn instructions(
    document: &Document<'_>,
    steps: &[WorkflowStep],
) -> Result<Vec<String>, Diagnostic> {
    let (_, sections) = split(lines(document.body, document.body_position.line), "##");
    let mut lines_of = BTreeMap::new();
    for (section, _) in &sections {
        if !SECTIONS.contains(&section.heading.as_str()) {
            return Err(Problem::UnknownSection(shown(&section.heading)).at(section.position));
        }
        if let Some(first_line) = lines_of.insert(&section.heading, section.position.line) {
            let (what, name) = ("the section", section.heading.clone());
            return Err(Problem::DuplicateName { what, name, first_line }.at(section.position));
        }
    }
    let mut found = sections.into_iter();
    let mut instructions = Vec::new();
    for expected in SECTIONS {
        let Some((section, lines)) = found.next() else {
            return Err(Problem::NoSection(expected).at(document.body_position));
        };
        if section.heading != expected {
            let found = section.heading;
            return Err(Problem::SectionOrder { expected, found }.at(section.position));
        }
        if section.text.trim().is_empty() {
            return Err(Problem::EmptySection(section.heading).at(section.position));
        }
        if expected == STEPS {
            instructions = of_steps(lines, section.position, steps)?;
        }
    }
    Ok(instructions)
}

fn of_steps(
    lines: Vec<Line<'_>>,
    position: Position,
    steps: &[WorkflowStep],
) -> Result<Vec<String>, Diagnostic> {
    let (_, headings) = split(lines.into_iter(), "###");
    let mut found = headings.into_iter();
    let mut instructions = Vec::with_capacity(steps.len());
    for (number, step) in (1..).zip(steps) {
        let expected = format!("### {number}. {}", step.name);
        let Some((heading, _)) = found.next() else {
            return Err(Problem::NoStepHeading(shown(&expected)).at(position));
        };
        let written = format!("### {}", heading.heading);
        if written != expected {
            let (expected, found) = (shown(&expected), shown(&written));
            return Err(Problem::StepHeading { expected, found }.at(heading.position));
        }
        let text = heading.text.trim();
        if text.is_empty() {
            return Err(Problem::EmptySection(shown(&heading.heading)).at(heading.position));
        }
        instructions.push(text.to_owned());
    }
    match found.next() {
        None => Ok(instructions),
        Some((heading, _)) => {
            Err(Problem::ExtraStepHeading(shown(&heading.heading)).at(heading.position))
        }
    }
}
