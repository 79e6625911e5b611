//! The script of a model: what it answers, and how it fails.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize as DeriveDeserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

/// The longest pause that a step may ask for.
const PAUSE_SECONDS_MAX: f64 = 86_400.0;
/// The longest text that a step may send.
const ENDLESS_BYTES_MAX: u64 = 1 << 28;

/// What the model answers.
///
/// In JSON it is an object with these fields, or a plain list of steps: they are then `otherwise`, in
/// the order of requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Script {
    /// Steps for the requests that contain a text; the first entry that matches is used.
    pub conversations: Vec<Conversation>,
    /// The steps for all other requests.
    pub otherwise: Vec<Step>,
    /// How the step of a request is found.
    pub order: Order,
}

/// The steps of the requests whose beginning contains a text.
#[derive(Clone, Debug, DeriveDeserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Conversation {
    /// A part of the system prompt, or of what the user says before the model's first answer.
    pub when: String,
    /// What is answered.
    pub steps: Vec<Step>,
}

/// How the step of a request is found.
#[derive(Clone, Copy, Debug, Default, DeriveDeserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// By the answers that the request already shows, so that a client that was restarted or resumed
    /// gets the step that follows what it knows of. A step without an answer (an error) is passed over
    /// once it has been given `repeat` times.
    #[default]
    Turns,
    /// Each request takes the next step, whatever it contains.
    Requests,
}

/// One answer, or one failure.
#[derive(Clone, Debug, Default, DeriveDeserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// What the model says.
    pub text: Option<String>,
    /// The tools that it calls.
    pub calls: Vec<Call>,
    /// A refusal instead of an answer.
    pub error: Option<HttpError>,
    /// Where the connection breaks.
    pub drop: Option<DropAt>,
    /// An error inside of the stream, in the form of the client's protocol.
    pub sse_error: Option<Value>,
    /// Seconds until the answer, whose text is `late` unless the step has one. Not repeated for a client that
    /// asks again.
    pub hang: Option<f64>,
    /// A text that is sent in place of an answer as it is.
    pub garbage: Option<String>,
    /// Text of this many bytes, or until the client closes the connection.
    pub endless: Option<u64>,
    /// The tokens that the answer reports.
    pub usage: Usage,
    /// Seconds before anything is sent.
    pub delay: Option<f64>,
    /// How often the step is used: once if absent, for ever if -1.
    pub repeat: Option<i64>,
}

/// One tool call.
#[derive(Clone, Debug, Default, DeriveDeserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The tool as its server names it; the offered tool whose name is or ends with it is called. After a
    /// leading `=`, the name is sent as it is, offered or not.
    pub name: String,
    /// The arguments.
    #[serde(default = "no_input")]
    pub input: Value,
    /// Numbers of the input that only the client knows, by field: each is taken from the latest result that has this
    /// text, where it follows.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<String, String>,
    /// The form of the call, in the protocols that have several.
    #[serde(default)]
    pub kind: CallKind,
    /// The namespace of the tool; that of the offered tool if absent.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The id of the call; a new one if absent.
    #[serde(default)]
    pub id: Option<String>,
}

fn no_input() -> Value {
    Value::Object(serde_json::Map::new())
}

/// The form of a call in the Responses protocol.
#[derive(Clone, Copy, Debug, Default, DeriveDeserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    /// A function with JSON arguments.
    #[default]
    Function,
    /// A tool whose input is text.
    Custom,
    /// The client's own shell.
    LocalShell,
    /// The client's own search for tools.
    ToolSearch,
}

/// A refusal of the model's server.
#[derive(Clone, Debug, DeriveDeserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HttpError {
    /// The HTTP status.
    pub status: u16,
    /// More headers, such as `retry-after`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body; an error in the usual form if absent.
    #[serde(default)]
    pub body: Option<Value>,
}

/// Where a connection breaks.
#[derive(Clone, Copy, Debug, DeriveDeserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DropAt {
    /// Reset before the status line.
    Start,
    /// Reset within the first text or call.
    Mid,
    /// Closed in order within the first text or call.
    Eof,
    /// Reset after all texts and calls, before the end of the message.
    Late,
}

/// The tokens that an answer reports.
#[derive(Clone, Copy, Debug, DeriveDeserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Usage {
    /// Tokens read, with those from the cache.
    pub input: u64,
    /// Tokens written.
    pub output: u64,
    /// Tokens read from the cache.
    pub cached: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self { input: 100, output: 10, cached: 0 }
    }
}

/// Why a script is refused.
#[derive(Debug, Error)]
pub enum ScriptError {
    /// It is no JSON, or has unknown or missing fields.
    #[error("reading the script failed")]
    Form(#[source] serde_json::Error),
    /// A step contradicts itself.
    #[error("step {step} of {place}: {problem}")]
    Step {
        /// The steps that it belongs to.
        place: String,
        /// Its number, from 0.
        step: usize,
        /// What is wrong.
        problem: &'static str,
    },
    /// A conversation without a text to recognise it by.
    #[error("conversation {index}: `when` is empty")]
    EmptyWhen {
        /// Its number, from 0.
        index: usize,
    },
}

impl Script {
    /// A script whose steps are answered in the order of requests.
    #[must_use]
    pub fn in_order_of_requests(steps: Vec<Step>) -> Self {
        Self { conversations: Vec::new(), otherwise: steps, order: Order::Requests }
    }

    /// Reads a script.
    ///
    /// # Errors
    /// [`ScriptError`] for anything that is not exactly a script.
    pub fn from_json(text: &str) -> Result<Self, ScriptError> {
        let script: Self = serde_json::from_str(text).map_err(ScriptError::Form)?;
        script.check()?;
        Ok(script)
    }

    pub(crate) fn check(&self) -> Result<(), ScriptError> {
        for (index, conversation) in self.conversations.iter().enumerate() {
            if conversation.when.is_empty() {
                return Err(ScriptError::EmptyWhen { index });
            }
            check_steps(&conversation.steps, &format!("conversation {index}"))?;
        }
        check_steps(&self.otherwise, "`otherwise`")
    }
}

fn check_steps(steps: &[Step], place: &str) -> Result<(), ScriptError> {
    for (step, checked) in steps.iter().enumerate() {
        if let Some(problem) = checked.problem() {
            return Err(ScriptError::Step { place: place.to_owned(), step, problem });
        }
    }
    Ok(())
}

impl Step {
    /// A step that says `text`.
    #[must_use]
    pub fn say(text: &str) -> Self {
        Self { text: Some(text.to_owned()), ..Self::default() }
    }

    /// A step that calls one tool.
    #[must_use]
    pub fn call(name: &str, input: Value) -> Self {
        let call = Call { name: name.to_owned(), input, ..Call::default() };
        Self { calls: vec![call], ..Self::default() }
    }

    /// Whether a client that gets the step in full shows an answer of the model from then on.
    pub(crate) fn is_answer(&self) -> bool {
        self.text.is_some()
            || !self.calls.is_empty()
            || self.hang.is_some()
            || self.endless.is_some()
    }

    /// Whether the step fails or keeps the client waiting.
    pub(crate) fn is_fault(&self) -> bool {
        self.faults() > 0
    }

    /// The step without its fault.
    pub(crate) fn answer_only(&self) -> Self {
        let text = self.spoken().map(str::to_owned);
        Self { text, drop: None, hang: None, endless: None, ..self.clone() }
    }

    /// The text of the answer. A step that only keeps the client waiting answers as well.
    pub(crate) fn spoken(&self) -> Option<&str> {
        let waited = self.hang.is_some() && self.calls.is_empty();
        let unsaid = match (waited, self.endless) {
            (true, _) => Some("late"),
            (false, Some(_)) => Some("done"),
            (false, None) => None,
        };
        self.text.as_deref().or(unsaid)
    }

    fn faults(&self) -> usize {
        [
            self.error.is_some(),
            self.drop.is_some(),
            self.sse_error.is_some(),
            self.hang.is_some(),
            self.garbage.is_some(),
            self.endless.is_some(),
        ]
        .into_iter()
        .filter(|present| *present)
        .count()
    }

    fn problem(&self) -> Option<&'static str> {
        let never_sent = self.error.is_some()
            || self.sse_error.is_some()
            || self.garbage.is_some()
            || self.drop == Some(DropAt::Start);
        if self.faults() > 1 {
            return Some("has more than one failure");
        }
        if self.faults() == 0 && !self.is_answer() {
            return Some("has neither an answer nor a failure");
        }
        if never_sent && self.is_answer() {
            return Some("has an answer that is never sent");
        }
        if [self.hang, self.delay].into_iter().flatten().any(|seconds| pause(seconds).is_none()) {
            return Some("has a time that is not between 0 and 86400 seconds");
        }
        if self.repeat.is_some_and(|times| times == 0 || times < -1) {
            return Some("has a `repeat` that is neither positive nor -1");
        }
        if self.endless.is_some_and(|bytes| bytes > ENDLESS_BYTES_MAX) {
            return Some("has an `endless` of more than 268435456 bytes");
        }
        if self.usage.cached > self.usage.input {
            return Some("has more tokens from the cache than tokens read");
        }
        if self.calls.iter().any(|call| call.name.trim_start_matches('=').is_empty()) {
            return Some("has a call without a name");
        }
        self.error.as_ref().and_then(HttpError::problem)
    }
}

impl HttpError {
    fn problem(&self) -> Option<&'static str> {
        if !(300..=599).contains(&self.status) {
            return Some("has a status that is not between 300 and 599");
        }
        let framing = ["connection", "content-length", "content-type", "transfer-encoding"];
        for (name, value) in &self.headers {
            let token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            if name.is_empty() || !name.bytes().all(token) {
                return Some(
                    "has a header name with other characters than letters, digits and `-`",
                );
            }
            if framing.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) {
                return Some("sets a header that belongs to the server");
            }
            if !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
                return Some("has a header value that is not printable ASCII");
            }
        }
        None
    }
}

/// A pause of a script, if it is one.
pub(crate) fn pause(seconds: f64) -> Option<Duration> {
    let valid = (0.0..=PAUSE_SECONDS_MAX).contains(&seconds);
    valid.then(|| Duration::try_from_secs_f64(seconds).ok()).flatten()
}

/// The object form of a script.
#[derive(DeriveDeserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    #[serde(default)]
    conversations: Vec<Conversation>,
    #[serde(default)]
    otherwise: Vec<Step>,
    #[serde(default)]
    order: Order,
}

/// Reads both forms; by hand, so that an error has its line and names the field.
impl<'de> Deserialize<'de> for Script {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Forms;

        impl<'de> Visitor<'de> for Forms {
            type Value = Script;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of steps or an object with conversations")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, steps: A) -> Result<Script, A::Error> {
                let steps = Vec::deserialize(SeqAccessDeserializer::new(steps))?;
                Ok(Script::in_order_of_requests(steps))
            }

            fn visit_map<A: MapAccess<'de>>(self, rules: A) -> Result<Script, A::Error> {
                let rules = Rules::deserialize(MapAccessDeserializer::new(rules))?;
                let Rules { conversations, otherwise, order } = rules;
                Ok(Script { conversations, otherwise, order })
            }
        }

        deserializer.deserialize_any(Forms)
    }
}
