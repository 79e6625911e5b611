//! Builds the spans of a run from its journal.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use windlass_engine::EngineError;
use windlass_journal::{Check, Reader};
use windlass_kernel::run::plan::RunOutcome;
use windlass_kernel::run::{
    CallRecord, Event, InvocationResult, PhaseResult, PhaseStatus, Run, Started, Usage,
};
use windlass_kernel::{Entry, State, Timestamp, TraceId};
use windlass_store::Store;

use super::call_span::{CallMention, call_span};
use super::{Ending, Fact, Facts, Happening, Kind, Span, SpanId};

/// Builds the spans of a run while the run is read.
struct SpanBuilder {
    trace_id: TraceId,
    /// The run's own first.
    spans: Vec<Span>,
    /// The newest attempt of each phase.
    attempts: BTreeMap<String, usize>,
    /// Phases whose newest attempt has not ended.
    open: BTreeSet<String>,
    /// Invocations that have not ended.
    invocations: BTreeMap<u64, usize>,
    /// The calls' positions in `calls`.
    positions: BTreeMap<TraceId, usize>,
    /// Calls with the spans that they are part of.
    calls: Vec<(CallMention, SpanId)>,
}

/// The spans of a run as recorded.
pub(super) fn build(store: &dyn Store, trace_id: TraceId) -> Result<Vec<Span>, EngineError> {
    let mut builder = SpanBuilder {
        trace_id,
        spans: Vec::new(),
        attempts: BTreeMap::new(),
        open: BTreeSet::new(),
        invocations: BTreeMap::new(),
        positions: BTreeMap::new(),
        calls: Vec::new(),
    };
    let mut reader = Reader::<Run>::new(trace_id, Check::Prefix);
    reader.for_each(store, &mut |step| {
        builder.add(step.state, step.entry, &step.artifact.event);
        ControlFlow::Continue(())
    })?;
    Ok(builder.finish(reader.state(), store))
}

fn facts<const N: usize>(all: [(&'static str, Fact); N]) -> Facts {
    BTreeMap::from(all)
}

impl SpanBuilder {
    fn add(&mut self, run: &Run, entry: &Entry, event: &Event) {
        let (ts, number) = (entry.ts, entry.sequence_number);
        if let Some(root) = self.spans.first_mut() {
            root.end = ts;
        }
        self.happen(event, ts);
        match event {
            Event::Started(started) => self.begin(started, ts, number),
            Event::PhaseStarted { phase, attempt } => {
                self.begin_attempt(phase, *attempt, ts, number)
            }
            Event::InvocationStarted { phase, invocation, agent, runner, model, .. } => {
                let mut said = facts([
                    ("windlass.phase", phase.as_str().into()),
                    ("windlass.agent", agent.as_str().into()),
                    ("windlass.runner", runner.as_str().into()),
                ]);
                if let Some(model) = model {
                    said.insert("gen_ai.request.model", model.as_str().into());
                }
                let parent = self.attempt_of(phase).map(|(_, span)| span.id);
                let at = self.push(Kind::Invocation, number, format!("invoke {agent}"), ts, said);
                self.adopt(at, parent);
                self.invocations.insert(*invocation, at);
            }
            Event::InvocationEnded { invocation, result, usage, .. } => {
                self.end_invocation(*invocation, Some(*result), *usage, ts);
            }
            // What was under way then has no end that anybody saw.
            Event::Restarted { .. } => {
                let open: Vec<u64> = self.invocations.keys().copied().collect();
                for invocation in open {
                    self.end_invocation(invocation, None, Usage::default(), ts);
                }
            }
            Event::PhaseDone { phase, done, .. } => self.end_work(run, phase, done, ts),
            Event::Waiting { phase, call, .. } => {
                let told =
                    CallMention { trace_id: *call, tool: String::new(), state: None, at: ts };
                self.call(phase, told);
            }
            Event::Ended { outcome, reason, .. } => {
                if let Some(root) = self.spans.first_mut() {
                    root.facts.insert("windlass.outcome", outcome.as_str().into());
                    root.facts.insert("windlass.reason", reason.as_str().into());
                    root.ending = match outcome {
                        RunOutcome::Pass => Ending::Good,
                        RunOutcome::Blocked
                        | RunOutcome::EscalationRequested
                        | RunOutcome::WaiverRequested => Ending::Bad(reason.clone()),
                    };
                }
            }
            Event::Begun {}
            | Event::PhaseSkipped { .. }
            | Event::Checked { .. }
            | Event::SentBack { .. }
            | Event::Warned { .. }
            | Event::Held(_)
            | Event::Voted(_)
            | Event::Resumed { .. }
            | Event::Continued {}
            | Event::Reviewed { .. }
            | Event::Checkpointed(_)
            | Event::MergePrepared { .. }
            | Event::Merged { .. }
            | Event::Conflicted { .. }
            | Event::RollbackBegun(_)
            | Event::RolledBack { .. }
            | Event::CommitPrepared { .. }
            | Event::Noted { .. } => {}
        }
        self.close_attempts(run, ts);
    }

    /// What happened, told in the span of the phase or of the run.
    fn happen(&mut self, event: &Event, at: Timestamp) {
        let (phase, name, facts) = match event {
            Event::Checked { phase, check, verdict, .. } => (
                Some(phase),
                "check",
                facts([
                    ("windlass.check", check.as_str().into()),
                    ("windlass.verdict", verdict.as_str().into()),
                ]),
            ),
            Event::SentBack { phase, source, verdict, to, count, .. } => (
                Some(phase),
                "redo",
                facts([
                    ("windlass.source", source.as_str().into()),
                    ("windlass.verdict", verdict.as_str().into()),
                    ("windlass.to", to.as_str().into()),
                    ("windlass.count", u64::from(*count).into()),
                ]),
            ),
            Event::Held(held) => (
                None,
                "hold",
                facts([
                    ("windlass.phase", held.phase.as_str().into()),
                    ("windlass.trigger", held.trigger.as_str().into()),
                    ("windlass.number", u64::from(held.number).into()),
                ]),
            ),
            Event::Voted(vote) => {
                (None, "vote", facts([("windlass.decision", vote.decision.as_str().into())]))
            }
            Event::PhaseSkipped { phase, .. } => {
                (None, "skip", facts([("windlass.phase", phase.as_str().into())]))
            }
            Event::Warned { resource, used, limit } => (
                None,
                "budget",
                facts([
                    ("windlass.resource", resource.as_str().into()),
                    ("windlass.used", (*used).into()),
                    ("windlass.limit", (*limit).into()),
                ]),
            ),
            Event::Reviewed { phase, reviewer, verdict, .. } => (
                Some(phase),
                "review",
                facts([
                    ("windlass.reviewer", reviewer.as_str().into()),
                    ("windlass.verdict", verdict.as_str().into()),
                ]),
            ),
            Event::Conflicted { phase, .. } => (Some(phase), "conflict", Facts::new()),
            Event::Merged { phase, .. } => (Some(phase), "merge", Facts::new()),
            Event::RollbackBegun(rollback) => (
                None,
                "rollback",
                facts([("windlass.checkpoint", Fact::Text(rollback.checkpoint.to_string()))]),
            ),
            Event::Resumed { .. } => (None, "resume", Facts::new()),
            Event::Restarted { .. } => (None, "restart", Facts::new()),
            Event::Waiting { phase, call, .. } => {
                (Some(phase), "wait", facts([("windlass.call", Fact::Text(call.to_string()))]))
            }
            Event::Started(_)
            | Event::Begun {}
            | Event::PhaseStarted { .. }
            | Event::InvocationStarted { .. }
            | Event::InvocationEnded { .. }
            | Event::PhaseDone { .. }
            | Event::Checkpointed(_)
            | Event::MergePrepared { .. }
            | Event::RolledBack { .. }
            | Event::Continued {}
            | Event::CommitPrepared { .. }
            | Event::Noted { .. }
            | Event::Ended { .. } => return,
        };
        let at_phase = phase.and_then(|phase| self.attempt_of(phase)).map(|(at, _)| at);
        if let Some(span) = self.spans.get_mut(at_phase.unwrap_or_default()) {
            span.happenings.push(Happening { name, at, facts });
        }
    }

    fn begin(&mut self, started: &Started, ts: Timestamp, number: u64) {
        let said = facts([
            ("windlass.run_id", started.run_id.as_str().into()),
            ("windlass.loop", started.plan.id.as_str().into()),
            ("windlass.policy_hash", Fact::Text(started.policy_hash.to_string())),
        ]);
        self.push(Kind::Run, number, format!("run {}", started.plan.id), ts, said);
    }

    fn begin_attempt(&mut self, phase: &str, attempt: u32, ts: Timestamp, number: u64) {
        let said = facts([
            ("windlass.phase", phase.into()),
            ("windlass.attempt", u64::from(attempt).into()),
        ]);
        let at = self.push(Kind::Phase, number, format!("phase {phase}"), ts, said);
        self.attempts.insert(phase.to_owned(), at);
        self.open.insert(phase.to_owned());
    }

    fn end_invocation(
        &mut self,
        invocation: u64,
        result: Option<InvocationResult>,
        usage: Usage,
        ts: Timestamp,
    ) {
        let at = self.invocations.remove(&invocation);
        let Some(span) = at.and_then(|at| self.spans.get_mut(at)) else { return };
        span.end = ts;
        let (outcome, ending) = match result {
            Some(InvocationResult::Success) => ("success", Ending::Good),
            Some(InvocationResult::Failure) => ("failure", Ending::Bad("failure".to_owned())),
            Some(InvocationResult::OnHold) => ("on_hold", Ending::Unset),
            None => ("interrupted", Ending::Bad("interrupted".to_owned())),
        };
        span.facts.insert("windlass.outcome", outcome.into());
        span.ending = ending;
        used(span, usage);
    }

    fn end_work(&mut self, run: &Run, phase: &str, done: &PhaseResult, ts: Timestamp) {
        let verdict = run.position(phase).and_then(|at| {
            let gate = run.phase(at)?.0.gate.as_ref()?;
            let verdict = done.answer.get("verdict")?.as_str()?;
            // Only what the loop has a word for: an answer may say anything.
            gate.verdicts.contains_key(verdict).then(|| verdict.to_owned())
        });
        let at = self.attempt_of(phase).map(|(at, _)| at);
        if let Some(span) = at.and_then(|at| self.spans.get_mut(at)) {
            used(span, done.usage);
            if let Some(verdict) = verdict {
                span.facts.insert("windlass.verdict", Fact::Text(verdict));
            }
            if let Some(failure) = &done.failure {
                span.facts.insert("windlass.failure", failure.class.as_str().into());
            }
        }
        for CallRecord { trace_id, tool, state, .. } in &done.calls {
            let (trace_id, tool, state) = (*trace_id, tool.clone(), Some(*state));
            self.call(phase, CallMention { trace_id, tool, state, at: ts });
        }
    }

    /// Remembers a call; one that waited and then ended is told once, as it ended.
    fn call(&mut self, phase: &str, call: CallMention) {
        if let Some(at) = self.positions.get(&call.trace_id) {
            let known = self.calls.get_mut(*at).filter(|(known, _)| known.state.is_none());
            if let Some((known, _)) = known {
                *known = call;
            }
        } else if let Some((_, span)) = self.attempt_of(phase) {
            let parent = span.id;
            self.positions.insert(call.trace_id, self.calls.len());
            self.calls.push((call, parent));
        }
    }

    /// Ends the spans of attempts that are no longer running.
    fn close_attempts(&mut self, run: &Run, ts: Timestamp) {
        let running = |phase: &String| status(run, phase) == Some(PhaseStatus::Running);
        let ended: Vec<String> = self.open.extract_if(.., |phase| !running(phase)).collect();
        for phase in ended {
            self.close_attempt(run, &phase, ts);
        }
    }

    fn close_attempt(&mut self, run: &Run, phase: &str, ts: Timestamp) {
        let status = status(run, phase);
        let at = self.attempts.get(phase).copied();
        let Some(span) = at.and_then(|at| self.spans.get_mut(at)) else { return };
        let Some(status) = status else { return };
        span.end = ts;
        let failure = match span.facts.get("windlass.failure") {
            Some(Fact::Text(class)) => Some(class.clone()),
            Some(Fact::Count(_) | Fact::Flag(_)) | None => None,
        };
        let (outcome, ending) = match (status, failure) {
            (_, Some(class)) => ("failed", Ending::Bad(class)),
            (PhaseStatus::Failed, None) => ("failed", Ending::Bad("failed".to_owned())),
            (PhaseStatus::Complete, None) => ("complete", Ending::Good),
            // To be done again: it was done, and found wanting.
            (PhaseStatus::Pending, None) => ("sent_back", Ending::Bad("sent_back".to_owned())),
            (PhaseStatus::Skipped, None) => ("skipped", Ending::Unset),
            (PhaseStatus::Running, None) => ("running", Ending::Unset),
        };
        span.facts.insert("windlass.outcome", outcome.into());
        span.ending = ending;
    }

    fn attempt_of(&self, phase: &str) -> Option<(usize, &Span)> {
        let at = *self.attempts.get(phase)?;
        Some((at, self.spans.get(at)?))
    }

    fn push(
        &mut self,
        kind: Kind,
        number: u64,
        name: String,
        start: Timestamp,
        facts: Facts,
    ) -> usize {
        let id = SpanId::of(self.trace_id, kind, number);
        let parent = self.spans.first().map(|root| root.id);
        let (happenings, ending) = (Vec::new(), Ending::Unset);
        self.spans.push(Span {
            id,
            parent,
            kind,
            name,
            start,
            end: start,
            facts,
            happenings,
            ending,
        });
        self.spans.len() - 1
    }

    fn adopt(&mut self, at: usize, parent: Option<SpanId>) {
        if let (Some(span), Some(parent)) = (self.spans.get_mut(at), parent) {
            span.parent = Some(parent);
        }
    }

    /// Ends the open spans at the journal's end and adds the spans of calls.
    fn finish(mut self, run: &Run, store: &dyn Store) -> Vec<Span> {
        let end = run.last_at.unwrap_or(Timestamp::EPOCH);
        for phase in std::mem::take(&mut self.open) {
            self.close_attempt(run, &phase, end);
        }
        for at in std::mem::take(&mut self.invocations).into_values() {
            if let Some(span) = self.spans.get_mut(at) {
                span.end = end;
            }
        }
        let state = run.head.state.map_or("", State::as_str);
        let (tokens, cost) = (run.spent.tokens, run.spent.cost_micros);
        if let Some(root) = self.spans.first_mut() {
            root.facts.insert("windlass.state", state.into());
            root.facts.insert("windlass.tokens", tokens.into());
            root.facts.insert("windlass.cost_micros", cost.into());
            root.facts.insert("windlass.accounted", Fact::Flag(!run.spent.unaccounted));
        }
        for (call, parent) in std::mem::take(&mut self.calls) {
            self.spans.push(call_span(store, call, parent));
        }
        self.spans
    }
}

fn status(run: &Run, phase: &str) -> Option<PhaseStatus> {
    run.phases.get(run.position(phase)?).map(|state| state.status)
}

/// Adds tokens and cost where they were counted.
fn used(span: &mut Span, usage: Usage) {
    if usage == Usage::default() {
        return;
    }
    span.facts.insert("gen_ai.usage.input_tokens", usage.input_tokens.into());
    span.facts.insert("gen_ai.usage.output_tokens", usage.output_tokens.into());
    span.facts.insert("windlass.cost_micros", usage.cost_micros.into());
}
