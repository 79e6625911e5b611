//! Clients over a pair of byte streams: one message a line.

use std::collections::VecDeque;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::ErrorData;

use crate::server::{Origin, Server};
use crate::session::{Outbox, lock};
use crate::wire;

/// The most messages that wait to be written.
const QUEUE_MAX: usize = 64;
/// How long a client has to read the last answers after it has closed its side.
const FLUSH: Duration = Duration::from_secs(2);

impl Server {
    /// Serves one client over a pair of byte streams, until the client closes or cannot be read from.
    ///
    /// Calls in progress are finished first, since their effects count; their answers are written if
    /// somebody still reads them. Calls that wait for others are refused.
    ///
    /// # Errors
    /// The error that ended the reading, or that there is no thread for the writing.
    pub fn serve_stream(
        &self,
        session: &str,
        reader: impl Read,
        writer: impl Write + Send + 'static,
    ) -> io::Result<()> {
        let queue = Arc::new(Queue::default());
        let written = Arc::clone(&queue);
        std::thread::Builder::new()
            .name("windlass-mcp-write".to_owned())
            .spawn(move || written.write_to(writer))?;
        let out: Arc<dyn Outbox> = Arc::clone(&queue) as Arc<dyn Outbox>;
        let session = self.core.open_session(session.to_owned());
        session.set_out(Some(Arc::clone(&out)));
        let origin = Origin { session: &session, scope: self.core.next_scope(), out: &out };
        let mut lines = Lines::new(reader, self.core.limits.message_bytes_max);
        let end = loop {
            match lines.next() {
                Ok(Line::Message(text)) => self.core.handle(&origin, text),
                Ok(Line::TooLong) => {
                    let max = self.core.limits.message_bytes_max;
                    let message = format!("the message is longer than {max} bytes");
                    out.send(wire::error(None, ErrorData::invalid_request(message, None)));
                }
                Ok(Line::End) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        session.close();
        queue.stop_limiting();
        self.core.calls.refuse_waiting(&session);
        session.wait();
        queue.flush(FLUSH);
        end
    }
}

/// What comes next in a stream.
#[derive(Debug, PartialEq)]
enum Line<'a> {
    /// A line that is not empty, without its end.
    Message(&'a [u8]),
    /// A line that was too long; it was skipped.
    TooLong,
    /// The end.
    End,
}

struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    bytes_max: usize,
}

impl<R: Read> Lines<R> {
    fn new(reader: R, bytes_max: usize) -> Self {
        Self { reader: BufReader::with_capacity(64 * 1024, reader), line: Vec::new(), bytes_max }
    }

    fn next(&mut self) -> io::Result<Line<'_>> {
        loop {
            let Some(too_long) = self.read()? else { return Ok(Line::End) };
            if too_long {
                return Ok(Line::TooLong);
            }
            if !self.line.trim_ascii().is_empty() {
                return Ok(Line::Message(&self.line));
            }
        }
    }

    /// Reads one line; returns whether it was too long, or `None` at the end.
    fn read(&mut self) -> io::Result<Option<bool>> {
        self.line.clear();
        // One long message must not occupy its memory for ever.
        self.line.shrink_to(64 * 1024);
        let mut too_long = false;
        loop {
            let chunk = match self.reader.fill_buf() {
                // The last line need not have an end.
                Ok([]) => return Ok((too_long || !self.line.is_empty()).then_some(too_long)),
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // The client ended without reading everything.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
            };
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = end.map_or(chunk, |end| chunk.get(..end).unwrap_or_default());
            too_long |= self.line.len() + part.len() > self.bytes_max;
            if too_long {
                self.line.clear();
            } else {
                self.line.extend_from_slice(part);
            }
            let consumed = part.len() + usize::from(end.is_some());
            self.reader.consume(consumed);
            if end.is_some() {
                return Ok(Some(too_long));
            }
        }
    }
}

/// Messages on their way to the thread that writes them.
#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    messages: VecDeque<Vec<u8>>,
    /// No more requests are read: what is added is bounded by the calls in progress.
    unlimited: bool,
    /// Nothing more comes.
    finished: bool,
    /// The writer has ended.
    ended: bool,
}

impl Outbox for Queue {
    fn send(&self, message: Vec<u8>) {
        let full = |state: &mut QueueState| {
            state.messages.len() >= QUEUE_MAX && !state.unlimited && !state.ended
        };
        let state = lock(&self.state);
        let mut state =
            self.changed.wait_while(state, full).unwrap_or_else(PoisonError::into_inner);
        self.push(&mut state, message);
    }

    fn offer(&self, message: Vec<u8>) -> bool {
        let mut state = lock(&self.state);
        let room = state.messages.len() < QUEUE_MAX && !state.ended;
        if room {
            self.push(&mut state, message);
        }
        room
    }

    fn is_closed(&self) -> bool {
        lock(&self.state).ended
    }
}

impl Queue {
    fn push(&self, state: &mut QueueState, message: Vec<u8>) {
        if !state.ended {
            state.messages.push_back(message);
            self.changed.notify_all();
        }
    }

    /// Writes messages until there will be no more, or nobody reads them.
    fn write_to(&self, mut writer: impl Write) {
        while let Some(mut message) = self.next() {
            message.push(b'\n');
            if writer.write_all(&message).and_then(|()| writer.flush()).is_err() {
                break;
            }
        }
        let mut state = lock(&self.state);
        state.ended = true;
        state.messages.clear();
        self.changed.notify_all();
    }

    fn next(&self) -> Option<Vec<u8>> {
        let nothing = |state: &mut QueueState| state.messages.is_empty() && !state.finished;
        let state = lock(&self.state);
        let mut state =
            self.changed.wait_while(state, nothing).unwrap_or_else(PoisonError::into_inner);
        let message = state.messages.pop_front();
        self.changed.notify_all();
        message
    }

    fn stop_limiting(&self) {
        lock(&self.state).unlimited = true;
        self.changed.notify_all();
    }

    /// Has the rest written, for at most this long.
    fn flush(&self, at_most: Duration) {
        let mut state = lock(&self.state);
        state.finished = true;
        self.changed.notify_all();
        let open = |state: &mut QueueState| !state.ended;
        drop(self.changed.wait_timeout_while(state, at_most, open));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_limited_and_complete() {
        let text: &[u8] = b"one\r\n\n  \nfour\ntoolong\n12345\nlast";
        let mut lines = Lines::new(text, 5);
        let mut found = Vec::new();
        loop {
            match lines.next().unwrap() {
                Line::Message(line) => found.push(String::from_utf8_lossy(line).into_owned()),
                Line::TooLong => found.push("-".to_owned()),
                Line::End => break,
            }
        }
        assert_eq!(found, ["one\r", "four", "-", "12345", "last"]);
    }
}
