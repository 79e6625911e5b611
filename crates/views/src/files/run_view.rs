//! The contents of a run's files beyond the run's state: earlier attempts, answered holds, gate results.

use std::collections::{BTreeMap, BTreeSet};

use windlass_engine::EngineError;
use windlass_formats::{
    CheckpointId, GateResult, LedgerChain, LedgerRollback, RunName, StepKey, StepOutcome,
    StepSummary,
};
use windlass_kernel::run::plan::{Effect, Trigger};
use windlass_kernel::run::{
    Event, Hold, JudgedBy, PendingVerdict, PhaseResult, PhaseStatus, Run, checkpoint_name,
};
use windlass_kernel::{Timestamp, TraceId};
use windlass_store::Store;

use super::attempts::{Attempts, PhaseSnapshot};
use super::checkpoint_files::PHASES_MAX;
use super::gate_results::{approvers, gate_result, reason_text, waived_result};
use crate::checkpoints::{CheckpointDocument, build_document, stored_call};

/// The maximum length of a text in a file.
const TEXT_CHARS_MAX: usize = 1000;
/// The maximum number of gate results in a terminal packet; the newest are listed.
const GATES_MAX: usize = 1000;

/// The contents of a run's files.
pub(super) struct RunView {
    trace_id: TraceId,
    /// Whether the run began while it was watched: then no file names it yet.
    pub(super) is_new: bool,
    /// The run's name and its lines in the ledger; `None` before it has started.
    pub(super) identity: Option<Identity>,
    /// Its holds, in order.
    pub(super) holds: Vec<HoldView>,
    /// The attempts of its phases.
    pub(super) steps: BTreeMap<String, Vec<StepSummary>>,
    /// The phases that were completed, in order.
    pub(super) completed: Vec<String>,
    /// The results of gates and checks, in order.
    pub(super) gates: Vec<GateResult>,
    attempts: Attempts,
    /// The tree of the workspace after the last attempt.
    tree: Option<String>,
    /// Whether every checkpoint is written, even for a large run.
    all_checkpoints: bool,
    /// The state before the event that is being folded.
    before: Option<BeforeEvent>,
    snapshots: Vec<PhaseSnapshot>,
    /// The error of the first event that files cannot represent.
    pub(super) error: Option<EngineError>,
    /// The changes since the files were written.
    pub(super) pending: PendingChanges,
}

/// A run's name, and its part of the ledger.
pub(super) struct Identity {
    pub(super) name: RunName,
    pub(super) chain: LedgerChain,
    /// Header and records, each with its line feed.
    pub(super) lines: Vec<Vec<u8>>,
    /// The number of lines in the file.
    pub(super) written: usize,
}

/// A hold and the id of its packet.
#[derive(Clone)]
pub(super) struct HoldView {
    pub(super) id: CheckpointId,
    pub(super) hold: Hold,
}

/// The changes since the files were written.
#[derive(Default)]
pub(super) struct PendingChanges {
    pub(super) holds: Vec<usize>,
    pub(super) steps: Vec<String>,
    pub(super) checkpoints: Vec<CheckpointDocument>,
    pub(super) end: EndChange,
}

/// What became of the end of a run since the files were written.
#[derive(Clone, Copy, Default)]
pub(super) enum EndChange {
    /// Nothing.
    #[default]
    None,
    /// The run has ended.
    Ended,
    /// The run was rolled back: if it had ended, it no longer has.
    Reopened,
}

/// The state of an event's phase before the event is folded.
struct BeforeEvent {
    position: usize,
    status: PhaseStatus,
    pending_verdict: Option<PendingVerdict>,
    /// The hold that is resumed.
    hold: Option<Hold>,
}

impl RunView {
    pub(super) fn new(trace_id: TraceId) -> Self {
        Self {
            trace_id,
            is_new: false,
            identity: None,
            holds: Vec::new(),
            steps: BTreeMap::new(),
            completed: Vec::new(),
            gates: Vec::new(),
            attempts: Attempts::default(),
            tree: None,
            all_checkpoints: false,
            before: None,
            snapshots: Vec::new(),
            error: None,
            pending: PendingChanges::default(),
        }
    }

    /// Writes every checkpoint, even for a large run.
    pub(super) const fn show_all_checkpoints(&mut self) {
        self.all_checkpoints = true;
    }

    /// Captures the state before an event is folded.
    pub(super) fn before(&mut self, run: &Run, event: &Event) {
        self.before = before(run, event);
        self.snapshots = self.attempts.snapshots(run, event);
    }

    /// Adds an event that was folded into `run`. An error is reported when the files are written.
    pub(super) fn after(&mut self, run: &Run, event: &Event, ts: Timestamp, store: &dyn Store) {
        if let Err(error) = self.add(run, event, ts, store) {
            self.error.get_or_insert(error);
        }
    }

    fn add(
        &mut self,
        run: &Run,
        event: &Event,
        ts: Timestamp,
        store: &dyn Store,
    ) -> Result<(), EngineError> {
        let (before, snapshots) = (self.before.take(), std::mem::take(&mut self.snapshots));
        self.add_completed_attempts(run, event, snapshots)?;
        match event {
            Event::Started(started) => {
                let name: RunName = started.run_id.parse().map_err(|error| self.invalid(&error))?;
                let begun = LedgerChain::begin(&name, started.policy_hash);
                let (chain, header) = begun.map_err(|error| self.invalid(&error))?;
                self.identity = Some(Identity { name, chain, lines: vec![header], written: 0 });
            }
            Event::PhaseStarted { phase, .. } => self.attempts.begin(run, phase)?,
            Event::Checkpointed(checkpoint) => {
                if self.all_checkpoints || run.phases.len() <= PHASES_MAX {
                    let calls = |call| stored_call(store, call);
                    let document = build_document(run, checkpoint, ts, &calls);
                    self.pending.checkpoints.push(document);
                }
            }
            Event::RollbackBegun(_) => self.pending.end = EndChange::Reopened,
            // Phases that run again are no longer complete.
            Event::RolledBack { .. } => {
                self.add_rollback(run, ts)?;
                self.completed.retain(|name| {
                    let state = run.position(name).and_then(|position| run.phases.get(position));
                    state.is_some_and(|state| state.status == PhaseStatus::Complete)
                });
            }
            Event::PhaseSkipped { phase, reason } => {
                let step = StepSummary {
                    artifacts: Vec::new(),
                    attempt: None,
                    duration_ms: 0,
                    outcome: StepOutcome::Skipped,
                    step_name: phase.clone(),
                    summary: Some(shortened(reason)).filter(|text| !text.is_empty()),
                };
                self.add_step(phase, step);
            }
            Event::PhaseDone { phase, attempt, done } => {
                let step = summary(phase, *attempt, done, self.tree.as_deref());
                self.add_step(phase, step);
                self.attempts.end(run, phase, done, ts)?;
                self.tree =
                    done.change.as_ref().map(|change| change.tree.clone()).or(self.tree.take());
            }
            Event::Checked { phase, check, verdict, reason, .. } => {
                self.add_check_result(run, phase, check, verdict, reason);
            }
            Event::Held(_) => self.held(run)?,
            Event::Voted(_) | Event::Revoked(_) => self.voted(run),
            Event::Ended { .. } => self.pending.end = EndChange::Ended,
            Event::Begun {}
            | Event::Setup(_)
            | Event::Integration(_)
            | Event::InvocationStarted { .. }
            | Event::InvocationEnded { .. }
            | Event::Waiting { .. }
            | Event::SentBack { .. }
            | Event::Warned { .. }
            | Event::Resumed { .. }
            | Event::Continued {}
            | Event::Reviewed { .. }
            | Event::MergePrepared { .. }
            | Event::Merged { .. }
            | Event::Conflicted { .. }
            | Event::Restarted { .. }
            | Event::CommitPrepared { .. }
            | Event::Noted { .. } => {}
        }
        if let Some(before) = before {
            self.update_phase(run, &before);
        }
        Ok(())
    }

    /// The error of a run that files cannot represent.
    pub(super) fn invalid(&self, reason: &dyn std::fmt::Display) -> EngineError {
        let trace_id = self.trace_id;
        EngineError::Packet {
            code: windlass_kernel::Code::PacketInvalid,
            path: format!("run {trace_id}"),
            what: format!("cannot be written to files: {reason}"),
        }
    }

    /// Adds gate results and the completion of the phase that an event has changed.
    fn update_phase(&mut self, run: &Run, before: &BeforeEvent) {
        let Some((phase, state)) = run.phase(before.position) else { return };
        let complete =
            state.status == PhaseStatus::Complete && before.status != PhaseStatus::Complete;
        let mut results = Vec::new();
        let mut person_step = None;
        let mut waived_gate = false;
        if let Some(hold) = &before.hold {
            match hold.held.trigger {
                Trigger::EscalationRequested | Trigger::WaiverRequested => {
                    if let Some(pending_verdict) = &before.pending_verdict {
                        waived_gate = pending_verdict.judged_by == JudgedBy::Gate;
                        results.extend(waived_result(phase, pending_verdict, hold));
                    }
                }
                Trigger::PersonRequested => {
                    let done = state.done.as_ref();
                    person_step = done.map(|done| {
                        (phase.id.clone(), summary(&phase.id, state.attempt, done, None))
                    });
                }
                Trigger::AgentUnavailable
                | Trigger::BudgetExhausted
                | Trigger::CallApproval
                | Trigger::ConsensusRequested
                | Trigger::MergeConflict
                | Trigger::RestartRequested
                | Trigger::RolledBack
                | Trigger::SetupFailed
                | Trigger::UncertainEffect => {}
            }
        }
        if !waived_gate {
            results.extend(gate_result(phase, state, complete));
        }
        if complete {
            self.completed.push(phase.id.clone());
        }
        for one in results {
            self.add_gate_result(one);
        }
        if let Some((phase, step)) = person_step {
            self.add_step(&phase, step);
        }
    }

    fn add_check_result(
        &mut self,
        run: &Run,
        phase: &str,
        check: &str,
        verdict: &str,
        reason: &str,
    ) {
        let planned = run.position(phase).and_then(|position| run.phase(position));
        let pass = planned
            .and_then(|(phase, _)| phase.checks.iter().find(|other| other.id == check))
            .and_then(|check| check.verdicts.get(verdict))
            == Some(&Effect::Continue);
        let (name, phase) = (check.to_owned(), phase.to_owned());
        self.add_gate_result(GateResult {
            name,
            pass,
            phase,
            reason: reason_text(verdict, reason),
        });
    }

    fn add_gate_result(&mut self, results: GateResult) {
        if self.gates.len() == GATES_MAX {
            self.gates.remove(0);
        }
        self.gates.push(results);
    }

    fn add_step(&mut self, phase: &str, step: StepSummary) {
        let attempts = self.steps.entry(phase.to_owned()).or_default();
        // A phase that was skipped and runs after all replaces the record of the skipping.
        if attempts.last().is_some_and(|last| last.attempt.is_none()) {
            attempts.pop();
        }
        attempts.push(step);
        if !self.pending.steps.iter().any(|other| other == phase) {
            self.pending.steps.push(phase.to_owned());
        }
    }

    fn held(&mut self, run: &Run) -> Result<(), EngineError> {
        let (Some(hold), Some(identity)) = (run.hold.clone(), &self.identity) else {
            return Ok(());
        };
        let index = hold.held.step_index;
        let earlier = self.holds.iter().filter(|other| other.hold.held.step_index == index).count();
        let step = match earlier {
            0 => StepKey::index(index),
            _ => format!("{index}-{}", earlier + 1).parse().map_err(|e| self.invalid(&e))?,
        };
        self.pending.holds.push(self.holds.len());
        self.holds.push(HoldView { id: identity.name.checkpoint(&step), hold });
        Ok(())
    }

    fn voted(&mut self, run: &Run) {
        let (Some(hold), Some(view)) = (run.hold.clone(), self.holds.last_mut()) else {
            return;
        };
        view.hold = hold;
        let last = self.holds.len().saturating_sub(1);
        if !self.pending.holds.contains(&last) {
            self.pending.holds.push(last);
        }
    }

    /// Adds the rollback that was completed to the ledger.
    fn add_rollback(&mut self, run: &Run, ts: Timestamp) -> Result<(), EngineError> {
        let Some(rollback) = run.last_rollback.as_deref() else { return Ok(()) };
        let to = run.checkpoint(rollback.checkpoint);
        let to = to.and_then(|to| {
            let (phase, _) = run.phase(to.phase)?;
            Some(checkpoint_name(to.at, &phase.id, to.version))
        });
        let line = LedgerRollback {
            by: rollback.by.clone(),
            checkpoint: to.unwrap_or_else(|| rollback.checkpoint.to_string()),
            reason: shortened(&rollback.reason),
            timestamp: ts.into(),
        };
        let Some(identity) = &mut self.identity else { return Ok(()) };
        match identity.chain.roll_back(&line) {
            Ok(line) => identity.lines.push(line),
            Err(error) => return Err(self.invalid(&error)),
        }
        Ok(())
    }

    /// Adds the attempts whose next action is now known to the ledger.
    fn add_completed_attempts(
        &mut self,
        run: &Run,
        event: &Event,
        snapshots: Vec<PhaseSnapshot>,
    ) -> Result<(), EngineError> {
        let completed = self.attempts.complete(run, event, snapshots);
        let Some(identity) = &mut self.identity else { return Ok(()) };
        let mut failure = None;
        for attempt in completed {
            match identity.chain.add(&attempt) {
                Ok(line) => identity.lines.push(line),
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(()), |error| Err(self.invalid(&error)))
    }
}

fn before(run: &Run, event: &Event) -> Option<BeforeEvent> {
    let (phase, hold) = if let Event::PhaseDone { phase, .. } | Event::Checked { phase, .. } = event
    {
        (phase, None)
    } else if matches!(event, Event::Resumed { .. }) {
        let hold = run.hold.as_ref()?;
        (&hold.held.phase, Some(hold.clone()))
    } else {
        return None;
    };
    let position = run.position(phase)?;
    let (_, state) = run.phase(position)?;
    Some(BeforeEvent {
        position,
        status: state.status,
        pending_verdict: state.pending_verdict.clone(),
        hold,
    })
}

/// The summary of an attempt; `before` is the tree of the workspace before it.
fn summary(phase: &str, attempt: u32, done: &PhaseResult, before: Option<&str>) -> StepSummary {
    let outcome = if done.failure.is_some() { StepOutcome::Failure } else { StepOutcome::Success };
    let text = match &done.failure {
        Some(failure) if done.summary.is_empty() => &failure.reason,
        Some(_) | None => &done.summary,
    };
    let change = done.change.as_ref().filter(|change| Some(change.tree.as_str()) != before);
    let changed = change.iter().flat_map(|change| &change.files);
    let artifacts: BTreeSet<&String> = done.outputs.keys().chain(changed).collect();
    let text = match approvers(&done.answer) {
        Some(people) => format!("{people}: {text}"),
        None => text.clone(),
    };
    StepSummary {
        artifacts: super::attempts::capped(artifacts),
        attempt: Some(attempt),
        duration_ms: done.duration_ms,
        outcome,
        step_name: phase.to_owned(),
        summary: Some(shortened(&text)).filter(|text| !text.is_empty()),
    }
}

/// Shortens a text that is too long for a file.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// The end of a run, or the time of its last entry.
pub(super) fn end_of(run: &Run) -> Timestamp {
    let ended = run.ended.as_ref().map(|ended| ended.at);
    ended.or(run.last_at).unwrap_or(Timestamp::EPOCH)
}
