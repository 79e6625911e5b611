//! The network of a confined command: a broker that lets through what the tool registry lists.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use windlass_broker::{Broker, BrokerEvent, BrokerHandle, BrokerObserver, BrokerRules};
use windlass_cell::BROKER_PORT;

/// The most events of one kind that are recorded; the others are counted.
const EVENTS_MAX: usize = 200;
/// The variables by which programs find their proxy.
const PROXY_VARIABLES: [&str; 6] =
    ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];
/// The variables that name what is reached without a proxy: the cell's own servers.
const NO_PROXY_VARIABLES: [&str; 2] = ["no_proxy", "NO_PROXY"];

/// The broker of one command, and what it let through and refused.
pub(crate) struct CommandNetwork {
    rules: BrokerRules,
    record: Arc<Record>,
    broker: Option<BrokerHandle>,
}

#[derive(Default)]
struct Record(Mutex<Events>);

/// What happened since it was last asked for. Refusals and passages are limited apart, so that none hides the
/// other.
#[derive(Default)]
struct Events {
    all: Vec<Value>,
    refused: usize,
    more: usize,
    /// The passages that are open now.
    open: BTreeMap<u64, Value>,
}

impl Events {
    fn add(&mut self, event: Value, is_refusal: bool) {
        let of_kind = if is_refusal { self.refused } else { self.all.len() - self.refused };
        if of_kind >= EVENTS_MAX {
            self.more = self.more.saturating_add(1);
            return;
        }
        self.refused += usize::from(is_refusal);
        self.all.push(event);
    }

    /// Takes the events; passages that are still open are reported, and again when they are closed.
    fn take(&mut self) -> Option<Value> {
        let mut events = std::mem::take(&mut self.all);
        events.extend(self.open.values().take(EVENTS_MAX).cloned());
        let more = std::mem::take(&mut self.more);
        self.refused = 0;
        (!events.is_empty()).then(|| json!({ "events": events, "more": more }))
    }
}

impl BrokerObserver for Record {
    fn event(&self, event: BrokerEvent) {
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            BrokerEvent::Allowed { id, passage } => {
                let open = json!({
                    "allowed": format!("{} {}:{}", passage.method, passage.host, passage.port),
                    "address": passage.address.to_string(),
                    "end": "Open",
                });
                events.open.insert(id, open);
            }
            BrokerEvent::Closed { id, passage, bytes_up, bytes_down, end, .. } => {
                events.open.remove(&id);
                let closed = json!({
                    "allowed": format!("{} {}:{}", passage.method, passage.host, passage.port),
                    "address": passage.address.to_string(),
                    "bytes_up": bytes_up,
                    "bytes_down": bytes_down,
                    "end": format!("{end:?}"),
                });
                events.add(closed, false);
            }
            BrokerEvent::Refused { asked, refusal, detail } => {
                let reason = match detail {
                    Some(detail) => format!("{refusal}: {detail}"),
                    None => refusal.to_string(),
                };
                events.add(json!({ "refused": asked, "reason": reason }), true);
            }
            BrokerEvent::Unreachable { asked, failure } => {
                events.add(json!({ "unreachable": asked, "reason": failure.to_string() }), true);
            }
        }
    }
}

impl CommandNetwork {
    pub fn new(rules: &BrokerRules) -> Self {
        Self { rules: rules.clone(), record: Arc::default(), broker: None }
    }

    /// The variables that lead programs to the broker.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        if self.rules.hosts.is_empty() {
            return Vec::new();
        }
        let proxy = format!("http://127.0.0.1:{BROKER_PORT}");
        let none = "localhost,127.0.0.1,::1".to_owned();
        let proxies = PROXY_VARIABLES.map(|name| (name, proxy.clone()));
        proxies.into_iter().chain(NO_PROXY_VARIABLES.map(|name| (name, none.clone()))).collect()
    }

    /// Serves the socket of the cell. If that fails, the command finds nobody there.
    pub fn serve(&mut self, listener: TcpListener) {
        let record = Arc::clone(&self.record) as Arc<dyn BrokerObserver>;
        match Broker::start(listener, self.rules.clone(), record) {
            Ok(broker) => self.broker = Some(broker),
            Err(error) => {
                let mut events = self.record.0.lock().unwrap_or_else(PoisonError::into_inner);
                events.add(json!({ "unreachable": "all", "reason": error.to_string() }), true);
            }
        }
    }

    /// Stops the broker and returns what is recorded of it, if anything was asked of it.
    pub fn finish(mut self) -> Option<Value> {
        drop(self.broker.take());
        self.take_events()
    }

    /// Takes what was recorded since the last time.
    pub fn take_events(&self) -> Option<Value> {
        self.record.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_do_not_hide_what_was_let_through() {
        let mut events = Events::default();
        for _ in 0..EVENTS_MAX + 5 {
            events.add(json!("refused"), true);
        }
        events.add(json!("allowed"), false);
        events.open.insert(1, json!("open"));
        let taken = events.take().unwrap();
        assert_eq!(taken["more"], 5);
        let list = taken["events"].as_array().unwrap();
        assert_eq!(list.len(), EVENTS_MAX + 2);
        assert_eq!(list[EVENTS_MAX..], [json!("allowed"), json!("open")]);
        assert_eq!(events.take(), Some(json!({ "events": ["open"], "more": 0 })));
        events.open.clear();
        assert_eq!(events.take(), None);
    }
}
