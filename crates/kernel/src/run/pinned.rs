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
/// Other programs that run a file.
const INTERPRETERS: [&str; 18] = [
    "python", "pypy", "node", "deno", "bun", "tsx", "ts-node", "ruby", "perl", "php", "lua",
    "tclsh", "Rscript", "pwsh", "awk", "java", "source", ".",
];
/// What ends a simple command in a line of a shell, and what ends a word.
const COMMAND_ENDS: &[char] = &[';', '&', '|', '(', ')', '{', '}', '`', '\n'];
const WORD_ENDS: &[char] = &['<', '>', '"', '\'', '$', ',', '\\'];

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

/// A relative path that a command may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPath {
    /// The path.
    pub path: String,
    /// The number of the simple command that names it.
    pub command: usize,
    /// How it is named there.
    pub role: NamedAs,
}

/// How a simple command names a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedAs {
    /// As the program.
    Program,
    /// After the name of an interpreter: the first file is what the interpreter runs.
    Script,
    /// As anything else: what measures, or what is measured.
    Argument,
}

/// Lists the relative paths that a command may name: its words and, if a shell is among them, the words of
/// its lines, also below the folders that such a line changes to. Most of them are no files.
#[must_use]
pub fn named_paths(argv: &[String]) -> Vec<NamedPath> {
    let mut named = Named::default();
    named.add_words(argv.iter().map(String::as_str));
    if argv.iter().any(|word| SHELLS.contains(&name_of(word))) {
        argv.iter().skip(1).for_each(|line| named.add_line(line));
    }
    named.paths
}

fn name_of(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Whether a program of this name runs a file that it is given; versions are part of many names.
fn is_interpreter(word: &str) -> bool {
    let plain = name_of(word).trim_end_matches(|char: char| char.is_ascii_digit() || char == '.');
    [name_of(word), plain].iter().any(|name| INTERPRETERS.contains(name) || SHELLS.contains(name))
}

#[derive(Default)]
struct Named {
    paths: Vec<NamedPath>,
    seen: BTreeSet<(String, usize)>,
    /// The folders that a line has changed to.
    folders: Vec<String>,
    /// The number of simple commands so far.
    commands: usize,
}

impl Named {
    /// Adds the simple commands of a line of a shell.
    fn add_line(&mut self, line: &str) {
        for command in line.split(COMMAND_ENDS) {
            let ends = |char: char| char.is_whitespace() || WORD_ENDS.contains(&char);
            self.add_words(command.split(ends).filter(|word| !word.is_empty()));
        }
        // Quoted names can have spaces.
        for quote in ['"', '\''] {
            for part in line.split(quote).skip(1).step_by(2) {
                self.add_words([part].into_iter());
            }
        }
    }

    fn add_words<'a>(&mut self, words: impl Iterator<Item = &'a str>) {
        self.commands += 1;
        let (mut role, mut changes_folder) = (NamedAs::Program, false);
        for word in words {
            self.add(word, role);
            if let Some((_, value)) = word.split_once('=') {
                self.add(value, role);
            }
            if changes_folder && let Some(folder) = plain(word) {
                self.folders.push(folder);
            }
            changes_folder = matches!(word, "cd" | "pushd" | "-C");
            role = match role {
                _ if is_interpreter(word) => NamedAs::Script,
                NamedAs::Script => NamedAs::Script,
                NamedAs::Program | NamedAs::Argument => NamedAs::Argument,
            };
        }
    }

    fn add(&mut self, word: &str, role: NamedAs) {
        if word.starts_with(['-', '/', '~']) {
            return;
        }
        let below = self.folders.iter().map(|folder| format!("{folder}/{word}"));
        let all: Vec<String> = below.chain([word.to_owned()]).collect();
        let command = self.commands;
        for path in all.iter().filter_map(|path| plain(path)) {
            if self.paths.len() < NAMED_MAX && self.seen.insert((path.clone(), command)) {
                self.paths.push(NamedPath { path, command, role });
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

    fn all(argv: &[&str]) -> Vec<NamedPath> {
        named_paths(&argv.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    fn named(argv: &[&str]) -> Vec<String> {
        all(argv).into_iter().map(|named| named.path).collect()
    }

    #[test]
    fn programs_and_scripts_are_told_from_arguments() {
        let roles = |argv: &[&str], path: &str| -> Vec<NamedAs> {
            all(argv)
                .into_iter()
                .filter(|named| named.path == path)
                .map(|named| named.role)
                .collect()
        };
        assert_eq!(roles(&["./check", "data.json"], "check"), [NamedAs::Program]);
        assert_eq!(roles(&["./check", "data.json"], "data.json"), [NamedAs::Argument]);
        assert_eq!(roles(&["python3.12", "-u", "lint.py", "src"], "lint.py"), [NamedAs::Script]);
        assert_eq!(roles(&["cat", "python/a.json"], "python/a.json"), [NamedAs::Argument]);
        let line = ["sh", "-c", "cat a.json | python3 sum.py && ./check"];
        assert_eq!(roles(&line, "a.json"), [NamedAs::Argument]);
        assert_eq!(roles(&line, "sum.py"), [NamedAs::Script]);
        assert_eq!(roles(&line, "check"), [NamedAs::Program]);
        let line = ["sh", "-c", ". ./env; cat x"];
        assert_eq!(roles(&line, "env"), [NamedAs::Script]);
        assert_eq!(roles(&line, "x"), [NamedAs::Argument]);
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
            "x=scripts/check.sh; sh $x",
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
