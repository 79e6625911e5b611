//! Searches: the globs by which they choose files, and the files that they read.

use serde_json::Value;
use windlass_text::{Glob, GlobKind};

use super::facts::Facts;
use super::path::{PathFact, PathMatch};
use super::{applies_to, call_matches};
use crate::rule::{Limits, Rule};
use crate::shell::Access;
use crate::{Connector, Question, Registry, ResolvedPath, Server, Tool, Verdict, Workspace};

/// The name of the file tool that searches, and of the one that reads a file.
const SEARCH: &str = "search";
const READ: &str = "read";
/// The most alternatives of a glob that are judged one by one.
const ALTERNATIVES_MAX: usize = 64;

/// A search of files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    /// Whether the client of a coding agent makes it: then nothing is left out of its result.
    by_client: bool,
}

impl Search {
    /// A call of this tool, if it is a search.
    pub fn of(server: &Server, tool: &Tool, by_client: bool) -> Option<Self> {
        let is_search = server.connector == Connector::Files && tool.remote_name == SEARCH;
        is_search.then_some(Self { by_client })
    }
}

/// Globs from one text, as clients split it.
fn globs(text: &str) -> Vec<&str> {
    let is_end = |char: char| char.is_whitespace() || char == ',' && !text.contains('{');
    text.split(is_end).filter(|part| !part.is_empty()).collect()
}

/// The alternatives that the braces of a glob stand for; itself if there are too many.
fn alternatives(glob: &str) -> Vec<String> {
    let mut done = Vec::new();
    let mut open = vec![glob.to_owned()];
    while let Some(next) = open.pop() {
        // The innermost braces come first.
        let parts = next.split_once('}').and_then(|(start, after)| {
            let (before, inner) = start.rsplit_once('{')?;
            let with = |choice: &str| format!("{before}{choice}{after}");
            Some(inner.split(',').map(with).collect::<Vec<_>>())
        });
        match parts {
            Some(parts) => open.extend(parts),
            None => done.push(next),
        }
        if open.len() + done.len() > ALTERNATIVES_MAX {
            return vec![glob.to_owned()];
        }
    }
    done
}

/// A glob as a path below the folder that is searched.
fn below(folder: &str, glob: &str) -> String {
    let glob = glob.strip_prefix('/').map_or_else(
        || if glob.contains('/') { glob.to_owned() } else { format!("**/{glob}") },
        str::to_owned,
    );
    if folder == "." { glob } else { format!("{folder}/{glob}") }
}

impl Facts {
    /// Takes what a search reads: its globs as paths, and the files themselves if a client makes it.
    pub(super) fn take_search(&mut self, args: &Value, search: Search, workspace: &dyn Workspace) {
        let text = |name: &str| args.get(name).and_then(Value::as_str);
        let start = text("path").unwrap_or(".");
        let ResolvedPath::Inside(folder) = workspace.resolve(start) else { return };
        let all: Vec<&str> = text("glob").map(globs).unwrap_or_default();
        let chosen: Vec<String> = all
            .iter()
            .filter(|glob| !glob.starts_with('!'))
            .flat_map(|glob| alternatives(glob))
            .map(|glob| below(&folder, &glob))
            .collect();
        for glob in &chosen {
            let fact = |normal: &str| {
                PathFact::new(glob, normal, Some(Access::Read), self.folds_case).maybe()
            };
            let plain = fact(glob);
            let lower = fact(&glob.to_lowercase());
            self.paths.extend([plain, lower]);
        }
        if search.by_client && text("pattern").is_some() {
            let ignored = args.get("include_ignored").and_then(Value::as_bool).unwrap_or_default();
            // A glob wins over the rules of what is ignored.
            let reads_ignored = ignored || !chosen.is_empty();
            let known: Vec<Glob> =
                chosen.iter().filter_map(|glob| Glob::new(glob, GlobKind::Path).ok()).collect();
            // A glob with a slash is read from the client's own folder, which is not known here.
            let is_plain = !all.iter().any(|glob| glob.contains('/'));
            let is_known = known.len() == chosen.len() && all.len() == 1 && is_plain;
            let filter = is_known.then_some(known);
            self.take_searched(&folder, filter.as_deref(), reads_ignored, workspace);
        }
    }

    fn take_searched(
        &mut self,
        folder: &str,
        filter: Option<&[Glob]>,
        reads_ignored: bool,
        workspace: &dyn Workspace,
    ) {
        let (Some(files), Some(ignored)) =
            (workspace.files_below(folder), workspace.ignored_below(folder))
        else {
            self.findings.insert("more files than can be looked at".to_owned());
            return;
        };
        let is_at_or_below = |path: &str, folder: &str| {
            path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let starts_ignored = ignored.iter().any(|one| is_at_or_below(folder, &one.path));
        let is_left = |file: &str| {
            !reads_ignored
                && !starts_ignored
                && ignored.iter().any(|one| is_at_or_below(file, &one.path))
        };
        for file in files.iter().filter(|file| !is_left(file)) {
            let fits =
                |globs: &[Glob]| globs.is_empty() || globs.iter().any(|g| g.matches_str(file));
            if filter.is_none_or(fits) {
                let shown = format!("{file} in {folder}");
                let fact = PathFact::new(&shown, file, Some(Access::Read), self.folds_case);
                self.paths.push(if file == folder { fact } else { fact.one_of_many() });
            }
        }
    }
}

/// Files whose content a search may not show.
#[derive(Clone, Debug, Default)]
pub struct UnreadablePaths {
    limits: Vec<Limits>,
    folds_case: bool,
}

impl UnreadablePaths {
    /// Whether this file is one of them; the path is relative to the workspace.
    #[must_use]
    pub fn contains(&self, path: &str) -> bool {
        let fact = PathFact::new(path, path, Some(Access::Read), self.folds_case);
        self.limits
            .iter()
            .any(|limits| fact.match_globs(limits, self.folds_case) != PathMatch::None)
    }
}

/// The files that a search leaves out: those that it could not name itself, and those that no reading of a file may show
/// without a person's decision.
pub(crate) fn unreadable(
    registry: &Registry,
    rules: &[Rule],
    question: &Question,
    folds_case: bool,
) -> UnreadablePaths {
    let Some((server, tool)) = registry.find(&question.server, &question.tool) else {
        return UnreadablePaths::default();
    };
    if Search::of(server, tool, false).is_none() {
        return UnreadablePaths::default();
    }
    let reader = server.tools.values().find(|tool| tool.remote_name == READ);
    let is_about_files = |rule: &&Rule| {
        let limits = &rule.limits;
        rule.verdict != Verdict::Allow
            && limits.command.is_empty()
            && !limits.path.is_empty()
            && limits.access.is_none_or(|access| access == Access::Read)
    };
    let holds = |rule: &&Rule| {
        let reading = reader.is_some_and(|reader| applies_to(rule, server, reader));
        (reading || applies_to(rule, server, tool))
            && call_matches(&rule.limits, question, rule.verdict)
    };
    let limits = rules.iter().filter(is_about_files).filter(holds);
    UnreadablePaths { limits: limits.map(|rule| rule.limits.clone()).collect(), folds_case }
}
