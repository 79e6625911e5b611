//! Links that file name patterns match.

use windlass_text::{Glob, GlobKind};

use super::command::printable;
use super::facts::{Facts, folder_of_pattern};
use super::path::PathFact;
use crate::shell::Access;
use crate::{ResolvedPath, Workspace};

impl Facts {
    /// Takes what links lead to whose names a pattern matches. The pattern alone shows the names only.
    pub(super) fn take_linked(
        &mut self,
        pattern: &str,
        access: Option<Access>,
        workspace: &dyn Workspace,
        paths: &mut Vec<PathFact>,
    ) {
        let start = folder_of_pattern(pattern);
        let ResolvedPath::Inside(folder) = workspace.resolve(start) else { return };
        let tail = pattern.strip_prefix(start).unwrap_or(pattern).trim_start_matches('/');
        let tail: Vec<&str> = tail.split('/').filter(|name| !name.is_empty()).collect();
        let Some(links) = workspace.links_below(&folder, tail.len()) else {
            let finding = format!("more links below `{start}` than can be looked at");
            self.findings.insert(printable(&finding));
            return;
        };
        for link in links {
            let below =
                if folder == "." { Some(link.as_str()) } else { link.strip_prefix(&folder) };
            let Some(below) = below.map(|below| below.trim_start_matches('/')) else { continue };
            let Some((names, rest)) = tail.split_at_checked(below.split('/').count()) else {
                continue;
            };
            let matched = Glob::new(&names.join("/"), GlobKind::Path);
            if !matched.is_ok_and(|glob| !glob.matches_str(below)) {
                let path = [&[link.as_str()], rest].concat().join("/");
                match workspace.resolve(&path) {
                    ResolvedPath::Inside(normal) => {
                        let fact = PathFact::new(&path, &normal, access, self.folds_case);
                        let fact = if rest.is_empty() { fact } else { fact.pattern() };
                        paths.push(fact.one_of_many());
                    }
                    ResolvedPath::Outside(_) | ResolvedPath::Unresolvable(_) => {
                        let finding = format!("the link `{link}` leads outside the workspace");
                        self.findings.insert(printable(&finding));
                    }
                }
            }
        }
    }

    /// Asks about changes of what git obeys because its settings name it.
    pub(super) fn take_named_by_git(&mut self, workspace: &dyn Workspace) {
        let written = self.written();
        if written.is_empty() || self.denied.is_some() {
            return;
        }
        let Some(named) = workspace.named_by_git() else {
            self.findings.insert("what git's settings name is not known".to_owned());
            return;
        };
        let fold = |path: &str| match self.folds_case {
            true => path.to_lowercase(),
            false => path.to_owned(),
        };
        let is_within = |path: &str, folder: &str| {
            let rest = path.strip_prefix(folder);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let mut found = Vec::new();
        for (path, setting) in &named {
            let path = fold(path);
            let is_changed = |written: &String| {
                let written = fold(written);
                written != "." && (is_within(&written, &path) || is_within(&path, &written))
            };
            if written.iter().any(is_changed) {
                found.push(printable(&format!(
                    "git obeys `{path}`: its setting `{setting}` names it"
                )));
            }
        }
        self.findings.extend(found);
    }
}
