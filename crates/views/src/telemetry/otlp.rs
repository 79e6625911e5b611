//! Spans in the JSON encoding of the OpenTelemetry protocol.

use serde_json::{Value, json};
use windlass_kernel::{Timestamp, TraceId};

use super::{Ending, Fact, Facts, Happening, Kind, Span};

/// Who sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The name under which it is shown.
    pub name: String,
    /// The version of Windlass.
    pub version: &'static str,
}

/// The body of one request with spans of one run.
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
    let happenings: Vec<Value> = span.happenings.iter().map(happening).collect();
    // Internal, or a client of something outside.
    let kind = match span.kind {
        Kind::Run | Kind::Phase => 1,
        Kind::Invocation | Kind::Call => 3,
    };
    let status = match &span.ending {
        Ending::Unset => json!({ "code": 0 }),
        Ending::Good => json!({ "code": 1 }),
        Ending::Bad(code) => json!({ "code": 2, "message": code }),
    };
    let mut value = json!({
        "traceId": trace,
        "spanId": span.id.hex(),
        "name": span.name,
        "kind": kind,
        "startTimeUnixNano": nanos(span.start),
        // A clock that was set back makes no span of less than nothing.
        "endTimeUnixNano": nanos(span.end.max(span.start)),
        "attributes": attributes(&span.facts),
        "events": happenings,
        "status": status,
    });
    if let (Some(object), Some(parent)) = (value.as_object_mut(), span.parent) {
        object.insert("parentSpanId".to_owned(), json!(parent.hex()));
    }
    value
}

fn happening(happening: &Happening) -> Value {
    json!({
        "timeUnixNano": nanos(happening.at),
        "name": happening.name,
        "attributes": attributes(&happening.facts),
    })
}

/// 64-bit numbers are texts in this encoding.
fn nanos(ts: Timestamp) -> String {
    let ms = u64::try_from(ts.unix_ms()).unwrap_or_default();
    (u128::from(ms) * 1_000_000).to_string()
}

fn attributes(facts: &Facts) -> Vec<Value> {
    let attribute = |(key, fact): (&&'static str, &Fact)| match fact {
        Fact::Text(value) => text(key, value),
        Fact::Count(value) => {
            json!({ "key": key, "value": { "intValue": value.to_string() } })
        }
        Fact::Flag(value) => json!({ "key": key, "value": { "boolValue": value } }),
    };
    facts.iter().map(attribute).collect()
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}
