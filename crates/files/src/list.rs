//! `list`: what is in a folder.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, readlinkat, statat};
use rustix::io::Errno;
use serde_json::{Map, Value, json};

use crate::arguments::Arguments;
use crate::collector::Collector;
use crate::error::FilesError;
use crate::limits::{LIST_ENTRIES_MAX, OUTPUT_BYTES_MIN};
use crate::output::json_bytes;
use crate::root::{Links, Resolved, Root, is_git, text_of};
use crate::walk::{Entry, Visitor, Walk, key_of};

/// What an entry takes in the result beside its name.
const ENTRY_BYTES: usize = 64;

pub(crate) fn list(
    root: &Root,
    arguments: &Arguments<'_>,
    output_bytes_max: usize,
) -> Result<Value, FilesError> {
    let resolved = resolve(root, arguments.path())?;
    let path = text_of(&resolved.path);
    if resolved.kind != Some(FileType::Directory) {
        return Err(FilesError::Invalid(format!(
            "`{path}` is not a folder; use `read` for a file"
        )));
    }
    let depth_max =
        arguments.count("depth").and_then(|depth| usize::try_from(depth).ok()).unwrap_or(1);
    let listing = Listing { root, entries: Collector::new(LIST_ENTRIES_MAX + 1) };
    let walk = Walk {
        root,
        start: &resolved.path,
        depth_max,
        include_ignored: arguments.flag("include_ignored").unwrap_or_default(),
    };
    walk.run(&listing, 1);
    let found = listing.entries.finish();
    let mut room = output_bytes_max.saturating_sub(OUTPUT_BYTES_MIN / 2);
    let mut entries = Vec::new();
    let mut truncated = found.len() > LIST_ENTRIES_MAX;
    for (_, (shown, details)) in found.into_iter().take(LIST_ENTRIES_MAX) {
        let bytes = json_bytes(&shown) + ENTRY_BYTES;
        if bytes > room {
            truncated = true;
            break;
        }
        room -= bytes;
        let mut entry = details;
        entry.insert("path".to_owned(), json!(shown));
        entries.push(Value::Object(entry));
    }
    let mut result = json!({ "path": path, "entries": entries });
    if let (true, Value::Object(result)) = (truncated, &mut result) {
        let note = format!(
            "only the first {} entries; list a folder below with `path`, use a smaller `depth`, or `search` with `glob`",
            entries.len()
        );
        result.insert("truncated".to_owned(), json!(true));
        result.insert("note".to_owned(), json!(note));
    }
    Ok(result)
}

/// Resolves a path that is listed or searched; `.git` is neither.
pub(crate) fn resolve(root: &Root, path: &str) -> Result<Resolved, FilesError> {
    let resolved = root.resolve(path, Links::Follow)?;
    if resolved.kind.is_none() {
        return Err(FilesError::NotFound { path: path.to_owned() });
    }
    if resolved.path.iter().any(is_git) {
        let message = "`.git` is not listed or searched; ask git about its content";
        return Err(FilesError::Refused(message.to_owned()));
    }
    Ok(resolved)
}

struct Listing<'a> {
    root: &'a Root,
    /// The shown path and the other details.
    entries: Collector<(String, Map<String, Value>)>,
}

impl Visitor for Listing<'_> {
    type Worker = ();

    fn worker(&self) -> Self::Worker {}

    fn wants(&self, path: &[u8]) -> bool {
        self.entries.wants(path)
    }

    fn visit(&self, (): &mut (), entry: &Entry<'_>) {
        let mut shown = text_of(entry.path);
        let mut key = key_of(entry.path);
        let mut details = Map::new();
        let mut detail = |name: &str, value: Value| details.insert(name.to_owned(), value);
        match entry.kind {
            FileType::Directory => {
                shown.push('/');
                key.push(b'/');
            }
            FileType::RegularFile => {
                match statat(entry.folder, entry.name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(found) => detail("size", json!(found.st_size)),
                    // Removed meanwhile.
                    Err(_) => return,
                };
            }
            FileType::Symlink => {
                let Ok(target) = readlinkat(entry.folder, entry.name, Vec::new()) else { return };
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                shown.push_str(" -> ");
                shown.push_str(&self.root.shown_target(entry.path, &target));
            }
            FileType::Fifo => drop(detail("kind", json!("fifo"))),
            FileType::Socket => drop(detail("kind", json!("socket"))),
            FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => {
                detail("kind", json!("device"));
            }
        }
        self.entries.add(key, 1, (shown, details));
    }

    fn failed(&self, path: &Path, error: Errno) {
        let mut key = key_of(path);
        // Beside the entry of the folder itself.
        key.extend_from_slice(b"/\0");
        let mut details = Map::new();
        details.insert("unreadable".to_owned(), json!(error.to_string()));
        self.entries.add(key, 1, (format!("{}/", text_of(path)), details));
    }
}
