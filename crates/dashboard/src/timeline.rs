//! When a run worked and when it waited, and the agents and programs that it started.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use windlass_journal::Runs;
use windlass_kernel::Timestamp;
use windlass_kernel::run::{
    Event, InvocationResult, NoteKind, PhaseStatus, Run, Usage, VoteDecision, checkpoint_name,
};
use windlass_views::{Follower, RecordedEvent};

use crate::problem::Problem;
use crate::project::Project;

/// The most spans and invocations that are told; the newest are kept.
const ITEMS_MAX: usize = 1_000;

/// When a run worked and when it waited.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Timeline {
    /// The spans, in the order of their beginning.
    pub spans: Vec<Span>,
    /// The agents and programs that were started, in their order.
    pub invocations: Vec<InvocationItem>,
    /// What people have decided, in its order.
    pub decisions: Vec<DecisionItem>,
    /// How many older spans, invocations or decisions are left out.
    pub left_out: usize,
}

/// What a person has decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DecisionItem {
    /// The phase that waited.
    pub phase: String,
    /// Who.
    pub by: String,
    /// What, in words: `approved`, `rejected`, `sent back`, `withdrawn`, `rolled back`.
    pub decision: String,
    /// The phase or checkpoint to which the run went back.
    pub to: Option<String>,
    /// Why.
    pub reason: String,
    /// The conditions of an approval, or what is to be done better.
    pub texts: Vec<String>,
    /// Whether the call was approved with other arguments.
    pub edited: bool,
    /// When.
    #[schemars(with = "String")]
    pub at: Timestamp,
}

/// What a run did in a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpanKind {
    /// It worked on a phase.
    Work,
    /// It waited for a person, or for an agent that could not be reached.
    Wait,
    /// No process was at work on it.
    Interruption,
}

impl SpanKind {
    /// The word for people.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Work => "works",
            Self::Wait => "waits",
            Self::Interruption => "interrupted",
        }
    }

    /// The name in style sheets.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Work => "work",
            Self::Wait => "wait",
            Self::Interruption => "interruption",
        }
    }
}

/// A span of time of a phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Span {
    /// The phase.
    pub phase: String,
    /// The attempt.
    pub attempt: u32,
    /// What it did.
    pub kind: SpanKind,
    /// Its beginning.
    #[schemars(with = "String")]
    pub from: Timestamp,
    /// Its end; `null` if it goes on.
    #[schemars(with = "Option<String>")]
    pub to: Option<Timestamp>,
}

/// An agent or program that was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InvocationItem {
    /// Its number in the run.
    pub invocation: u64,
    /// The phase.
    pub phase: String,
    /// The attempt.
    pub attempt: u32,
    /// The agent or program.
    pub agent: String,
    /// The runner.
    pub runner: String,
    /// The model, if there is one.
    pub model: Option<String>,
    /// The invocation whose agent asked for it.
    pub parent: Option<u64>,
    /// When it was started.
    #[schemars(with = "String")]
    pub started_at: Timestamp,
    /// How it ended: `success`, `failure`, `on hold`, or `interrupted` if its process is gone; `null` if it goes on.
    pub result: Option<String>,
    /// How long it took, as far as it is known.
    pub duration_ms: Option<u64>,
    /// Input tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Cost, in millionths of a dollar.
    pub cost_micros: u64,
    /// Whether some usage was not counted.
    pub unaccounted: bool,
    /// A note.
    pub note: String,
    /// The digest of its transcript, if one is stored.
    pub transcript: Option<String>,
}

/// Reads the timeline of a run.
///
/// # Errors
/// [`Problem`] if there is no such run, or it fails verification.
pub fn read(project: &dyn Project, name: &str) -> Result<Timeline, Problem> {
    let store = project.store()?;
    let trace_id = Runs::new(std::sync::Arc::clone(&store)).find(name)?;
    let is_live = store.is_held(&store.load_state(trace_id)?)?;
    let mut builder = Builder::default();
    let mut follower = Follower::new(trace_id);
    follower.catch_up(store.as_ref(), &mut |run, event| builder.add(run, event))?;
    if let Some(last) = builder.last.filter(|_| !is_live) {
        builder.interrupt_invocations(last);
    }
    Ok(builder.finish())
}

#[derive(Default)]
struct Builder {
    spans: Vec<Span>,
    /// The spans that go on, by their index.
    open: Vec<usize>,
    invocations: BTreeMap<u64, InvocationItem>,
    decisions: Vec<DecisionItem>,
    last: Option<Timestamp>,
}

impl Builder {
    fn add(&mut self, run: &Run, recorded: RecordedEvent<'_>) {
        let ts = recorded.ts;
        match recorded.event {
            Event::PhaseStarted { phase, attempt } => {
                self.begin(phase, *attempt, SpanKind::Work, ts)
            }
            Event::Held(held) => {
                self.end_all(ts);
                let attempt = run.position(&held.phase).and_then(|position| run.phase(position));
                let attempt = attempt.map_or(0, |(_, state)| state.attempt);
                self.begin(&held.phase, attempt, SpanKind::Wait, ts);
            }
            Event::Resumed { .. } => self.end_all(ts),
            Event::Ended { .. } => {
                self.interrupt_invocations(ts);
                self.end_all(ts);
            }
            Event::RollbackBegun(rollback) => {
                self.interrupt_invocations(self.last.unwrap_or(ts));
                self.end_all(ts);
                let record = run.checkpoints.iter().find(|one| one.id == rollback.checkpoint);
                let name = record.and_then(|one| {
                    let (phase, _) = run.phase(one.phase)?;
                    Some(checkpoint_name(one.at, &phase.id, one.version))
                });
                let to = Some(name.unwrap_or_else(|| rollback.checkpoint.to_string()));
                let decision = decided(run, &rollback.by, "rolled back", &rollback.reason, ts);
                self.decisions.push(DecisionItem { to, ..decision });
            }
            Event::Voted(vote) => {
                let (word, to, texts) = match (&vote.send_back, vote.decision) {
                    (Some(back), _) => ("sent back", Some(back.to.clone()), &back.findings),
                    (None, VoteDecision::Approved) => ("approved", None, &vote.conditions),
                    (None, VoteDecision::Rejected) => ("rejected", None, &vote.conditions),
                };
                let decision = decided(run, &vote.by.name, word, &vote.reason, ts);
                let (texts, edited) = (texts.clone(), vote.edit.is_some());
                self.decisions.push(DecisionItem { to, texts, edited, ..decision });
            }
            Event::Revoked(revoked) => {
                let decision = decided(run, &revoked.by.name, "withdrawn", &revoked.reason, ts);
                self.decisions.push(decision);
            }
            Event::Continued {} => self.begin_running(run, ts),
            Event::Restarted { .. } => {
                let from = self.last.unwrap_or(ts);
                let stopped: Vec<(String, u32)> = self
                    .open
                    .iter()
                    .filter_map(|index| self.spans.get(*index))
                    .map(|span| (span.phase.clone(), span.attempt))
                    .collect();
                self.interrupt_invocations(from);
                self.end_all(from);
                for (phase, attempt) in stopped {
                    self.begin(&phase, attempt, SpanKind::Interruption, from);
                }
                self.end_all(ts);
                self.begin_running(run, ts);
            }
            Event::InvocationStarted {
                phase,
                attempt,
                invocation,
                agent,
                runner,
                model,
                parent,
            } => {
                let item = InvocationItem {
                    invocation: *invocation,
                    phase: phase.clone(),
                    attempt: *attempt,
                    agent: agent.clone(),
                    runner: runner.clone(),
                    model: model.clone(),
                    parent: *parent,
                    started_at: ts,
                    result: None,
                    duration_ms: None,
                    input_tokens: 0,
                    output_tokens: 0,
                    cost_micros: 0,
                    unaccounted: false,
                    note: String::new(),
                    transcript: None,
                };
                self.invocations.insert(*invocation, item);
            }
            Event::InvocationEnded { invocation, result, usage, duration_ms, note } => {
                self.end_invocation(*invocation, *result, usage, *duration_ms, note);
            }
            Event::Noted { what: NoteKind::Agent, body } => self.note(body),
            Event::Started(_)
            | Event::Begun {}
            | Event::Setup(_)
            | Event::PhaseSkipped { .. }
            | Event::Checked { .. }
            | Event::PhaseDone { .. }
            | Event::Reviewed { .. }
            | Event::Checkpointed(_)
            | Event::MergePrepared { .. }
            | Event::Merged { .. }
            | Event::Conflicted { .. }
            | Event::RolledBack { .. }
            | Event::Waiting { .. }
            | Event::SentBack { .. }
            | Event::Warned { .. }
            | Event::CommitPrepared { .. }
            | Event::Noted { .. }
            | Event::Integration(_) => {}
        }
        self.end_settled(run, ts);
        self.last = Some(ts);
    }

    fn begin(&mut self, phase: &str, attempt: u32, kind: SpanKind, from: Timestamp) {
        self.open.push(self.spans.len());
        self.spans.push(Span { phase: phase.to_owned(), attempt, kind, from, to: None });
    }

    /// The phases that go on after a hold or a restart.
    fn begin_running(&mut self, run: &Run, ts: Timestamp) {
        for (phase, state) in run.all_phases() {
            if state.status == PhaseStatus::Running {
                self.begin(&phase.id, state.attempt, SpanKind::Work, ts);
            }
        }
    }

    fn end_all(&mut self, ts: Timestamp) {
        for index in std::mem::take(&mut self.open) {
            if let Some(span) = self.spans.get_mut(index) {
                span.to = Some(ts);
            }
        }
    }

    /// Ends the work on phases that are not at work any more.
    fn end_settled(&mut self, run: &Run, ts: Timestamp) {
        let Self { open, spans, .. } = self;
        open.retain(|index| {
            let Some(span) = spans.get_mut(*index) else { return false };
            let state = run.position(&span.phase).and_then(|position| run.phase(position));
            let runs = state.is_some_and(|(_, state)| state.status == PhaseStatus::Running);
            let goes_on = span.kind == SpanKind::Wait || runs;
            if !goes_on {
                span.to = Some(ts);
            }
            goes_on
        });
    }

    /// Agents and programs whose process is gone do not go on.
    fn interrupt_invocations(&mut self, at: Timestamp) {
        for item in self.invocations.values_mut().filter(|item| item.result.is_none()) {
            let ms = at.unix_ms() - item.started_at.unix_ms();
            item.result = Some("interrupted".to_owned());
            item.duration_ms = Some(u64::try_from(ms).unwrap_or_default());
        }
    }

    fn end_invocation(
        &mut self,
        invocation: u64,
        result: InvocationResult,
        usage: &Usage,
        duration_ms: u64,
        note: &str,
    ) {
        let Some(item) = self.invocations.get_mut(&invocation) else { return };
        let word = match result {
            InvocationResult::Success => "success",
            InvocationResult::Failure => "failure",
            InvocationResult::OnHold => "on hold",
        };
        item.result = Some(word.to_owned());
        item.duration_ms = Some(duration_ms);
        item.input_tokens = usage.input_tokens;
        item.output_tokens = usage.output_tokens;
        item.cost_micros = usage.cost_micros;
        item.unaccounted = usage.unaccounted;
        note.clone_into(&mut item.note);
    }

    /// A note about an agent names its transcript, which belongs to the newest invocation of that agent.
    fn note(&mut self, body: &Value) {
        let text = |key: &str| body.get(key).and_then(Value::as_str);
        let attempt = body.get("attempt").and_then(Value::as_u64);
        let (Some(transcript), Some(phase), Some(agent)) =
            (text("transcript"), text("phase"), text("agent"))
        else {
            return;
        };
        let mut newest_first = self.invocations.values_mut().rev();
        let found = newest_first.find(|item| {
            item.phase == phase && item.agent == agent && attempt == Some(u64::from(item.attempt))
        });
        if let Some(item) = found {
            item.transcript = Some(transcript.to_owned());
        }
    }

    fn finish(self) -> Timeline {
        let (spans, less) = newest(self.spans);
        let (invocations, fewer) = newest(self.invocations.into_values().collect());
        let (decisions, older) = newest(self.decisions);
        Timeline { spans, invocations, decisions, left_out: less + fewer + older }
    }
}

/// A decision about what the run waits for.
fn decided(run: &Run, by: &str, decision: &str, reason: &str, at: Timestamp) -> DecisionItem {
    let phase = run.hold.as_ref().map(|hold| hold.held.phase.clone()).unwrap_or_default();
    DecisionItem {
        phase,
        by: by.to_owned(),
        decision: decision.to_owned(),
        to: None,
        reason: reason.to_owned(),
        texts: Vec::new(),
        edited: false,
        at,
    }
}

/// The newest items, and how many are left out.
fn newest<T>(mut items: Vec<T>) -> (Vec<T>, usize) {
    let over = items.len().saturating_sub(ITEMS_MAX);
    items.drain(..over);
    (items, over)
}
