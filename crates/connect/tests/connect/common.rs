//! Helpers of the tests.

use std::time::{Duration, Instant};

use serde_json::Value;
use windlass_connect::{Certainty, Job, Limits, Reply, Target};
use windlass_kernel::{Code, RiskLevel};

/// Long enough for everything that ends.
pub const PATIENT: Limits =
    Limits { timeout: Duration::from_secs(60), output_bytes_max: 1024 * 1024 };

pub const CALL_ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// A job with the usual settings.
pub fn job<'a>(target: &'a Target, tool: &'a str, args: &'a Value) -> Job<'a> {
    Job {
        target,
        tool,
        args,
        class: RiskLevel::Write,
        tool_call_id: CALL_ID.parse().unwrap(),
        idempotency_key: None,
        limits: PATIENT,
        confinement: None,
        foreseen: None,
    }
}

#[track_caller]
pub fn success(reply: Reply) -> Value {
    match reply {
        Reply::Success { result } => result,
        failure @ Reply::Failure { .. } => panic!("{failure:?}"),
    }
}

/// The message and result of a failure of the expected kind.
#[track_caller]
pub fn failure(reply: Reply, code: Code, certainty: Certainty) -> (String, Option<Value>) {
    match reply {
        Reply::Failure { code: actual, message, result, certainty: sure } => {
            assert_eq!((actual, sure), (code, certainty), "{message}");
            assert!(!message.is_empty() && !message.contains('\n'), "{message:?}");
            (message, result)
        }
        Reply::Success { result } => panic!("{result}"),
    }
}

/// Whether a process runs; a zombie does not.
pub fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    !matches!(state, None | Some("Z" | "X"))
}

/// Waits for something that must become true.
#[track_caller]
pub fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < Duration::from_secs(60), "not in a minute: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
