//! Sends runs to an OpenTelemetry collector when they end or wait, if one is configured.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use windlass_connect::{Post, post_json};
use windlass_engine::RunObservers;
use windlass_journal::{Observer, ObserverError, Origin, Step};
use windlass_kernel::run::{Event, Run, RunEvent};
use windlass_kernel::{Code, TraceId};
use windlass_store::Store;
use windlass_views::telemetry::{SPANS_MAX, Service, Span, request, spans};

use crate::config::Config;
use crate::failure::Failure;
use crate::output::{Ink, Output, plain};

/// How long a command may take longer because of it.
const COURTESY: Duration = Duration::from_secs(2);
/// How long one request may take when a person waits for just that.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest list of headers.
const HEADERS_BYTES_MAX: usize = 16 << 10;

/// Where runs are sent.
#[derive(Clone, Debug)]
pub struct Collector {
    url: String,
    headers: Vec<(String, String)>,
    service: Service,
}

impl Collector {
    /// The one that the environment or the project names; the environment is asked first.
    pub fn find(config: &Config) -> Result<Option<Self>, Failure> {
        let named = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        if named("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let base = || {
            let base = named("OTEL_EXPORTER_OTLP_ENDPOINT");
            let base = base.or_else(|| config.telemetry.endpoint.clone())?;
            Some(format!("{}/v1/traces", base.trim().trim_end_matches('/')))
        };
        let whole = named("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        let Some(url) = whole.map(|url| url.trim().to_owned()).or_else(base) else {
            return Ok(None);
        };
        let headers = named("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default();
        let name = named("OTEL_SERVICE_NAME").unwrap_or_else(|| "windlass".to_owned());
        let service = Service { name, version: env!("CARGO_PKG_VERSION") };
        Ok(Some(Self { url, headers: read_headers(&headers)?, service }))
    }

    /// Sends a run as recorded; returns how many spans it has.
    pub fn send(
        &self,
        store: &dyn Store,
        trace_id: TraceId,
        until: Option<Instant>,
    ) -> Result<usize, Failure> {
        let spans = spans(store, trace_id)?;
        for part in spans.chunks(SPANS_MAX) {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            self.post(trace_id, part, left.unwrap_or(PATIENCE))?;
        }
        Ok(spans.len())
    }

    fn post(&self, trace_id: TraceId, spans: &[Span], timeout: Duration) -> Result<(), Failure> {
        let body = serde_json::to_vec(&request(&self.service, trace_id, spans))
            .map_err(|error| Failure::of(Code::Internal, &error))?;
        let answer = post_json(Post { url: &self.url, headers: &self.headers, body, timeout })
            .map_err(|error| Failure::new(Code::TelemetryUnavailable, error.to_string()))?;
        let answer: Answer = serde_json::from_slice(&answer).unwrap_or_default();
        match answer.partial_success.rejected_spans.to_string().trim_matches('"') {
            "" | "0" | "null" => Ok(()),
            rejected => {
                let rejected: String = rejected.chars().take(20).collect();
                let message = format!("the collector rejected {rejected} spans");
                Err(Failure::new(Code::TelemetryUnavailable, message))
            }
        }
    }
}

/// What a collector says to spans that it took in part.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Answer {
    partial_success: PartialSuccess,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PartialSuccess {
    /// A text or a number.
    rejected_spans: serde_json::Value,
}

/// Reads `name=value,name=value`, with what the values need encoded by `%`.
fn read_headers(text: &str) -> Result<Vec<(String, String)>, Failure> {
    let invalid = || {
        Failure::new(Code::ConfigInvalid, "OTEL_EXPORTER_OTLP_HEADERS is not a list of headers")
            .hint("write it as name=value,name=value, with special characters encoded by %")
    };
    if text.len() > HEADERS_BYTES_MAX {
        return Err(invalid());
    }
    let mut headers = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').ok_or_else(invalid)?;
        let value = decode(value.trim()).ok_or_else(invalid)?;
        headers.push((name.trim().to_owned(), value));
    }
    Ok(headers)
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let code = std::str::from_utf8(tail.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        rest = tail.get(2..)?;
    }
    String::from_utf8(bytes).ok()
}

/// The runs that have ended or begun to wait in this process.
#[derive(Clone, Default)]
pub struct Outbox {
    waiting: Arc<Mutex<BTreeSet<TraceId>>>,
}

impl RunObservers for Outbox {
    fn observe(&self, _: TraceId) -> Box<dyn Observer<Run>> {
        Box::new(Pending { outbox: self.clone(), ready: false })
    }
}

/// Whether a run has ended or begun to wait with an entry that is not durable yet.
struct Pending {
    outbox: Outbox,
    ready: bool,
}

impl Observer<Run> for Pending {
    fn before(&mut self, _: &Run, _: &RunEvent) {}

    fn after(&mut self, step: &Step<'_, Run>) {
        let event = &step.artifact.event;
        self.ready |= step.origin == Origin::Appended
            && matches!(event, Event::Held(_) | Event::Ended { .. });
    }

    fn durable(&mut self, run: &Run) -> Result<(), ObserverError> {
        if std::mem::take(&mut self.ready) {
            let mut waiting = self.outbox.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.insert(run.head.trace_id);
        }
        Ok(())
    }
}

/// Sends what is in an outbox when the command is through with it: no run waits for a collector.
pub struct Courier {
    /// What there is to send.
    pub outbox: Outbox,
    /// Where to; what is wrong with the settings is said when there is something to send.
    pub collector: Result<Option<Collector>, Failure>,
    /// The journal.
    pub store: Arc<dyn Store>,
    /// Where to speak.
    pub output: Output,
}

impl Drop for Courier {
    fn drop(&mut self) {
        let mut waiting =
            self.outbox.waiting.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if waiting.is_empty() {
            return;
        }
        let until = Instant::now() + COURTESY;
        while let Some(trace_id) = waiting.pop_first() {
            let why = match &self.collector {
                Ok(None) => return,
                Err(failure) => failure.summary(),
                Ok(Some(collector)) => {
                    match collector.send(self.store.as_ref(), trace_id, Some(until)) {
                        Ok(_) => continue,
                        Err(failure) => failure.summary(),
                    }
                }
            };
            let more = match waiting.len() {
                0 => String::new(),
                more => format!(", nor {more} more"),
            };
            let word = self.output.paint_note("warning:", Ink::Warn);
            self.output.note(&format!("{word} the run was not sent{more}: {}", plain(&why)));
            return;
        }
    }
}
