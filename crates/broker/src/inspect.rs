//! The contents of requests and responses of a route, shown to its inspector.

use std::sync::Arc;

use crate::body::{Budget, CopyError, Direction, Encoding, Extensions, Meter, Pipe, send, watched};
use crate::event::{End, Refusal};
use crate::http::{Framing, Headers, Request};
use crate::route::{Route, plain_name};
use crate::serve::Client;
use crate::upstream::Stop;

/// Headers that are credentials on every route.
const COOKIE: &str = "cookie";

/// A request, as an inspector sees it before anything of it is sent.
#[derive(Clone, Copy, Debug)]
pub struct InspectedRequest<'a> {
    /// The number of the exchange, unique in its broker; the same as that of its passage.
    pub id: u64,
    /// The method.
    pub method: &'a str,
    /// The path below the route's prefix, without its query.
    pub path: &'a str,
    /// The headers without credentials, names in lower case.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// The whole body.
    pub body: &'a [u8],
}

/// Sees what passes through a route, and decides about requests.
///
/// It is called on the broker's only thread: while it works, nothing else of the broker does. It
/// must be quick, must not panic and must not wait for the broker. For each request that it accepts,
/// [`response_ended`](Self::response_ended) is called exactly once, at last.
pub trait RouteInspector: Send + Sync {
    /// Decides about a request. Nothing of it has been sent.
    ///
    /// # Errors
    /// The reason for which it is refused, which the client is told.
    fn request(&self, request: &InspectedRequest<'_>) -> Result<(), String>;

    /// The head of the response has come. Headers of the connection are left out, and those that
    /// contain the credential.
    fn response_started(&self, id: u64, status: u16, headers: &[(&str, &[u8])]);

    /// A piece of the response's body is about to be sent to the client: without chunks, with the
    /// credential replaced.
    fn response_bytes(&self, id: u64, bytes: &[u8]);

    /// The exchange is over, even if no response has begun.
    fn response_ended(&self, id: u64, end: End);
}

/// An exchange whose request was accepted.
pub(crate) struct Inspection {
    inspector: Arc<dyn RouteInspector>,
    id: u64,
    end: End,
}

impl Inspection {
    pub(crate) fn started(&self, status: u16, headers: &[(&str, &[u8])]) {
        self.inspector.response_started(self.id, status, headers);
    }

    pub(crate) fn bytes(&self, bytes: &[u8]) {
        self.inspector.response_bytes(self.id, bytes);
    }

    pub(crate) fn end(mut self, end: End) {
        self.end = end;
    }
}

impl Drop for Inspection {
    fn drop(&mut self) {
        // A second panic would end the process.
        if !std::thread::panicking() {
            self.inspector.response_ended(self.id, self.end);
        }
    }
}

/// A body that is held in memory, counted as long as it is.
pub(crate) struct HeldBody {
    pub(crate) bytes: Vec<u8>,
    meter: Meter,
    budget: Arc<Budget>,
}

impl Drop for HeldBody {
    fn drop(&mut self) {
        self.budget.release(self.meter.count(Direction::Up));
    }
}

/// Reads a body whole; `None` if the client goes away.
pub(crate) async fn read_body(
    client: &mut Client,
    request: &Request,
    budget: &Arc<Budget>,
    limits: &crate::rules::Limits,
) -> Result<Option<HeldBody>, Stop> {
    let max = limits.inspected_bytes_max;
    if matches!(request.framing, Framing::Length(length) if length > max) {
        return Err(Stop::refused(Refusal::InspectedBytesMax));
    }
    if request.expects_continue()
        && send(&mut client.writer, b"HTTP/1.1 100 Continue\r\n\r\n").await.is_err()
    {
        return Ok(None);
    }
    let meter = Meter::new(Some(max), Arc::clone(budget));
    let mut held = HeldBody { bytes: Vec::new(), meter, budget: Arc::clone(budget) };
    let pipe = Pipe {
        reader: &mut client.reader,
        writer: &mut held.bytes,
        meter: &held.meter,
        direction: Direction::Up,
        encoding: Encoding::Raw,
        extensions: Extensions::Refused,
        scrubber: None,
        inspection: None,
    };
    let copied = watched(&held.meter, limits.idle_timeout, pipe.copy(request.framing)).await;
    let refusal = match copied {
        Ok(Ok(())) => return Ok(Some(held)),
        Ok(Err(CopyError::Read | CopyError::Write)) => return Ok(None),
        Ok(Err(CopyError::Malformed)) => Refusal::Chunk,
        Ok(Err(CopyError::Limit(Refusal::BrokerBytesMax))) => Refusal::HeldBytesMax,
        Ok(Err(CopyError::Limit(_))) => Refusal::InspectedBytesMax,
        Err(_) => Refusal::BodyTimeout,
    };
    Err(Stop::refused(refusal))
}

/// Shows a request to the route's inspector.
pub(crate) fn inspect(
    route: &Route,
    inspector: &Arc<dyn RouteInspector>,
    id: u64,
    request: &Request,
    below: &str,
    body: &[u8],
) -> Result<Inspection, Stop> {
    if is_encoded(&request.headers) {
        return Err(Stop::refused(Refusal::RequestEncoded));
    }
    let headers = request.headers.end_to_end();
    let shown = |name: &str| !route.is_key_header(name) && name != COOKIE;
    let headers: Vec<(&str, &[u8])> = headers.filter(|(name, _)| shown(name)).collect();
    let path = below.split('?').next().filter(|path| !path.is_empty()).unwrap_or("/");
    let method = request.method.as_str();
    let inspected = InspectedRequest { id, method, path, headers: &headers, body };
    inspector
        .request(&inspected)
        .map_err(|reason| Stop::Refused { refusal: Refusal::Inspected, detail: Some(reason) })?;
    Ok(Inspection { inspector: Arc::clone(inspector), id, end: End::Stopped })
}

/// Whether a body has another encoding than `identity`, and so cannot be searched.
pub(crate) fn is_encoded(headers: &Headers) -> bool {
    headers.iter().any(|(name, value)| {
        plain_name(name) == "content-encoding" && !value.eq_ignore_ascii_case(b"identity")
    })
}
