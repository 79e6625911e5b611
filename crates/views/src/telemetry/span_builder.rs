//! Builds the spans of a run from its journal.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use windlass_engine::EngineError;
use windlass_journal::{Check, Reader};
use windlass_kernel::run::plan::RunOutcome;
use windlass_kernel::run::{
    CallRecord, Event, InvocationResult, PhaseResult, PhaseStatus, Run, Started, Usage, WaitsFor,
};
use windlass_kernel::{Entry, State, Timestamp, TraceId};
use windlass_store::Store;

use super::call_span::{CallMention, call_span};
use super::span_event;
use super::{AttributeValue, Attributes, Span, SpanEvent, SpanId, SpanKind, SpanStatus};

/// Builds the spans of a run while the run is read.
struct SpanBuilder {
    trace_id: TraceId,
    /// The spans; the run's own is the first.
    spans: Vec<Span>,
    /// The span of the newest attempt of each phase.
    attempts: BTreeMap<String, usize>,
    /// Phases whose newest attempt has not ended.
    open: BTreeSet<String>,
    /// Invocations that have not ended.
    invocations: BTreeMap<u64, usize>,
    /// The positions of calls in `calls`.
    positions: BTreeMap<TraceId, usize>,
    /// Calls with their parent spans.
    calls: Vec<(CallMention, SpanId)>,
}

/// Builds the spans of a run.
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

impl SpanBuilder {
    fn add(&mut self, run: &Run, entry: &Entry, event: &Event) {
        let (ts, number) = (entry.ts, entry.sequence_number);
        if let Some(root) = self.spans.first_mut() {
            root.end = ts;
        }
        self.add_event(event, ts);
        match event {
            Event::Started(started) => self.begin(started, ts, number),
            Event::PhaseStarted { phase, attempt } => {
                self.begin_attempt(phase, *attempt, ts, number)
            }
            Event::InvocationStarted {
                phase,
                invocation,
                agent,
                runner,
                model,
                parent: asked_by,
                ..
            } => {
                let mut attributes = Attributes::from([
                    ("windlass.phase", phase.as_str().into()),
                    ("windlass.agent", agent.as_str().into()),
                    ("windlass.runner", runner.as_str().into()),
                ]);
                if let Some(model) = model {
                    attributes.insert("gen_ai.request.model", model.as_str().into());
                }
                let asking = asked_by.and_then(|number| self.invocations.get(&number));
                let asking = asking.and_then(|index| self.spans.get(*index)).map(|span| span.id);
                let parent = asking.or_else(|| self.attempt_of(phase).map(|(_, span)| span.id));
                let index = self.push(
                    SpanKind::Invocation,
                    number,
                    format!("invoke {agent}"),
                    ts,
                    attributes,
                );
                self.set_parent(index, parent);
                self.invocations.insert(*invocation, index);
            }
            Event::InvocationEnded { invocation, result, usage, .. } => {
                self.end_invocation(*invocation, Some(*result), *usage, ts);
            }
            // The ends of the open invocations were never recorded.
            Event::Restarted { .. } => {
                let open: Vec<u64> = self.invocations.keys().copied().collect();
                for invocation in open {
                    self.end_invocation(invocation, None, Usage::default(), ts);
                }
            }
            Event::PhaseDone { phase, done, .. } => self.end_work(run, phase, done, ts),
            Event::Waiting { phase, waits_for: WaitsFor::Call { call }, .. } => {
                let waiting =
                    CallMention { trace_id: *call, tool: String::new(), state: None, at: ts };
                self.add_call(phase, waiting);
            }
            Event::Ended { outcome, reason, .. } => {
                if let Some(root) = self.spans.first_mut() {
                    root.attributes.insert("windlass.outcome", outcome.as_str().into());
                    root.attributes.insert("windlass.reason", reason.as_str().into());
                    root.status = match outcome {
                        RunOutcome::Pass => SpanStatus::Ok,
                        RunOutcome::Blocked
                        | RunOutcome::EscalationRequested
                        | RunOutcome::WaiverRequested => SpanStatus::Error(reason.clone()),
                    };
                }
            }
            Event::Begun {}
            | Event::Setup(_)
            | Event::Integration(_)
            | Event::PhaseSkipped { .. }
            | Event::Checked { .. }
            | Event::SentBack { .. }
            | Event::Warned { .. }
            | Event::Held(_)
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
            | Event::RolledBack { .. }
            | Event::CommitPrepared { .. }
            | Event::Noted { .. }
            | Event::Waiting {
                waits_for: WaitsFor::Agent { .. } | WaitsFor::Budget { .. }, ..
            } => {}
        }
        self.close_attempts(run, ts);
    }

    /// Adds an event to the span of its phase or of the run.
    fn add_event(&mut self, event: &Event, at: Timestamp) {
        let Some((phase, name, attributes)) = span_event::describe(event) else { return };
        let phase_span = phase.and_then(|phase| self.attempt_of(phase)).map(|(index, _)| index);
        if let Some(span) = self.spans.get_mut(phase_span.unwrap_or_default()) {
            span.events.push(SpanEvent { name, at, attributes });
        }
    }

    fn begin(&mut self, started: &Started, ts: Timestamp, number: u64) {
        let attributes = Attributes::from([
            ("windlass.run_id", started.run_id.as_str().into()),
            ("windlass.loop", started.plan.id.as_str().into()),
            ("windlass.policy_hash", AttributeValue::Text(started.policy_hash.to_string())),
        ]);
        self.push(SpanKind::Run, number, format!("run {}", started.plan.id), ts, attributes);
    }

    fn begin_attempt(&mut self, phase: &str, attempt: u32, ts: Timestamp, number: u64) {
        let attributes = Attributes::from([
            ("windlass.phase", phase.into()),
            ("windlass.attempt", u64::from(attempt).into()),
        ]);
        let index = self.push(SpanKind::Phase, number, format!("phase {phase}"), ts, attributes);
        self.attempts.insert(phase.to_owned(), index);
        self.open.insert(phase.to_owned());
    }

    fn end_invocation(
        &mut self,
        invocation: u64,
        result: Option<InvocationResult>,
        usage: Usage,
        ts: Timestamp,
    ) {
        let index = self.invocations.remove(&invocation);
        let Some(span) = index.and_then(|index| self.spans.get_mut(index)) else { return };
        span.end = ts;
        let (outcome, status) = match result {
            Some(InvocationResult::Success) => ("success", SpanStatus::Ok),
            Some(InvocationResult::Failure) => ("failure", SpanStatus::Error("failure".to_owned())),
            Some(InvocationResult::OnHold) => ("on_hold", SpanStatus::Unset),
            None => ("interrupted", SpanStatus::Error("interrupted".to_owned())),
        };
        span.attributes.insert("windlass.outcome", outcome.into());
        span.status = status;
        add_usage(span, usage);
    }

    fn end_work(&mut self, run: &Run, phase: &str, done: &PhaseResult, ts: Timestamp) {
        let verdict = run.position(phase).and_then(|index| {
            let gate = run.phase(index)?.0.gate.as_ref()?;
            let verdict = done.answer.get("verdict")?.as_str()?;
            // Only verdicts of the gate: an answer may contain any text.
            gate.verdicts.contains_key(verdict).then(|| verdict.to_owned())
        });
        let index = self.attempt_of(phase).map(|(index, _)| index);
        if let Some(span) = index.and_then(|index| self.spans.get_mut(index)) {
            add_usage(span, done.usage);
            if let Some(verdict) = verdict {
                span.attributes.insert("windlass.verdict", AttributeValue::Text(verdict));
            }
            if let Some(failure) = &done.failure {
                span.attributes.insert("windlass.failure", failure.class.as_str().into());
            }
        }
        for CallRecord { trace_id, tool, state, .. } in &done.calls {
            let (trace_id, tool, state) = (*trace_id, tool.clone(), Some(*state));
            self.add_call(phase, CallMention { trace_id, tool, state, at: ts });
        }
    }

    /// Adds a call; a call that waited and then ended is added once, with its end.
    fn add_call(&mut self, phase: &str, call: CallMention) {
        if let Some(index) = self.positions.get(&call.trace_id) {
            let known = self.calls.get_mut(*index).filter(|(known, _)| known.state.is_none());
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
        let index = self.attempts.get(phase).copied();
        let Some(span) = index.and_then(|index| self.spans.get_mut(index)) else { return };
        let Some(status) = status else { return };
        span.end = ts;
        let failure = match span.attributes.get("windlass.failure") {
            Some(AttributeValue::Text(class)) => Some(class.clone()),
            Some(AttributeValue::Count(_) | AttributeValue::Flag(_)) | None => None,
        };
        let (outcome, status) = match (status, failure) {
            (_, Some(class)) => ("failed", SpanStatus::Error(class)),
            (PhaseStatus::Failed, None) => ("failed", SpanStatus::Error("failed".to_owned())),
            (PhaseStatus::Complete, None) => ("complete", SpanStatus::Ok),
            // The phase was sent back and runs again.
            (PhaseStatus::Pending, None) => {
                ("sent_back", SpanStatus::Error("sent_back".to_owned()))
            }
            (PhaseStatus::Skipped, None) => ("skipped", SpanStatus::Unset),
            (PhaseStatus::Running, None) => ("running", SpanStatus::Unset),
        };
        span.attributes.insert("windlass.outcome", outcome.into());
        span.status = status;
    }

    fn attempt_of(&self, phase: &str) -> Option<(usize, &Span)> {
        let index = *self.attempts.get(phase)?;
        Some((index, self.spans.get(index)?))
    }

    fn push(
        &mut self,
        kind: SpanKind,
        number: u64,
        name: String,
        start: Timestamp,
        attributes: Attributes,
    ) -> usize {
        let id = SpanId::of(self.trace_id, kind, number);
        let parent = self.spans.first().map(|root| root.id);
        let (events, status) = (Vec::new(), SpanStatus::Unset);
        self.spans.push(Span {
            id,
            parent,
            kind,
            name,
            start,
            end: start,
            attributes,
            events,
            status,
        });
        self.spans.len() - 1
    }

    fn set_parent(&mut self, index: usize, parent: Option<SpanId>) {
        if let (Some(span), Some(parent)) = (self.spans.get_mut(index), parent) {
            span.parent = Some(parent);
        }
    }

    /// Ends the open spans at the end of the journal and adds the spans of calls.
    fn finish(mut self, run: &Run, store: &dyn Store) -> Vec<Span> {
        let end = run.last_at.unwrap_or(Timestamp::EPOCH);
        for phase in std::mem::take(&mut self.open) {
            self.close_attempt(run, &phase, end);
        }
        for index in std::mem::take(&mut self.invocations).into_values() {
            if let Some(span) = self.spans.get_mut(index) {
                span.end = end;
            }
        }
        let state = run.head.state.map_or("", State::as_str);
        let (tokens, cost) = (run.spent.tokens, run.spent.cost_micros);
        if let Some(root) = self.spans.first_mut() {
            root.attributes.insert("windlass.state", state.into());
            root.attributes.insert("windlass.tokens", tokens.into());
            root.attributes.insert("windlass.cost_micros", cost.into());
            root.attributes
                .insert("windlass.accounted", AttributeValue::Flag(!run.spent.unaccounted));
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

/// Adds tokens and cost if they were counted.
fn add_usage(span: &mut Span, usage: Usage) {
    if usage == Usage::default() {
        return;
    }
    span.attributes.insert("gen_ai.usage.input_tokens", usage.input_tokens.into());
    span.attributes.insert("gen_ai.usage.output_tokens", usage.output_tokens.into());
    span.attributes.insert("windlass.cost_micros", usage.cost_micros.into());
}
