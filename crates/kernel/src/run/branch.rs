//! The fold of branches: a phase's own work tree becomes part of the run's workspace.

use super::checkpoint::CheckpointSide;
use super::payload::{Change, HoldRequest};
use super::plan::Trigger;
use super::state::{AttemptStage, PhaseState, Run};
use serde_json::json;

/// A phase's own work tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Branch {
    /// The workspace that it began from, or must fit to.
    pub fork: Option<String>,
    /// What the work made of it.
    pub theirs: Option<String>,
    /// The merge that is being carried out.
    pub merging: Option<PendingMerge>,
    /// Why it cannot be merged as it is.
    pub conflict: Option<Conflict>,
    /// The files that a person said are mended.
    pub mended: Vec<String>,
}

/// A merge that is on record: the workspace is to become its tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingMerge {
    /// The workspace before.
    pub ours: String,
    /// The workspace after.
    pub tree: String,
}

/// Files that two branches have changed in different ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The files.
    pub paths: Vec<String>,
    /// What git said.
    pub messages: Vec<String>,
}

impl Run {
    /// The files of a phase's branch that a person said are mended.
    #[must_use]
    pub fn resolved_paths(&self, at: usize) -> Option<&[String]> {
        let mended = &self.phases.get(at)?.branch.mended;
        (!mended.is_empty()).then_some(mended.as_slice())
    }

    /// The phase whose merge comes next: the one that is on record, or else the one that ended first,
    /// so that none takes the place of another that is asked for.
    pub(super) fn next_merge(&self) -> Option<usize> {
        let of = |at: usize| self.phases.get(at);
        let due = |at: &&usize| of(**at).is_some_and(|state| state.stage == AttemptStage::Merge);
        let order = |at: &&usize| {
            let begun = of(**at).is_some_and(|state| state.branch.merging.is_some());
            let ended = self.checkpoints.iter().rposition(|checkpoint| {
                checkpoint.phase == **at && checkpoint.at == CheckpointSide::Post
            });
            (!begun, ended.unwrap_or(usize::MAX))
        };
        self.index.at_work.iter().filter(due).min_by_key(order).copied()
    }

    /// The place of a phase that is at its merge.
    fn merging(&self, phase: &str, attempt: u32) -> Result<usize, String> {
        let at = self.running_attempt(phase, attempt)?;
        let here = self.phases.get(at).is_some_and(|state| state.stage == AttemptStage::Merge)
            && self.index.at_work.contains(&at);
        if here { Ok(at) } else { Err(format!("phase `{phase}` is not to be merged")) }
    }

    pub(super) fn prepare_merge(
        &mut self,
        phase: &str,
        attempt: u32,
        ours: &str,
        theirs: &str,
        tree: &str,
    ) -> Result<(), String> {
        let at = self.merging(phase, attempt)?;
        if self.phases.iter().any(|state| state.branch.merging.is_some()) {
            return Err("another merge is being carried out".to_owned());
        }
        self.change(at, |state| {
            state.branch.theirs = Some(theirs.to_owned());
            state.branch.merging =
                Some(PendingMerge { ours: ours.to_owned(), tree: tree.to_owned() });
        });
        Ok(())
    }

    pub(super) fn merged(
        &mut self,
        phase: &str,
        attempt: u32,
        change: Option<&Change>,
    ) -> Result<(), String> {
        let at = self.merging(phase, attempt)?;
        let merging = self.phases.get(at).and_then(|state| state.branch.merging.clone());
        let merging = merging.ok_or_else(|| format!("the merge of `{phase}` is not on record"))?;
        self.tree = Some(merging.tree);
        self.change(at, |state| {
            state.branch = Branch::default();
            state.stage = AttemptStage::After(0);
        });
        self.see(change);
        self.advance(at);
        Ok(())
    }

    pub(super) fn conflicted(
        &mut self,
        phase: &str,
        attempt: u32,
        ours: &str,
        conflict: Conflict,
    ) -> Result<(), String> {
        let at = self.merging(phase, attempt)?;
        if self.phases.get(at).is_some_and(|state| state.branch.merging.is_some()) {
            return Err(format!("the merge of `{phase}` is on record"));
        }
        if conflict.paths.is_empty() {
            return Err("no file is in the way".to_owned());
        }
        self.change(at, |state| {
            let (fork, conflict) = (Some(ours.to_owned()), Some(conflict));
            state.branch = Branch { fork, conflict, ..Branch::default() };
        });
        Ok(())
    }

    /// The hold at which a person makes a branch fit.
    pub(super) fn ask_to_merge(&self, at: usize, phase: &str, conflict: &Conflict) -> HoldRequest {
        let question = format!(
            "the branch of phase `{phase}` does not fit to the workspace; mend the marked files in \
             its work tree, then approve"
        );
        let mut held = self.held(at, Trigger::MergeConflict, question);
        held.evidence = json!({"paths": conflict.paths, "messages": conflict.messages});
        held
    }

    /// A person says that the branch fits now.
    pub(super) fn conflict_mended(&mut self, at: usize) {
        self.change(at, |state: &mut PhaseState| {
            state.branch.mended =
                state.branch.conflict.take().map(|conflict| conflict.paths).unwrap_or_default();
        });
    }
}
