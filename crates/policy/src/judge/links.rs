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
}
