//! Validates files, one at a time, and keeps only the violations.

use regex::bytes::Regex;
use serde::de::IgnoredAny;
use windlass_kernel::run::plan::Evidence;
use windlass_text::{Glob, GlobText, printable};

use crate::judge::Observation;
use crate::limits::{RuleError, RuleField, globs, regex};

/// The most violations that are kept; the others are counted.
const VIOLATIONS_MAX: usize = 50;
/// The longest violation, in characters.
const VIOLATION_CHARS_MAX: usize = 300;

/// The content of a file.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// The whole content.
    Bytes(&'a [u8]),
    /// Why it could not be read.
    Unreadable(&'a str),
}

/// What a validator found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileFindings {
    /// How many files matched.
    pub files: u64,
    /// Whether a non-empty file is required and none matched.
    pub lacks_file: bool,
    /// The first violations.
    pub violations: Vec<String>,
    /// The number of violations beyond those.
    pub omitted: u64,
}

/// Checks the files that a validator rule matches.
#[derive(Clone, Debug)]
pub struct FileValidator {
    bytes_max: Option<u64>,
    forbid: Option<Regex>,
    json: bool,
    findings: FileFindings,
    globs: Vec<Glob>,
    require: Option<Regex>,
}

impl FileValidator {
    /// The validator of a rule; `None` if its evidence is not a validator.
    ///
    /// # Errors
    /// [`RuleError`] when a pattern or regular expression cannot be used.
    pub fn new(evidence: &Evidence) -> Result<Option<Self>, RuleError> {
        let Evidence::Validator { bytes_max, files, forbid, json, require } = evidence else {
            return Ok(None);
        };
        let compile = |pattern: &Option<String>, part| {
            pattern.as_ref().map(|pattern| regex(pattern, part)).transpose()
        };
        let mut validator = Self {
            bytes_max: *bytes_max,
            forbid: compile(forbid, RuleField::Forbid)?,
            json: *json,
            findings: FileFindings::default(),
            globs: globs(files)?,
            require: compile(require, RuleField::Require)?,
        };
        validator.findings.lacks_file = !validator.only_forbids();
        Ok(Some(validator))
    }

    /// Whether it only forbids: then it applies to what a run has changed, and no file has to match.
    #[must_use]
    pub const fn only_forbids(&self) -> bool {
        self.bytes_max.is_none() && !self.json && self.require.is_none()
    }

    /// Whether it applies to the file at this path, relative to the workspace.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        let path = GlobText::new(path);
        self.globs.iter().any(|glob| glob.matches(&path))
    }

    /// Whether the content of a file of this size is needed.
    #[must_use]
    pub fn needs_content(&self, bytes: u64) -> bool {
        let fits = self.bytes_max.is_none_or(|max| bytes <= max);
        fits && (self.forbid.is_some() || self.json || self.require.is_some())
    }

    /// Checks a file; its content may be empty if it is not needed.
    pub fn check(&mut self, path: &str, bytes: u64, content: Content<'_>) {
        self.findings.files = self.findings.files.saturating_add(1);
        let text = match content {
            Content::Bytes(text) => text,
            Content::Unreadable(why) => {
                return self.violation(path, &format!("could not be checked: {why}"));
            }
        };
        self.findings.lacks_file &= bytes == 0;
        if let Some(max) = self.bytes_max.filter(|max| bytes > *max) {
            self.violation(path, &format!("has {bytes} bytes, more than {max}"));
        }
        if !self.needs_content(bytes) {
            return;
        }
        let forbidden = self.forbid.as_ref().and_then(|forbid| forbid.find(text));
        if let Some(forbidden) = forbidden {
            let before = text.get(..forbidden.start()).unwrap_or_default();
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            self.violation(path, &format!("has forbidden text in line {line}"));
        }
        if self.require.as_ref().is_some_and(|require| !require.is_match(text)) {
            self.violation(path, "lacks the required text");
        }
        if self.json
            && let Err(error) = serde_json::from_slice::<IgnoredAny>(text)
        {
            self.violation(path, &format!("is not JSON: {error}"));
        }
    }

    /// Adds a violation that concerns no single file.
    pub fn add_violation(&mut self, why: &str) {
        self.push(printable(why, VIOLATION_CHARS_MAX));
    }

    fn violation(&mut self, path: &str, what: &str) {
        let what = printable(what, VIOLATION_CHARS_MAX / 2);
        self.push(format!("`{}` {what}", printable(path, VIOLATION_CHARS_MAX / 2)));
    }

    fn push(&mut self, violation: String) {
        if self.findings.violations.len() < VIOLATIONS_MAX {
            self.findings.violations.push(violation);
        } else {
            self.findings.omitted = self.findings.omitted.saturating_add(1);
        }
    }

    /// Returns the findings.
    #[must_use]
    pub fn finish(self) -> Observation {
        Observation::Files(self.findings)
    }
}
