//! Bodies of answers: whole, or a stream of events.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior};

use crate::session::{Outbox, Session};

/// The most messages that wait for one stream.
const MESSAGES_MAX: usize = 64;
/// Room that progress leaves for the answer.
const RESERVED: usize = 8;
/// How often a silent stream shows that it is alive. A client that is gone is noticed by it.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The way from calls, on threads, to a stream.
pub(crate) struct Sender(mpsc::Sender<Vec<u8>>);

impl Sender {
    pub(crate) fn channel() -> (Arc<dyn Outbox>, mpsc::Receiver<Vec<u8>>) {
        let (sender, receiver) = mpsc::channel(MESSAGES_MAX);
        (Arc::new(Self(sender)), receiver)
    }
}

impl Outbox for Sender {
    // A stream has one answer, for which there is always room.
    fn send(&self, message: Vec<u8>) {
        let _ = self.0.try_send(message);
    }

    fn offer(&self, message: Vec<u8>) -> bool {
        self.0.capacity() > RESERVED && self.0.try_send(message).is_ok()
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

/// The body of an answer.
pub(crate) enum Answer {
    /// It is all there.
    Whole(Option<Bytes>),
    /// Messages as they come.
    Events(Events),
}

pub(crate) struct Events {
    first: Option<Vec<u8>>,
    messages: mpsc::Receiver<Vec<u8>>,
    keep_alive: Interval,
    /// Its subscriptions live as long as the stream.
    _session: Arc<Session>,
}

impl Answer {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()))
    }

    /// A stream that begins with `first`.
    pub(crate) fn events(
        first: Option<Vec<u8>>,
        messages: mpsc::Receiver<Vec<u8>>,
        session: Arc<Session>,
    ) -> Self {
        let mut keep_alive = tokio::time::interval(KEEP_ALIVE);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        keep_alive.reset();
        Self::Events(Events { first, messages, keep_alive, _session: session })
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = |bytes: Bytes| Some(Ok(Frame::data(bytes)));
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().and_then(frame)),
            Self::Events(events) => {
                if let Some(first) = events.first.take() {
                    return Poll::Ready(frame(event(&first)));
                }
                if let Poll::Ready(message) = events.messages.poll_recv(cx) {
                    return Poll::Ready(message.and_then(|message| frame(event(&message))));
                }
                let tick = events.keep_alive.poll_tick(cx);
                tick.map(|_| frame(Bytes::from_static(b":\n\n")))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Events(_) => SizeHint::default(),
        }
    }
}

/// One server-sent event. A message has no line breaks.
fn event(message: &[u8]) -> Bytes {
    let parts: [&[u8]; 3] = [b"event: message\ndata: ", message, b"\n\n"];
    parts.concat().into()
}

/// Why a body cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// It is longer than allowed.
    TooLong,
    /// It broke off.
    Broken,
}

/// Reads a body of at most `bytes_max` bytes.
pub(crate) async fn read(mut body: Incoming, bytes_max: usize) -> Result<Vec<u8>, ReadError> {
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(ReadError::TooLong);
    }
    let mut bytes = Vec::new();
    loop {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        let Some(frame) = frame else { return Ok(bytes) };
        let Ok(data) = frame.map_err(|_| ReadError::Broken)?.into_data() else { continue };
        if bytes.len() + data.len() > bytes_max {
            return Err(ReadError::TooLong);
        }
        bytes.extend_from_slice(&data);
    }
}
