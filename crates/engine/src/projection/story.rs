//! What a run's journal tells for its files: the fold, and what the fold forgets.

use std::collections::BTreeMap;

use windlass_formats::{
    CheckpointId, GateResult, LedgerChain, RunName, StepKey, StepOutcome, StepSummary,
};
use windlass_kernel::run::plan::{Effect, Phase, Trigger};
use windlass_kernel::run::{Done, Event, Hold, Judged, PhaseState, PhaseStatus, Run, Source};
use windlass_kernel::{Timestamp, TraceId};
use windlass_store::{Record, Store};

use super::attempts::{Attempts, Fate};
use super::kept::PHASES_MAX;
use crate::book::{PAGE, fold, open_record};
use crate::checkpoint::{Document, document};
use crate::error::EngineError;

/// The longest text that is taken over into a file, in characters.
const TEXT_CHARS_MAX: usize = 1000;
/// The most judgements that a terminal packet shows: the newest.
const GATES_MAX: usize = 1000;

/// A run as far as it was read.
pub(super) struct Story {
    pub(super) run: Run,
    /// The run's name and its lines in the ledger; none before it has started.
    pub(super) identity: Option<Identity>,
    /// Its holds, in order.
    pub(super) holds: Vec<HoldStory>,
    /// What its phases did, try by try.
    pub(super) steps: BTreeMap<String, Vec<StepSummary>>,
    /// The phases that were completed, in order.
    pub(super) completed: Vec<String>,
    /// What gates and checks said, in order.
    pub(super) gates: Vec<GateResult>,
    attempts: Attempts,
    /// Whether every checkpoint is told, however large the run is.
    tells_all: bool,
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
pub(super) struct HoldStory {
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
    judged: Option<Judged>,
    /// The hold that is taken up.
    hold: Option<Hold>,
}

impl Story {
    pub(super) fn new(trace_id: TraceId) -> Self {
        Self {
            run: Run::empty(trace_id),
            identity: None,
            holds: Vec::new(),
            steps: BTreeMap::new(),
            completed: Vec::new(),
            gates: Vec::new(),
            attempts: Attempts::default(),
            tells_all: false,
            changed: Changed::default(),
        }
    }

    /// Reads what has been recorded since.
    pub(super) fn catch_up(&mut self, store: &dyn Store) -> Result<(), EngineError> {
        let trace_id = self.run.head.trace_id;
        let mut buffer = Vec::with_capacity(1024);
        loop {
            let page = store.list_log_entries(trace_id, self.run.head.sequence_number, PAGE)?;
            for record in &page {
                self.add(record, &mut buffer, store)?;
            }
            if page.len() < PAGE {
                return Ok(());
            }
        }
    }

    /// Has every checkpoint told, however large the run is.
    pub(super) const fn tell_all(&mut self) {
        self.tells_all = true;
    }

    fn add(
        &mut self,
        record: &Record,
        buffer: &mut Vec<u8>,
        store: &dyn Store,
    ) -> Result<(), EngineError> {
        let (event, head) = open_record(&self.run, record, buffer)?;
        let before = self.before(&event);
        let fates = self.attempts.fates(&self.run, &event);
        fold(&mut self.run, record, &event, head)?;
        self.settle(&event, fates)?;
        let ts = record.entry.ts;
        match &event {
            Event::Started(started) => {
                let name: RunName =
                    started.run_id.parse().map_err(|error| self.unusable(&error))?;
                let begun = LedgerChain::begin(&name, started.policy_hash);
                let (chain, header) = begun.map_err(|error| self.unusable(&error))?;
                self.identity = Some(Identity { name, chain, lines: vec![header], written: 0 });
            }
            Event::PhaseStarted { phase, .. } => self.attempts.begin(&self.run, phase)?,
            Event::Checkpointed(checkpoint) => {
                if self.tells_all || self.run.phases.len() <= PHASES_MAX {
                    let told = document(&self.run, checkpoint, ts, store);
                    self.changed.checkpoints.push(told);
                }
            }
            // What was done again has its end ahead.
            Event::RolledBack { .. } => {
                let run = &self.run;
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
                self.attempts.end(&self.run, phase, done, ts)?;
            }
            Event::Checked { phase, check, verdict, reason, .. } => {
                self.check_said(phase, check, verdict, reason);
            }
            Event::Held(_) => self.held()?,
            Event::Voted(_) => self.voted(),
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
            self.follow(&before);
        }
        Ok(())
    }

    /// What a journal tells that no file can show.
    pub(super) fn unusable(&self, why: &dyn std::fmt::Display) -> EngineError {
        let trace_id = self.run.head.trace_id;
        EngineError::Packet {
            code: windlass_kernel::Code::PacketInvalid,
            path: format!("run {trace_id}"),
            what: format!("cannot be shown in files: {why}"),
        }
    }

    fn before(&self, event: &Event) -> Option<Before> {
        let (phase, hold) =
            if let Event::PhaseDone { phase, .. } | Event::Checked { phase, .. } = event {
                (phase, None)
            } else if matches!(event, Event::Resumed { .. }) {
                let hold = self.run.hold.as_ref()?;
                (&hold.held.phase, Some(hold.clone()))
            } else {
                return None;
            };
        let at = self.run.position(phase)?;
        let (_, state) = self.run.phase(at)?;
        Some(Before { at, status: state.status, judged: state.judged.clone(), hold })
    }

    /// Sees what an event has made of its phase.
    fn follow(&mut self, before: &Before) {
        let Some((phase, state)) = self.run.phase(before.at) else { return };
        let complete =
            state.status == PhaseStatus::Complete && before.status != PhaseStatus::Complete;
        let mut said = Vec::new();
        let mut person_did = None;
        let mut waived_gate = false;
        if let Some(hold) = &before.hold {
            match hold.held.trigger {
                Trigger::EscalationRequested | Trigger::WaiverRequested => {
                    if let Some(judged) = &before.judged {
                        waived_gate = judged.source == Source::Gate;
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

    fn check_said(&mut self, phase: &str, check: &str, verdict: &str, reason: &str) {
        let planned = self.run.position(phase).and_then(|at| self.run.phase(at));
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

    fn held(&mut self) -> Result<(), EngineError> {
        let (Some(hold), Some(identity)) = (self.run.hold.clone(), &self.identity) else {
            return Ok(());
        };
        let index = hold.held.step_index;
        let earlier = self.holds.iter().filter(|other| other.hold.held.step_index == index).count();
        let step = match earlier {
            0 => StepKey::index(index),
            _ => format!("{index}-{}", earlier + 1).parse().map_err(|e| self.unusable(&e))?,
        };
        self.changed.holds.push(self.holds.len());
        self.holds.push(HoldStory { id: identity.name.checkpoint(&step), hold });
        Ok(())
    }

    fn voted(&mut self) {
        let (Some(hold), Some(shown)) = (self.run.hold.clone(), self.holds.last_mut()) else {
            return;
        };
        shown.hold = hold;
        let last = self.holds.len().saturating_sub(1);
        if !self.changed.holds.contains(&last) {
            self.changed.holds.push(last);
        }
    }

    /// Puts the attempts into the ledger of which is known what follows from them.
    fn settle(&mut self, event: &Event, fates: Vec<Fate>) -> Result<(), EngineError> {
        let settled = self.attempts.settle(&self.run, event, fates);
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

/// What the gate of a phase has just said, if it has.
fn gate_said(phase: &Phase, state: &PhaseState, complete: bool) -> Option<GateResult> {
    let gate = phase.gate.as_ref()?;
    let refused = state.judged.as_ref().filter(|judged| judged.source == Source::Gate);
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
fn waived(phase: &Phase, judged: &Judged, hold: &Hold) -> Option<GateResult> {
    let name = match judged.source {
        Source::Check(at) => phase.checks.get(at)?.id.clone(),
        Source::Gate => phase.gate.as_ref()?.id.clone(),
        // What failed is not let pass; it is tried again.
        Source::Failure => return None,
    };
    let people: Vec<String> =
        hold.votes.iter().map(|(vote, _)| format!("{}: {}", vote.by, vote.reason)).collect();
    let reason = shortened(&format!("let pass by {}", people.join("; ")));
    Some(GateResult { name, pass: true, phase: phase.id.clone(), reason })
}

fn summary(phase: &str, attempt: u32, done: &Done) -> StepSummary {
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
