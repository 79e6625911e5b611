//! Words that a command takes as text and never as the name of a file: scripts, what is searched for,
//! messages, and what is printed.

use super::Simple;
use super::options;
use super::programs::{is_plain_sqlite, plain_awk_program, plain_sed_scripts};
use super::word::Word;

/// The options of a search.
struct Search {
    /// Letters of options with a value.
    values: &'static str,
    /// Long options with a value.
    long_values: &'static [&'static str],
    /// Long options without one.
    long: &'static [&'static str],
}

const GREP: Search = Search {
    values: "ABCmdD",
    long_values: &[
        "include",
        "exclude",
        "exclude-dir",
        "max-count",
        "context",
        "after-context",
        "before-context",
        "binary-files",
        "max-depth",
    ],
    long: &[
        "recursive",
        "dereference-recursive",
        "ignore-case",
        "line-number",
        "files-with-matches",
        "files-without-match",
        "name-only",
        "count",
        "word-regexp",
        "line-regexp",
        "fixed-strings",
        "extended-regexp",
        "perl-regexp",
        "invert-match",
        "only-matching",
        "no-filename",
        "with-filename",
        "quiet",
        "silent",
        "no-messages",
        "null",
        "text",
        "color",
        "colour",
        "cached",
        "untracked",
        "and",
        "or",
        "not",
        "heading",
        "break",
        "function-context",
        "show-function",
    ],
};

const RG: Search = Search {
    values: "ABCEgjmMrtTd",
    long_values: &[
        "glob",
        "type",
        "type-not",
        "max-count",
        "context",
        "after-context",
        "before-context",
        "max-depth",
        "sort",
        "replace",
    ],
    long: &[
        "ignore-case",
        "smart-case",
        "line-number",
        "no-line-number",
        "files-with-matches",
        "files-without-match",
        "count",
        "word-regexp",
        "line-regexp",
        "fixed-strings",
        "invert-match",
        "only-matching",
        "no-filename",
        "with-filename",
        "quiet",
        "hidden",
        "no-ignore",
        "no-heading",
        "heading",
        "multiline",
        "pcre2",
        "json",
        "stats",
        "vimgrep",
        "color",
        "null",
    ],
};

/// Commands that take no names of files from their input.
const TAKES_NO_NAMES: &[&str] = &[
    "echo",
    "printf",
    "cat",
    "head",
    "tail",
    "wc",
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "sort",
    "uniq",
    "cut",
    "tr",
    "nl",
    "tac",
    "rev",
    "fold",
    "column",
    "tee",
    "sed",
    "awk",
    "jq",
    "base64",
    "sha256sum",
    "md5sum",
    "diff",
    "cmp",
    "test",
    "[",
    "[[",
    "true",
    "false",
    ":",
    "exit",
    "cd",
    "set",
    "mkdir",
    "touch",
    "ls",
    "pwd",
    "sleep",
    "date",
    "git",
    "cargo",
    "npm",
    "make",
];

/// Options of git whose values are no text of that kind.
const WITH_VALUE: &[&str] = &[
    "-F",
    "--file",
    "-C",
    "--reuse-message",
    "-c",
    "--reedit-message",
    "-t",
    "--template",
    "-u",
    "--local-user",
    "--date",
    "--cleanup",
    "--trailer",
    "--fixup",
    "--squash",
    "-X",
];

/// Marks the words of a command that are text.
pub(super) fn mark(words: &mut [Word]) {
    let Some((name, rest)) = words.split_first_mut() else { return };
    let texts: Vec<&str> = rest.iter().map(|word| word.text.as_str()).collect();
    let places = match name.text.as_str() {
        "sed" | "gsed" => plain_sed_scripts(&texts).unwrap_or_default(),
        "awk" | "gawk" | "mawk" | "nawk" => plain_awk_program(&texts).into_iter().collect(),
        "grep" | "egrep" | "fgrep" | "zgrep" => searched(&GREP, &texts),
        "rg" => searched(&RG, &texts),
        "jq" => jq_program(&texts).into_iter().collect(),
        "sqlite3" if is_plain_sqlite(&texts) => {
            let operands = (0..texts.len())
                .filter(|at| texts.get(*at).is_some_and(|text| !text.starts_with('-')));
            operands.skip(1).collect()
        }
        "xmllint" => {
            texts.iter().position(|text| *text == "--xpath").map(|at| at + 1).into_iter().collect()
        }
        // Labels of targets.
        "bazel" | "bazelisk" | "buck2" => {
            let is_label = |at: &usize| {
                texts.get(*at).is_some_and(|text| text.starts_with("//") || text.starts_with(':'))
            };
            (0..texts.len()).filter(is_label).collect()
        }
        "git" => of_git(&texts),
        _ => return,
    };
    for at in places {
        // The shell replaces a `~` by a path, and `$HOME` stands here as one.
        let is_text =
            |word: &&mut Word| !word.dynamic && !word.is_pattern() && !word.text.starts_with('~');
        if let Some(word) = rest.get_mut(at).filter(is_text) {
            word.inert = true;
        }
    }
}

/// Marks what `echo` and `printf` print, if no command of the line could take it for the name of a file.
pub(super) fn mark_printed(commands: &mut [Simple]) {
    let takes_no_names = |simple: &Simple| {
        let mut texts = simple.words.iter().map(|word| word.text.as_str());
        texts.next().is_some_and(|name| TAKES_NO_NAMES.contains(&name))
            && !texts.any(|text| {
                text.starts_with("--")
                    && ["stdin", "from", "batch"].iter().any(|part| text.contains(part))
            })
    };
    if !commands.iter().all(takes_no_names) {
        return;
    }
    for simple in commands {
        if let Some((name, rest)) = simple.words.split_first_mut()
            && matches!(name.text.as_str(), "echo" | "printf")
        {
            rest.iter_mut().for_each(|word| word.inert = true);
        }
    }
}

/// The places of what is searched for; none if an option is not known.
fn searched(options: &Search, texts: &[&str]) -> Vec<usize> {
    let (mut named, mut explicit, mut first, mut ended) = (Vec::new(), false, None, false);
    let mut at = 0;
    while let Some(text) = texts.get(at) {
        let here = at;
        at += 1;
        if ended || !text.starts_with('-') || *text == "-" {
            first = first.or(Some(here));
        } else if *text == "--" {
            ended = true;
        } else if let Some(long) = text.strip_prefix("--") {
            let (name, value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            let place = if value.is_some() { here } else { at };
            if matches!(name, "regexp" | "file") {
                explicit = true;
                named.extend((name == "regexp").then_some(place));
                at = place + 1;
            } else if options.long_values.contains(&name) {
                at = place + 1;
            } else if !options.long.contains(&name) {
                return Vec::new();
            }
        } else {
            let takes = |(_, letter): &(usize, char)| {
                matches!(letter, 'e' | 'f') || options.values.contains(*letter)
            };
            let Some((index, letter)) = text.char_indices().skip(1).find(takes) else { continue };
            let place = if index + 1 < text.len() { here } else { at };
            explicit |= matches!(letter, 'e' | 'f');
            named.extend((letter == 'e').then_some(place));
            at = place + 1;
        }
    }
    if explicit { named } else { first.into_iter().collect() }
}

/// The place of a jq program that stands in the line.
fn jq_program(texts: &[&str]) -> Option<usize> {
    let is_flag = |text: &&str| {
        text.strip_prefix('-')
            .is_some_and(|letters| letters.chars().all(|char| "rcnesSjRMCa".contains(char)))
    };
    let known = texts.iter().filter(|text| text.starts_with('-')).all(is_flag);
    texts.iter().position(|text| !text.starts_with('-')).filter(|_| known)
}

/// The places of the text in a git command: what it searches for, and messages.
fn of_git(texts: &[&str]) -> Vec<usize> {
    let (at, _) = options::git_subcommand(texts.iter().copied());
    let behind = at + 1;
    let rest = texts.get(behind..).unwrap_or_default();
    let before_paths = rest.iter().position(|text| *text == "--").unwrap_or(rest.len());
    let rest = rest.get(..before_paths).unwrap_or_default();
    let (attached, separate): (&[&str], &[&str]) = match texts.get(at).copied() {
        Some("grep") => {
            return searched(&GREP, rest).into_iter().map(|place| behind + place).collect();
        }
        Some("log" | "shortlog" | "rev-list" | "show" | "diff") => (
            &["--grep=", "--author=", "--committer=", "-S", "-G"],
            &["--grep", "--author", "--committer", "-S", "-G"],
        ),
        Some("commit" | "tag" | "merge") => (&["--message="], &["-m", "-am", "--message"]),
        Some(_) | None => return Vec::new(),
    };
    let mut places = Vec::new();
    let mut at = 0;
    while let Some(text) = rest.get(at) {
        if separate.contains(text) {
            at += 1;
            places.push(behind + at);
        } else if WITH_VALUE.contains(text) {
            // What follows is a value, whatever it looks like.
            at += 1;
        } else if attached.iter().any(|option| text.starts_with(option)) {
            places.push(behind + at);
        }
        at += 1;
    }
    places
}
