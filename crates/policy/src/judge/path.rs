//! The paths that a call names.

use crate::glob::{Glob, Kind, Token, tokenise};
use crate::rule::Limits;
use crate::shell::Access;

/// The longest path and name that a file system takes.
const PATH_BYTES_MAX: usize = 4096;
const NAME_BYTES_MAX: usize = 255;
/// The most readings of one file name pattern.
const READINGS_MAX: usize = 16;

/// How far a rule's globs reach a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    None,
    Possible,
    Certain,
}

/// One path, or what may be one.
#[derive(Debug)]
pub(crate) struct PathFact {
    /// As it was written.
    pub shown: String,
    text: Vec<char>,
    /// How it is used, if that is known.
    pub access: Option<Access>,
    /// Whether it is surely a path.
    pub counts_for_allow: bool,
    /// What the shell could make of it, if it is a file name pattern.
    readings: Vec<Vec<Token>>,
}

impl PathFact {
    /// A path in normal form.
    pub fn new(shown: &str, normal: &str, access: Option<Access>, folds_case: bool) -> Self {
        let text = if folds_case { normal.to_lowercase() } else { normal.to_owned() };
        Self {
            shown: shown.to_owned(),
            text: text.chars().collect(),
            access,
            counts_for_allow: true,
            readings: Vec::new(),
        }
    }

    /// The same for a file name pattern.
    pub fn pattern(mut self) -> Self {
        self.readings = readings(&self.text);
        self
    }

    /// The same for a word that only may be a path.
    pub const fn maybe(mut self) -> Self {
        self.counts_for_allow = false;
        self
    }

    /// How far the globs reach this path.
    pub fn reach(&self, limits: &Limits, folds_case: bool) -> Reach {
        let globs: &[Glob] = if folds_case { &limits.path_folded } else { &limits.path };
        if globs.iter().any(|glob| glob.matches(&self.text)) {
            return Reach::Certain;
        }
        let possible =
            self.readings.iter().any(|reading| globs.iter().any(|glob| glob.meets(reading)));
        if possible { Reach::Possible } else { Reach::None }
    }
}

/// Whether a file system could take this text as a path.
pub(super) fn could_be_path(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= PATH_BYTES_MAX
        && text.split('/').all(|name| name.len() <= NAME_BYTES_MAX)
}

/// What a pattern can stand for. A `*` or `?` in front of a name never takes a leading dot.
fn readings(text: &[char]) -> Vec<Vec<Token>> {
    let any = || vec![vec![Token::Star { slash: true }]];
    let Ok(tokens) = tokenise(text, Kind::Path) else { return any() };
    let mut readings: Vec<Vec<Token>> = vec![Vec::new()];
    let mut starts = true;
    for (at, token) in tokens.iter().enumerate() {
        let no_dot = Token::Set { negated: true, ranges: vec!['.'..='.'], slash: false };
        match token {
            Token::Star { .. } if starts => {
                let next = tokens.get(at + 1);
                let longer = readings
                    .iter()
                    .map(|reading| [reading.as_slice(), &[no_dot.clone(), token.clone()]].concat());
                let longer: Vec<_> = longer.collect();
                let empty_is_possible =
                    next.is_some_and(|next| !matches!(next, Token::Char('.' | '/')));
                if !empty_is_possible {
                    readings.clear();
                }
                readings.extend(longer);
            }
            Token::Any { .. } if starts => {
                readings.iter_mut().for_each(|one| one.push(no_dot.clone()))
            }
            Token::Char(_) | Token::Any { .. } | Token::Star { .. } | Token::Set { .. } => {
                readings.iter_mut().for_each(|one| one.push(token.clone()));
            }
        }
        if readings.len() > READINGS_MAX {
            return any();
        }
        starts = *token == Token::Char('/');
    }
    readings
}
