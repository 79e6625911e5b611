//! Files that a command changes without naming them, and what no checkpoint brings back.

use windlass_text::{Glob, GlobKind};

use super::command::printable;
use super::effects;
use super::facts::{Facts, folder_of_pattern, within};
use super::git;
use super::path::PathFact;
use crate::shell::{Access, Simple};
use crate::{ResolvedPath, UncommittedFile, Workspace};

impl Facts {
    /// Whether there is no file yet at a path, seen from each of the folders.
    pub(super) fn is_free(
        &self,
        path: &str,
        folders: &[String],
        workspace: &dyn Workspace,
    ) -> bool {
        folders.iter().all(|folder| match workspace.resolve(&within(folder, path)) {
            ResolvedPath::Inside(normal) => {
                let parent = normal.rsplit_once('/').map_or(".", |(parent, _)| parent);
                workspace.files_below(parent).is_some_and(|files| !files.contains(&normal))
            }
            ResolvedPath::Outside(_) | ResolvedPath::Unresolvable(_) => false,
        })
    }

    /// Takes what a command does to files that its words do not name.
    pub(super) fn take_effects(
        &mut self,
        simple: &Simple,
        folders: &[String],
        workspace: &dyn Workspace,
        paths: &mut Vec<PathFact>,
    ) {
        let words = &simple.words;
        let inside = |path: &str, folder: &String| match workspace.resolve(&within(folder, path)) {
            ResolvedPath::Inside(normal) => Some(normal),
            ResolvedPath::Outside(_) | ResolvedPath::Unresolvable(_) => None,
        };
        for made in effects::copies(words, workspace) {
            for normal in folders.iter().filter_map(|folder| inside(&made, folder)) {
                let fact = PathFact::new(&made, &normal, Some(Access::Write), self.folds_case);
                let fact = if made.contains('[') { fact.pattern() } else { fact };
                paths.push(fact.maybe());
            }
        }
        if let Some(dropped) = git::dropped(words) {
            match workspace.uncommitted_files() {
                Some(files) => {
                    let files = files.iter().filter(|file| dropped.contains(file));
                    paths.extend(files.map(|UncommittedFile { path, .. }| {
                        let shown = format!("{path}, which is not committed");
                        let access = Some(Access::Write);
                        PathFact::new(&shown, path, access, self.folds_case).one_of_many()
                    }));
                }
                None => {
                    self.findings.insert("what is not committed is not known".to_owned());
                }
            }
        }
        for revision in git::revisions(words) {
            match workspace.changed_files(&revision) {
                Some(files) => {
                    self.take_replaced(&files, workspace);
                    paths.extend(files.iter().map(|file| {
                        let shown = format!("{file} of {revision}");
                        PathFact::new(&shown, file, Some(Access::Write), self.folds_case).maybe()
                    }));
                }
                None => {
                    self.findings
                        .insert(printable(&format!("what `{revision}` changes is not known")));
                }
            }
        }
        for (path, pattern) in effects::removed(words) {
            for folder in folders {
                if let Some(normal) = inside(folder_of_pattern(&path), folder) {
                    let pattern = pattern.as_ref().map(|pattern| within(folder, pattern));
                    self.take_removal(&normal, pattern.as_deref(), workspace);
                }
            }
        }
        for path in effects::overwritten(words) {
            for folder in folders {
                self.take_overwriting(&within(folder, &path), workspace);
            }
        }
        if git::is_git(words) {
            for folder in folders.iter().filter(|folder| workspace.is_repository(folder)) {
                self.findings.insert(printable(&format!(
                    "`{folder}` is a repository of its own, with settings that git follows"
                )));
            }
        }
    }

    /// Asks about the removal of what no checkpoint brings back.
    pub(super) fn take_removal(
        &mut self,
        path: &str,
        pattern: Option<&str>,
        workspace: &dyn Workspace,
    ) {
        let Some(ignored) = workspace.ignored_below(path) else {
            self.findings.insert(printable(&format!("what git ignores in `{path}` is not known")));
            return;
        };
        let glob =
            pattern.and_then(|text| Glob::new(text.trim_start_matches("./"), GlobKind::Path).ok());
        let removed = |path: &str| match (pattern, &glob) {
            (Some(_), Some(glob)) => {
                let names: Vec<&str> = path.split('/').collect();
                (1..=names.len()).any(|count| {
                    let start = names.get(..count).unwrap_or_default().join("/");
                    glob.matches_str(&start)
                })
            }
            (Some(_), None) | (None, _) => true,
        };
        let lost = ignored
            .iter()
            .find(|one| !one.is_cache && !effects::is_output(&one.path) && removed(&one.path));
        if let Some(lost) = lost {
            self.findings.insert(printable(&format!(
                "git ignores `{}`, so that no checkpoint brings it back",
                lost.path
            )));
        }
    }

    /// Asks about writing over a file that no checkpoint brings back.
    pub(super) fn take_overwriting(&mut self, path: &str, workspace: &dyn Workspace) {
        let ResolvedPath::Inside(normal) = workspace.resolve(path) else { return };
        if effects::is_scratch(&normal) {
            return;
        }
        if path.contains(['*', '?', '[']) {
            let start = folder_of_pattern(path);
            if let ResolvedPath::Inside(folder) = workspace.resolve(start) {
                self.take_removal(&folder, Some(path), workspace);
            }
            return;
        }
        let ignored = workspace.ignored_below(&normal).unwrap_or_default();
        if ignored.iter().any(|one| one.path == normal) {
            self.take_removal(&normal, None, workspace);
        }
    }

    /// Asks about files of another revision that take the place of ignored ones.
    fn take_replaced(&mut self, files: &[String], workspace: &dyn Workspace) {
        if files.is_empty() {
            return;
        }
        let Some(ignored) = workspace.ignored_below(".") else {
            self.findings.insert("what git ignores is not known".to_owned());
            return;
        };
        let is_at_or_below = |path: &str, folder: &str| {
            path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let lost = ignored.iter().find(|one| {
            let meets =
                |file: &&String| is_at_or_below(file, &one.path) || is_at_or_below(&one.path, file);
            !one.is_cache
                && !effects::is_output(&one.path)
                && !effects::is_scratch(&one.path)
                && files.iter().any(|file| meets(&file))
        });
        if let Some(lost) = lost {
            self.findings.insert(printable(&format!(
                "git ignores `{}`, so that no checkpoint brings it back",
                lost.path
            )));
        }
    }
}
