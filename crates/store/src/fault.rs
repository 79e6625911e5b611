//! Named points at which a process can be made to die, for drills and tests.
//!
//! `WINDLASS_CRASH_AT=append.after:2` kills the process (SIGKILL, so that nothing is tidied up) the
//! second time it passes the point `append.after`. Without the variable a point costs one load.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The variable that names the point.
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

/// Says what is wrong with the variable, if anything: a drill that cannot happen is an error.
///
/// # Errors
/// A sentence for the person who set it.
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

/// Passes the point `name`: the end of the process, if it is the one asked for.
pub fn point(name: &str) {
    if let Some(target) = target()
        && target.point == name
        && target.passed.fetch_add(1, Ordering::Relaxed) + 1 == target.at
    {
        let me = rustix::process::getpid();
        // If even this fails the process still must not go on.
        let _ = rustix::process::kill_process(me, rustix::process::Signal::KILL);
        std::process::abort();
    }
}
