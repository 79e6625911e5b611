//! The reflection on a session, as a block of Markdown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use thiserror::Error;
use windlass_text::printable;

use crate::keyword::keywords;

/// The longest reflection, in characters.
pub const REFLECTION_CHARS_MAX: usize = 50_000;
/// The heading of the block.
const HEADING: &str = "## Framework Reflection";

keywords! {
    /// How a session ended.
    SessionOutcome {
        /// All of the task is done.
        Success = "success",
        /// A part of it is done.
        Partial = "partial",
        /// Nothing of it is done.
        Failure = "failure",
    }
}

keywords! {
    /// A field of a reflection.
    ReflectionField {
        /// What the user asked for.
        Request = "Request",
        /// What the hydrator and custodiet advised.
        GuidanceReceived = "Guidance received",
        /// What of it was followed.
        Followed = "Followed",
        /// How the session ended.
        Outcome = "Outcome",
        /// What was accomplished; required unless the session failed.
        Accomplishment = "Accomplishment",
        /// What failed; required unless the session succeeded.
        RootCause = "Root cause",
        /// What should be changed.
        ProposedChange = "Proposed change",
    }
}

/// Why text is not a reflection.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ReflectionError {
    /// There is no such block.
    #[error("there is no heading `{HEADING}`")]
    NoHeading,
    /// There are several.
    #[error("there is more than one heading `{HEADING}`")]
    SecondHeading,
    /// The text is too long.
    #[error("the reflection has more than {REFLECTION_CHARS_MAX} characters")]
    TooLong,
    /// Text belongs to no field.
    #[error("the text `{0}` below the heading belongs to no field")]
    Stray(String),
    /// A field appears twice.
    #[error("the field `{0}` appears twice")]
    Twice(ReflectionField),
    /// A code block has no end.
    #[error("a code block in the field `{0}` has no end")]
    OpenCode(ReflectionField),
    /// Fields are missing or empty.
    #[error("these fields are missing or empty: {}", listed(.0))]
    Missing(Vec<ReflectionField>),
    /// The outcome is none of the three.
    #[error("the field `Outcome` must begin with `Success`, `Partial` or `Failure`, not `{0}`")]
    Outcome(String),
}

fn listed(fields: &[ReflectionField]) -> String {
    fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(", ")
}

/// The reflection on a session. What [`Reflection::parse`] returns is the same after
/// [`Reflection::render`] and another parse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reflection {
    /// What was accomplished; present unless the session failed.
    pub accomplishment: Option<String>,
    /// What of the guidance was followed.
    pub followed: String,
    /// What the hydrator and custodiet advised.
    pub guidance_received: String,
    /// How the session ended.
    pub outcome: SessionOutcome,
    /// What the reflection says about the outcome besides its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome_note: Option<String>,
    /// What should be changed.
    pub proposed_change: String,
    /// What the user asked for.
    pub request: String,
    /// What failed; present unless the session succeeded.
    pub root_cause: Option<String>,
}

impl Reflection {
    /// Reads the block `## Framework Reflection` in a text. It ends at the next heading of the same
    /// or a higher level; text around it is not read.
    ///
    /// # Errors
    /// [`ReflectionError`] when there is not exactly one such block with all required fields.
    pub fn parse(text: &str) -> Result<Self, ReflectionError> {
        if text.chars().nth(REFLECTION_CHARS_MAX).is_some() {
            return Err(ReflectionError::TooLong);
        }
        let mut values = values(text)?;
        values.retain(|_, value| !value.is_empty());
        let outcome = values.remove(&ReflectionField::Outcome);
        let outcome = outcome.map(|value| normalise(&value)).transpose()?;
        let missing: Vec<ReflectionField> = ReflectionField::ALL
            .iter()
            .copied()
            .filter(|field| is_required(*field, outcome.as_ref().map(|(outcome, _)| *outcome)))
            .filter(|field| {
                let is_outcome = *field == ReflectionField::Outcome;
                if is_outcome { outcome.is_none() } else { !values.contains_key(field) }
            })
            .collect();
        let (Some((outcome, outcome_note)), true) = (outcome, missing.is_empty()) else {
            return Err(ReflectionError::Missing(missing));
        };
        let mut take = |field| values.remove(&field);
        Ok(Self {
            accomplishment: take(ReflectionField::Accomplishment),
            followed: take(ReflectionField::Followed).unwrap_or_default(),
            guidance_received: take(ReflectionField::GuidanceReceived).unwrap_or_default(),
            outcome,
            outcome_note,
            proposed_change: take(ReflectionField::ProposedChange).unwrap_or_default(),
            request: take(ReflectionField::Request).unwrap_or_default(),
            root_cause: take(ReflectionField::RootCause),
        })
    }

    /// The block.
    #[must_use]
    pub fn render(&self) -> String {
        let outcome = match self.outcome {
            SessionOutcome::Success => "Success",
            SessionOutcome::Partial => "Partial",
            SessionOutcome::Failure => "Failure",
        };
        let outcome = match &self.outcome_note {
            None => outcome.to_owned(),
            // A code block must begin on a line of its own.
            Some(note) if is_code_block(note) => format!("{outcome}\n{note}"),
            Some(note) => format!("{outcome} - {note}"),
        };
        let mut block = format!("{HEADING}\n\n");
        for field in ReflectionField::ALL {
            let value = match field {
                ReflectionField::Request => Some(&self.request),
                ReflectionField::GuidanceReceived => Some(&self.guidance_received),
                ReflectionField::Followed => Some(&self.followed),
                ReflectionField::Outcome => Some(&outcome),
                ReflectionField::Accomplishment => self.accomplishment.as_ref(),
                ReflectionField::RootCause => self.root_cause.as_ref(),
                ReflectionField::ProposedChange => Some(&self.proposed_change),
            };
            let condition =
                if *field == ReflectionField::RootCause { " (if not success)" } else { "" };
            if let Some(value) = value {
                // Writing to a string cannot fail.
                let _ = writeln!(block, "**{field}**{condition}: {value}");
            }
        }
        block
    }
}

/// Whether a field must be there; with an unknown outcome, only what every outcome needs.
const fn is_required(field: ReflectionField, outcome: Option<SessionOutcome>) -> bool {
    match (field, outcome) {
        (
            ReflectionField::Request
            | ReflectionField::GuidanceReceived
            | ReflectionField::Followed
            | ReflectionField::Outcome
            | ReflectionField::ProposedChange,
            _,
        )
        | (
            ReflectionField::Accomplishment,
            Some(SessionOutcome::Success | SessionOutcome::Partial),
        )
        | (ReflectionField::RootCause, Some(SessionOutcome::Partial | SessionOutcome::Failure)) => {
            true
        }
        (ReflectionField::Accomplishment, Some(SessionOutcome::Failure) | None)
        | (ReflectionField::RootCause, Some(SessionOutcome::Success) | None) => false,
    }
}

/// The values of the block's fields, trimmed.
fn values(text: &str) -> Result<BTreeMap<ReflectionField, String>, ReflectionError> {
    let mut lines = text.split('\n').map(str::trim_end);
    // The whole block can be inside a code block, and ends with it.
    let mut around: Option<Fence> = None;
    loop {
        match lines.next() {
            None => return Err(ReflectionError::NoHeading),
            Some(HEADING) => break,
            Some(line) => around = Fence::after(around, line),
        }
    }
    let mut values: BTreeMap<ReflectionField, String> = BTreeMap::new();
    let mut current: Option<ReflectionField> = None;
    let mut fence: Option<Fence> = None;
    let mut is_over = false;
    for line in lines {
        if fence.is_none() && line == HEADING {
            return Err(ReflectionError::SecondHeading);
        }
        let is_heading = line.starts_with("# ") || line.starts_with("## ");
        let is_end = around.is_some() && Fence::after(around, line).is_none();
        is_over |= fence.is_none() && (is_heading || is_end);
        if is_over {
            continue;
        }
        let started = if fence.is_none() { field_line(line) } else { None };
        let content = started.map_or(line, |(_, value)| value);
        if let Some((field, _)) = started {
            if values.insert(field, String::new()).is_some() {
                return Err(ReflectionError::Twice(field));
            }
            current = Some(field);
        }
        let Some(value) = current.and_then(|field| values.get_mut(&field)) else {
            if line.is_empty() {
                continue;
            }
            return Err(ReflectionError::Stray(printable(line, 80)));
        };
        fence = Fence::after(fence, content);
        if !value.is_empty() {
            value.push('\n');
        }
        value.push_str(if value.is_empty() { content.trim_start() } else { content });
    }
    match (fence, current) {
        (Some(_), Some(field)) => Err(ReflectionError::OpenCode(field)),
        (Some(_) | None, _) => {
            Ok(values.into_iter().map(|(field, value)| (field, value.trim().to_owned())).collect())
        }
    }
}

/// A line that begins a field, and the value on that line. The name can be followed by a condition
/// in parentheses, and the colon can be inside the bold text.
fn field_line(line: &str) -> Option<(ReflectionField, &str)> {
    let line = line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")).unwrap_or(line);
    let (name, rest) = line.strip_prefix("**")?.split_once("**")?;
    let (name, value) = match name.strip_suffix(':') {
        Some(name) => (name, rest),
        None => {
            let (condition, value) = rest.split_once(':')?;
            let condition = condition.trim();
            let is_condition = condition.starts_with('(') && condition.ends_with(')');
            if !condition.is_empty() && !is_condition {
                return None;
            }
            (name, value)
        }
    };
    let name = name.trim();
    let field = ReflectionField::ALL.iter().find(|field| field.as_str().eq_ignore_ascii_case(name));
    Some((*field?, value.trim()))
}

/// The outcome that a value begins with, and the rest of the value.
fn normalise(value: &str) -> Result<(SessionOutcome, Option<String>), ReflectionError> {
    let wrong = || ReflectionError::Outcome(printable(value, 80));
    let text = value.trim_start_matches(['*', '`', '[']);
    let rest = text.trim_start_matches(|character: char| character.is_alphanumeric());
    let word = text.strip_suffix(rest).unwrap_or_default().to_lowercase();
    let outcome = word.parse().map_err(|_| wrong())?;
    // `Success/Partial/Failure` is the form's own text, not an answer.
    if rest.starts_with(['/', '|', '?']) {
        return Err(wrong());
    }
    let closing = if text.len() == value.len() { rest } else { rest.trim_start_matches(CLOSING) };
    let note = closing.trim_start_matches(|character: char| {
        character.is_whitespace() || ".,:;-–—".contains(character)
    });
    Ok((outcome, (!note.is_empty()).then(|| note.to_owned())))
}

/// Whether text begins with a code block and has no other one without an end.
fn is_code_block(text: &str) -> bool {
    Fence::of(text).is_some() && text.split('\n').fold(None, Fence::after).is_none()
}

/// What closes an emphasis around the outcome.
const CLOSING: [char; 3] = ['*', '`', ']'];

/// The start of a code block.
#[derive(Clone, Copy)]
struct Fence {
    mark: char,
    length: usize,
}

impl Fence {
    /// The fence that a line begins.
    fn of(line: &str) -> Option<Self> {
        let line = line.split('\n').next().unwrap_or_default().trim();
        let mark = line.chars().next().filter(|first| matches!(first, '`' | '~'))?;
        let rest = line.trim_start_matches(mark);
        let length = line.len() - rest.len();
        let is_inline = mark == '`' && rest.contains('`');
        (length >= 3 && !is_inline).then_some(Self { mark, length })
    }

    /// The fence that is open after a line.
    fn after(open: Option<Self>, line: &str) -> Option<Self> {
        let Some(fence) = open else { return Self::of(line) };
        let line = line.trim();
        let closes = line.len() >= fence.length && line.chars().all(|mark| mark == fence.mark);
        (!closes).then_some(fence)
    }
}
