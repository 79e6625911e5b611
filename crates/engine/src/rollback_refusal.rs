//! When a rollback is refused, and what helps then.

use windlass_kernel::run::plan::{Doer, Phase, Requirement};
use windlass_kernel::run::{CheckpointRecord, Run};
use windlass_kernel::{Code, check_name};

use crate::engine::run_name;
use crate::error::{EngineError, listed};
use crate::queue::REASON_BYTES_MAX;
use crate::rollback::{RollbackPlan, RollbackRequest};

/// Adds to the refusal of a change what helps.
pub(crate) fn with_way_on(error: EngineError, run: &Run) -> EngineError {
    let EngineError::InTheWay { changed, in_the_way, message, .. } = error else {
        return error;
    };
    let id = run_name(run);
    let begun = run.pending_rollback().is_some_and(|rollback| rollback.ends.is_none());
    let mut hint = String::from("nothing was changed");
    if !in_the_way.is_empty() {
        let names = listed(&in_the_way);
        hint +=
            &format!("; move {names} out of the way: no snapshot has it, so nothing overwrites it");
    }
    if !changed.is_empty() {
        hint += "; save what is yours, or let `--force` overwrite it: a snapshot keeps it";
    }
    if begun {
        hint += &format!(
            "; then `windlass resume {id}` completes the rollback, and `windlass cancel {id} --reason TEXT` gives it up"
        );
    }
    EngineError::InTheWay { changed, in_the_way, message, hint: Some(hint) }
}

/// Fails if a run that begins in a clean repository would go on with files of people, and commit them.
pub(crate) fn refuse_to_take(run: &Run, plan: &RollbackPlan) -> Result<(), EngineError> {
    let is_clean = run.plan().is_some_and(|plan| plan.require.contains(&Requirement::CleanRepo));
    let theirs = plan.left.iter().filter(|path| plan.changed.contains(path));
    let names: Vec<String> = theirs.map(|path| path.to_string_lossy().into_owned()).collect();
    if names.is_empty() || !is_clean {
        return Ok(());
    }
    let message =
        format!("these files are not the run's, and it would commit them: {}", listed(&names));
    Err(EngineError::Invalid {
        code: Code::RepoDirty,
        message,
        hint: Some(
            "move these files out of the project, or roll back without `--resume`".to_owned(),
        ),
    })
}

/// Fails if the run would have the files of one commit and end with another: it has committed again since the
/// checkpoint, and would not commit after it.
pub(crate) fn refuse_other_commit(
    run: &Run,
    checkpoint: &CheckpointRecord,
) -> Result<(), EngineError> {
    let archived = run.archived_by(checkpoint);
    let commits =
        |phase: &Phase| matches!(&phase.doer, Doer::Builtin { name, .. } if name == "commit");
    let mut committing = run.all_phases().filter(|(phase, _)| commits(phase)).peekable();
    let keeps_all = committing.peek().is_some()
        && committing.all(|(phase, state)| state.attempt > 0 && !archived.contains(&phase.id));
    let (Some(then), Some(now)) = (run.commit_then(checkpoint), run.newest_commit()) else {
        return Ok(());
    };
    if !keeps_all || then == now {
        return Ok(());
    }
    Err(EngineError::Invalid {
        code: Code::CheckpointUnavailable,
        message: format!(
            "run `{}` had made the commit {then} at this checkpoint, and its branch is at {now} since: its files and \
             its commit would not agree",
            run_name(run)
        ),
        hint: Some(
            "roll back to the checkpoint before the commit (`PRE_…` of its phase): it is made again on top of the newest"
                .to_owned(),
        ),
    })
}

pub(crate) fn check_texts(request: &RollbackRequest) -> Result<(), EngineError> {
    let (by, reason) = (request.by.trim(), request.reason.trim());
    let fits = !by.is_empty()
        && !reason.is_empty()
        && check_name(by).is_ok()
        && reason.len() <= REASON_BYTES_MAX;
    if fits {
        return Ok(());
    }
    Err(EngineError::NoCheckpoint {
        what: "a rollback needs a name and a reason; neither may be empty or too long".to_owned(),
    })
}
