//! The files that git's own patterns stand for, and the commands of git that show what is in files.

use std::collections::BTreeSet;

use windlass_text::{Glob, GlobKind};

use super::effects::has_option;
use super::facts::{Facts, within};
use super::git::git;
use super::path::PathFact;
use crate::shell::{Access, Word};
use crate::{ResolvedPath, Workspace};

/// A word behind git that begins with a colon, as git reads it among paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pathspec {
    /// It takes files away from those that others name.
    Excludes,
    /// It names this path; from the root, and in any case of its letters, if it says so.
    Path { path: String, from_root: bool, any_case: bool },
    /// It names files by something else.
    Unclear,
}

/// Reads a word such as `:(top)docs` or `:!docs`; `None` for any other word.
pub(super) fn pathspec(text: &str) -> Option<Pathspec> {
    let behind = text.strip_prefix(':')?;
    if let Some(long) = behind.strip_prefix('(') {
        let Some((magic, path)) = long.split_once(')') else { return Some(Pathspec::Unclear) };
        let magic: Vec<&str> = magic.split(',').map(str::trim).collect();
        if magic.contains(&"exclude") {
            return Some(Pathspec::Excludes);
        }
        let known = ["", "top", "icase", "glob", "literal"];
        let is_plain = !path.contains(['*', '?', '[', '\\']) || magic.contains(&"literal");
        if !is_plain || !magic.iter().all(|word| known.contains(word)) {
            return Some(Pathspec::Unclear);
        }
        let path = if path.is_empty() { "." } else { path }.to_owned();
        let (from_root, any_case) = (magic.contains(&"top"), magic.contains(&"icase"));
        return Some(Pathspec::Path { path, from_root, any_case });
    }
    let signs = behind.chars().take_while(|char| matches!(char, '!' | '^' | '/'));
    signs.into_iter().any(|sign| sign != '/').then_some(Pathspec::Excludes)
}

/// Commands of git whose words can be patterns of files that they show, add or take.
const WITH_PATTERNS: &[&str] = &[
    "add",
    "archive",
    "blame",
    "checkout",
    "commit",
    "diff",
    "diff-tree",
    "grep",
    "log",
    "mv",
    "reset",
    "restore",
    "show",
    "stash",
];

/// Whether a command of git takes this word for a pattern, whether it is quoted or not.
pub(super) fn is_git_pattern(words: &[Word], word: &Word) -> bool {
    word.text.contains(['*', '?', '['])
        && !word.text.starts_with('-')
        && git(words).is_some_and(|(command, _)| WITH_PATTERNS.contains(&command))
}

/// Whether a git command shows what is in files without naming them: as patches of all, or by the ids of objects.
pub(super) fn shows_unnamed(words: &[Word], is_path: impl Fn(&str) -> bool) -> bool {
    let Some((command, rest)) = git(words) else { return false };
    if !matches!(command, "log" | "show" | "diff" | "diff-tree" | "cat-file") {
        return false;
    }
    let ids = || rest.iter().filter(|word| !word.inert).any(|word| is_object_id(&word.text));
    let patches = ["--patch", "--unified", "--cc", "--binary", "--patch-with-stat"];
    match command {
        "show" | "diff" | "cat-file" if ids() => true,
        "cat-file" => false,
        _ => has_option(rest, "puUcSG", &patches) && !names_paths(rest, is_path),
    }
}

/// Whether a word is nothing but the id of an object, which can be a file as well as a commit.
fn is_object_id(text: &str) -> bool {
    (4..=64).contains(&text.len()) && text.chars().all(|char| char.is_ascii_hexdigit())
}

/// Whether the words behind a git command name the paths that it is about.
fn names_paths(rest: &[Word], is_path: impl Fn(&str) -> bool) -> bool {
    let is_named =
        |text: &str| !text.starts_with('-') && pathspec(text) != Some(Pathspec::Excludes);
    let takes_none = |text: &str| {
        !text.starts_with('-')
            || matches!(text, "-p" | "-u" | "--patch" | "--stat" | "--oneline" | "--follow")
            || text.chars().skip(1).all(|char| char.is_ascii_digit())
    };
    let mut before: Option<&str> = None;
    let mut is_ended = false;
    for word in rest {
        let text = word.text.as_str();
        // What stands behind another option may be its value.
        let certain = before.is_none_or(takes_none);
        if is_ended && is_named(text) {
            return true;
        }
        if !is_ended && certain && is_named(text) && !word.inert && is_path(text) {
            return true;
        }
        is_ended |= certain && text == "--";
        before = Some(text);
    }
    false
}

/// The paths behind `--` to which a `git grep` is limited, if they are plain.
pub(super) fn searched_paths(rest: &[Word]) -> Option<Vec<(String, Option<String>)>> {
    const PLAIN: &str = "rniIlLvwchHoqEFGPW";
    let end = rest.iter().position(|word| word.text == "--")?;
    let before = end.checked_sub(1).and_then(|at| rest.get(at))?;
    let is_flag = match before.text.strip_prefix('-') {
        Some(letters) => letters.chars().all(|letter| PLAIN.contains(letter)),
        None => true,
    };
    let named: Vec<&str> = rest.iter().skip(end + 1).map(|word| word.text.as_str()).collect();
    let tree = |text: &&str| {
        let is_name = |text: &str| {
            text.chars().all(|char| char.is_ascii_alphanumeric() || "._-/".contains(char))
        };
        match text.strip_prefix("*.") {
            Some(ending) if is_name(ending) => {
                Some((".".to_owned(), Some(format!("**/*.{ending}"))))
            }
            _ => (is_name(text) && !text.starts_with('-')).then(|| ((*text).to_owned(), None)),
        }
    };
    let trees: Option<Vec<_>> = named.iter().map(tree).collect();
    trees.filter(|trees| is_flag && !trees.is_empty())
}

impl Facts {
    /// Takes a word behind git as git reads it. Says whether the word can still be a path like others.
    pub(super) fn take_pathspec(
        &mut self,
        words: &[Word],
        word: &Word,
        access: Option<Access>,
        folders: &[String],
        workspace: &dyn Workspace,
        paths: &mut Vec<PathFact>,
    ) -> bool {
        if git(words).is_none() {
            return true;
        }
        match pathspec(&word.text) {
            Some(Pathspec::Excludes) => return false,
            Some(Pathspec::Unclear) => {
                self.findings.insert("a path of git that stands for more than one".to_owned());
                return true;
            }
            Some(Pathspec::Path { path, from_root, any_case }) => {
                let root = [String::new()];
                let folders = if from_root { &root[..] } else { folders };
                let mut spellings = BTreeSet::from([path.clone()]);
                if any_case {
                    spellings.insert(path.to_lowercase());
                }
                for spelling in spellings {
                    self.take_word(&Word::literal(&spelling), access, folders, workspace, paths);
                }
                return true;
            }
            None => {}
        }
        if is_git_pattern(words, word) {
            self.take_git_pattern(word, access, folders, workspace, paths);
        }
        true
    }

    /// Takes the files that a pattern stands for if git reads it: a `*` matches any text, and a leading dot, too.
    fn take_git_pattern(
        &mut self,
        word: &Word,
        access: Option<Access>,
        folders: &[String],
        workspace: &dyn Workspace,
        paths: &mut Vec<PathFact>,
    ) {
        let Some(files) = workspace.files_below(".") else {
            self.findings.insert("more files than can be looked at".to_owned());
            return;
        };
        for folder in folders {
            if super::words::matching_files(word, &within(folder, &word.text), workspace).is_some()
            {
                // The shell has put names in its place.
                continue;
            }
            let ResolvedPath::Inside(pattern) = workspace.resolve(&within(folder, &word.text))
            else {
                continue;
            };
            let is_plain = !pattern.contains(['{', '}', '\\']);
            let glob = Glob::new(&pattern, GlobKind::Text).ok().filter(|_| is_plain);
            let fits = |file: &&String| {
                let ends = file.match_indices('/').map(|(at, _)| at).chain([file.len()]);
                glob.as_ref().is_none_or(|glob| {
                    ends.into_iter()
                        .any(|end| file.get(..end).is_some_and(|part| glob.matches_str(part)))
                })
            };
            let fact = |file: &String| {
                PathFact::new(&word.text, file, access, self.folds_case).one_of_many()
            };
            paths.extend(files.iter().filter(fits).map(fact));
            let name = pattern.rsplit('/').next().unwrap_or_default();
            if name.starts_with('.') {
                // It can stand for files of other commits, too.
                let fact = PathFact::new(&word.text, &pattern, access, self.folds_case);
                paths.push(fact.pattern().maybe());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signs_of_git_are_read() {
        let path = |path: &str, from_root, any_case| {
            Some(Pathspec::Path { path: path.to_owned(), from_root, any_case })
        };
        for (text, expected) in [
            (":(top).env", path(".env", true, false)),
            (":(icase).ENV", path(".ENV", false, true)),
            (":(top,literal)a*", path("a*", true, false)),
            (":(top)", path(".", true, false)),
            (":(glob)**/.e*", Some(Pathspec::Unclear)),
            (":(attr:x)", Some(Pathspec::Unclear)),
            (":(top", Some(Pathspec::Unclear)),
            (":(exclude).env", Some(Pathspec::Excludes)),
            (":!.env", Some(Pathspec::Excludes)),
            (":^.env", Some(Pathspec::Excludes)),
            (":/!.env", Some(Pathspec::Excludes)),
            (":/docs", None),
            (":0:.env", None),
            ("docs", None),
        ] {
            assert_eq!(pathspec(text), expected, "{text}");
        }
    }
}
