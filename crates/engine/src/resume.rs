//! Resumes a run after a person's answer or after its process died.

use windlass_connect::received_signal;
use windlass_journal::{Check, JournalError, Reader};
use windlass_kernel::run::plan::{Doer, OnRestart, Phase, Plan, Requirement, RunOutcome, Trigger};
use windlass_kernel::run::{
    AttemptStage, Event, Hold, HoldRequest, PhaseState, PhaseStatus, RecordedNote, Resolution, Run,
};
use windlass_kernel::{Call, Code, Head, Next, State, Timestamp, TraceId};
use windlass_runtime::{Answer, Attribution, GatewayError, Who};
use windlass_workspace::OnConflict;

use crate::engine::{Engine, refuse_ended, run_name};
use crate::error::EngineError;
use crate::policy_reader::end_by_policy;
use crate::queue::REASON_BYTES_MAX;
use crate::run_recorder::RunRecorder;

impl Engine {
    /// Resumes a run and drives it until it ends or waits for a person.
    ///
    /// For a run on hold these are checked, in this order: the policy, the repository, the hold's packet,
    /// the answer. Complete phases are not repeated.
    ///
    /// # Errors
    /// [`EngineError`]; the run is unchanged unless the error says that it has ended.
    pub fn resume(&self, trace_id: TraceId) -> Result<Run, EngineError> {
        let seen = self.read(trace_id)?;
        let run_id = run_name(&seen);
        self.stop.check(Some(&run_id))?;
        if seen.ended.is_some() {
            // Its process may have died before the views of its end were written.
            self.refresh(trace_id)?;
        }
        refuse_ended(&seen)?;
        let plan = seen.plan().cloned();
        if plan.as_ref().is_some_and(Plan::is_session) {
            let message = format!("run `{run_id}` is a session: it goes on in its client");
            return Err(EngineError::Requirement { code: Code::RequestInvalid, message });
        }
        let own = seen.started.as_ref().is_some_and(|started| started.worktree.is_some());
        let _locks = match &plan {
            Some(plan) => self.lock_for(plan, own)?,
            None => Vec::new(),
        };
        let mut recorder = self.open(trace_id)?;
        refuse_ended(recorder.run())?;
        self.require_ports(recorder.run())?;
        if recorder.run().is_rolling_back() && recorder.run().head.state == Some(State::Running) {
            // A person requested the rollback: it is completed before any other check.
            let run = self.finish_rollback(recorder, OnConflict::Refuse)?;
            if run.hold.is_some() || run.ended.is_some() {
                return Ok(run);
            }
            recorder = self.open(trace_id)?;
        }
        match recorder.run().head.state {
            Some(State::Checkpoint) => self.resume_hold(&mut recorder)?,
            Some(_) | None => self.resume_interrupted(&mut recorder)?,
        }
        self.drive(recorder)
    }

    /// Fails if the stop switch of a run is on, or a signal asks Windlass to end.
    ///
    /// # Errors
    /// [`EngineError::Stopped`] or [`EngineError::Interrupted`].
    pub fn require_not_stopped(&self, run: &Run) -> Result<(), EngineError> {
        if received_signal().is_some() {
            return Err(EngineError::interrupted(run));
        }
        self.stop.check(Some(&run_name(run)))
    }

    fn resume_hold(&self, recorder: &mut RunRecorder) -> Result<(), EngineError> {
        let run = recorder.snapshot();
        let run_id = run_name(&run);
        let Some(hold) = &run.hold else {
            return Err(EngineError::NotOnHold { run: run_id });
        };
        // Its files may lie in the workspace: a changed policy is not only a changed file.
        self.require_policy(recorder)?;
        if self.requires_unchanged(&run, hold)? {
            self.repository.require_unchanged(&self.workspace(&run), &run)?;
        }
        // What others committed during the hold does not become the work's own.
        recorder.moved_by_others = !self.is_own_work(&run, hold)?
            && self.repository.moved(&self.workspace(&run), &run)?.is_some();
        self.packets.check(&run)?;
        if hold.is_expired(self.recording.clock.now()) {
            return self.expire(recorder);
        }
        match hold.resolution() {
            // Resuming it is the next try.
            Resolution::Open if hold.held.trigger == Trigger::AgentUnavailable => {
                let by = self.settings.by.clone();
                recorder.append(vec![Event::Resumed { by, worked_ms: None }])
            }
            Resolution::Open => {
                Err(EngineError::Unresolved { run: run_id, question: hold.held.question.clone() })
            }
            Resolution::Rejected if !run.continues_after_rejection(hold) => {
                self.end_rejected(recorder)?;
                let ended = EngineError::Ended {
                    run: run_id,
                    outcome: RunOutcome::Blocked.as_str(),
                    reason: REJECTED.to_owned(),
                };
                Err(ended)
            }
            resolution @ (Resolution::Approved | Resolution::Rejected) => {
                // The call of work that is done again is not made.
                let is_approved = resolution == Resolution::Approved;
                let answer = if is_approved { Answer::Approve } else { Answer::Deny };
                self.decide_call(&run, hold, answer)?;
                let worked_ms = self.duration_of_call(hold)?;
                let by = self.settings.by.clone();
                recorder.append(vec![Event::Resumed { by, worked_ms }])
            }
        }
    }

    /// Whether a run goes on from a hold only with the files as it left them.
    pub(crate) fn requires_unchanged(&self, run: &Run, hold: &Hold) -> Result<bool, EngineError> {
        // Whoever mends a setup changes files.
        let requires_clean = hold.held.trigger != Trigger::SetupFailed
            && run.plan().is_some_and(|plan| plan.require.contains(&Requirement::CleanRepo));
        Ok(requires_clean && !self.is_own_work(run, hold)?)
    }

    /// Whether what changes during a hold is the run's own work: what a person does for an agent is the work of the
    /// phase, and what an approved call has done is no change of somebody else.
    pub(crate) fn is_own_work(&self, run: &Run, hold: &Hold) -> Result<bool, EngineError> {
        Ok(is_done_by_person(run, &hold.held.phase) || self.is_taken_up(hold)?)
    }

    /// Dispatches the call that people approved, or denies the one that they rejected. A call that was
    /// decided elsewhere is not changed.
    fn decide_call(&self, run: &Run, hold: &Hold, answer: Answer) -> Result<(), EngineError> {
        let HoldRequest { trigger: Trigger::CallApproval, call: Some(call), .. } = &hold.held
        else {
            return Ok(());
        };
        // An approval is valid for one dispatch: if the call was dispatched before a crash, the phase
        // that makes the call reads its result, or asks again.
        if self.is_taken_up(hold)? {
            return Ok(());
        }
        let gateway = self.gateway_of(*call)?;
        let names: Vec<String> = hold.votes.iter().map(|(vote, _)| vote.by.name.clone()).collect();
        let reasons: Vec<&str> = hold.votes.iter().map(|(vote, _)| vote.reason.as_str()).collect();
        let mut reason = reasons.join("; ");
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        let Head { entry_digest, trace_id, .. } = run.head;
        let who = Who::Hold { entry_digest, names: &names, trace_id };
        let files = hold.votes.last().map(|(vote, _)| vote.files.as_slice()).unwrap_or_default();
        let edit =
            hold.votes.iter().find_map(|(vote, _)| vote.edit.as_ref()).map(|edit| &edit.args);
        let attribution = Attribution { who, reason: &reason, edit, files };
        // An interrupted call that people let go on has not run.
        let is_interrupted =
            Reader::<Call>::state_of(self.store(), *call, Check::Verified)?.next() == Next::Settle;
        let answer = match (answer, is_interrupted) {
            (Answer::Approve, true) => Answer::DidNotRun,
            (Answer::Deny, true) => Answer::Failed,
            (answer, _) => answer,
        };
        match gateway.decide_within(*call, answer, attribution, run.time_left()) {
            // The phase that makes the call gets the refusal if the policy denies it nevertheless.
            Ok(_) | Err(GatewayError::AlreadyDecided { .. } | GatewayError::Refused { .. }) => {
                Ok(())
            }
            // The answer was to other files. The phase makes the call again, and people are asked again.
            Err(GatewayError::Stale { path, .. }) => {
                let reason = format!(
                    "`{path}` has changed since the call was approved, so people are asked again"
                );
                Ok(gateway.withdraw(*call, trace_id, Code::HoldStale, reason)?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Denies the call that a run waits for, because the run ends: nobody can approve it any more. This comes before
    /// the end is recorded; a run that does not end then asks again.
    pub(crate) fn withdraw_call(&self, run: &Run, why: &str) -> Result<(), EngineError> {
        let hold = run.hold.as_ref();
        let Some(call) = hold.and_then(|hold| hold.held.call) else { return Ok(()) };
        // Its own work tree may be gone.
        let gateway = self.gateways.gateway(&self.settings.root)?;
        let reason = format!("run `{}` has ended: {why}", run_name(run));
        match gateway.withdraw(call, run.head.trace_id, Code::RunEnded, reason) {
            // A process works on it, and ends it.
            Err(GatewayError::Journal(JournalError::Held(_))) => Ok(()),
            withdrawn => Ok(withdrawn?),
        }
    }

    /// Whether the call on hold was dispatched by the answer of people, before a crash.
    fn is_taken_up(&self, hold: &Hold) -> Result<bool, EngineError> {
        let HoldRequest { trigger: Trigger::CallApproval, call: Some(call), .. } = &hold.held
        else {
            return Ok(false);
        };
        Ok(self.last_dispatch(*call)?.is_some_and(|at| at >= hold.since))
    }

    /// How long the call on hold took, if the answer of people dispatched it and it has ended.
    fn duration_of_call(&self, hold: &Hold) -> Result<Option<u64>, EngineError> {
        let is_taken_up = self.is_taken_up(hold)?;
        let Some(call) = hold.held.call.filter(|_| is_taken_up) else {
            return Ok(None);
        };
        let state = Reader::<Call>::state_of(self.store(), call, Check::Verified)?;
        Ok(state.effect.map(|effect| effect.duration_ms).filter(|worked_ms| *worked_ms > 0))
    }

    /// The time of the last dispatch of a call, if there was one.
    fn last_dispatch(&self, call: TraceId) -> Result<Option<Timestamp>, EngineError> {
        let state = Reader::<Call>::state_of(self.store(), call, Check::Verified)?;
        let again = self.store().list_redispatches(call)?.last().map(|again| again.ts);
        Ok(again.or(state.tool_call.map(|(tool_call, _)| tool_call.ts)))
    }

    fn resume_interrupted(&self, recorder: &mut RunRecorder) -> Result<(), EngineError> {
        self.require_policy(recorder)?;
        let on_restart = recorder.run().plan().map(|plan| plan.on_restart);
        if on_restart == Some(OnRestart::Terminate) {
            let run = run_name(recorder.run());
            self.terminate(recorder)?;
            let (outcome, reason) = (RunOutcome::Blocked.as_str(), TERMINATED.to_owned());
            return Err(EngineError::Ended { run, outcome, reason });
        }
        if matches!(recorder.run().head.state, Some(State::Running)) {
            if let Some(question) = self.unreviewed(recorder.run())? {
                return self.hold_with_question(recorder, Some(question));
            }
            let by = self.settings.by.clone();
            recorder.append(vec![Event::Restarted { by }])?;
        }
        Ok(())
    }

    /// The question to a person, if the run stopped because files have changed since they were reviewed, and
    /// they are still there.
    fn unreviewed(&self, run: &Run) -> Result<Option<String>, EngineError> {
        let commits = |(phase, state): (&Phase, &PhaseState)| {
            let prepared = run.commit_at.zip(state.started_at).is_some_and(|(at, from)| at >= from);
            let is_commit = matches!(&phase.doer, Doer::Builtin { name, .. } if name == "commit");
            let at_work = state.status == PhaseStatus::Running && state.stage == AttemptStage::Work;
            is_commit && at_work && !prepared
        };
        if !run.all_phases().any(commits) {
            return Ok(None);
        }
        match self.repository.require_reviewed(&self.workspace(run), run) {
            Err(EngineError::Requirement { code: Code::ChangeUnreviewed, message }) => {
                Ok(Some(format!("{message}; approve to commit them as they are now")))
            }
            // The commit itself reports anything else.
            Ok(()) | Err(_) => Ok(None),
        }
    }

    /// Ends a run whose policy has changed.
    fn require_policy(&self, recorder: &mut RunRecorder) -> Result<(), EngineError> {
        if self.has_its_policy(recorder.run())? {
            return Ok(());
        }
        let run = run_name(recorder.run());
        self.withdraw_call(recorder.run(), "its policy has changed")?;
        recorder.append(vec![end_by_policy()])?;
        Err(EngineError::PolicyChanged { run })
    }

    /// Ends a run whose hold nobody answered in time.
    pub(crate) fn expire(&self, recorder: &mut RunRecorder) -> Result<(), EngineError> {
        let run = run_name(recorder.run());
        self.end(recorder, EXPIRED, "nobody answered the hold in time")?;
        Err(EngineError::Expired { run })
    }

    /// Ends a run whose hold was rejected.
    pub(crate) fn end_rejected(&self, recorder: &mut RunRecorder) -> Result<(), EngineError> {
        let run = recorder.snapshot();
        if let Some(hold) = &run.hold {
            self.decide_call(&run, hold, Answer::Deny)?;
        }
        let detail = recorder
            .run()
            .hold
            .as_ref()
            .and_then(|hold| hold.votes.last())
            .map_or_else(String::new, |(vote, _)| {
                format!("rejected by {}: {}", vote.by.name, vote.reason)
            });
        self.end(recorder, REJECTED, &detail)
    }

    /// Ends a run whose loop does not allow it to continue after its process died.
    pub(crate) fn terminate(&self, recorder: &mut RunRecorder) -> Result<(), EngineError> {
        self.end(recorder, TERMINATED, "the run's process died, and the loop ends interrupted runs")
    }

    fn end(
        &self,
        recorder: &mut RunRecorder,
        reason: &str,
        detail: &str,
    ) -> Result<(), EngineError> {
        self.withdraw_call(recorder.run(), detail)?;
        let (reason, detail) = (reason.to_owned(), detail.to_owned());
        recorder.append(vec![Event::Ended { outcome: RunOutcome::Blocked, reason, detail }])
    }
}

/// Whether a person does the work of a phase for its agent, as the runner has recorded.
fn is_done_by_person(run: &Run, phase: &str) -> bool {
    let of_phase = |note: &&RecordedNote| note.body.get("phase").is_some_and(|name| name == phase);
    let client = |note: &RecordedNote| note.body.get("client").cloned();
    let last = run.notes.iter().rev().filter(of_phase).find_map(client);
    last.is_some_and(|client| client == "person")
}

// The reasons with which the engine ends a run.
const REJECTED: &str = "checkpoint_rejected";
const EXPIRED: &str = "checkpoint_expired";
const TERMINATED: &str = "TERMINATED";
