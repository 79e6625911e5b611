//! Words that a command takes as text and never as the name of a file: scripts, what is searched for,
//! messages, and what is printed.

use super::Simple;
use super::options;
use super::programs::{is_plain_sqlite, jq_program, plain_awk_program, plain_sed_scripts};
use super::searches::{GREP, RG, searched};
use super::word::Word;

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
