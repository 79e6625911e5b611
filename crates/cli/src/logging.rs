//! The log: our own events only, to standard error only.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt};

use crate::args::{LogFormat, LogLevel};

/// What our crates' names begin with. What other crates log may hold what a tool was told.
const OURS: &str = "windlass";

/// Starts the log, if one is wanted.
pub fn start(level: LogLevel, format: LogFormat) {
    let level = match level {
        LogLevel::Off => return,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    // A standard error that nobody reads must not end the process.
    let layer = fmt::layer().with_writer(std::io::stderr).log_internal_errors(false);
    let layer = match format {
        LogFormat::Text => layer.with_ansi(false).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    let ours = Targets::new().with_target(OURS, level);
    // Fails only when there is one already, which is as good.
    drop(tracing_subscriber::registry().with(layer.with_filter(ours)).try_init());
}
