//! `windlass session rewind`: brings the files back to how they were at a prompt.

use std::path::Path;

use serde_json::json;
use windlass_engine::{SnapshotStore as _, recorded_tree};
use windlass_kernel::Code;
use windlass_kernel::run::RunName;
use windlass_sessions::{SessionNote, notes};
use windlass_workspace::{ChangeKind, PathChange, RestoreMode};

use crate::args::Rewind;
use crate::commands::session::{find, open_sessions};
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
    let found = find(&runs, options.session.as_deref())?;
    let project = Project::of_session(Some(&project.root), Path::new(&found.folder))?;
    let all = notes(runs.store(), found.trace_id())?;
    let kept = all.iter().rev().find_map(|(_, note)| match note {
        SessionNote::Prompt { number, tree, .. } if *number == options.to => tree.clone(),
        SessionNote::Rewound { before, .. } if options.to == 0 => Some(before.clone()),
        SessionNote::Prompt { .. }
        | SessionNote::Rewound { .. }
        | SessionNote::Event { .. }
        | SessionNote::Unguarded(_)
        | SessionNote::LetThrough { .. }
        | SessionNote::PolicyChanged { .. } => None,
    });
    let Some(kept) = kept else {
        let message = format!("the files of prompt {} are not kept", options.to);
        return Err(Failure::new(Code::CheckpointUnavailable, message)
            .hint("`windlass session show` lists the prompts"));
    };
    let snapshots = project.snapshots()?;
    let storing = snapshots.lock_for_storing()?;
    let workspace = project.workspace().to_owned();
    let target = recorded_tree(&kept)?;
    if !snapshots.has_tree(&target)? {
        let message = format!("the files of prompt {} were purged", options.to);
        return Err(Failure::new(Code::CheckpointUnavailable, message)
            .hint("`windlass session show` lists the prompts"));
    }
    let number = all.iter().filter(|(_, note)| matches!(note, SessionNote::Rewound { .. })).count();
    let before = if options.dry_run {
        snapshots.capture_unreferenced(&workspace)?
    } else {
        let name = format!("{}/before-rewind-{}", RunName::of(found.trace_id()), number + 1);
        snapshots.capture(&workspace, &name)?
    };
    let changes = snapshots.changes(&before, &target)?;
    if !options.dry_run && !changes.is_empty() {
        snapshots.check_restorable(&before, &target)?;
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
        let failed = |error: windlass_sessions::SessionError| Failure::of(error.code(), &error);
        session.note(&note).map_err(failed)?;
        snapshots.restore(&workspace, &before, &target, RestoreMode::First)?;
        session.progress(|progress| progress.tell.push(told)).map_err(failed)?;
    }
    drop(storing);
    print(options, &found.name(), &changes, output)
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
