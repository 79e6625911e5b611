//! The fold: one recorded event more. It never decides; it refuses what cannot have happened.

use std::sync::Arc;

use serde_json::Value;

use super::branch::Conflict;
use super::checkpoint::{CheckpointKind, CheckpointSide};
use super::consensus::{APPROVED, CONDITIONAL, Review};
use super::event::Event;
use super::event_order::{is_pause, may_follow};
use super::index::{Graph, Index};
use super::payload::{Change, PhaseResult, Started, Usage, Vote, VoteDecision};
use super::plan::{BudgetedResource, Concurrency, Doer, RunOutcome, Trigger};
use super::state::{
    AttemptStage, Commit, Ended, JudgedBy, PendingVerdict, PhaseState, PhaseStatus, RecordedNote,
    Resolution, Run,
};
use crate::{ChainError, Digest, Head, State, Timestamp};

impl Run {
    /// Adds one event whose entry, with its chain position `head`, has been checked.
    ///
    /// # Errors
    /// [`ChainError::Impossible`] when it cannot follow; then this state must not be used any more.
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
            return Err(error("its entry leads to another state".to_owned()));
        }
        if !may_follow(event, before) {
            let before = before.map_or("the beginning", State::as_str);
            return Err(error(format!("it does not follow {before}")));
        }
        self.is_due(event).map_err(error)?;
        self.fold(event, artifact_digest, ts).map_err(error)?;
        // Time on hold and time without a process are nobody's working time. A run that is taken up
        // says so with one of these before anything is done.
        let working = before == Some(State::Running) && !is_pause(event);
        let last = self.last_at.unwrap_or(ts);
        if working {
            let passed = u64::try_from(ts.unix_ms() - last.unix_ms()).unwrap_or_default();
            self.spent.wall_ms = self.spent.wall_ms.saturating_add(passed);
        }
        // A clock that was set back must not make the same time count twice.
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
            Event::PhaseStarted { phase, attempt } => self.start_phase(phase, *attempt, ts),
            Event::PhaseSkipped { phase, .. } => self.skip_phase(phase),
            Event::Checked { phase, attempt, check, verdict, reason, findings, usage, .. } => {
                let at = self.running_attempt(phase, *attempt)?;
                self.finish_work(at, *usage);
                self.checked(at, check, verdict, reason, findings)
            }
            Event::InvocationStarted { phase, attempt, invocation, agent, .. } => {
                self.start_invocation(phase, *attempt, *invocation, agent)
            }
            Event::InvocationEnded { invocation, usage, .. } => {
                let at = self.index.open.remove(invocation).ok_or("no such invocation is open")?;
                self.spend(*usage);
                self.change(at, |state| {
                    state.open_invocation = None;
                    state.invoked = state.invoked.plus(*usage);
                    if let Some(agent) = state.open_agent.take() {
                        let used = state.agents.entry(agent).or_default();
                        *used = used.plus(*usage);
                    }
                });
                Ok(())
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
                let at = self.running_attempt(phase, *attempt)?;
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
                self.finish_work(at, *usage);
                self.reviewed(at, review)?;
                self.finish_attempt(at);
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
            Event::Waiting { phase, attempt, call, change, question } => {
                let at = self.running_attempt(phase, *attempt)?;
                if !self.index.at_work.contains(&at) {
                    return Err(format!("phase `{phase}` is not at work"));
                }
                // It is done once more after the answer, and says then what it used.
                self.finish_work(at, Usage::default());
                self.change(at, |state| state.waiting = Some((*call, question.clone())));
                self.see(change.as_ref());
                Ok(())
            }
            Event::SentBack { phase, source, verdict, to, count, fingerprint } => {
                self.send_back(phase, source, verdict, to, *count, *fingerprint)
            }
            Event::Warned { resource, .. } => {
                if self.limit(*resource).is_none() || !self.warned.insert(*resource) {
                    return Err("there is nothing to warn of".to_owned());
                }
                Ok(())
            }
            Event::Held(held) => self.put_on_hold(held, digest, ts),
            Event::Voted(vote) => self.vote(vote, ts),
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
                if *outcome == RunOutcome::Pass && self.index.unsettled > 0 {
                    return Err("not all of it was done".to_owned());
                }
                let (reason, detail) = (reason.clone(), detail.clone());
                self.ended = Some(Ended { outcome: *outcome, reason, detail, at: ts });
                Ok(())
            }
        }
    }

    fn start(&mut self, started: &Started, ts: Timestamp) -> Result<(), String> {
        self.index = Index::of(Graph::of(&started.plan)?);
        self.phases = vec![PhaseState::new(); started.plan.phases.len()];
        self.started = Some(Arc::new(started.clone()));
        self.started_at = Some(ts);
        self.inherit(&started.inherited)
    }

    /// Takes over what was done elsewhere: nothing of it may be missing what it builds on.
    fn inherit(
        &mut self,
        inherited: &std::collections::BTreeMap<String, PhaseResult>,
    ) -> Result<(), String> {
        for phase in inherited.keys() {
            self.phase_index(phase)?;
        }
        for at in 0..self.phases.len() {
            let Some((phase, _)) = self.phase(at) else { continue };
            let Some(done) = inherited.get(&phase.id) else { continue };
            if !self.index.ready.contains(&at) {
                return Err(format!("phase `{}` is inherited without what it needs", phase.id));
            }
            let done = Arc::new(done.clone());
            self.change(at, |state| {
                state.status = PhaseStatus::Complete;
                state.done = Some(done);
            });
        }
        Ok(())
    }

    /// A phase may have ended by what was just folded: then what came of it is kept.
    pub(super) fn finish_attempt(&mut self, at: usize) {
        let Some(state) = self.phases.get(at).filter(|state| state.done.is_some()) else { return };
        if self.plan().is_some_and(|plan| plan.checkpoints) {
            self.ends.insert((at, state.attempt), Arc::new(state.clone()));
        }
        self.require_post_checkpoint(at);
    }

    pub(super) fn see(&mut self, change: Option<&Change>) {
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

    /// A piece of work has ended: counts what it used beyond what its invocations have said.
    fn finish_work(&mut self, at: usize, usage: Usage) {
        let Some(state) = self.phases.get(at) else { return };
        let (invoked, open) = (state.invoked, state.open_invocation);
        self.spend(Usage {
            cost_micros: usage.cost_micros.saturating_sub(invoked.cost_micros),
            input_tokens: usage.input_tokens.saturating_sub(invoked.input_tokens),
            output_tokens: usage.output_tokens.saturating_sub(invoked.output_tokens),
            // An invocation that is still open has ended with its work; nobody counted it.
            unaccounted: usage.unaccounted || open.is_some(),
        });
        if let Some(open) = open {
            self.index.open.remove(&open);
        }
        self.change(at, |state| {
            state.invoked = Usage::default();
            state.open_invocation = None;
            state.uncertain = false;
        });
    }

    /// The place of a phase.
    pub(super) fn phase_index(&self, phase: &str) -> Result<usize, String> {
        self.position(phase).ok_or_else(|| format!("there is no phase `{phase}`"))
    }

    /// The place of a phase of which just this try is under way.
    pub(super) fn running_attempt(&self, phase: &str, attempt: u32) -> Result<usize, String> {
        let at = self.phase_index(phase)?;
        let trying = self
            .phases
            .get(at)
            .is_some_and(|state| state.status == PhaseStatus::Running && state.attempt == attempt);
        if trying {
            Ok(at)
        } else {
            Err(format!("try {attempt} of phase `{phase}` is not under way"))
        }
    }

    /// The place of a phase that may be started or skipped now, and whether it is wanted.
    fn startable(&self, phase: &str) -> Result<(usize, bool), String> {
        let at = self.phase_index(phase)?;
        if !self.index.ready.contains(&at) || !self.index.stops.is_empty() {
            return Err(format!("it is not the turn of phase `{phase}`"));
        }
        let wanted = self.phase(at).is_some_and(|(phase, state)| self.is_wanted(phase, state));
        Ok((at, wanted))
    }

    fn start_phase(&mut self, phase: &str, attempt: u32, ts: Timestamp) -> Result<(), String> {
        let (at, wanted) = self.startable(phase)?;
        let serial = self.plan().is_some_and(|plan| plan.concurrency == Concurrency::Serial);
        if !wanted {
            return Err(format!("phase `{phase}` is not to be done"));
        }
        if serial && !self.index.at_work.is_empty() {
            return Err("another phase is at work".to_owned());
        }
        if self.phases.get(at).map(|state| state.attempt + 1) != Some(attempt) {
            return Err(format!("try {attempt} of phase `{phase}` is not the next one"));
        }
        if self.limit(BudgetedResource::Attempts).is_some_and(|limit| u64::from(attempt) > limit) {
            return Err(format!("phase `{phase}` has been tried as often as it may be"));
        }
        self.change(at, |state| {
            state.status = PhaseStatus::Running;
            state.attempt = attempt;
            state.stage = AttemptStage::Before(0);
            state.started_at = Some(ts);
            state.pending_verdict = None;
            state.done = None;
            state.branch = super::branch::Branch::default();
            state.reviews.clear();
            state.agents.clear();
        });
        self.require_checkpoint(at, CheckpointSide::Pre, CheckpointKind::Started);
        self.advance(at);
        Ok(())
    }

    fn skip_phase(&mut self, phase: &str) -> Result<(), String> {
        let (at, wanted) = self.startable(phase)?;
        if wanted {
            return Err(format!("phase `{phase}` is to be done"));
        }
        self.change(at, |state| state.status = PhaseStatus::Skipped);
        Ok(())
    }

    fn start_invocation(
        &mut self,
        phase: &str,
        attempt: u32,
        number: u64,
        agent: &str,
    ) -> Result<(), String> {
        let at = self.running_attempt(phase, attempt)?;
        if number != self.invocations.saturating_add(1) {
            return Err(format!("invocation {number} is not the next one"));
        }
        let open = self.phases.get(at).is_some_and(|state| state.open_invocation.is_some());
        if open || !self.index.at_work.contains(&at) {
            return Err(format!("phase `{phase}` is not at work, or at another invocation"));
        }
        self.invocations = number;
        self.index.open.insert(number, at);
        self.change(at, |state| {
            state.open_invocation = Some(number);
            state.open_agent = Some(agent.to_owned());
            state.agents.entry(agent.to_owned()).or_default();
            state.uncertain = false;
        });
        Ok(())
    }

    fn phase_done(&mut self, phase: &str, attempt: u32, done: &PhaseResult) -> Result<(), String> {
        let at = self.running_attempt(phase, attempt)?;
        let asked = self.phase(at).is_some_and(|(phase, _)| {
            matches!(phase.doer, Doer::Person { .. } | Doer::Consensus { .. })
        });
        if asked {
            return Err(format!("phase `{phase}` is ended by those who are asked"));
        }
        let at_work = self.phases.get(at).is_some_and(|state| state.stage == AttemptStage::Work)
            && self.index.at_work.contains(&at);
        if !at_work {
            return Err(format!("the work of phase `{phase}` is not under way"));
        }
        self.finish_work(at, done.usage);
        let merge = self.phase(at).is_some_and(|(phase, _)| phase.branch);
        self.change(at, |state| {
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
        self.see(done.change.as_ref());
        self.state_facts(&done.facts);
        self.advance(at);
        self.finish_attempt(at);
        Ok(())
    }

    fn state_facts(&mut self, facts: &std::collections::BTreeMap<String, String>) {
        if facts.is_empty() {
            return;
        }
        self.facts.extend(facts.clone());
        if self.plan().is_some_and(|plan| plan.checkpoints) {
            let now = self.head.sequence_number.saturating_add(1);
            self.past.stated(now, facts);
        }
    }

    fn vote(&mut self, vote: &Vote, ts: Timestamp) -> Result<(), String> {
        let hold = self.hold.as_mut().ok_or("the run is not on hold")?;
        if hold.resolution() != Resolution::Open {
            return Err("the hold has been answered".to_owned());
        }
        if hold.is_expired(ts) {
            return Err("the hold has lapsed".to_owned());
        }
        if vote.shown != hold.shown {
            return Err("the answer is to something else".to_owned());
        }
        if vote.by.trim().is_empty() {
            return Err("nobody has answered".to_owned());
        }
        if !hold.held.reviewers.is_empty() && !hold.held.reviewers.contains(&vote.by) {
            return Err("somebody has answered who was not asked".to_owned());
        }
        if vote.decision == VoteDecision::Rejected && !vote.conditions.is_empty() {
            return Err("a rejection has no conditions".to_owned());
        }
        if hold.held.trigger != Trigger::ConsensusRequested && !vote.conditions.is_empty() {
            return Err("only a reviewer's approval has conditions".to_owned());
        }
        if hold.votes.iter().any(|(other, _)| other.by == vote.by) {
            return Err("the same person has answered before".to_owned());
        }
        hold.votes.push((vote.clone(), ts));
        Ok(())
    }
}
