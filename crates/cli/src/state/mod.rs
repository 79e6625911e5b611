//! The state of projects: journals, leases, keys, snapshots and work trees, in a folder of the user outside
//! of every project, so that no agent that works in a project can reach it.

mod folder;
mod identity;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use windlass_kernel::Code;

pub use folder::{StateFolder, StateLock, StateRoot};
pub use identity::{Binding, ProjectId, ProjectRecord, read_id, write_id};

use crate::failure::Failure;

/// Finds the state folder of the project at `root`, a path without links, whose configuration is in `folder`. It is refused if it
/// belongs to a project in another place: effects must never be recorded in a foreign journal.
pub fn open(root: &Path, folder: &Path) -> Result<PathBuf, Failure> {
    let Some(id) = read_id(folder)? else {
        let message = format!("`{}` has a configuration, but no journal here yet", root.display());
        return Err(Failure::new(Code::ProjectMissing, message)
            .hint("this is a fresh clone: run `windlass init`, which creates an empty journal"));
    };
    let state = StateRoot::find()?;
    state.require_outside(root)?;
    let (found, record) = state.folder_of(&id)?.ok_or_else(|| missing(&id, state.path()))?;
    record.require_here(root)?;
    Ok(found.path)
}

/// The failure for a project whose state folder is not there.
fn missing(id: &ProjectId, state: &Path) -> Failure {
    let message = format!("`{}` has no state of the project {id}", state.display());
    Failure::new(Code::StateMissing, message)
}

/// The failure for a file or folder that cannot be created.
pub fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    let kind = error.kind();
    let code = if matches!(kind, ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied) {
        Code::StoreReadOnly
    } else if matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
        Code::StoreFull
    } else {
        Code::FileUnreadable
    };
    Failure::new(code, format!("`{}` cannot be created: {error}", path.display()))
}
