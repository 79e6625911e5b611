//! Invariants of checkpoints, rollbacks and reviews, checked against a copy of the run at each
//! checkpoint.

use std::collections::BTreeMap;

use windlass_kernel::run::plan::{Doer, Phase, Trigger};
use windlass_kernel::run::{
    AttemptStage, Checkpoint, CheckpointKind, CheckpointRecord, CheckpointSide, Event, PhaseStatus,
    Review, Run, VoteDecision,
};
use windlass_kernel::{CheckpointId, State};

use crate::run::model::settled;

/// The result of the reviews of a phase, by plain counting.
pub fn tallied(phase: &Phase, reviews: &[Review]) -> Option<&'static str> {
    let Doer::Consensus { quorum, reviewers, .. } = &phase.doer else { panic!("{}", phase.id) };
    let yes = reviews.iter().filter(|one| one.decision == VoteDecision::Approved).count();
    let no = reviews.len() - yes;
    let quorum = *quorum as usize;
    if yes >= quorum {
        let free = reviews.iter().all(|one| one.conditions.is_empty());
        return Some(if free { "approved" } else { "approved_with_conditions" });
    }
    (yes + (reviewers.len() - yes - no) < quorum).then_some("rejected")
}

/// The checkpoint of an event: its phase, side, kind and attempt.
type Expected = (String, CheckpointSide, CheckpointKind, u32);

/// A copy of the run at each of its checkpoints.
#[derive(Default)]
pub struct History {
    then: BTreeMap<CheckpointId, Run>,
    versions: BTreeMap<(String, CheckpointSide), u32>,
    tip: Option<CheckpointId>,
    expected: Option<Expected>,
}

/// The checkpoint whose state a checkpoint has: for that of a rollback, the target of the rollback.
pub fn origin<'a>(run: &'a Run, checkpoint: &'a CheckpointRecord) -> &'a CheckpointRecord {
    let mut checkpoint = checkpoint;
    while checkpoint.kind == CheckpointKind::Rollback {
        checkpoint = run.checkpoint(checkpoint.parent.unwrap()).unwrap();
    }
    checkpoint
}

impl History {
    pub fn watch(&mut self, before: &Run, event: &Event, after: &Run) {
        if !after.plan().unwrap().checkpoints {
            assert!(after.checkpoints.is_empty() && after.due_checkpoint().is_none());
            return;
        }
        let passes =
            matches!(event, Event::Continued {} | Event::Checkpointed(_) | Event::RollbackBegun(_));
        // A run whose hold was answered can end before it continues.
        let gives_up =
            matches!(event, Event::Ended { .. }) && before.head.state == Some(State::Resumed);
        assert!(
            self.expected.is_none() || passes || gives_up,
            "{event:?} before {:?}",
            self.expected
        );
        match event {
            Event::Checkpointed(checkpoint) => self.made(checkpoint, before, after),
            Event::RollbackBegun(_) => self.expected = None,
            Event::RolledBack { .. } => self.restored(before, after),
            _ => self.expected = expected(before, event, after).or(self.expected.take()),
        }
        let owed = after.due_checkpoint().map(|owed| {
            let phase = after.phase(owed.phase).unwrap().0.id.clone();
            assert_eq!(owed.parent, self.tip);
            (phase, owed.at, owed.kind, owed.attempt)
        });
        assert_eq!(owed, self.expected);
    }

    fn made(&mut self, checkpoint: &Checkpoint, before: &Run, after: &Run) {
        let expected = self.expected.take().unwrap();
        assert_eq!(
            expected,
            (checkpoint.phase.clone(), checkpoint.at, checkpoint.kind, checkpoint.attempt)
        );
        let version = self.versions.entry((checkpoint.phase.clone(), checkpoint.at)).or_default();
        *version += 1;
        assert_eq!((checkpoint.version, checkpoint.parent), (*version, self.tip));
        self.tip = Some(checkpoint.id);
        let noted = after.checkpoints.last().unwrap();
        assert_eq!((noted.id, noted.sequence_number), (checkpoint.id, after.head.sequence_number));
        assert_eq!(after.checkpoints.len(), before.checkpoints.len() + 1);
        assert_eq!(after.lineage().next(), Some(noted));
        assert_eq!(after.lineage().last().unwrap().parent, None);
        self.then.insert(checkpoint.id, after.clone());
    }

    /// The run equals its copy at the checkpoint, except for what a rollback does not restore.
    fn restored(&mut self, before: &Run, after: &Run) {
        let rollback = before.pending_rollback().unwrap();
        assert_eq!(after.pending_rollback(), None);
        assert_eq!(after.last_rollback.as_deref(), Some(rollback));
        let (then, checkpoint) =
            (&self.then[&rollback.checkpoint], before.checkpoint(rollback.checkpoint));
        let checkpoint = checkpoint.unwrap();
        let origin = origin(before, checkpoint);
        let ends = origin.at == CheckpointSide::Post
            && matches!(origin.kind, CheckpointKind::Succeeded | CheckpointKind::Approved);
        assert_eq!(after.facts, then.facts);
        for (at, now) in after.phases.iter().enumerate() {
            let (then, name) = (&then.phases[at], &after.phase(at).unwrap().0.id);
            assert_eq!(now.attempt, before.phases[at].attempt, "tries of {name}");
            assert_eq!((now.open_invocation, now.uncertain, &now.waiting), (None, false, &None));
            if ends && at == origin.phase {
                assert!(matches!(now.status, PhaseStatus::Running | PhaseStatus::Complete));
                let done = &self.then[&origin.id].phases[at].done;
                assert_eq!(&now.done, done, "what came of {name}");
                let archived = rollback.archived.contains(name);
                assert!(!archived, "{name} is kept");
            } else if settled(then.status) {
                assert_eq!((now.status, &now.done), (then.status, &then.done), "{name}");
                assert!(!rollback.archived.contains(name), "{name} is kept");
            } else {
                assert_eq!((now.status, &now.done), (PhaseStatus::Pending, &None), "{name}");
                let open = matches!(then.stage, AttemptStage::Before(_) | AttemptStage::Work);
                if open && matches!(then.status, PhaseStatus::Pending | PhaseStatus::Running) {
                    assert_eq!(now.findings, then.findings, "what {name} is to do better");
                }
                assert_eq!(
                    rollback.archived.contains(name),
                    now.attempt > 0,
                    "{name} is put aside"
                );
            }
        }
        for (now, old) in [
            (after.spent.tokens, before.spent.tokens),
            (after.spent.cost_micros, before.spent.cost_micros),
            (after.spent.wall_ms, before.spent.wall_ms),
            (u64::from(after.holds), u64::from(before.holds)),
            (after.invocations, before.invocations),
        ] {
            assert!(now >= old, "{now} is less than {old}");
        }
        self.tip = Some(checkpoint.id);
        let (phase, state) = after.phase(checkpoint.phase).unwrap();
        self.expected = Some((
            phase.id.clone(),
            CheckpointSide::Pre,
            CheckpointKind::Rollback,
            state.attempt + 1,
        ));
    }
}

/// The checkpoint that an event makes due.
fn expected(before: &Run, event: &Event, after: &Run) -> Option<Expected> {
    let ended = |name: &String| {
        let (phase, state) = after.phase(after.position(name).unwrap()).unwrap();
        let done = state.done.as_ref()?;
        let kind = match phase.doer {
            _ if done.failure.is_some() => CheckpointKind::Failed,
            Doer::Person { .. } | Doer::Consensus { .. } => {
                let no = done.answer["verdict"] == "rejected";
                if no { CheckpointKind::Failed } else { CheckpointKind::Approved }
            }
            _ => CheckpointKind::Succeeded,
        };
        Some((name.clone(), CheckpointSide::Post, kind, state.attempt))
    };
    match event {
        Event::PhaseStarted { phase, attempt } => {
            Some((phase.clone(), CheckpointSide::Pre, CheckpointKind::Started, *attempt))
        }
        Event::PhaseDone { phase, .. } | Event::Reviewed { phase, .. } => ended(phase),
        Event::Resumed { .. } => {
            let held = &before.hold.as_ref().unwrap().held;
            let asks =
                matches!(held.trigger, Trigger::PersonRequested | Trigger::ConsensusRequested);
            ended(&held.phase).filter(|_| asks)
        }
        _ => None,
    }
}
