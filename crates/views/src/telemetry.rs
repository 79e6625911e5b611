//! Runs as spans, made from the journal: exact, the same whenever they are made, nothing left out.
//!
//! A span carries names, counts, codes and times. What was asked, answered or found stays in the
//! journal.

mod call_span;
mod otlp;
mod span_builder;

use std::collections::BTreeMap;

use windlass_engine::EngineError;
use windlass_kernel::{Digest, Timestamp, TraceId};
use windlass_store::Store;

pub use otlp::{Service, request};

/// The most spans that go into one request.
pub const SPANS_MAX: usize = 500;

/// What a span is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A run.
    Run,
    /// One try of a phase.
    Phase,
    /// An agent or a program.
    Invocation,
    /// A tool call.
    Call,
}

impl Kind {
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

/// The id of a span: what makes it is never made twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpanId([u8; 8]);

impl SpanId {
    /// The id of what an entry begins: the first bytes of a digest of trace, kind and number.
    #[must_use]
    pub fn of(trace_id: TraceId, kind: Kind, sequence_number: u64) -> Self {
        let text = format!("windlass span {trace_id} {} {sequence_number}", kind.as_str());
        let [a, b, c, d, e, f, g, h, ..] = *Digest::of(text.as_bytes()).as_bytes();
        // All zeros mean that there is no span.
        Self(match [a, b, c, d, e, f, g, h] {
            [0, 0, 0, 0, 0, 0, 0, 0] => [0, 0, 0, 0, 0, 0, 0, 1],
            bytes => bytes,
        })
    }

    /// The id as it is sent.
    #[must_use]
    pub fn hex(self) -> String {
        format!("{:016x}", u64::from_be_bytes(self.0))
    }
}

/// What is said of a span or an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A name, a code, an id.
    Text(String),
    /// A count.
    Count(u64),
    /// Yes or no.
    Flag(bool),
}

impl From<&str> for Fact {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Fact {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

/// What is said, by name.
pub type Facts = BTreeMap<&'static str, Fact>;

/// Something that happened in a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    /// What.
    pub name: &'static str,
    /// When.
    pub at: Timestamp,
    /// What is said of it.
    pub facts: Facts,
}

/// How something ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// It has not, or nobody says.
    #[default]
    Unset,
    /// Well.
    Good,
    /// Not well, with the code that says why.
    Bad(String),
}

/// One span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its id.
    pub id: SpanId,
    /// The span it is part of; only a run's is part of none.
    pub parent: Option<SpanId>,
    /// What it is of.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// When it began.
    pub start: Timestamp,
    /// When it ended, or was last heard of.
    pub end: Timestamp,
    /// What is said of it.
    pub facts: Facts,
    /// What happened in it.
    pub happenings: Vec<Happening>,
    /// How it ended.
    pub ending: Ending,
}

/// The spans of a run as recorded, the run's own first.
///
/// # Errors
/// [`EngineError`] when its trace cannot be read or does not hold together.
pub fn spans(store: &dyn Store, trace_id: TraceId) -> Result<Vec<Span>, EngineError> {
    span_builder::build(store, trace_id)
}
