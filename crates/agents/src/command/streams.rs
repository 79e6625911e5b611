//! The streams of a program.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use windlass_connect::AgentProcess;
use windlass_engine::EngineError;
use windlass_engine::executors::CallResult;

use crate::streams::keep_tail;

/// The longest line.
pub(super) const LINE_BYTES_MAX: u64 = 1 << 20;
/// How many lines may wait until the program reads them.
const LINES_MAX: usize = 1024;

/// What the thread of the invocation is told.
pub(super) enum Message {
    /// The program wrote a line.
    Line(Vec<u8>),
    /// The program wrote a line that is too long.
    LongLine,
    /// The program closed its output.
    OutputEnded,
    /// A call was made.
    Called { id: String, result: Box<Result<CallResult, EngineError>> },
}

/// Reads what the program writes, and returns where lines for it go.
pub(super) fn follow(
    process: &mut AgentProcess,
    sender: &Sender<Message>,
    tail: Arc<Mutex<Vec<u8>>>,
) -> SyncSender<Value> {
    let (lines, waiting) = sync_channel::<Value>(LINES_MAX);
    let stdin = process.stdin.take();
    std::thread::spawn(move || {
        let Some(mut stdin) = stdin else { return };
        while let Ok(line) = waiting.recv() {
            // A program that does not read its input ends by itself.
            if stdin.write_all(format!("{line}\n").as_bytes()).is_err() {
                return;
            }
        }
    });
    keep_tail(process, tail);
    if let Some(stdout) = process.stdout.take() {
        let sender = sender.clone();
        std::thread::spawn(move || read_lines(BufReader::new(stdout), &sender));
    }
    lines
}

/// Whether a line, without its end, is too long.
fn is_long(line: &[u8]) -> bool {
    u64::try_from(line.len()).map_or(true, |length| length > LINE_BYTES_MAX)
}

pub(super) fn read_lines(mut stdout: impl BufRead, sender: &Sender<Message>) {
    loop {
        let mut line = Vec::new();
        let read = (&mut stdout).take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line);
        let message = match read {
            Ok(0) | Err(_) => break,
            Ok(_) if !line.ends_with(b"\n") && is_long(&line) => {
                // Nothing after it is read.
                let _ = sender.send(Message::LongLine);
                return;
            }
            Ok(_) => Message::Line(line),
        };
        if sender.send(message).is_err() {
            return;
        }
    }
    let _ = sender.send(Message::OutputEnded);
}
