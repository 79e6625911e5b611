//! Bytes on their way: counted, limited, framed anew.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::Instant;

use crate::event::Refusal;
use crate::http::Framing;
use crate::inspect::Inspection;
use crate::scrub::Scrubber;

const CHUNK_LINE_BYTES_MAX: usize = 1024;
const TRAILER_BYTES_MAX: usize = 16 * 1024;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Up,
    Down,
}

/// The bytes of all connections.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicU64,
    max: Option<u64>,
}

impl Budget {
    pub(crate) const fn new(max: Option<u64>) -> Self {
        Self { used: AtomicU64::new(0), max }
    }

    pub(crate) fn is_used_up(&self) -> bool {
        self.max.is_some_and(|max| self.used.load(Ordering::Relaxed) >= max)
    }

    /// Gives back bytes that are no longer held.
    pub(crate) fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The bytes of one connection, and when the last of them was sent.
#[derive(Debug)]
pub(crate) struct Meter {
    up: AtomicU64,
    down: AtomicU64,
    max: Option<u64>,
    budget: Arc<Budget>,
    last: Mutex<Instant>,
}

impl Meter {
    pub(crate) fn new(max: Option<u64>, budget: Arc<Budget>) -> Self {
        let last = Mutex::new(Instant::now());
        Self { up: AtomicU64::new(0), down: AtomicU64::new(0), max, budget, last }
    }

    pub(crate) fn count(&self, direction: Direction) -> u64 {
        self.counter(direction).load(Ordering::Relaxed)
    }

    const fn counter(&self, direction: Direction) -> &AtomicU64 {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// Counts bytes that are about to be sent; refuses those beyond a limit.
    pub(crate) fn add(&self, direction: Direction, bytes: usize) -> Result<(), Refusal> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let exceeds = |used: &AtomicU64, max: Option<u64>| {
            max.is_some_and(|max| used.load(Ordering::Relaxed).saturating_add(bytes) > max)
        };
        if exceeds(self.counter(direction), self.max) {
            return Err(Refusal::ConnectionBytesMax);
        }
        if exceeds(&self.budget.used, self.budget.max) {
            return Err(Refusal::BrokerBytesMax);
        }
        self.counter(direction).fetch_add(bytes, Ordering::Relaxed);
        self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        self.touch();
        Ok(())
    }

    pub(crate) fn touch(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last(&self) -> Instant {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nothing was sent for too long.
#[derive(Debug)]
pub(crate) struct Idle;

/// Does the work, unless nothing is sent for too long.
pub(crate) async fn watched<F: Future>(
    meter: &Meter,
    idle: Duration,
    work: F,
) -> Result<F::Output, Idle> {
    meter.touch();
    tokio::pin!(work);
    loop {
        let deadline = meter.last() + idle;
        tokio::select! {
            done = &mut work => return Ok(done),
            () = tokio::time::sleep_until(deadline) => {
                if meter.last() + idle <= Instant::now() {
                    return Err(Idle);
                }
            }
        }
    }
}

/// Why bytes did not arrive.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CopyError {
    /// The sender broke the connection or ended it too early.
    Read,
    /// The receiver broke the connection.
    Write,
    /// The framing is malformed.
    Malformed,
    /// A limit is reached.
    Limit(Refusal),
}

/// How the receiver knows where the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Raw,
    Chunked,
}

/// Whether chunks may have extensions. They are never passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extensions {
    Refused,
    Dropped,
}

/// Copies one body.
pub(crate) struct Pipe<'a, R, W> {
    pub(crate) reader: &'a mut R,
    pub(crate) writer: &'a mut W,
    pub(crate) meter: &'a Meter,
    pub(crate) direction: Direction,
    pub(crate) encoding: Encoding,
    pub(crate) extensions: Extensions,
    pub(crate) scrubber: Option<Scrubber>,
    pub(crate) inspection: Option<&'a Inspection>,
}

impl<R: AsyncBufRead + Unpin, W: AsyncWrite + Unpin> Pipe<'_, R, W> {
    /// Copies a body with this framing.
    pub(crate) async fn copy(mut self, framing: Framing) -> Result<(), CopyError> {
        match framing {
            Framing::None => return Ok(()),
            Framing::Length(length) => self.exactly(length).await?,
            Framing::Chunked => self.chunks().await?,
            Framing::UntilClose => while self.piece(u64::MAX).await? > 0 {},
        }
        if let Some(rest) = self.scrubber.as_mut().map(Scrubber::finish) {
            self.write(&rest).await?;
        }
        if self.encoding == Encoding::Chunked {
            self.send(b"0\r\n\r\n").await?;
        }
        Ok(())
    }

    async fn exactly(&mut self, length: u64) -> Result<(), CopyError> {
        let mut left = length;
        while left > 0 {
            match self.piece(left).await? {
                0 => return Err(CopyError::Read),
                copied => left -= copied,
            }
        }
        Ok(())
    }

    async fn chunks(&mut self) -> Result<(), CopyError> {
        loop {
            let line = self.line(CHUNK_LINE_BYTES_MAX).await?;
            let length = chunk_length(&line, self.extensions).ok_or(CopyError::Malformed)?;
            if length == 0 {
                break;
            }
            self.exactly(length).await?;
            if !self.line(0).await?.is_empty() {
                return Err(CopyError::Malformed);
            }
        }
        // Trailers could contradict the headers that were checked; they are dropped.
        let mut left = TRAILER_BYTES_MAX;
        loop {
            let line = self.line(left).await?;
            if line.is_empty() {
                return Ok(());
            }
            left = left.saturating_sub(line.len());
        }
    }

    /// Reads a line that ends with CR LF, and returns it without its end.
    async fn line(&mut self, max: usize) -> Result<Vec<u8>, CopyError> {
        let mut line = Vec::new();
        loop {
            let byte = self.reader.read_u8_buffered().await?;
            match (byte, line.last()) {
                (b'\n', Some(b'\r')) => {
                    line.pop();
                    return Ok(line);
                }
                (b'\n', _) | (_, Some(b'\r')) => return Err(CopyError::Malformed),
                (byte, _) if line.len() < max + 2 => line.push(byte),
                (_, _) => return Err(CopyError::Malformed),
            }
        }
    }

    /// Copies what is there, at most `max` bytes, and returns how many; 0 at the end.
    async fn piece(&mut self, max: u64) -> Result<u64, CopyError> {
        let buffer = self.reader.fill_buf().await.map_err(|_| CopyError::Read)?;
        let count = buffer.len().min(usize::try_from(max).unwrap_or(usize::MAX));
        let mut bytes = buffer.get(..count).unwrap_or_default().to_vec();
        self.reader.consume(count);
        if let Some(scrubber) = &mut self.scrubber {
            bytes = scrubber.push(&bytes);
        }
        self.write(&bytes).await?;
        u64::try_from(count).map_err(|_| CopyError::Read)
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), CopyError> {
        if bytes.is_empty() {
            return Ok(());
        }
        if let Some(inspection) = self.inspection {
            inspection.bytes(bytes);
        }
        match self.encoding {
            Encoding::Raw => self.send(bytes).await,
            Encoding::Chunked => {
                let length = format!("{:x}\r\n", bytes.len());
                self.send(&[length.as_bytes(), bytes, b"\r\n"].concat()).await
            }
        }
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), CopyError> {
        self.meter.add(self.direction, bytes.len()).map_err(CopyError::Limit)?;
        send(self.writer, bytes).await
    }
}

/// Sends all bytes at once, without waiting for more.
pub(crate) async fn send<W: AsyncWrite + Unpin>(
    writer: &mut W,
    bytes: &[u8],
) -> Result<(), CopyError> {
    writer.write_all(bytes).await.map_err(|_| CopyError::Write)?;
    writer.flush().await.map_err(|_| CopyError::Write)
}

/// Reads one byte of a buffered reader.
trait ReadByte {
    async fn read_u8_buffered(&mut self) -> Result<u8, CopyError>;
}

impl<R: AsyncBufRead + Unpin> ReadByte for R {
    async fn read_u8_buffered(&mut self) -> Result<u8, CopyError> {
        let buffer = self.fill_buf().await.map_err(|_| CopyError::Read)?;
        let byte = *buffer.first().ok_or(CopyError::Read)?;
        self.consume(1);
        Ok(byte)
    }
}

/// The length in the first line of a chunk.
fn chunk_length(line: &[u8], extensions: Extensions) -> Option<u64> {
    let end = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    let (digits, rest) = line.split_at_checked(end)?;
    let dropped = extensions == Extensions::Dropped && rest.trim_ascii_start().starts_with(b";");
    if !(1..=15).contains(&digits.len()) || !(rest.is_empty() || dropped) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use tokio::io::BufReader;

    use super::*;

    fn copy(
        input: &[u8],
        framing: Framing,
        encoding: Encoding,
        max: Option<u64>,
    ) -> (Result<(), CopyError>, Vec<u8>, usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let meter = Meter::new(max, Arc::new(Budget::new(None)));
        // A small buffer, so that every line is split.
        let mut reader = BufReader::with_capacity(3, input);
        let mut writer = Vec::new();
        let pipe = Pipe {
            reader: &mut reader,
            writer: &mut writer,
            meter: &meter,
            direction: Direction::Up,
            encoding,
            extensions: Extensions::Refused,
            scrubber: None,
            inspection: None,
        };
        let result = runtime.block_on(pipe.copy(framing));
        let left = reader.buffer().len() + reader.get_ref().len();
        (result, writer, left)
    }

    #[test]
    fn a_body_ends_where_its_framing_says() {
        let raw = |input: &[u8], framing| copy(input, framing, Encoding::Raw, None);
        assert_eq!(raw(b"abcdef", Framing::Length(4)), (Ok(()), b"abcd".to_vec(), 2));
        assert_eq!(raw(b"abc", Framing::None), (Ok(()), vec![], 3));
        assert_eq!(raw(b"abc", Framing::UntilClose), (Ok(()), b"abc".to_vec(), 0));
        assert_eq!(raw(b"abc", Framing::Length(4)).0, Err(CopyError::Read));
        let chunked = b"3\r\nabc\r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\nGET";
        assert_eq!(raw(chunked, Framing::Chunked), (Ok(()), b"abc0123456789".to_vec(), 3));
        let (result, bytes, left) =
            copy(b"4\r\nabcd\r\n0\r\n\r\n", Framing::Chunked, Encoding::Chunked, None);
        assert_eq!((result, left), (Ok(()), 0));
        assert_eq!(bytes, b"3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n");
    }

    #[test]
    fn malformed_chunks_are_refused() {
        for input in [
            "\r\n",
            "3\nabc\r\n0\r\n\r\n",
            "3\r\nabcd\r\n0\r\n\r\n",
            "3\r\nabc\n0\r\n\r\n",
            "0x3\r\nabc\r\n",
            "+3\r\nabc\r\n",
            " 3\r\nabc\r\n",
            "3 \r\nabc\r\n",
            "3;x=y\r\nabc\r\n",
            "-1\r\n",
            "g\r\n",
            "fffffffffffffffff\r\n",
            "3\r\r\nabc",
            "0\r\n\n",
            "0\r\nx\ry\r\n",
        ] {
            let (result, ..) = copy(input.as_bytes(), Framing::Chunked, Encoding::Raw, None);
            assert_eq!(result, Err(CopyError::Malformed), "{input:?}");
        }
        let (result, ..) = copy(b"3\r\nab", Framing::Chunked, Encoding::Raw, None);
        assert_eq!(result, Err(CopyError::Read));
        let trailers = format!("0\r\n{}", "a: b\r\n".repeat(5000));
        let (result, ..) = copy(trailers.as_bytes(), Framing::Chunked, Encoding::Raw, None);
        assert_eq!(result, Err(CopyError::Malformed));
    }

    #[test]
    fn nothing_beyond_a_limit_is_sent() {
        let (result, bytes, _) = copy(b"abcdefghi", Framing::Length(9), Encoding::Raw, Some(6));
        assert_eq!(result, Err(CopyError::Limit(Refusal::ConnectionBytesMax)));
        assert_eq!(bytes, b"abcdef");
        let meter = Meter::new(None, Arc::new(Budget::new(Some(3))));
        assert_eq!(meter.add(Direction::Up, 2), Ok(()));
        assert_eq!(meter.add(Direction::Down, 2), Err(Refusal::BrokerBytesMax));
        assert_eq!((meter.count(Direction::Up), meter.count(Direction::Down)), (2, 0));
    }

    #[test]
    fn extensions_are_dropped_where_they_are_allowed() {
        assert_eq!(chunk_length(b"a;x=y", Extensions::Dropped), Some(10));
        assert_eq!(chunk_length(b"a ;x", Extensions::Dropped), Some(10));
        assert_eq!(chunk_length(b"a x", Extensions::Dropped), None);
        assert_eq!(chunk_length(b"a;x=y", Extensions::Refused), None);
    }
}
