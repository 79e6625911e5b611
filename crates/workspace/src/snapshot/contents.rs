//! What the id of a snapshot stands for: a tree alone, or a tag of a tree that has what a tree does not hold.
//!
//! Git takes such a tag for its tree wherever it expects one, keeps both while a reference names the tag, and shows
//! it among no commits. The same files with the same permissions and empty folders have the same id.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use super::extras::Extras;
use super::object_reader::{ObjectReader, ReadError};
use super::{SnapshotError, Snapshots};
use crate::TreeId;
use crate::git::{Access, id_of, split_once};

/// The maximum size of a tag; also that of a tree that is read whole.
pub(super) const OBJECT_BYTES_MAX: usize = 64 << 20;
/// How many snapshots are remembered.
const KNOWN_MAX: usize = 8;
/// The lines between the id of the tree and the extras.
const HEADER: &str = "\ntype tree\ntag windlass-snapshot\ntagger windlass <> 0 +0000\n\n";

/// A tree, and what it does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SnapshotContents {
    pub tree: TreeId,
    pub extras: Extras,
}

impl SnapshotContents {
    /// The bytes of the tag.
    fn encode(&self) -> serde_json::Result<Vec<u8>> {
        let mut bytes = format!("object {}{HEADER}", self.tree).into_bytes();
        serde_json::to_writer(&mut bytes, &self.extras)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// The size of the tag.
    pub fn tag_bytes(&self) -> u64 {
        let bytes = self.encode().map(|bytes| bytes.len()).unwrap_or(usize::MAX);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Reads the bytes of a tag; accepts only the form that [`SnapshotContents::encode`] writes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (tree, _) = split_once(bytes.strip_prefix(b"object ")?, b'\n')?;
        let tree: TreeId = std::str::from_utf8(tree).ok()?.parse().ok()?;
        let start = "object ".len() + tree.as_str().len() + HEADER.len();
        let extras: Extras = serde_json::from_slice(bytes.get(start..)?).ok()?;
        let contents = Self { tree, extras };
        (contents.extras.is_safe() && contents.encode().ok()? == bytes).then_some(contents)
    }
}

/// What was read under the id of a snapshot.
pub(super) enum ReadSnapshot {
    Tree,
    Tagged(SnapshotContents),
    /// A commit with this tree, kept until a branch has it.
    Commit(TreeId),
    /// It is missing, damaged, or no snapshot.
    Damaged,
}

/// Reads the object of a snapshot.
pub(super) fn read_snapshot(
    objects: &mut ObjectReader<'_>,
    id: &str,
) -> Result<ReadSnapshot, ReadError> {
    Ok(match objects.small(id, OBJECT_BYTES_MAX)? {
        Some((kind, _)) if kind == "tree" => ReadSnapshot::Tree,
        Some((kind, bytes)) if kind == "tag" => {
            SnapshotContents::decode(&bytes).map_or(ReadSnapshot::Damaged, ReadSnapshot::Tagged)
        }
        Some((kind, bytes)) if kind == "commit" => {
            tree_of_commit(&bytes).map_or(ReadSnapshot::Damaged, ReadSnapshot::Commit)
        }
        Some(_) | None => ReadSnapshot::Damaged,
    })
}

/// The tree that the bytes of a commit name.
fn tree_of_commit(bytes: &[u8]) -> Option<TreeId> {
    let (tree, _) = split_once(bytes.strip_prefix(b"tree ")?, b'\n')?;
    std::str::from_utf8(tree).ok()?.parse().ok()
}

impl Snapshots {
    /// Writes the object of a snapshot and returns its id.
    pub(super) fn write_snapshot(
        &self,
        tree: TreeId,
        extras: Extras,
    ) -> Result<TreeId, SnapshotError> {
        let operation = "write the snapshot";
        let contents = SnapshotContents { tree, extras };
        // An older snapshot of the same tree may have something beside it, which this one does not have.
        let is_plain = contents.extras.is_empty() && !self.has_extras_beside(&contents.tree);
        let id = if is_plain {
            contents.tree.clone()
        } else {
            let fail = |error: serde_json::Error| {
                SnapshotError::file(operation, &self.private, &error.into())
            };
            let git = self.objects_git(operation, Access::Write);
            let git = git.args(["hash-object", "-t", "tag", "-w", "--stdin"]);
            let bytes = contents.encode().map_err(fail)?;
            // It could not be read again, and without it permissions would be lost.
            if bytes.len() > OBJECT_BYTES_MAX {
                let why = "too many files have unusual permissions";
                return Err(SnapshotError::file(operation, &self.private, &io::Error::other(why)));
            }
            id_of(operation, &git.stdin(bytes).output()?)?
        };
        self.remember(&id, &Arc::new(contents));
        Ok(id)
    }

    /// What the id of a snapshot stands for.
    pub(super) fn contents(&self, id: &TreeId) -> Result<Arc<SnapshotContents>, SnapshotError> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, contents)) = known.iter().find(|(known, _)| known == id) {
            return Ok(Arc::clone(contents));
        }
        drop(known);
        let read = read_snapshot(&mut ObjectReader::new(self), id.as_str());
        let contents = match read.map_err(|error| error.at("read", &self.private))? {
            ReadSnapshot::Tree => {
                SnapshotContents { tree: id.clone(), extras: self.extras_beside(id) }
            }
            ReadSnapshot::Tagged(contents) => contents,
            ReadSnapshot::Commit(_) | ReadSnapshot::Damaged => {
                return Err(self.corrupt(id, id.as_str()));
            }
        };
        let contents = Arc::new(contents);
        self.remember(id, &contents);
        Ok(contents)
    }

    /// Keeps the nested repositories of the last capture at hand.
    pub(super) fn remember_nested(&self, id: &TreeId, nested: &[PathBuf]) {
        let mut last = self.last_nested.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((id.clone(), nested.to_vec()));
    }

    /// The nested repositories of a snapshot, if it is the last capture.
    pub(super) fn known_nested(&self, id: &TreeId) -> Option<Vec<PathBuf>> {
        let last = self.last_nested.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|(known, _)| known == id).map(|(_, nested)| nested.clone())
    }

    fn remember(&self, id: &TreeId, contents: &Arc<SnapshotContents>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(known, _)| known != id);
        if known.len() >= KNOWN_MAX {
            known.pop_front();
        }
        known.push_back((id.clone(), Arc::clone(contents)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_has_one_form() {
        let text =
            |extras: &str| format!("object {}{HEADER}{extras}\n", "a".repeat(40)).into_bytes();
        let good = text(r#"{"folders":["6d"],"modes":{"61":384}}"#);
        let contents = SnapshotContents::decode(&good).unwrap();
        assert_eq!(contents.encode().unwrap(), good);
        assert_eq!(contents.extras.mode("a".as_ref()), Some(0o600));
        for bad in [
            r#"{"folders":[],"modes":{"61":4096}}"#,
            r#"{"folders":["2e2e"],"modes":{}}"#,
            r#"{"folders":["2f61"],"modes":{}}"#,
            r#"{"folders":[""],"modes":{}}"#,
            r#"{"folders":["6100"],"modes":{}}"#,
            r#"{"folders":[],"modes":{"612f2e2e2f62":384}}"#,
            r#"{"folders":[], "modes":{}}"#,
            r#"{"folders":[],"modes":{"6A":384}}"#,
            r#"{"folders":[],"modes":{},"more":1}"#,
        ] {
            assert_eq!(SnapshotContents::decode(&text(bad)), None, "{bad}");
        }
        for at in 0..good.len() {
            let cut = good.get(..at).unwrap_or_default();
            assert_eq!(SnapshotContents::decode(cut), None, "{at}");
        }
    }
}
