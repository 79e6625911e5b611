//! The hold packets and the terminal packet of a run.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use windlass_engine::EngineError;
use windlass_formats::{
    Approval, Decision, HoldPacket, Outcome, PacketError, PhaseStatus, Resolution, RunStatus,
    StepKey, TerminalPacket,
};
use windlass_kernel::canon;
use windlass_kernel::run::plan::{Requirement, RunOutcome};
use windlass_kernel::run::{self, Change, Hold, MeasuringFiles, Run, Started, Vote};

use super::run_view::{HoldView, RunView, end_of};

/// The most of a run's end that its packet tells; the journal has the whole.
const DETAIL_CHARS_MAX: usize = 2000;

impl RunView {
    /// The bytes of a hold's packet after its first `votes` answers.
    pub(super) fn hold_packet(
        &self,
        run: &Run,
        view: &HoldView,
        votes: usize,
    ) -> Result<Vec<u8>, EngineError> {
        let Some(started) = run.started.as_deref() else {
            return Err(self.invalid(&"it has not started"));
        };
        let mut hold = view.hold.clone();
        hold.votes.truncate(votes);
        let mut packet = HoldPacket {
            checkpoint_id: view.id.clone(),
            timestamp: hold.since.into(),
            trigger: hold.held.trigger.as_str().to_owned(),
            step_index: hold.held.step_index,
            policy_hash: started.policy_hash,
            task_spec: task_spec(started),
            resolution: resolution(&hold),
            step_name: Some(hold.held.phase.clone()),
            shown_digest: Some(hold.shown),
            expires_at: hold.held.expires_at.map(Into::into),
            approvals_needed: Some(hold.held.approvals).filter(|needed| *needed > 1),
            approvals: approvals(&hold),
            changed_tests_and_scripts: measuring(hold.held.change.as_ref()),
            call: hold.held.call.and(hold.held.evidence.as_object().cloned()),
        };
        match packet.to_bytes() {
            Err(PacketError::TooLarge { .. } | PacketError::Unwritable(_)) => {}
            written => return written.map_err(|error| self.invalid(&error)),
        }
        // The journal has the whole task; its digest still identifies it.
        let digest = canon::digest(&started.task).map_err(|error| self.invalid(&error))?;
        packet.task_spec = Map::from_iter([("task_digest".to_owned(), json!(digest))]);
        match packet.to_bytes() {
            Err(PacketError::TooLarge { .. } | PacketError::Unwritable(_)) => {}
            written => return written.map_err(|error| self.invalid(&error)),
        }
        // So does the digest of the call's trace.
        let call = hold.held.call.map(|call| json!(call));
        packet.call = call.map(|call| Map::from_iter([("trace_id".to_owned(), call)]));
        packet.to_bytes().map_err(|error| self.invalid(&error))
    }

    /// The bytes of the terminal packet of a run that has ended.
    pub(super) fn terminal_packet(&self, run: &Run) -> Result<Option<Vec<u8>>, EngineError> {
        let (Some(ended), Some(started), Some(identity)) =
            (&run.ended, run.started.as_deref(), &self.identity)
        else {
            return Ok(None);
        };
        let passed = ended.outcome == RunOutcome::Pass;
        let mut phase_outcomes = BTreeMap::new();
        for (phase, state) in run.all_phases() {
            let key: StepKey = phase.id.parse().map_err(|error| self.invalid(&error))?;
            // The run has ended, so nothing is under way any more: a phase whose gate let nothing pass has done
            // its work.
            let is_open = state.status == run::PhaseStatus::Running;
            let is_done = state.done.as_ref().is_some_and(|done| done.failure.is_none());
            let reached = match (is_open, is_done) {
                (true, true) => PhaseStatus::Complete,
                (true, false) => PhaseStatus::Failed,
                (false, _) => status(state.status),
            };
            phase_outcomes.insert(key, reached);
        }
        let requires_clean = started.plan.require.contains(&Requirement::CleanRepo);
        let commit = run.newest_commit().filter(|_| passed);
        let end = end_of(run).into();
        let packet = TerminalPacket {
            steps_executed: self.completed.clone(),
            // The prepared commit of a failed run may not be part of any branch.
            commit_hash: commit.map(str::to_owned),
            status: Some(if passed { RunStatus::Success } else { RunStatus::CleanFail }),
            start_ts: run.started_at.map(Into::into),
            end_ts: Some(end),
            task_ref: started.task.get("task_ref").and_then(Value::as_str).map(str::to_owned),
            policy_hash: Some(started.policy_hash),
            phase_outcomes,
            gate_results: self.gates.clone(),
            repo_clean_verified: requires_clean.then_some(true),
            tokens_consumed: Some(run.spent.tokens),
            token_accounting_complete: Some(!run.spent.unaccounted),
            ledger_chain_tip: Some(identity.chain.tip()),
            ledger_attempt_count: Some(identity.chain.attempts()),
            changed_tests_and_scripts: measuring(run.change.as_ref()),
            detail: (!ended.detail.is_empty())
                .then(|| ended.detail.chars().take(DETAIL_CHARS_MAX).collect()),
            ..TerminalPacket::new(identity.name.clone(), end, outcome(ended.outcome), &ended.reason)
        };
        Some(packet.to_bytes().map_err(|error| self.invalid(&error))).transpose()
    }
}

/// The changed files that decide what gates measure.
fn measuring(change: Option<&Change>) -> Vec<String> {
    change.map(|change| MeasuringFiles::of(&change.files).lines()).unwrap_or_default()
}

fn task_spec(started: &Started) -> Map<String, Value> {
    match &started.task {
        Value::Object(task) => task.clone(),
        task @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)) => Map::from_iter([("task".to_owned(), task.clone())]),
    }
}

/// The resolution of a hold, with the person whose answer decided it.
fn resolution(hold: &Hold) -> Option<Resolution> {
    let (decision, kind) = match hold.resolution() {
        run::Resolution::Open => return None,
        run::Resolution::Approved => (Decision::Approved, run::VoteDecision::Approved),
        run::Resolution::Rejected => (Decision::Rejected, run::VoteDecision::Rejected),
    };
    let deciding = hold.votes.iter().rfind(|(vote, _)| vote.decision == kind);
    Some(Resolution {
        decision,
        by: deciding.map(|(vote, _)| vote.by.name.clone()),
        at: deciding.map(|(_, at)| (*at).into()),
        reason: deciding.map(|(vote, _)| vote.reason.clone()),
    })
}

fn approvals(hold: &Hold) -> Vec<Approval> {
    let approved = |(vote, _): &&(Vote, _)| vote.decision == run::VoteDecision::Approved;
    let approval = |(vote, at): &(Vote, windlass_kernel::Timestamp)| Approval {
        at: (*at).into(),
        by: vote.by.name.clone(),
        reason: vote.reason.clone(),
    };
    hold.votes.iter().filter(approved).map(approval).collect()
}

const fn outcome(outcome: RunOutcome) -> Outcome {
    match outcome {
        RunOutcome::Pass => Outcome::Pass,
        RunOutcome::Blocked => Outcome::Blocked,
        RunOutcome::WaiverRequested => Outcome::WaiverRequested,
        RunOutcome::EscalationRequested => Outcome::EscalationRequested,
    }
}

const fn status(status: run::PhaseStatus) -> PhaseStatus {
    match status {
        run::PhaseStatus::Pending => PhaseStatus::Pending,
        run::PhaseStatus::Running => PhaseStatus::Running,
        run::PhaseStatus::Complete => PhaseStatus::Complete,
        run::PhaseStatus::Failed => PhaseStatus::Failed,
        run::PhaseStatus::Skipped => PhaseStatus::Skipped,
    }
}
