//! Routes: paths of the broker that stand for another host.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;
use tokio::sync::watch;
use windlass_kernel::{Authority, HostError};
use zeroize::Zeroizing;

use crate::http::{is_of_connection, is_token};
use crate::inspect::RouteInspector;

/// The shortest text that is kept from the client.
const SECRET_BYTES_MIN: usize = 12;
/// The headers in which clients of model services send their keys.
const KEY_HEADERS: [&str; 4] = ["authorization", "x-api-key", "x-goog-api-key", "api-key"];
/// The query parameters in which they do.
const KEY_PARAMETERS: [&str; 1] = ["key"];

/// How a route speaks with its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(crate) const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// Requests for paths below a prefix, forwarded to a host that the user's settings name.
///
/// The addresses of that host may be private; this holds for requests of this route only. A clone
/// has the same inspector and the same switch.
#[derive(Clone)]
pub struct Route {
    pub(crate) prefix: String,
    pub(crate) scheme: Scheme,
    pub(crate) upstream: Authority,
    /// The path at the upstream that the prefix stands for, without a slash at the end.
    base: String,
    pub(crate) credential: Option<Credential>,
    key_headers: Vec<String>,
    key_parameters: Vec<String>,
    pub(crate) inspector: Option<Arc<dyn RouteInspector>>,
    switch: RouteSwitch,
}

impl fmt::Debug for Route {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Route")
            .field("prefix", &self.prefix)
            .field("scheme", &self.scheme)
            .field("upstream", &self.upstream)
            .field("base", &self.base)
            .field("credential", &self.credential)
            .finish_non_exhaustive()
    }
}

/// Why a route or a credential cannot be used. It does not contain the credential.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RouteError {
    /// The prefix is not a plain path.
    #[error("the prefix of a route must be a path such as `/model`")]
    Prefix,
    /// The upstream is not a plain `https` or `http` URL.
    #[error("the upstream of a route must be a URL such as `https://api.example.com`")]
    Upstream,
    /// The host of the upstream is malformed.
    #[error("the upstream of a route has a malformed host")]
    UpstreamHost(#[source] HostError),
    /// The name of the header is malformed, or belongs to the broker.
    #[error("this header cannot carry a credential")]
    HeaderName,
    /// The value of the header is empty or cannot be sent.
    #[error("the credential cannot be sent in a header")]
    HeaderValue,
}

/// Whether all parts of a path are plain; `also` are further characters that they may have.
fn is_plain(path: &str, also: &[u8]) -> bool {
    path.split('/').skip(1).all(|part| {
        let text = |byte: u8| {
            byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || also.contains(&byte)
        };
        !matches!(part, "" | "." | "..") && part.bytes().all(text)
    })
}

impl Route {
    /// A route from the paths below `prefix` to `upstream`, an `https` or `http` URL.
    ///
    /// With a credential, the keys that the client itself sends are dropped. Without one they
    /// pass: the client has logged in by itself.
    ///
    /// # Errors
    /// [`RouteError`] if one of them is not plain.
    pub fn new(
        prefix: &str,
        upstream: &str,
        credential: Option<Credential>,
    ) -> Result<Self, RouteError> {
        if !prefix.starts_with('/') || !is_plain(prefix, b"") {
            return Err(RouteError::Prefix);
        }
        let (scheme, rest) = upstream.split_once("://").ok_or(RouteError::Upstream)?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(RouteError::Upstream),
        };
        let (host, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let base = base.strip_suffix('/').unwrap_or(base);
        if !base.is_empty() && !is_plain(base, b":@+=,") {
            return Err(RouteError::Upstream);
        }
        let upstream =
            Authority::parse(host, Some(scheme.port())).map_err(RouteError::UpstreamHost)?;
        Ok(Self {
            prefix: prefix.to_owned(),
            scheme,
            upstream,
            base: base.to_owned(),
            credential,
            key_headers: KEY_HEADERS.map(str::to_owned).to_vec(),
            key_parameters: KEY_PARAMETERS.map(str::to_owned).to_vec(),
            inspector: None,
            switch: RouteSwitch::default(),
        })
    }

    /// Names further headers in which the client sends a key of its own.
    ///
    /// # Errors
    /// [`RouteError::HeaderName`] if a name is malformed.
    pub fn with_key_headers(mut self, names: &[&str]) -> Result<Self, RouteError> {
        for name in names {
            if !is_token(name.as_bytes()) {
                return Err(RouteError::HeaderName);
            }
            self.key_headers.push(plain_name(&name.to_ascii_lowercase()));
        }
        Ok(self)
    }

    /// Has the requests and responses of this route inspected.
    #[must_use]
    pub fn with_inspector(mut self, inspector: Arc<dyn RouteInspector>) -> Self {
        self.inspector = Some(inspector);
        self
    }

    /// The switch by which this route, and all clones of it, are closed.
    #[must_use]
    pub fn switch(&self) -> RouteSwitch {
        self.switch.clone()
    }

    pub(crate) const fn own_switch(&self) -> &RouteSwitch {
        &self.switch
    }

    /// The path and query below the prefix of a request for `path`, if it is below the prefix.
    pub(crate) fn below<'a>(&self, path: &'a str) -> Option<&'a str> {
        let rest = path.strip_prefix(&self.prefix)?;
        matches!(rest.bytes().next(), None | Some(b'/' | b'?')).then_some(rest)
    }

    /// The path at the upstream of a request for `below`, without keys of the client if there is a
    /// credential.
    pub(crate) fn upstream_path(&self, below: &str) -> String {
        let (path, query) = match below.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (below, None),
        };
        let slash = if path.starts_with('/') { "" } else { "/" };
        let mut full = format!("{}{slash}{path}", self.base);
        let Some(query) = query else { return full };
        let kept: Vec<&str> = if self.credential.is_some() {
            query.split('&').filter(|parameter| !self.is_key_parameter(parameter)).collect()
        } else {
            vec![query]
        };
        if !kept.is_empty() {
            full.push('?');
            full.push_str(&kept.join("&"));
        }
        full
    }

    fn is_key_parameter(&self, parameter: &str) -> bool {
        let name = decoded(parameter.split('=').next().unwrap_or_default());
        self.key_parameters.iter().any(|key| name.eq_ignore_ascii_case(key.as_bytes()))
    }

    /// Whether responses are searched, which compressed ones could not be.
    pub(crate) fn is_searched(&self) -> bool {
        self.credential.is_some() || self.inspector.is_some()
    }

    /// Whether a header carries a key.
    pub(crate) fn is_key_header(&self, name: &str) -> bool {
        let plain = plain_name(name);
        let mut own = self.credential.iter().flat_map(Credential::headers);
        own.any(|(name, _)| plain_name(name) == plain) || self.key_headers.contains(&plain)
    }
}

/// Servers may read `_` as `-` in a header's name.
pub(crate) fn plain_name(name: &str) -> String {
    name.replace('_', "-")
}

/// A name in a query without its percent-encoding.
fn decoded(name: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let digit = |at: usize| char::from(*tail.get(at)?).to_digit(16);
        let encoded = || u8::try_from(digit(0)? * 16 + digit(1)?).ok();
        match encoded().filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

/// Closes a route, from whatever thread, for good.
///
/// Requests under way are cut and further ones are refused with `403` and the reason.
#[derive(Clone, Debug)]
pub struct RouteSwitch(Arc<watch::Sender<Option<String>>>);

impl Default for RouteSwitch {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
}

impl RouteSwitch {
    /// Closes the route. The first reason stays.
    pub fn close(&self, reason: &str) {
        self.0.send_if_modified(|closed| {
            let is_open = closed.is_none();
            closed.get_or_insert_with(|| reason.to_owned());
            is_open
        });
    }

    /// Why the route is closed; `None` while it is open.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        self.0.borrow().clone()
    }

    /// Waits until the route is closed.
    pub(crate) async fn closed(&self) {
        // The sender lives as long as `self`.
        let _ = self.0.subscribe().wait_for(Option::is_some).await;
    }
}

/// Headers that the broker adds to the requests of a route. The client never sees them.
#[derive(Clone)]
pub struct Credential(Vec<(String, Zeroizing<String>)>);

impl Credential {
    /// These headers with their values.
    ///
    /// # Errors
    /// [`RouteError`] if one cannot be sent. The error does not contain the value.
    pub fn new<T: AsRef<str>>(headers: &[(T, T)]) -> Result<Self, RouteError> {
        let header = |(name, value): &(T, T)| {
            let (name, value) = (name.as_ref().to_ascii_lowercase(), value.as_ref());
            if !is_token(name.as_bytes()) || is_of_connection(&name) || name == "host" {
                return Err(RouteError::HeaderName);
            }
            let sendable = value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
            if value.trim().is_empty() || value.trim() != value || !sendable {
                return Err(RouteError::HeaderValue);
            }
            Ok((name, Zeroizing::new(value.to_owned())))
        };
        headers.iter().map(header).collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The texts that must not reach the client: the values, and a token behind its scheme. What is shorter than a key
    /// is a placeholder for a service that needs none, and may be any word of an answer.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        let texts = self.headers().flat_map(|(_, value)| {
            let token = value.split_once(' ').map(|(_, token)| token.trim());
            std::iter::once(value).chain(token)
        });
        texts.filter(|text| text.len() >= SECRET_BYTES_MIN)
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.headers().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests;
