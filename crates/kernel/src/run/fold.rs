//! Folds one recorded event into the state of a run. The fold decides nothing; it refuses impossible events.

use std::sync::Arc;

use serde_json::Value;

use super::branch::Conflict;
use super::checkpoint::{CheckpointKind, CheckpointSide};
use super::consensus::{APPROVED, CONDITIONAL, Review};
use super::event::Event;
use super::event_order::{ends_idle_time, may_follow};
use super::index::{Graph, Index};
use super::payload::{Change, PhaseResult, Started, Usage, Vote, VoteDecision, WaitsFor};
use super::plan::{BudgetedResource, Concurrency, Doer, RunOutcome, Trigger};
use super::state::{
    AttemptStage, Commit, Ended, JudgedBy, PendingVerdict, PhaseState, PhaseStatus, RecordedNote,
    Run, Waiting,
};
use crate::{ChainError, Digest, Head, State, Timestamp};

impl Run {
    /// Folds one event, whose entry and position in the chain (`head`) have been verified.
    ///
    /// # Errors
    /// [`ChainError::Impossible`] if the event cannot follow. The state must not be used afterwards.
    pub fn apply(
        &mut self,
        event: &Event,
        artifact_digest: Digest,
        ts: Timestamp,
        head: Head,
    ) -> Result<(), ChainError> {
        let before = self.head.state;
        let error = |why| ChainError::Impossible {
            sequence_number: head.sequence_number,
            kind: event.kind(),
            why,
        };
        if head.state != Some(event.to_state_from(before.unwrap_or(State::Init))) {
            return Err(error("the event and its entry lead to different states".to_owned()));
        }
        if !may_follow(event, before) {
            let before = before.map_or("the beginning", State::as_str);
            return Err(error(format!("it cannot follow the state {before}")));
        }
        self.check_order(event).map_err(error)?;
        self.fold(event, artifact_digest, ts).map_err(error)?;
        // Time on hold and time without a live process are not working time. A run that is resumed
        // records one of these events first.
        let working = before == Some(State::Running) && !ends_idle_time(event);
        let last = self.last_at.unwrap_or(ts);
        if working {
            let passed = u64::try_from(ts.unix_ms() - last.unix_ms()).unwrap_or_default();
            self.spent.wall_ms = self.spent.wall_ms.saturating_add(passed);
        }
        // If the clock is set back, the same time must not count twice.
        self.last_at = Some(last.max(ts));
        self.head = head;
        Ok(())
    }

    fn fold(&mut self, event: &Event, digest: Digest, ts: Timestamp) -> Result<(), String> {
        match event {
            Event::Started(started) => self.start(started, ts),
            Event::Begun {} | Event::Continued {} => Ok(()),
            Event::Noted { what, body } => {
                self.notes.push(RecordedNote { what: *what, body: Arc::new(body.clone()), at: ts });
                Ok(())
            }
            Event::Setup(step) => self.fold_setup(step),
            Event::Integration(step) => self.fold_integration(step, ts),
            Event::PhaseStarted { phase, attempt } => self.start_phase(phase, *attempt, ts),
            Event::PhaseSkipped { phase, .. } => self.skip_phase(phase),
            Event::Checked { phase, attempt, check, verdict, reason, findings, usage, .. } => {
                let position = self.running_attempt(phase, *attempt)?;
                self.finish_work(position, *usage);
                self.checked(position, check, verdict, reason, findings)
            }
            Event::InvocationStarted { phase, attempt, invocation, agent, parent, .. } => {
                match parent {
                    Some(parent) => {
                        self.start_subagent(phase, *attempt, *invocation, agent, *parent)
                    }
                    None => self.start_invocation(phase, *attempt, *invocation, agent),
                }
            }
            Event::InvocationEnded { invocation, usage, .. } => {
                self.end_invocation(*invocation, *usage)
            }
            Event::PhaseDone { phase, attempt, done } => self.phase_done(phase, *attempt, done),
            Event::Reviewed {
                phase,
                attempt,
                reviewer,
                verdict,
                conditions,
                reason,
                findings,
                usage,
                ..
            } => {
                let position = self.running_attempt(phase, *attempt)?;
                let approved = matches!(verdict.as_str(), APPROVED | CONDITIONAL);
                let review = Review {
                    by: reviewer.clone(),
                    conditions: conditions.clone(),
                    decision: if approved {
                        VoteDecision::Approved
                    } else {
                        VoteDecision::Rejected
                    },
                    findings: findings.clone(),
                    reason: reason.clone(),
                };
                self.finish_work(position, *usage);
                self.reviewed(position, review)?;
                self.finish_attempt(position);
                Ok(())
            }
            Event::Checkpointed(checkpoint) => self.add_checkpoint(checkpoint),
            Event::MergePrepared { phase, attempt, ours, theirs, tree } => {
                self.prepare_merge(phase, *attempt, ours, theirs, tree)
            }
            Event::Merged { phase, attempt, change } => {
                self.merged(phase, *attempt, change.as_ref())
            }
            Event::Conflicted { phase, attempt, ours, paths, messages } => {
                let conflict = Conflict { paths: paths.clone(), messages: messages.clone() };
                self.conflicted(phase, *attempt, ours, conflict)
            }
            Event::RollbackBegun(rollback) => self.begin_rollback(rollback),
            Event::RolledBack { change } => self.end_rollback(change.as_ref()),
            Event::Waiting { phase, attempt, change, evidence, question, waits_for } => {
                let position = self.running_attempt(phase, *attempt)?;
                if !self.index.at_work.contains(&position) {
                    return Err(format!("phase `{phase}` has no work in progress"));
                }
                // The work is repeated after the answer and reports its usage then.
                self.finish_work(position, Usage::default());
                let (evidence, question) = (Arc::new(evidence.clone()), question.clone());
                let waits_for = *waits_for;
                self.change(position, |state| {
                    if matches!(waits_for, WaitsFor::Agent { .. }) {
                        state.unavailable = state.unavailable.saturating_add(1);
                    }
                    state.waiting = Some(Waiting { waits_for, evidence, question });
                });
                self.set_change(change.as_ref());
                Ok(())
            }
            Event::SentBack { phase, source, verdict, to, count, fingerprint } => {
                self.send_back(phase, source, verdict, to, *count, *fingerprint)
            }
            Event::Warned { resource, .. } => {
                if self.limit(*resource).is_none() || !self.warned.insert(*resource) {
                    return Err(
                        "the budget has no limit, or its warning is already recorded".to_owned()
                    );
                }
                Ok(())
            }
            Event::Held(held) => self.put_on_hold(held, digest, ts),
            Event::Voted(vote) => self.vote(vote, ts),
            Event::Revoked(revoked) => self.revoke(revoked),
            Event::Resumed { worked_ms, .. } => {
                let worked = worked_ms.unwrap_or_default();
                self.spent.wall_ms = self.spent.wall_ms.saturating_add(worked);
                self.resume()
            }
            Event::Restarted { .. } => {
                self.interrupted();
                for position in self.index.at_work.clone() {
                    self.change(position, |state| state.interrupted = true);
                }
                Ok(())
            }
            Event::CommitPrepared { branch, commit, parent, tree } => {
                let [branch, commit, parent, tree] =
                    [branch, commit, parent, tree].map(Clone::clone);
                let now = self.head.sequence_number.saturating_add(1);
                self.history.add_commit(now, &commit);
                self.commit = Some(Commit { branch, commit, parent, tree });
                self.commit_at = Some(ts);
                self.left_at = None;
                Ok(())
            }
            Event::Ended { outcome, reason, detail } => {
                if *outcome == RunOutcome::Pass && self.index.unsettled > 0 {
                    return Err("not all phases are complete".to_owned());
                }
                let (reason, detail) = (reason.clone(), detail.clone());
                self.end_with(Ended { outcome: *outcome, reason, detail, at: ts });
                Ok(())
            }
        }
    }

    fn start(&mut self, started: &Started, ts: Timestamp) -> Result<(), String> {
        self.index = Index::of(Graph::of(&started.plan)?);
        self.phases = vec![PhaseState::default(); started.plan.phases.len()];
        self.started = Some(Arc::new(started.clone()));
        self.started_at = Some(ts);
        self.inherit(&started.inherited)
    }

    /// Adopts the results of phases that were done elsewhere. Each needs the results of its own needs.
    fn inherit(
        &mut self,
        inherited: &std::collections::BTreeMap<String, PhaseResult>,
    ) -> Result<(), String> {
        for phase in inherited.keys() {
            self.phase_index(phase)?;
        }
        for position in 0..self.phases.len() {
            let Some((phase, _)) = self.phase(position) else { continue };
            let Some(done) = inherited.get(&phase.id) else { continue };
            if !self.index.ready.contains(&position) {
                return Err(format!(
                    "phase `{}` is inherited, but a phase that it needs is not",
                    phase.id
                ));
            }
            let done = Arc::new(done.clone());
            self.change(position, |state| {
                state.status = PhaseStatus::Complete;
                state.done = Some(done);
            });
        }
        Ok(())
    }

    /// If the last event ended the work of a phase, stores its state and makes a checkpoint due.
    pub(super) fn finish_attempt(&mut self, position: usize) {
        let Some(state) = self.phases.get(position).filter(|state| state.done.is_some()) else {
            return;
        };
        if self.plan().is_some_and(|plan| plan.checkpoints) {
            self.ends.insert((position, state.attempt), Arc::new(state.clone()));
        }
        self.require_post_checkpoint(position);
    }

    pub(super) fn set_change(&mut self, change: Option<&Change>) {
        if let Some(change) = change {
            self.spent.changed_lines = change.lines;
            if let Some(commit) = &change.commit {
                let now = self.head.sequence_number.saturating_add(1);
                self.history.add_commit(now, commit);
                self.left_at = Some(commit.clone());
            }
            self.change = Some(change.clone());
        }
    }

    /// Sets the tree that may be committed. A program of a check, or of a rule for a phase that does no work
    /// itself, does not: what it changes has not been reviewed.
    pub(super) fn set_reviewed(&mut self, change: Option<&Change>) {
        if let Some(change) = change {
            self.reviewed = Some(change.tree.clone());
        }
    }

    pub(super) fn add_usage(&mut self, usage: Usage) {
        self.spent.tokens = self.spent.tokens.saturating_add(usage.tokens());
        self.spent.cost_micros = self.spent.cost_micros.saturating_add(usage.cost_micros);
        self.spent.unaccounted |= usage.unaccounted;
    }

    /// Ends the work, check or review in progress: adds the usage that its invocations did not report.
    fn finish_work(&mut self, position: usize, usage: Usage) {
        let Some(state) = self.phases.get(position) else { return };
        let (invoked, open) = (state.invoked, state.open_invocation);
        let audit = state.open_audit.as_ref().map(|(number, _)| *number);
        let subagents: Vec<u64> = state.open_subagents.keys().copied().collect();
        self.add_usage(Usage {
            cost_micros: usage.cost_micros.saturating_sub(invoked.cost_micros),
            input_tokens: usage.input_tokens.saturating_sub(invoked.input_tokens),
            output_tokens: usage.output_tokens.saturating_sub(invoked.output_tokens),
            // An open invocation ends with its work; its usage was not counted.
            unaccounted: usage.unaccounted
                || open.is_some()
                || audit.is_some()
                || !subagents.is_empty(),
        });
        for open in open.into_iter().chain(audit).chain(subagents) {
            self.index.open.remove(&open);
        }
        self.change(position, |state| {
            state.invoked = Usage::default();
            state.open_invocation = None;
            state.open_audit = None;
            state.open_subagents.clear();
            state.uncertain = false;
            state.interrupted = false;
        });
    }

    /// Returns the index of a phase.
    pub(super) fn phase_index(&self, phase: &str) -> Result<usize, String> {
        self.position(phase).ok_or_else(|| format!("there is no phase `{phase}`"))
    }

    /// Returns the index of a phase whose attempt `attempt` is in progress.
    pub(super) fn running_attempt(&self, phase: &str, attempt: u32) -> Result<usize, String> {
        let position = self.phase_index(phase)?;
        let running = self
            .phases
            .get(position)
            .is_some_and(|state| state.status == PhaseStatus::Running && state.attempt == attempt);
        if running {
            Ok(position)
        } else {
            Err(format!("attempt {attempt} of phase `{phase}` is not in progress"))
        }
    }

    /// Returns the index of a phase that may be started or skipped now, and whether its condition is met.
    fn startable(&self, phase: &str) -> Result<(usize, bool), String> {
        let position = self.phase_index(phase)?;
        if self.needs_setup() {
            return Err("the work tree is not ready".to_owned());
        }
        if !self.index.ready.contains(&position) || !self.index.stops.is_empty() {
            return Err(format!("phase `{phase}` is not ready to start"));
        }
        let condition_met =
            self.phase(position).is_some_and(|(phase, state)| self.condition_is_met(phase, state));
        Ok((position, condition_met))
    }

    fn start_phase(&mut self, phase: &str, attempt: u32, ts: Timestamp) -> Result<(), String> {
        let (position, condition_met) = self.startable(phase)?;
        let serial = self.plan().is_some_and(|plan| plan.concurrency == Concurrency::Serial);
        if !condition_met {
            return Err(format!("phase `{phase}` must be skipped"));
        }
        if serial && !self.index.at_work.is_empty() {
            return Err("another phase is in progress".to_owned());
        }
        if self.phases.get(position).map(|state| state.attempt + 1) != Some(attempt) {
            return Err(format!("attempt {attempt} of phase `{phase}` is not the next one"));
        }
        if self.limit(BudgetedResource::Attempts).is_some_and(|limit| u64::from(attempt) > limit) {
            return Err(format!("phase `{phase}` has used all its attempts"));
        }
        self.change(position, |state| {
            state.status = PhaseStatus::Running;
            state.attempt = attempt;
            state.stage = AttemptStage::Before(0);
            state.started_at = Some(ts);
            state.pending_verdict = None;
            state.done = None;
            state.interrupted = false;
            state.branch = super::branch::Branch::default();
            state.reviews.clear();
            state.agents.clear();
        });
        self.require_checkpoint(position, CheckpointSide::Pre, CheckpointKind::Started);
        self.advance(position);
        Ok(())
    }

    fn skip_phase(&mut self, phase: &str) -> Result<(), String> {
        let (position, condition_met) = self.startable(phase)?;
        if condition_met {
            return Err(format!("phase `{phase}` must not be skipped"));
        }
        self.change(position, |state| state.status = PhaseStatus::Skipped);
        Ok(())
    }

    fn phase_done(&mut self, phase: &str, attempt: u32, done: &PhaseResult) -> Result<(), String> {
        let position = self.running_attempt(phase, attempt)?;
        let by_answers = self.phase(position).is_some_and(|(phase, _)| {
            matches!(phase.doer, Doer::Person { .. } | Doer::Consensus { .. })
        });
        if by_answers {
            return Err(format!("phase `{phase}` ends by answers or reviews, not by work"));
        }
        let at_work =
            self.phases.get(position).is_some_and(|state| state.stage == AttemptStage::Work)
                && self.index.at_work.contains(&position);
        if !at_work {
            return Err(format!("the work of phase `{phase}` is not in progress"));
        }
        self.finish_work(position, done.usage);
        let merge = self.phase(position).is_some_and(|(phase, _)| phase.branch);
        self.change(position, |state| {
            state.findings = Value::Null;
            state.done = Some(Arc::new(done.clone()));
            state.stage = if merge { AttemptStage::Merge } else { AttemptStage::After(0) };
            if let Some(failure) = &done.failure {
                state.status = PhaseStatus::Failed;
                state.pending_verdict = Some(PendingVerdict {
                    judged_by: JudgedBy::Failure,
                    verdict: failure.class.clone(),
                    reason: failure.reason.clone(),
                    findings: done.answer.get("findings").cloned().unwrap_or(Value::Null),
                });
            }
        });
        self.set_change(done.change.as_ref());
        // The work of a branch is reviewed when it is merged.
        let works = self.phase(position).is_some_and(|(phase, _)| {
            matches!(phase.doer, Doer::Agent { .. } | Doer::Command { .. })
        });
        if !merge && (works || !done.calls.is_empty()) {
            self.set_reviewed(done.change.as_ref());
        }
        self.add_facts(&done.facts);
        self.advance(position);
        self.finish_attempt(position);
        Ok(())
    }

    fn add_facts(&mut self, facts: &std::collections::BTreeMap<String, String>) {
        if facts.is_empty() {
            return;
        }
        self.facts.extend(facts.clone());
        if self.plan().is_some_and(|plan| plan.checkpoints) {
            let now = self.head.sequence_number.saturating_add(1);
            self.history.add_facts(now, facts);
        }
    }

    fn vote(&mut self, vote: &Vote, ts: Timestamp) -> Result<(), String> {
        let is_signed = vote.is_signed(&self.head);
        if let Some(hold) = &self.hold {
            self.check_send_back(&hold.held, vote)?;
        }
        let hold = self.hold.as_mut().ok_or("the run is not on hold")?;
        if hold.is_closed() {
            return Err("the hold has been answered".to_owned());
        }
        if hold.is_expired(ts) {
            return Err("the hold has expired".to_owned());
        }
        if vote.shown != hold.shown {
            return Err("the answer refers to another version of the hold".to_owned());
        }
        if vote.by.name.trim().is_empty() || vote.by.approver.is_empty() {
            return Err("the answer has no name".to_owned());
        }
        if !hold.asks(&vote.by.name) {
            return Err(format!("`{}` may not answer this hold", vote.by.name));
        }
        if vote.decision == VoteDecision::Approved && hold.excludes(&vote.by.name) {
            return Err(format!("`{}` started the run and does not count", vote.by.name));
        }
        if vote.decision == VoteDecision::Rejected && !vote.conditions.is_empty() {
            return Err("a rejection cannot have conditions".to_owned());
        }
        if hold.held.trigger != Trigger::ConsensusRequested && !vote.conditions.is_empty() {
            return Err("only a reviewer's approval can have conditions".to_owned());
        }
        if hold.votes.iter().any(|(other, _)| other.is_same(vote)) {
            return Err("the same person has already answered".to_owned());
        }
        if !is_signed {
            return Err("the signature of the answer is not valid".to_owned());
        }
        hold.votes.push((vote.clone(), ts));
        hold.before_revocation.clear();
        Ok(())
    }
}
