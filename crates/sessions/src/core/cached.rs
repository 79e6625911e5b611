//! The state of the core loop beside the journal, so that each event need not fold the whole session.
//!
//! It names the entry that it follows from. If that is not the last one, everything is folded again: nothing depends on
//! this file that the journal does not have.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use windlass_journal::{Check, JournalError, Reader};
use windlass_kernel::run::{Event, NoteKind, Run};
use windlass_kernel::{Digest, RiskLevel, Timestamp, TraceId};
use windlass_store::Store;

use super::judge::Judge;
use super::note::CoreNote;
use super::settings::CoreSettings;
use super::state::CoreState;
use crate::history::{SessionHistory, requested_at};
use crate::note::SessionNote;

/// The state of the core loop, and the entry that it follows from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreProgress {
    /// The digest of the run's last entry.
    pub head: Digest,
    /// The state.
    pub state: CoreState,
    /// What is counted.
    pub counters: Counters,
}

/// What is counted between notes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Counters {
    /// The uses of tools.
    pub uses: u64,
    /// Those since the last audit was begun.
    pub uses_since_audit: u32,
    /// Whether an audit is due.
    pub audit_due: bool,
    /// Whether anything was written since the work was last verified.
    pub wrote: bool,
    /// Whether anything was written since the session was last reflected on.
    pub worked: bool,
    /// Whether anything was written since work was last closed.
    pub unclosed: bool,
    /// The gate that refused last, and how often in a row.
    pub refusals: (String, u32),
}

impl CoreProgress {
    /// Folds a session.
    ///
    /// # Errors
    /// [`JournalError`] if it cannot be read.
    pub fn fold(
        store: &dyn Store,
        run: TraceId,
        head: Digest,
        settings: &CoreSettings,
    ) -> Result<Self, JournalError> {
        let history = SessionHistory::read(store, run)?;
        let mut folded = Self { head, state: CoreState::default(), counters: Counters::default() };
        let mut changed_at = None;
        for (at, note) in &history.notes {
            let SessionNote::Core(note) = note else { continue };
            folded.state.apply(*at, note, settings.revisions_max);
            match note {
                CoreNote::WorkChanged { .. } => changed_at = Some(*at),
                CoreNote::JudgeStarted { judge: Judge::Custodiet, .. } => {
                    folded.counters.audit_due = false;
                }
                // An audit that says nothing is none.
                CoreNote::AnswerRefused { judge: Judge::Custodiet, .. } => {
                    folded.counters.audit_due = true;
                }
                CoreNote::PromptTaken { .. }
                | CoreNote::JudgeStarted { .. }
                | CoreNote::JudgeLaunched { .. }
                | CoreNote::AnswerRefused { .. }
                | CoreNote::Planned { .. }
                | CoreNote::Criticised { .. }
                | CoreNote::Audited { .. }
                | CoreNote::Verified { .. }
                | CoreNote::Reflected { .. }
                | CoreNote::Step { .. }
                | CoreNote::SkillUsed { .. }
                | CoreNote::Began { .. }
                | CoreNote::BlockCleared { .. }
                | CoreNote::StopRefused { .. }
                | CoreNote::Delivered { .. }
                | CoreNote::InsightsWritten { .. }
                | CoreNote::TranscriptWritten { .. }
                | CoreNote::Closing(_)
                | CoreNote::Closed { .. }
                | CoreNote::Unclosed { .. } => {}
            }
        }
        // A line of shell that only read is counted as a write here: it cannot be told any more.
        let is_after =
            |at: Timestamp, since: Option<Timestamp>| since.is_none_or(|since| at > since);
        if let Some(at) = changed_at {
            folded.counters.wrote |= is_after(at, folded.state.verified_at);
            folded.counters.worked |= is_after(at, folded.state.reflected_at);
            folded.counters.unclosed |= is_after(at, folded.state.closed_at);
        }
        for call in &history.calls {
            let Some(at) = requested_at(call) else { continue };
            let Some((request, _)) = &call.request else { continue };
            if request.agent.as_deref().is_some_and(is_judge) {
                continue;
            }
            folded.counters.uses = folded.counters.uses.saturating_add(1);
            if is_after(at, folded.state.audited_at) {
                folded.count_use(settings, run);
            }
            let started = call.tool_call.is_some();
            if started && request.risk_level != RiskLevel::Read {
                folded.counters.wrote |= is_after(at, folded.state.verified_at);
                folded.counters.worked |= is_after(at, folded.state.reflected_at);
                folded.counters.unclosed |= is_after(at, folded.state.closed_at);
            }
        }
        Ok(folded)
    }

    /// Whether nothing but decisions of people was recorded since this state: it follows from the last entry, too.
    ///
    /// # Errors
    /// [`JournalError`] if the run cannot be read.
    pub fn still_follows(&self, store: &dyn Store, run: TraceId) -> Result<bool, JournalError> {
        let (mut is_seen, mut is_same) = (false, true);
        let mut reader = Reader::<Run>::new(run, Check::Prefix);
        reader.for_each(store, &mut |step| {
            if is_seen {
                is_same &= is_decision(&step.artifact.event);
            }
            is_seen |= step.state.head.entry_digest == self.head;
            if is_same { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(is_seen && is_same)
    }

    /// Changes the state by a note that was recorded.
    pub fn apply(&mut self, at: Timestamp, note: &CoreNote, settings: &CoreSettings) {
        self.state.apply(at, note, settings.revisions_max);
        match note {
            CoreNote::PromptTaken { .. } => self.counters.refusals = Default::default(),
            // Or the audit that clears the way would wait for itself.
            CoreNote::JudgeStarted { judge: Judge::Custodiet, .. } => {
                self.counters.uses_since_audit = 0;
                self.counters.audit_due = false;
            }
            CoreNote::Verified { verdict, .. } if verdict == "VERIFIED" => {
                self.counters.wrote = false;
            }
            CoreNote::WorkChanged { .. } => self.count_write(),
            CoreNote::Reflected { .. } => self.counters.worked = false,
            CoreNote::Closed { .. } => self.counters.unclosed = false,
            // An audit that says nothing is none.
            CoreNote::AnswerRefused { judge: Judge::Custodiet, .. } => {
                self.counters.audit_due = true;
            }
            CoreNote::JudgeStarted { .. }
            | CoreNote::JudgeLaunched { .. }
            | CoreNote::AnswerRefused { .. }
            | CoreNote::Planned { .. }
            | CoreNote::Criticised { .. }
            | CoreNote::Audited { .. }
            | CoreNote::Verified { .. }
            | CoreNote::Step { .. }
            | CoreNote::SkillUsed { .. }
            | CoreNote::Began { .. }
            | CoreNote::BlockCleared { .. }
            | CoreNote::StopRefused { .. }
            | CoreNote::Delivered { .. }
            | CoreNote::InsightsWritten { .. }
            | CoreNote::TranscriptWritten { .. }
            | CoreNote::Closing(_)
            | CoreNote::Unclosed { .. } => {}
        }
    }

    /// Counts a use of a tool, which may make an audit due.
    pub fn count_use(&mut self, settings: &CoreSettings, run: TraceId) {
        let counters = &mut self.counters;
        counters.uses_since_audit = counters.uses_since_audit.saturating_add(1);
        let is_full = settings.audit_every > 0 && counters.uses_since_audit >= settings.audit_every;
        if is_full || is_drawn(settings, run, counters.uses) {
            counters.audit_due = true;
        }
    }

    /// Counts that a use of a tool may write.
    pub const fn count_write(&mut self) {
        self.counters.wrote = true;
        self.counters.worked = true;
        self.counters.unclosed = true;
    }

    /// Counts a refusal by a gate; returns how often in a row it has refused.
    pub fn count_refusal(&mut self, gate: &str) -> u32 {
        let (last, times) = &mut self.counters.refusals;
        if last == gate {
            *times = times.saturating_add(1);
        } else {
            gate.clone_into(last);
            *times = 1;
        }
        *times
    }
}

/// Whether an event is about the hold of a session, and says nothing of its loop.
const fn is_decision(event: &Event) -> bool {
    match event {
        Event::Held(_)
        | Event::Voted(_)
        | Event::Revoked(_)
        | Event::Resumed { .. }
        | Event::Continued {}
        | Event::Noted { what: NoteKind::Refusal, .. } => true,
        Event::Noted { .. }
        | Event::Started(_)
        | Event::Begun {}
        | Event::Setup(_)
        | Event::Integration(_)
        | Event::PhaseStarted { .. }
        | Event::PhaseSkipped { .. }
        | Event::Checked { .. }
        | Event::InvocationStarted { .. }
        | Event::InvocationEnded { .. }
        | Event::PhaseDone { .. }
        | Event::Reviewed { .. }
        | Event::Checkpointed(_)
        | Event::MergePrepared { .. }
        | Event::Merged { .. }
        | Event::Conflicted { .. }
        | Event::RollbackBegun(_)
        | Event::RolledBack { .. }
        | Event::Waiting { .. }
        | Event::SentBack { .. }
        | Event::Warned { .. }
        | Event::Restarted { .. }
        | Event::CommitPrepared { .. }
        | Event::Ended { .. } => false,
    }
}

/// Whether a use of a tool is drawn for an audit: always the same for the same seed, session and number.
fn is_drawn(settings: &CoreSettings, run: TraceId, number: u64) -> bool {
    let text = format!("{}/{run}/{number}", settings.audit_seed);
    let digest = Digest::of(text.as_bytes());
    let drawn =
        digest.as_bytes().iter().take(4).fold(0_u32, |all, byte| (all << 8) | u32::from(*byte));
    drawn % 100 < settings.audit_chance_percent.min(100)
}

/// Whether an agent, as it is recorded of calls, is a judge.
pub(super) fn is_judge(agent: &str) -> bool {
    agent.split_once('/').is_some_and(|(_, kind)| Judge::named(kind).is_some())
}
