//! The merge of an ended run's branch into the branch that it started from.

use serde::{Deserialize, Serialize};

use super::plan::RunOutcome;
use super::state::Run;
use crate::time::Timestamp;

/// How the target branch takes over the work of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MergeStrategy {
    /// By a merge commit; fast-forward where that is possible.
    Merge,
    /// By one commit with all changes.
    Squash,
    /// By moving the branch, which must not have other commits.
    FastForward,
}

/// A merge that was computed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Integration {
    /// The commit of the target branch before the merge.
    pub before: String,
    /// The person who asked for it.
    pub by: String,
    /// The commit of the target branch after the merge.
    pub commit: String,
    /// The target branch.
    pub into: String,
    /// How it is merged.
    pub strategy: MergeStrategy,
    /// The commit of the run's branch that is merged.
    pub tip: String,
}

/// One step of a merge after the end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case", deny_unknown_fields)]
pub enum IntegrationStep {
    /// The target branch is about to be moved.
    Prepared(Box<Integration>),
    /// The target branch was moved.
    Done {
        /// Its commit after the merge.
        commit: String,
    },
    /// Both branches have changed the same lines; nothing was moved.
    Conflicted {
        /// The commit of the target branch.
        before: String,
        /// The person who asked for the merge.
        by: String,
        /// The target branch.
        into: String,
        /// The files with conflicts.
        paths: Vec<String>,
        /// The commit of the run's branch.
        tip: String,
    },
}

/// How far the merge of a run is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntegrationState {
    /// The newest merge that was computed.
    pub prepared: Option<Integration>,
    /// Whether the target branch has it.
    pub done: bool,
    /// Whether a merge had conflicts, so that a person has commits to add to the run's branch.
    pub conflicted: bool,
    /// The conflict that a person has to resolve.
    pub conflict: Option<OpenConflict>,
}

/// A merge that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpenConflict {
    /// The time of the merge.
    pub at: Timestamp,
    /// The target branch.
    pub into: String,
    /// The files that both branches have changed.
    pub paths: Vec<String>,
}

impl Run {
    pub(super) fn fold_integration(
        &mut self,
        step: &IntegrationStep,
        at: Timestamp,
    ) -> Result<(), String> {
        if self.ended.as_ref().is_none_or(|ended| ended.outcome != RunOutcome::Pass) {
            return Err("the run has not passed".to_owned());
        }
        let state = &mut self.integration;
        match step {
            IntegrationStep::Prepared(prepared) => {
                state.prepared = Some(Integration::clone(prepared));
                state.done = false;
            }
            IntegrationStep::Done { commit } => {
                let is_prepared =
                    state.prepared.as_ref().is_some_and(|prepared| prepared.commit == *commit);
                if !is_prepared || state.done {
                    return Err("no merge with this commit is prepared".to_owned());
                }
                state.done = true;
                state.conflict = None;
            }
            IntegrationStep::Conflicted { into, paths, .. } => {
                state.conflicted = true;
                let (into, paths) = (into.clone(), paths.clone());
                state.conflict = Some(OpenConflict { at, into, paths });
            }
        }
        Ok(())
    }
}
