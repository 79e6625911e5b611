//! Makes the calls of MCP clients through the gateway.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use windlass_kernel::{Code, Digest, PlanId, RiskLevel, State, TraceId, canon};
use windlass_mcp::{ClientInfo, Progress, ToolAnswer, ToolHost, ToolInfo, ToolUse};
use windlass_policy::WRAPPED_PREFIX;
use windlass_runtime::{
    CallReport, CallRequest, Clock as _, Gateway, GatewayError, HoldQuestion, SystemClock,
};

use super::closing::Closing;
use crate::secrets::shown;

/// How often the journal is asked whether somebody has decided.
const POLL: Duration = Duration::from_millis(200);
/// The longest name of a client that is recorded.
const CLIENT_CHARS_MAX: usize = 100;
/// The longest id of a call that is used as it is.
const CALL_ID_CHARS_MAX: usize = 200;
/// The most sessions whose clients are known by name.
const CLIENTS_MAX: usize = 1024;

/// A tool that clients are offered.
#[derive(Clone, Debug)]
pub struct Offered {
    /// Its server in the registry.
    pub server: String,
    /// Its name in the registry.
    pub tool: String,
    /// Its class.
    pub class: RiskLevel,
    /// The tool as clients see it.
    pub info: ToolInfo,
}

/// The same call of the same session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct HoldKey {
    session: String,
    tool: String,
    args: Digest,
}

/// A call that waits for a person.
#[derive(Clone, Debug)]
struct Held {
    trace_id: TraceId,
    question: String,
    /// How often the call was made; the last one gets the answer.
    turn: u64,
}

/// Offers tools, whose calls go through a gateway.
pub struct Host {
    gateway: Gateway,
    offered: Vec<Offered>,
    wait: Duration,
    closing: Arc<Closing>,
    /// All calls of this server belong to one plan.
    plan: PlanId,
    holds: Mutex<HashMap<HoldKey, Held>>,
    clients: Mutex<HashMap<String, String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Host {
    /// A host whose calls wait this long for a person.
    pub fn new(
        gateway: Gateway,
        offered: Vec<Offered>,
        wait: Duration,
        closing: Arc<Closing>,
    ) -> Self {
        let (plan, holds, clients) =
            (PlanId(SystemClock.new_id()), Mutex::default(), Mutex::default());
        Self { gateway, offered, wait, closing, plan, holds, clients }
    }

    fn request(&self, offered: &Offered, tool_use: &ToolUse, args: Digest) -> CallRequest {
        let client = lock(&self.clients).get(&tool_use.session).cloned();
        let client = client.unwrap_or_else(|| "an MCP client".to_owned());
        CallRequest {
            server: offered.server.clone(),
            tool: offered.tool.clone(),
            args: tool_use.args.clone(),
            intent: format!("{client} asks for it over MCP"),
            resources: Vec::new(),
            declared_class: offered.class,
            key: Some(key_of(tool_use, args)),
            plan_id: Some(self.plan),
            agent: None,
            phase: None,
            run: None,
        }
    }

    /// Waits until somebody has decided on a call and its effect is recorded.
    fn await_decision(&self, key: &HoldKey, held: &Held, progress: &dyn Progress) -> ToolAnswer {
        let id = held.trace_id;
        progress.say(&format!("waits for a person: windlass call approve {id} --reason TEXT"));
        let started = Instant::now();
        loop {
            let is_last = lock(&self.holds).get(key).is_some_and(|now| now.turn == held.turn);
            if !is_last {
                let text = "the same call was made again, and that one gets the answer";
                return ToolAnswer::Error(format!("[{}] {text}", Code::CallOnHold));
            }
            match self.decided(id) {
                Ok(Some(report)) => {
                    lock(&self.holds).remove(key);
                    return answer_of(&report);
                }
                Ok(None) if started.elapsed() >= self.wait => return on_hold(held),
                Ok(None) => {}
                Err(error) => return failed(&error),
            }
            if self.closing.wait(POLL) {
                return on_hold(held);
            }
        }
    }

    /// The call, once nobody works on it and no question about it is open.
    fn decided(&self, trace_id: TraceId) -> Result<Option<CallReport>, GatewayError> {
        let state = self.gateway.store().load_state(trace_id)?;
        if state.head.state == Some(State::Pending) || self.gateway.store().is_held(&state)? {
            return Ok(None);
        }
        self.gateway.show(trace_id).map(Some)
    }

    /// Notes that a call waits, or is made again while it does.
    fn hold(&self, key: &HoldKey, new: Option<(TraceId, String)>) -> Option<Held> {
        let mut holds = lock(&self.holds);
        let turn = holds.get(key).map_or(0, |held| held.turn + 1);
        if let Some((trace_id, question)) = new {
            holds.insert(key.clone(), Held { trace_id, question, turn });
        } else if let Some(held) = holds.get_mut(key) {
            held.turn = turn;
        }
        holds.get(key).cloned()
    }
}

impl ToolHost for Host {
    fn tools(&self) -> Vec<ToolInfo> {
        self.offered.iter().map(|offered| offered.info.clone()).collect()
    }

    fn call(&self, tool_use: ToolUse, progress: &dyn Progress) -> ToolAnswer {
        let Some(offered) = self.offered.iter().find(|one| one.info.name == tool_use.name) else {
            return ToolAnswer::Error(format!("there is no tool `{}`", tool_use.name));
        };
        let args = match canon::digest(&tool_use.args) {
            Ok(args) => args,
            Err(error) => return ToolAnswer::Error(format!("[{}] {error}", error.code())),
        };
        let (session, tool) = (tool_use.session.clone(), tool_use.name.clone());
        let key = HoldKey { session, tool, args };
        if let Some(held) = self.hold(&key, None) {
            return self.await_decision(&key, &held, progress);
        }
        let report = match self.gateway.call(self.request(offered, &tool_use, args)) {
            Ok(report) => report,
            Err(error) => return failed(&error),
        };
        match &report.hold {
            Some(hold) if hold.question == HoldQuestion::MayItRun => {
                let held = self.hold(&key, Some((report.trace_id, hold.reason.clone())));
                held.map_or_else(
                    || answer_of(&report),
                    |held| self.await_decision(&key, &held, progress),
                )
            }
            Some(_) | None => answer_of(&report),
        }
    }

    fn listed(&self, client: &ClientInfo) {
        let plain = |char: &char| char.is_ascii_graphic() || *char == ' ';
        let name: String = client.name.chars().filter(plain).take(CLIENT_CHARS_MAX).collect();
        let mut clients = lock(&self.clients);
        if clients.len() >= CLIENTS_MAX {
            clients.clear();
        }
        if !name.trim().is_empty() {
            clients.insert(client.session.clone(), name);
        }
    }
}

/// The idempotency key of a call.
fn key_of(tool_use: &ToolUse, args: Digest) -> String {
    match tool_use.unique_id() {
        Some(id) if id.chars().count() <= CALL_ID_CHARS_MAX => format!("mcp:{id}"),
        Some(id) => format!("mcp:{}", Digest::of(id.as_bytes())),
        None => {
            let ToolUse { session, ordinal, name, .. } = tool_use;
            let text = format!("{session}\n{ordinal}\n{name}\n{args}");
            format!("mcp:{}", Digest::of(text.as_bytes()))
        }
    }
}

/// The answer to a call that is still on hold.
fn on_hold(held: &Held) -> ToolAnswer {
    let (id, question) = (held.trace_id, &held.question);
    ToolAnswer::Error(format!(
        "[{}] a person must decide on this call: {question}\nTo look at it: windlass call show {id}\nTo approve it: \
         windlass call approve {id} --reason TEXT\nTo deny it: windlass call deny {id} --reason TEXT\nAfter that, \
         make the same call again to get its result.",
        Code::CallOnHold
    ))
}

/// The answer to a call that the gateway could not make.
fn failed(error: &GatewayError) -> ToolAnswer {
    ToolAnswer::Error(shown(&format!("[{}] {error}", error.code())))
}

/// The answer to a call: what an MCP server returned as it is, everything else as text.
fn answer_of(report: &CallReport) -> ToolAnswer {
    let is_error = report.state != State::Completed;
    let is_own =
        !is_error || report.error.as_ref().is_some_and(|error| error.code == Code::ToolFailed);
    if let (Some(Value::Array(content)), true) = (report.result.get("content"), is_own) {
        let mut content = content.clone();
        if report.edited_args.is_some() {
            let text = "(a person changed the arguments of this call before it was made)";
            content.push(json!({ "type": "text", "text": text }));
        }
        let mut result = Map::new();
        result.insert("content".to_owned(), content.into());
        let structured = report.result.get("structuredContent");
        result.extend(structured.map(|value| ("structuredContent".to_owned(), value.clone())));
        result.insert("isError".to_owned(), is_error.into());
        return ToolAnswer::Result(result.into());
    }
    let mut text = windlass_agents::text_of(report);
    if let Some(hold) = &report.hold {
        let id = report.trace_id;
        text = format!(
            "[{}] {}\nA person must say what became of it: windlass call show {id}",
            Code::CallOnHold,
            hold.reason
        );
    } else if let Some(refusal) = &report.refusal
        && refusal.code == Code::PolicyDenied
        && let Some((server, _)) = report.tool.split_once('/')
        && server.starts_with(WRAPPED_PREFIX)
    {
        text.push_str(&format!("\nRules in `.windlass/policy` for `{server}/*` decide about it."));
    }
    if is_error {
        return ToolAnswer::Error(text);
    }
    ToolAnswer::Result(json!({ "content": [{ "type": "text", "text": text }], "isError": false }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool_use(call_id: Option<&str>, ordinal: u64) -> ToolUse {
        ToolUse {
            name: "t".to_owned(),
            args: json!({}),
            call_id: call_id.map(str::to_owned),
            session: "s".to_owned(),
            ordinal,
        }
    }

    #[test]
    fn a_key_is_the_clients_id_or_the_position_of_the_call() {
        let args = Digest::of(b"{}");
        let id = "toolu_01A09q90qw90lq917835lq9";
        assert_eq!(key_of(&tool_use(Some(id), 1), args), format!("mcp:{id}"));
        for counted in ["call_1", "functions.fs_read:0"] {
            let [one, other] = ["s", "t"].map(|session| {
                let session = session.to_owned();
                key_of(&ToolUse { session, ..tool_use(Some(counted), 1) }, args)
            });
            assert_ne!(one, other);
        }
        let long = "1".repeat(5000);
        assert_eq!(key_of(&tool_use(Some(&long), 1), args).len(), "mcp:".len() + 64);
        let key = |ordinal, args| key_of(&tool_use(None, ordinal), args);
        assert_eq!(key(1, args), key(1, args));
        assert_ne!(key(1, args), key(2, args));
        assert_ne!(key(1, args), key(1, Digest::of(b"[]")));
    }
}
