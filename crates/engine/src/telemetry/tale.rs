//! What a run's journal tells as spans.

use std::collections::{BTreeMap, BTreeSet};

use windlass_kernel::run::plan::RunOutcome;
use windlass_kernel::run::{Call, Done, Event, InvocationResult, PhaseStatus, Run, Started, Usage};
use windlass_kernel::{State, Timestamp, TraceId};
use windlass_store::{Record, Store};

use super::call::{Told, call_span};
use super::{Ending, Fact, Facts, Happening, Kind, Span, SpanId};
use crate::book::{PAGE, fold, open_record};
use crate::error::EngineError;

/// A run as far as it was told.
struct Tale {
    run: Run,
    /// The run's own first.
    spans: Vec<Span>,
    /// The newest try of each phase, by the phase's place.
    tries: BTreeMap<usize, usize>,
    /// Those of them that are under way.
    open: BTreeSet<usize>,
    /// Invocations that have not ended.
    invocations: BTreeMap<u64, usize>,
    /// Calls by their places among them.
    told: BTreeMap<TraceId, usize>,
    /// Calls still to be told, with the span they are part of.
    calls: Vec<(Told, SpanId)>,
}

pub(super) fn tell(store: &dyn Store, trace_id: TraceId) -> Result<Vec<Span>, EngineError> {
    let mut tale = Tale {
        run: Run::empty(trace_id),
        spans: Vec::new(),
        tries: BTreeMap::new(),
        open: BTreeSet::new(),
        invocations: BTreeMap::new(),
        told: BTreeMap::new(),
        calls: Vec::new(),
    };
    let mut buffer = Vec::new();
    loop {
        let page = store.list_log_entries(trace_id, tale.run.head.sequence_number, PAGE)?;
        for record in &page {
            let (event, head) = open_record(&tale.run, record, &mut buffer)?;
            fold(&mut tale.run, record, &event, head)?;
            tale.add(record, &event);
        }
        if page.len() < PAGE {
            break;
        }
    }
    Ok(tale.finish(store))
}

fn facts<const N: usize>(all: [(&'static str, Fact); N]) -> Facts {
    BTreeMap::from(all)
}

impl Tale {
    fn add(&mut self, record: &Record, event: &Event) {
        let (ts, number) = (record.entry.ts, record.entry.sequence_number);
        if let Some(root) = self.spans.first_mut() {
            root.end = ts;
        }
        self.happen(event, ts);
        match event {
            Event::Started(started) => self.begin(started, ts, number),
            Event::PhaseStarted { phase, attempt } => self.begin_try(phase, *attempt, ts, number),
            Event::InvocationStarted { phase, invocation, agent, runner, model, .. } => {
                let mut said = facts([
                    ("windlass.phase", phase.as_str().into()),
                    ("windlass.agent", agent.as_str().into()),
                    ("windlass.runner", runner.as_str().into()),
                ]);
                if let Some(model) = model {
                    said.insert("gen_ai.request.model", model.as_str().into());
                }
                let parent = self.try_of(phase).map(|(_, span)| span.id);
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
            Event::PhaseDone { phase, done, .. } => self.end_work(phase, done, ts),
            Event::Waiting { phase, call, .. } => {
                let told = Told { trace_id: *call, tool: String::new(), state: None, at: ts };
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
        self.close_tries(ts);
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
        let at_phase = phase.and_then(|phase| self.try_of(phase)).map(|(at, _)| at);
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

    fn begin_try(&mut self, phase: &str, attempt: u32, ts: Timestamp, number: u64) {
        let Some(place) = self.run.position(phase) else { return };
        let said = facts([
            ("windlass.phase", phase.into()),
            ("windlass.attempt", u64::from(attempt).into()),
        ]);
        let at = self.push(Kind::Phase, number, format!("phase {phase}"), ts, said);
        self.tries.insert(place, at);
        self.open.insert(place);
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

    fn end_work(&mut self, phase: &str, done: &Done, ts: Timestamp) {
        let verdict = self.run.position(phase).and_then(|place| {
            let gate = self.run.phase(place)?.0.gate.as_ref()?;
            let verdict = done.answer.get("verdict")?.as_str()?;
            // Only what the loop has a word for: an answer may say anything.
            gate.verdicts.contains_key(verdict).then(|| verdict.to_owned())
        });
        let at = self.try_of(phase).map(|(at, _)| at);
        if let Some(span) = at.and_then(|at| self.spans.get_mut(at)) {
            used(span, done.usage);
            if let Some(verdict) = verdict {
                span.facts.insert("windlass.verdict", Fact::Text(verdict));
            }
            if let Some(failure) = &done.failure {
                span.facts.insert("windlass.failure", failure.class.as_str().into());
            }
        }
        for Call { trace_id, tool, state, .. } in &done.calls {
            let (trace_id, tool, state) = (*trace_id, tool.clone(), Some(*state));
            self.call(phase, Told { trace_id, tool, state, at: ts });
        }
    }

    /// Remembers a call; one that waited and then ended is told once, as it ended.
    fn call(&mut self, phase: &str, call: Told) {
        if let Some(at) = self.told.get(&call.trace_id) {
            let known = self.calls.get_mut(*at).filter(|(known, _)| known.state.is_none());
            if let Some((known, _)) = known {
                *known = call;
            }
        } else if let Some((_, span)) = self.try_of(phase) {
            let parent = span.id;
            self.told.insert(call.trace_id, self.calls.len());
            self.calls.push((call, parent));
        }
    }

    /// Ends the tries that are no longer under way.
    fn close_tries(&mut self, ts: Timestamp) {
        let done: Vec<usize> = self
            .open
            .iter()
            .copied()
            .filter(|place| {
                let state = self.run.phases.get(*place);
                state.is_none_or(|state| state.status != PhaseStatus::Running)
            })
            .collect();
        for place in done {
            self.open.remove(&place);
            self.close_try(place, ts);
        }
    }

    fn close_try(&mut self, place: usize, ts: Timestamp) {
        let status = self.run.phases.get(place).map(|state| state.status);
        let at = self.tries.get(&place).copied();
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

    fn try_of(&self, phase: &str) -> Option<(usize, &Span)> {
        let at = *self.tries.get(&self.run.position(phase)?)?;
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
        let id = SpanId::of(self.run.head.trace_id, kind, number);
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

    /// Ends what is still under way where the journal does, and tells the calls.
    fn finish(mut self, store: &dyn Store) -> Vec<Span> {
        let end = self.run.last_at.unwrap_or(Timestamp::EPOCH);
        for place in std::mem::take(&mut self.open) {
            self.close_try(place, end);
        }
        for at in std::mem::take(&mut self.invocations).into_values() {
            if let Some(span) = self.spans.get_mut(at) {
                span.end = end;
            }
        }
        let state = self.run.head.state.map_or("", State::as_str);
        let (tokens, cost) = (self.run.spent.tokens, self.run.spent.cost_micros);
        if let Some(root) = self.spans.first_mut() {
            root.facts.insert("windlass.state", state.into());
            root.facts.insert("windlass.tokens", tokens.into());
            root.facts.insert("windlass.cost_micros", cost.into());
            root.facts.insert("windlass.accounted", Fact::Flag(!self.run.spent.unaccounted));
        }
        for (call, parent) in std::mem::take(&mut self.calls) {
            self.spans.push(call_span(store, call, parent));
        }
        self.spans
    }
}

/// What was used, where somebody counted.
fn used(span: &mut Span, usage: Usage) {
    if usage == Usage::default() {
        return;
    }
    span.facts.insert("gen_ai.usage.input_tokens", usage.input_tokens.into());
    span.facts.insert("gen_ai.usage.output_tokens", usage.output_tokens.into());
    span.facts.insert("windlass.cost_micros", usage.cost_micros.into());
}
