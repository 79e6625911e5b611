//! Crash points: named places at which a process can be made to die, for drills and tests.
//!
//! `WINDLASS_CRASH_AT=append.after:2` kills the process (with SIGKILL, so that nothing is cleaned up) the
//! second time it passes the point `append.after`. Without the variable a point costs one load.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The environment variable that names the point.
pub const VARIABLE: &str = "WINDLASS_CRASH_AT";

/// All points, in the order in which a call passes them; the last one when its trace is indexed.
pub const POINTS: &[&str] = &[
    "append.before",
    "append.inside",
    "append.after",
    "dispatch.before",
    "dispatch.after",
    "index.inside",
];

struct Target {
    point: String,
    at: u64,
    passed: AtomicU64,
}

fn target() -> Option<&'static Target> {
    static TARGET: OnceLock<Option<Target>> = OnceLock::new();
    TARGET
        .get_or_init(|| {
            let text = std::env::var(VARIABLE).ok()?;
            let (point, at) = match text.split_once(':') {
                Some((point, at)) => (point, at.parse().ok()?),
                None => (text.as_str(), 1),
            };
            Some(Target { point: point.to_owned(), at, passed: AtomicU64::new(0) })
        })
        .as_ref()
}

/// Checks the variable: a drill that cannot happen is an error.
///
/// # Errors
/// A message for the person who set the variable.
pub fn check() -> Result<(), String> {
    let Ok(text) = std::env::var(VARIABLE) else { return Ok(()) };
    let (point, at) = text.split_once(':').unwrap_or((&text, "1"));
    if !POINTS.contains(&point) {
        return Err(format!("{VARIABLE} names `{point}`; the points are {}", POINTS.join(", ")));
    }
    match at.parse::<u64>() {
        Ok(1..) => Ok(()),
        _ => Err(format!("{VARIABLE} counts from 1, not `{at}`")),
    }
}

/// Passes the point `name`; kills the process if the variable asks for that.
pub fn point(name: &str) {
    if let Some(target) = target()
        && target.point == name
        && target.passed.fetch_add(1, Ordering::Relaxed) + 1 == target.at
    {
        let me = rustix::process::getpid();
        // The process must not go on even if this fails.
        let _ = rustix::process::kill_process(me, rustix::process::Signal::KILL);
        std::process::abort();
    }
}
