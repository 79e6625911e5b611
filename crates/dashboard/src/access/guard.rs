//! Every request is checked: by which name it reached the server, which page sent it, and who sends it.

use std::net::SocketAddr;

use axum::http::header::{
    AUTHORIZATION, COOKIE as COOKIE_HEADER, HOST, HeaderMap, HeaderName, ORIGIN,
};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use windlass_kernel::Timestamp;

use super::{Access, AccessError, Scope, Visitor};

/// The name of the cookie that a link is exchanged for. All holds have one together, so that a link does not end a login,
/// and many links leave no more cookies than a browser and a server take.
pub(crate) fn cookie_name(access: &Access, scope: &Scope) -> String {
    match scope {
        Scope::All => login_cookie(access),
        Scope::Hold { .. } => holds_cookie(access),
    }
}

/// The name of the cookie of a login.
fn login_cookie(access: &Access) -> String {
    format!("windlass-login-{}", access.mark())
}

/// The name of the cookie for holds.
fn holds_cookie(access: &Access) -> String {
    format!("windlass-holds-{}", access.mark())
}

/// The names by which the server may be reached.
#[derive(Clone, Debug)]
pub struct Hosts {
    names: Vec<String>,
    scheme: &'static str,
}

/// The result of a check.
#[derive(Clone, Debug)]
pub enum Visit {
    /// It comes from this person.
    By(Visitor),
    /// It comes from nobody that is known.
    Unknown,
    /// It is refused: the status and why.
    Refused(StatusCode, &'static str),
}

impl Hosts {
    /// The names of this machine with the port of `address`, and `names`.
    #[must_use]
    pub fn new(address: SocketAddr, names: &[String], is_tls: bool) -> Self {
        let port = address.port();
        let mut all: Vec<String> =
            ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}")).into();
        all.push(address.to_string());
        all.extend(names.iter().map(|name| name.to_ascii_lowercase()));
        Self { names: all, scheme: if is_tls { "https" } else { "http" } }
    }

    /// Whether cookies are for encrypted connections only.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.scheme == "https"
    }

    /// The status with which a request is refused because of its names. Reading is refused by a wrong name only;
    /// whatever changes something must come from a page of this server, or from a program that sends no origin.
    fn check(&self, request: &Parts) -> Result<(), (StatusCode, &'static str)> {
        let host = only(&request.headers, HOST)
            .ok_or((StatusCode::BAD_REQUEST, "one header `Host` is needed"))?;
        let authority = request.uri.authority().map(|authority| authority.as_str());
        if !self.is_known(host) || !authority.is_none_or(|name| self.is_known(name)) {
            return Err((StatusCode::MISDIRECTED_REQUEST, "the server has no such name"));
        }
        if request.headers.contains_key(ORIGIN) {
            let origin = only(&request.headers, ORIGIN).unwrap_or_default();
            let ours = origin.split_once("://").is_some_and(|(scheme, name)| {
                scheme == self.scheme && name.eq_ignore_ascii_case(host)
            });
            if !ours {
                return Err((StatusCode::FORBIDDEN, "the request comes from another site"));
            }
        }
        Ok(())
    }

    fn is_known(&self, host: &str) -> bool {
        self.names.iter().any(|known| known.eq_ignore_ascii_case(host))
    }

    /// Finds out who sends a request.
    ///
    /// # Errors
    /// [`AccessError`] if the people cannot be read.
    pub fn visit(
        &self,
        access: &Access,
        request: &Parts,
        now: Timestamp,
    ) -> Result<Visit, AccessError> {
        if let Err((status, reason)) = self.check(request) {
            return Ok(Visit::Refused(status, reason));
        }
        if request.headers.contains_key(AUTHORIZATION) {
            let shown = only(&request.headers, AUTHORIZATION).unwrap_or_default();
            let token =
                shown.split_once(' ').filter(|(kind, _)| kind.eq_ignore_ascii_case("bearer"));
            let visitor = match token {
                Some((_, token)) => access.by_token(token)?,
                None => None,
            };
            return Ok(visitor.map_or(Visit::Unknown, Visit::By));
        }
        let cookies: Vec<&str> =
            cookies_of(access, &request.headers).into_iter().map(|(_, value)| value).collect();
        let known =
            if cookies.is_empty() { Vec::new() } else { access.by_cookies(&cookies, now)? };
        let visitor = chosen(known, request.uri.path());
        let Some(visitor) = visitor else { return Ok(Visit::Unknown) };
        // A browser sends its cookie along; it also says which page made it do so.
        let changes = !matches!(request.method, Method::GET | Method::HEAD);
        let same = only(&request.headers, SEC_FETCH_SITE) == Some("same-origin");
        if changes && !same && !request.headers.contains_key(ORIGIN) {
            let reason = "a request with a cookie must say which page it comes from";
            return Ok(Visit::Refused(StatusCode::FORBIDDEN, reason));
        }
        Ok(Visit::By(visitor))
    }
}

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Who sends a request with the cookies of several: who is logged in, unless the path is that of a hold for which somebody
/// else has followed a link.
fn chosen(known: Vec<Visitor>, path: &str) -> Option<Visitor> {
    let login = known.iter().find(|visitor| visitor.scope == Scope::All);
    let own = known.iter().find(|visitor| visitor.is_here_for(path));
    let found = match (login, own) {
        (Some(login), Some(own)) if own.name != login.name => Some(own),
        (Some(login), _) => Some(login),
        (None, Some(own)) => Some(own),
        (None, None) => known.first(),
    };
    found.cloned()
}

/// Our cookies, by name; not those of a name that is there twice.
pub(crate) fn cookies_of<'a>(access: &Access, headers: &'a HeaderMap) -> Vec<(&'a str, &'a str)> {
    let names = [login_cookie(access), holds_cookie(access)];
    let all = headers.get_all(COOKIE_HEADER).iter().filter_map(|value| value.to_str().ok());
    let pairs =
        all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let ours: Vec<(&str, &str)> =
        pairs.filter(|(name, _)| names.iter().any(|ours| ours == name)).collect();
    let once = |name: &str| ours.iter().filter(|(one, _)| *one == name).count() == 1;
    ours.iter().copied().filter(|(name, _)| once(name)).collect()
}

/// The value of a header that is there exactly once.
pub(crate) fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none()).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::super::Role;
    use super::*;

    struct World {
        _folder: tempfile::TempDir,
        access: Access,
        token: String,
        cookie: String,
    }

    fn now() -> Timestamp {
        Timestamp::from_unix_ms(1_800_000_000_000).unwrap()
    }

    fn world() -> World {
        let folder = tempfile::tempdir().unwrap();
        let access = Access::open(folder.path()).unwrap();
        let token = access.add("ada", Role::Approver, now()).unwrap();
        let link = access.link("ada", Scope::All, now(), 1000).unwrap();
        let entered = access.enter(link.text(), &[], now()).unwrap().unwrap();
        let cookie = format!("{}={}", login_cookie(&access), entered.cookie.text());
        let token = token.text().to_owned();
        World { _folder: folder, access, token, cookie }
    }

    /// 200 for a visitor, 401 for nobody, else the refusal.
    fn status(world: &World, method: &str, uri: &str, head: &[(&str, &str)]) -> u16 {
        let address = "127.0.0.1:7000".parse().unwrap();
        let hosts = Hosts::new(address, &["Desk.example".to_owned()], false);
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in head {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        match hosts.visit(&world.access, &parts, now()).unwrap() {
            Visit::By(_) => 200,
            Visit::Unknown => 401,
            Visit::Refused(status, _) => status.as_u16(),
        }
    }

    const HOST: (&str, &str) = ("host", "127.0.0.1:7000");

    #[test]
    fn a_server_is_reached_by_its_own_names_only() {
        let world = world();
        let cookie = ("cookie", world.cookie.as_str());
        for host in ["127.0.0.1:7000", "LocalHost:7000", "[::1]:7000", "desk.example"] {
            assert_eq!(status(&world, "GET", "/", &[("host", host), cookie]), 200, "{host}");
        }
        for host in ["127.0.0.1", "localhost:7001", "evil.example:7000", "desk.example:7000"] {
            assert_eq!(status(&world, "GET", "/", &[("host", host), cookie]), 421, "{host}");
        }
        assert_eq!(status(&world, "GET", "/", &[cookie]), 400);
        assert_eq!(status(&world, "GET", "/", &[HOST, HOST, cookie]), 400);
        assert_eq!(status(&world, "GET", "http://evil.example/", &[HOST, cookie]), 421);
    }

    #[test]
    fn changes_come_from_our_own_pages_or_with_a_token() {
        let world = world();
        let cookie = ("cookie", world.cookie.as_str());
        let ours = ("origin", "http://127.0.0.1:7000");
        assert_eq!(status(&world, "GET", "/", &[HOST, cookie]), 200);
        assert_eq!(status(&world, "POST", "/", &[HOST, cookie, ours]), 200);
        assert_eq!(
            status(&world, "POST", "/", &[HOST, cookie, ("sec-fetch-site", "same-origin")]),
            200
        );
        assert_eq!(status(&world, "POST", "/", &[HOST, cookie]), 403);
        for site in ["cross-site", "same-site", "none"] {
            assert_eq!(status(&world, "POST", "/", &[HOST, cookie, ("sec-fetch-site", site)]), 403);
        }
        for origin in
            ["null", "https://127.0.0.1:7000", "http://localhost:7000", "http://evil.example", ""]
        {
            assert_eq!(
                status(&world, "POST", "/", &[HOST, cookie, ("origin", origin)]),
                403,
                "{origin}"
            );
            assert_eq!(
                status(&world, "GET", "/", &[HOST, cookie, ("origin", origin)]),
                403,
                "{origin}"
            );
        }
        let bearer = format!("Bearer {}", world.token);
        assert_eq!(status(&world, "POST", "/", &[HOST, ("authorization", &bearer)]), 200);
        assert_eq!(
            status(
                &world,
                "POST",
                "/",
                &[HOST, ("authorization", &bearer), ("origin", "http://evil.example")]
            ),
            403
        );
    }

    #[test]
    fn wrong_secrets_are_nobodys() {
        let world = world();
        assert_eq!(status(&world, "GET", "/", &[HOST]), 401);
        let twice = format!("{}; {}", world.cookie, world.cookie);
        let name = login_cookie(&world.access);
        let secret = world.cookie.split_once('=').unwrap().1;
        let [empty, wrong] = ["", "x"].map(|value| format!("{name}={value}"));
        // A server with other people, on another port, has cookies of other names.
        let others = format!("windlass-login-00000000={secret}");
        for cookie in [twice.as_str(), &empty, &wrong, &others, "other=1"] {
            assert_eq!(status(&world, "GET", "/", &[HOST, ("cookie", cookie)]), 401, "{cookie}");
        }
        let both = format!("windlass-login-00000000=x; {}", world.cookie);
        assert_eq!(status(&world, "GET", "/", &[HOST, ("cookie", &both)]), 200);
        let bearer = format!("Bearer {}", world.token);
        for shown in [world.token.as_str(), "Bearer ", "Bearer x", "Basic x"] {
            // A wrong token is not made good by a cookie.
            let cookie = ("cookie", world.cookie.as_str());
            assert_eq!(
                status(&world, "GET", "/", &[HOST, ("authorization", shown), cookie]),
                401,
                "{shown}"
            );
        }
        let auth = ("authorization", bearer.as_str());
        assert_eq!(status(&world, "GET", "/", &[HOST, auth, auth]), 401);
    }
}
