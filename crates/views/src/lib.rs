//! Views of a journal for people and programs: the files of runs, spans, metrics, summaries, checkpoint
//! documents, and new events.
//!
//! Views are functions of recorded entries. They decide nothing, and no decision depends on them.

pub mod checkpoints;
mod event_log;
mod files;
mod metrics;
mod summary;
pub mod telemetry;
mod traces;
mod watch;

pub use event_log::EventLog;
pub use files::{Files, written_below};
pub use metrics::{EndedRuns, Metrics, RunKind};
pub use summary::RunSummary;
pub use traces::{ListedTrace, WantedTraces, list_traces};
pub use watch::{Follower, PollResult, RecordedEvent, Watcher};
