//! Matches one rule with a command and the paths of a call.

use super::command::CommandFacts;
use super::facts::Facts;
use super::path::{PathFact, PathMatch};
use crate::Verdict;
use crate::rule::{Limits, Rule};

/// A rule that applies to a call, and how it matches the paths of the whole call. Those are matched once, not for
/// each command.
pub(super) struct Applicable<'a> {
    pub rule: &'a Rule,
    shared: PathsMatch<'a>,
}

impl<'a> Applicable<'a> {
    pub fn new(rule: &'a Rule, facts: &'a Facts) -> Self {
        Self { rule, shared: PathsMatch::of(rule, &facts.paths, facts.folds_case) }
    }
}

/// How the path globs of a rule match some paths.
#[derive(Clone, Copy)]
enum PathsMatch<'a> {
    /// They match none.
    None,
    /// They do not match all that an allow rule must match.
    NotAll,
    /// They may match this path.
    Possible(&'a PathFact),
    /// They match this path.
    Certain(&'a PathFact),
}

/// What a rule matched.
pub(super) struct Match {
    pub on: String,
    /// Whether the match is only possible, not certain.
    pub is_possible: bool,
}

/// Matches a rule's command and path globs.
pub(super) fn rule_match(
    applicable: &Applicable<'_>,
    facts: &Facts,
    command: Option<&CommandFacts>,
) -> Option<Match> {
    let Applicable { rule, shared } = applicable;
    let limits = &rule.limits;
    if !limits.command.is_empty() {
        let command = command?;
        if !command.matches(&limits.command, rule.verdict)
            || command.is_exactly(&limits.except_command)
        {
            return None;
        }
    }
    if limits.path.is_empty() {
        let on = match command.filter(|_| !limits.command.is_empty()) {
            Some(command) => format!("`{}`", command.shown),
            None => facts.tool.clone(),
        };
        return Some(Match { on, is_possible: false });
    }
    let own = command.map_or(&[][..], |command| &command.paths);
    let (path, is_possible) = match shared.and(PathsMatch::of(rule, own, facts.folds_case)) {
        PathsMatch::None | PathsMatch::NotAll => return None,
        PathsMatch::Possible(path) => (path, true),
        PathsMatch::Certain(path) => (path, false),
    };
    Some(Match { on: format!("`{}`", path.shown), is_possible })
}

impl<'a> PathsMatch<'a> {
    fn of(rule: &Rule, paths: &'a [PathFact], folds_case: bool) -> Self {
        if rule.limits.path.is_empty() {
            Self::None
        } else if rule.verdict == Verdict::Allow {
            Self::of_all(&rule.limits, paths, folds_case)
        } else {
            Self::of_any(&rule.limits, paths, folds_case)
        }
    }

    /// An allow rule matches a call only if every word that certainly is a path matches.
    fn of_all(limits: &Limits, paths: &'a [PathFact], folds_case: bool) -> Self {
        let mut counted = paths.iter().filter(|path| path.counts_for_allow).peekable();
        let first = counted.peek().copied();
        let matches = |path: &PathFact| {
            limits.access.is_none_or(|access| path.access == Some(access))
                && path.match_globs(limits, folds_case) == PathMatch::Certain
        };
        if counted.all(matches) { first.map_or(Self::None, Self::Certain) } else { Self::NotAll }
    }

    /// A stricter rule matches if any path does, even a word that only may be a path.
    fn of_any(limits: &Limits, paths: &'a [PathFact], folds_case: bool) -> Self {
        let mut found = Self::None;
        for path in paths {
            if limits.access.is_some_and(|access| path.access.is_some_and(|used| used != access)) {
                continue;
            }
            match path.match_globs(limits, folds_case) {
                PathMatch::Certain => return Self::Certain(path),
                PathMatch::Possible => found = found.and(Self::Possible(path)),
                PathMatch::None => {}
            }
        }
        found
    }

    /// The match with these paths and with further ones behind them.
    const fn and(self, further: Self) -> Self {
        match (self, further) {
            (Self::NotAll, _) | (_, Self::NotAll) => Self::NotAll,
            (Self::Certain(path), _) | (Self::None | Self::Possible(_), Self::Certain(path)) => {
                Self::Certain(path)
            }
            (Self::Possible(path), Self::None | Self::Possible(_))
            | (Self::None, Self::Possible(path)) => Self::Possible(path),
            (Self::None, Self::None) => Self::None,
        }
    }
}
