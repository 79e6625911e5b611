//! The attempts of a run in the ledger: one for each attempt of a phase by an agent, a program or a
//! builtin.
//!
//! The line of an attempt contains its next action, so it is written with the first event that
//! determines it. For the attempt that it concerns, `SentBack` means `retry`, `Held` means `escalate`, or
//! `waiver` if a rule is to be waived, and `Ended` means `terminate` if it is the last. A rollback means `retry`
//! for all of them. Otherwise the run goes on: `continue` after a success, `retry` after a failure.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_engine::EngineError;
use windlass_formats::{Attempt, AttemptResult, FailureClass, NextAction, TerminalReason};
use windlass_journal::JournalError;
use windlass_kernel::run::plan::{RunOutcome, Trigger};
use windlass_kernel::run::{Event, JudgedBy, PhaseResult, PhaseState, PhaseStatus, Run};
use windlass_kernel::{Digest, Timestamp, canon};

use super::run_view::shortened;

/// The maximum size of a list of names in a file.
const LIST_BYTES_MAX: usize = 200 << 10;
/// The maximum number of calls that are listed as evidence; the first are listed.
const CALLS_MAX: usize = 1000;

/// The attempts of a run that are running, or whose next action is not known yet.
#[derive(Default)]
pub(super) struct Attempts {
    /// The digest of the input of each phase's newest attempt.
    inputs: BTreeMap<String, Digest>,
    /// A rolling digest of all answers so far: its cost per attempt is constant.
    answers: Option<Digest>,
    /// The ended attempts whose next action is not known, in order.
    open: Vec<OpenAttempt>,
}

struct OpenAttempt {
    phase: String,
    /// The next action is filled in later.
    attempt: Attempt,
}

/// The state of an open attempt's phase just before an event.
pub(super) struct PhaseSnapshot {
    status: PhaseStatus,
    judged_by: Option<JudgedBy>,
}

impl Attempts {
    /// Starts an attempt: its input is the task, the findings and the answers so far.
    pub(super) fn begin(&mut self, run: &Run, phase: &str) -> Result<(), EngineError> {
        let state = run.position(phase).and_then(|position| run.phases.get(position));
        let findings = state.map_or(&Value::Null, |state| &state.findings);
        let task = run.started.as_ref().map_or(&Value::Null, |started| &started.task);
        let input = json!({ "task": task, "findings": findings, "answers": self.answers });
        self.inputs.insert(phase.to_owned(), digest(run, &input)?);
        Ok(())
    }

    /// Ends an attempt.
    pub(super) fn end(
        &mut self,
        run: &Run,
        phase: &str,
        done: &PhaseResult,
        ts: Timestamp,
    ) -> Result<(), EngineError> {
        let answer = digest(run, &done.answer)?;
        let answers = json!({ "before": self.answers, "phase": phase, "answer": answer });
        self.answers = Some(digest(run, &answers)?);
        let input = self.inputs.get(phase).copied();
        let calls = done.calls.iter().take(CALLS_MAX).zip(1_u32..);
        let mut evidence: BTreeMap<String, Digest> =
            calls.map(|(call, number)| (format!("call_{number}"), call.entry_digest)).collect();
        evidence.insert("answer".to_owned(), answer);
        let change = done.change.as_ref().filter(|change| !change.files.is_empty());
        let attempt = Attempt {
            timestamp: ts.into(),
            input_hash: input.unwrap_or(answer),
            actions_taken: capped(done.calls.iter().map(|call| &call.tool)),
            diff_hash: change.map(|change| change.diff_digest),
            changed_files: capped(change.iter().flat_map(|change| &change.files)),
            evidence_hashes: evidence,
            result: match &done.failure {
                Some(failure) => AttemptResult::Failure(class(&failure.class)),
                None => AttemptResult::Success,
            },
            terminal_reason: None,
            next_action: NextAction::Retry,
            rationale: String::new(),
        };
        self.open.push(OpenAttempt { phase: phase.to_owned(), attempt });
        Ok(())
    }

    /// Captures the phases of open attempts before an event that may determine their next action.
    pub(super) fn snapshots(&self, run: &Run, event: &Event) -> Vec<PhaseSnapshot> {
        if consequence(event).is_none() {
            return Vec::new();
        }
        let snapshot = |open: &OpenAttempt| {
            let state = run.position(&open.phase).and_then(|position| run.phases.get(position));
            PhaseSnapshot {
                status: state.map_or(PhaseStatus::Pending, |state| state.status),
                judged_by: state
                    .and_then(|state| state.pending_verdict.as_ref())
                    .map(|pending| pending.judged_by),
            }
        };
        self.open.iter().map(snapshot).collect()
    }

    /// Removes and returns the attempts whose next action an event, already folded, determines.
    pub(super) fn complete(
        &mut self,
        run: &Run,
        event: &Event,
        snapshots: Vec<PhaseSnapshot>,
    ) -> Vec<Attempt> {
        let Some((subject, action, rationale)) = consequence(event) else { return Vec::new() };
        let ends = matches!(event, Event::Ended { .. });
        let is_rollback = matches!(event, Event::RolledBack { .. });
        let concerns_all = ends || is_rollback;
        let mut completed = Vec::new();
        let mut still_open = Vec::new();
        for (open, snapshot) in std::mem::take(&mut self.open).into_iter().zip(snapshots) {
            let state = run.position(&open.phase).and_then(|position| run.phases.get(position));
            let reset = state.is_some_and(is_reset);
            let concerns = concerns_all
                || snapshot.status == PhaseStatus::Complete
                || reset
                || subject == Some(open.phase.as_str());
            if !concerns {
                still_open.push(open);
                continue;
            }
            let mut attempt = open.attempt;
            attempt.rationale.clone_from(&rationale);
            attempt.result = judged_result(attempt.result, snapshot.judged_by);
            let is_subject = subject == Some(open.phase.as_str());
            attempt.next_action = match attempt.result {
                _ if is_subject || is_rollback => action,
                AttemptResult::Success if !reset => NextAction::Continue,
                AttemptResult::Success | AttemptResult::Failure(_) => NextAction::Retry,
            };
            completed.push(attempt);
        }
        self.open = still_open;
        // A run ends with its last attempt.
        if let (Some(last), Event::Ended { outcome, reason, .. }) = (completed.last_mut(), event) {
            last.next_action = NextAction::Terminate;
            last.terminal_reason = Some(terminal_reason(*outcome, reason));
        }
        completed
    }
}

/// Whether a phase was reset.
fn is_reset(state: &PhaseState) -> bool {
    state.status == PhaseStatus::Pending
}

/// The phase of the event, the next action and its rationale; `None` if the event determines no action.
fn consequence(event: &Event) -> Option<(Option<&str>, NextAction, String)> {
    match event {
        Event::PhaseStarted { phase, .. } => {
            Some((None, NextAction::Retry, format!("the run goes on with `{phase}`")))
        }
        Event::PhaseSkipped { phase, .. } => {
            Some((None, NextAction::Retry, format!("the run goes on after `{phase}`")))
        }
        Event::SentBack { phase, source, verdict, to, .. } => {
            let why =
                format!("`{source}` of `{phase}` said `{verdict}`: the run goes back to `{to}`");
            Some((Some(phase), NextAction::Retry, shortened(&why)))
        }
        Event::Held(held) => {
            let action = match held.trigger {
                Trigger::WaiverRequested => NextAction::Waiver,
                Trigger::AgentUnavailable
                | Trigger::BudgetExhausted
                | Trigger::CallApproval
                | Trigger::ConsensusRequested
                | Trigger::EscalationRequested
                | Trigger::MergeConflict
                | Trigger::PersonRequested
                | Trigger::RestartRequested
                | Trigger::RolledBack
                | Trigger::SetupFailed
                | Trigger::UncertainEffect => NextAction::Escalate,
            };
            let why = format!("a person is asked: {}", held.question);
            Some((Some(&held.phase), action, shortened(&why)))
        }
        Event::RolledBack { .. } => {
            Some((None, NextAction::Retry, "the run was rolled back".to_owned()))
        }
        Event::Ended { outcome, reason, detail } => {
            let mut why = format!("the run ends {}: {reason}", outcome.as_str());
            if !detail.is_empty() {
                why = format!("{why}: {detail}");
            }
            Some((None, NextAction::Terminate, shortened(&why)))
        }
        Event::Started(_)
        | Event::Begun {}
        | Event::Setup(_)
        | Event::Integration(_)
        | Event::Checked { .. }
        | Event::InvocationStarted { .. }
        | Event::InvocationEnded { .. }
        | Event::PhaseDone { .. }
        | Event::Waiting { .. }
        | Event::Warned { .. }
        | Event::Voted(_)
        | Event::Revoked(_)
        | Event::Resumed { .. }
        | Event::Continued {}
        | Event::Reviewed { .. }
        | Event::Checkpointed(_)
        | Event::MergePrepared { .. }
        | Event::Merged { .. }
        | Event::Conflicted { .. }
        | Event::RollbackBegun(_)
        | Event::Restarted { .. }
        | Event::CommitPrepared { .. }
        | Event::Noted { .. } => None,
    }
}

/// Successful work that a gate or a check rejected counts as failed.
fn judged_result(result: AttemptResult, judged_by: Option<JudgedBy>) -> AttemptResult {
    match (result, judged_by) {
        (AttemptResult::Success, Some(JudgedBy::Gate)) => {
            AttemptResult::Failure(FailureClass::ReviewRejection)
        }
        (AttemptResult::Success, Some(JudgedBy::Check(_))) => {
            AttemptResult::Failure(FailureClass::ValidationError)
        }
        (result, _) => result,
    }
}

/// The name of a failure class in the ledger.
fn class(class: &str) -> FailureClass {
    class.parse().unwrap_or(FailureClass::Unknown)
}

/// The name of the reason of an end in the ledger.
fn terminal_reason(outcome: RunOutcome, reason: &str) -> TerminalReason {
    match reason.to_lowercase().as_str() {
        "checkpoint_expired" => TerminalReason::CheckpointRejected,
        "terminated" => TerminalReason::CriticalFailure,
        reason => reason.parse().unwrap_or(match outcome {
            RunOutcome::Pass => TerminalReason::Pass,
            RunOutcome::Blocked | RunOutcome::EscalationRequested | RunOutcome::WaiverRequested => {
                TerminalReason::MissionFailed
            }
        }),
    }
}

fn digest(run: &Run, value: &Value) -> Result<Digest, EngineError> {
    let trace_id = run.head.trace_id;
    canon::digest(value)
        .map_err(|source| EngineError::Journal(JournalError::NotCanonical { trace_id, source }))
}

/// Limits the size of a list; the last item then says how many items are left out.
pub(super) fn capped<'a>(items: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let mut items = items.into_iter();
    let mut list = Vec::new();
    let mut bytes = 0_usize;
    while let Some(item) = items.next() {
        bytes = bytes.saturating_add(item.len()).saturating_add(8);
        if bytes > LIST_BYTES_MAX {
            list.push(format!("… and {} more", items.count() + 1));
            break;
        }
        list.push(item.clone());
    }
    list
}
