//! Files as they were and are: the git work of a run ([`Git`]), snapshots of whole workspaces
//! ([`Snapshots`]), and contents by their digest ([`Blobs`]).
//!
//! It may not decide what to capture, restore or keep: it knows neither policy nor store. The `git`
//! command is started through `windlass-connect`, which knows nothing of this crate.

mod blobs;
mod git;
mod snapshot;

pub use blobs::{BlobError, BlobReader, Blobs, CheckReport, Contents, Stored, format};
pub use git::{
    Base, Cleanness, CommitId, DIRTY_PATHS_MAX, DiffStat, FileChange, Git, GitCause, GitError,
    LineChange, ObjectIdError, OnChanges, RefUpdate, Signature, TreeId, Worktree,
};
pub use snapshot::{
    Capture, ChangeKind, Entry, EntryMode, Fault, FaultKind, Merged, PathChange, Restored, Resume,
    SNAPSHOT_REFS, SnapshotError, Snapshots, TextDiff,
};
