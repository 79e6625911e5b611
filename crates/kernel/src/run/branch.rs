//! Folds the events of branches: the work tree of a phase is merged into the workspace of the run.

use super::checkpoint::CheckpointSide;
use super::payload::{Change, HoldRequest};
use super::plan::Trigger;
use super::state::{AttemptStage, PhaseState, Run};
use serde_json::json;

/// The separate work tree of a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Branch {
    /// The tree of the workspace that the branch forked from, or that it conflicts with.
    pub fork: Option<String>,
    /// The tree of the branch after the work.
    pub theirs: Option<String>,
    /// The merge in progress.
    pub merging: Option<PendingMerge>,
    /// The conflict that prevents the merge.
    pub conflict: Option<Conflict>,
    /// The files whose conflicts a person has resolved.
    pub resolved: Vec<String>,
}

/// A recorded merge, whose tree becomes the tree of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingMerge {
    /// The tree of the workspace before the merge.
    pub ours: String,
    /// The tree of the workspace after the merge.
    pub tree: String,
    /// The number among the merges of the run.
    pub number: u64,
}

/// Files that the branch and the workspace changed differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The files.
    pub paths: Vec<String>,
    /// The messages of git.
    pub messages: Vec<String>,
}

impl Run {
    /// The files of a phase's branch whose conflicts a person has resolved.
    #[must_use]
    pub fn resolved_paths(&self, position: usize) -> Option<&[String]> {
        let resolved = &self.phases.get(position)?.branch.resolved;
        (!resolved.is_empty()).then_some(resolved.as_slice())
    }

    /// The phase that is merged next: the one whose merge is recorded, or else the one that ended first,
    /// so that repeated calls return the same phase.
    pub(super) fn next_merge(&self) -> Option<usize> {
        let of = |position: usize| self.phases.get(position);
        let due = |position: &&usize| {
            of(**position).is_some_and(|state| state.stage == AttemptStage::Merge)
        };
        let order = |position: &&usize| {
            let begun = of(**position).is_some_and(|state| state.branch.merging.is_some());
            let ended = self.checkpoints.iter().rposition(|checkpoint| {
                checkpoint.phase == **position && checkpoint.at == CheckpointSide::Post
            });
            (!begun, ended.unwrap_or(usize::MAX))
        };
        self.index.at_work.iter().filter(due).min_by_key(order).copied()
    }

    /// The number of the merge that is prepared next.
    #[must_use]
    pub const fn next_merge_number(&self) -> u64 {
        self.merges.saturating_add(1)
    }

    /// The index of a phase that is being merged.
    fn merging(&self, phase: &str, attempt: u32) -> Result<usize, String> {
        let position = self.running_attempt(phase, attempt)?;
        let here =
            self.phases.get(position).is_some_and(|state| state.stage == AttemptStage::Merge)
                && self.index.at_work.contains(&position);
        if here { Ok(position) } else { Err(format!("phase `{phase}` has no merge in progress")) }
    }

    pub(super) fn prepare_merge(
        &mut self,
        phase: &str,
        attempt: u32,
        ours: &str,
        theirs: &str,
        tree: &str,
    ) -> Result<(), String> {
        let position = self.merging(phase, attempt)?;
        if self.phases.iter().any(|state| state.branch.merging.is_some()) {
            return Err("another merge is in progress".to_owned());
        }
        self.merges = self.next_merge_number();
        let number = self.merges;
        self.change(position, |state| {
            state.branch.theirs = Some(theirs.to_owned());
            let (ours, tree) = (ours.to_owned(), tree.to_owned());
            state.branch.merging = Some(PendingMerge { ours, tree, number });
        });
        Ok(())
    }

    pub(super) fn merged(
        &mut self,
        phase: &str,
        attempt: u32,
        change: Option<&Change>,
    ) -> Result<(), String> {
        let position = self.merging(phase, attempt)?;
        let merging = self.phases.get(position).and_then(|state| state.branch.merging.clone());
        let merging =
            merging.ok_or_else(|| format!("the merge of phase `{phase}` is not recorded"))?;
        self.tree = Some(merging.tree);
        self.change(position, |state| {
            state.branch = Branch::default();
            state.stage = AttemptStage::After(0);
        });
        self.set_change(change);
        self.set_reviewed(change);
        self.advance(position);
        Ok(())
    }

    pub(super) fn conflicted(
        &mut self,
        phase: &str,
        attempt: u32,
        ours: &str,
        conflict: Conflict,
    ) -> Result<(), String> {
        let position = self.merging(phase, attempt)?;
        if conflict.paths.is_empty() {
            return Err("a conflict needs at least one file".to_owned());
        }
        self.change(position, |state| {
            let (fork, conflict) = (Some(ours.to_owned()), Some(conflict));
            state.branch = Branch { fork, conflict, ..Branch::default() };
        });
        Ok(())
    }

    /// The hold at which a person resolves a conflict.
    pub(super) fn ask_to_merge(
        &self,
        position: usize,
        phase: &str,
        conflict: &Conflict,
    ) -> HoldRequest {
        let question = format!(
            "the branch of phase `{phase}` conflicts with the workspace; resolve the marked files in \
             its work tree, then approve"
        );
        let mut held = self.held(position, Trigger::MergeConflict, question);
        held.evidence = json!({"paths": conflict.paths, "messages": conflict.messages});
        held
    }

    /// A person has resolved the conflict.
    pub(super) fn conflict_resolved(&mut self, position: usize) {
        self.change(position, |state: &mut PhaseState| {
            state.branch.resolved =
                state.branch.conflict.take().map(|conflict| conflict.paths).unwrap_or_default();
        });
    }
}
