//! `windlass store`: the journal as a file.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempPath;
use windlass_journal::verify_store;
use windlass_kernel::Code;
use windlass_runtime::{Clock as _, SystemClock};
use windlass_store_sqlite::{SqliteStore, seal_copy};
use windlass_workspace::{TemporaryFolder, sweep_folders};

use crate::args::StoreCommand;
use crate::commands::verify::count;
use crate::config::plain_name;
use crate::failure::{CommandResult, Failure};
use crate::output::{Output, sanitize};
use crate::project::{DATABASE, Project};
use crate::state::StateRoot;

/// The beginning of the names of folders in which backups are made.
const DRAFT: &str = ".windlass-backup-";

/// Runs a subcommand of `store`.
pub fn run(named: Option<&Path>, command: &StoreCommand, output: &Output) -> CommandResult {
    match command {
        StoreCommand::Backup { target } => backup(&Project::find(named)?, target, output),
    }
}

/// Copies the journal into a new file. The file appears when the copy is complete, verified and durable.
fn backup(project: &Project, target: &Path, output: &Output) -> CommandResult {
    let file = new_file(project, target)?;
    let unwritable = |error: &io::Error| cannot_write(&file, error);
    let config = project.settings()?;
    // The source may lie on a disk that can only be read.
    let store = project.store_to_read(&config)?;
    let folder = folder_of(&file);
    // Beside the new file, so that the copy can be renamed; only its owner can read it.
    sweep_folders(folder, DRAFT);
    let work = TemporaryFolder::new_in(folder, DRAFT).map_err(|error| unwritable(&error))?;
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
    // A file that somebody has made meanwhile is not replaced. Not every file system has hard links.
    TempPath::try_from_path(copy)
        .map_err(|error| unwritable(&error))?
        .persist_noclobber(&file)
        .map_err(|error| unwritable(&error.error))?;
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

/// The file that is written: the one that is named, or a new one in the folder that is named. It is not among the
/// files of any state: what is lost with the state is no backup.
fn new_file(project: &Project, target: &Path) -> Result<PathBuf, Failure> {
    let file = if target.is_dir() {
        let time = SystemClock.now().to_string();
        let time: String = time.chars().filter(char::is_ascii_alphanumeric).collect();
        target.join(format!("windlass-{}-{time}.db", plain_name(&name_of(project))))
    } else {
        target.to_owned()
    };
    if file.symlink_metadata().is_ok() {
        let message = format!("`{}` exists already", file.display());
        return Err(Failure::new(Code::FileUnwritable, message).hint("name a new file"));
    }
    let folder = folder_of(&file).canonicalize().map_err(|error| cannot_write(&file, &error))?;
    let states = StateRoot::find()?;
    let states = states.path().canonicalize().unwrap_or_else(|_| states.path().to_owned());
    if folder.starts_with(&states) {
        let message =
            format!("`{}` is in the folder of states, `{}`", file.display(), states.display());
        return Err(Failure::new(Code::FileUnwritable, message)
            .hint("name a file or folder elsewhere, best on another disk"));
    }
    Ok(file)
}

/// The name of the project's folder.
fn name_of(project: &Project) -> String {
    let name = project.workspace().file_name();
    name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn folder_of(file: &Path) -> &Path {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn cannot_write(file: &Path, error: &io::Error) -> Failure {
    let message = format!("`{}` cannot be written: {error}", file.display());
    Failure::new(Code::FileUnwritable, message)
}
