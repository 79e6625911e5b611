//! The paths that a call names.

use windlass_text::{Glob, GlobKind, GlobText, GlobToken, tokenize};

use crate::rule::Limits;
use crate::shell::{Access, NUMBER};

/// The longest path and name of a file system.
const PATH_BYTES_MAX: usize = 4096;
const NAME_BYTES_MAX: usize = 255;
/// The most interpretations of one file name pattern.
const READINGS_MAX: usize = 16;
/// The longest number in a name that is told from others.
const DIGITS_MAX: usize = 5;

/// Whether a rule's globs match a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathMatch {
    None,
    Possible,
    Certain,
}

/// A path, or a word that may be one.
#[derive(Debug)]
pub(crate) struct PathFact {
    /// As it was written.
    pub shown: String,
    text: GlobText,
    /// How it is used, if known.
    pub access: Option<Access>,
    /// Whether it certainly is a path.
    pub counts_for_allow: bool,
    /// Whether it is only one of many files that the call may use.
    is_one_of_many: bool,
    /// The interpretations of a file name pattern.
    readings: Vec<Vec<GlobToken>>,
}

impl PathFact {
    /// A path in normal form.
    pub fn new(shown: &str, normal: &str, access: Option<Access>, folds_case: bool) -> Self {
        let text =
            if folds_case { GlobText::new(&normal.to_lowercase()) } else { GlobText::new(normal) };
        Self {
            shown: shown.to_owned(),
            text,
            access,
            counts_for_allow: true,
            is_one_of_many: false,
            readings: Vec::new(),
        }
    }

    /// The same for a file name pattern.
    pub fn pattern(mut self) -> Self {
        self.readings = readings(self.text.chars());
        self
    }

    /// The same for a word that only may be a path.
    pub const fn maybe(mut self) -> Self {
        self.counts_for_allow = false;
        self
    }

    /// The same for one of the files in a folder that the call names.
    pub const fn one_of_many(mut self) -> Self {
        self.is_one_of_many = true;
        self.maybe()
    }

    /// The path in normal form; `None` for a file name pattern.
    pub fn exact(&self) -> Option<GlobText> {
        self.readings.is_empty().then(|| self.text.clone())
    }

    /// Whether the globs match this path.
    pub fn match_globs(&self, limits: &Limits, folds_case: bool) -> PathMatch {
        let (globs, except): (&[Glob], &[Glob]) = if folds_case {
            (&limits.path_folded, &limits.except_path_folded)
        } else {
            (&limits.path, &limits.except_path)
        };
        if self.readings.is_empty() && except.iter().any(|glob| glob.matches(&self.text)) {
            return PathMatch::None;
        }
        if globs.iter().any(|glob| glob.matches(&self.text)) {
            return if self.is_one_of_many { PathMatch::Possible } else { PathMatch::Certain };
        }
        let possible =
            self.readings.iter().any(|reading| globs.iter().any(|glob| glob.intersects(reading)));
        if possible { PathMatch::Possible } else { PathMatch::None }
    }
}

/// Whether this text could be a path.
pub(super) fn could_be_path(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= PATH_BYTES_MAX
        && text.split('/').all(|name| name.len() <= NAME_BYTES_MAX)
}

/// The interpretations of a pattern. A `*` or `?` at the start of a name never matches a leading dot.
fn readings(text: &[char]) -> Vec<Vec<GlobToken>> {
    let any = || vec![vec![GlobToken::Star { slash: true }]];
    let Ok(tokens) = tokenize(text, GlobKind::Path) else { return any() };
    let mut readings: Vec<Vec<GlobToken>> = vec![Vec::new()];
    let mut starts = true;
    for (at, token) in tokens.iter().enumerate() {
        let no_dot = GlobToken::Set { negated: true, ranges: vec!['.'..='.'], slash: false };
        match token {
            GlobToken::Char(NUMBER) => {
                let digit =
                    GlobToken::Set { negated: false, ranges: vec!['0'..='9'], slash: false };
                let lengths = 1..=DIGITS_MAX;
                let longer = readings.iter().flat_map(|reading| {
                    let digits = |count| vec![digit.clone(); count];
                    lengths.clone().map(move |count| [reading.clone(), digits(count)].concat())
                });
                readings = longer.collect();
            }
            GlobToken::Star { .. } if starts => {
                let next = tokens.get(at + 1);
                let longer = readings
                    .iter()
                    .map(|reading| [reading.as_slice(), &[no_dot.clone(), token.clone()]].concat());
                let longer: Vec<_> = longer.collect();
                let empty_is_possible =
                    next.is_some_and(|next| !matches!(next, GlobToken::Char('.' | '/')));
                if !empty_is_possible {
                    readings.clear();
                }
                readings.extend(longer);
            }
            GlobToken::Any { .. } if starts => {
                readings.iter_mut().for_each(|one| one.push(no_dot.clone()))
            }
            GlobToken::Char(_)
            | GlobToken::Any { .. }
            | GlobToken::Star { .. }
            | GlobToken::Set { .. } => {
                readings.iter_mut().for_each(|one| one.push(token.clone()));
            }
        }
        if readings.len() > READINGS_MAX {
            return any();
        }
        starts = *token == GlobToken::Char('/');
    }
    readings
}
