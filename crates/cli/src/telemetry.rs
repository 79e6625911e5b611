//! Sends runs to an OpenTelemetry collector when they end or go on hold, if one is configured.

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
use crate::output::{Output, Style, sanitize};

/// The time limit for sending at the end of a command.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(2);
/// The time limit of one request of `telemetry push`.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum size of the header list.
const HEADERS_BYTES_MAX: usize = 16 << 10;

/// An OpenTelemetry collector.
#[derive(Clone, Debug)]
pub struct Collector {
    url: String,
    headers: Vec<(String, String)>,
    service: Service,
}

impl Collector {
    /// The collector from the environment or else from the project's settings.
    pub fn find(config: &Config) -> Result<Option<Self>, Failure> {
        let named = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        if named("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let traces = |base: String| format!("{}/v1/traces", base.trim().trim_end_matches('/'));
        let whole = named("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").map(|url| url.trim().to_owned());
        let of_environment = whole.or_else(|| named("OTEL_EXPORTER_OTLP_ENDPOINT").map(traces));
        let headers = named("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default();
        let url = match (of_environment, config.telemetry.endpoint.clone()) {
            (Some(url), _) => url,
            (None, None) => return Ok(None),
            // They can hold a key, and the project's settings come with the repository.
            (None, Some(_)) if !headers.is_empty() => return Err(Failure::new(
                Code::ConfigInvalid,
                "OTEL_EXPORTER_OTLP_HEADERS is not sent to the address of the project's settings",
            )
            .hint(
                "set OTEL_EXPORTER_OTLP_ENDPOINT to the address that the headers are meant for",
            )),
            (None, Some(base)) => traces(base),
        };
        let name = named("OTEL_SERVICE_NAME").unwrap_or_else(|| "windlass".to_owned());
        let service = Service { name, version: env!("CARGO_PKG_VERSION") };
        Ok(Some(Self { url, headers: read_headers(&headers)?, service }))
    }

    /// Sends a run's spans; returns their number.
    pub fn send(
        &self,
        store: &dyn Store,
        trace_id: TraceId,
        until: Option<Instant>,
    ) -> Result<usize, Failure> {
        let spans = spans(store, trace_id)?;
        for part in spans.chunks(SPANS_MAX) {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            self.post(trace_id, part, left.unwrap_or(REQUEST_TIMEOUT))?;
        }
        Ok(spans.len())
    }

    fn post(&self, trace_id: TraceId, spans: &[Span], timeout: Duration) -> Result<(), Failure> {
        let body = serde_json::to_vec(&request(&self.service, trace_id, spans))
            .map_err(|error| Failure::of(Code::Internal, &error))?;
        let response = post_json(Post { url: &self.url, headers: &self.headers, body, timeout })
            .map_err(|error| Failure::new(Code::TelemetryUnavailable, error.to_string()))?;
        let response: ExportResponse = serde_json::from_slice(&response).unwrap_or_default();
        match response.partial_success.rejected_spans.to_string().trim_matches('"') {
            "" | "0" | "null" => Ok(()),
            rejected => {
                let rejected: String = rejected.chars().take(20).collect();
                let message = format!("the collector rejected {rejected} spans");
                Err(Failure::new(Code::TelemetryUnavailable, message))
            }
        }
    }
}

/// The collector's response to a partly accepted request.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ExportResponse {
    partial_success: PartialSuccess,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PartialSuccess {
    /// A string or a number.
    rejected_spans: serde_json::Value,
}

/// Parses `name=value,name=value` with percent-encoded values.
fn read_headers(text: &str) -> Result<Vec<(String, String)>, Failure> {
    let invalid = || {
        Failure::new(Code::ConfigInvalid, "OTEL_EXPORTER_OTLP_HEADERS is not a list of headers")
            .hint("write it as name=value,name=value, with special characters percent-encoded")
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

/// The runs that ended or went on hold in this process and are not sent yet.
#[derive(Clone, Default)]
pub struct ExportQueue {
    waiting: Arc<Mutex<BTreeSet<TraceId>>>,
}

impl RunObservers for ExportQueue {
    fn observe(&self, _: TraceId) -> Box<dyn Observer<Run>> {
        Box::new(ExportObserver { queue: self.clone(), ready: false })
    }
}

/// Queues a run once the entry of its end or hold is durable.
struct ExportObserver {
    queue: ExportQueue,
    ready: bool,
}

impl Observer<Run> for ExportObserver {
    fn before(&mut self, _: &Run, _: &RunEvent) {}

    fn after(&mut self, step: &Step<'_, Run>) {
        let event = &step.artifact.event;
        self.ready |= step.origin == Origin::Appended
            && matches!(event, Event::Held(_) | Event::Ended { .. });
    }

    fn durable(&mut self, run: &Run) -> Result<(), ObserverError> {
        if std::mem::take(&mut self.ready) {
            let mut waiting = self.queue.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.insert(run.head.trace_id);
        }
        Ok(())
    }
}

/// Sends the queued runs when dropped, at the end of the command, so that no run waits for a collector.
pub struct RunExporter {
    /// The runs to send.
    pub queue: ExportQueue,
    /// The collector; an invalid setting is reported only if there is something to send.
    pub collector: Result<Option<Collector>, Failure>,
    /// The journal.
    pub store: Arc<dyn Store>,
    /// The output for warnings.
    pub output: Output,
}

impl Drop for RunExporter {
    fn drop(&mut self) {
        let mut waiting = self.queue.waiting.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if waiting.is_empty() {
            return;
        }
        let until = Instant::now() + EXPORT_TIMEOUT;
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
            let word = self.output.paint_note("warning:", Style::Warn);
            self.output.note(&format!(
                "{word} telemetry of the run was not sent{more}: {}",
                sanitize(&why)
            ));
            return;
        }
    }
}
