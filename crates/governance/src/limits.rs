//! What a rule must hold to, in whatever kind of file it is written.

use globset::{GlobBuilder, GlobMatcher};
use regex::bytes::{Regex, RegexBuilder};
use serde_json::Number;
use windlass_kernel::run::plan::Evidence;

/// How long a program may take when the file does not say, in milliseconds.
pub const TIMEOUT_MS: u64 = 600_000;
/// The longest that a program may take, in milliseconds.
pub const TIMEOUT_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// The most words of a command.
pub const ARGUMENTS_MAX: usize = 1000;
/// The longest word of a command, in characters.
const ARGUMENT_CHARS_MAX: usize = 32_768;
/// The longest JSON pointer.
pub const POINTER_BYTES_MAX: usize = 1000;
/// The most patterns of files.
pub const FILES_MAX: usize = 100;
/// The longest pattern of files or regular expression, in characters.
pub const PATTERN_CHARS_MAX: usize = 1000;
/// How much memory a regular expression may take: a short one can ask for any amount.
const REGEX_BYTES_MAX: usize = 1 << 20;
/// How deep a regular expression may be nested.
const REGEX_DEPTH_MAX: u32 = 50;
/// The largest whole number that canonical JSON keeps.
const SAFE_MAX: u64 = (1 << 53) - 1;

/// The part of a rule that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The largest size.
    BytesMax,
    /// The program.
    Command,
    /// One of the patterns of files, by its place; all of them when it is not there.
    Files(usize),
    /// What none may match.
    Forbid,
    /// Where the number is.
    Pointer,
    /// What each must match.
    Require,
    /// The threshold.
    Threshold,
    /// How long it may take.
    Timeout,
    /// The validator as a whole.
    Validator,
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// What would be right.
    pub hint: &'static str,
    /// What is wrong.
    pub message: String,
    /// The part.
    pub part: Part,
}

impl Flaw {
    fn new(part: Part, message: impl Into<String>, hint: &'static str) -> Self {
        Self { hint, message: message.into(), part }
    }
}

/// Checks what a rule looks at.
///
/// # Errors
/// The first flaw.
pub fn check(evidence: &Evidence) -> Result<(), Flaw> {
    match evidence {
        Evidence::Metric { argv, pointer, threshold, timeout_ms, .. } => {
            program(argv, *timeout_ms)?;
            is_pointer(pointer)?;
            match number(threshold) {
                Some(same) if same == *threshold => Ok(()),
                _ => Err(Flaw::new(
                    Part::Threshold,
                    format!("the number `{threshold}` cannot be recorded exactly"),
                    "write a number that is not larger than 9007199254740991",
                )),
            }
        }
        Evidence::Tool { argv, timeout_ms } => program(argv, *timeout_ms),
        Evidence::Validator { bytes_max, files, forbid, json, require } => {
            if bytes_max.is_none() && forbid.is_none() && !json && require.is_none() {
                return Err(Flaw::new(
                    Part::Validator,
                    "the validator says nothing about its files",
                    "add `require`, `forbid`, `json` or `bytes_max`",
                ));
            }
            if bytes_max.is_some_and(|most| most == 0 || most > SAFE_MAX) {
                let message = format!("`bytes_max` must be 1 to {SAFE_MAX}");
                return Err(Flaw::new(Part::BytesMax, message, "stay within the limit"));
            }
            matchers(files)?;
            if let Some(require) = require {
                // It would be met by anything.
                if regex(require, Part::Require)?.is_match(b"") {
                    let message = "`require` matches even where there is nothing".to_owned();
                    return Err(Flaw::new(Part::Require, message, "say what must be there"));
                }
            }
            forbid.as_ref().map_or(Ok(()), |forbid| regex(forbid, Part::Forbid).map(drop))
        }
    }
}

fn program(argv: &[String], timeout_ms: u64) -> Result<(), Flaw> {
    let wrong = |message: String| Flaw::new(Part::Command, message, "name a program and its words");
    if argv.first().is_none_or(|program| program.trim().is_empty()) {
        return Err(wrong("the command is empty".to_owned()));
    }
    if argv.len() > ARGUMENTS_MAX {
        return Err(wrong(format!("the command has more than {ARGUMENTS_MAX} words")));
    }
    if argv.iter().any(|word| word.contains('\0')) {
        return Err(wrong("the command holds a NUL character".to_owned()));
    }
    if argv.iter().any(|word| word.chars().nth(ARGUMENT_CHARS_MAX).is_some()) {
        let message =
            format!("a word of the command has more than {ARGUMENT_CHARS_MAX} characters");
        return Err(wrong(message));
    }
    if timeout_ms == 0 || timeout_ms > TIMEOUT_MS_MAX {
        let most = TIMEOUT_MS_MAX / 1000;
        let message = format!("`timeout_seconds` must be more than 0 and at most {most}");
        return Err(Flaw::new(Part::Timeout, message, "stay within the limit"));
    }
    Ok(())
}

fn is_pointer(pointer: &str) -> Result<(), Flaw> {
    let escaped = pointer.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    let starts = pointer.is_empty() || pointer.starts_with('/');
    if starts && escaped && pointer.len() <= POINTER_BYTES_MAX {
        return Ok(());
    }
    let message = format!("`{}` is not a JSON pointer", cut(pointer));
    Err(Flaw::new(Part::Pointer, message, "write it as `/name/of/the/number`"))
}

/// The number as it is recorded: whole ones without decimals; `None` when it cannot be.
#[must_use]
pub fn number(number: &Number) -> Option<Number> {
    if let Some(whole) = number.as_i64() {
        return (whole.unsigned_abs() <= SAFE_MAX).then(|| Number::from(whole));
    }
    let value = number.as_f64()?;
    if value.fract() == 0.0 {
        let whole: i64 = format!("{value:.0}").parse().ok()?;
        return (whole.unsigned_abs() <= SAFE_MAX).then(|| Number::from(whole));
    }
    Number::from_f64(value)
}

/// The patterns, ready to match.
pub(crate) fn matchers(files: &[String]) -> Result<Vec<GlobMatcher>, Flaw> {
    if files.is_empty() || files.len() > FILES_MAX {
        let message = format!("`files` must hold 1 to {FILES_MAX} patterns");
        return Err(Flaw::new(Part::Files(usize::MAX), message, "name files, such as `src/**`"));
    }
    files.iter().enumerate().map(|(at, pattern)| matcher(at, pattern)).collect()
}

fn matcher(at: usize, pattern: &str) -> Result<GlobMatcher, Flaw> {
    let hint = "write a relative pattern without `..`, such as `src/**`";
    let outside = pattern.starts_with(['/', '~'])
        || pattern.contains(['\\', ':', '\0', '\n'])
        || pattern.split('/').any(|part| part.is_empty() || part == ".." || part == ".");
    if outside {
        let message = format!("the pattern `{}` does not stay inside the workspace", cut(pattern));
        return Err(Flaw::new(Part::Files(at), message, hint));
    }
    let fault = |why: String| Flaw::new(Part::Files(at), why, hint);
    if pattern.chars().nth(PATTERN_CHARS_MAX).is_some() {
        return Err(fault(format!("a pattern has more than {PATTERN_CHARS_MAX} characters")));
    }
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    let glob = glob.map_err(|error| fault(format!("`{}`: {}", cut(pattern), error.kind())))?;
    Ok(glob.compile_matcher())
}

/// A regular expression over bytes: `^` and `$` match at lines, and letters are ASCII's.
pub(crate) fn regex(pattern: &str, part: Part) -> Result<Regex, Flaw> {
    let hint = "write a regular expression without look-around and back-references";
    if pattern.is_empty() || pattern.chars().nth(PATTERN_CHARS_MAX).is_some() {
        let message = format!("a regular expression must have 1 to {PATTERN_CHARS_MAX} characters");
        return Err(Flaw::new(part, message, hint));
    }
    RegexBuilder::new(pattern)
        .unicode(false)
        .multi_line(true)
        .crlf(true)
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_BYTES_MAX)
        .nest_limit(REGEX_DEPTH_MAX)
        .build()
        .map_err(|error| {
            let text = error.to_string();
            // Its last line says what is wrong, after a drawing of where.
            let last = text.lines().next_back().unwrap_or_default().trim();
            let why = if matches!(error, regex::Error::CompiledTooBig(_)) {
                "it is too large"
            } else {
                last.trim_start_matches("error: ")
            };
            let message = format!("`{}` is not a usable regular expression: {why}", cut(pattern));
            Flaw::new(part, message, hint)
        })
}

/// Text as a message may show it: one line, cut, without control characters.
pub(crate) fn cut(text: &str) -> String {
    cut_to(text, 80)
}

pub(crate) fn cut_to(text: &str, most: usize) -> String {
    let harmless = |character: char| if character.is_control() { '\u{fffd}' } else { character };
    let mut shown: String = text.chars().take(most).map(harmless).collect();
    if text.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}
