//! The gates of workflows in runs that no judge looks at.

use std::path::Path;

use serde_json::json;
use windlass_engine::WorkResult;
use windlass_engine::executors::BuiltinJob;
use windlass_kernel::run::Run;
use windlass_sessions::core::{
    ALL_ITEMS, CoreNote, CoreState, DELEGATED, INFORMATION_ONLY, StepStatus,
};
use windlass_workspace::{CommitId, Git, GitError};

use super::CoreRun;

/// Fails for a plan that no run can carry out.
pub fn require_possible(note: &CoreNote) -> Result<(), String> {
    let CoreNote::Planned { workflow, gates, .. } = note else { return Ok(()) };
    if gates.iter().any(|gate| gate == DELEGATED) {
        return Err(format!(
            "the workflow `{workflow}` hands the work to a skill or command, and a run has none: select another one"
        ));
    }
    Ok(())
}

impl CoreRun {
    /// Whether the work meets the gates of its workflow, as far as files and steps show it.
    pub(super) fn gates(&self, job: &BuiltinJob<'_>) -> WorkResult {
        let run = job.recorder.run();
        let state = self.state(&run);
        WorkResult::answer(match unmet(&run, &state, &job.assignment.workspace) {
            None => {
                json!({ "verdict": "met", "reason": "files and steps are as the workflow wants" })
            }
            Some(reason) => {
                json!({ "verdict": "unmet", "reason": reason, "findings": [reason] })
            }
        })
    }
}

/// Why a gate of the workflow is not met.
fn unmet(run: &Run, state: &CoreState, workspace: &Path) -> Option<String> {
    if state.has_gate(INFORMATION_ONLY) {
        match is_changed(run, workspace) {
            Ok(false) => {}
            Ok(true) => {
                return Some(
                    "the workflow gives information only, but files were changed: put them back as they were"
                        .to_owned(),
                );
            }
            Err(error) => return Some(format!("whether files were changed is not known: {error}")),
        }
    }
    let plan = state.plan().filter(|_| state.has_gate(ALL_ITEMS))?;
    let open = plan.steps.iter().filter(|(_, status)| *status != StepStatus::Completed);
    let open: Vec<&str> = open.map(|(step, _)| step.id.as_str()).take(20).collect();
    (!open.is_empty()).then(|| {
        format!("all steps of the batch must be completed; these are not: {}", open.join(", "))
    })
}

/// Whether the files are others than at the start of the run.
fn is_changed(run: &Run, workspace: &Path) -> Result<bool, String> {
    let base = run.started.as_ref().and_then(|started| started.base.as_ref());
    let base = base.ok_or("the run began outside of a repository")?;
    let base: CommitId = base.commit.parse().map_err(|_| "the recorded commit is none")?;
    let git = Git::new(workspace);
    let changed =
        || -> Result<bool, GitError> { Ok(git.tree_of_worktree()? != git.tree_of(&base)?) };
    changed().map_err(|error| error.to_string())
}
