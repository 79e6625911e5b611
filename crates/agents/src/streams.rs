//! The streams of a running client: its connections to our tools, its input and output.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use windlass_connect::AgentProcess;
use windlass_mcp::Server;

use crate::host::Message;

/// How much of an error stream is kept, from its end: far more than is told of it, since the secret in which it begins is not
/// known as one.
const STDERR_BYTES_MAX: usize = 64 << 10;
/// The longest line of a client's output.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// Our server, for one start of a client.
pub(crate) struct Serving {
    pub server: Server,
    /// The number of the start.
    pub start: u32,
    /// Set when the work is over; a last connection then ends the thread.
    pub is_over: Arc<AtomicBool>,
}

/// Serves the client's connections to our tools until the invocation is over.
pub(crate) fn serve_tools(listener: UnixListener, serving: Serving, sender: Sender<Message>) {
    std::thread::spawn(move || {
        let mut connections = 0_u64;
        while let Ok((stream, _)) = listener.accept() {
            if serving.is_over.load(Ordering::Acquire) {
                return;
            }
            connections += 1;
            // Calls are counted by connection; without this, those of two connections could not be told apart.
            let connection = format!("{}.{connections}", serving.start);
            let (server, sender) = (serving.server.clone(), sender.clone());
            std::thread::spawn(move || {
                if let Ok(reader) = stream.try_clone() {
                    // How it ends does not matter: an error is an end, too.
                    let _ = server.serve_stream(&connection, reader, stream);
                }
                let _ = sender.send(Message::Disconnected);
            });
        }
    });
}

/// Keeps the end of what a process writes to its error stream.
pub(crate) fn keep_tail(process: &mut AgentProcess, tail: Arc<Mutex<Vec<u8>>>) {
    let Some(mut stderr) = process.stderr.take() else { return };
    std::thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = stderr.read(&mut chunk) {
            let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
            tail.extend(chunk.get(..count).unwrap_or_default());
            let excess = tail.len().saturating_sub(STDERR_BYTES_MAX);
            tail.drain(..excess);
        }
    });
}

/// Feeds the client its input and reads its output.
pub(crate) fn follow(
    process: &mut AgentProcess,
    input: Option<String>,
    sender: Sender<Message>,
    tail: Arc<Mutex<Vec<u8>>>,
) {
    let stdin = process.stdin.take();
    std::thread::spawn(move || {
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            // A client that does not read its input ends by itself.
            let _ = stdin.write_all(input.as_bytes());
        }
    });
    keep_tail(process, tail);
    let Some(stdout) = process.stdout.take() else { return };
    std::thread::spawn(move || {
        let mut stdout = BufReader::new(stdout);
        loop {
            let mut line = Vec::new();
            match (&mut stdout).take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) => {
                    let line = String::from_utf8_lossy(&line).into_owned();
                    if sender.send(Message::Line(line)).is_err() {
                        return;
                    }
                }
            }
        }
        let _ = sender.send(Message::OutputEnded);
    });
}
