//! The loop: the model is asked, its calls are made, until it has answered.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_broker::{ModelTrouble, Usage as Reported};
use windlass_engine::executors::{AgentJob, BUDGET_EXHAUSTED, CallResult, ToolCaller, ToolRequest};
use windlass_engine::{EngineError, WorkResult};
use windlass_kernel::run::Usage;
use windlass_kernel::{State, Timestamp};
use windlass_mcp::ToolInfo;

use super::ModelSettings;
use super::context::{Context, Trim, trim};
use super::exchange::{Exchanged, Interruption, Watch, exchange, pause};
use super::turn::{CallReply, Entry, ModelCall, Request, Turn};
use crate::answer::{FINISH, check_finish, text_of};
use crate::brief::Brief;
use crate::calls::{AskedCall, Prepared, note_result, prepare};
use crate::forwarder::{PATIENCE_SECONDS, Used, class_of, describe, now, until_of};
use crate::host::Offer;
use crate::invocation::CORRECTIONS_MAX;
use crate::replay::Replay;

/// How often the model is asked for one answer.
const TRIES_MAX: u32 = 3;
/// How long to wait before the second and the third time.
const BACKOFF: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];
/// How many answers one invocation may take.
const TURNS_MAX: u32 = 500;
/// How many calls of one answer are made, and how many at once.
const CALLS_MAX: usize = 128;
const CALLS_AT_ONCE: usize = 16;
/// How often a model that calls no tool is told to answer.
const REMINDERS_MAX: u32 = 2;
/// The longest text of a model that is kept for a message.
const TEXT_CHARS_MAX: usize = 300;

/// How an invocation ended.
pub(super) enum End {
    Answer(Value),
    Failed(&'static str, String),
    /// A call waits for a person, or the run was stopped.
    Left(WorkResult),
}

impl From<Interruption> for End {
    fn from(interruption: Interruption) -> Self {
        match interruption {
            Interruption::Stopped => Self::Left(WorkResult::stopped()),
            Interruption::TimeUp => {
                Self::Failed("timeout", "the working time of the phase is used up".to_owned())
            }
        }
    }
}

/// The answer to a request, or why there is none.
enum Asked {
    Turn { turn: Turn, is_cut: bool },
    End(End),
}

/// One invocation.
pub(super) struct Work<'a> {
    settings: &'a ModelSettings,
    job: &'a AgentJob<'a>,
    tools: &'a ToolCaller<'a>,
    watch: &'a Watch<'a>,
    model: String,
    session: String,
    offer: Offer,
    infos: Vec<ToolInfo>,
    system: String,
    transcript: Vec<Entry>,
    /// Calls before an interruption, which the model may ask for again.
    replay: Replay,
    context: Context,
    pub used: Used,
    pub cost_micros: u64,
    /// The ids of all calls, as the journal has them.
    ids: BTreeSet<String>,
    corrections: u32,
    /// When the model can be asked again, if it cannot now.
    pub until: Option<Timestamp>,
}

/// What an invocation begins with.
pub(super) struct Conversation {
    pub model: String,
    pub session: String,
    pub brief: Brief,
    pub offer: Offer,
    /// Calls before an interruption.
    pub replay: Replay,
}

impl<'a> Work<'a> {
    pub(super) fn new(
        settings: &'a ModelSettings,
        job: &'a AgentJob<'a>,
        tools: &'a ToolCaller<'a>,
        watch: &'a Watch<'a>,
        conversation: Conversation,
    ) -> Self {
        let Conversation { model, session, brief, offer, replay } = conversation;
        Self {
            settings,
            job,
            tools,
            watch,
            model,
            session,
            infos: offer.infos(),
            offer,
            system: brief.system,
            transcript: vec![Entry::User(brief.prompt)],
            replay,
            context: Context::new(settings.context_tokens),
            used: Used::default(),
            cost_micros: 0,
            ids: BTreeSet::new(),
            corrections: 0,
            until: None,
        }
    }

    /// Goes on until the model has answered, cannot, or must wait.
    pub(super) fn run(&mut self) -> Result<End, EngineError> {
        let mut reminders = 0;
        for _ in 0..TURNS_MAX {
            let (mut turn, is_cut) = match self.ask()? {
                Asked::Turn { turn, is_cut } => (turn, is_cut),
                Asked::End(end) => return Ok(end),
            };
            if !turn.text.trim().is_empty() {
                self.job.transcript.add("text", json!({ "text": turn.text }));
            }
            let spent = Usage { cost_micros: self.cost_micros, ..self.used.usage };
            let spent = spent.plus(self.tools.used_by_subagents());
            if let Some(resource) = self.job.budget.exceeded(spent) {
                let reason = format!("the budget of {} is used up", resource.as_str());
                return Ok(End::Failed(BUDGET_EXHAUSTED, reason));
            }
            for (number, call) in turn.calls.iter_mut().enumerate() {
                // Results are matched with calls by their ids.
                if call.id.is_empty() {
                    call.id = format!("call_{}_{number}", self.used.requests);
                }
            }
            self.transcript.push(Entry::Assistant(turn.clone()));
            if turn.calls.is_empty() {
                reminders += 1;
                if reminders > REMINDERS_MAX {
                    let said: String = turn.text.trim().chars().take(TEXT_CHARS_MAX).collect();
                    let reason = format!("it did not call `finish`; it said: {said}");
                    return Ok(End::Failed("no_answer", reason));
                }
                let told = if is_cut {
                    "Your answer was cut because it was too long. Go on in smaller steps, by calling tools."
                } else {
                    "You called no tool. Go on with your work; when it is done, call `finish` with your answer."
                };
                self.transcript.push(Entry::User(told.to_owned()));
                continue;
            }
            reminders = 0;
            match self.call(&turn.calls)? {
                Ok(results) => self.transcript.push(Entry::Results(results)),
                Err(end) => return Ok(end),
            }
        }
        Ok(End::Failed("no_answer", format!("it gave no answer in {TURNS_MAX} turns")))
    }

    /// Asks for the next answer; again after a trouble that passes.
    fn ask(&mut self) -> Result<Asked, EngineError> {
        let mut tries = 0;
        let mut was_full = false;
        loop {
            let body = self.body();
            let bytes = u64::try_from(body.len()).unwrap_or(u64::MAX);
            let (trouble, message) = match exchange(self.settings, body, self.watch)? {
                Exchanged::Answer { turn, is_cut, usage } => {
                    self.account(usage);
                    let read = usage.input.saturating_add(usage.cached_read);
                    self.context.count(read.saturating_add(usage.cached_write), bytes);
                    return Ok(Asked::Turn { turn, is_cut });
                }
                Exchanged::Trouble { trouble, message, usage } => {
                    usage.into_iter().for_each(|usage| self.account(usage));
                    (trouble, message)
                }
                Exchanged::Unusable { reason } => {
                    return Ok(Asked::End(End::Failed("model_unavailable", reason)));
                }
                Exchanged::Interrupted(interruption) => return Ok(Asked::End(interruption.into())),
            };
            if trouble == ModelTrouble::ContextFull
                && !was_full
                && trim(&mut self.transcript, u64::MAX, Trim::All) > 0
            {
                was_full = true;
                continue;
            }
            tries += 1;
            let Some(time) = waiting_time(trouble, tries, now()) else {
                let (class, _) = class_of(trouble, now());
                self.until = until_of(trouble);
                return Ok(Asked::End(End::Failed(class, describe(trouble, &message, now()))));
            };
            if let Some(interruption) = pause(time, self.watch)? {
                return Ok(Asked::End(interruption.into()));
            }
        }
    }

    /// The next request. Old results are removed if it would be too long.
    fn body(&mut self) -> Vec<u8> {
        let body = self.request();
        let bytes = u64::try_from(body.len()).unwrap_or(u64::MAX);
        match self.context.excess(bytes) {
            Some(excess) if trim(&mut self.transcript, excess, Trim::Needed) > 0 => self.request(),
            Some(_) | None => body,
        }
    }

    fn request(&self) -> Vec<u8> {
        let request = self.settings.api.request(&Request {
            model: &self.model,
            system: &self.system,
            transcript: &self.transcript,
            tools: &self.infos,
            output_max: self.settings.output_tokens,
        });
        request.to_string().into_bytes()
    }

    fn account(&mut self, usage: Reported) {
        self.used.add(usage);
        self.cost_micros = self.cost_micros.saturating_add(self.settings.prices.cost(usage));
    }

    /// Makes the calls of an answer and returns their results, or the end of the work.
    fn call(&mut self, calls: &[ModelCall]) -> Result<Result<Vec<CallReply>, End>, EngineError> {
        let mut replies: Vec<Option<(String, bool)>> = vec![None; calls.len()];
        let mut requests = Vec::new();
        let mut answers = Vec::new();
        for (at, (call, reply)) in calls.iter().zip(&mut replies).enumerate() {
            let args = match call.parsed() {
                Ok(_) if at >= CALLS_MAX => {
                    Err(format!("at most {CALLS_MAX} calls can be made at once"))
                }
                parsed => parsed,
            };
            let args = match args {
                Ok(args) => args,
                Err(reason) => {
                    *reply = Some((reason, true));
                    continue;
                }
            };
            if call.name == FINISH {
                answers.push((at, args));
                continue;
            }
            let id = self.id_of(call);
            let asked = AskedCall { name: &call.name, args, id };
            match prepare(self.job, &self.offer, &mut self.replay, asked) {
                Prepared::Call(request) => requests.push((at, request)),
                Prepared::Recorded(call) => *reply = Some(told(&call.report)),
                Prepared::Unknown(reason) => *reply = Some((reason, true)),
            }
        }
        if let Some(end) = self.make(requests, &mut replies)? {
            return Ok(Err(end));
        }
        for (at, answer) in answers {
            let reason = match check_finish(&answer, &self.job.verdicts) {
                Ok(()) => return Ok(Err(End::Answer(answer))),
                Err(reason) => reason,
            };
            self.corrections += 1;
            if self.corrections > CORRECTIONS_MAX {
                let reason = format!("its answer was not accepted: {reason}");
                return Ok(Err(End::Failed("validation_error", reason)));
            }
            if let Some(reply) = replies.get_mut(at) {
                *reply = Some((format!("not accepted: {reason}"), true));
            }
        }
        let results = calls.iter().zip(replies).map(|(call, reply)| {
            let (text, is_error) = reply.unwrap_or_default();
            CallReply { id: call.id.clone(), text, is_error }
        });
        Ok(Ok(results.collect()))
    }

    /// Makes calls, several at once; returns the end of the work if one of them waits or is stopped.
    fn make(
        &self,
        mut requests: Vec<(usize, ToolRequest)>,
        replies: &mut [Option<(String, bool)>],
    ) -> Result<Option<End>, EngineError> {
        let tools = self.tools;
        while !requests.is_empty() {
            let rest = requests.split_off(requests.len().min(CALLS_AT_ONCE));
            let made: Vec<(usize, Option<Result<CallResult, EngineError>>)> =
                std::thread::scope(|scope| {
                    let threads: Vec<_> = requests
                        .into_iter()
                        .map(|(at, request)| (at, scope.spawn(move || tools.call(request))))
                        .collect();
                    threads.into_iter().map(|(at, thread)| (at, thread.join().ok())).collect()
                });
            requests = rest;
            let mut left = None;
            for (at, result) in made {
                let reply = match result.transpose()?.map(WorkResult::finished) {
                    Some(Ok(Ok(report))) => {
                        note_result(self.job, &report);
                        Some(told(&report))
                    }
                    Some(Ok(Err(reason))) => Some((reason, true)),
                    Some(Err(unfinished)) => {
                        left = Some(unfinished);
                        None
                    }
                    None => return Ok(Some(End::Failed("crash", "a call broke off".to_owned()))),
                };
                if let Some(place) = replies.get_mut(at) {
                    *place = reply;
                }
            }
            if let Some(left) = left {
                return Ok(Some(End::Left(left)));
            }
        }
        Ok(None)
    }

    /// The id of a call. Some local servers give the same one twice; then the number of the call is added.
    fn id_of(&mut self, call: &ModelCall) -> String {
        let mut id = format!("{}:{}", self.session, call.id);
        if self.ids.contains(&id) {
            id = format!("{id}:{}", self.ids.len());
        }
        self.ids.insert(id.clone());
        id
    }
}

/// The result of an ended call for the model, and whether it is a failure.
fn told(report: &windlass_runtime::CallReport) -> (String, bool) {
    (text_of(report), report.state != State::Completed)
}

/// How long to wait before the model is asked again; `None` if it is not.
fn waiting_time(trouble: ModelTrouble, tries: u32, now: u64) -> Option<Duration> {
    if tries >= TRIES_MAX {
        return None;
    }
    let at = usize::try_from(tries.saturating_sub(1)).ok()?;
    let backoff = BACKOFF.get(at).copied();
    match trouble {
        ModelTrouble::RateLimited { until: Some(until) } => {
            let seconds = until.saturating_sub(now);
            (seconds <= PATIENCE_SECONDS).then(|| Duration::from_secs(seconds.max(1)))
        }
        ModelTrouble::RateLimited { until: None }
        | ModelTrouble::Overloaded
        | ModelTrouble::ServerError
        | ModelTrouble::Unreachable
        | ModelTrouble::Cut => backoff,
        ModelTrouble::NoCredit
        | ModelTrouble::Authentication
        | ModelTrouble::ContextFull
        | ModelTrouble::Refusal
        | ModelTrouble::UnknownModel
        | ModelTrouble::Invalid
        | ModelTrouble::Silence => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_limit_is_waited_for_as_long_as_patience_lasts() {
        let limited = |seconds| {
            let until = Some(1000 + seconds);
            waiting_time(ModelTrouble::RateLimited { until }, 1, 1000).map(|time| time.as_secs())
        };
        assert_eq!(limited(0), Some(1));
        assert_eq!(limited(PATIENCE_SECONDS), Some(PATIENCE_SECONDS));
        assert_eq!(limited(PATIENCE_SECONDS + 1), None);
        let overloaded = |tries| waiting_time(ModelTrouble::Overloaded, tries, 0);
        assert_eq!([1, 2, 3].map(overloaded), [Some(BACKOFF[0]), Some(BACKOFF[1]), None]);
        assert_eq!(waiting_time(ModelTrouble::NoCredit, 1, 0), None);
    }
}
