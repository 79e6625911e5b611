//! The events of checkpoints, reviews, merges and rollbacks for runs driven in memory.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_kernel::CheckpointId;
use windlass_kernel::State;
use windlass_kernel::run::plan::{Doer, Reviewer};
use windlass_kernel::run::{
    Checkpoint, CheckpointRecord, CheckpointSide, CheckpointWorkspace, Event, Rollback, Run, Usage,
};
use windlass_testkit::people;

use crate::run::harness::{Lab, id};

pub fn name_of(run: &Run, at: usize) -> String {
    run.phase(at).unwrap().0.id.clone()
}

pub fn reviewer_name(run: &Run, at: usize, reviewer: usize) -> String {
    match &run.phase(at).unwrap().0.doer {
        Doer::Consensus { reviewers, .. } => Reviewer::name(&reviewers[reviewer]).to_owned(),
        other => panic!("{other:?} has no reviewers"),
    }
}

/// The name of a checkpoint, as `PRE_a_v1`.
pub fn label(run: &Run, checkpoint: &CheckpointRecord) -> String {
    format!("{}_{}_v{}", checkpoint.at.as_str(), name_of(run, checkpoint.phase), checkpoint.version)
}

impl Lab {
    /// The event of the due checkpoint, if there is one.
    pub fn due_checkpoint(&self) -> Option<Event> {
        let owed =
            self.run.due_checkpoint().filter(|_| self.run.head.state == Some(State::Running))?;
        let number = self.run.head.sequence_number;
        let branch =
            self.run.phase(owed.phase).unwrap().0.branch && owed.at == CheckpointSide::Post;
        Some(Event::Checkpointed(Box::new(Checkpoint {
            artifacts: BTreeMap::new(),
            at: owed.at,
            attempt: owed.attempt,
            duration_ms: 1,
            id: CheckpointId(id(500_000 + number)),
            kind: owed.kind,
            metadata: Value::Null,
            parent: owed.parent,
            phase: name_of(&self.run, owed.phase),
            version: owed.version,
            workspace: Some(CheckpointWorkspace {
                branch: branch.then(|| format!("branch {number}")),
                tree: format!("tree {number}"),
            }),
        })))
    }

    /// A checkpoint by its label.
    pub fn checkpoint(&self, name: &str) -> CheckpointRecord {
        let checkpoints = self.run.checkpoints.iter();
        let found = checkpoints.clone().find(|checkpoint| label(&self.run, checkpoint) == name);
        let Some(found) = found else {
            panic!(
                "no {name} in {:?}",
                checkpoints.map(|checkpoint| label(&self.run, checkpoint)).collect::<Vec<_>>()
            )
        };
        found.clone()
    }

    /// The names of the checkpoints in the lineage, oldest first.
    pub fn line(&self) -> Vec<String> {
        let mut line: Vec<String> =
            self.run.lineage().map(|checkpoint| label(&self.run, checkpoint)).collect();
        line.reverse();
        line
    }

    /// A valid rollback to a checkpoint.
    pub fn wish(&self, checkpoint: &CheckpointRecord, resume: bool) -> Rollback {
        let tree = checkpoint.workspace.as_ref().map(|workspace| workspace.tree.clone());
        Rollback {
            ends: None,
            archived: self.run.archived_by(checkpoint),
            by: "ann".into(),
            checkpoint: checkpoint.id,
            commit: None,
            from: self.run.checkpoints.last().map(|checkpoint| checkpoint.id),
            reason: "try again".into(),
            resume,
            snapshot: tree.as_ref().map(|_| "as it was".into()),
            target: tree.as_ref().map(|tree| format!("{tree} and more")),
            tree,
        }
    }

    /// Rolls back the run to a checkpoint.
    pub fn roll_back(&mut self, checkpoint: &CheckpointRecord, resume: bool) {
        self.record(Event::RollbackBegun(Box::new(self.wish(checkpoint, resume))));
        self.record(Event::RolledBack { change: None });
    }

    pub fn review(&self, at: usize, reviewer: &str, verdict: &str) -> Event {
        let (phase, state) = self.run.phase(at).unwrap();
        let conditions = match verdict {
            "approved_with_conditions" => vec![format!("{reviewer} wants it short")],
            _ => Vec::new(),
        };
        Event::Reviewed {
            phase: phase.id.clone(),
            attempt: state.attempt,
            reviewer: reviewer.into(),
            verdict: verdict.into(),
            conditions,
            reason: format!("{reviewer} says so"),
            findings: json!([format!("{reviewer} {verdict}")]),
            usage: Usage::default(),
            duration_ms: 1,
        }
    }

    /// The first event of a successful merge.
    pub fn merge_prepared(&self, at: usize) -> Event {
        let (phase, state) = self.run.phase(at).unwrap();
        let theirs = state.branch.theirs.clone().unwrap_or_else(|| "mended".into());
        Event::MergePrepared {
            phase: phase.id.clone(),
            attempt: state.attempt,
            ours: self.run.tree.clone().unwrap(),
            tree: format!("{theirs} merged"),
            theirs,
        }
    }

    pub fn merged(&self, at: usize) -> Event {
        let (phase, state) = self.run.phase(at).unwrap();
        Event::Merged { phase: phase.id.clone(), attempt: state.attempt, change: None }
    }

    pub fn conflicted(&self, at: usize) -> Event {
        let (phase, state) = self.run.phase(at).unwrap();
        Event::Conflicted {
            phase: phase.id.clone(),
            attempt: state.attempt,
            ours: "the workspace".into(),
            paths: vec!["a.txt".into()],
            messages: vec!["both have changed a.txt".into()],
        }
    }

    /// Merges a branch or records its conflict.
    pub fn merge(&mut self, at: usize, conflict: bool) {
        if conflict {
            return self.record(self.conflicted(at));
        }
        if self.run.phase(at).unwrap().1.branch.merging.is_none() {
            self.record(self.merge_prepared(at));
        }
        self.record(self.merged(at));
    }

    /// An approval with a condition.
    pub fn vote_if(&self, by: &str, condition: &str) -> Event {
        let shown =
            self.run.hold.as_ref().map_or(windlass_kernel::Digest::GENESIS, |hold| hold.shown);
        let (approved, conditions) =
            (windlass_kernel::run::VoteDecision::Approved, [condition.to_owned()]);
        Event::Voted(people::vote(&self.run.head, by, approved, "because", &conditions, shown))
    }
}

/// An id that no test uses.
pub fn foreign() -> CheckpointId {
    CheckpointId(id(9_000_000))
}
