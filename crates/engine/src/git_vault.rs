//! Keeps workspaces as trees of git, and files as contents by their digests.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use windlass_kernel::run::CheckpointArtifact;
use windlass_kernel::{Code, Digest};
use windlass_workspace::{BlobError, Blobs};
use windlass_workspace::{ChangeKind, FaultKind, Merged, Resume, SnapshotError, Snapshots, TreeId};

use crate::error::EngineError;
use crate::vault::{Altered, How, Joined, Vault, Way};

/// The largest file that is kept.
const BYTES_MAX: u64 = 256 << 20;

/// Keeps workspaces in a private git directory and files in a folder of contents, which are opened,
/// and made where they are missing, when they are first needed.
pub struct GitVault {
    project: PathBuf,
    private: PathBuf,
    contents: PathBuf,
    opened: Mutex<Option<Arc<Opened>>>,
}

struct Opened {
    snapshots: Snapshots,
    blobs: Blobs,
}

impl GitVault {
    /// Names what keeps the checkpoints of a project: its folder, the private git directory, and the
    /// folder of contents.
    #[must_use]
    pub const fn new(project: PathBuf, private: PathBuf, contents: PathBuf) -> Self {
        Self { project, private, contents, opened: Mutex::new(None) }
    }

    fn opened(&self) -> Result<Arc<Opened>, EngineError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = &*opened {
            return Ok(Arc::clone(opened));
        }
        let snapshots = Snapshots::open(&self.private, &self.project);
        let snapshots = snapshots.map_err(|error| trouble(&error))?;
        let blobs = Blobs::open(&self.contents).map_err(|error| lost(&error))?;
        Ok(Arc::clone(opened.insert(Arc::new(Opened { snapshots, blobs }))))
    }
}

fn trouble(error: &SnapshotError) -> EngineError {
    EngineError::Requirement { code: error.code(), message: error.to_string() }
}

fn lost(error: &BlobError) -> EngineError {
    EngineError::Requirement { code: error.code(), message: error.to_string() }
}

fn tree(text: &str) -> Result<TreeId, EngineError> {
    text.parse().map_err(|_| EngineError::Requirement {
        code: Code::SnapshotCorrupt,
        message: format!("`{text}` is recorded as a tree and is none"),
    })
}

impl Vault for GitVault {
    fn capture(&self, workspace: &Path, reference: &str) -> Result<String, EngineError> {
        let captured = self.opened()?.snapshots.capture(workspace, reference);
        captured.map(|one| one.tree.as_str().to_owned()).map_err(|error| trouble(&error))
    }

    fn present(&self, workspace: &Path) -> Result<String, EngineError> {
        let present = self.opened()?.snapshots.present(workspace);
        present.map(|one| one.tree.as_str().to_owned()).map_err(|error| trouble(&error))
    }

    fn keep(&self, workspace: &Path, path: &str) -> Result<CheckpointArtifact, EngineError> {
        let file = workspace.join(path);
        let kept = self.opened()?.blobs.put_file(&file, BYTES_MAX).map_err(|error| lost(&error))?;
        let ending = Path::new(path).extension().and_then(|ending| ending.to_str());
        Ok(CheckpointArtifact {
            artifact_type: ending.unwrap_or("file").to_owned(),
            digest: kept.digest,
            size_bytes: kept.bytes,
        })
    }

    fn hold_on_to(&self, named: &str, reference: &str) -> Result<(), EngineError> {
        self.opened()?.snapshots.keep(&tree(named)?, reference).map_err(|error| trouble(&error))
    }

    fn changes(&self, from: &str, to: &str) -> Result<Vec<Altered>, EngineError> {
        let changes = self.opened()?.snapshots.changes(&tree(from)?, &tree(to)?);
        let changes = changes.map_err(|error| trouble(&error))?;
        Ok(changes
            .into_iter()
            .map(|change| Altered {
                path: change.path,
                how: match change.kind {
                    ChangeKind::Added => How::Added,
                    ChangeKind::Removed => How::Removed,
                    ChangeKind::Modified | ChangeKind::TypeChanged | ChangeKind::ModeChanged => {
                        How::Modified
                    }
                },
                before: change.before.and_then(|entry| entry.size),
                after: change.after.and_then(|entry| entry.size),
            })
            .collect())
    }

    fn with_files(
        &self,
        named: &str,
        from: &str,
        paths: &[PathBuf],
    ) -> Result<String, EngineError> {
        let made = self.opened()?.snapshots.graft(&tree(named)?, &tree(from)?, paths);
        made.map(|made| made.as_str().to_owned()).map_err(|error| trouble(&error))
    }

    fn restore(&self, workspace: &Path, way: &Way<'_>) -> Result<(), EngineError> {
        let resume = if way.resuming { Resume::Yes { aside: way.aside } } else { Resume::No };
        let restored =
            self.opened()?.snapshots.restore(workspace, &tree(way.from)?, &tree(way.to)?, resume);
        restored.map(drop).map_err(|error| trouble(&error))
    }

    fn readable(&self, from: &str, to: &str) -> Result<(), EngineError> {
        let read = self.opened()?.snapshots.readable(&tree(from)?, &tree(to)?);
        read.map_err(|error| trouble(&error))
    }

    fn merge(&self, base: &str, ours: &str, theirs: &str) -> Result<Joined, EngineError> {
        let merged = self.opened()?.snapshots.merge(&tree(base)?, &tree(ours)?, &tree(theirs)?);
        Ok(match merged.map_err(|error| trouble(&error))? {
            Merged::Clean(tree) => Joined::Clean(tree.as_str().to_owned()),
            Merged::Conflict { tree_with_markers, paths, messages } => Joined::Conflict {
                marked: tree_with_markers.as_str().to_owned(),
                paths: paths.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
                messages,
            },
        })
    }

    fn difference(
        &self,
        from: &str,
        to: &str,
        bytes_max: usize,
    ) -> Result<(Vec<u8>, bool), EngineError> {
        let diff = self.opened()?.snapshots.text_diff(&tree(from)?, &tree(to)?, &[], bytes_max);
        diff.map(|diff| (diff.bytes, diff.truncated)).map_err(|error| trouble(&error))
    }

    fn references(&self) -> Result<Vec<String>, EngineError> {
        let all = self.opened()?.snapshots.references().map_err(|error| trouble(&error))?;
        Ok(all.into_iter().map(|(name, _)| name).collect())
    }

    fn forget(&self, reference: &str) -> Result<(), EngineError> {
        self.opened()?.snapshots.forget(reference).map_err(|error| trouble(&error))
    }

    fn files(&self) -> Result<Vec<Digest>, EngineError> {
        let opened = self.opened()?;
        let all = opened.blobs.list().map_err(|error| lost(&error))?;
        all.collect::<Result<_, _>>().map_err(|error| lost(&error))
    }

    fn drop_file(&self, digest: &Digest) -> Result<u64, EngineError> {
        let bytes = self.opened()?.blobs.len(digest).unwrap_or_default();
        let gone = self.opened()?.blobs.remove(digest).map_err(|error| lost(&error))?;
        Ok(if gone { bytes } else { 0 })
    }

    fn faults(&self) -> Result<Vec<String>, EngineError> {
        let trees = self.opened()?.snapshots.check().map_err(|error| trouble(&error))?;
        let mut faults: Vec<String> = trees
            .iter()
            .map(|fault| match &fault.kind {
                FaultKind::Reference => {
                    format!("the reference `{}` cannot be read", fault.reference)
                }
                FaultKind::Object(object) => {
                    format!("`{}` is damaged: its object {object}", fault.reference)
                }
            })
            .collect();
        let files = self.opened()?.blobs.check().map_err(|error| lost(&error))?;
        faults.extend(files.faults.iter().map(ToString::to_string));
        Ok(faults)
    }
}
