//! A backlog in Markdown: check-list lines under the headings of their priority.
//!
//! `- [ ] **Title** — DoD: … — Owner: … — Context: …` under `### P0` to `### P3`. Code fences and
//! HTML comments are not looked at. Whatever would hide an item silently is an error instead.

mod item;
mod mark;
mod scan;

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;
use windlass_kernel::{Code, Digest};

use crate::word::words;
use crate::{TaskError, TaskSpec};

pub use mark::{EVIDENCE_CHARS_MAX, MarkError, mark_done};

/// The largest backlog.
pub const BACKLOG_BYTES_MAX: usize = 1 << 20;
/// How many problems are told at once.
const PROBLEMS_MAX: usize = 100;

words! {
    /// How urgent an item is; the first is the most urgent one.
    Priority {
        /// Now.
        P0 = "P0",
        /// Next.
        P1 = "P1",
        /// Later.
        P2 = "P2",
        /// Some time.
        P3 = "P3",
    }
}

impl Priority {
    /// Whether items of this priority are taken, so that they must say what is done and by whom.
    #[must_use]
    pub const fn is_selectable(self) -> bool {
        matches!(self, Self::P0 | Self::P1)
    }
}

/// One line of the check-list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its line, from 1.
    pub line: usize,
    /// Its priority.
    pub priority: Priority,
    /// Whether its box is ticked.
    pub done: bool,
    /// Its title.
    pub title: String,
    /// What is true when it is done.
    pub dod: Option<String>,
    /// Who answers for it.
    pub owner: Option<String>,
    /// What else helps.
    pub context: Option<String>,
    /// Whether it says that it waits for something else.
    pub blocked: bool,
    /// The digest of its exact line, without the line's end.
    pub digest: Digest,
}

impl Item {
    /// The item as a task. Its `task_ref` is `backlog:` and the digest of its line.
    ///
    /// # Errors
    /// [`TaskError`] when it is longer than a task may be.
    pub fn to_task(&self) -> Result<TaskSpec, TaskError> {
        let mut task = self.title.clone();
        for (name, value) in
            [("Definition of done", &self.dod), ("Owner", &self.owner), ("Context", &self.context)]
        {
            if let Some(value) = value {
                task.push_str(&format!("\n{name}: {value}"));
            }
        }
        let spec = TaskSpec {
            task_ref: Some(format!("backlog:{}", self.digest)),
            ..TaskSpec::from_sentence(&task)?
        };
        Ok(spec)
    }
}

/// A backlog without problems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// Its items, in the order of their lines.
    pub items: Vec<Item>,
}

/// A backlog that cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BacklogError {
    /// It is too large.
    #[error("the backlog is {bytes} bytes long, more than the {BACKLOG_BYTES_MAX} allowed")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// It is not text.
    #[error("the backlog is not UTF-8 in line {line}, column {column}")]
    NotUtf8 {
        /// The line of the first byte that is not.
        line: usize,
        /// Its column.
        column: usize,
    },
    /// Lines of it are not as they must be.
    #[error("the backlog has {} problem(s), the first in {}", .0.len(), .0.first().map(ToString::to_string).unwrap_or_default())]
    Problems(Vec<Problem>),
}

impl BacklogError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        Code::BacklogInvalid
    }

    /// What to do about it.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "move what is done to another file",
            Self::NotUtf8 { .. } => "save the file as UTF-8",
            Self::Problems(_) => {
                "an item is `- [ ] **Title** — DoD: … — Owner: … — Context: …` under `### P0` to \
                 `### P3`"
            }
        }
    }
}

/// One thing that is wrong with a backlog, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub kind: ProblemKind,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}, column {}: {}", self.line, self.column, self.kind)
    }
}

/// What can be wrong with a backlog.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ProblemKind {
    /// There is no heading of a priority.
    #[error("there is no heading `### P0` to `### P3`, so this is no backlog")]
    NoPriorities,
    /// A heading names a priority that there is not.
    #[error("there is no priority `{0}`; they are P0 to P3")]
    UnknownPriority(String),
    /// A box is neither open nor done.
    #[error("a box is `[ ]` or `[x]`, with a space after it")]
    Box,
    /// An item has no title.
    #[error("the item has no title between `**`")]
    NoTitle,
    /// An item lacks a field.
    #[error("the item `{title}` has no `{field}:`")]
    NoField {
        /// The field.
        field: &'static str,
        /// The item.
        title: String,
    },
    /// An item has a field twice.
    #[error("the field `{0}:` stands there twice")]
    FieldTwice(&'static str),
    /// Two open items of one priority have the same title.
    #[error("the title `{title}` stands in line {first} too, in the same priority")]
    TitleTwice {
        /// The title.
        title: String,
        /// The line of the first one.
        first: usize,
    },
    /// A code fence hides all that follows.
    #[error("the code fence is never closed, so it hides all that follows")]
    OpenFence,
    /// A comment hides all that follows.
    #[error("the comment is never closed, so it hides all that follows")]
    OpenComment,
}

/// Reads a backlog.
///
/// # Errors
/// [`BacklogError`] with every line and column where it is not as it must be.
pub fn parse(bytes: &[u8]) -> Result<Backlog, BacklogError> {
    if bytes.len() > BACKLOG_BYTES_MAX {
        return Err(BacklogError::TooLarge { bytes: bytes.len() });
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let before = String::from_utf8_lossy(before);
        let last = before.rsplit('\n').next().unwrap_or_default();
        BacklogError::NotUtf8 {
            line: before.matches('\n').count() + 1,
            column: last.chars().count() + 1,
        }
    })?;
    let (found, mut problems) = item::items(text);
    problems.extend(repeated_titles(&found));
    problems.sort_by_key(|problem| (problem.line, problem.column));
    problems.truncate(PROBLEMS_MAX);
    if !problems.is_empty() {
        return Err(BacklogError::Problems(problems));
    }
    Ok(Backlog { items: found.into_iter().map(|found| found.item).collect() })
}

fn repeated_titles(found: &[item::Found]) -> Vec<Problem> {
    let mut first = BTreeMap::new();
    let mut problems = Vec::new();
    for found in found.iter().filter(|found| !found.item.done) {
        let item = &found.item;
        let words: Vec<&str> = item.title.split_whitespace().collect();
        let key = (item.priority, words.join(" ").to_lowercase());
        match first.get(&key) {
            None => {
                first.insert(key, item.line);
            }
            Some(first) => {
                let kind = ProblemKind::TitleTwice { title: item.title.clone(), first: *first };
                problems.push(Problem { line: item.line, column: found.column, kind });
            }
        }
    }
    problems
}

/// The item to take next: the first open one of P0, else of P1, that does not wait for anything.
///
/// `None` is an outcome of its own: there is nothing left that can be taken.
#[must_use]
pub fn next(backlog: &Backlog) -> Option<&Item> {
    let open = backlog.items.iter().filter(|item| !item.done && !item.blocked);
    open.filter(|item| item.priority.is_selectable()).min_by_key(|item| (item.priority, item.line))
}
