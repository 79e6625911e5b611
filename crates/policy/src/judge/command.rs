//! Matches a command with globs.

use std::borrow::Cow;
use std::collections::BTreeSet;

use windlass_text::{Glob, GlobText};

use super::path::PathFact;
use crate::Verdict;
use crate::shell::{NUMBER, Simple, UNKNOWN, Word, options, word};

/// Folders whose programs can be trusted to be what their names say.
const SYSTEM_FOLDERS: &[&str] =
    &["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin"];
/// Replaces a blank inside a word.
const INNER_BLANK: char = '\u{2420}';
/// Tools with options between their name and the subcommand, and the options that take a value.
const SUBCOMMAND_TOOLS: &[(&str, &[&str])] = &[
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
    written: GlobText,
    /// The spellings that allow rules are matched with.
    narrow: Vec<GlobText>,
    /// The spellings that stricter rules are matched with.
    wide: Vec<GlobText>,
    /// Its words as paths.
    pub paths: Vec<PathFact>,
}

impl CommandFacts {
    pub fn new(simple: &Simple, paths: Vec<PathFact>) -> Self {
        let escaped: Vec<Cow<'_, str>> = simple.words.iter().map(escaped).collect();
        let words: Vec<&str> = escaped.iter().map(AsRef::as_ref).collect();
        Self {
            shown: printable(&word::join(&simple.words)),
            certain: simple.certain,
            written: GlobText::new(&words.join(" ")),
            narrow: narrow(&words),
            wide: wide(&words),
            paths,
        }
    }

    /// The command as it is written, for grants.
    pub const fn written(&self) -> &GlobText {
        &self.written
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
    // Nearly all texts are shown as they are.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.to_owned();
    }
    let shown = |char: char| match char {
        UNKNOWN | NUMBER => '…',
        other if other.is_control() => ' ',
        other => other,
    };
    text.chars().map(shown).collect()
}

/// A word with the blanks inside it replaced: a blank in a glob separates words.
fn escaped(word: &Word) -> Cow<'_, str> {
    if word.text.contains(char::is_whitespace) {
        Cow::Owned(word.text.replace(char::is_whitespace, &INNER_BLANK.to_string()))
    } else {
        Cow::Borrowed(&word.text)
    }
}

fn narrow(words: &[&str]) -> Vec<GlobText> {
    let mut words = words.to_vec();
    if let Some(name) = words.first_mut()
        && let Some((folder, base)) = name.rsplit_once('/')
        && SYSTEM_FOLDERS.contains(&folder)
    {
        *name = base;
    }
    let mut spellings = BTreeSet::from([words.join(" ")]);
    if let Some(words) = without_own_options(&words) {
        spellings.insert(words.join(" "));
    }
    spellings.iter().map(|text| GlobText::new(text)).collect()
}

fn wide(words: &[&str]) -> Vec<GlobText> {
    let Some((name, rest)) = words.split_first() else { return Vec::new() };
    let base = name.rsplit('/').next().unwrap_or_default().to_lowercase();
    let mut spellings = BTreeSet::new();
    let other_name = (base != **name).then_some(base.as_str());
    for name in std::iter::once(*name).chain(other_name) {
        let plain: Vec<&str> = std::iter::once(name).chain(rest.iter().copied()).collect();
        let shorter = without_own_options(&plain);
        for words in std::iter::once(plain).chain(shorter) {
            // A long command is copied for those spellings alone that differ.
            let bare = words.contains(&"--").then(|| without_separator(&words));
            for words in std::iter::once(words).chain(bare) {
                if words.iter().any(|word| cluster(word).is_some()) {
                    spellings.insert(split_clusters(&words).join(" "));
                }
                spellings.insert(words.join(" "));
            }
        }
    }
    spellings.iter().map(|text| GlobText::new(text)).collect()
}

/// Removes `--`, which ends the options.
fn without_separator<'a>(words: &[&'a str]) -> Vec<&'a str> {
    words.iter().copied().filter(|word| *word != "--").collect()
}

/// Removes options between the name of a tool and its subcommand: `git -C . push`; `None` if there are none.
fn without_own_options<'a>(words: &[&'a str]) -> Option<Vec<&'a str>> {
    let (name, behind) = words.split_first()?;
    if *name == "git" {
        let (at, _) = options::git_subcommand(behind.iter().copied());
        let rest = behind.get(at..).unwrap_or_default();
        return (at > 0).then(|| std::iter::once(*name).chain(rest.iter().copied()).collect());
    }
    let (_, with_value) = SUBCOMMAND_TOOLS.iter().find(|(tool, _)| tool == name)?;
    let mut rest = behind;
    while let Some((word, tail)) = rest.split_first() {
        let toolchain = *name == "cargo" && word.starts_with('+');
        if !word.starts_with('-') && !toolchain {
            break;
        }
        let takes_value = with_value.contains(word);
        rest = if takes_value { tail.get(1..).unwrap_or_default() } else { tail };
    }
    (rest.len() < behind.len())
        .then(|| std::iter::once(*name).chain(rest.iter().copied()).collect())
}

/// The letters of a cluster of short options.
fn cluster(word: &str) -> Option<&str> {
    word.strip_prefix('-').filter(|letters| {
        letters.len() > 1
            && letters.len() <= 16
            && letters.chars().all(|char| char.is_ascii_alphanumeric())
    })
}

/// Splits clusters of short options: `-fu` becomes `-f -u`.
fn split_clusters(words: &[&str]) -> Vec<String> {
    let mut texts = Vec::new();
    for word in words {
        match cluster(word) {
            Some(letters) => texts.extend(letters.chars().map(|letter| format!("-{letter}"))),
            None => texts.push((*word).to_owned()),
        }
    }
    texts
}
