//! The network of a confined command: a broker that lets through what the tool registry lists.

use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use windlass_broker::{Broker, BrokerEvent, BrokerHandle, BrokerObserver, BrokerRules};
use windlass_cell::BROKER_PORT;

/// The most events that are recorded; the others are counted.
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
struct Record(Mutex<(Vec<Value>, usize)>);

impl BrokerObserver for Record {
    fn event(&self, event: BrokerEvent) {
        let value = match event {
            // Its end says more.
            BrokerEvent::Allowed { .. } => return,
            BrokerEvent::Closed { passage, bytes_up, bytes_down, end, .. } => json!({
                "allowed": format!("{} {}:{}", passage.method, passage.host, passage.port),
                "address": passage.address.to_string(),
                "bytes_up": bytes_up,
                "bytes_down": bytes_down,
                "end": format!("{end:?}"),
            }),
            BrokerEvent::Refused { asked, refusal } => {
                json!({ "refused": asked, "reason": refusal.to_string() })
            }
            BrokerEvent::Unreachable { asked, failure } => {
                json!({ "unreachable": asked, "reason": failure.to_string() })
            }
        };
        let mut record = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if record.0.len() < EVENTS_MAX {
            record.0.push(value);
        } else {
            record.1 = record.1.saturating_add(1);
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
                let mut record = self.record.0.lock().unwrap_or_else(PoisonError::into_inner);
                record.0.push(json!({ "unreachable": "all", "reason": error.to_string() }));
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
        let mut record = self.record.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (events, more) = std::mem::take(&mut *record);
        if events.is_empty() {
            return None;
        }
        Some(json!({ "events": events, "more": more }))
    }
}
