//! `windlass session rewind`: brings the files back to how they were at a prompt.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::json;
use windlass_engine::{GitSnapshotStore, SnapshotStore as _, recorded_tree};
use windlass_kernel::Code;
use windlass_kernel::run::RunName;
use windlass_sessions::{DatedNote, SessionNote, notes};
use windlass_workspace::{ChangeKind, OnConflict, PathChange, TreeId, WorkspaceChange};

use crate::args::Rewind;
use crate::commands::session::open_sessions;
use crate::commands::session_found::find;
use crate::failure::{CommandResult, Failure};
use crate::output::{Output, sanitize};
use crate::people::user_name;
use crate::project::Project;

/// The most files that are listed.
const NAMED_MAX: usize = 200;

/// Brings the files back, after those of now are kept and what is about to happen is recorded.
pub fn run(project: &Project, options: &Rewind, output: &Output) -> CommandResult {
    if let Some(inside) = windlass_cell::inside_a_cell() {
        return Err(
            Failure::new(Code::SandboxUnavailable, inside).hint("run Windlass outside of it")
        );
    }
    let runs = project.runs()?;
    let found = find(project, &runs, options.session.as_deref())?;
    let project = Project::of_session(Some(&project.root), Path::new(&found.folder))?;
    let all = notes(runs.store(), found.trace_id())?;
    let snapshots = project.snapshots()?;
    let storing = snapshots.lock_for_storing()?;
    let workspace = project.workspace().to_owned();
    let before = snapshots.capture_unreferenced(&workspace)?;
    let interrupted = interrupted(&snapshots, &all, options.to, &before)?;
    let target = match &interrupted {
        Some(target) => target.clone(),
        None => kept(&snapshots, &all, options.to)?,
    };
    let changes = snapshots.changes(&before, &target)?;
    if !options.dry_run && !changes.is_empty() {
        snapshots.check_restorable(&before, &target)?;
        // Nothing is on record yet: what cannot be changed is told.
        let keep = format!("{}/rewind-{}", RunName::of(found.trace_id()), all.len());
        let on_conflict = OnConflict::Refuse;
        let change =
            WorkspaceChange { expected: &before, wanted: &target, keep: &keep, on_conflict };
        snapshots.prepare_change(&workspace, &change)?;
        let is_rewind = |(_, note): &&DatedNote| matches!(note, SessionNote::Rewound { .. });
        let number = all.iter().filter(is_rewind).count();
        let name = format!("{}/before-rewind-{}", RunName::of(found.trace_id()), number + 1);
        snapshots.set_reference(&before, &name)?;
        let session = open_sessions(&project)?;
        let session = session.of_run(found.session_name(), found.trace_id());
        let reason = options.reason.clone().unwrap_or_default();
        let by = options.by.clone().unwrap_or_else(user_name);
        let told = format!(
            "{by} brought the files back to how they were at prompt {}: read them again before you change them",
            options.to
        );
        let note = SessionNote::Rewound {
            number: options.to,
            tree: target.to_string(),
            before: before.to_string(),
            by,
            reason,
        };
        // One that is continued is on record, with the files before it.
        let note = interrupted.is_none().then_some(note);
        session
            .record(|progress| {
                if !progress.tell.contains(&told) {
                    progress.tell.push(told);
                }
                (note.into_iter().collect(), ())
            })
            .map_err(|error| Failure::of(error.code(), &error))?;
        snapshots.change(&workspace, &change)?;
    }
    drop(storing);
    print(options, &found.name(), &changes, output)
}

/// The files that are kept of a prompt, or of the moment before the last rewind.
fn kept(snapshots: &GitSnapshotStore, notes: &[DatedNote], number: u32) -> Result<TreeId, Failure> {
    let kept = notes.iter().rev().find_map(|(_, note)| match note {
        SessionNote::Prompt { number: own, tree, .. } if *own == number => tree.clone(),
        SessionNote::Rewound { before, .. } if number == 0 => Some(before.clone()),
        SessionNote::Prompt { .. }
        | SessionNote::Rewound { .. }
        | SessionNote::Core(_)
        | SessionNote::Event { .. }
        | SessionNote::Unguarded(_)
        | SessionNote::LetThrough { .. }
        | SessionNote::PolicyChanged { .. } => None,
    });
    let unavailable = |what: &str| {
        let message = format!("the files of prompt {number} {what}");
        Failure::new(Code::CheckpointUnavailable, message)
            .hint("`windlass session show` lists the prompts")
    };
    let tree = recorded_tree(&kept.ok_or_else(|| unavailable("are not kept"))?)?;
    if !snapshots.has_tree(&tree)? {
        return Err(unavailable("were purged"));
    }
    Ok(tree)
}

/// The files that the same rewind was about to bring back when its process died: it is the last that is on record,
/// and each file is either as it was before, or as it was to be.
fn interrupted(
    snapshots: &GitSnapshotStore,
    notes: &[DatedNote],
    to: u32,
    now: &TreeId,
) -> Result<Option<TreeId>, Failure> {
    let Some((_, SessionNote::Rewound { number, tree, before, .. })) = notes.last() else {
        return Ok(None);
    };
    let (tree, before) = (recorded_tree(tree)?, recorded_tree(before)?);
    if *number != to
        || tree == *now
        || !snapshots.has_tree(&tree)?
        || !snapshots.has_tree(&before)?
    {
        return Ok(None);
    }
    let done = snapshots.changes(&before, now)?;
    let left = snapshots.changes(now, &tree)?;
    let left: BTreeSet<&Path> = left.iter().map(|one| one.path.as_path()).collect();
    // A folder is empty while its files are moved.
    let is_between =
        done.iter().all(|one| one.is_of_folder() || !left.contains(one.path.as_path()));
    Ok(is_between.then_some(tree))
}

fn print(
    options: &Rewind,
    session: &str,
    changes: &[PathChange],
    output: &Output,
) -> CommandResult {
    if output.json {
        let changes: Vec<_> = changes
            .iter()
            .map(|one| json!({ "change": word(one.kind), "path": one.path.to_string_lossy() }))
            .collect();
        output.value(&json!({
            "run_id": session, "to": options.to, "done": !options.dry_run, "changes": changes,
        }))?;
        return Ok(0);
    }
    for one in changes.iter().take(NAMED_MAX) {
        output.line(&format!("{:<9} {}", word(one.kind), sanitize(&one.path.to_string_lossy())));
    }
    if changes.len() > NAMED_MAX {
        output.line(&format!("and {} more", changes.len() - NAMED_MAX));
    }
    match (changes.is_empty(), options.dry_run) {
        (true, _) => output.line("nothing to change"),
        (false, true) => output.note("nothing was changed: this was a dry run"),
        (false, false) => {
            output.note("take it back: windlass session rewind --to 0 --reason TEXT");
        }
    }
    Ok(0)
}

/// What becomes of a file.
const fn word(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Added => "restore",
        ChangeKind::Removed => "remove",
        ChangeKind::Modified | ChangeKind::TypeChanged | ChangeKind::ModeChanged => "change",
    }
}
