//! Looks at files, one at a time, and remembers only what is wrong with them.

use globset::GlobMatcher;
use regex::bytes::Regex;
use serde::de::IgnoredAny;
use windlass_kernel::run::plan::Evidence;

use crate::judge::Found;
use crate::limits::{Flaw, Part, cut_to, matchers, regex};

/// The most violations that are told; the others are counted.
const VIOLATIONS_MAX: usize = 50;
/// The longest violation, in characters.
const VIOLATION_CHARS_MAX: usize = 300;

/// What there is of a file.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// All of it.
    Bytes(&'a [u8]),
    /// It could not be read, and why.
    Unread(&'a str),
}

/// What looking at files has shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// How many files matched.
    pub files: u64,
    /// Whether a file that is not empty is missing.
    pub lacks: bool,
    /// What is wrong, as far as it is told.
    pub violations: Vec<String>,
    /// How much more is wrong.
    pub untold: u64,
}

/// A validator at work.
#[derive(Clone, Debug)]
pub struct Inspector {
    bytes_max: Option<u64>,
    forbid: Option<Regex>,
    json: bool,
    looked: Looked,
    matchers: Vec<GlobMatcher>,
    require: Option<Regex>,
}

impl Inspector {
    /// The validator of a rule; `None` when the rule has none.
    ///
    /// # Errors
    /// [`Flaw`] when it cannot be used.
    pub fn of(evidence: &Evidence) -> Result<Option<Self>, Flaw> {
        let Evidence::Validator { bytes_max, files, forbid, json, require } = evidence else {
            return Ok(None);
        };
        let compile = |pattern: &Option<String>, part| {
            pattern.as_ref().map(|pattern| regex(pattern, part)).transpose()
        };
        let mut inspector = Self {
            bytes_max: *bytes_max,
            forbid: compile(forbid, Part::Forbid)?,
            json: *json,
            looked: Looked::default(),
            matchers: matchers(files)?,
            require: compile(require, Part::Require)?,
        };
        inspector.looked.lacks = !inspector.only_forbids();
        Ok(Some(inspector))
    }

    /// Whether it only says what must not be there: then it is about what a run has changed, and no
    /// file has to be there.
    #[must_use]
    pub const fn only_forbids(&self) -> bool {
        self.bytes_max.is_none() && !self.json && self.require.is_none()
    }

    /// Whether it is about the file at this path, which is relative to the workspace.
    #[must_use]
    pub fn wants(&self, path: &str) -> bool {
        self.matchers.iter().any(|matcher| matcher.is_match(path))
    }

    /// Whether a file of this size has to be read at all.
    #[must_use]
    pub fn reads(&self, bytes: u64) -> bool {
        let fits = self.bytes_max.is_none_or(|most| bytes <= most);
        fits && (self.forbid.is_some() || self.json || self.require.is_some())
    }

    /// Looks at a file; what need not be read may be left empty.
    pub fn look(&mut self, path: &str, bytes: u64, content: Content<'_>) {
        self.looked.files = self.looked.files.saturating_add(1);
        let text = match content {
            Content::Bytes(text) => text,
            Content::Unread(why) => return self.wrong(path, &format!("was not looked at: {why}")),
        };
        self.looked.lacks &= bytes == 0;
        if let Some(most) = self.bytes_max.filter(|most| bytes > *most) {
            self.wrong(path, &format!("has {bytes} bytes, more than {most}"));
        }
        if !self.reads(bytes) {
            return;
        }
        let forbidden = self.forbid.as_ref().and_then(|forbid| forbid.find(text));
        if let Some(found) = forbidden {
            let before = text.get(..found.start()).unwrap_or_default();
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            self.wrong(path, &format!("has in line {line} what is forbidden"));
        }
        if self.require.as_ref().is_some_and(|require| !require.is_match(text)) {
            self.wrong(path, "lacks what is required");
        }
        if self.json
            && let Err(error) = serde_json::from_slice::<IgnoredAny>(text)
        {
            self.wrong(path, &format!("is not JSON: {error}"));
        }
    }

    /// Something else went wrong while looking.
    pub fn fault(&mut self, why: &str) {
        self.told(cut_to(why, VIOLATION_CHARS_MAX));
    }

    fn wrong(&mut self, path: &str, what: &str) {
        let what = cut_to(what, VIOLATION_CHARS_MAX / 2);
        self.told(format!("`{}` {what}", cut_to(path, VIOLATION_CHARS_MAX / 2)));
    }

    fn told(&mut self, violation: String) {
        if self.looked.violations.len() < VIOLATIONS_MAX {
            self.looked.violations.push(violation);
        } else {
            self.looked.untold = self.looked.untold.saturating_add(1);
        }
    }

    /// What looking has shown.
    #[must_use]
    pub fn found(self) -> Found {
        Found::Files(self.looked)
    }
}
