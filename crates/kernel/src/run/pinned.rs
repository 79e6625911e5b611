//! The files that a program gets as they were at the start of a run, so that nobody who is measured can
//! edit what measures.

use std::collections::BTreeSet;

/// The maximum number of paths in a list.
pub const PINNED_MAX: usize = 100;
/// The maximum length of a path.
const PATH_BYTES_MAX: usize = 1024;
/// The maximum number of paths that are looked for in a command.
const NAMED_MAX: usize = 2000;
/// Programs whose arguments are lines of a shell.
const SHELLS: [&str; 7] = ["sh", "bash", "dash", "zsh", "ksh", "ash", "busybox"];
/// What ends a word in a line of a shell.
const SEPARATORS: &[char] =
    &[';', '&', '|', '(', ')', '<', '>', '{', '}', '`', '"', '\'', '$', '=', ',', '\\'];

/// Returns why a path cannot be pinned, if it cannot: it must be a plain path relative to the workspace.
#[must_use]
pub fn pinned_path_error(path: &str) -> Option<&'static str> {
    if path.is_empty() {
        return Some("it is empty");
    }
    if path.len() > PATH_BYTES_MAX {
        return Some("it is too long");
    }
    if path.starts_with(['/', '~']) {
        return Some("it is not relative to the workspace");
    }
    if path.contains(['*', '?']) {
        return Some("it is a pattern: name the folder");
    }
    if path.contains(char::is_control) || path.contains('\\') {
        return Some("it has a control character or a backslash");
    }
    let mut parts = path.split('/');
    if parts.any(|part| matches!(part, "" | "." | "..") || part.eq_ignore_ascii_case(".git")) {
        return Some("it has an empty part, `.`, `..` or `.git`");
    }
    None
}

/// Checks a list of pinned paths.
pub(super) fn check_pinned(paths: Option<&[String]>) -> Result<(), String> {
    let paths = paths.unwrap_or_default();
    if paths.len() > PINNED_MAX {
        return Err(format!("more than {PINNED_MAX} paths are pinned"));
    }
    match paths.iter().find_map(|path| Some((path, pinned_path_error(path)?))) {
        Some((path, why)) => Err(format!("`{path}` cannot be pinned: {why}")),
        None => Ok(()),
    }
}

/// Lists the relative paths that a command may name: its words and, if a shell is among them, the words of
/// its lines, also below the folders that such a line changes to. Most of them are no files.
#[must_use]
pub fn named_paths(argv: &[String]) -> Vec<String> {
    let is_shell = |word: &String| {
        let name = word.rsplit('/').next().unwrap_or(word);
        SHELLS.contains(&name)
    };
    let mut named = Named::default();
    if argv.iter().any(is_shell) {
        for line in argv {
            named.add_line(line);
        }
    }
    for word in argv {
        named.add(word);
        if let Some((_, value)) = word.split_once('=') {
            named.add(value);
        }
    }
    named.paths
}

#[derive(Default)]
struct Named {
    paths: Vec<String>,
    seen: BTreeSet<String>,
    /// The folders that a line has changed to.
    folders: Vec<String>,
}

impl Named {
    /// Adds the words of a line of a shell, and its quoted parts as a whole.
    fn add_line(&mut self, line: &str) {
        for quote in ['"', '\''] {
            let quoted = line.split(quote).skip(1).step_by(2);
            quoted.for_each(|part| self.add(part));
        }
        let mut changes_folder = false;
        let ends = |char: char| char.is_whitespace() || SEPARATORS.contains(&char);
        for word in line.split(ends).filter(|word| !word.is_empty()) {
            self.add(word);
            if changes_folder && let Some(folder) = plain(word) {
                self.folders.push(folder);
            }
            changes_folder = matches!(word, "cd" | "pushd" | "-C");
        }
    }

    fn add(&mut self, word: &str) {
        let below = self.folders.iter().map(|folder| format!("{folder}/{word}"));
        let all: Vec<String> = below.chain([word.to_owned()]).collect();
        for path in all.iter().filter(|_| !word.starts_with(['-', '/', '~'])) {
            let Some(path) = plain(path) else { continue };
            if self.paths.len() < NAMED_MAX && self.seen.insert(path.clone()) {
                self.paths.push(path);
            }
        }
    }
}

/// The path without `.` and `..`; `None` if it does not stay in the workspace or cannot be pinned.
fn plain(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    let plain = parts.join("/");
    pinned_path_error(&plain).is_none().then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(argv: &[&str]) -> Vec<String> {
        named_paths(&argv.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn only_plain_relative_paths_can_be_pinned() {
        for path in ["a", "scripts/check.sh", ".github/workflows", "a b/[id].ts", "ä"] {
            assert_eq!(pinned_path_error(path), None, "{path}");
        }
        let long = "x".repeat(PATH_BYTES_MAX + 1);
        for path in [
            "",
            "/etc",
            "~/x",
            "a//b",
            "a/",
            "./a",
            "..",
            "a/../b",
            "*.sh",
            "a?",
            "a\nb",
            ".git/hooks",
            "A/.GIT",
            &long,
        ] {
            assert!(pinned_path_error(path).is_some(), "{path}");
            assert!(check_pinned(Some(&[path.to_owned()])).is_err(), "{path}");
        }
        assert!(check_pinned(Some(&vec!["a".to_owned(); PINNED_MAX + 1])).is_err());
        assert_eq!(check_pinned(None), Ok(()));
    }

    #[test]
    fn the_words_of_a_command_are_listed() {
        assert_eq!(
            named(&["./scripts/check.sh", "--config=ci/lint.toml", "-v", "/etc/x"]),
            ["scripts/check.sh", "ci/lint.toml"]
        );
        // Without a shell a word is what it is.
        assert_eq!(named(&["prog", "a b;c"]), ["prog", "a b;c"]);
    }

    #[test]
    fn the_words_of_a_line_are_listed() {
        for line in [
            "sh scripts/check.sh",
            "set -e; sh ./scripts/check.sh>out",
            "x=$(scripts/check.sh)",
            "cd scripts && ./check.sh",
            "make -C scripts check.sh",
            "exec \"scripts/check.sh\"",
            "a/../scripts/check.sh",
            "scripts//check.sh||true",
        ] {
            let found = named(&["timeout", "9", "/bin/bash", "-ec", line]);
            assert!(found.iter().any(|path| path == "scripts/check.sh"), "{line}: {found:?}");
        }
        let found = named(&["sh", "-c", "'my scripts/check it.sh'"]);
        assert!(found.contains(&"my scripts/check it.sh".to_owned()), "{found:?}");
        assert!(named(&["sh", "-c", &"x y ".repeat(2 * NAMED_MAX)]).len() <= NAMED_MAX);
        assert!(named(&["sh", "-c", "../outside"]).iter().all(|path| !path.contains("outside")));
    }
}
