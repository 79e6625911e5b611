//! Logs of refs. Git adds a line to them at every change of a ref, so the user may do so while a command runs.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Baseline;
use super::refs::{RefValue, Refs, Stored};

/// The name, and the reason, with which a take-over sets refs.
pub(super) const NAME: &str = "windlass";

/// What tells whether a log was changed: git adds to its file, or puts another in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LogMark {
    bytes: u64,
    inode: u64,
    modified_ns: i64,
}

impl LogMark {
    /// The mark of a log; `None` when there is no such file.
    pub fn of(path: &Path) -> Option<Self> {
        let found = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
        let modified_ns =
            found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec());
        Some(Self { bytes: found.size(), inode: found.ino(), modified_ns })
    }
}

/// Whether a path below the common directory is that of a log.
pub(super) fn is_log(path: &Path) -> bool {
    path.iter().any(|part| part == "logs")
}

/// The object that the ref of a log had before the command; zeros when it did not exist.
pub(super) fn object_before(base: &Baseline, path: &Path, digits: usize) -> String {
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    let value = match parts.as_slice() {
        ["logs", "HEAD"] => base.heads.get("").cloned(),
        ["worktrees", id, "logs", "HEAD"] => base.heads.get(*id).cloned(),
        ["logs", name @ ..] => value_of(&base.refs, &name.join("/")).cloned(),
        _ => None,
    };
    let value = match value.as_ref().and_then(RefValue::target) {
        Some(target) => value_of(&base.refs, target).cloned(),
        None => value,
    };
    value.as_ref().and_then(RefValue::id).map_or_else(|| "0".repeat(digits), str::to_owned)
}

fn value_of<'a>(refs: &'a Refs, name: &str) -> Option<&'a RefValue> {
    refs.get(name).and_then(Stored::value)
}

/// The lines that a command added to a log which the user has changed meanwhile: those from the last change of the old
/// object on.
pub(super) fn added<'a>(user: &[u8], command: &'a [u8], before: &str) -> Vec<&'a [u8]> {
    let known: BTreeSet<&[u8]> = lines(user).collect();
    let all: Vec<&[u8]> = lines(command).collect();
    let first = all.iter().rposition(|line| line.starts_with(before.as_bytes()));
    let own = first.and_then(|first| all.get(first..)).unwrap_or_default();
    own.iter().filter(|line| !known.contains(*line)).copied().collect()
}

/// The log of the user with the lines that the command added. Those stand for the line that git has added when the ref
/// was set.
pub(super) fn merged(user: &[u8], command: &[u8], before: &str) -> Vec<u8> {
    let mut merged = Vec::with_capacity(user.len());
    let own = added(user, command, before);
    for line in lines(user).filter(|line| !is_of_take_over(line)).chain(own) {
        merged.extend_from_slice(line);
        merged.push(b'\n');
    }
    merged
}

/// Whether a line was added by setting a ref in a take-over.
fn is_of_take_over(line: &[u8]) -> bool {
    let who = format!(" {NAME} <> ");
    line.windows(who.len()).any(|part| part == who.as_bytes())
        && line.ends_with(format!("\t{NAME}").as_bytes())
}

fn lines(log: &[u8]) -> impl Iterator<Item = &[u8]> {
    log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_both_stay() {
        let log = |lines: &[&str]| -> Vec<u8> {
            lines.iter().flat_map(|line| format!("{line} x\n").into_bytes()).collect()
        };
        let base = ["0 1", "1 2"];
        let with = |more: &[&str]| log(&[&base[..], more].concat());
        let merged = |user: &[u8], command: &[u8]| merged(user, command, "2");
        // Both added one, in whatever order.
        assert_eq!(merged(&with(&["2 5"]), &with(&["2 3", "3 4"])), with(&["2 5", "2 3", "3 4"]));
        assert_eq!(merged(&with(&["2 5"]), &with(&["2 5"])), with(&["2 5"]), "it was copied");
        // The command removed lines, the user added one.
        assert_eq!(merged(&with(&["2 5"]), b""), with(&["2 5"]));
        assert_eq!(merged(&with(&["2 5"]), &log(&["1 2"])), with(&["2 5"]));
        // The user removed lines, the command added one.
        assert_eq!(merged(b"", &with(&["2 3"])), log(&["2 3"]));
        // There and back.
        assert_eq!(merged(&log(&["1 2"]), &with(&["2 3", "3 2"])), log(&["1 2", "2 3", "3 2"]));
    }
}
