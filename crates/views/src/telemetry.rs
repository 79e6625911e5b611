//! Runs as OpenTelemetry spans. They are built from the journal, so they are complete and reproducible.
//!
//! A span has names, counts, codes and times. Questions, answers and findings stay in the journal.

mod call_span;
mod otlp;
mod span_builder;
mod span_event;

use std::collections::BTreeMap;

use windlass_engine::EngineError;
use windlass_kernel::{Digest, Timestamp, TraceId};
use windlass_store::Store;

pub use otlp::{Service, request};

/// The maximum number of spans in one request.
pub const SPANS_MAX: usize = 500;

/// The kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpanKind {
    /// A run.
    Run,
    /// One attempt of a phase.
    Phase,
    /// An agent or a program.
    Invocation,
    /// A tool call.
    Call,
}

impl SpanKind {
    /// The name in ids and attributes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Phase => "phase",
            Self::Invocation => "invocation",
            Self::Call => "call",
        }
    }
}

/// The id of a span. It is derived from trace, kind and sequence number, so it is unique and stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpanId([u8; 8]);

impl SpanId {
    /// The id of the span that an entry begins: the first bytes of a digest.
    #[must_use]
    pub fn of(trace_id: TraceId, kind: SpanKind, sequence_number: u64) -> Self {
        let text = format!("windlass span {trace_id} {} {sequence_number}", kind.as_str());
        let [a, b, c, d, e, f, g, h, ..] = *Digest::of(text.as_bytes()).as_bytes();
        // OpenTelemetry reserves the id of all zeros.
        Self(match [a, b, c, d, e, f, g, h] {
            [0, 0, 0, 0, 0, 0, 0, 0] => [0, 0, 0, 0, 0, 0, 0, 1],
            bytes => bytes,
        })
    }

    /// The id in hex, as it is sent.
    #[must_use]
    pub fn hex(self) -> String {
        format!("{:016x}", u64::from_be_bytes(self.0))
    }
}

/// The value of an attribute of a span or an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// A name, a code, an id.
    Text(String),
    /// A count.
    Count(u64),
    /// A boolean.
    Flag(bool),
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for AttributeValue {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

/// Attributes by name.
pub type Attributes = BTreeMap<&'static str, AttributeValue>;

/// An event in a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanEvent {
    /// The name.
    pub name: &'static str,
    /// The time.
    pub at: Timestamp,
    /// The attributes.
    pub attributes: Attributes,
}

/// The status of a span.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SpanStatus {
    /// The work has not ended, or has no status.
    #[default]
    Unset,
    /// Success.
    Ok,
    /// A failure with its code.
    Error(String),
}

/// One span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its id.
    pub id: SpanId,
    /// The parent span; only the span of a run has none.
    pub parent: Option<SpanId>,
    /// The kind.
    pub kind: SpanKind,
    /// Its name.
    pub name: String,
    /// The start.
    pub start: Timestamp,
    /// The end, or the time of the last entry.
    pub end: Timestamp,
    /// The attributes.
    pub attributes: Attributes,
    /// The events.
    pub events: Vec<SpanEvent>,
    /// The status.
    pub status: SpanStatus,
}

/// Returns the spans of a run, the run's own first.
///
/// # Errors
/// [`EngineError`] if its trace cannot be read or is corrupt.
pub fn spans(store: &dyn Store, trace_id: TraceId) -> Result<Vec<Span>, EngineError> {
    span_builder::build(store, trace_id)
}
