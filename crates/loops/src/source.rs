//! A file's bytes as text, cut into frontmatter and body.

use crate::error::{Fault, FileKind, LoopError, Place, Problem};
use crate::near;
use crate::yaml::{self, Node};

/// The largest loop file or agent file.
pub const FILE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How much of a line an error shows.
const SNIPPET_CHARS_MAX: usize = 200;

/// The file's name in errors, and its bytes.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub file: &'a str,
    pub bytes: &'a [u8],
    pub kind: FileKind,
}

/// The frontmatter's values and the text below it.
pub struct Parts<'a> {
    pub front: Node,
    pub body: &'a str,
    pub body_at: Place,
}

const START: Place = Place { line: 1, column: 1 };

impl<'a> Source<'a> {
    /// The file's name without folders and `.md`.
    pub fn stem(&self) -> &'a str {
        let name = self.file.rsplit(['/', '\\']).next().unwrap_or_default();
        name.strip_suffix(".md").unwrap_or(name)
    }

    /// Adds the file to a fault.
    pub fn locate(&self, fault: Fault) -> LoopError {
        let (place, problem) = fault.into_parts();
        let line = self.bytes.split(|byte| *byte == b'\n').nth(place.line - 1).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // Four bytes are the longest character.
        let line = line.get(..SNIPPET_CHARS_MAX * 4 + 4).unwrap_or(line);
        LoopError {
            file: near::clean(self.file, 4096),
            line: place.line,
            column: place.column,
            snippet: near::clean(&String::from_utf8_lossy(line), SNIPPET_CHARS_MAX),
            kind: self.kind,
            problem: Box::new(problem),
        }
    }

    /// Cuts the file into its two parts and reads the first.
    pub fn parts(&self) -> Result<Parts<'a>, Fault> {
        let text = self.text()?;
        let Some((_, rest)) = text.split_once('\n').filter(|(first, _)| is_fence(first)) else {
            let problem = if is_fence(text) { Problem::NotClosed } else { Problem::NoFrontmatter };
            return Err(problem.at(START));
        };
        let mut length = 0;
        for (number, line) in (2..).zip(rest.split_inclusive('\n')) {
            if is_fence(line) {
                let front = rest.get(..length).unwrap_or_default();
                let body = rest.get(length + line.len()..).unwrap_or_default();
                let front = yaml::read(front, Place { line: 2, column: 1 })?;
                // The fence itself when nothing follows: an error's place is inside the file.
                let body_line = if body.is_empty() { number } else { number + 1 };
                return Ok(Parts { front, body, body_at: Place { line: body_line, column: 1 } });
            }
            length += line.len();
        }
        Err(Problem::NotClosed.at(START))
    }

    fn text(&self) -> Result<&'a str, Fault> {
        let bytes = self.bytes.len();
        if bytes > FILE_BYTES_MAX {
            return Err(Problem::TooLarge { bytes, max: FILE_BYTES_MAX }.at(START));
        }
        let text = std::str::from_utf8(self.bytes).map_err(|error| {
            let before = self.bytes.get(..error.valid_up_to()).unwrap_or_default();
            Problem::NotUtf8.at(end_of(&String::from_utf8_lossy(before)))
        })?;
        if let Some(at) = text.find('\0') {
            return Err(Problem::Nul.at(end_of(text.get(..at).unwrap_or_default())));
        }
        // YAML ends a line there and most editors do not: lines would be counted differently.
        let mut returns = text.match_indices('\r');
        let lone = returns.find(|(at, _)| self.bytes.get(at + 1) != Some(&b'\n'));
        if let Some((at, _)) = lone {
            return Err(Problem::LoneReturn.at(end_of(text.get(..at).unwrap_or_default())));
        }
        Ok(text)
    }
}

fn is_fence(line: &str) -> bool {
    line.trim_end() == "---"
}

/// The place after `text`.
fn end_of(text: &str) -> Place {
    let last = text.rsplit('\n').next().unwrap_or_default();
    Place { line: text.matches('\n').count() + 1, column: last.chars().count() + 1 }
}
