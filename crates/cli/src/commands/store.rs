//! `windlass store`: the journal as a file.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;
use tempfile::TempDir;
use windlass_journal::verify_store;
use windlass_kernel::Code;
use windlass_store_sqlite::{SqliteStore, seal_copy};

use crate::args::StoreCommand;
use crate::commands::verify::count;
use crate::failure::{CommandResult, Failure};
use crate::output::{Output, sanitize};
use crate::project::{DATABASE, Project};

/// Runs a subcommand of `store`.
pub fn run(named: Option<&Path>, command: &StoreCommand, output: &Output) -> CommandResult {
    match command {
        StoreCommand::Backup { file } => backup(&Project::find(named)?, file, output),
    }
}

/// Copies the journal into a new file. The file appears when the copy is complete, verified and durable.
fn backup(project: &Project, file: &Path, output: &Output) -> CommandResult {
    let unwritable = |error: &io::Error| {
        let message = format!("`{}` cannot be written: {error}", file.display());
        Failure::new(Code::FileUnwritable, message)
    };
    if file.symlink_metadata().is_ok() {
        let message = format!("`{}` exists already", file.display());
        return Err(Failure::new(Code::FileUnwritable, message).hint("name a new file"));
    }
    let config = project.settings()?;
    let store = project.store(&config)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    // Beside the new file, so that the copy can be renamed; only its owner can read it.
    let work =
        TempDir::with_prefix_in(".windlass-backup-", folder).map_err(|error| unwritable(&error))?;
    let copy = work.path().join(DATABASE);
    store.copy_to(&copy)?;
    let copied = SqliteStore::open(&copy, config.store())?;
    copied.void_leases()?;
    let report = verify_store(&copied, &mut |_| {})?;
    drop(copied);
    if !report.is_intact() {
        let message = "the journal is corrupt, so no backup was made".to_owned();
        return Err(Failure::new(Code::StoreCorrupt, message)
            .hint("`windlass verify` lists what is corrupt; keep the backups that you have"));
    }
    seal_copy(&copy)?;
    std::fs::set_permissions(&copy, Permissions::from_mode(0o600))
        .map_err(|error| unwritable(&error))?;
    // A link, unlike a rename, does not replace a file that somebody has made meanwhile.
    std::fs::hard_link(&copy, file).map_err(|error| unwritable(&error))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| unwritable(&error))?;
    if output.json {
        output.value(&json!({
            "file": file, "traces": report.traces, "entries": report.entries,
        }))?;
    } else {
        output.line(&format!(
            "{}: {}, {}, verified",
            sanitize(&file.display().to_string()),
            count(report.traces, "trace", "traces"),
            count(report.entries, "entry", "entries"),
        ));
    }
    Ok(0)
}
