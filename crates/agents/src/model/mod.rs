//! Runs agents with a model that is asked directly: a tool loop of our own, without a client.

mod anthropic;
mod api;
mod chat;
mod context;
mod exchange;
mod responses;
#[cfg(test)]
mod tests;
mod turn;
mod work;

use std::time::{Duration, Instant};

use serde_json::json;
use windlass_broker::Usage as Reported;
use windlass_engine::executors::{Agent, AgentJob, Runner, ToolCaller};
use windlass_engine::{EngineError, WorkResult};
use windlass_kernel::run::NoteKind;

pub use api::ModelApi;

use crate::brief::Brief;
use crate::calls::session_id;
use crate::forwarder::Endpoint;
use crate::host::Offer;
use crate::replay::Replay;
use exchange::Interruption;
use work::{Conversation, End, Work};

/// The settings of a model.
#[derive(Clone, Debug)]
pub struct ModelSettings {
    /// The name under which it is chosen.
    pub name: String,
    /// How its service is talked to.
    pub api: ModelApi,
    /// The model, unless the agent names one.
    pub model: Option<String>,
    /// Where the service is, and the credential.
    pub endpoint: Endpoint,
    /// How long nothing may arrive.
    pub silence: Duration,
    /// The size of the model's context, in tokens.
    pub context_tokens: u64,
    /// The most tokens of one answer.
    pub output_tokens: Option<u64>,
    /// What tokens cost.
    pub prices: Prices,
}

/// What a million tokens cost, in millionths of a dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    /// Tokens of requests.
    pub input: u64,
    /// Tokens of answers.
    pub output: u64,
    /// Tokens of requests that the service read from its cache.
    pub cached: u64,
}

impl Prices {
    /// A price of dollars for a million tokens; `None` if it is no amount.
    #[must_use]
    pub fn per_million(dollars: f64) -> Option<u64> {
        crate::usage::micros(dollars)
    }

    /// What a response cost, in millionths of a dollar, rounded up.
    fn cost(self, used: Reported) -> u64 {
        let input = u128::from(used.input) + u128::from(used.cached_write);
        let parts = [
            (input, self.input),
            (u128::from(used.output), self.output),
            (u128::from(used.cached_read), self.cached),
        ];
        let sum = parts.iter().fold(0_u128, |sum, (tokens, price)| {
            sum.saturating_add(tokens.saturating_mul(u128::from(*price)))
        });
        u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

/// Runs agents with one model.
pub struct ModelRunner {
    settings: ModelSettings,
}

impl ModelRunner {
    /// Creates the runner.
    #[must_use]
    pub const fn new(settings: ModelSettings) -> Self {
        Self { settings }
    }
}

impl Runner for ModelRunner {
    fn name(&self) -> &str {
        &self.settings.name
    }

    fn model(&self, agent: &Agent) -> Option<String> {
        agent.model.clone().or_else(|| self.settings.model.clone())
    }

    fn run(&self, job: &AgentJob<'_>, tools: &ToolCaller<'_>) -> Result<WorkResult, EngineError> {
        let name = &self.settings.name;
        let Some(model) = self.model(job.agent) else {
            let reason = format!(
                "{name}: no model is named: set `model` below [agents.{name}] in your settings"
            );
            return Ok(WorkResult::failed("model_unavailable", reason));
        };
        let began = Instant::now();
        let earlier = match tools.earlier_calls()?.finished() {
            Ok(earlier) => earlier,
            Err(unfinished) => return Ok(unfinished),
        };
        let offer = Offer::new(job.agent, tools.definitions(), &job.verdicts);
        let session = session_id(job);
        job.recorder.note(
            NoteKind::Agent,
            json!({
                "invocation": job.invocation,
                "client": "model",
                "phase": job.phase,
                "api": self.settings.api.name(),
                "model": model,
                "session": session,
            }),
        )?;
        let watch = || {
            if tools.is_stopped()? {
                return Ok(Some(Interruption::Stopped));
            }
            let is_over = job.time_left.is_some_and(|left| began.elapsed() >= left);
            Ok(is_over.then_some(Interruption::TimeUp))
        };
        let brief = Brief::new(job, &earlier);
        let replay = Replay::from_start(earlier);
        let conversation = Conversation { model, session, brief, offer, replay };
        let mut work = Work::new(&self.settings, job, tools, &watch, conversation);
        let end = work.run()?;
        let mut usage = work.used.usage;
        usage.cost_micros = work.cost_micros;
        job.recorder.note(
            NoteKind::Agent,
            json!({
                "invocation": job.invocation,
                "cached_tokens": work.used.cached,
                "requests": work.used.requests,
            }),
        )?;
        let result = match end {
            End::Answer(answer) => WorkResult::answer(answer),
            End::Failed(class, reason) => {
                WorkResult::failed(class, format!("{name}: {reason}")).with_until(work.until)
            }
            End::Left(result) => result,
        };
        Ok(result.with_usage(usage))
    }
}
