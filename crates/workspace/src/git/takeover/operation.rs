//! The state of an unfinished rebase, cherry-pick or `git am`: what git obeys when a person goes on with it.
//!
//! It is taken over only if it is what git writes for an operation that starts no program: a list of known files with known
//! contents. All else is as if the operation had been given up: its folder is left out as a whole.

use std::path::{Path, PathBuf};

/// The folders of these operations.
const FOLDERS: [&str; 3] = ["rebase-merge", "rebase-apply", "sequencer"];
/// The longest file of them that is read.
pub(super) const BYTES_MAX: u64 = 16 << 20;
/// What a list of steps may say; `exec` and its short form start a program.
const STEPS: [&str; 26] = [
    "pick",
    "p",
    "revert",
    "reword",
    "r",
    "edit",
    "e",
    "squash",
    "s",
    "fixup",
    "f",
    "drop",
    "d",
    "noop",
    "label",
    "l",
    "reset",
    "t",
    "merge",
    "m",
    "break",
    "b",
    "update-ref",
    "u",
    "cherry-pick",
    "remove",
];
/// Files that are lists of steps.
const LISTS: [&str; 5] =
    ["git-rebase-todo", "git-rebase-todo.backup", "done", "todo", "todo.backup"];
/// Files whose contents git takes for data: ids, numbers, messages, patches, and whether they are there.
const DATA: [&str; 57] = [
    "abort-safety",
    "allow_rerere_autoupdate",
    "amend",
    "applying",
    "autostash",
    "cdate_is_adate",
    "committer_date_is_author_date",
    "current-fixups",
    "dirtyindex",
    "drop_redundant_commits",
    "dropped",
    "end",
    "final-commit",
    "force-rewrite",
    "head",
    "ignore_date",
    "info",
    "interactive",
    "keep",
    "keep_redundant_commits",
    "last",
    "message",
    "message-fixup",
    "message-squash",
    "messageid",
    "msg",
    "msg-clean",
    "msgnum",
    "next",
    "no-reschedule-failed-exec",
    "no_inbody_headers",
    "onto",
    "orig-head",
    "original-commit",
    "patch",
    "patch-merge-index",
    "quiet",
    "quoted-cr",
    "rebased-patches",
    "rebasing",
    "refs-to-delete",
    "reschedule-failed-exec",
    "rewritten",
    "rewritten-list",
    "rewritten-pending",
    "scissors",
    "sign",
    "signoff",
    "squash-onto",
    "stopped-sha",
    "threeway",
    "unapplied",
    "utf8",
    "verbose",
    "preserve_merges",
    "rewrite-list",
    "keep-non-patch",
];
/// Strategies of merging that are part of git; another name is that of a program.
const STRATEGIES: [&str; 7] = ["", "ort", "recursive", "resolve", "octopus", "ours", "subtree"];
/// Keys of the options of a cherry-pick that are data.
const OPTIONS: [&str; 13] = [
    "no-commit",
    "edit",
    "allow-empty",
    "allow-empty-message",
    "drop-redundant-commits",
    "keep-redundant-commits",
    "signoff",
    "record-origin",
    "allow-ff",
    "mainline",
    "allow-rerere-auto",
    "default-msg-cleanup",
    "commit-use-reference",
];

/// The folder of the unfinished operation that a file belongs to.
pub(super) fn folder_of(path: &Path) -> Option<PathBuf> {
    let folder = path.ancestors().find(|folder| {
        folder.file_name().is_some_and(|name| FOLDERS.iter().any(|known| name == *known))
    });
    folder.map(Path::to_owned)
}

/// Whether a file of an operation starts no program and works nowhere else.
pub(super) fn is_plain(path: &Path, bytes: &[u8]) -> bool {
    let Some(folder) = folder_of(path) else { return true };
    let inside = path.strip_prefix(&folder).ok().and_then(Path::to_str);
    let Some(name) = inside.filter(|name| !name.contains('/')) else { return false };
    // What people write, and patches, need not be UTF-8.
    let is_patch = name.len() >= 4 && name.bytes().all(|byte| byte.is_ascii_digit());
    if DATA.contains(&name) || is_patch {
        return true;
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    match name {
        name if LISTS.contains(&name) => text.lines().all(is_step),
        "head-name" => is_branch(text.trim_end()) || text.trim_end() == "detached HEAD",
        "update-refs" => text.lines().step_by(3).all(is_branch),
        "gpg_sign_opt" => text.trim_end() == "-S",
        "strategy" => STRATEGIES.contains(&text.trim()),
        "strategy_opts" => text.bytes().all(is_harmless),
        "apply-opt" => text.split_whitespace().all(is_apply_option),
        "author-script" => text.lines().all(is_author),
        "opts" => are_options(text),
        _ => false,
    }
}

fn is_step(line: &str) -> bool {
    let line = line.trim();
    let first = line.split_whitespace().next().unwrap_or_default();
    line.is_empty() || line.starts_with('#') || STEPS.contains(&first)
}

fn is_branch(name: &str) -> bool {
    name.starts_with("refs/heads/")
}

/// A byte of words that options of strategies consist of.
const fn is_harmless(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'=' | b' ' | b'\'' | b'\n' | b'%')
}

fn is_apply_option(word: &str) -> bool {
    let word = word.trim_matches('\'');
    let number = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
    word.is_empty()
        || word.strip_prefix("-C").is_some_and(number)
        || word.strip_prefix("-p").is_some_and(number)
        || word.strip_prefix("--whitespace=").is_some_and(|rest| rest.bytes().all(is_harmless))
        || matches!(word, "--ignore-space-change" | "--ignore-whitespace" | "--reject" | "--3way")
}

/// A line that sets a variable to a quoted text: older versions of git had a shell read it.
fn is_author(line: &str) -> bool {
    let names = ["GIT_AUTHOR_NAME=", "GIT_AUTHOR_EMAIL=", "GIT_AUTHOR_DATE="];
    let Some(mut rest) = names.iter().find_map(|name| line.strip_prefix(name)) else {
        return false;
    };
    while !rest.is_empty() {
        if let Some(more) = rest.strip_prefix("\\'").or_else(|| rest.strip_prefix("\\!")) {
            rest = more;
        } else if let Some((_, more)) =
            rest.strip_prefix('\'').and_then(|quoted| quoted.split_once('\''))
        {
            rest = more;
        } else {
            return false;
        }
    }
    true
}

/// The options of a cherry-pick or revert, which git writes as a configuration.
fn are_options(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| {
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let (key, value) = (key.trim(), value.trim().trim_matches('"'));
        match key {
            "" | "[options]" => true,
            "strategy" => STRATEGIES.contains(&value),
            "strategy-option" => value.bytes().all(is_harmless),
            "gpg-sign" => value.is_empty(),
            key => OPTIONS.contains(&key) && value.bytes().all(is_harmless),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(path: &str, text: &str) -> bool {
        is_plain(Path::new(path), text.as_bytes())
    }

    #[test]
    fn what_git_writes_is_plain() {
        for (path, text) in [
            ("index", "anything"),
            ("rebase-merge/git-rebase-todo", "pick 12ab a\n# Rebase\n\nfixup -C 34cd b\nbreak\n"),
            ("rebase-merge/head-name", "refs/heads/main\n"),
            ("rebase-merge/message", "exec is a word here\n"),
            (
                "rebase-merge/author-script",
                "GIT_AUTHOR_NAME='O'\\''Neil'\nGIT_AUTHOR_DATE='@1 +0000'\n",
            ),
            ("rebase-merge/strategy", "ort\n"),
            ("rebase-apply/0001", "From 12ab\n"),
            ("rebase-apply/apply-opt", " '--whitespace=fix' '-p1'\n"),
            ("sequencer/todo", "pick 12ab a\n"),
            ("sequencer/opts", "[options]\n\tsignoff = true\n\tstrategy = ort\n"),
            ("worktrees/w/rebase-merge/onto", "12ab\n"),
        ] {
            assert!(plain(path, text), "{path}");
        }
    }

    #[test]
    fn what_starts_programs_or_works_elsewhere_is_not() {
        for (path, text) in [
            ("rebase-merge/git-rebase-todo", "pick 12ab a\nexec touch x\n"),
            ("rebase-merge/git-rebase-todo", "x touch x\n"),
            ("rebase-merge/done", "  exec\ttouch x\n"),
            ("rebase-merge/gpg_sign_opt", "-S--evil\n"),
            ("rebase-merge/strategy", "evil\n"),
            ("rebase-merge/strategy_opts", "--x=$(touch x)\n"),
            ("rebase-merge/head-name", "refs/replace/12ab\n"),
            ("rebase-merge/author-script", "GIT_AUTHOR_NAME='a'; touch x\n"),
            ("rebase-merge/author-script", "PATH='.'\n"),
            ("rebase-merge/unknown", ""),
            ("rebase-apply/apply-opt", "--unsafe-paths\n"),
            ("rebase-apply/deep/0001", ""),
            ("sequencer/opts", "[options]\n\tgpg-sign = -S--x\n"),
            ("sequencer/opts", "[core]\n\tfsmonitor = x\n"),
            ("worktrees/w/sequencer/todo", "exec x\n"),
        ] {
            assert!(!plain(path, text), "{path}: {text}");
        }
    }
}
