//! What passes between a client and its model: the tools that are offered, the tokens that are used, troubles.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use windlass_broker::{
    BrokerRules, Credential, End, InspectedRequest, ModelProtocol, ModelRequest, ModelTrouble,
    OfferedTool, ResponseReader, Route, RouteInspector, RouteSwitch,
};
use windlass_cell::BROKER_PORT;
use windlass_kernel::run::Usage;
use windlass_kernel::{Timestamp, canon};

use crate::client::Guard;
use crate::host::Message;

/// The path of the broker that stands for the model.
const PREFIX: &str = "/model";
/// The longest time until a rate limit ends that is left to the client.
pub(crate) const PATIENCE_SECONDS: u64 = 120;

/// Where a client's model is, and the credential that the forwarder adds.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The address.
    pub url: String,
    /// The headers that carry the credential, with their values.
    pub headers: Vec<(String, String)>,
}

/// Where a client's model is at this moment: a login may be renewed while a run goes on.
#[derive(Clone)]
pub struct EndpointSource(Arc<dyn Fn() -> Endpoint + Send + Sync>);

impl EndpointSource {
    /// The endpoint that the function finds.
    pub fn new(find: impl Fn() -> Endpoint + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }

    pub(crate) fn find(&self) -> Endpoint {
        (self.0)()
    }
}

impl fmt::Debug for EndpointSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("EndpointSource").finish_non_exhaustive()
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Endpoint").field("url", &self.url).finish_non_exhaustive()
    }
}

/// What the forwarder saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The client offered its model a tool that is none of ours.
    ForeignTool(String),
    /// The model cannot be used now.
    Trouble {
        /// The class.
        class: &'static str,
        /// The reason.
        reason: String,
        /// Whether the client cannot do anything about it.
        is_final: bool,
        /// When the model can be used again.
        until: Option<Timestamp>,
    },
    /// The model answered.
    Answered,
    /// What the client has used so far.
    Used(Usage),
}

/// Forwards the requests of one client, and looks at them.
pub(crate) struct Forwarder {
    inspector: Arc<Inspector>,
}

struct Inspector {
    expected: BTreeSet<String>,
    guard: Guard,
    sender: Mutex<Sender<Message>>,
    open: Mutex<BTreeMap<u64, Exchange>>,
    usage: Mutex<Used>,
}

enum Exchange {
    Asked(ModelProtocol),
    Answering(Box<ResponseReader>),
}

/// What a client has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub usage: Usage,
    /// Tokens that were read from a cache; they are not among the input tokens.
    pub cached: u64,
    pub requests: u64,
}

impl Used {
    /// Adds what one response reports.
    pub(crate) fn add(&mut self, reported: windlass_broker::Usage) {
        let usage = Usage {
            input_tokens: reported.input.saturating_add(reported.cached_write),
            output_tokens: reported.output,
            ..Usage::default()
        };
        self.usage = self.usage.plus(usage);
        let cached = self.cached.saturating_add(reported.cached_read);
        self.cached = cached.min(canon::INTEGER_MAX.unsigned_abs());
        self.requests += 1;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Forwarder {
    /// A forwarder for a client that may offer these tools.
    pub(crate) fn new(expected: BTreeSet<String>, guard: Guard, sender: Sender<Message>) -> Self {
        let (sender, open, usage) = (Mutex::new(sender), Mutex::default(), Mutex::default());
        Self { inspector: Arc::new(Inspector { expected, guard, sender, open, usage }) }
    }

    /// Where the client reaches it.
    pub(crate) fn endpoint() -> String {
        format!("http://127.0.0.1:{BROKER_PORT}{PREFIX}")
    }

    /// What the client reaches: its model, and nothing else; and the switch that ends this.
    pub(crate) fn rules(&self, endpoint: &Endpoint) -> Result<(BrokerRules, RouteSwitch), String> {
        let credential = match endpoint.headers.as_slice() {
            [] => None,
            headers => Some(Credential::new(headers).map_err(|error| error.to_string())?),
        };
        let route = Route::new(PREFIX, &endpoint.url, credential)
            .map_err(|error| format!("{error}: `{}`", endpoint.url))?;
        let inspector = Arc::clone(&self.inspector) as Arc<dyn RouteInspector>;
        let switch = route.switch();
        let routes = vec![route.with_inspector(inspector)];
        Ok((BrokerRules { routes, ..BrokerRules::default() }, switch))
    }

    pub(crate) fn used(&self) -> Used {
        *lock(&self.inspector.usage)
    }
}

impl Inspector {
    fn tell(&self, news: News) {
        // Nobody listens when the invocation is over.
        let _ = lock(&self.sender).send(Message::Forwarder(news));
    }
}

impl RouteInspector for Inspector {
    fn request(&self, request: &InspectedRequest<'_>) -> Result<(), String> {
        // They have no body that could offer a tool.
        if matches!(request.method, "GET" | "HEAD") && request.body.is_empty() {
            return Ok(());
        }
        let asked = ModelRequest::read(request).map_err(|error| error.to_string())?;
        let name = |tool: &OfferedTool| tool.to_string();
        let foreign = asked.tools.iter().map(name).find(|name| !self.expected.contains(name));
        if let Some(name) = foreign {
            let reason = format!("the tool `{name}` is not one of Windlass");
            self.tell(News::ForeignTool(name));
            if self.guard == Guard::Caged {
                return Err(reason);
            }
        }
        lock(&self.open).insert(request.id, Exchange::Asked(asked.protocol));
        Ok(())
    }

    fn response_started(&self, id: u64, status: u16, headers: &[(&str, &[u8])]) {
        let mut open = lock(&self.open);
        if let Some(exchange) = open.get_mut(&id)
            && let Exchange::Asked(protocol) = exchange
        {
            let reader = ResponseReader::new(*protocol, status, headers, now());
            *exchange = Exchange::Answering(Box::new(reader));
        }
    }

    fn response_bytes(&self, id: u64, bytes: &[u8]) {
        if let Some(Exchange::Answering(reader)) = lock(&self.open).get_mut(&id) {
            reader.push(bytes);
        }
    }

    fn response_ended(&self, id: u64, end: End) {
        let Some(exchange) = lock(&self.open).remove(&id) else { return };
        let (trouble, message) = match exchange {
            Exchange::Asked(_) => (ModelTrouble::of_end(end), String::new()),
            Exchange::Answering(reader) => {
                let response = reader.finish(end);
                let usage = {
                    let mut used = lock(&self.usage);
                    used.add(response.usage);
                    used.usage
                };
                self.tell(News::Used(usage));
                (response.trouble, response.message)
            }
        };
        self.tell(match trouble {
            None => News::Answered,
            Some(trouble) => {
                let (class, is_final) = class_of(trouble, now());
                News::Trouble {
                    class,
                    reason: describe(trouble, &message, now()),
                    is_final,
                    until: until_of(trouble),
                }
            }
        });
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

/// When a model can be asked again after a trouble, if the service says so.
pub(crate) fn until_of(trouble: ModelTrouble) -> Option<Timestamp> {
    match trouble {
        ModelTrouble::RateLimited { until } => {
            Timestamp::from_unix_ms(i64::try_from(until?).ok()?.checked_mul(1000)?).ok()
        }
        ModelTrouble::Overloaded
        | ModelTrouble::ServerError
        | ModelTrouble::Unreachable
        | ModelTrouble::NoCredit
        | ModelTrouble::Authentication
        | ModelTrouble::ContextFull
        | ModelTrouble::Refusal
        | ModelTrouble::UnknownModel
        | ModelTrouble::Invalid
        | ModelTrouble::Cut
        | ModelTrouble::Silence => None,
    }
}

/// The class of a trouble, and whether the client cannot do anything about it.
pub(crate) const fn class_of(trouble: ModelTrouble, now: u64) -> (&'static str, bool) {
    match trouble {
        ModelTrouble::RateLimited { until: Some(until) } => {
            ("rate_limited", until.saturating_sub(now) > PATIENCE_SECONDS)
        }
        ModelTrouble::RateLimited { until: None } => ("rate_limited", false),
        ModelTrouble::Overloaded | ModelTrouble::ServerError => ("overloaded", false),
        ModelTrouble::Unreachable => ("unreachable", false),
        ModelTrouble::NoCredit => ("no_credit", true),
        ModelTrouble::Authentication => ("authentication", true),
        ModelTrouble::ContextFull => ("context_full", false),
        ModelTrouble::Refusal => ("refusal", false),
        ModelTrouble::UnknownModel => ("model_unavailable", true),
        ModelTrouble::Invalid => ("model_unavailable", false),
        ModelTrouble::Cut | ModelTrouble::Silence => ("silence", false),
    }
}

/// A trouble for people, with what the service says about it where that helps.
pub(crate) fn describe(trouble: ModelTrouble, message: &str, now: u64) -> String {
    let said = match trouble {
        ModelTrouble::ServerError | ModelTrouble::UnknownModel | ModelTrouble::Invalid
            if !message.is_empty() =>
        {
            format!(" (it says: {message})")
        }
        ModelTrouble::ServerError
        | ModelTrouble::Unreachable
        | ModelTrouble::UnknownModel
        | ModelTrouble::Invalid
        | ModelTrouble::RateLimited { .. }
        | ModelTrouble::Overloaded
        | ModelTrouble::NoCredit
        | ModelTrouble::Authentication
        | ModelTrouble::ContextFull
        | ModelTrouble::Refusal
        | ModelTrouble::Cut
        | ModelTrouble::Silence => String::new(),
    };
    let what = match trouble {
        ModelTrouble::RateLimited { until: Some(until) } => {
            let seconds = until.saturating_sub(now);
            format!("the rate limit of the model is reached, for {seconds} seconds more")
        }
        ModelTrouble::RateLimited { until: None } => {
            "the rate limit of the model is reached".to_owned()
        }
        ModelTrouble::Overloaded => "the model is overloaded".to_owned(),
        ModelTrouble::ServerError => "the model's service has an error".to_owned(),
        ModelTrouble::Unreachable => {
            "the model's service cannot be reached; look at its address and at the network"
                .to_owned()
        }
        ModelTrouble::NoCredit => "there is no credit left for the model".to_owned(),
        ModelTrouble::Authentication => {
            "the model's service does not accept the credential; log in, or set the key (one of the environment is sent to its own \
             service alone: another address needs `credential` below [agents.NAME] in your settings)"
                .to_owned()
        }
        ModelTrouble::ContextFull => "the model's context is full".to_owned(),
        ModelTrouble::Refusal => "the model refused".to_owned(),
        ModelTrouble::UnknownModel => "the model does not exist, or is not yours to use".to_owned(),
        ModelTrouble::Invalid => "the model's service does not accept the request".to_owned(),
        ModelTrouble::Cut => "the answer of the model broke off".to_owned(),
        ModelTrouble::Silence => "the model did not answer".to_owned(),
    };
    what + &said
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_to_a_cache_is_counted_as_input_and_what_is_read_of_it_apart() {
        let mut used = Used::default();
        let reported =
            windlass_broker::Usage { input: 10, output: 3, cached_read: 100, cached_write: 7 };
        used.add(reported);
        let usage = Usage { input_tokens: 17, output_tokens: 3, ..Usage::default() };
        assert_eq!((used.usage, used.cached, used.requests), (usage, 100, 1));
    }

    /// Whether a request that offers this tool passes, and the foreign tools that are told of.
    fn offer(guard: Guard, tool: &str) -> (bool, Vec<String>) {
        let (sender, receiver) = channel();
        let forwarder = Forwarder::new(BTreeSet::from(["own".to_owned()]), guard, sender);
        let tool = json!({ "name": tool, "input_schema": { "type": "object" } });
        let body = json!({ "model": "m", "messages": [], "max_tokens": 1, "tools": [tool] });
        let body = body.to_string();
        let request = InspectedRequest {
            id: 1,
            method: "POST",
            path: "/v1/messages",
            headers: &[],
            body: body.as_bytes(),
        };
        let passes = forwarder.inspector.request(&request).is_ok();
        let mut foreign = Vec::new();
        while let Ok(message) = receiver.try_recv() {
            if let Message::Forwarder(News::ForeignTool(name)) = message {
                foreign.push(name);
            }
        }
        (passes, foreign)
    }

    #[test]
    fn a_caged_agent_offers_its_model_no_foreign_tool_and_a_watched_one_is_told_of() {
        let none: Vec<String> = Vec::new();
        for guard in [Guard::Caged, Guard::Watched] {
            assert_eq!(offer(guard, "own"), (true, none.clone()));
        }
        assert_eq!(offer(Guard::Caged, "Bash"), (false, vec!["Bash".to_owned()]));
        assert_eq!(offer(Guard::Watched, "Bash"), (true, vec!["Bash".to_owned()]));
    }
}
