//! Why a model did not answer, in the words of all services.

use serde_json::Value;

use super::reset;
use crate::event::{End, Unreachable};

/// The longest message of an error that is shown.
const SHOWN_CHARS_MAX: usize = 200;

/// How much of a message is searched.
const MESSAGE_CHARS_MAX: usize = 4000;

/// Why a model did not answer as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelTrouble {
    /// Too much was asked for in a time.
    RateLimited {
        /// When it may be asked again, in seconds since 1970, if the service says so.
        until: Option<u64>,
    },
    /// The service has too much to do.
    Overloaded,
    /// The account has no credit, or no plan that includes this.
    NoCredit,
    /// The credential is missing, wrong, or not good enough.
    Authentication,
    /// The conversation is too long for the model.
    ContextFull,
    /// The model or the service refuses the content.
    Refusal,
    /// There is no such model, or not for this account.
    UnknownModel,
    /// The service does not accept the request.
    Invalid,
    /// The service failed.
    ServerError,
    /// The service could not be reached.
    Unreachable,
    /// The response broke off, whoever broke it off.
    Cut,
    /// Nothing was sent for too long.
    Silence,
}

impl ModelTrouble {
    /// Its stable name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RateLimited { .. } => "rate-limited",
            Self::Overloaded => "overloaded",
            Self::NoCredit => "no-credit",
            Self::Authentication => "authentication",
            Self::ContextFull => "context-full",
            Self::Refusal => "refusal",
            Self::UnknownModel => "unknown-model",
            Self::Invalid => "invalid",
            Self::ServerError => "server-error",
            Self::Unreachable => "unreachable",
            Self::Cut => "cut",
            Self::Silence => "silence",
        }
    }

    /// The trouble of an exchange that ended before its response began; `None` if it did not.
    #[must_use]
    pub const fn of_end(end: End) -> Option<Self> {
        match end {
            End::Done => None,
            End::Idle | End::Failed(Unreachable::ResponseTimeout | Unreachable::ConnectTimeout) => {
                Some(Self::Silence)
            }
            End::Failed(
                Unreachable::Unresolved
                | Unreachable::ResolveTimeout
                | Unreachable::Connect
                | Unreachable::Tls,
            ) => Some(Self::Unreachable),
            End::Failed(Unreachable::Response | Unreachable::ResponseEncoded) => {
                Some(Self::ServerError)
            }
            End::Broken | End::Refused(_) | End::Stopped => Some(Self::Cut),
        }
    }

    /// The trouble of a response that has begun and has no proper end.
    pub(super) const fn of_break(end: End) -> Self {
        match end {
            End::Idle | End::Failed(Unreachable::ResponseTimeout) => Self::Silence,
            End::Done | End::Broken | End::Refused(_) | End::Failed(_) | End::Stopped => Self::Cut,
        }
    }
}

/// When the service can be asked again, as its headers say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) now: u64,
    pub(super) retry_after: Option<u64>,
    pub(super) limit_reset: Option<u64>,
}

impl Waiting {
    pub(super) fn read(headers: &[(&str, &[u8])], now: u64) -> Self {
        let retry_after = reset::retry_after(headers, now);
        Self { now, retry_after, limit_reset: reset::limit_reset(headers, now) }
    }
}

const CONTEXT: [&str; 4] = [
    "context_length_exceeded",
    "model_context_window_exceeded",
    "request_too_large",
    "context_window_exceeded",
];
const CONTEXT_WORDS: [&str; 7] = [
    "prompt is too long",
    "input is too long",
    "maximum context length",
    "context window",
    "context length",
    "exceeds the maximum number of tokens",
    "request_too_large",
];
const CREDIT: [&str; 6] = [
    "insufficient_quota",
    "billing_error",
    "billing_not_active",
    "usage_not_included",
    "insufficient_credits",
    "payment_required",
];
const CREDIT_WORDS: [&str; 3] =
    ["credit balance is too low", "insufficient credits", "billing to be enabled"];
const LOGIN: [&str; 6] = [
    "authentication_error",
    "permission_error",
    "invalid_api_key",
    "unauthenticated",
    "permission_denied",
    "api_key_invalid",
];
const RATE: [&str; 5] = [
    "rate_limit_error",
    "rate_limit_exceeded",
    "usage_limit_reached",
    "resource_exhausted",
    "too_many_requests",
];
const LOAD: [&str; 6] = [
    "overloaded_error",
    "server_is_overloaded",
    "slow_down",
    "unavailable",
    "engine_overloaded",
    "service_unavailable",
];
const MODEL: [&str; 2] = ["model_not_found", "model_not_supported"];
const MISSING: [&str; 2] = ["not_found_error", "not_found"];
const CONTENT: [&str; 5] = [
    "content_filter",
    "content_policy_violation",
    "invalid_prompt",
    "cyber_policy",
    "responsibleaipolicyviolation",
];
const REQUEST: [&str; 4] =
    ["invalid_request_error", "invalid_argument", "failed_precondition", "unsupported_value"];

/// The trouble behind an error of a service: its status, unless it came inside of a stream, and the
/// error in its body, if there is one.
pub(super) fn classify(
    status: Option<u16>,
    error: Option<&Value>,
    waiting: Waiting,
) -> ModelTrouble {
    let found = Found::read(error);
    let status = status.or(found.status);
    let is = |statuses: &[u16]| status.is_some_and(|status| statuses.contains(&status));
    let limits_request = !is(&[401, 402, 403, 429]) && status.is_none_or(|status| status < 500);
    if found.has_code(&CONTEXT) || is(&[413]) || (limits_request && found.says(&CONTEXT_WORDS)) {
        ModelTrouble::ContextFull
    } else if found.has_code(&CREDIT) || is(&[402]) || found.says(&CREDIT_WORDS) {
        ModelTrouble::NoCredit
    } else if found.has_code(&RATE) || is(&[429]) {
        let until = waiting.retry_after.or_else(|| found.until(error, waiting.now));
        ModelTrouble::RateLimited { until: until.or(waiting.limit_reset) }
    } else if found.has_code(&LOAD) || is(&[503, 529]) {
        ModelTrouble::Overloaded
    } else if found.has_code(&MODEL)
        || ((found.has_code(&MISSING) || is(&[404])) && found.says(&["model"]))
    {
        ModelTrouble::UnknownModel
    } else if found.has_code(&LOGIN) || is(&[401, 403]) {
        ModelTrouble::Authentication
    } else if found.has_code(&CONTENT) {
        ModelTrouble::Refusal
    } else if is(&[408]) || status.is_some_and(|status| status >= 500) {
        ModelTrouble::ServerError
    } else if status.is_some() || found.has_code(&REQUEST) {
        ModelTrouble::Invalid
    } else {
        ModelTrouble::ServerError
    }
}

/// The message of an error, in one line that is not too long.
pub(super) fn message_of(error: Option<&Value>) -> String {
    let text = error.and_then(|error| error.as_str().or_else(|| error.get("message")?.as_str()));
    let is_plain = |char: char| !char.is_control();
    let line = text.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|char| is_plain(*char)).take(SHOWN_CHARS_MAX).collect()
}

/// What an error says of itself.
#[derive(Default)]
struct Found {
    codes: Vec<String>,
    message: String,
    status: Option<u16>,
}

impl Found {
    fn read(error: Option<&Value>) -> Self {
        let Some(error) = error else { return Self::default() };
        let mut codes = Vec::new();
        let mut status = None;
        let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
        let inner = error.get("innererror");
        for value in std::iter::once(error).chain(details).chain(inner) {
            for key in ["type", "code", "status", "reason"] {
                match value.get(key) {
                    Some(Value::String(code)) => codes.push(code.to_ascii_lowercase()),
                    Some(Value::Number(code)) => status = code.as_u64().or(status),
                    Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_))
                    | None => {}
                }
            }
        }
        let status = status.or_else(|| codes.iter().find_map(|code| code.parse().ok()));
        let status = status.and_then(|status| u16::try_from(status).ok());
        let message = error.as_str().or_else(|| error.get("message")?.as_str()).unwrap_or_default();
        let message = message.chars().take(MESSAGE_CHARS_MAX).collect::<String>().to_lowercase();
        Self { codes, message, status: status.filter(|status| (400..600).contains(status)) }
    }

    fn has_code(&self, codes: &[&str]) -> bool {
        self.codes.iter().any(|code| codes.contains(&code.as_str()))
    }

    fn says(&self, words: &[&str]) -> bool {
        words.iter().any(|words| self.message.contains(words))
    }

    /// When the service can be asked again, as the body says.
    fn until(&self, error: Option<&Value>, now: u64) -> Option<u64> {
        let error = error?;
        if let Some(at) = error.get("resets_at").and_then(Value::as_u64) {
            return Some(at);
        }
        if let Some(seconds) = error.get("resets_in_seconds").and_then(Value::as_u64) {
            return Some(now.saturating_add(seconds));
        }
        let mut details = error.get("details").and_then(Value::as_array).into_iter().flatten();
        let delay = details.find_map(|detail| detail.get("retryDelay")?.as_str());
        let (_, written) = self.message.split_once("try again in ").unwrap_or_default();
        let text = delay.unwrap_or(written);
        reset::length(text).and_then(|seconds| reset::moment(&seconds.to_string(), now))
    }
}
