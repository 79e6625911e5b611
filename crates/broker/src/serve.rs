//! One connection of a client: request after request, each checked for itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use windlass_kernel::{Authority, Code};

use crate::body::{Budget, Direction, Meter, send};
use crate::event::{self, BrokerEvent, BrokerObserver, End, Passage, Refusal, Unreachable, asked};
use crate::follow::follow_route;
use crate::forward::{self, Exchange, Job};
use crate::http::{Request, RequestLine, Target};
use crate::route::Route;
use crate::rules::BrokerRules;
use crate::tunnel;
use crate::upstream::{Addresses, Resolver, Stop, authorize, connect};

/// How long a client has to read the answer to a refused request before the connection is closed.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: u64 = 1024 * 1024;
/// How much of a request's line is kept for the observer.
const LINE_SHOWN_BYTES: usize = 1024;

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) rules: BrokerRules,
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) observer: Arc<dyn BrokerObserver>,
    pub(crate) tls: Option<TlsConnector>,
    pub(crate) budget: Arc<Budget>,
    /// The bodies that are held for inspection.
    pub(crate) held: Arc<Budget>,
    pub(crate) requests: AtomicU64,
    pub(crate) passages: AtomicU64,
}

impl Shared {
    pub(crate) fn next_id(&self) -> u64 {
        self.passages.fetch_add(1, Ordering::Relaxed)
    }

    fn refused(&self, asked: &str, refusal: Refusal, detail: Option<&str>) {
        let (asked, detail) = (asked.to_owned(), detail.map(event::detail));
        self.observer.event(BrokerEvent::Refused { asked, refusal, detail });
    }
}

/// The client's side of a connection.
pub(crate) struct Client {
    pub(crate) reader: BufReader<OwnedReadHalf>,
    pub(crate) writer: OwnedWriteHalf,
    pub(crate) meter: Arc<Meter>,
}

impl Client {
    fn new(shared: &Shared, stream: TcpStream) -> Self {
        let _ = stream.set_nodelay(true);
        let (reader, writer) = stream.into_split();
        let max = shared.rules.limits.connection_bytes_max;
        let meter = Arc::new(Meter::new(max, Arc::clone(&shared.budget)));
        Self { reader: BufReader::new(reader), writer, meter }
    }

    /// Answers a request that goes no further, and lets the client read the answer.
    async fn answer(mut self, stop: &Stop, form: Form) {
        let (status, kind, text) = match stop {
            Stop::Refused { refusal, detail: None } => {
                ("403 Forbidden", "permission_error", body(Refusal::CODE, refusal))
            }
            Stop::Refused { refusal, detail: Some(detail) } => {
                let text = format!("{}: {refusal}: {detail}\n", Refusal::CODE);
                ("403 Forbidden", "permission_error", text)
            }
            Stop::Unreachable(failure) => {
                (failure.status(), "api_error", body(Unreachable::CODE, failure))
            }
        };
        let (media, text) = match form {
            Form::Text => ("text/plain; charset=utf-8", text),
            Form::Json => {
                let error = json!({ "type": kind, "message": text.trim_end() });
                ("application/json", json!({ "type": "error", "error": error }).to_string())
            }
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{text}",
            text.len()
        );
        let told = async {
            send(&mut self.writer, answer.as_bytes()).await.ok()?;
            self.close().await
        };
        // Whether the client listens is its own business.
        let _ = timeout(LINGER, told).await;
    }

    /// Lets the client read what was sent. Closing with unread bytes would make the system discard it.
    async fn close(&mut self) -> Option<u64> {
        self.writer.shutdown().await.ok()?;
        let mut rest = (&mut self.reader).take(LINGER_BYTES_MAX);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await.ok()
    }
}

/// The form of the broker's own answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    #[default]
    Text,
    /// As model services tell their errors, so that their clients show the reason.
    Json,
}

/// What the client asked for, and how it is answered.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) line: String,
    pub(crate) form: Form,
}

fn body(code: Code, reason: &dyn std::fmt::Display) -> String {
    format!("{code}: {reason}\n")
}

/// Turns a connection away because there are too many.
pub(crate) async fn turn_away(shared: Arc<Shared>, stream: TcpStream) {
    let refusal = Refusal::ConnectionsMax;
    shared.refused("", refusal, None);
    Client::new(&shared, stream).answer(&Stop::refused(refusal), Form::Text).await;
}

/// Serves a connection until it ends.
pub(crate) async fn serve(shared: Arc<Shared>, stream: TcpStream) {
    let mut client = Client::new(&shared, stream);
    loop {
        let mut asked = Asked::default();
        match serve_one(&shared, &mut client, &mut asked).await {
            Ok(Next::Another) => {}
            Ok(Next::Close) => {
                let _ = timeout(LINGER, client.close()).await;
                return;
            }
            Err(stop) => {
                let Asked { line, form } = asked;
                match &stop {
                    Stop::Refused { refusal, detail } => {
                        shared.refused(&line, *refusal, detail.as_deref());
                    }
                    Stop::Unreachable(failure) => {
                        let unreachable =
                            BrokerEvent::Unreachable { asked: line, failure: *failure };
                        shared.observer.event(unreachable);
                    }
                }
                return client.answer(&stop, form).await;
            }
        }
    }
}

/// What follows a request.
pub(crate) enum Next {
    Another,
    Close,
}

async fn serve_one(shared: &Shared, client: &mut Client, what: &mut Asked) -> Result<Next, Stop> {
    let limits = &shared.rules.limits;
    let first = timeout(limits.idle_timeout, client.reader.fill_buf()).await;
    let Ok(Ok([_, ..])) = first else { return Ok(Next::Close) };
    let requests = shared.requests.fetch_add(1, Ordering::Relaxed);
    if limits.requests_max.is_some_and(|max| requests >= max) {
        return Err(Stop::refused(Refusal::RequestsMax));
    }
    let mut line = Vec::new();
    let mut beginning = Beginning::default();
    let head = read_head(&mut client.reader, limits.head_bytes_max, |head, known| {
        let unseen = head.get(line.len()..).unwrap_or_default();
        line.extend(unseen.iter().take(LINE_SHOWN_BYTES - line.len()));
        beginning.check(head, known)
    });
    let head = timeout(limits.head_timeout, head).await;
    what.line = asked(&line);
    let head = match head {
        Ok(Ok(Some(head))) => head,
        Ok(Ok(None)) => return Ok(Next::Close),
        Ok(Err(refusal)) => return Err(Stop::refused(refusal)),
        Err(_) => return Err(Stop::refused(Refusal::HeadTimeout)),
    };
    if shared.budget.is_used_up() {
        return Err(Stop::refused(Refusal::BrokerBytesMax));
    }
    let request = Request::parse(&head).map_err(Stop::refused)?;
    match &request.target {
        Target::Tunnel(authority) => {
            open_tunnel(shared, client, &request, authority, &what.line).await
        }
        Target::Plain(authority, path) => {
            authorize(&shared.rules, authority).map_err(Stop::refused)?;
            let (stream, address) =
                connect(&shared.rules, &shared.resolver, authority, Addresses::AsListed).await?;
            let open = Open::new(shared, client, passage(&request, None, authority, address));
            let head = forward::request_head(&request, authority, path, None);
            let (head, request) = (head.as_slice(), &request);
            let job = Job { head, request, held: None, route: None, inspection: None, limits };
            let exchange = forward::run(client, stream, job).await;
            conclude(shared, open, &exchange, &what.line, None)
        }
        Target::Own(path) => {
            let path = path.clone();
            follow_route(shared, client, request, &path, what).await
        }
    }
}

async fn open_tunnel(
    shared: &Shared,
    client: &mut Client,
    request: &Request,
    authority: &Authority,
    what: &str,
) -> Result<Next, Stop> {
    authorize(&shared.rules, authority).map_err(Stop::refused)?;
    let (stream, address) =
        connect(&shared.rules, &shared.resolver, authority, Addresses::AsListed).await?;
    let mut open = Open::new(shared, client, passage(request, None, authority, address));
    open.end = tunnel::run(client, stream, authority, &shared.rules).await;
    if let End::Refused(refusal) = open.end {
        shared.refused(what, refusal, None);
    }
    Ok(Next::Close)
}

pub(crate) fn passage(
    request: &Request,
    route: Option<&Route>,
    authority: &Authority,
    address: std::net::SocketAddr,
) -> Passage {
    Passage {
        method: request.method.clone(),
        route: route.map(|route| route.prefix.clone()),
        host: authority.host.to_string(),
        port: authority.port,
        address,
    }
}

/// Closes the passage. An answer is due if the client has got none yet.
pub(crate) fn conclude(
    shared: &Shared,
    mut open: Open<'_>,
    exchange: &Exchange,
    what: &str,
    detail: Option<String>,
) -> Result<Next, Stop> {
    open.end = exchange.end;
    drop(open);
    match exchange.end {
        End::Done if exchange.reusable => Ok(Next::Another),
        End::Refused(refusal) if !exchange.answered => Err(Stop::Refused { refusal, detail }),
        End::Failed(failure) if !exchange.answered => Err(Stop::Unreachable(failure)),
        End::Refused(refusal) => {
            shared.refused(what, refusal, detail.as_deref());
            Ok(Next::Close)
        }
        End::Done | End::Failed(_) | End::Broken | End::Idle | End::Stopped => Ok(Next::Close),
    }
}

/// An open passage. The observer is told of its end however it comes.
pub(crate) struct Open<'a> {
    shared: &'a Shared,
    id: u64,
    passage: Passage,
    meter: Arc<Meter>,
    before: (u64, u64),
    since: Instant,
    end: End,
}

impl<'a> Open<'a> {
    fn new(shared: &'a Shared, client: &Client, passage: Passage) -> Self {
        Self::numbered(shared, client, passage, shared.next_id())
    }

    pub(crate) fn numbered(shared: &'a Shared, client: &Client, passage: Passage, id: u64) -> Self {
        shared.observer.event(BrokerEvent::Allowed { id, passage: passage.clone() });
        let meter = Arc::clone(&client.meter);
        let before = (meter.count(Direction::Up), meter.count(Direction::Down));
        Self { shared, id, passage, meter, before, since: Instant::now(), end: End::Stopped }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.shared.observer.event(BrokerEvent::Closed {
            id: self.id,
            passage: self.passage.clone(),
            bytes_up: self.meter.count(Direction::Up).saturating_sub(self.before.0),
            bytes_down: self.meter.count(Direction::Down).saturating_sub(self.before.1),
            duration: self.since.elapsed(),
            end: self.end,
        });
    }
}

/// Reads a head up to its empty line; `None` if the connection ends before. `check` sees the head
/// after each piece, and how many bytes of it are old.
pub(crate) async fn read_head<R: AsyncBufRead + Unpin>(
    reader: &mut R,
    max: usize,
    mut check: impl FnMut(&[u8], usize) -> Result<(), Refusal>,
) -> Result<Option<Vec<u8>>, Refusal> {
    const END: &[u8] = b"\r\n\r\n";
    let mut head = Vec::new();
    loop {
        let Ok(piece) = reader.fill_buf().await else { return Ok(None) };
        if piece.is_empty() {
            return Ok(None);
        }
        let known = head.len();
        let taken = piece.len();
        head.extend_from_slice(piece);
        let from = known.saturating_sub(END.len() - 1);
        let unseen = head.get(from..).unwrap_or_default();
        let end = unseen.windows(END.len()).position(|window| window == END);
        let end = end.map(|at| from + at + END.len());
        reader.consume(end.map_or(taken, |end| end.saturating_sub(known)));
        head.truncate(end.unwrap_or(head.len()));
        check(&head, known)?;
        if head.len() > max {
            return Err(Refusal::HeadTooLarge);
        }
        if end.is_some() {
            return Ok(Some(head));
        }
    }
}

/// Refuses what cannot become a request, without waiting for an end that never comes. Each byte is
/// looked at once, in however many pieces the head comes.
#[derive(Default)]
struct Beginning {
    line_is_read: bool,
}

impl Beginning {
    fn check(&mut self, head: &[u8], known: usize) -> Result<(), Refusal> {
        if !head.first().is_some_and(u8::is_ascii_uppercase) {
            return Err(Refusal::NotHttp);
        }
        let unseen = head.get(known..).unwrap_or_default();
        if !self.line_is_read
            && let Some(end) = unseen.iter().position(|byte| *byte == b'\n')
        {
            let line = head.get(..known + end).unwrap_or_default();
            RequestLine::parse(line.strip_suffix(b"\r").ok_or(Refusal::HeaderInvalid)?)?;
            self.line_is_read = true;
        }
        let with_one_before = head.get(known.saturating_sub(1)..).unwrap_or_default();
        let ends_badly = |pair: &[u8]| pair.ends_with(b"\n") && pair != b"\r\n";
        if with_one_before.windows(2).any(ends_badly) {
            Err(Refusal::HeaderInvalid)
        } else {
            Ok(())
        }
    }
}
