//! Who may speak to the server: the holder of the token, not a browser, and nobody by another name.

use std::fmt;
use std::net::SocketAddr;

use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::http::request::Parts;
use subtle::ConstantTimeEq as _;

/// A shorter token could be guessed.
const TOKEN_BYTES_MIN: usize = 16;

/// The secret that clients show as `Authorization: Bearer …`.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// A token of at least 16 visible ASCII characters; `None` for any other text.
    #[must_use]
    pub fn new(text: String) -> Option<Self> {
        let usable = text.len() >= TOKEN_BYTES_MIN && text.bytes().all(|b| b.is_ascii_graphic());
        usable.then_some(Self(text))
    }

    fn matches(&self, shown: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(shown).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Checks the head of every request.
#[derive(Debug)]
pub(crate) struct Guard {
    token: Token,
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Guard {
    /// Accepts the names of the machine itself with the port of `address`, and `hosts`.
    pub(crate) fn new(
        token: Token,
        address: SocketAddr,
        hosts: &[String],
        origins: &[String],
    ) -> Self {
        let port = address.port();
        let mut names: Vec<String> =
            ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}")).into();
        names.push(address.to_string());
        names.extend(hosts.iter().map(|host| host.to_ascii_lowercase()));
        Self { token, hosts: names, origins: origins.to_vec() }
    }

    /// The status with which a request is refused.
    pub(crate) fn check(&self, request: &Parts) -> Result<(), StatusCode> {
        // A page in a browser reaches a local server under a name that its attacker has chosen.
        let host = only(&request.headers, HOST).ok_or(StatusCode::BAD_REQUEST)?;
        let authority = request.uri.authority().map(|authority| authority.as_str().as_bytes());
        if !self.is_known(host) || !authority.is_none_or(|name| self.is_known(name)) {
            return Err(StatusCode::FORBIDDEN);
        }
        if request.headers.contains_key(ORIGIN) {
            let origin = only(&request.headers, ORIGIN).unwrap_or_default();
            if !self.origins.iter().any(|known| known.as_bytes() == origin) {
                return Err(StatusCode::FORBIDDEN);
            }
        }
        let shown = only(&request.headers, AUTHORIZATION).unwrap_or_default();
        let token = shown
            .split_at_checked("Bearer ".len())
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"Bearer "));
        if !token.is_some_and(|(_, token)| self.token.matches(token)) {
            return Err(StatusCode::UNAUTHORIZED);
        }
        Ok(())
    }

    fn is_known(&self, host: &[u8]) -> bool {
        self.hosts.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(host))
    }
}

/// The value of a header that is there exactly once.
pub(crate) fn only(headers: &HeaderMap, name: HeaderName) -> Option<&[u8]> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none()).map(hyper::header::HeaderValue::as_bytes)
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn status(head: &[(&str, &str)]) -> u16 {
        status_of("/mcp", head)
    }

    fn status_of(uri: &str, head: &[(&str, &str)]) -> u16 {
        let guard = Guard::new(
            Token::new(TOKEN.to_owned()).unwrap(),
            "127.0.0.1:7000".parse().unwrap(),
            &["Gate.example".to_owned()],
            &["https://app.example".to_owned()],
        );
        let mut request = Request::builder().uri(uri);
        for (name, value) in head {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        guard.check(&parts).err().map_or(200, |status| status.as_u16())
    }

    #[test]
    fn only_known_names_origins_and_tokens_pass() {
        let bearer = format!("Bearer {TOKEN}");
        let auth = ("authorization", bearer.as_str());
        let host = ("host", "127.0.0.1:7000");
        for host in ["127.0.0.1:7000", "LocalHost:7000", "[::1]:7000", "gate.example"] {
            assert_eq!(status(&[("host", host), auth]), 200, "{host}");
        }
        for host in ["127.0.0.1", "localhost:7001", "evil.example:7000", "", "127.0.0.1:7000 "] {
            assert_eq!(status(&[("host", host), auth]), 403, "{host}");
        }
        assert_eq!(status(&[auth]), 400);
        assert_eq!(status(&[host, host, auth]), 400);
        assert_eq!(status_of("http://evil.example/mcp", &[host, auth]), 403);
        assert_eq!(status_of("http://localhost:7000/mcp", &[host, auth]), 200);

        assert_eq!(status(&[host, auth, ("origin", "https://app.example")]), 200);
        for origin in ["https://app.example:8", "http://app.example", "null", ""] {
            assert_eq!(status(&[host, auth, ("origin", origin)]), 403, "{origin}");
        }
        let twice = ("origin", "https://app.example");
        assert_eq!(status(&[host, auth, twice, twice]), 403);

        let lower = format!("bearer {TOKEN}");
        assert_eq!(status(&[host, ("authorization", &lower)]), 200);
        assert_eq!(status(&[host]), 401);
        assert_eq!(status(&[host, auth, auth]), 401);
        for shown in ["Bearer ", "Bearer 0123456789abcdeX", TOKEN, "Basic 0123456789abcdef", ""] {
            assert_eq!(status(&[host, ("authorization", shown)]), 401, "{shown}");
        }
    }

    #[test]
    fn tokens_are_long_and_not_shown() {
        assert!(Token::new("0123456789abcde".to_owned()).is_none());
        assert!(Token::new("0123456789 abcdef".to_owned()).is_none());
        let token = Token::new(TOKEN.to_owned()).unwrap();
        assert!(!format!("{token:?}").contains("0123"));
    }
}
