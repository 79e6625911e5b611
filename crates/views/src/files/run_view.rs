//! What the files of a run show beyond the run's state: earlier attempts, answered holds, what gates said.

use std::collections::BTreeMap;

use windlass_engine::EngineError;
use windlass_formats::{
    CheckpointId, GateResult, LedgerChain, RunName, StepKey, StepOutcome, StepSummary,
};
use windlass_kernel::run::plan::{Effect, Phase, Trigger};
use windlass_kernel::run::{
    Event, Hold, JudgedBy, PendingVerdict, PhaseResult, PhaseState, PhaseStatus, Run,
};
use windlass_kernel::{Timestamp, TraceId};
use windlass_store::Store;

use super::attempts::{Attempts, Fate};
use super::checkpoint_files::PHASES_MAX;
use crate::checkpoints::{Document, document};

/// The longest text that is taken over into a file, in characters.
const TEXT_CHARS_MAX: usize = 1000;
/// The most judgements that a terminal packet shows: the newest.
const GATES_MAX: usize = 1000;

/// What the files of a run show.
pub(super) struct RunView {
    trace_id: TraceId,
    /// The run's name and its lines in the ledger; none before it has started.
    pub(super) identity: Option<Identity>,
    /// Its holds, in order.
    pub(super) holds: Vec<HoldView>,
    /// What its phases did, try by try.
    pub(super) steps: BTreeMap<String, Vec<StepSummary>>,
    /// The phases that were completed, in order.
    pub(super) completed: Vec<String>,
    /// What gates and checks said, in order.
    pub(super) gates: Vec<GateResult>,
    attempts: Attempts,
    /// Whether every checkpoint is shown, however large the run is.
    shows_all: bool,
    /// What the event that is being folded changes.
    before: Option<Before>,
    fates: Vec<Fate>,
    /// The first event that cannot be shown in files.
    pub(super) error: Option<EngineError>,
    /// What has changed since the files were written.
    pub(super) changed: Changed,
}

/// A run's name, and its part of the ledger.
pub(super) struct Identity {
    pub(super) name: RunName,
    pub(super) chain: LedgerChain,
    /// Header and records, each with its line feed.
    pub(super) lines: Vec<Vec<u8>>,
    /// How many of them are in the file.
    pub(super) written: usize,
}

/// A hold and its packet's name.
pub(super) struct HoldView {
    pub(super) id: CheckpointId,
    pub(super) hold: Hold,
}

/// What has changed since the files were written.
#[derive(Default)]
pub(super) struct Changed {
    pub(super) holds: Vec<usize>,
    pub(super) steps: Vec<String>,
    pub(super) checkpoints: Vec<Document>,
    pub(super) end: bool,
}

/// What must be known of a phase before an event is applied.
struct Before {
    at: usize,
    status: PhaseStatus,
    judged: Option<PendingVerdict>,
    /// The hold that is taken up.
    hold: Option<Hold>,
}

impl RunView {
    pub(super) fn new(trace_id: TraceId) -> Self {
        Self {
            trace_id,
            identity: None,
            holds: Vec::new(),
            steps: BTreeMap::new(),
            completed: Vec::new(),
            gates: Vec::new(),
            attempts: Attempts::default(),
            shows_all: false,
            before: None,
            fates: Vec::new(),
            error: None,
            changed: Changed::default(),
        }
    }

    /// Shows every checkpoint, however large the run is.
    pub(super) const fn show_all_checkpoints(&mut self) {
        self.shows_all = true;
    }

    /// Notes what the next event changes, before it is folded.
    pub(super) fn before(&mut self, run: &Run, event: &Event) {
        self.before = before(run, event);
        self.fates = self.attempts.fates(run, event);
    }

    /// Adds an event that was folded into `run`. An error is kept until the files are written.
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
        let (before, fates) = (self.before.take(), std::mem::take(&mut self.fates));
        self.settle(run, event, fates)?;
        match event {
            Event::Started(started) => {
                let name: RunName =
                    started.run_id.parse().map_err(|error| self.unusable(&error))?;
                let begun = LedgerChain::begin(&name, started.policy_hash);
                let (chain, header) = begun.map_err(|error| self.unusable(&error))?;
                self.identity = Some(Identity { name, chain, lines: vec![header], written: 0 });
            }
            Event::PhaseStarted { phase, .. } => self.attempts.begin(run, phase)?,
            Event::Checkpointed(checkpoint) => {
                if self.shows_all || run.phases.len() <= PHASES_MAX {
                    self.changed.checkpoints.push(document(run, checkpoint, ts, store));
                }
            }
            // What was done again has its end ahead.
            Event::RolledBack { .. } => {
                self.completed.retain(|name| {
                    let at = run.position(name).and_then(|at| run.phases.get(at));
                    at.is_some_and(|state| state.status == PhaseStatus::Complete)
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
                self.add_step(phase, summary(phase, *attempt, done));
                self.attempts.end(run, phase, done, ts)?;
            }
            Event::Checked { phase, check, verdict, reason, .. } => {
                self.check_said(run, phase, check, verdict, reason);
            }
            Event::Held(_) => self.held(run)?,
            Event::Voted(_) => self.voted(run),
            Event::Ended { .. } => self.changed.end = true,
            Event::Begun {}
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
            | Event::RollbackBegun(_)
            | Event::Restarted { .. }
            | Event::CommitPrepared { .. }
            | Event::Noted { .. } => {}
        }
        if let Some(before) = before {
            self.follow(run, &before);
        }
        Ok(())
    }

    /// What a journal tells that no file can show.
    pub(super) fn unusable(&self, why: &dyn std::fmt::Display) -> EngineError {
        let trace_id = self.trace_id;
        EngineError::Packet {
            code: windlass_kernel::Code::PacketInvalid,
            path: format!("run {trace_id}"),
            what: format!("cannot be shown in files: {why}"),
        }
    }

    /// Sees what an event has made of its phase.
    fn follow(&mut self, run: &Run, before: &Before) {
        let Some((phase, state)) = run.phase(before.at) else { return };
        let complete =
            state.status == PhaseStatus::Complete && before.status != PhaseStatus::Complete;
        let mut said = Vec::new();
        let mut person_did = None;
        let mut waived_gate = false;
        if let Some(hold) = &before.hold {
            match hold.held.trigger {
                Trigger::EscalationRequested | Trigger::WaiverRequested => {
                    if let Some(judged) = &before.judged {
                        waived_gate = judged.judged_by == JudgedBy::Gate;
                        said.extend(waived(phase, judged, hold));
                    }
                }
                Trigger::PersonRequested => {
                    let done = state.done.as_ref();
                    person_did = done
                        .map(|done| (phase.id.clone(), summary(&phase.id, state.attempt, done)));
                }
                Trigger::BudgetExhausted
                | Trigger::CallApproval
                | Trigger::ConsensusRequested
                | Trigger::MergeConflict
                | Trigger::RestartRequested
                | Trigger::RolledBack
                | Trigger::UncertainEffect => {}
            }
        }
        if !waived_gate {
            said.extend(gate_said(phase, state, complete));
        }
        if complete {
            self.completed.push(phase.id.clone());
        }
        for one in said {
            self.said(one);
        }
        if let Some((phase, step)) = person_did {
            self.add_step(&phase, step);
        }
    }

    fn check_said(&mut self, run: &Run, phase: &str, check: &str, verdict: &str, reason: &str) {
        let planned = run.position(phase).and_then(|at| run.phase(at));
        let pass = planned
            .and_then(|(phase, _)| phase.checks.iter().find(|other| other.id == check))
            .and_then(|check| check.verdicts.get(verdict))
            == Some(&Effect::Continue);
        let (name, phase) = (check.to_owned(), phase.to_owned());
        self.said(GateResult { name, pass, phase, reason: because(verdict, reason) });
    }

    fn said(&mut self, said: GateResult) {
        if self.gates.len() == GATES_MAX {
            self.gates.remove(0);
        }
        self.gates.push(said);
    }

    fn add_step(&mut self, phase: &str, step: StepSummary) {
        let tries = self.steps.entry(phase.to_owned()).or_default();
        // What was left out and is done after all has left nothing to keep.
        if tries.last().is_some_and(|last| last.attempt.is_none()) {
            tries.pop();
        }
        tries.push(step);
        if !self.changed.steps.iter().any(|other| other == phase) {
            self.changed.steps.push(phase.to_owned());
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
            _ => format!("{index}-{}", earlier + 1).parse().map_err(|e| self.unusable(&e))?,
        };
        self.changed.holds.push(self.holds.len());
        self.holds.push(HoldView { id: identity.name.checkpoint(&step), hold });
        Ok(())
    }

    fn voted(&mut self, run: &Run) {
        let (Some(hold), Some(shown)) = (run.hold.clone(), self.holds.last_mut()) else {
            return;
        };
        shown.hold = hold;
        let last = self.holds.len().saturating_sub(1);
        if !self.changed.holds.contains(&last) {
            self.changed.holds.push(last);
        }
    }

    /// Puts the attempts into the ledger of which is known what follows from them.
    fn settle(&mut self, run: &Run, event: &Event, fates: Vec<Fate>) -> Result<(), EngineError> {
        let settled = self.attempts.settle(run, event, fates);
        let Some(identity) = &mut self.identity else { return Ok(()) };
        let mut failure = None;
        for attempt in settled {
            match identity.chain.add(&attempt) {
                Ok(line) => identity.lines.push(line),
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(()), |error| Err(self.unusable(&error)))
    }
}

fn before(run: &Run, event: &Event) -> Option<Before> {
    let (phase, hold) = if let Event::PhaseDone { phase, .. } | Event::Checked { phase, .. } = event
    {
        (phase, None)
    } else if matches!(event, Event::Resumed { .. }) {
        let hold = run.hold.as_ref()?;
        (&hold.held.phase, Some(hold.clone()))
    } else {
        return None;
    };
    let at = run.position(phase)?;
    let (_, state) = run.phase(at)?;
    Some(Before { at, status: state.status, judged: state.pending_verdict.clone(), hold })
}

/// What the gate of a phase has just said, if it has.
fn gate_said(phase: &Phase, state: &PhaseState, complete: bool) -> Option<GateResult> {
    let gate = phase.gate.as_ref()?;
    let refused =
        state.pending_verdict.as_ref().filter(|judged| judged.judged_by == JudgedBy::Gate);
    let reason = match (refused, complete) {
        (Some(judged), _) => because(&judged.verdict, &judged.reason),
        (None, true) => {
            let answer = state.done.as_ref().map(|done| &done.answer);
            let text =
                |key: &str| answer.and_then(|answer| answer.get(key)?.as_str()).unwrap_or_default();
            because(text("verdict"), text("reason"))
        }
        (None, false) => return None,
    };
    let (name, phase) = (gate.id.clone(), phase.id.clone());
    Some(GateResult { name, pass: refused.is_none(), phase, reason })
}

/// A judgement that people have let pass.
fn waived(phase: &Phase, judged: &PendingVerdict, hold: &Hold) -> Option<GateResult> {
    let name = match judged.judged_by {
        JudgedBy::Check(at) => phase.checks.get(at)?.id.clone(),
        JudgedBy::Gate => phase.gate.as_ref()?.id.clone(),
        // What failed is not let pass; it is tried again.
        JudgedBy::Failure => return None,
    };
    let people: Vec<String> =
        hold.votes.iter().map(|(vote, _)| format!("{}: {}", vote.by, vote.reason)).collect();
    let reason = shortened(&format!("let pass by {}", people.join("; ")));
    Some(GateResult { name, pass: true, phase: phase.id.clone(), reason })
}

fn summary(phase: &str, attempt: u32, done: &PhaseResult) -> StepSummary {
    let outcome = if done.failure.is_some() { StepOutcome::Failure } else { StepOutcome::Success };
    let text = match &done.failure {
        Some(failure) if done.summary.is_empty() => &failure.reason,
        Some(_) | None => &done.summary,
    };
    StepSummary {
        artifacts: super::attempts::capped(done.outputs.keys()),
        attempt: Some(attempt),
        duration_ms: done.duration_ms,
        outcome,
        step_name: phase.to_owned(),
        summary: Some(shortened(text)).filter(|text| !text.is_empty()),
    }
}

/// A verdict and its reason as one text.
fn because(verdict: &str, reason: &str) -> String {
    match (verdict, reason) {
        ("", reason) => shortened(reason),
        (verdict, "") => shortened(verdict),
        (verdict, reason) => shortened(&format!("{verdict}: {reason}")),
    }
}

/// The beginning of a text that may be too long for a file.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// When a run ended, or when it was last heard of.
pub(super) fn end_of(run: &Run) -> Timestamp {
    let ended = run.ended.as_ref().map(|ended| ended.at);
    ended.or(run.last_at).unwrap_or(Timestamp::EPOCH)
}
