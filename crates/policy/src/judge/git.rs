//! What git commands do to files.

use super::effects::{has_option, operands, split};
use crate::UncommittedFile;
use crate::shell::{Word, options};

/// Subcommands of git that take the files of other commits.
const GIT_TAKES: &[&str] =
    &["switch", "checkout", "merge", "rebase", "cherry-pick", "reset", "restore"];
/// The subcommand of git and the words behind it.
pub(super) fn git(words: &[Word]) -> Option<(&str, &[Word])> {
    let (name, rest) = split(words)?;
    if name != "git" {
        return None;
    }
    let (at, _) = options::git_subcommand(rest.iter().map(|word| word.text.as_str()));
    let command = rest.get(at)?;
    Some((command.text.as_str(), rest.get(at + 1..).unwrap_or_default()))
}

/// Whether a command is git.
pub(super) fn is_git(words: &[Word]) -> bool {
    split(words).is_some_and(|(name, _)| name == "git")
}

/// The folders whose whole content a git command reads or moves.
pub(super) fn trees(words: &[Word]) -> Vec<&str> {
    let Some((command, rest)) = git(words) else { return Vec::new() };
    let first = rest.first().map_or("", |word| word.text.as_str());
    let everywhere = match command {
        "grep" | "archive" => true,
        // Its input names what it shows.
        "cat-file" => rest.iter().any(|word| word.text.starts_with("--b")),
        "stash" if first == "show" => has_option(rest, "pu", &["--patch", "--include-untracked"]),
        "switch" => has_option(rest, "", &["--orphan"]),
        // Git has patterns of its own, which quotes do not hide from it.
        "rm" => operands(rest).any(|text| text.contains(['*', '?', '[', ':'])),
        _ => false,
    };
    match command {
        _ if everywhere => vec!["."],
        "mv" => operands(rest).collect(),
        "rm" if has_option(rest, "r", &[]) => operands(rest).collect(),
        _ => Vec::new(),
    }
}

/// The revisions whose files a git command would put into the workspace.
pub(super) fn revisions(words: &[Word]) -> Vec<String> {
    let Some((command, rest)) = git(words) else { return Vec::new() };
    if command == "revert" {
        return reverted(rest);
    }
    taken(command, rest)
}

/// The branches and tags that a git command makes from a revision that it names.
pub(super) fn made(words: &[Word]) -> Vec<&str> {
    match git(words) {
        Some(("branch" | "tag", rest)) if operands(rest).count() > 1 => {
            operands(rest).take(1).collect()
        }
        Some(_) | None => Vec::new(),
    }
}

/// The revisions before those that are reverted.
fn reverted(rest: &[Word]) -> Vec<String> {
    let before = |text: &str| match text.split_once("..") {
        Some(("", _)) => vec!["HEAD".to_owned()],
        Some((start, _)) => vec![start.to_owned()],
        // The second parent counts with `-m 2`.
        None => vec![format!("{text}^"), format!("{text}^2")],
    };
    operands(rest).flat_map(before).collect()
}

/// The revisions whose files are taken.
fn taken(command: &str, rest: &[Word]) -> Vec<String> {
    let first = rest.first().map_or("", |word| word.text.as_str());
    if command == "stash" && matches!(first, "pop" | "apply" | "branch") {
        // `branch` is followed by the name of the new branch.
        let before = if first == "branch" { 2 } else { 1 };
        let named: Vec<String> = operands(rest).skip(before).map(stash).collect();
        return if named.is_empty() { vec![stash("0")] } else { named };
    }
    // Without one of these a reset leaves the files as they are.
    let keeps_files = command == "reset" && !has_option(rest, "", &["--hard", "--merge", "--keep"]);
    if !GIT_TAKES.contains(&command) || keeps_files {
        return Vec::new();
    }
    let (letters, long): (&str, &[&str]) = match command {
        "restore" => ("s", &["--source"]),
        "rebase" => ("", &["--onto"]),
        _ => ("", &[]),
    };
    let words = rest.iter().map(|word| word.text.as_str()).take_while(|text| *text != "--");
    let named = words.chain(options::values(rest, letters, long)).filter_map(revision);
    let named: Vec<String> = named.map(str::to_owned).collect();
    if named.is_empty() && matches!(command, "merge" | "rebase") {
        return vec!["@{upstream}".to_owned()];
    }
    named
}

/// The revision of a stash, which can be named by its number alone.
fn stash(text: &str) -> String {
    if text.chars().all(|char| char.is_ascii_digit()) {
        format!("stash@{{{text}}}")
    } else {
        text.to_owned()
    }
}

/// The revision that a word names: `-` is the branch before, and of a range the end counts.
fn revision(text: &str) -> Option<&str> {
    if text == "-" {
        return Some("@{-1}");
    }
    let named = (!text.starts_with('-')).then_some(text)?;
    named.rsplit("..").next().filter(|end| !end.is_empty()).or(Some(named))
}

/// Where a git command removes ignored files, or makes them files like others, which the next one removes.
pub(super) fn removed(words: &[Word]) -> Vec<&str> {
    match git(words) {
        Some(("clean", rest)) if has_option(rest, "xX", &[]) => vec!["."],
        Some(("stash", rest)) if has_option(rest, "a", &["--all"]) => vec!["."],
        Some(("add", rest)) if has_option(rest, "f", &["--force"]) => {
            // Git's own signs and patterns can stand for any file.
            let is_plain = |text: &str| !text.starts_with(':') && !text.contains(['*', '?', '[']);
            let path = |text| if is_plain(text) { text } else { "." };
            operands(rest).map(path).collect()
        }
        Some(_) | None => Vec::new(),
    }
}

/// Which files that are not committed a git command takes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dropped {
    Tracked,
    Untracked,
    Both,
}

impl Dropped {
    pub const fn contains(self, file: &UncommittedFile) -> bool {
        match self {
            Self::Tracked => file.is_tracked,
            Self::Untracked => !file.is_tracked,
            Self::Both => true,
        }
    }
}

/// What a git command takes away of what is not committed.
pub(super) fn dropped(words: &[Word]) -> Option<Dropped> {
    let (command, rest) = git(words)?;
    let first = rest.first().map_or("", |word| word.text.as_str());
    match command {
        "clean" => (!has_option(rest, "n", &["--dry-run"])).then_some(Dropped::Untracked),
        "stash" if matches!(first, "list" | "show" | "drop" | "clear" | "pop" | "apply") => None,
        "stash" => {
            let all = has_option(rest, "ua", &["--include-untracked", "--all"]);
            Some(if all { Dropped::Both } else { Dropped::Tracked })
        }
        "reset" => {
            has_option(rest, "", &["--hard", "--merge", "--keep"]).then_some(Dropped::Tracked)
        }
        "switch" => {
            has_option(rest, "f", &["--force", "--discard-changes"]).then_some(Dropped::Tracked)
        }
        // What stands behind them can be a path as well as a branch.
        "restore" | "checkout" => {
            let only_elsewhere = has_option(rest, "bBS", &["--staged", "--orphan"]);
            let forced = has_option(rest, "fW", &["--force", "--worktree"]);
            let named = rest.iter().any(|word| !word.text.starts_with('-'));
            (forced || named && !only_elsewhere).then_some(Dropped::Tracked)
        }
        _ => None,
    }
}
