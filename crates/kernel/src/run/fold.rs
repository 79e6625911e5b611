//! The fold: one recorded event more. It never decides; it refuses what cannot have happened.

use std::sync::Arc;

use serde_json::Value;
use thiserror::Error;

use super::event::{Change, Done, Event, Started, Usage};
use super::plan::Trigger;
use super::state::{
    Commit, Ended, Judged, Noted, PhaseState, PhaseStatus, Resolution, Run, Source, Stage,
};
use crate::{Code, Digest, Head, State, Timestamp};

/// A recorded event that cannot have happened where it stands.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("entry {sequence_number} says `{kind}`, which cannot be: {why}")]
pub struct RunError {
    /// The entry.
    pub sequence_number: u64,
    /// The event.
    pub kind: &'static str,
    /// Why not.
    pub why: String,
}

impl RunError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> Code {
        Code::StateRecoveryFailed
    }
}

impl Run {
    /// Adds one event whose entry, with its chain position `head`, has been checked.
    ///
    /// # Errors
    /// [`RunError`] when it cannot have happened; then nothing is changed that matters: the run
    /// must be given up.
    pub fn apply(
        &mut self,
        event: &Event,
        artifact_digest: Digest,
        ts: Timestamp,
        head: Head,
    ) -> Result<(), RunError> {
        let before = self.head.state;
        self.fold(event, artifact_digest, ts).map_err(|why| RunError {
            sequence_number: head.sequence_number,
            kind: event.kind(),
            why,
        })?;
        // Time on hold and time without a process are nobody's working time.
        let working = matches!(before, Some(State::Init | State::Running | State::Resumed))
            && !is_restart(event);
        if let (true, Some(last)) = (working, self.last_at) {
            let passed = u64::try_from(ts.unix_ms() - last.unix_ms()).unwrap_or_default();
            self.spent.wall_ms = self.spent.wall_ms.saturating_add(passed);
        }
        self.last_at = Some(ts);
        self.head = head;
        Ok(())
    }

    fn fold(&mut self, event: &Event, digest: Digest, ts: Timestamp) -> Result<(), String> {
        if self.started.is_none() != matches!(event, Event::Started(_)) {
            return Err("a run is started once, before all else".to_owned());
        }
        match event {
            Event::Started(started) => self.start(started, ts),
            Event::Begun {} | Event::Continued {} => Ok(()),
            Event::Noted { what, body } => {
                self.notes.push(Noted { what: *what, body: Arc::new(body.clone()), at: ts });
                Ok(())
            }
            Event::PhaseStarted { phase, attempt } => self.start_phase(phase, *attempt, ts),
            Event::PhaseSkipped { phase, .. } => {
                let state = self.in_status(phase, PhaseStatus::Pending)?;
                state.status = PhaseStatus::Skipped;
                Ok(())
            }
            Event::Checked { phase, attempt, check, verdict, reason, findings, usage, .. } => {
                self.spend(*usage);
                self.checked(phase, *attempt, check, verdict, reason, findings)
            }
            Event::InvocationStarted { phase, attempt, invocation, .. } => {
                if *invocation != self.invocations + 1 {
                    return Err(format!("invocation {invocation} is not the next one"));
                }
                self.trying(phase, *attempt)?.open_invocation = Some(*invocation);
                self.invocations = *invocation;
                Ok(())
            }
            Event::InvocationEnded { invocation, usage, .. } => {
                self.spend(*usage);
                let open = |phase: &&mut PhaseState| phase.open_invocation == Some(*invocation);
                let state = self.phases.iter_mut().find(open);
                state.ok_or("no such invocation is open")?.open_invocation = None;
                Ok(())
            }
            Event::PhaseDone { phase, attempt, done } => self.phase_done(phase, *attempt, done),
            Event::Waiting { phase, attempt, call, change, question } => {
                self.trying(phase, *attempt)?.waiting = Some((*call, question.clone()));
                self.see(change.as_ref());
                Ok(())
            }
            Event::SentBack { phase, source, to, fingerprint, .. } => {
                self.send_back(phase, source, to, *fingerprint)
            }
            Event::Warned { resource, .. } => {
                self.warned.insert(*resource);
                Ok(())
            }
            Event::Held(held) => self.put_on_hold(held, digest, ts),
            Event::Voted(vote) => {
                let hold = self.hold.as_mut().ok_or("the run is not on hold")?;
                if hold.resolution() != Resolution::Open {
                    return Err("the hold has been answered".to_owned());
                }
                if vote.shown != hold.shown {
                    return Err("the answer is to something else".to_owned());
                }
                if hold.votes.iter().any(|(other, _)| other.by == vote.by) {
                    return Err("the same person has answered before".to_owned());
                }
                hold.votes.push((vote.clone(), ts));
                Ok(())
            }
            Event::Resumed { .. } => self.resume(),
            Event::Restarted { .. } => {
                self.interrupted();
                Ok(())
            }
            Event::CommitPrepared { branch, commit, parent, tree } => {
                let [branch, commit, parent, tree] =
                    [branch, commit, parent, tree].map(Clone::clone);
                self.commit = Some(Commit { branch, commit, parent, tree });
                self.commit_at = Some(ts);
                Ok(())
            }
            Event::Ended { outcome, reason, detail } => {
                let (reason, detail) = (reason.clone(), detail.clone());
                self.ended = Some(Ended { outcome: *outcome, reason, detail, at: ts });
                Ok(())
            }
        }
    }

    fn start(&mut self, started: &Started, ts: Timestamp) -> Result<(), String> {
        for (at, phase) in started.plan.phases.iter().enumerate() {
            let mut needs = Vec::with_capacity(phase.needs.len());
            for need in &phase.needs {
                // INVARIANT: a plan's phases come after those they need.
                let need = self.index.get(need);
                needs.push(*need.ok_or_else(|| format!("phase `{}` comes too early", phase.id))?);
            }
            if self.index.insert(phase.id.clone(), at).is_some() {
                return Err(format!("two phases are called `{}`", phase.id));
            }
            self.needs.push(needs);
            self.phases.push(PhaseState::new());
        }
        self.started = Some(Arc::new(started.clone()));
        self.started_at = Some(ts);
        Ok(())
    }

    fn see(&mut self, change: Option<&Change>) {
        if let Some(change) = change {
            self.spent.changed_lines = change.lines;
            self.change = Some(change.clone());
        }
    }

    fn spend(&mut self, usage: Usage) {
        self.spent.tokens = self.spent.tokens.saturating_add(usage.tokens());
        self.spent.cost_micros = self.spent.cost_micros.saturating_add(usage.cost_micros);
        self.spent.unaccounted |= usage.unaccounted;
    }

    pub(super) fn state_of(&mut self, phase: &str) -> Result<(usize, &mut PhaseState), String> {
        let at = self.position(phase).ok_or_else(|| format!("there is no phase `{phase}`"))?;
        let state = self.phases.get_mut(at);
        Ok((at, state.ok_or_else(|| format!("there is no phase `{phase}`"))?))
    }

    fn in_status(&mut self, phase: &str, status: PhaseStatus) -> Result<&mut PhaseState, String> {
        let (_, state) = self.state_of(phase)?;
        if state.status != status {
            return Err(format!("phase `{phase}` is {}", state.status.as_str()));
        }
        Ok(state)
    }

    /// The state of a phase of which just this try is under way.
    pub(super) fn trying(&mut self, phase: &str, attempt: u32) -> Result<&mut PhaseState, String> {
        let state = self.in_status(phase, PhaseStatus::Running)?;
        if state.attempt != attempt {
            return Err(format!("try {attempt} of phase `{phase}` is not under way"));
        }
        Ok(state)
    }

    fn start_phase(&mut self, phase: &str, attempt: u32, ts: Timestamp) -> Result<(), String> {
        let (at, _) = self.state_of(phase)?;
        if !self.is_ready(at) {
            return Err(format!("phase `{phase}` is not ready"));
        }
        let state = self.in_status(phase, PhaseStatus::Pending)?;
        if attempt != state.attempt + 1 {
            return Err(format!("try {attempt} of phase `{phase}` is not the next one"));
        }
        state.status = PhaseStatus::Running;
        state.attempt = attempt;
        state.stage = Stage::Before(0);
        state.started_at = Some(ts);
        state.judged = None;
        state.done = None;
        self.advance(at);
        Ok(())
    }

    fn phase_done(&mut self, phase: &str, attempt: u32, done: &Done) -> Result<(), String> {
        let state = self.trying(phase, attempt)?;
        if state.stage != Stage::Work || state.judged.is_some() {
            return Err(format!("the work of phase `{phase}` is not under way"));
        }
        state.waiting = None;
        state.uncertain = false;
        state.findings = Value::Null;
        state.done = Some(Arc::new(done.clone()));
        state.stage = Stage::After(0);
        let (at, state) = self.state_of(phase)?;
        if let Some(failure) = &done.failure {
            state.status = PhaseStatus::Failed;
            state.judged = Some(Judged {
                source: Source::Failure,
                verdict: failure.class.clone(),
                reason: failure.reason.clone(),
                findings: done.answer.get("findings").cloned().unwrap_or(Value::Null),
            });
        }
        self.spend(done.usage);
        self.see(done.change.as_ref());
        self.facts.extend(done.facts.clone());
        self.advance(at);
        Ok(())
    }

    /// Whether all that a phase needs is there.
    pub(super) fn is_ready(&self, at: usize) -> bool {
        let settled = |at: &usize| self.phases.get(*at).is_some_and(PhaseState::settled);
        let needs = self.needs.get(at).map(Vec::as_slice).unwrap_or_default();
        let after = self.phases.get(at).and_then(|state| state.after);
        needs.iter().all(settled) && after.iter().all(settled)
    }
}

/// Whether the event follows the death of a process.
fn is_restart(event: &Event) -> bool {
    matches!(event, Event::Restarted { .. })
        || matches!(event, Event::Held(held) if held.trigger == Trigger::RestartRequested)
}
