//! One invocation of a program.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread::Scope;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_engine::executors::{AgentJob, BUDGET_EXHAUSTED, CallResult, EarlierCall, ToolCaller};
use windlass_engine::{EngineError, WorkResult};
use windlass_kernel::run::Usage;
use windlass_kernel::{Digest, State, Timestamp};

use super::protocol::Spoken;
use super::streams::{LINE_BYTES_MAX, Message};
use crate::answer::{check_finish, text_of};
use crate::brief::Brief;
use crate::calls::{AskedCall, Prepared, note_result, prepare};
use crate::forwarder::now;
use crate::host::Offer;
use crate::invocation::{CORRECTIONS_MAX, TICK};
use crate::replay::Replay;

/// How many calls may be made at once.
const CALLS_MAX: usize = 64;
/// How many lines may wait until they are taken.
const UNREAD_MAX: usize = 1_000;
/// How long a program that closed its output may take to exit.
const EXIT_WAIT: Duration = Duration::from_secs(5);

/// How an invocation ended.
pub(super) enum End {
    Answer(Value),
    Failed(&'static str, String),
    /// A call waits for a person, or the run was stopped.
    Left(WorkResult),
}

/// One invocation.
pub(super) struct Work<'a> {
    job: &'a AgentJob<'a>,
    tools: &'a ToolCaller<'a>,
    offer: Offer,
    session: String,
    pub silence: Duration,
    /// Lines to the program.
    lines: SyncSender<Value>,
    sender: Sender<Message>,
    /// Calls before an interruption, which the program may ask for again.
    replay: Replay,
    /// The ids of all calls, each with the digest of what it asked for.
    known: BTreeMap<String, Digest>,
    in_progress: BTreeSet<String>,
    /// Lines that are not yet taken.
    unread: VecDeque<Spoken>,
    left: Option<WorkResult>,
    corrections: u32,
    pub usage: Usage,
    /// When the program can be tried again, if it says that it cannot work now.
    pub until: Option<Timestamp>,
}

impl<'a> Work<'a> {
    pub(super) fn new(
        job: &'a AgentJob<'a>,
        tools: &'a ToolCaller<'a>,
        session: String,
        lines: SyncSender<Value>,
        sender: Sender<Message>,
    ) -> Self {
        Self {
            job,
            tools,
            offer: Offer::new(job.agent, tools.definitions(), &job.verdicts),
            session,
            silence: Duration::MAX,
            lines,
            sender,
            replay: Replay::default(),
            known: BTreeMap::new(),
            in_progress: BTreeSet::new(),
            unread: VecDeque::new(),
            left: None,
            corrections: 0,
            usage: Usage::default(),
            until: None,
        }
    }

    /// Tells the program what to do.
    pub(super) fn begin(&mut self, earlier: Vec<EarlierCall>) {
        let brief = Brief::new(self.job, &earlier);
        self.replay = Replay::from_start(earlier);
        let tool = |tool: windlass_mcp::ToolInfo| json!({ "name": tool.name, "description": tool.description, "input_schema": tool.input_schema });
        let tools: Vec<Value> = self.offer.infos().into_iter().map(tool).collect();
        self.tell(json!({
            "type": "start", "brief": brief.prompt, "system": brief.system, "tools": tools,
            "verdicts": self.job.verdicts,
        }));
    }

    /// Sends a line. A program that reads nothing is silent in the end.
    fn tell(&self, line: Value) {
        let _ = self.lines.try_send(line);
    }

    /// Serves the program until it has answered, has ended, or must be stopped.
    pub(super) fn run<'scope, 'env: 'scope>(
        &mut self,
        scope: &'scope Scope<'scope, 'env>,
        receiver: &Receiver<Message>,
        exited: &dyn Fn() -> bool,
    ) -> Result<End, EngineError>
    where
        'a: 'scope,
    {
        let began = Instant::now();
        let mut last_news = Instant::now();
        let mut output_ended = None;
        let mut failure = None;
        loop {
            let mut is_idle = false;
            match receiver.recv_timeout(TICK) {
                Ok(Message::OutputEnded) => output_ended = Some(Instant::now()),
                Ok(Message::Called { id, result }) => {
                    last_news = Instant::now();
                    self.called(&id, *result)?;
                }
                Ok(Message::LongLine) => {
                    let reason = format!("it wrote a line of more than {LINE_BYTES_MAX} bytes");
                    failure = failure.or(Some(("validation_error", reason)));
                }
                Ok(Message::Line(line)) => {
                    last_news = Instant::now();
                    match Spoken::read(&line) {
                        Ok(_) if self.unread.len() >= UNREAD_MAX => {
                            let reason = format!(
                                "it is {UNREAD_MAX} lines ahead of the answers to its calls"
                            );
                            failure = failure.or(Some(("validation_error", reason)));
                        }
                        Ok(spoken) => self.unread.push_back(spoken),
                        Err(reason) => failure = failure.or(Some(("validation_error", reason))),
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => is_idle = true,
            }
            while failure.is_none()
                && self.left.is_none()
                && let Some(spoken) = self.next()
            {
                match self.take(spoken, scope) {
                    Ok(None) => {}
                    Ok(Some(end)) => return Ok(end),
                    Err(reason) => failure = Some(("validation_error", reason)),
                }
            }
            if self.tools.is_stopped()? {
                self.left = Some(WorkResult::stopped());
            }
            if !self.in_progress.is_empty() {
                // A call may wait for its tool as long as the tool's own limit allows.
                last_news = Instant::now();
                continue;
            }
            if let Some(left) = self.left.take() {
                return Ok(End::Left(left));
            }
            if let Some((class, reason)) = failure {
                return Ok(End::Failed(class, reason));
            }
            if self.job.time_left.is_some_and(|left| began.elapsed() >= left) {
                let reason = "the working time of the phase is used up".to_owned();
                return Ok(End::Failed("timeout", reason));
            }
            if last_news.elapsed() >= self.silence {
                let seconds = self.silence.as_secs();
                let reason = format!("nothing happened for {seconds} seconds");
                return Ok(End::Failed("silence", reason));
            }
            let is_over = output_ended.is_some_and(|at: Instant| at.elapsed() >= EXIT_WAIT);
            // What it wrote last comes first.
            if (is_idle && output_ended.is_some() && exited()) || is_over {
                return Ok(End::Failed("no_answer", "it ended without an answer".to_owned()));
            }
        }
    }

    /// The next line that can be taken: there is a limit of calls at once, and an answer comes after all calls before it.
    fn next(&mut self) -> Option<Spoken> {
        let waits = match self.unread.front()? {
            Spoken::Call { .. } => self.in_progress.len() >= CALLS_MAX,
            Spoken::Finish(_) => !self.in_progress.is_empty(),
            Spoken::Usage(_) | Spoken::Text(_) | Spoken::Unavailable { .. } => false,
        };
        if waits { None } else { self.unread.pop_front() }
    }

    /// Takes a line of the program; an error says what is wrong with it.
    fn take<'scope, 'env: 'scope>(
        &mut self,
        spoken: Spoken,
        scope: &'scope Scope<'scope, 'env>,
    ) -> Result<Option<End>, String>
    where
        'a: 'scope,
    {
        match spoken {
            Spoken::Call { id, name, arguments } => self.call(id, &name, arguments, scope)?,
            Spoken::Usage(usage) => {
                self.usage = self.usage.plus(usage);
                if let Some(resource) =
                    self.job.budget.exceeded(self.usage.plus(self.tools.used_by_subagents()))
                {
                    let reason = format!("the budget of {} is used up", resource.as_str());
                    return Ok(Some(End::Failed(BUDGET_EXHAUSTED, reason)));
                }
            }
            Spoken::Text(text) => self.job.transcript.add("text", json!({ "text": text })),
            Spoken::Unavailable { class, reason, retry_after } => {
                self.until = retry_after.and_then(|seconds| {
                    let at = now().saturating_add(seconds);
                    Timestamp::from_unix_ms(i64::try_from(at).ok()?.checked_mul(1000)?).ok()
                });
                return Ok(Some(End::Failed(class, reason)));
            }
            Spoken::Finish(answer) => match check_finish(&answer, &self.job.verdicts) {
                Ok(()) => return Ok(Some(End::Answer(answer))),
                Err(reason) => {
                    self.corrections += 1;
                    if self.corrections > CORRECTIONS_MAX {
                        return Err(format!("its answer was not accepted: {reason}"));
                    }
                    self.tell(json!({ "type": "refused", "reason": reason }));
                }
            },
        }
        Ok(None)
    }

    /// Makes a call on a thread of its own, or answers it from the record.
    fn call<'scope, 'env: 'scope>(
        &mut self,
        id: String,
        name: &str,
        arguments: Value,
        scope: &'scope Scope<'scope, 'env>,
    ) -> Result<(), String>
    where
        'a: 'scope,
    {
        let digest = Digest::of(json!([name, arguments]).to_string().as_bytes());
        if self.known.insert(id.clone(), digest).is_some_and(|known| known != digest) {
            return Err(format!("it used the id `{id}` for two different calls"));
        }
        if self.in_progress.contains(&id) {
            return Ok(());
        }
        let asked = AskedCall { name, args: arguments, id: format!("{}:{id}", self.session) };
        let request = match prepare(self.job, &self.offer, &mut self.replay, asked) {
            Prepared::Call(request) => request,
            Prepared::Recorded(call) => {
                self.report(&id, &call.report);
                return Ok(());
            }
            Prepared::Unknown(reason) => {
                self.reply(&id, true, reason, None);
                return Ok(());
            }
        };
        self.in_progress.insert(id.clone());
        let (tools, sender) = (self.tools, self.sender.clone());
        scope.spawn(move || {
            let result = Box::new(tools.call(request));
            // The receiver lives as long as this thread's scope.
            let _ = sender.send(Message::Called { id, result });
        });
        Ok(())
    }

    fn called(
        &mut self,
        id: &str,
        result: Result<CallResult, EngineError>,
    ) -> Result<(), EngineError> {
        self.in_progress.remove(id);
        match result?.finished() {
            Ok(Ok(report)) => {
                note_result(self.job, &report);
                self.report(id, &report);
            }
            Ok(Err(reason)) => self.reply(id, true, reason, None),
            Err(unfinished) => self.left = Some(unfinished),
        }
        Ok(())
    }

    fn report(&self, id: &str, report: &windlass_runtime::CallReport) {
        let is_error = report.state != State::Completed;
        let structured = Some(&report.result).filter(|result| result.is_object());
        self.reply(id, is_error, text_of(report), structured);
    }

    fn reply(&self, id: &str, is_error: bool, text: String, structured: Option<&Value>) {
        let mut line = json!({ "type": "result", "id": id, "is_error": is_error, "text": text });
        if let (Some(structured), Some(fields)) = (structured, line.as_object_mut()) {
            fields.insert("structured".to_owned(), structured.clone());
        }
        self.tell(line);
    }
}
