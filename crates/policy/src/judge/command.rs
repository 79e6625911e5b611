//! Matches a command with globs.

use std::borrow::Cow;
use std::collections::BTreeSet;

use windlass_text::{Glob, GlobText};

use super::effects;
use super::path::PathFact;
use crate::Verdict;
use crate::shell::{NUMBER, Simple, UNKNOWN, Word, options, word};

/// Folders whose programs can be trusted to be what their names say.
const SYSTEM_FOLDERS: &[&str] =
    &["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin"];
/// Replaces a blank inside a word.
const INNER_BLANK: char = '\u{2420}';
/// A tool with options between its name and its subcommand.
struct SubcommandTool {
    name: &'static str,
    /// Those that take the next word.
    values: &'static [&'static str],
    /// Those that take the next word, and lead elsewhere.
    elsewhere: &'static [&'static str],
    /// Those that take none, and change nothing about what the subcommand is.
    flags: &'static [&'static str],
}

const SUBCOMMAND_TOOLS: &[SubcommandTool] = &[
    SubcommandTool {
        name: "cargo",
        values: &["-C", "-Z", "--config", "--color"],
        elsewhere: &[],
        flags: &["-q", "--quiet", "-v", "-vv", "--verbose", "--locked", "--offline", "--frozen"],
    },
    SubcommandTool {
        name: "npm",
        values: &["--prefix", "-w", "--workspace", "--script-shell"],
        elsewhere: &[],
        flags: &[
            "-s",
            "--silent",
            "-q",
            "--quiet",
            "-ws",
            "--workspaces",
            "--if-present",
            "--offline",
        ],
    },
    SubcommandTool {
        name: "pnpm",
        values: &["-F", "--filter", "-C", "--dir", "--reporter", "--loglevel"],
        elsewhere: &[],
        flags: &[
            "-w",
            "--workspace-root",
            "-r",
            "--recursive",
            "-s",
            "--silent",
            "--parallel",
            "--stream",
        ],
    },
    SubcommandTool { name: "yarn", values: &["--cwd"], elsewhere: &[], flags: &["-s", "--silent"] },
    SubcommandTool {
        name: "docker",
        values: &["-l", "--log-level"],
        elsewhere: &[
            "-H",
            "--host",
            "-c",
            "--context",
            "--config",
            "--tlscacert",
            "--tlscert",
            "--tlskey",
        ],
        flags: &["-D", "--debug"],
    },
];

/// Which options in front of a subcommand are left out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LeftOut {
    /// Those that are known not to change what is done.
    Known,
    /// All.
    All,
}

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
    /// Whether it changes nothing.
    pub changes_nothing: bool,
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
            changes_nothing: effects::changes_nothing(&simple.words),
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
    if let Some(words) = without_own_options(&words, LeftOut::Known) {
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
        let shorter = without_own_options(&plain, LeftOut::All);
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
fn without_own_options<'a>(words: &[&'a str], what: LeftOut) -> Option<Vec<&'a str>> {
    let (name, behind) = words.split_first()?;
    if *name == "git" {
        let (at, _) = options::git_subcommand(behind.iter().copied());
        let rest = behind.get(at..).unwrap_or_default();
        return (at > 0).then(|| std::iter::once(*name).chain(rest.iter().copied()).collect());
    }
    let tool = SUBCOMMAND_TOOLS.iter().find(|tool| tool.name == *name)?;
    let mut rest = behind;
    while let Some((word, tail)) = rest.split_first() {
        let option = word.split('=').next().unwrap_or_default();
        let is_toolchain = *name == "cargo" && word.starts_with('+');
        let is_workspace = *name == "yarn" && *word == "workspace";
        let takes_value =
            tool.values.contains(word) || tool.elsewhere.contains(word) || is_workspace;
        let is_known = tool.values.contains(&option) || tool.flags.contains(word);
        if !(is_known
            || is_toolchain
            || is_workspace
            || what == LeftOut::All && word.starts_with('-'))
        {
            break;
        }
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
