//! Matches a command with globs.

use std::collections::BTreeSet;

use windlass_text::Glob;

use super::path::PathFact;
use crate::Verdict;
use crate::shell::{NUMBER, Simple, UNKNOWN, Word};

/// Folders whose programs can be trusted to be what their names say.
const SYSTEM_FOLDERS: &[&str] =
    &["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin"];
/// Replaces a blank inside a word.
const INNER_BLANK: char = '\u{2420}';
/// Tools with options between their name and the subcommand, and the options that take a value.
const SUBCOMMAND_TOOLS: &[(&str, &[&str])] = &[
    (
        "git",
        &[
            "-C",
            "-c",
            "--git-dir",
            "--work-tree",
            "--namespace",
            "--exec-path",
            "--config-env",
            "--super-prefix",
            "--attr-source",
        ],
    ),
    ("cargo", &["-C", "-Z", "--config", "--color"]),
    ("npm", &["--prefix", "-w", "--workspace", "--script-shell"]),
    ("docker", &["-H", "--host", "-c", "--context", "--config", "-l", "--log-level"]),
];

/// One simple command, prepared for matching.
#[derive(Debug)]
pub(crate) struct CommandFacts {
    /// Its words joined by one space.
    pub shown: String,
    /// Whether exactly this command would certainly run.
    pub certain: bool,
    /// The spellings that allow rules are matched with.
    narrow: Vec<Vec<char>>,
    /// The spellings that stricter rules are matched with.
    wide: Vec<Vec<char>>,
    /// Its words as paths.
    pub paths: Vec<PathFact>,
}

impl CommandFacts {
    pub fn new(simple: &Simple, paths: Vec<PathFact>) -> Self {
        let words: Vec<&str> = simple.words.iter().map(|word| word.text.as_str()).collect();
        Self {
            shown: printable(&words.join(" ")),
            certain: simple.certain,
            narrow: narrow(&simple.words),
            wide: wide(&escaped(&simple.words)),
            paths,
        }
    }

    /// The spellings that certainly mean this command.
    pub fn spellings(&self) -> Vec<Vec<char>> {
        self.narrow.clone()
    }

    /// Whether a spelling that certainly means this command matches any glob.
    pub fn is_exactly(&self, globs: &[Glob]) -> bool {
        self.certain && self.narrow.iter().any(|text| globs.iter().any(|glob| glob.matches(text)))
    }

    /// Whether any spelling matches any glob. Allow rules are matched only with spellings that
    /// certainly mean the same; stricter rules with every spelling that may.
    pub fn matches(&self, globs: &[Glob], verdict: Verdict) -> bool {
        let spellings = if verdict == Verdict::Allow { &self.narrow } else { &self.wide };
        spellings.iter().any(|text| globs.iter().any(|glob| glob.matches(text)))
    }
}

/// Replaces control characters by spaces, and what is not known by dots.
pub(super) fn printable(text: &str) -> String {
    let shown = |char: char| match char {
        UNKNOWN | NUMBER => '…',
        other if other.is_control() => ' ',
        other => other,
    };
    text.chars().map(shown).collect()
}

/// The words with blanks inside them replaced: a blank in a glob separates words.
fn escaped(words: &[Word]) -> Vec<String> {
    let escape = |word: &Word| word.text.replace(char::is_whitespace, &INNER_BLANK.to_string());
    words.iter().map(escape).collect()
}

fn narrow(words: &[Word]) -> Vec<Vec<char>> {
    let mut texts: Vec<String> = escaped(words);
    if let Some(name) = texts.first_mut()
        && let Some((folder, base)) = name.rsplit_once('/')
        && SYSTEM_FOLDERS.contains(&folder)
    {
        *name = base.to_owned();
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut spellings = BTreeSet::from([texts.join(" ")]);
    spellings.insert(without_own_options(&texts).join(" "));
    spellings.into_iter().map(|text| text.chars().collect()).collect()
}

fn wide(words: &[String]) -> Vec<Vec<char>> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some((name, rest)) = words.split_first() else { return Vec::new() };
    let base = name.rsplit('/').next().unwrap_or_default().to_lowercase();
    let mut spellings = BTreeSet::new();
    for name in [*name, &base] {
        let plain: Vec<&str> = std::iter::once(name).chain(rest.iter().copied()).collect();
        for words in [plain.clone(), without_own_options(&plain)] {
            spellings.insert(words.join(" "));
            spellings.insert(without_separator(&words).join(" "));
            spellings.insert(split_clusters(&words).join(" "));
            spellings.insert(split_clusters(&without_separator(&words)).join(" "));
        }
    }
    spellings.into_iter().map(|text| text.chars().collect()).collect()
}

/// Removes `--`, which ends the options.
fn without_separator<'a>(words: &[&'a str]) -> Vec<&'a str> {
    words.iter().copied().filter(|word| *word != "--").collect()
}

/// Removes options between the name of a tool and its subcommand: `git -C . push`.
fn without_own_options<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let Some((name, mut rest)) = words.split_first() else { return Vec::new() };
    let Some((_, with_value)) = SUBCOMMAND_TOOLS.iter().find(|(tool, _)| tool == name) else {
        return words.to_vec();
    };
    while let Some((word, tail)) = rest.split_first() {
        let toolchain = *name == "cargo" && word.starts_with('+');
        if !word.starts_with('-') && !toolchain {
            break;
        }
        let takes_value = with_value.contains(word);
        rest = if takes_value { tail.get(1..).unwrap_or_default() } else { tail };
    }
    std::iter::once(*name).chain(rest.iter().copied()).collect()
}

/// Splits clusters of short options: `-fu` becomes `-f -u`.
fn split_clusters(words: &[&str]) -> Vec<String> {
    let mut texts = Vec::new();
    for word in words {
        match word.strip_prefix('-') {
            Some(letters)
                if letters.len() > 1
                    && letters.len() <= 16
                    && letters.chars().all(|char| char.is_ascii_alphanumeric()) =>
            {
                texts.extend(letters.chars().map(|letter| format!("-{letter}")));
            }
            Some(_) | None => texts.push((*word).to_owned()),
        }
    }
    texts
}
