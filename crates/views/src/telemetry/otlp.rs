//! Spans in the JSON encoding of the OpenTelemetry protocol.

use serde_json::{Value, json};
use windlass_kernel::{Timestamp, TraceId};

use super::{AttributeValue, Attributes, Span, SpanEvent, SpanKind, SpanStatus};

/// The service that sends the spans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The service name.
    pub name: String,
    /// The version of Windlass.
    pub version: &'static str,
}

/// Builds the body of a request with spans of one run.
#[must_use]
pub fn request(service: &Service, trace_id: TraceId, spans: &[Span]) -> Value {
    let trace: String = trace_id.0.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let spans: Vec<Value> = spans.iter().map(|one| span(&trace, one)).collect();
    json!({ "resourceSpans": [{
        "resource": { "attributes": [text("service.name", &service.name)] },
        "scopeSpans": [{
            "scope": { "name": "windlass", "version": service.version },
            "spans": spans,
        }],
    }]})
}

fn span(trace: &str, span: &Span) -> Value {
    let events: Vec<Value> = span.events.iter().map(event).collect();
    // 1: internal; 3: client.
    let kind = match span.kind {
        SpanKind::Run | SpanKind::Phase => 1,
        SpanKind::Invocation | SpanKind::Call => 3,
    };
    let status = match &span.status {
        SpanStatus::Unset => json!({ "code": 0 }),
        SpanStatus::Ok => json!({ "code": 1 }),
        SpanStatus::Error(code) => json!({ "code": 2, "message": code }),
    };
    let mut value = json!({
        "traceId": trace,
        "spanId": span.id.hex(),
        "name": span.name,
        "kind": kind,
        "startTimeUnixNano": nanos(span.start),
        // If the clock was set back, the span must not end before its start.
        "endTimeUnixNano": nanos(span.end.max(span.start)),
        "attributes": attributes(&span.attributes),
        "events": events,
        "status": status,
    });
    if let (Some(object), Some(parent)) = (value.as_object_mut(), span.parent) {
        object.insert("parentSpanId".to_owned(), json!(parent.hex()));
    }
    value
}

fn event(event: &SpanEvent) -> Value {
    json!({
        "timeUnixNano": nanos(event.at),
        "name": event.name,
        "attributes": attributes(&event.attributes),
    })
}

/// 64-bit numbers are strings in this encoding.
fn nanos(ts: Timestamp) -> String {
    let ms = u64::try_from(ts.unix_ms()).unwrap_or_default();
    (u128::from(ms) * 1_000_000).to_string()
}

fn attributes(attributes: &Attributes) -> Vec<Value> {
    let attribute = |(key, fact): (&&'static str, &AttributeValue)| match fact {
        AttributeValue::Text(value) => text(key, value),
        AttributeValue::Count(value) => {
            json!({ "key": key, "value": { "intValue": value.to_string() } })
        }
        AttributeValue::Flag(value) => json!({ "key": key, "value": { "boolValue": value } }),
    };
    attributes.iter().map(attribute).collect()
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}
