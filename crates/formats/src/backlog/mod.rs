//! A backlog in Markdown: checklist items under headings of priorities.
//!
//! `- [ ] **Title** — DoD: … — Owner: … — Context: …` under `### P0` to `### P3`. Code fences and
//! HTML comments are ignored. A bad line is left out and told; what would hide the lines after it is an error.

mod dependency;
mod item;
mod mark;
mod scan;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use thiserror::Error;
use windlass_kernel::{Code, Digest};
use windlass_text::{DecodeProblem, decode};

use crate::keyword::keywords;
use crate::{TASK_PATH_BYTES_MAX, TASK_REFS_MAX, TaskError, TaskSpec};

pub use mark::{EVIDENCE_CHARS_MAX, MarkError, mark_done};

/// The largest backlog.
pub const BACKLOG_BYTES_MAX: usize = 1 << 20;
/// The longest end of a name that is told from a word.
const EXTENSION_CHARS_MAX: usize = 8;
/// The most problems that are reported.
const PROBLEMS_MAX: usize = 100;

keywords! {
    /// The priority of an item, most urgent first.
    Priority {
        /// Now.
        P0 = "P0",
        /// Next.
        P1 = "P1",
        /// Later.
        P2 = "P2",
        /// Eventually.
        P3 = "P3",
    }
}

impl Priority {
    /// Whether items of this priority are selected, so that DoD and owner are required.
    #[must_use]
    pub const fn is_selectable(self) -> bool {
        matches!(self, Self::P0 | Self::P1)
    }
}

/// An item of the checklist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its line, from 1.
    pub line: usize,
    /// Its priority.
    pub priority: Priority,
    /// Whether its checkbox is ticked.
    pub done: bool,
    /// Its title.
    pub title: String,
    /// Its definition of done.
    pub dod: Option<String>,
    /// Its owner.
    pub owner: Option<String>,
    /// Its context.
    pub context: Option<String>,
    /// Whether its text says that it is blocked, and not only by items that are done.
    pub blocked: bool,
    /// The titles of the items that are not done and that it waits for.
    pub waits_for: Vec<String>,
    /// Why it can never be taken, as the backlog is.
    pub stuck: Option<Stuck>,
    /// The digest of its line, without the line end.
    pub digest: Digest,
}

/// Why an item can never be taken.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Stuck {
    /// It waits for items that wait for it.
    #[error("it waits for `{0}`, which in the end waits for it")]
    Cycle(String),
    /// It depends on something that is no item.
    #[error("it depends on `{0}`, which is no task of this backlog")]
    Unknown(String),
}

impl Item {
    /// The words of its context that can be paths in the project.
    pub fn context_paths(&self) -> impl Iterator<Item = &str> {
        let words = self.context.as_deref().unwrap_or_default().split([',', ';', ' ', '\t']);
        let words = words.map(|word| {
            word.trim_matches(|char: char| matches!(char, '`' | '"' | '\'' | '(' | ')'))
        });
        let is_path = |word: &&str| {
            let inside = word.split('/').all(|name| !matches!(name, "" | "." | ".."));
            inside && word.len() <= TASK_PATH_BYTES_MAX && !word.contains(['\\', '\0'])
        };
        words.filter(is_path).take(TASK_REFS_MAX)
    }

    /// The words of its context that are files by their names, such as `docs/plan.md`.
    pub fn context_files(&self) -> impl Iterator<Item = &str> {
        self.context_paths().filter(|path| {
            let name = path.rsplit('/').next().unwrap_or_default();
            name.rsplit_once('.').is_some_and(|(stem, extension)| {
                let is_short = (1..=EXTENSION_CHARS_MAX).contains(&extension.len());
                let is_word = extension.chars().all(|char| char.is_ascii_alphanumeric());
                let is_named = extension.starts_with(|char: char| char.is_ascii_alphabetic());
                !stem.is_empty() && is_short && is_word && is_named
            })
        })
    }

    /// The item as a task. Its `task_ref` is `backlog:` and the digest of its line.
    ///
    /// # Errors
    /// [`TaskError`] when it is too long for a task.
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

/// Why a backlog cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BacklogError {
    /// It is too large, not UTF-8, or contains a NUL character.
    #[error("the backlog cannot be read at line {line}, column {column}: {problem}")]
    NotText {
        /// The line.
        line: usize,
        /// The column.
        column: usize,
        /// Why.
        problem: DecodeProblem,
    },
    /// Some lines are invalid.
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
            Self::NotText { problem: DecodeProblem::TooLarge { .. }, .. } => {
                "move finished items to another file"
            }
            Self::NotText { problem, .. } => problem.hint(),
            Self::Problems(_) => {
                "an item is `- [ ] **Title** — DoD: … — Owner: … — Context: …` under `### P0` to \
                 `### P3`"
            }
        }
    }
}

/// A problem of a backlog, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The problem.
    pub kind: ProblemKind,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}, column {}: {}", self.line, self.column, self.kind)
    }
}

/// The problems of a backlog.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ProblemKind {
    /// There is no heading of a priority.
    #[error("there is no heading `### P0` to `### P3`, so this is not a backlog")]
    NoPriorities,
    /// A heading names an unknown priority.
    #[error("there is no priority `{0}`; use P0 to P3")]
    UnknownPriority(String),
    /// A checkbox is malformed.
    #[error("a checkbox must be `[ ]` or `[x]`, with a space after it")]
    Checkbox,
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
    #[error("the field `{0}:` appears twice")]
    DuplicateField(&'static str),
    /// Two open items of one priority have the same title.
    #[error("the title `{title}` is already used in line {first}, in the same priority")]
    DuplicateTitle {
        /// The title.
        title: String,
        /// The line of the first one.
        first: usize,
    },
    /// A code fence is not closed.
    #[error("the code fence is never closed, so it hides everything after it")]
    OpenFence,
    /// A comment is not closed.
    #[error("the comment is never closed, so it hides everything after it")]
    OpenComment,
}

impl ProblemKind {
    /// Whether it concerns more than its own line.
    const fn hides_lines(&self) -> bool {
        match self {
            Self::NoPriorities | Self::UnknownPriority(_) | Self::OpenFence | Self::OpenComment => {
                true
            }
            Self::Checkbox
            | Self::NoTitle
            | Self::NoField { .. }
            | Self::DuplicateField(_)
            | Self::DuplicateTitle { .. } => false,
        }
    }
}

/// Parses a backlog that must have no problem.
///
/// # Errors
/// [`BacklogError`] with all problems.
pub fn parse(bytes: &[u8]) -> Result<Backlog, BacklogError> {
    let (backlog, problems) = parse_lines(bytes)?;
    if problems.is_empty() { Ok(backlog) } else { Err(BacklogError::Problems(problems)) }
}

/// Parses a backlog, and returns it with the problems of single lines. The items of such lines are left out.
///
/// # Errors
/// [`BacklogError`] if it is not a backlog, or a problem hides the lines after it.
pub fn parse_lines(bytes: &[u8]) -> Result<(Backlog, Vec<Problem>), BacklogError> {
    let text = decode(bytes, BACKLOG_BYTES_MAX).map_err(|error| BacklogError::NotText {
        line: error.position.line,
        column: error.position.column,
        problem: error.problem,
    })?;
    let (mut items, mut problems) = item::items(text);
    problems.extend(repeated_titles(&items));
    problems.sort_by_key(|problem| (problem.line, problem.column));
    if problems.iter().any(|problem| problem.kind.hides_lines()) {
        problems.truncate(PROBLEMS_MAX);
        return Err(BacklogError::Problems(problems));
    }
    dependency::resolve(text, &mut items);
    let bad: BTreeSet<usize> = problems.iter().map(|problem| problem.line).collect();
    problems.truncate(PROBLEMS_MAX);
    let items = items.into_iter().map(|located| located.item);
    Ok((Backlog { items: items.filter(|item| !bad.contains(&item.line)).collect() }, problems))
}

fn repeated_titles(items: &[item::LocatedItem]) -> Vec<Problem> {
    let mut first = BTreeMap::new();
    let mut problems = Vec::new();
    for located in items.iter().filter(|located| !located.item.done) {
        let item = &located.item;
        let words: Vec<&str> = item.title.split_whitespace().collect();
        let key = (item.priority, words.join(" ").to_lowercase());
        match first.get(&key) {
            None => {
                first.insert(key, item.line);
            }
            Some(first) => {
                let kind = ProblemKind::DuplicateTitle { title: item.title.clone(), first: *first };
                problems.push(Problem { line: item.line, column: located.column, kind });
            }
        }
    }
    problems
}

/// The next item: the first open one of P0, otherwise of P1, that is not blocked.
#[must_use]
pub fn next(backlog: &Backlog) -> Option<&Item> {
    let open = backlog.items.iter().filter(|item| !item.done && !item.blocked);
    open.filter(|item| item.priority.is_selectable()).min_by_key(|item| (item.priority, item.line))
}
