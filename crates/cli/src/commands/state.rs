//! `windlass state`: the states of projects, which lie outside of them.

use std::path::{Path, PathBuf};

use serde_json::json;
use windlass_kernel::Code;
use windlass_workspace::{Git, SNAPSHOT_REFS, Snapshots};

use crate::args::{StateCommand, StateRemove};
use crate::commands::confirm;
use crate::failure::{CommandResult, Failure};
use crate::output::{Output, Style, sanitize};
use crate::project::Project;
use crate::setup::SNAPSHOTS;
use crate::state::{Binding, ProjectRecord, StateFolder, StateRoot, read_id, write_id};

/// Runs a subcommand of `state`.
pub fn run(named: Option<&Path>, command: &StateCommand, output: &Output) -> CommandResult {
    match command {
        StateCommand::List => list(output),
        StateCommand::Move => bind(&Project::find(named)?, output),
        StateCommand::Remove(options) => remove(options, output),
    }
}

fn list(output: &Output) -> CommandResult {
    let root = StateRoot::find()?;
    let folders = root.folders()?;
    let mut worst = 0;
    let (mut values, mut rows) = (Vec::new(), Vec::new());
    for folder in &folders {
        let bytes = size(&folder.path);
        match folder.record() {
            Ok(record) => {
                let there = record.is_there();
                let (word, style) = if there { ("yes", Style::Good) } else { ("no", Style::Warn) };
                rows.push(vec![
                    (record.id.to_string(), None),
                    (word.to_owned(), Some(style)),
                    (format!("{} KiB", bytes.div_ceil(1024)), None),
                    (sanitize(&record.path), None),
                ]);
                values.push(json!({
                    "id": record.id, "path": record.path, "state": folder.path, "bytes": bytes,
                    "project_exists": there,
                }));
            }
            Err(failure) => {
                worst = worst.max(failure.exit());
                output.note(&failure.summary());
                values.push(json!({
                    "id": null, "path": null, "state": folder.path, "bytes": bytes,
                    "error": { "code": failure.code(), "message": failure.summary() },
                }));
            }
        }
    }
    if output.json {
        output.value(&values)?;
    } else if folders.is_empty() {
        output.line(&format!("no state in {}", root.path().display()));
    } else {
        output.table(&["ID", "PROJECT EXISTS", "SIZE", "PROJECT"], &rows);
    }
    Ok(worst)
}

/// The size of all files in a folder.
fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => size(&entry.path()),
            Ok(_) | Err(_) => entry.metadata().map_or(0, |found| found.len()),
        })
        .fold(0, u64::saturating_add)
}

/// Binds the state to the project's present place.
fn bind(project: &Project, output: &Output) -> CommandResult {
    let state = StateRoot::find()?;
    let root = project.real_root()?;
    state.require_outside(root)?;
    let _lock = state.lock()?;
    let id = read_id(&project.folder)?;
    let folder = match &id {
        Some(id) => state.folder_of(id)?.map(|(folder, _)| folder),
        None => of_place(&state, root)?,
    };
    let folder = folder.ok_or_else(|| {
        let message = format!("`{}` has no state of this project", state.path().display());
        Failure::new(Code::StateMissing, message)
    })?;
    let record = folder.record()?;
    let binding = record.binding(root)?;
    if binding == Binding::Copied {
        record.require_here(root)?;
    }
    folder.require_unused()?;
    folder.write_record(&ProjectRecord::of(root, record.id.clone())?)?;
    if id.is_none() {
        write_id(&project.folder, &record.id)?;
    }
    repair_worktrees(root, &folder.path)?;
    if output.json {
        output.value(&json!({ "id": record.id, "path": root, "state": folder.path }))?;
    } else {
        let word =
            if binding == Binding::Here && id.is_some() { "is bound" } else { "is now bound" };
        output.line(&format!("{} {word} to {}", folder.path.display(), root.display()));
    }
    Ok(0)
}

/// The only state folder that is recorded for a place.
fn of_place(state: &StateRoot, root: &Path) -> Result<Option<StateFolder>, Failure> {
    let is_here =
        |folder: &StateFolder| folder.record().is_ok_and(|record| Path::new(&record.path) == root);
    let mut folders: Vec<StateFolder> = state.folders()?.into_iter().filter(is_here).collect();
    if folders.len() > 1 {
        let message =
            format!("`{}` has more than one state of this folder", state.path().display());
        return Err(Failure::new(Code::StateDamaged, message).hint(
            "write the id of one of them, as `windlass state list` shows it, to `.windlass/id`",
        ));
    }
    Ok(folders.pop())
}

/// Renews the links between the repository and the work trees of runs.
fn repair_worktrees(root: &Path, state: &Path) -> Result<(), Failure> {
    let entries = std::fs::read_dir(state.join("worktrees")).into_iter().flatten().flatten();
    let paths: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.join(".git").is_file()).collect();
    if paths.is_empty() {
        return Ok(());
    }
    Git::new(root).worktree_repair(&paths).map_err(|error| Failure::of(error.code(), &error))
}

fn remove(options: &StateRemove, output: &Output) -> CommandResult {
    let state = StateRoot::find()?;
    let folder = to_remove(&state, options)?;
    folder.require_unused()?;
    let shown = folder.path.display().to_string();
    let question = format!("Remove `{shown}`, with its journal, keys, snapshots and work trees?");
    // Nobody waits for the answer.
    if !options.yes && !confirm(&question, "--yes", output)? {
        output.note("nothing was removed");
        return Ok(1);
    }
    let lock = state.lock()?;
    let same = to_remove(&state, options)?;
    if same.path != folder.path {
        let message = format!("`{shown}` was changed meanwhile");
        return Err(Failure::new(Code::StateMissing, message).hint("run the command again"));
    }
    folder.require_unused()?;
    let project = folder.record().ok().map(|record| record.path);
    state.remove(&lock, &folder, |folder| {
        let private = folder.path.join(SNAPSHOTS);
        let Some(project) = project.filter(|project| Path::new(project).is_dir()) else { return };
        if !private.is_dir() {
            return;
        }
        let released = Snapshots::open(&private, Path::new(&project)).and_then(|all| all.release());
        if let Err(error) = released {
            output.note(&format!(
                "refs below `{SNAPSHOT_REFS}` stay in the repository of `{}`: {error}",
                sanitize(&project)
            ));
        }
    })?;
    if output.json {
        output.value(&json!({ "removed": folder.path }))?;
    } else {
        output.line(&format!("removed {shown}"));
    }
    Ok(0)
}

/// The state that is named, if it may be removed.
fn to_remove(state: &StateRoot, options: &StateRemove) -> Result<StateFolder, Failure> {
    let mut found = Vec::new();
    for folder in state.folders()? {
        // One whose record is damaged can only be named by its folder.
        let matches = match folder.record() {
            Ok(record) => record.id.matches(&options.id),
            Err(_) => folder.name() == options.id,
        };
        if matches {
            found.push(folder);
        }
    }
    if found.len() > 1 || found.is_empty() {
        let what = if found.is_empty() { "no state has" } else { "more than one state has" };
        let message = format!("{what} the id `{}`", sanitize(&options.id));
        return Err(Failure::new(Code::StateMissing, message)
            .hint("`windlass state list` lists the states; give at least 8 characters of the id"));
    }
    let folder = found.remove(0);
    if let Ok(record) = folder.record()
        && record.is_there()
        && !options.force
    {
        let message = format!("the project in `{}` still exists", record.path);
        return Err(Failure::new(Code::ProjectExists, message).hint(
            "`--force` removes its state anyway: its journal, keys and snapshots are then lost",
        ));
    }
    Ok(folder)
}
