//! What people and programs see of a journal: the files that show runs, spans, metrics, summaries,
//! checkpoint documents, and what is new since the last look.
//!
//! Views are functions of recorded entries. They decide nothing, and nothing is decided by them.

pub mod checkpoints;
mod event_log;
mod files;
mod metrics;
mod summary;
pub mod telemetry;
mod watch;

pub use event_log::EventLog;
pub use files::Files;
pub use metrics::{Metrics, RunKind};
pub use summary::RunSummary;
pub use watch::{Follower, Look, Step, Watcher};
