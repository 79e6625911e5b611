//! What the broker tells its observer, and the reasons for its refusals.

use std::net::SocketAddr;
use std::time::Duration;

use windlass_kernel::{Code, HostProblem};

use crate::address::AddressKind;

/// Is told every decision of a broker.
///
/// It is called on the broker's only thread: it must return soon and must not wait for the broker.
pub trait BrokerObserver: Send + Sync {
    /// Takes note of a decision.
    fn event(&self, event: BrokerEvent);
}

/// A decision of the broker.
///
/// It contains no credential, no path and no query. Text of the client is bounded and printable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BrokerEvent {
    /// A passage is open: the address is connected, and nothing of the client has been sent yet.
    Allowed {
        /// The number of the passage, unique in this broker.
        id: u64,
        /// Where it leads.
        passage: Passage,
    },
    /// A passage is closed.
    Closed {
        /// The number of the passage.
        id: u64,
        /// Where it led.
        passage: Passage,
        /// Bytes sent to the host.
        bytes_up: u64,
        /// Bytes sent to the client.
        bytes_down: u64,
        /// How long it was open.
        duration: Duration,
        /// Why it was closed.
        end: End,
    },
    /// A request was refused.
    Refused {
        /// What the client asked for: method and host.
        asked: String,
        /// The reason.
        refusal: Refusal,
        /// What the inspector said, or whoever closed the route: bounded and printable.
        detail: Option<String>,
    },
    /// A request was allowed, and the host could not be reached.
    Unreachable {
        /// What the client asked for: method and host.
        asked: String,
        /// The reason.
        failure: Unreachable,
    },
}

/// Where a request was let through to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The method of the request.
    pub method: String,
    /// The prefix of the route, if it was taken.
    pub route: Option<String>,
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The address that was checked and connected.
    pub address: SocketAddr,
}

/// Why a passage was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Both sides were done.
    Done,
    /// One side broke the connection.
    Broken,
    /// Nothing was sent for too long.
    Idle,
    /// The broker closed it: a limit, or a TLS server name that does not belong to the host.
    Refused(Refusal),
    /// The host's response could not be used.
    Failed(Unreachable),
    /// The broker was stopped.
    Stopped,
}

macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($(#[$item:meta])* $variant:ident $(($of:ty))? = $id:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
        pub enum $name {
            $($(#[$item])* #[error($text)] $variant $(($of))?,)*
        }

        impl $name {
            /// Its stable name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $id,)*
                }
            }
        }
    };
}

reasons! {
    /// Why the broker refused a request or closed a passage.
    Refusal {
        /// The request is not HTTP/1.0 or HTTP/1.1.
        NotHttp = "not-http", "this is not an HTTP/1.1 request";
        /// A header line is malformed.
        HeaderInvalid = "header-invalid", "a header line is malformed";
        /// The head is too large.
        HeadTooLarge = "head-too-large", "the request's head is too large";
        /// The head did not arrive in time.
        HeadTimeout = "head-timeout", "the request's head did not arrive in time";
        /// The method is not one that can be passed on.
        Method = "method", "the method is not allowed";
        /// The target has a form that a proxy does not serve.
        TargetForm = "target-form", "the request's target is neither `host:port` nor an absolute URL";
        /// The target's path is malformed.
        PathInvalid = "path-invalid", "the request's path is malformed";
        /// The scheme of an absolute target is not `http`.
        Scheme = "scheme", "only `http` is forwarded; use CONNECT for everything else";
        /// There is no `Host` header.
        HostMissing = "host-missing", "the `Host` header is missing";
        /// There are several `Host` headers.
        HostRepeated = "host-repeated", "there are several `Host` headers";
        /// The `Host` header is not the target.
        HostDiffers = "host-differs", "the `Host` header differs from the request's target";
        /// The length of the body is malformed or ambiguous.
        Length = "length", "`Content-Length` is malformed or repeated";
        /// The transfer encoding is not `chunked`, or contradicts the length.
        TransferEncoding = "transfer-encoding", "`Transfer-Encoding` is not plainly `chunked`";
        /// The chunked body is malformed.
        Chunk = "chunk", "the chunked body is malformed";
        /// The expectation cannot be met.
        Expectation = "expectation", "only `Expect: 100-continue` is understood";
        /// A `CONNECT` request has a body.
        ConnectBody = "connect-body", "CONNECT has no body";
        /// The name of the host is malformed.
        NameInvalid(HostProblem) = "name-invalid", "the host name is malformed: {0}";
        /// The host is an IP address.
        AddressLiteral = "address-literal", "hosts are reached by name, not by IP address";
        /// The host is not listed.
        HostNotListed = "host-not-listed", "the host is not listed in the tool's `network`";
        /// The host is listed with other ports.
        PortNotListed = "port-not-listed", "the host is listed in the tool's `network` with another port";
        /// The name leads to an address that is not public.
        AddressNotPublic(AddressKind) = "address-not-public", "the host's address is {0}";
        /// The path belongs to no route.
        RouteUnknown = "route-unknown", "this path leads nowhere; to use the proxy, ask for an absolute URL";
        /// The route is closed.
        RouteClosed = "route-closed", "the route is closed";
        /// The inspector of the route refused the request.
        Inspected = "inspected", "the contents of the request are refused";
        /// The body is too large to be inspected.
        InspectedBytesMax = "inspected-bytes-max", "the request's body is too large to be inspected";
        /// Too many bodies are held for inspection.
        HeldBytesMax = "held-bytes-max", "too many requests are being inspected at once";
        /// The body did not arrive in time.
        BodyTimeout = "body-timeout", "the request's body did not arrive in time";
        /// The body cannot be inspected.
        RequestEncoded = "request-encoded", "the request's body is compressed and cannot be inspected";
        /// The connection on a port for TLS does not begin with TLS.
        NotTls = "not-tls", "this port is for TLS only";
        /// The TLS greeting is malformed.
        HelloInvalid = "hello-invalid", "the TLS greeting is malformed";
        /// The TLS greeting is too large.
        HelloTooLarge = "hello-too-large", "the TLS greeting is too large";
        /// The TLS greeting did not arrive in time.
        HelloTimeout = "hello-timeout", "the TLS greeting did not arrive in time";
        /// The TLS greeting names no server.
        ServerNameMissing = "server-name-missing", "the TLS greeting names no server";
        /// The TLS greeting names another server.
        ServerNameDiffers = "server-name-differs", "the TLS greeting names another server than CONNECT";
        /// There are too many connections.
        ConnectionsMax = "connections-max", "there are too many connections at once";
        /// There were too many requests.
        RequestsMax = "requests-max", "the number of requests is used up";
        /// The connection carried too many bytes in one direction.
        ConnectionBytesMax = "connection-bytes-max", "the connection's number of bytes is used up";
        /// All connections together carried too many bytes.
        BrokerBytesMax = "broker-bytes-max", "the number of bytes of all connections is used up";
    }
}

reasons! {
    /// Why an allowed host could not be reached.
    Unreachable {
        /// The name has no address.
        Unresolved = "unresolved", "the host name could not be resolved";
        /// The name was not resolved in time.
        ResolveTimeout = "resolve-timeout", "the host name was not resolved in time";
        /// The connection was refused.
        Connect = "connect", "the host refused the connection";
        /// The connection was not made in time.
        ConnectTimeout = "connect-timeout", "the host did not answer in time";
        /// TLS failed.
        Tls = "tls", "the TLS connection failed";
        /// The connection was lost, or the response is malformed.
        Response = "response", "the host's response is malformed or incomplete";
        /// The response of a route is encoded although that was not asked for.
        ResponseEncoded = "response-encoded", "the host's response is compressed, which was not asked for";
        /// The host sent nothing for too long.
        ResponseTimeout = "response-timeout", "the host did not respond in time";
    }
}

impl Refusal {
    /// The code of all refusals.
    pub const CODE: Code = Code::NetworkRefused;

    pub(crate) const fn of_name(problem: HostProblem) -> Self {
        match problem {
            HostProblem::Address => Self::AddressLiteral,
            HostProblem::Empty
            | HostProblem::NameTooLong
            | HostProblem::LabelTooLong
            | HostProblem::LabelEmpty
            | HostProblem::TrailingDot
            | HostProblem::Hyphen
            | HostProblem::Control
            | HostProblem::NotAscii
            | HostProblem::PercentEncoded
            | HostProblem::Scheme
            | HostProblem::Path
            | HostProblem::UserInfo
            | HostProblem::Character
            | HostProblem::Wildcard
            | HostProblem::PortMissing
            | HostProblem::Port => Self::NameInvalid(problem),
        }
    }
}

impl Unreachable {
    /// The code of all failures.
    pub const CODE: Code = Code::NetworkUnreachable;

    pub(crate) const fn status(self) -> &'static str {
        match self {
            Self::ResolveTimeout | Self::ConnectTimeout | Self::ResponseTimeout => {
                "504 Gateway Timeout"
            }
            Self::Unresolved
            | Self::Connect
            | Self::Tls
            | Self::Response
            | Self::ResponseEncoded => "502 Bad Gateway",
        }
    }
}

const ASKED_BYTES_MAX: usize = 200;

/// Method and host of a request line, whatever it is: printable, bounded, without user name, path
/// and query.
pub(crate) fn asked(line: &[u8]) -> String {
    let line = line.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let method = words.next().unwrap_or_default();
    let target = words.next().unwrap_or_default();
    let after_scheme = target.windows(3).position(|three| three == b"://").map_or(0, |at| at + 3);
    let authority = target.get(after_scheme..).unwrap_or_default();
    let authority = authority.split(|byte| b"/?#\\".contains(byte)).next().unwrap_or_default();
    let host = authority.rsplit(|byte| *byte == b'@').next().unwrap_or_default();
    let mut text = printable(method, 32);
    if !host.is_empty() {
        text.push(' ');
        text.push_str(&printable(host, ASKED_BYTES_MAX));
    }
    text
}

const DETAIL_CHARS_MAX: usize = 1000;

/// A detail of a refusal, bounded and without control characters.
pub(crate) fn detail(text: &str) -> String {
    let shown = |character: char| if character.is_control() { '?' } else { character };
    let mut detail: String = text.chars().take(DETAIL_CHARS_MAX).map(shown).collect();
    if text.chars().nth(DETAIL_CHARS_MAX).is_some() {
        detail.push('…');
    }
    detail
}

fn printable(bytes: &[u8], max: usize) -> String {
    let shown = |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { '?' };
    let mut text: String = bytes.iter().take(max).map(shown).collect();
    if bytes.len() > max {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_is_method_and_host() {
        for (line, expected) in [
            (&b"CONNECT a.example:443 HTTP/1.1\r\n"[..], "CONNECT a.example:443"),
            (b"GET http://a.example/secret?token=1 HTTP/1.1", "GET a.example"),
            (b"GET http://user:secret@a.example/x HTTP/1.1", "GET a.example"),
            (b"GET http://a.example?token=1 HTTP/1.1", "GET a.example"),
            (b"POST /model/secret HTTP/1.1", "POST"),
            (b"GET http://a\x1b[31m.example/ HTTP/1.1", "GET a?[31m.example"),
            (b"\x16\x03\x01", "???"),
            (b"", ""),
        ] {
            assert_eq!(asked(line), expected, "{line:?}");
        }
        assert!(asked(&[b'a'; 10_000]).len() < 300);
    }

    #[test]
    fn details_are_bounded_and_printable() {
        assert_eq!(detail("tool `a`\r\n\u{1b}[2J"), "tool `a`???[2J");
        assert_eq!(detail(&"ä".repeat(5000)).chars().count(), DETAIL_CHARS_MAX + 1);
    }
}
