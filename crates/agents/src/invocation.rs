//! One invocation of an agent: its client works in its cell, its calls are made here, until it has answered.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread::Scope;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_broker::RouteSwitch;
use windlass_engine::EngineError;
use windlass_engine::WorkResult;
use windlass_engine::executors::{AgentJob, BUDGET_EXHAUSTED, CallResult, ToolCaller};
use windlass_kernel::run::{NoteKind, Usage};
use windlass_kernel::{Code, Timestamp};
use windlass_mcp::{ToolAnswer, ToolUse};

use crate::answer::{FINISH, check_finish, text_of};
use crate::calls::{AskedCall, Prepared, note_result, prepare};
use crate::client::{Client, ClientEvent, Guard};
use crate::forwarder::News;
use crate::host::{Message, Offer};
use crate::replay::Replay;

/// How often an agent may correct an answer that is not accepted.
pub(crate) const CORRECTIONS_MAX: u32 = 3;
/// How often in a row the model may answer without a call of a tool that exists: its client, which checks calls
/// itself, may let none through.
const IDLE_ANSWERS_MAX: u32 = 50;
/// How often the clock and the client's process are looked at.
pub(crate) const TICK: Duration = Duration::from_millis(250);
/// How long an answer waits for calls that were made together with it.
const ANSWER_WAIT: Duration = Duration::from_millis(100);
/// How long a client that closed its output may take to exit.
const EXIT_WAIT: Duration = Duration::from_secs(5);
/// How long a client that closed its connection to our tools may take to exit. Until then its calls fail.
const DISCONNECTED_WAIT: Duration = Duration::from_millis(500);
/// The longest text of a client that is kept for a message.
const TEXT_CHARS_MAX: usize = 300;

/// A call that was made, and where its answer goes.
#[derive(Debug)]
pub(crate) struct MadeCall {
    result: Result<CallResult, EngineError>,
    answer: Sender<ToolAnswer>,
}

/// How an invocation ended.
pub(crate) enum End {
    /// The agent answered.
    Answer(Value),
    /// It failed: the class and the reason.
    Failed(&'static str, String),
    /// The client exited without saying that it ended: the class and the reason, unless it was killed.
    Exited(&'static str, String),
    /// The client lost its connection to our tools, and may have told its model wrong results.
    Disconnected,
    /// A call waits for a person, or the run was stopped.
    Left(WorkResult),
}

/// The end of an invocation, and what is known besides.
pub(crate) struct Ended {
    pub end: End,
    pub cost: Usage,
    /// When its model can be used again, if it cannot be used now.
    pub until: Option<Timestamp>,
}

/// What an invocation needs while it runs.
pub(crate) struct Invocation<'a> {
    pub client: &'a dyn Client,
    pub job: &'a AgentJob<'a>,
    pub tools: &'a ToolCaller<'a>,
    pub offer: &'a Offer,
    /// The session of the client.
    pub session: &'a str,
    /// How long nothing may happen.
    pub silence: Duration,
    pub guard: Guard,
    /// What earlier starts of its client used.
    pub spent: Usage,
    /// Calls before an interruption, which the agent may make again.
    pub replay: Replay,
    /// When the agent began, at the first start of its client.
    pub began: Instant,
    pub sender: Sender<Message>,
    /// Its connection to its model.
    pub model: RouteSwitch,
}

/// What is known of a client while it works.
#[derive(Default)]
struct Progress {
    listed: bool,
    corrections: u32,
    /// The answers of the model since the last call.
    idle_answers: u32,
    in_progress: usize,
    last_call: Option<Instant>,
    /// The answer, and where its receipt goes.
    answer: Option<(Value, Sender<ToolAnswer>)>,
    /// Set when no more calls are taken, because the run waits or stops.
    left: Option<WorkResult>,
    failure: Option<(&'static str, String)>,
    /// What the model's last answer was instead of one.
    trouble: Option<(&'static str, String)>,
    until: Option<Timestamp>,
    last_text: String,
    cost_micros: u64,
    output_ended: Option<Instant>,
    disconnected: Option<Instant>,
    /// Whether the client said that it ended, well or not.
    said_end: bool,
    /// The tokens that the model has used.
    used: Usage,
    /// The session that was noted last.
    session: Option<String>,
    /// What the client did that it should not, of those that are only watched.
    watched: BTreeSet<String>,
    /// The ids of the calls that arrived here, as the client passes them on.
    call_ids: BTreeSet<String>,
    /// How many calls arrived here, and how many the client says have ended.
    calls: usize,
    ended_calls: usize,
}

impl<'a> Invocation<'a> {
    /// Serves the client until the agent has answered, the client has ended, or it must be stopped.
    pub(crate) fn run<'scope, 'env: 'scope>(
        mut self,
        scope: &'scope Scope<'scope, 'env>,
        receiver: &Receiver<Message>,
        exited: &dyn Fn() -> bool,
    ) -> Result<Ended, EngineError>
    where
        'a: 'scope,
    {
        let mut state = Progress::default();
        let mut last_news = Instant::now();
        let end = loop {
            let mut is_idle = false;
            let wait = if state.answer.is_some() { ANSWER_WAIT } else { TICK };
            match receiver.recv_timeout(wait) {
                Ok(message) => {
                    last_news = Instant::now();
                    if let Some(end) = self.handle(message, &mut state, scope)? {
                        break end;
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => is_idle = true,
            }
            if self.tools.is_stopped()? {
                state.left = Some(WorkResult::stopped());
            }
            if state.in_progress > 0 {
                // A call may wait for its tool as long as the tool's own limit allows.
                last_news = Instant::now();
                continue;
            }
            if let Some(left) = state.left.take() {
                break End::Left(left);
            }
            if let Some((class, reason)) = state.failure.take() {
                break End::Failed(class, reason);
            }
            let is_quiet = state.last_call.is_none_or(|at| at.elapsed() >= ANSWER_WAIT);
            if is_quiet && let Some((answer, told)) = state.answer.take() {
                let text = "The answer is recorded. Stop now.";
                let _ = told.send(ToolAnswer::Result(json!({
                    "content": [{ "type": "text", "text": text }], "isError": false,
                })));
                break End::Answer(answer);
            }
            if self.job.time_left.is_some_and(|left| self.began.elapsed() >= left) {
                break End::Failed(
                    "timeout",
                    "the working time of the phase is used up".to_owned(),
                );
            }
            if last_news.elapsed() >= self.silence {
                let seconds = self.silence.as_secs();
                break End::Failed("silence", format!("nothing happened for {seconds} seconds"));
            }
            let is_disconnected =
                state.disconnected.is_some_and(|at| at.elapsed() >= DISCONNECTED_WAIT);
            if is_disconnected && !state.said_end {
                break ended_without_answer(&state);
            }
            let is_over = state.output_ended.is_some_and(|at| at.elapsed() >= EXIT_WAIT);
            // What it said last comes first.
            if (is_idle && exited()) || is_over {
                break ended_without_answer(&state);
            }
        };
        let cost = Usage { cost_micros: state.cost_micros, ..Usage::default() };
        Ok(Ended { end, cost, until: state.until })
    }

    fn handle<'scope, 'env: 'scope>(
        &mut self,
        message: Message,
        state: &mut Progress,
        scope: &'scope Scope<'scope, 'env>,
    ) -> Result<Option<End>, EngineError>
    where
        'a: 'scope,
    {
        match message {
            Message::Listed => state.listed = true,
            Message::Disconnected if state.listed => {
                state.disconnected.get_or_insert_with(Instant::now);
                // The model must not be told that calls failed which were never made.
                self.model.close("the client has lost its tools");
            }
            Message::Disconnected => {}
            Message::Call { tool_use, answer } => {
                state.calls += 1;
                state.last_call = Some(Instant::now());
                state.call_ids.extend(tool_use.call_id.clone());
                if tool_use.name == FINISH {
                    return Ok(self.finish(&tool_use.args, answer, state));
                }
                self.call(tool_use, answer, state, scope);
            }
            Message::Called(made) => {
                state.in_progress = state.in_progress.saturating_sub(1);
                let MadeCall { result, answer } = *made;
                match result?.finished() {
                    Ok(Ok(report)) => {
                        note_result(self.job, &report);
                        // A client that is gone does not read it; the call is recorded all the same.
                        let _ = answer.send(ToolAnswer::Result(result_of(&report)));
                    }
                    Ok(Err(reason)) => {
                        let _ = answer.send(ToolAnswer::Error(reason));
                    }
                    Err(unfinished) => state.left = Some(unfinished),
                }
            }
            Message::Line(line) => {
                if let Ok(value) = serde_json::from_str::<Value>(&line) {
                    for event in self.client.read(&value) {
                        self.event(event, state)?;
                    }
                }
            }
            Message::OutputEnded => state.output_ended = Some(Instant::now()),
            Message::Forwarder(news) => match news {
                News::ForeignTool(name) => {
                    self.unguarded(
                        format!("the client offered its model the tool `{name}`"),
                        state,
                    )?;
                }
                News::Trouble { class, reason, is_final, until } => {
                    self.job.transcript.add("trouble", json!({ "class": class, "reason": reason }));
                    state.until = until;
                    let slot = if is_final { &mut state.failure } else { &mut state.trouble };
                    *slot = Some((class, reason));
                }
                News::Answered => {
                    (state.trouble, state.until) = (None, None);
                    state.idle_answers += 1;
                    if state.idle_answers > IDLE_ANSWERS_MAX {
                        let reason =
                            format!("the model answered {IDLE_ANSWERS_MAX} times without a call");
                        state.failure = Some(("no_answer", reason));
                    }
                }
                News::Used(usage) => self.limit_usage(usage, state),
            },
        }
        Ok(None)
    }

    /// Takes the answer, or says what is wrong with it. It counts when the calls that were made together with it are done.
    fn finish(
        &self,
        args: &Value,
        answer: Sender<ToolAnswer>,
        state: &mut Progress,
    ) -> Option<End> {
        match check_finish(args, &self.job.verdicts) {
            Ok(()) if state.answer.as_ref().is_some_and(|(first, _)| first != args) => {
                let reason = "it gave two different answers".to_owned();
                Some(End::Failed("validation_error", reason))
            }
            Ok(()) => {
                state.answer = Some((args.clone(), answer));
                None
            }
            Err(reason) => {
                state.corrections += 1;
                let _ = answer.send(ToolAnswer::Error(format!("not accepted: {reason}")));
                let used_up = state.corrections > CORRECTIONS_MAX;
                used_up.then(|| {
                    End::Failed(
                        "validation_error",
                        format!("its answer was not accepted: {reason}"),
                    )
                })
            }
        }
    }

    /// Makes a call on a thread of its own, or answers it from the record.
    fn call<'scope, 'env: 'scope>(
        &mut self,
        tool_use: ToolUse,
        answer: Sender<ToolAnswer>,
        state: &mut Progress,
        scope: &'scope Scope<'scope, 'env>,
    ) where
        'a: 'scope,
    {
        if state.left.is_some() || state.failure.is_some() {
            let _ = answer.send(ToolAnswer::Error("the run does not go on now".to_owned()));
            return;
        }
        let id = match tool_use.unique_id() {
            Some(id) => format!("{}:{id}", self.session),
            None => format!("{}:{}:{}", self.session, tool_use.session, tool_use.ordinal),
        };
        let prepared = prepare(
            self.job,
            self.offer,
            &mut self.replay,
            AskedCall { name: &tool_use.name, args: tool_use.args, id },
        );
        let request = match prepared {
            Prepared::Call(request) => {
                state.idle_answers = 0;
                request
            }
            Prepared::Recorded(call) => {
                state.idle_answers = 0;
                let _ = answer.send(ToolAnswer::Result(result_of(&call.report)));
                return;
            }
            Prepared::Unknown(reason) => {
                let _ = answer.send(ToolAnswer::Error(reason));
                return;
            }
        };
        state.in_progress += 1;
        let (tools, sender) = (self.tools, self.sender.clone());
        scope.spawn(move || {
            let result = tools.call(request);
            // The receiver lives as long as this thread's scope.
            let _ = sender.send(Message::Called(Box::new(MadeCall { result, answer })));
        });
    }

    fn event(&self, event: ClientEvent, state: &mut Progress) -> Result<(), EngineError> {
        match event {
            ClientEvent::Session(session) => {
                if state.session.as_ref() == Some(&session) {
                    return Ok(());
                }
                let body = json!({ "invocation": self.job.invocation, "session": session });
                self.job.recorder.note(NoteKind::Agent, body)?;
                state.session = Some(session);
            }
            ClientEvent::Tools(names) => {
                let foreign = names.into_iter().find(|name| !self.is_expected(name));
                if let Some(name) = foreign {
                    self.unguarded(format!("the client has the tool `{name}`"), state)?;
                }
            }
            ClientEvent::ServerMissing(status) => {
                let reason =
                    format!("the client did not connect to the tools of Windlass ({status})");
                state.failure = Some(("crash", reason));
            }
            ClientEvent::ToolEnded { failed: true, .. } => {}
            ClientEvent::ToolEnded { id, name, failed: false } => {
                state.ended_calls += 1;
                let is_recorded = match &id {
                    Some(id) => state.call_ids.contains(id),
                    None => state.ended_calls <= state.calls,
                };
                let is_ours = name.as_ref().is_none_or(|name| self.is_expected(name));
                if !is_recorded || !is_ours {
                    let tool = name.or(id).unwrap_or_default();
                    self.unguarded(
                        format!("the client used a tool (`{tool}`) without a record"),
                        state,
                    )?;
                }
            }
            ClientEvent::Text(text) => {
                self.job.transcript.add("text", json!({ "text": text }));
                state.last_text = text.chars().take(TEXT_CHARS_MAX).collect();
            }
            ClientEvent::Cost(micros) => {
                state.cost_micros = micros;
                self.limit_usage(state.used, state);
            }
            // Without its tools it cannot have ended well, and cannot know why.
            ClientEvent::Ended(Some(_)) if state.disconnected.is_some() => {}
            ClientEvent::Ended(reason) => {
                state.said_end = true;
                if let Some(reason) = reason {
                    state.last_text = reason;
                }
            }
        }
        Ok(())
    }

    /// Stops the invocation when it has used up the budget.
    fn limit_usage(&self, usage: Usage, state: &mut Progress) {
        state.used = usage;
        let all = self
            .spent
            .plus(usage)
            .plus(Usage { cost_micros: state.cost_micros, ..Usage::default() })
            .plus(self.tools.used_by_subagents());
        if let Some(resource) = self.job.budget.exceeded(all) {
            let reason = format!("the budget of {} is used up", resource.as_str());
            state.failure = Some((BUDGET_EXHAUSTED, reason));
        }
    }

    /// The client can do more than it may: that ends its work, or is recorded once if it is only watched.
    fn unguarded(&self, what: String, state: &mut Progress) -> Result<(), EngineError> {
        match self.guard {
            Guard::Caged => {
                let code = Code::AgentUnguarded;
                state.failure =
                    Some(("unguarded", format!("[{code}] {what}, which is not of Windlass")));
            }
            Guard::Watched if state.watched.insert(what.clone()) => {
                let body = json!({ "invocation": self.job.invocation, "unguarded": what });
                self.job.recorder.note(NoteKind::Agent, body)?;
            }
            Guard::Watched => {}
        }
        Ok(())
    }

    /// Whether a client's tool is one of ours, or one that can do nothing.
    fn is_expected(&self, name: &str) -> bool {
        self.client.harmless_tools().contains(&name)
            || self
                .offer
                .names()
                .any(|ours| self.client.shown_names(ours).iter().any(|shown| shown == name))
    }
}

/// Why a client that has exited gave no answer.
fn ended_without_answer(state: &Progress) -> End {
    if let Some((class, reason)) = &state.trouble {
        return End::Failed(class, reason.clone());
    }
    if state.disconnected.is_some() && !state.said_end {
        return End::Disconnected;
    }
    if !state.listed {
        let said = &state.last_text;
        return End::Exited("crash", format!("it ended without asking for its tools: {said}"));
    }
    let said = if state.last_text.is_empty() { "nothing" } else { &state.last_text };
    let reason = format!("it ended without calling `finish`; it said: {said}");
    match state.said_end {
        true => End::Failed("no_answer", reason),
        false => End::Exited("no_answer", reason),
    }
}

/// The result of an ended call in the form of MCP.
fn result_of(report: &windlass_runtime::CallReport) -> Value {
    let is_error = report.state != windlass_kernel::State::Completed;
    if let Some(content) = report.result.get("content").filter(|content| content.is_array())
        && !is_error
    {
        return json!({ "content": content, "isError": false });
    }
    json!({ "content": [{ "type": "text", "text": text_of(report) }], "isError": is_error })
}
