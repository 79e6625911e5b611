//! Events of coding agents that could not be handled: they belong to no session that could record them.
//!
//! A session's own events, refused or not, are in its journal. This file is for the others, such as one that cannot be
//! read or names no session, so that none goes unseen. Nothing depends on it.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use serde_json::{Value, json};
use windlass_hooks::Client;
use windlass_runtime::{Clock as _, SystemClock};

use crate::state::StateRoot;

/// The file in the folder of all states.
const FILE: &str = "refused-events.jsonl";
/// What was in it before.
const OLDER: &str = "refused-events.older.jsonl";
/// A file that is longer is put aside.
const FILE_BYTES_MAX: u64 = 256 << 10;
/// The longest text of a line.
const TEXT_CHARS_MAX: usize = 400;

/// Notes an event that was refused because it could not be handled. What cannot be noted is refused all the same.
pub fn note(client: Option<Client>, bytes: &[u8], reason: &str) {
    if let Ok(root) = StateRoot::find() {
        // The client is told the reason in any case.
        drop(append(root.path(), &line(client, bytes, reason)));
    }
}

/// What is noted of an event: whose it is and what it is about, and nothing of its contents.
fn line(client: Option<Client>, bytes: &[u8], reason: &str) -> Value {
    let event: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let short = |text: &str| -> String { text.chars().take(TEXT_CHARS_MAX).collect() };
    let text = |key: &str| event.get(key).and_then(Value::as_str).map(short);
    json!({
        "at": SystemClock.now().to_string(),
        "bytes": bytes.len(),
        "client": client.map(Client::as_str),
        "event": text("hook_event_name"),
        "folder": text("cwd"),
        "reason": short(reason),
        "session": text("session_id"),
    })
}

fn append(folder: &Path, line: &Value) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let path = folder.join(FILE);
    let is_full = path.metadata().is_ok_and(|found| found.len() > FILE_BYTES_MAX);
    if is_full {
        std::fs::rename(&path, folder.join(OLDER))?;
    }
    let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path)?;
    // One write, so that lines of processes at the same time do not mix.
    file.write_all(format!("{line}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_older_ones_put_aside() {
        let folder = tempfile::tempdir().unwrap();
        let long = "x".repeat(10_000);
        let event = json!({ "hook_event_name": long, "prompt": "a secret wish" }).to_string();
        let noted = line(Some(Client::Claude), event.as_bytes(), &long);
        assert_eq!(noted["event"].as_str().map(str::len), Some(TEXT_CHARS_MAX));
        assert_eq!(noted["client"], "claude");
        assert!(!noted.to_string().contains("secret"), "{noted}");
        let times = 2 * FILE_BYTES_MAX / noted.to_string().len() as u64 + 10;
        for _ in 0..times {
            append(folder.path(), &noted).unwrap();
        }
        let length = |name: &str| folder.path().join(name).metadata().unwrap().len();
        assert!(length(OLDER) > FILE_BYTES_MAX);
        assert!(length(FILE) + length(OLDER) < 2 * FILE_BYTES_MAX + 10_000);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
