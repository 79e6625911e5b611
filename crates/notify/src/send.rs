//! One attempt: a signed request, or a command.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use ring::hmac;
use windlass_cell::{Ending, Excess, Limits, OnSignal, Program, describe_exit, kill_marked};
use windlass_connect::{Post, exchange};
use windlass_kernel::Timestamp;

use crate::body::Body;
use crate::receiver::Target;

/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a command may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// How much of a command's output is read.
const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// The variable with the id of the notification. Whatever a command starts inherits it.
const MARK: &str = "WINDLASS_NOTIFICATION";

/// How an attempt ended.
pub(crate) enum Sent {
    /// The receiver has accepted it.
    Accepted { status: Option<u16> },
    /// It may be accepted later.
    Failed { reason: String, status: Option<u16>, retry_after: Option<Duration> },
    /// It will not be accepted later either.
    Refused { reason: String, status: Option<u16> },
}

/// Sends a message once.
pub(crate) fn send(target: &Target, body: &Body<'_>, now: Timestamp) -> Sent {
    let bytes = match serde_json::to_vec(body) {
        Ok(bytes) => bytes,
        Err(error) => return Sent::Refused { reason: error.to_string(), status: None },
    };
    match target {
        Target::Url { url, key } => request(url, key, body, bytes, now),
        Target::Command { argv, folder, secret } => {
            let secret = secret.as_ref().map(|secret| secret.as_str());
            command(argv, folder, secret, body, &bytes, COMMAND_TIMEOUT)
        }
    }
}

/// The value of the header `Windlass-Signature`: the time, and the HMAC-SHA256 of the time, a dot and the body.
#[must_use]
pub fn signature(key: &str, now: Timestamp, body: &[u8]) -> String {
    let seconds = now.unix_ms().div_euclid(1000);
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()));
    context.update(format!("{seconds}.").as_bytes());
    context.update(body);
    let tag = context.sign();
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={seconds},v1={hex}")
}

fn request(url: &str, key: &str, body: &Body<'_>, bytes: Vec<u8>, now: Timestamp) -> Sent {
    let headers = [
        ("windlass-notification".to_owned(), body.id.to_string()),
        ("windlass-signature".to_owned(), signature(key, now, &bytes)),
    ];
    let post = Post { url, headers: &headers, body: bytes, timeout: REQUEST_TIMEOUT };
    let answer = match exchange(post) {
        Ok(answer) => answer,
        Err(error) => {
            let reason = error.to_string();
            return Sent::Failed { reason, status: None, retry_after: None };
        }
    };
    let status = Some(answer.status);
    let reason = format!("the answer is HTTP {}", answer.status);
    match answer.status {
        200..=299 => Sent::Accepted { status },
        // It was too slow, or asks to wait.
        408 | 429 => Sent::Failed { reason, status, retry_after: answer.retry_after },
        // A redirect is not followed: the receiver is the one that the settings name.
        300..=499 => Sent::Refused { reason, status },
        _ => Sent::Failed { reason, status, retry_after: answer.retry_after },
    }
}

fn command(
    argv: &[String],
    folder: &Path,
    secret: Option<&str>,
    body: &Body<'_>,
    bytes: &[u8],
    timeout: Duration,
) -> Sent {
    let id = body.id.to_string();
    let mut variables = vec![
        (MARK, id.as_str()),
        ("WINDLASS_KIND", body.kind.as_str()),
        ("WINDLASS_PROJECT_NAME", &body.project.name),
        ("WINDLASS_TITLE", body.title),
        ("WINDLASS_TEXT", body.text),
    ];
    let address = body.link.or(body.address.as_deref());
    let more =
        [("WINDLASS_RUN", body.run), ("WINDLASS_LINK", address), ("WINDLASS_SECRET", secret)];
    variables.extend(more.into_iter().filter_map(|(name, value)| Some((name, value?))));
    let program = Program {
        argv: argv.iter().map(OsStr::new).collect(),
        stdin: Some(bytes),
        env: variables
            .iter()
            .map(|(name, value)| (OsStr::new(*name), OsStr::new(*value)))
            .collect(),
        cwd: folder,
        limits: Limits { timeout, output_bytes_max: OUTPUT_BYTES_MAX },
        confined: None,
        excess: Excess::End,
        on_signal: OnSignal::EndSoon,
    };
    let failed = |reason: String| Sent::Failed { reason, status: None, retry_after: None };
    let finished = windlass_cell::run(&program);
    // Its process group has ended with it; this ends what has left the group.
    kill_marked(MARK, &id);
    let finished = match finished {
        Ok(finished) => finished,
        Err(error) => return failed(format!("the command cannot be run: {error}")),
    };
    match (finished.ending, finished.status) {
        (Ending::Exited, Some(status)) if status.success() => Sent::Accepted { status: None },
        (Ending::Exited, Some(status)) => {
            let said = String::from_utf8_lossy(&finished.stderr);
            let said = said.trim();
            let colon = if said.is_empty() { "" } else { ": " };
            failed(format!("the command failed, {}{colon}{said}", describe_exit(status)))
        }
        (Ending::Exited, None) => failed("the command's end is not known".to_owned()),
        (Ending::TimedOut, _) => {
            failed(format!("the command took more than {} s", timeout.as_secs()))
        }
        (Ending::TooLarge(stream), _) => failed(format!("the command wrote too much to {stream}")),
        (Ending::Limit(_), _) => failed("the command reached a limit".to_owned()),
        (Ending::Interrupted, _) => failed("the command was interrupted".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use windlass_kernel::notification::{Created, Kind, id_of};
    use windlass_redact::Redactor;

    use super::*;
    use crate::body::ProjectName;
    use crate::subject::Subject;

    /// Tells a command that may take so long.
    fn tell(script: &str, folder: &Path, time: Duration) -> Sent {
        let subject = Subject::test("ada", script.to_owned(), Timestamp::EPOCH);
        let message = subject.message(Kind::Test, &Redactor::new([]));
        let id = id_of("desk", Kind::Test, &subject.about);
        let (about, receiver, at) = (subject.about, "desk".to_owned(), Timestamp::EPOCH);
        let created = Created { about, at, message, receiver };
        let project = ProjectName { id: "p".to_owned(), name: "project".to_owned() };
        let body = Body::of(id, 1, &created, &project, None, None);
        let argv = ["sh", "-c", script].map(str::to_owned);
        command(&argv, folder, None, &body, b"{}", time)
    }

    /// Whether a process is there that has not ended.
    fn lives(pid: &str) -> bool {
        let line = std::fs::read(format!("/proc/{}/cmdline", pid.trim())).unwrap_or_default();
        !line.is_empty()
    }

    #[test]
    fn nothing_that_a_command_starts_outlives_it() {
        let child = "sh -c 'echo $$ > child; exec sleep 600' > /dev/null 2>&1";
        let wait = "while [ ! -s child ]; do sleep 0.01; done";
        let long = Duration::from_secs(60);
        for (start, end, mut time) in [
            // In the background, and in a session of its own; and both until the time is over.
            (format!("{child} &"), "exit 0", long),
            (format!("setsid {child} &"), "exit 0", long),
            (format!("{child} &"), "sleep 600", Duration::from_millis(500)),
            (format!("setsid {child} &"), "trap '' TERM; sleep 600", Duration::from_millis(500)),
        ] {
            let script = format!("{start}\n{wait}\n{end}");
            let pid = loop {
                let folder = tempfile::tempdir().unwrap();
                let is_over = match tell(&script, folder.path(), time) {
                    Sent::Accepted { .. } => time == long,
                    Sent::Failed { reason, .. } => reason.contains("took more than"),
                    Sent::Refused { .. } => false,
                };
                assert!(is_over, "{script}");
                // On a slow machine the time may be over before the child has begun.
                match std::fs::read_to_string(folder.path().join("child")) {
                    Ok(pid) if !pid.is_empty() => break pid,
                    Ok(_) | Err(_) => time *= 2,
                }
                assert!(time <= long, "the child was not started: {script}");
            };
            let began = std::time::Instant::now();
            while lives(&pid) {
                assert!(began.elapsed() < long, "{script}: {pid} goes on");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// The value was computed with Python's `hmac` module.
    #[test]
    fn the_signature_is_that_of_the_documentation() {
        let now = Timestamp::from_unix_ms(1_700_000_000_999).unwrap();
        let expected = "t=1700000000,\
                        v1=155c7699ac82bd21be9225aa5aeb6e3bc9b1d5c2c9f33221232dd56046a25b52";
        assert_eq!(signature("a shared secret", now, br#"{"kind":"test"}"#), expected);
        assert_ne!(signature("another secret!", now, br#"{"kind":"test"}"#), expected);
    }
}
