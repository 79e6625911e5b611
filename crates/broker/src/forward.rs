//! One HTTP request to a host and its response, both streamed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader};
use tokio::net::tcp::OwnedWriteHalf;
use windlass_kernel::Authority;

use crate::body::{CopyError, Direction, Encoding, Extensions, Meter, Pipe, send, watched};
use crate::event::{End, Refusal, Unreachable};
use crate::http::{Framing, Request, Response, Version};
use crate::inspect::{Inspection, is_encoded};
use crate::route::{Credential, Route, plain_name};
use crate::rules::Limits;
use crate::scrub::Scrubber;
use crate::serve::{Client, read_head};

/// The most responses before the real one (`103 Early Hints`).
const INTERIM_MAX: usize = 8;
/// How much of a body that is held in memory is sent at once.
const HELD_PIECE_BYTES: usize = 64 * 1024;

/// A request that is ready to be sent.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) head: &'a [u8],
    pub(crate) request: &'a Request,
    /// The whole body, if it has been read already.
    pub(crate) held: Option<&'a [u8]>,
    pub(crate) route: Option<&'a Route>,
    pub(crate) inspection: Option<&'a Inspection>,
    pub(crate) limits: &'a Limits,
}

impl Job<'_> {
    async fn closed(&self) {
        match self.route {
            Some(route) => route.own_switch().closed().await,
            None => std::future::pending().await,
        }
    }
}

/// How a request ended.
pub(crate) struct Exchange {
    pub(crate) end: End,
    /// Whether the client has got the head of the response.
    pub(crate) answered: bool,
    /// Whether the client's connection can carry another request.
    pub(crate) reusable: bool,
}

/// The head that is sent to the host.
pub(crate) fn request_head(
    request: &Request,
    authority: &Authority,
    path: &str,
    route: Option<&Route>,
) -> Vec<u8> {
    let standard = route.map_or(80, |route| route.scheme.port());
    let host =
        if authority.port == standard { authority.host.to_string() } else { authority.to_string() };
    let mut head = format!("{} {path} HTTP/1.1\r\nHost: {host}\r\n", request.method).into_bytes();
    let credential = route.and_then(|route| route.credential.as_ref());
    for (name, value) in request.headers.end_to_end() {
        let is_replaced = route.is_some_and(|route| {
            let is_key = credential.is_some() && route.is_key_header(name);
            is_key || (route.is_searched() && plain_name(name) == "accept-encoding")
        });
        if name != "host" && !is_replaced {
            push_header(&mut head, name, value);
        }
    }
    for (name, value) in credential.into_iter().flat_map(Credential::headers) {
        push_header(&mut head, name, value.as_bytes());
    }
    if route.is_some_and(Route::is_searched) {
        push_header(&mut head, "accept-encoding", b"identity");
    }
    match request.framing {
        Framing::Length(length) => {
            push_header(&mut head, "content-length", length.to_string().as_bytes());
        }
        Framing::Chunked => push_header(&mut head, "transfer-encoding", b"chunked"),
        Framing::None | Framing::UntilClose => {}
    }
    push_header(&mut head, "connection", b"close");
    head.extend_from_slice(b"\r\n");
    head
}

fn push_header(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    head.extend_from_slice(name.as_bytes());
    head.extend_from_slice(b": ");
    head.extend_from_slice(value);
    head.extend_from_slice(b"\r\n");
}

/// Sends a request and passes the response back.
pub(crate) async fn run<S: AsyncRead + AsyncWrite + Unpin>(
    client: &mut Client,
    upstream: S,
    job: Job<'_>,
) -> Exchange {
    let Job { head, request, limits, .. } = job;
    let meter = Arc::clone(&client.meter);
    let answered = AtomicBool::new(false);
    let sent_all = AtomicBool::new(false);
    let (reader, mut host_writer) = tokio::io::split(upstream);
    let mut host_reader = BufReader::new(reader);
    let Client { reader: client_reader, writer: client_writer, .. } = client;
    let work = async {
        meter.add(Direction::Up, head.len()).map_err(End::Refused)?;
        send(&mut host_writer, head).await.map_err(|_| End::Failed(Unreachable::Response))?;
        if job.held.is_none() && request.expects_continue() {
            let interim = send(client_writer, b"HTTP/1.1 100 Continue\r\n\r\n").await;
            interim.map_err(|_| End::Broken)?;
        }
        let up = async {
            let copied = match job.held {
                Some(bytes) => {
                    let mut held = BufReader::with_capacity(HELD_PIECE_BYTES, bytes);
                    up_pipe(&mut held, &mut host_writer, &meter, request.framing).await
                }
                None => up_pipe(client_reader, &mut host_writer, &meter, request.framing).await,
            };
            match copied {
                Ok(()) => sent_all.store(true, Ordering::Relaxed),
                // The host wants no more; its response says why.
                Err(CopyError::Write) => {}
                Err(CopyError::Read) => return End::Broken,
                Err(CopyError::Malformed) => return End::Refused(Refusal::Chunk),
                Err(CopyError::Limit(refusal)) => return End::Refused(refusal),
            }
            // A client that goes away gets no response: the host need not finish it.
            match client_reader.fill_buf().await {
                Ok([_, ..]) => std::future::pending().await,
                Ok([]) | Err(_) => End::Broken,
            }
        };
        let down = async {
            let mut back = Back { reader: &mut host_reader, writer: client_writer, meter: &meter };
            back.response(&job, &answered).await
        };
        tokio::pin!(up, down);
        tokio::select! {
            response = &mut down => response,
            end = &mut up => Err(end),
        }
    };
    let work = async {
        tokio::select! {
            biased;
            () = job.closed() => Err(End::Refused(Refusal::RouteClosed)),
            done = work => done,
        }
    };
    let end = match watched(&meter, limits.idle_timeout, work).await {
        Ok(Ok(())) => End::Done,
        Ok(Err(end)) => end,
        Err(_) if answered.load(Ordering::Relaxed) => End::Idle,
        Err(_) => End::Failed(Unreachable::ResponseTimeout),
    };
    let reusable = end == End::Done && sent_all.load(Ordering::Relaxed) && request.keeps_alive();
    Exchange { end, answered: answered.load(Ordering::Relaxed), reusable }
}

async fn up_pipe<R: AsyncBufRead + Unpin, W: AsyncWrite + Unpin>(
    reader: &mut R,
    writer: &mut W,
    meter: &Meter,
    framing: Framing,
) -> Result<(), CopyError> {
    let pipe = Pipe {
        reader,
        writer,
        meter,
        direction: Direction::Up,
        encoding: encoding_of(framing),
        extensions: Extensions::Refused,
        scrubber: None,
        inspection: None,
    };
    pipe.copy(framing).await
}

const fn encoding_of(framing: Framing) -> Encoding {
    match framing {
        Framing::Chunked => Encoding::Chunked,
        Framing::None | Framing::Length(_) | Framing::UntilClose => Encoding::Raw,
    }
}

/// The way of a response.
struct Back<'a, R> {
    reader: &'a mut R,
    writer: &'a mut OwnedWriteHalf,
    meter: &'a Meter,
}

impl<R: AsyncBufRead + Unpin> Back<'_, R> {
    async fn response(&mut self, job: &Job<'_>, answered: &AtomicBool) -> Result<(), End> {
        let Job { request, limits, .. } = *job;
        let failed = End::Failed(Unreachable::Response);
        let response = self.final_head(&request.method, limits).await.ok_or(failed)?;
        if job.route.is_some_and(Route::is_searched) && is_encoded(&response.headers) {
            return Err(End::Failed(Unreachable::ResponseEncoded));
        }
        let credential = job.route.and_then(|route| route.credential.as_ref());
        let scrubber = credential.map(|credential| Scrubber::new(credential.secrets()));
        let headers = shown_headers(&response, scrubber.as_ref());
        if let Some(inspection) = job.inspection {
            inspection.started(response.status, &headers);
        }
        let (head, encoding) = response_head(&response, request, &headers, scrubber.as_ref());
        answered.store(true, Ordering::Relaxed);
        self.meter.add(Direction::Down, head.len()).map_err(End::Refused)?;
        send(self.writer, &head).await.map_err(|_| End::Broken)?;
        let pipe = Pipe {
            reader: self.reader,
            writer: self.writer,
            meter: self.meter,
            direction: Direction::Down,
            encoding,
            extensions: Extensions::Dropped,
            scrubber,
            inspection: job.inspection,
        };
        pipe.copy(response.framing).await.map_err(|error| match error {
            CopyError::Read | CopyError::Malformed => failed,
            CopyError::Write => End::Broken,
            CopyError::Limit(refusal) => End::Refused(refusal),
        })
    }

    async fn final_head(&mut self, method: &str, limits: &Limits) -> Option<Response> {
        for _ in 0..INTERIM_MAX {
            let head = read_head(self.reader, limits.head_bytes_max, |_, _| Ok(())).await;
            let response = Response::parse(&head.ok()??, method)?;
            match response.status {
                // Nothing was asked to be upgraded.
                101 => return None,
                100..200 => self.meter.touch(),
                _ => return Some(response),
            }
        }
        None
    }
}

/// The headers that are passed on to the client: those without the credential.
fn shown_headers<'a>(
    response: &'a Response,
    scrubber: Option<&Scrubber>,
) -> Vec<(&'a str, &'a [u8])> {
    let leaks = |bytes: &[u8]| scrubber.is_some_and(|scrubber| scrubber.finds(bytes));
    let headers = response.headers.end_to_end();
    headers.filter(|(name, value)| !leaks(name.as_bytes()) && !leaks(value)).collect()
}

/// The head that is sent to the client, and how the body follows.
fn response_head(
    response: &Response,
    request: &Request,
    headers: &[(&str, &[u8])],
    scrubber: Option<&Scrubber>,
) -> (Vec<u8>, Encoding) {
    let mut head = format!("HTTP/1.1 {} ", response.status).into_bytes();
    if !scrubber.is_some_and(|scrubber| scrubber.finds(&response.phrase)) {
        head.extend_from_slice(&response.phrase);
    }
    head.extend_from_slice(b"\r\n");
    for (name, value) in headers {
        push_header(&mut head, name, value);
    }
    let mut encoding = Encoding::Raw;
    let mut ends = request.version == Version::Http11;
    match response.framing {
        Framing::Length(length) => {
            push_header(&mut head, "content-length", length.to_string().as_bytes());
        }
        Framing::Chunked | Framing::UntilClose if ends => {
            push_header(&mut head, "transfer-encoding", b"chunked");
            encoding = Encoding::Chunked;
        }
        Framing::Chunked | Framing::UntilClose => ends = false,
        // The length that a GET would have had.
        Framing::None if request.method == "HEAD" || response.status == 304 => {
            for length in response.headers.all("content-length") {
                push_header(&mut head, "content-length", length);
            }
        }
        Framing::None => {}
    }
    if !ends || !request.keeps_alive() {
        push_header(&mut head, "connection", b"close");
    }
    head.extend_from_slice(b"\r\n");
    (head, encoding)
}
