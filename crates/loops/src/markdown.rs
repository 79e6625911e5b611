//! A Markdown file with YAML frontmatter.

use windlass_text::yaml::{self, Node, Scalars};
use windlass_text::{Location, Position, decode, printable};

use crate::error::{Diagnostic, FileKind, LoopError, Problem};

/// The largest loop file, agent file or workflow file.
pub const FILE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How much of a line an error shows.
const SNIPPET_CHARS_MAX: usize = 200;
/// How much of a path an error shows.
pub const PATH_CHARS_MAX: usize = 4096;

/// A file's path, as errors show it, and its bytes.
#[derive(Clone, Copy)]
pub struct MarkdownFile<'a> {
    pub path: &'a str,
    pub bytes: &'a [u8],
    pub kind: FileKind,
}

/// The frontmatter's values and the text below it.
pub struct Document<'a> {
    pub frontmatter: Node,
    pub body: &'a str,
    pub body_position: Position,
}

impl<'a> MarkdownFile<'a> {
    /// The file's name without folders and `.md`.
    pub fn stem(&self) -> &'a str {
        let name = self.path.rsplit(['/', '\\']).next().unwrap_or_default();
        name.strip_suffix(".md").unwrap_or(name)
    }

    /// Adds the file to a diagnostic.
    pub fn locate(&self, diagnostic: Diagnostic) -> LoopError {
        let (position, problem) = diagnostic.into_parts();
        let mut lines = self.bytes.split(|byte| *byte == b'\n');
        let line = lines.nth(position.line - 1).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // Four bytes are the longest character.
        let line = line.get(..SNIPPET_CHARS_MAX * 4 + 4).unwrap_or(line);
        LoopError {
            location: Location::new(&printable(self.path, PATH_CHARS_MAX), position),
            snippet: printable(&String::from_utf8_lossy(line), SNIPPET_CHARS_MAX),
            kind: self.kind,
            problem: Box::new(problem),
        }
    }

    /// Splits the file at the fences and parses the frontmatter.
    pub fn parse(&self) -> Result<Document<'a>, Diagnostic> {
        let text = self.text()?;
        let Some((_, rest)) = text.split_once('\n').filter(|(first, _)| is_fence(first)) else {
            let problem = if is_fence(text) { Problem::NotClosed } else { Problem::NoFrontmatter };
            return Err(problem.at(Position::START));
        };
        let mut length = 0;
        for (number, line) in (2..).zip(rest.split_inclusive('\n')) {
            if is_fence(line) {
                let frontmatter = rest.get(..length).unwrap_or_default();
                let body = rest.get(length + line.len()..).unwrap_or_default();
                let start = Position { line: 2, column: 1 };
                let frontmatter = yaml::parse(frontmatter, start, Scalars::Unambiguous)?;
                // Without a body, the fence itself: an error's position is inside the file.
                let body_line = if body.is_empty() { number } else { number + 1 };
                let body_position = Position { line: body_line, column: 1 };
                return Ok(Document { frontmatter, body, body_position });
            }
            length += line.len();
        }
        Err(Problem::NotClosed.at(Position::START))
    }

    /// The file's text.
    pub fn text(&self) -> Result<&'a str, Diagnostic> {
        let text = decode(self.bytes, FILE_BYTES_MAX)?;
        // YAML ends a line there and most editors do not: lines would be counted differently.
        let mut returns = text.match_indices('\r');
        match returns.find(|(at, _)| self.bytes.get(at + 1) != Some(&b'\n')) {
            None => Ok(text),
            Some((at, _)) => Err(Problem::LoneReturn.at(Position::of(text, at))),
        }
    }
}

fn is_fence(line: &str) -> bool {
    line.trim_end() == "---"
}
