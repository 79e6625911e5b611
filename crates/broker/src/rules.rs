//! What a broker lets through.

use std::fmt;
use std::time::Duration;

use thiserror::Error;
use windlass_kernel::{Authority, HostError, HostRule};
use zeroize::Zeroizing;

use crate::http::is_token;

/// What a broker lets through. Everything else is refused.
#[derive(Clone, Debug)]
pub struct BrokerRules {
    /// The hosts that may be reached, with CONNECT or as plain HTTP.
    pub hosts: Vec<HostRule>,
    /// The hosts whose addresses may be private, from the user's settings. This alone lets no
    /// host through: it must be one of `hosts`, or the upstream of a route.
    pub private_hosts: Vec<HostRule>,
    /// The paths that are forwarded over TLS.
    pub routes: Vec<Route>,
    /// The ports on which a tunnel must begin as TLS.
    pub tls_ports: Vec<u16>,
    /// The certificate authorities that the upstream of a route is checked against.
    pub trust: Trust,
    /// The limits.
    pub limits: Limits,
}

impl Default for BrokerRules {
    /// Lets nothing through.
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            private_hosts: Vec::new(),
            routes: Vec::new(),
            tls_ports: vec![443],
            trust: Trust::default(),
            limits: Limits::default(),
        }
    }
}

/// The certificate authorities that are trusted.
#[derive(Clone, Debug, Default)]
pub enum Trust {
    /// Those of the system.
    #[default]
    System,
    /// These, each a certificate in DER.
    Only(Vec<Vec<u8>>),
}

/// The limits of a broker. `None` stands for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest head of a request or response.
    pub head_bytes_max: usize,
    /// The most connections at once.
    pub connections_max: usize,
    /// The most requests.
    pub requests_max: Option<u64>,
    /// The most bytes of one connection in one direction.
    pub connection_bytes_max: Option<u64>,
    /// The most bytes of all connections together.
    pub broker_bytes_max: Option<u64>,
    /// The longest time from the first byte of a head or a TLS greeting to its last.
    pub head_timeout: Duration,
    /// The longest time for resolving a name, and again for connecting.
    pub connect_timeout: Duration,
    /// The longest time in which nothing is sent.
    pub idle_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes_max: 64 * 1024,
            connections_max: 256,
            requests_max: None,
            connection_bytes_max: None,
            broker_bytes_max: None,
            head_timeout: Duration::from_secs(20),
            connect_timeout: Duration::from_secs(20),
            // A model may think for minutes before it sends its first word.
            idle_timeout: Duration::from_secs(600),
        }
    }
}

/// Requests for paths below a prefix, forwarded over TLS to another host.
#[derive(Clone, Debug)]
pub struct Route {
    pub(crate) prefix: String,
    pub(crate) upstream: Authority,
    /// The path at the upstream that the prefix stands for, without a slash at the end.
    pub(crate) base: String,
    pub(crate) credential: Option<Credential>,
}

/// Why a route or a credential cannot be used. It does not contain the credential.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RouteError {
    /// The prefix is not a plain path.
    #[error("the prefix of a route must be a path such as `/model`")]
    Prefix,
    /// The upstream is not a plain `https` URL.
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

impl Route {
    /// A route from the paths below `prefix` to `upstream`, an `https` URL.
    ///
    /// # Errors
    /// [`RouteError`] if one of them is not plain.
    pub fn new(
        prefix: &str,
        upstream: &str,
        credential: Option<Credential>,
    ) -> Result<Self, RouteError> {
        let plain = |path: &str| {
            path.split('/').skip(1).all(|part| {
                let text = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
                !matches!(part, "" | "." | "..") && part.bytes().all(text)
            })
        };
        if !prefix.starts_with('/') || !plain(prefix) {
            return Err(RouteError::Prefix);
        }
        let rest = upstream.strip_prefix("https://").ok_or(RouteError::Upstream)?;
        let (host, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let base = base.strip_suffix('/').unwrap_or(base);
        if !base.is_empty() && !plain(base) {
            return Err(RouteError::Upstream);
        }
        let upstream = Authority::parse(host, Some(443)).map_err(RouteError::UpstreamHost)?;
        Ok(Self { prefix: prefix.to_owned(), upstream, base: base.to_owned(), credential })
    }

    /// The path at the upstream of a request for `path`, if it is below the prefix.
    pub(crate) fn upstream_path(&self, path: &str) -> Option<String> {
        let rest = path.strip_prefix(&self.prefix)?;
        match rest.bytes().next() {
            None => Some(format!("{}/", self.base)),
            Some(b'/') => Some(format!("{}{rest}", self.base)),
            Some(b'?') => Some(format!("{}/{rest}", self.base)),
            Some(_) => None,
        }
    }
}

/// A header that the broker adds to the requests of a route. The client never sees it.
#[derive(Clone)]
pub struct Credential {
    name: String,
    value: Zeroizing<String>,
}

impl Credential {
    /// The header `name` with this value.
    ///
    /// # Errors
    /// [`RouteError`] if it cannot be sent. The error does not contain the value.
    pub fn header(name: &str, value: &str) -> Result<Self, RouteError> {
        let name = name.to_ascii_lowercase();
        if !is_token(name.as_bytes()) || crate::http::is_of_connection(&name) || name == "host" {
            return Err(RouteError::HeaderName);
        }
        let sendable = value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        if value.trim().is_empty() || value.trim() != value || !sendable {
            return Err(RouteError::HeaderValue);
        }
        Ok(Self { name, value: Zeroizing::new(value.to_owned()) })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn value(&self) -> &str {
        &self.value
    }

    /// The texts that must not reach the client: the value, and a token behind its scheme.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        let token = self.value.split_once(' ').map(|(_, token)| token.trim());
        std::iter::once(self.value.as_str()).chain(token.filter(|token| !token.is_empty()))
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Credential").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_plain() {
        let route = |prefix, upstream| Route::new(prefix, upstream, None).map(|_| ());
        assert_eq!(route("/model", "https://api.example.com"), Ok(()));
        assert_eq!(route("/a/b", "https://api.example.com:8443/v1/"), Ok(()));
        for prefix in ["", "/", "model", "/a//b", "/a/", "/..", "/a/../b", "/a b", "/a%2f", "/a?b"]
        {
            assert_eq!(route(prefix, "https://a.example"), Err(RouteError::Prefix), "{prefix}");
        }
        for upstream in
            ["", "a.example", "http://a.example", "https://a.example/../b", "https://a.example/a?b"]
        {
            assert_eq!(route("/m", upstream), Err(RouteError::Upstream), "{upstream}");
        }
        for upstream in ["https://", "https://u@a.example", "https://a.example.", "https://a?b"] {
            let error = route("/m", upstream).unwrap_err();
            assert!(matches!(error, RouteError::UpstreamHost(_)), "{upstream}");
        }
    }

    #[test]
    fn a_prefix_covers_whole_parts_of_a_path() {
        let route = Route::new("/model", "https://a.example/base", None).unwrap();
        for (path, expected) in [
            ("/model", Some("/base/")),
            ("/model/", Some("/base/")),
            ("/model/v1/messages?beta=1", Some("/base/v1/messages?beta=1")),
            ("/model?x", Some("/base/?x")),
            ("/models", None),
            ("/mode", None),
            ("/x/model", None),
        ] {
            assert_eq!(route.upstream_path(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn a_credential_is_a_header_and_is_not_printed() {
        let credential = Credential::header("Authorization", "Bearer s3cret").unwrap();
        assert_eq!(credential.secrets().collect::<Vec<_>>(), ["Bearer s3cret", "s3cret"]);
        assert_eq!(format!("{credential:?}"), "Credential { name: \"authorization\", .. }");
        for name in ["", "a b", "a:", "Host", "Content-Length", "Connection", "Transfer-Encoding"] {
            let error = Credential::header(name, "secret").unwrap_err();
            assert_eq!(error, RouteError::HeaderName, "{name}");
        }
        for value in ["", " ", "a\r\nb: c", "a\0", " a", "a\n", "\u{fc}"] {
            let error = Credential::header("x-api-key", value).unwrap_err();
            assert_eq!(error, RouteError::HeaderValue, "{value}");
        }
    }
}
