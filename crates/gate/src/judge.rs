//! Compares what was seen before and after a command, and says what may not be left. It touches no file.

use std::collections::{BTreeMap, BTreeSet};

use crate::git_folder::is_of_interest;
use crate::mark::{Mark, SpecialKind};
use crate::rel_path::RelPath;
use crate::rules::Rules;
use crate::scan::Seen;

/// The folder of Windlass in a project.
const PROJECT: &str = ".windlass";

/// What a command may change although a rule is about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Allowed {
    /// The paths that its line names: it was judged with them in view.
    pub paths: BTreeSet<String>,
    /// The files and folders that are read-only in its cell. It can change them only with a folder above, so what changed in a
    /// folder that is still there was changed by a person.
    pub sealed: BTreeSet<String>,
}

impl Allowed {
    /// Whether a path, or a folder above it, was read-only.
    fn seals(&self, path: &RelPath) -> bool {
        self.sealed.contains(&path.text())
            || path.above().any(|folder| self.sealed.contains(&folder.text()))
    }

    /// Whether a path, or a folder above it, was named.
    pub fn has(&self, path: &RelPath) -> bool {
        self.paths.contains(&path.text())
            || path.above().any(|folder| self.paths.contains(&folder.text()))
    }
}

/// Says whether a file is as the current commit of the repository has it. Whoever may commit has been asked before.
pub type Committed<'a> = dyn Fn(&RelPath, Option<&Mark>) -> bool + 'a;

/// Something that may not be left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub path: RelPath,
    pub why: String,
    /// What was there before.
    pub before: Option<Mark>,
}

/// What may not be left as it is, sorted by path.
pub fn findings(
    before: &Seen,
    after: &Seen,
    rules: &Rules,
    allowed: &Allowed,
    committed: &Committed<'_>,
) -> Vec<Finding> {
    let mut found = BTreeMap::new();
    let paths: BTreeSet<&RelPath> = before.marks.keys().chain(after.marks.keys()).collect();
    for path in paths {
        let (was, is) = (before.marks.get(path), after.marks.get(path));
        let same = match (was, is) {
            (Some(was), Some(is)) => was.is_same(is),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let why = match same {
            true => None,
            false => reason(path, was, is, before, after, rules, allowed, committed),
        };
        if let Some(why) = why {
            found.insert(path, why);
        }
    }
    let finding = |(path, why): (&RelPath, String)| Finding {
        path: path.clone(),
        why,
        before: before.marks.get(path).cloned(),
    };
    found.into_iter().map(finding).collect()
}

#[expect(clippy::too_many_arguments, reason = "it is one decision about one path")]
fn reason(
    path: &RelPath,
    was: Option<&Mark>,
    is: Option<&Mark>,
    before: &Seen,
    after: &Seen,
    rules: &Rules,
    allowed: &Allowed,
    committed: &Committed<'_>,
) -> Option<String> {
    match is {
        Some(Mark::Special(kind)) => {
            return match kind {
                // The program that listened has ended.
                SpecialKind::Socket => None,
                SpecialKind::Pipe => Some("a named pipe stops whoever opens it".to_owned()),
                SpecialKind::Device => Some("a device is no file of a project".to_owned()),
            };
        }
        Some(Mark::Unreadable) => return Some("it cannot be looked at".to_owned()),
        Some(Mark::Folder { .. }) => return Some("it belongs to git or Windlass".to_owned()),
        Some(Mark::Link { stays: false, target, .. })
            if !allowed.has(path) && !committed(path, is) =>
        {
            return Some(format!("the link leads out of the workspace, to `{target}`"));
        }
        Some(Mark::File { .. } | Mark::Link { .. }) | None => {}
    }
    if let Some(Mark::Folder { .. }) = was {
        return Some("it belongs to git or Windlass".to_owned());
    }
    if path.text() == PROJECT {
        return Some("it belongs to git or Windlass".to_owned());
    }
    let git = after.git_of(path).or_else(|| before.git_of(path));
    if path.name() == ".git" {
        return match is {
            Some(Mark::File { plain: true, .. }) if was.is_none() => None,
            Some(_) => Some("git would work in the folder that it names".to_owned()),
            // A work tree below was removed: without it git looks further up.
            None if path.text() != ".git" => None,
            None => was.is_some().then(|| "git needs it".to_owned()),
        };
    }
    if let Some(git) = git {
        return git_reason(path, &git, is);
    }
    let rule = rules.of(&path.text())?;
    if allowed.seals(path) && before.is_in_same_folder(path, after) {
        return None;
    }
    if allowed.has(path) || committed(path, is) {
        return None;
    }
    Some(format!("{} (rule `{}`)", rule.reason, rule.id))
}

/// The reason for a file of a git directory.
fn git_reason(path: &RelPath, git: &RelPath, is: Option<&Mark>) -> Option<String> {
    let inside = path.as_path().strip_prefix(git.as_path()).ok()?;
    let name = inside.to_string_lossy();
    match is {
        // Without its configuration a repository has the defaults.
        None => None,
        Some(Mark::File { plain: true, .. }) if name == "config" || name == "commondir" => None,
        Some(Mark::File { .. }) if !is_of_interest(inside) => None,
        Some(_) => Some("git would obey it: it can name programs and other folders".to_owned()),
    }
}
