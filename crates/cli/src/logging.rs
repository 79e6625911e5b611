//! Logging of Windlass's own events to standard error.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt};

use crate::args::{LogFormat, LogLevel};

/// The prefix of our crates' names. Other crates are not logged: their messages may contain tool
/// arguments.
const OURS: &str = "windlass";

/// Starts logging, unless it is off.
pub fn start(level: LogLevel, format: LogFormat) {
    let level = match level {
        LogLevel::Off => return,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    // A closed standard error must not end the process.
    let layer = fmt::layer().with_writer(std::io::stderr).log_internal_errors(false);
    let layer = match format {
        LogFormat::Text => layer.with_ansi(false).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    let ours = Targets::new().with_target(OURS, level);
    // Fails only if a subscriber is installed already, which is fine.
    drop(tracing_subscriber::registry().with(layer.with_filter(ours)).try_init());
}
