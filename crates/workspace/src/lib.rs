//! Files as they were and are: the user's repository ([`Git`]), snapshots of whole workspaces
//! ([`Snapshots`]), files stored by their digest ([`BlobStore`]), and what of a work tree commands do not see ([`HiddenFiles`]).
//!
//! It may not decide what to capture, restore or delete: it knows neither policy nor journal. It starts
//! the `git` command through `windlass-connect`, which may not know this crate.

mod blobs;
mod copy;
mod git;
mod hidden_files;
mod snapshot;
mod temporary_folder;
mod walk;

pub use blobs::{
    BlobDecoder, BlobError, BlobHeader, BlobList, BlobStore, CheckReport, FormatError,
    HEADER_BYTES, HashingStream, StoredBlob, decoder, encoder,
};
pub use copy::{FoundFile, copy_file, find_file};
pub use git::{
    Baseline, BlobContents, BroughtFile, CommitId, CommitMerge, CommittedFile, DIRTY_PATHS_MAX,
    DiffStat, FileChange, Git, GitCause, GitError, GitSettings, Hook, LineChange, ObjectIdError,
    OnChanges, PinnedKind, PinnedPath, Pushed, REMOVED, Rebased, RefUpdate, SYSTEM_FOLDERS,
    Signature, TakeOverError, TakenOver, TreeId, Treeish, Upstream, Worktree, WorktreeStatus,
    check_pinned_place, configure_git, find_helper, keep_indexes_in, names_lost_object,
    require_pinned_unchanged, take_over, take_over_in_steps, tips, while_objects_vanish,
};
pub use hidden_files::{HiddenFiles, is_secret_file, remember_hidden_in, telling_folder};
pub use snapshot::{
    Capture, ChangeKind, Changed, Damage, DamagedSnapshot, Entry, EntryMode, Merged, ObjectIndex,
    ObjectStreamError, OnConflict, PackedObjects, PathChange, Rename, SNAPSHOT_REFS, SnapshotError,
    SnapshotFiles, SnapshotLock, Snapshots, TextDiff, WorkspaceChange, die_after, is_in_the_way,
    unpack_files,
};
pub use temporary_folder::{TemporaryFolder, TemporaryUse, sweep_folders, sweep_temporary_folders};
pub use walk::{WalkError, WalkedFile, is_private, walk_files};
