//! Checks of a rule that hold in every kind of file.

use regex::bytes::{Regex, RegexBuilder};
use serde_json::Number;
use windlass_kernel::run::plan::Evidence;
use windlass_kernel::run::{PINNED_MAX, pinned_path_error};
use windlass_text::{Glob, printable};

/// The default timeout of a program, in milliseconds.
pub const TIMEOUT_MS: u64 = 600_000;
/// The longest timeout of a program, in milliseconds.
pub const TIMEOUT_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// The most arguments of a command.
pub const ARGUMENTS_MAX: usize = 1000;
/// The longest argument of a command, in characters.
const ARGUMENT_CHARS_MAX: usize = 32_768;
/// The longest JSON pointer.
pub const POINTER_BYTES_MAX: usize = 1000;
/// The most file patterns of a validator.
pub const FILES_MAX: usize = 100;
/// The longest regular expression, in characters.
pub const REGEX_CHARS_MAX: usize = 1000;
/// The most memory of a compiled regular expression: a short one can need any amount.
const REGEX_BYTES_MAX: usize = 1 << 20;
/// The deepest nesting of a regular expression.
const REGEX_DEPTH_MAX: u32 = 50;
/// The largest integer that canonical JSON represents exactly.
const SAFE_MAX: u64 = (1 << 53) - 1;

/// A field of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleField {
    /// `bytes_max`.
    BytesMax,
    /// `command`.
    Command,
    /// The file pattern with this index, or all of them if there is none.
    Files(usize),
    /// `forbid`.
    Forbid,
    /// The pinned path with this index, or all of them if there is none.
    Pinned(usize),
    /// `pointer`.
    Pointer,
    /// `require`.
    Require,
    /// `at_least`, `at_most` or `equal`.
    Threshold,
    /// `timeout_seconds`.
    Timeout,
    /// The validator as a whole.
    Validator,
}

/// Why a rule cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The field that is wrong.
    pub field: RuleField,
    /// Why.
    pub message: String,
    /// How to fix it.
    pub hint: &'static str,
}

impl RuleError {
    fn new(field: RuleField, message: impl Into<String>, hint: &'static str) -> Self {
        Self { field, message: message.into(), hint }
    }
}

/// Checks the evidence of a rule.
///
/// # Errors
/// The first [`RuleError`].
pub fn check_evidence(evidence: &Evidence) -> Result<(), RuleError> {
    match evidence {
        Evidence::Metric { argv, pinned, pointer, threshold, timeout_ms, .. } => {
            program(argv, *timeout_ms)?;
            are_pinned(pinned.as_deref())?;
            is_pointer(pointer)?;
            match exact_number(threshold) {
                Some(same) if same == *threshold => Ok(()),
                _ => Err(RuleError::new(
                    RuleField::Threshold,
                    format!("the number `{threshold}` cannot be recorded exactly"),
                    "write a number of at most 9007199254740991",
                )),
            }
        }
        Evidence::Tool { argv, pinned, timeout_ms } => {
            program(argv, *timeout_ms)?;
            are_pinned(pinned.as_deref())
        }
        Evidence::Validator { bytes_max, files, forbid, json, require } => {
            if bytes_max.is_none() && forbid.is_none() && !json && require.is_none() {
                return Err(RuleError::new(
                    RuleField::Validator,
                    "the validator does not check anything",
                    "add `require`, `forbid`, `json` or `bytes_max`",
                ));
            }
            if bytes_max.is_some_and(|most| most == 0 || most > SAFE_MAX) {
                let message = format!("`bytes_max` must be 1 to {SAFE_MAX}");
                return Err(RuleError::new(RuleField::BytesMax, message, "stay within the limit"));
            }
            globs(files)?;
            if let Some(require) = require {
                // Every file would meet it.
                if regex(require, RuleField::Require)?.is_match(b"") {
                    let message = "`require` matches even an empty file".to_owned();
                    return Err(RuleError::new(
                        RuleField::Require,
                        message,
                        "write an expression that matches the required text",
                    ));
                }
            }
            forbid.as_ref().map_or(Ok(()), |forbid| regex(forbid, RuleField::Forbid).map(drop))
        }
    }
}

fn program(argv: &[String], timeout_ms: u64) -> Result<(), RuleError> {
    let wrong = |message: String| {
        RuleError::new(RuleField::Command, message, "name a program and its arguments")
    };
    if argv.first().is_none_or(|program| program.trim().is_empty()) {
        return Err(wrong("the command is empty".to_owned()));
    }
    if argv.len() > ARGUMENTS_MAX {
        return Err(wrong(format!("the command has more than {ARGUMENTS_MAX} arguments")));
    }
    if argv.iter().any(|word| word.contains('\0')) {
        return Err(wrong("the command contains a NUL character".to_owned()));
    }
    if argv.iter().any(|word| word.chars().nth(ARGUMENT_CHARS_MAX).is_some()) {
        let message =
            format!("an argument of the command has more than {ARGUMENT_CHARS_MAX} characters");
        return Err(wrong(message));
    }
    if timeout_ms == 0 || timeout_ms > TIMEOUT_MS_MAX {
        let most = TIMEOUT_MS_MAX / 1000;
        let message = format!("`timeout_seconds` must be more than 0 and at most {most}");
        return Err(RuleError::new(RuleField::Timeout, message, "stay within the limit"));
    }
    Ok(())
}

fn are_pinned(paths: Option<&[String]>) -> Result<(), RuleError> {
    let paths = paths.unwrap_or_default();
    let hint = "write files or folders relative to the workspace, such as `scripts`";
    if paths.len() > PINNED_MAX {
        let message = format!("`pinned` has more than {PINNED_MAX} paths");
        return Err(RuleError::new(RuleField::Pinned(usize::MAX), message, hint));
    }
    let wrong = paths.iter().enumerate();
    match wrong.filter_map(|(at, path)| Some((at, path, pinned_path_error(path)?))).next() {
        Some((at, path, why)) => {
            let message = format!("`{}` cannot be pinned: {why}", shown(path));
            Err(RuleError::new(RuleField::Pinned(at), message, hint))
        }
        None => Ok(()),
    }
}

fn is_pointer(pointer: &str) -> Result<(), RuleError> {
    let escaped = pointer.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    let starts = pointer.is_empty() || pointer.starts_with('/');
    if starts && escaped && pointer.len() <= POINTER_BYTES_MAX {
        return Ok(());
    }
    let message = format!("`{}` is not a JSON pointer", shown(pointer));
    Err(RuleError::new(RuleField::Pointer, message, "write it as `/name/of/the/number`"))
}

/// The number as it is recorded, integers without decimals; `None` if it cannot be exact.
#[must_use]
pub fn exact_number(number: &Number) -> Option<Number> {
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

/// Parses the file patterns of a validator.
pub(crate) fn globs(files: &[String]) -> Result<Vec<Glob>, RuleError> {
    if files.is_empty() || files.len() > FILES_MAX {
        let message = format!("`files` must have 1 to {FILES_MAX} patterns");
        let field = RuleField::Files(usize::MAX);
        return Err(RuleError::new(field, message, "name files, such as `src/**`"));
    }
    let hint = "write a relative pattern without `..`, such as `src/**`";
    let parse = |(at, pattern): (usize, &String)| {
        Glob::in_workspace(pattern)
            .map_err(|error| RuleError::new(RuleField::Files(at), error.to_string(), hint))
    };
    files.iter().enumerate().map(parse).collect()
}

/// Compiles a regular expression over bytes: `^` and `$` match at lines, and classes are ASCII.
pub(crate) fn regex(pattern: &str, field: RuleField) -> Result<Regex, RuleError> {
    let hint = "write a regular expression without look-around and back-references";
    if pattern.is_empty() || pattern.chars().nth(REGEX_CHARS_MAX).is_some() {
        let message = format!("a regular expression must have 1 to {REGEX_CHARS_MAX} characters");
        return Err(RuleError::new(field, message, hint));
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
            // The last line has the reason, after a drawing of the position.
            let last = text.lines().next_back().unwrap_or_default().trim();
            let why = if matches!(error, regex::Error::CompiledTooBig(_)) {
                "it is too large"
            } else {
                last.trim_start_matches("error: ")
            };
            let message = format!("`{}` is not a usable regular expression: {why}", shown(pattern));
            RuleError::new(field, message, hint)
        })
}

/// User input as a message shows it.
pub(crate) fn shown(text: &str) -> String {
    printable(text, 80)
}
