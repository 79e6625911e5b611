//! Checks that everything that refs, index and logs name exists, once the objects are imported.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::files::{FILE_BYTES_MAX, FileChange};
use super::layers::{Layers, read_file};
use super::logs;
use super::own_files::is_ours;
use super::refs::{RefValue, may_lead_to};
use super::{Baseline, Plan, TakeOver, TakeOverError};
use crate::git::{Access, split_once};

const OPERATION: &str = "check the changes of git";
/// How git writes the mode of a nested repository.
pub(super) const NESTED_MODE: &[u8] = b"160000";

impl TakeOver<'_> {
    /// Refuses changes that name objects that do not exist.
    pub(super) fn verify(
        &self,
        layers: &Layers,
        plan: &Plan,
        base: &Baseline,
    ) -> Result<(), TakeOverError> {
        let mut tips: BTreeMap<&str, &str> = BTreeMap::new();
        for change in &plan.refs {
            if let Some(id) = change.after.as_ref().and_then(RefValue::id) {
                tips.insert(id, &change.name);
            }
        }
        for (_, head) in &plan.heads {
            tips.extend(head.id().map(|id| (id, "HEAD")));
        }
        for new in &plan.new_worktrees {
            tips.extend(new.head.id().map(|id| (id, "worktrees")));
        }
        let missing = self.missing(tips.keys().copied())?;
        if let Some((id, name)) = tips.iter().find(|(id, _)| missing.contains(**id)) {
            let why = format!("its object {id} does not exist");
            return Err(TakeOverError::damaged(Path::new(name), &why));
        }
        self.verify_connected(&tips, base)?;
        self.verify_own_files(&tips, base)?;
        for change in &plan.files {
            let Some(file) = &change.after else { continue };
            let name = change.path.file_name().unwrap_or_default();
            require_no_link(&change.path, file)?;
            if name == "index" {
                self.verify_index(layers, change, file, base)?;
            } else if change.path.iter().any(|part| part == "logs") {
                self.verify_log(change, file)?;
            } else if change.path.iter().any(|part| part == "refs") {
                self.verify_ref_file(change, file)?;
            }
        }
        for new in &plan.new_worktrees {
            for (path, file) in &new.files {
                let change =
                    FileChange { path: path.clone(), after: Some(file.clone()), log_from: None };
                require_no_link(path, file)?;
                if path.as_os_str() == "index" {
                    self.verify_index(layers, &change, file, base)?;
                } else if path.starts_with("logs") {
                    self.verify_log(&change, file)?;
                } else if path.starts_with("refs") {
                    self.verify_ref_file(&change, file)?;
                }
            }
        }
        Ok(())
    }

    /// Refuses commits of which a part is missing.
    fn verify_connected(
        &self,
        tips: &BTreeMap<&str, &str>,
        base: &Baseline,
    ) -> Result<(), TakeOverError> {
        if tips.is_empty() {
            return Ok(());
        }
        let known: BTreeSet<&str> =
            base.refs.values().filter_map(|stored| stored.value()?.id()).collect();
        let lost = self.missing(known.iter().copied())?;
        let mut input = String::new();
        for id in tips.keys() {
            input.extend([id, "\n"]);
        }
        for id in known.iter().filter(|id| !lost.contains(**id)) {
            input.extend(["^", id, "\n"]);
        }
        self.real_objects()?
            .git(OPERATION, Access::Read)
            .args(["rev-list", "--objects", "--quiet", "--stdin"])
            .stdin(input)
            .output()
            .map_err(TakeOverError::invalid_objects)?;
        Ok(())
    }

    fn verify_index(
        &self,
        layers: &Layers,
        change: &FileChange,
        file: &Path,
        base: &Baseline,
    ) -> Result<(), TakeOverError> {
        let entries = self.index_entries(file).map_err(|why| {
            TakeOverError::damaged(&change.path, &format!("git cannot read it: {why}"))
        })?;
        let bad = entries.iter().find(|entry| !is_safe(&entry.path));
        if let Some(IndexEntry { path, .. }) = bad {
            let why = format!("it names `{}`", String::from_utf8_lossy(path));
            return Err(TakeOverError::damaged(&change.path, &why));
        }
        let lower = layers.lower.join(&change.path);
        let before = || self.index_entries(&lower).unwrap_or_default();
        if entries.iter().any(|entry| is_ours(&entry.path) && !entry.is_nested) {
            let before: BTreeSet<_> = before().into_iter().collect();
            let own = entries.iter().filter(|entry| {
                is_ours(&entry.path) && !entry.is_nested && !before.contains(*entry)
            });
            for entry in own {
                self.require_work_tree_has(&entry.id, &entry.path, &change.path)?;
            }
        }
        let nested = |entries: Vec<IndexEntry>| -> BTreeSet<Vec<u8>> {
            let nested = entries.into_iter().filter(|entry| entry.is_nested);
            nested.map(|entry| entry.path).collect()
        };
        let mut new = nested(entries.clone());
        if !new.is_empty() {
            let known = nested(before());
            new.retain(|path| !known.contains(path));
        }
        self.require_known_nested(new, base, &change.path)?;
        let files = entries.iter().filter(|entry| !entry.is_nested);
        let mut missing = self.missing(files.map(|entry| entry.id.as_str()))?;
        if !missing.is_empty() {
            // A partial clone has such entries from the start.
            for entry in before() {
                missing.remove(&entry.id);
            }
        }
        match missing.first() {
            None => Ok(()),
            Some(id) => {
                let why = format!("its object {id} does not exist");
                Err(TakeOverError::damaged(&change.path, &why))
            }
        }
    }

    /// Reads the entries of an index.
    fn index_entries(&self, file: &Path) -> Result<Vec<IndexEntry>, String> {
        let text = |error: std::io::Error| error.to_string();
        let dir = self.real_objects().map_err(|error| error.to_string())?;
        let copy = dir.path().join("index");
        fs::write(&copy, read_file(file, FILE_BYTES_MAX).map_err(text)?).map_err(text)?;
        // The other part of a split index lies beside it, or in the repository.
        for folder in [self.common, file.parent().unwrap_or(self.common)] {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = entry.file_name();
                if name.as_encoded_bytes().starts_with(b"sharedindex.")
                    && let Ok(bytes) = read_file(&entry.path(), FILE_BYTES_MAX)
                {
                    fs::write(dir.path().join(name), bytes).map_err(text)?;
                }
            }
        }
        let listed = dir
            .git(OPERATION, Access::Read)
            .env("GIT_INDEX_FILE", &copy)
            .args(["ls-files", "-s", "-z"])
            .output()
            .map_err(|error| error.to_string())?;
        let mut entries = Vec::new();
        for record in listed.split(|byte| *byte == 0).filter(|record| !record.is_empty()) {
            let (facts, path) = split_once(record, b'\t').ok_or("its list is not valid")?;
            let id = facts.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
            let id = String::from_utf8_lossy(id).into_owned();
            let is_nested = facts.starts_with(NESTED_MODE);
            entries.push(IndexEntry { id, path: path.to_vec(), is_nested });
        }
        Ok(entries)
    }

    /// Refuses new lines of a log that name objects that do not exist.
    fn verify_log(&self, change: &FileChange, file: &Path) -> Result<(), TakeOverError> {
        let damaged = |why: &str| TakeOverError::damaged(&change.path, why);
        let read = |file: &Path| read_file(file, FILE_BYTES_MAX);
        let after = read(file).map_err(|error| damaged(&error.to_string()))?;
        let before = read(&self.common.join(&change.path)).unwrap_or_default();
        let known: BTreeSet<&[u8]> = before.split(|byte| *byte == b'\n').collect();
        let lines: Vec<&[u8]> = match &change.log_from {
            Some(from) => logs::added(&before, &after, from),
            None => after.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect(),
        };
        let mut ids = BTreeSet::new();
        for line in lines {
            if known.contains(line) {
                continue;
            }
            let mut words = line.split(|byte| *byte == b' ');
            for _ in 0..2 {
                let id = words.next().and_then(|id| RefValue::parse(id, self.digits));
                let id = id.filter(|id| id.id().is_some());
                let id = id.ok_or_else(|| damaged("it is no valid log"))?.to_string();
                if id.bytes().any(|byte| byte != b'0') {
                    ids.insert(id);
                }
            }
        }
        match self.missing(ids.iter().map(String::as_str))?.first() {
            None => Ok(()),
            Some(id) => Err(damaged(&format!("its object {id} does not exist"))),
        }
    }

    fn verify_ref_file(&self, change: &FileChange, file: &Path) -> Result<(), TakeOverError> {
        let damaged = || TakeOverError::damaged(&change.path, "it is no valid ref");
        let bytes = read_file(file, FILE_BYTES_MAX).map_err(|_| damaged())?;
        let value = RefValue::parse(&bytes, self.digits).ok_or_else(damaged)?;
        match value.id() {
            Some(id) if self.missing([id].into_iter())?.is_empty() => Ok(()),
            Some(_) => Err(damaged()),
            None if value.target().is_some_and(|to| may_lead_to("", to)) => Ok(()),
            None => Err(damaged()),
        }
    }
}

/// An entry of an index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct IndexEntry {
    id: String,
    path: Vec<u8>,
    /// Whether it is a repository of its own, whose objects are elsewhere.
    is_nested: bool,
}

/// Refuses a file such as `ORIG_HEAD` that leads to a ref: git would write that ref instead of the file.
fn require_no_link(path: &Path, file: &Path) -> Result<(), TakeOverError> {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    // `HEAD` itself leads to a branch.
    let is_ref = name != b"HEAD"
        && name.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_')
        && (name.ends_with(b"HEAD") || name.starts_with(b"AUTO_") || name.ends_with(b"_AUTOSTASH"));
    if !is_ref {
        return Ok(());
    }
    let bytes = read_file(file, FILE_BYTES_MAX);
    match bytes.is_ok_and(|bytes| !bytes.trim_ascii_start().starts_with(b"ref:")) {
        true => Ok(()),
        false => Err(TakeOverError::damaged(path, "it leads to a ref")),
    }
}

/// Whether a path of the index stays in the work tree and out of git directories.
fn is_safe(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').all(|part| {
        !part.is_empty() && part != b"." && part != b".." && !part.eq_ignore_ascii_case(b".git")
    })
}

#[cfg(test)]
mod tests {
    use super::is_safe;

    #[test]
    fn an_index_names_nothing_outside_and_no_git_directory_in_any_case() {
        for path in [&b"a"[..], b"a/b", b".gitignore", b"a.git/b", b"git/x"] {
            assert!(is_safe(path), "{path:?}");
        }
        for path in [&b""[..], b"/a", b"a//b", b"./a", b"a/..", b".git/x", b"a/.GIT/x", b".gIt"] {
            assert!(!is_safe(path), "{path:?}");
        }
    }
}
