//! Compares what was seen before and after a command, and says what may not be left. It touches no file.

use std::collections::{BTreeMap, BTreeSet};

use crate::git_folder::matters;
use crate::history::{Asked, Tips};
use crate::mark::{Mark, SpecialKind};
use crate::rel_path::RelPath;
use crate::rules::Rules;
use crate::seen::Seen;
use crate::targets::Targets;

/// The folder of Windlass in a project.
const PROJECT: &str = ".windlass";

/// What a command may change although a rule is about it, and what was there before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Allowed {
    /// The paths that its line names: it was judged with them in view.
    pub paths: BTreeSet<String>,
    /// The files and folders that are read-only in its cell, by device and inode. It can change them only with a folder above, so
    /// what changed in a folder that is still there was changed by a person. The kernel lifts this from a file that is replaced.
    pub sealed: BTreeMap<RelPath, (u64, u64)>,
    /// The commits that were there before it; `None` if it makes none.
    #[serde(default)]
    pub tips: Option<Tips>,
}

impl Allowed {
    /// Whether a path, or a folder above it, was read-only until now.
    fn seals(&self, path: &RelPath, before: &Seen, after: &Seen) -> bool {
        let is_sealed = |sealed: &RelPath| {
            let Some(inode) = self.sealed.get(sealed) else { return false };
            let now = after.inode(sealed);
            before.inode(sealed) == Some(*inode) && now.is_none_or(|now| now == *inode)
        };
        path.above().chain([path.clone()]).any(|sealed| is_sealed(&sealed))
            && before.is_in_same_folder(path, after)
    }

    /// Whether a path, or a folder above it, was named.
    pub fn has(&self, path: &RelPath) -> bool {
        self.paths.contains(&path.text())
            || path.above().any(|folder| self.paths.contains(&folder.text()))
    }
}

/// Something that may not be left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub path: RelPath,
    pub why: String,
    /// What was there before.
    pub before: Option<Mark>,
}

/// Why something may not be left.
struct Reason {
    why: String,
    /// Whether it may be if the current commit has it.
    unless_committed: bool,
}

impl From<&str> for Reason {
    fn from(why: &str) -> Self {
        Self { why: why.to_owned(), unless_committed: false }
    }
}

impl Reason {
    const fn unless_committed(why: String) -> Self {
        Self { why, unless_committed: true }
    }
}

/// A comparison.
#[derive(Clone, Copy)]
pub struct Judge<'a> {
    pub before: &'a Seen,
    pub after: &'a Seen,
    pub rules: &'a Rules,
    pub allowed: &'a Allowed,
}

impl Judge<'_> {
    /// What may not be left as it is, sorted by path. Those paths are told at which there is what the current commit has.
    pub fn findings(self, committed: &dyn Fn(&[Asked<'_>]) -> BTreeSet<RelPath>) -> Vec<Finding> {
        let reasons = self.reasons();
        let asked: Vec<Asked<'_>> = reasons
            .iter()
            .filter(|(_, reason)| reason.unless_committed)
            .map(|(path, _)| (*path, self.after.marks.get(*path)))
            .collect();
        let committed = if asked.is_empty() { BTreeSet::new() } else { committed(&asked) };
        let mut found = BTreeMap::new();
        for (path, Reason { why, unless_committed }) in reasons {
            if !unless_committed || !committed.contains(path) {
                let (path, why) = self.cause(path, why);
                found.insert(path, why);
            }
        }
        let finding = |(path, why): (RelPath, String)| Finding {
            before: self.before.marks.get(&path).cloned(),
            path,
            why,
        };
        found.into_iter().map(finding).collect()
    }

    /// Those that are no files: git that looks at the workspace could hang.
    pub fn specials(self) -> Vec<Finding> {
        let is_special =
            |path: &RelPath| matches!(self.after.marks.get(path), Some(Mark::Special(_)));
        let reasons = self.reasons().into_iter().filter(|(path, _)| is_special(path));
        let finding = |(path, Reason { why, .. }): (&RelPath, Reason)| Finding {
            path: path.clone(),
            why,
            before: self.before.marks.get(path).cloned(),
        };
        reasons.map(finding).collect()
    }

    /// What differs and may not, unless commits have it.
    fn reasons(&self) -> BTreeMap<&RelPath, Reason> {
        let (before, after) = (&self.before.marks, &self.after.marks);
        let paths: BTreeSet<&RelPath> = before.keys().chain(after.keys()).collect();
        let differs = |path: &&RelPath| match (before.get(*path), after.get(*path)) {
            (Some(was), Some(is)) => !was.is_same(is),
            (None, None) => false,
            (Some(_), None) | (None, Some(_)) => true,
        };
        // Of links that were gone before, nothing is asked.
        let targets = Targets::of(before);
        let reason =
            |path| Some((path, self.reason(&targets, path, before.get(path), after.get(path))?));
        paths.into_iter().filter(differs).filter_map(reason).collect()
    }

    /// What is to be moved: of a folder that was there, what made it a git directory, since its files may be a person's.
    fn cause(&self, path: &RelPath, why: String) -> (RelPath, String) {
        let made = self.after.git_of(path).filter(|_| path.name() != ".git");
        match made.and_then(|git| self.after.made_git(self.before, &git)) {
            Some(made) => {
                let why = format!("it makes the folder a git directory, with `{path}`: {why}");
                (made, why)
            }
            None => (path.clone(), why),
        }
    }

    fn reason(
        &self,
        targets: &Targets,
        path: &RelPath,
        was: Option<&Mark>,
        is: Option<&Mark>,
    ) -> Option<Reason> {
        let Self { before, after, rules, allowed } = *self;
        if matches!(was, Some(Mark::Folder { .. })) || path.text() == PROJECT {
            return Some("it belongs to git or Windlass".into());
        }
        match is {
            Some(Mark::Special(kind)) => {
                return match kind {
                    // The program that listened has ended.
                    SpecialKind::Socket => None,
                    SpecialKind::Pipe => Some("a named pipe stops whoever opens it".into()),
                    SpecialKind::Device => Some("a device is no file of a project".into()),
                };
            }
            Some(Mark::Unreadable) => return Some("it cannot be looked at".into()),
            // No cell can make such a thing.
            Some(Mark::Foreign) => return None,
            Some(Mark::Folder { .. }) => return Some("it belongs to git or Windlass".into()),
            Some(Mark::Link { stays: false, target, .. }) if !allowed.has(path) => {
                let why = format!("the link leads out of the workspace, to `{target}`");
                return Some(Reason::unless_committed(why));
            }
            Some(Mark::File { .. } | Mark::Link { .. }) | None => {}
        }
        if path.name() == ".git" {
            return match is {
                Some(Mark::File { plain: true, .. }) if was.is_none() => None,
                Some(_) => Some("git would work in the folder that it names".into()),
                // A work tree below was removed: without it git looks further up.
                None if path.text() != ".git" => None,
                None => was.is_some().then(|| "git needs it".into()),
            };
        }
        if let Some(git) = after.git_of(path).or_else(|| before.git_of(path)) {
            return git_reason(path, &git, is);
        }
        let is_link =
            matches!(is, Some(Mark::Link { .. })) || matches!(was, Some(Mark::Link { .. }));
        let rule = match is_link {
            true => targets.rule_of_link(rules, path),
            false => targets.rule(rules, path),
        }?;
        if allowed.has(path) || allowed.seals(path, before, after) {
            return None;
        }
        Some(Reason::unless_committed(format!("{} (rule `{}`)", rule.reason, rule.id)))
    }
}

/// The reason for a file of a git directory.
fn git_reason(path: &RelPath, git: &RelPath, is: Option<&Mark>) -> Option<Reason> {
    let inside = path.as_path().strip_prefix(git.as_path()).ok()?;
    let name = inside.to_string_lossy();
    match is {
        // Without its configuration a repository has the defaults.
        None => None,
        Some(Mark::File { plain: true, .. }) if name == "config" || name == "commondir" => None,
        Some(Mark::File { .. }) if !matters(git.as_path(), inside) => None,
        Some(_) => Some("git would obey it: it can name programs and other folders".into()),
    }
}
