//! Coming in by a link that is valid once, and going out.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::header::{HeaderName, HeaderValue, SET_COOKIE};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use maud::html;
use windlass_kernel::{Code, Timestamp};

use super::layout::{self, Page};
use crate::access::{AccessError, Entered, Scope, Visit, cookie_name, cookies_of, only};
use crate::dashboard::now;
use crate::problem::Problem;
use crate::respond::{html_response, redirect, refuse};
use crate::server::{Shared, too_many};

/// How a browser says that a person follows a link, as against a program that fetches a preview of it.
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
/// How browsers say that they fetch a page ahead, which nobody may ever look at.
const AHEAD: [HeaderName; 4] = [
    HeaderName::from_static("sec-purpose"),
    HeaderName::from_static("purpose"),
    HeaderName::from_static("x-purpose"),
    HeaderName::from_static("x-moz"),
];

/// How a browser says which site led it here.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// How a browser is told to go on by itself.
const REFRESH: HeaderName = HeaderName::from_static("refresh");
/// The query of a page that the browser has come to by itself.
const AGAIN: &str = "again";

/// Exchanges a link for a cookie. A program that only looks at the link does not use it up: without a browser's word that a
/// person follows it, a page with a button is shown.
///
/// Led here by another site, a browser neither sends the cookies that it has nor, behind a redirect, the one that it gets.
/// It is led here once more by this page first.
pub(crate) async fn enter(
    State(shared): State<Arc<Shared>>,
    Path(link): Path<String>,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let sender = parts.extensions.clone();
    let is_ahead = AHEAD.iter().any(|name| parts.headers.contains_key(name));
    let navigates = only(&parts.headers, SEC_FETCH_MODE) == Some("navigate");
    let is_led = matches!(only(&parts.headers, SEC_FETCH_SITE), Some("cross-site" | "same-site"));
    let comes = parts.method == Method::GET && navigates && !is_ahead;
    let follows = parts.method == Method::POST || (comes && !is_led);
    let goes_on = (comes && is_led && parts.uri.query() != Some(AGAIN))
        .then(|| format!("0; url={}?{AGAIN}", parts.uri.path()));
    let worker = Arc::clone(&shared);
    let entered = tokio::task::spawn_blocking(move || {
        let dashboard = &worker.dashboard;
        if let Visit::Refused(status, reason) =
            dashboard.hosts.visit(&dashboard.access, &parts, now())?
        {
            return Err(Problem::new(Code::RequestInvalid, reason).status(status));
        }
        let used = || {
            Problem::new(Code::PersonUnknown, "this link was used already, or has expired")
                .status(StatusCode::FORBIDDEN)
                .hint("`windlass serve link` makes a new one")
        };
        if !follows {
            let usable = dashboard.access.is_usable(&link, now())?;
            return if usable { Ok(None) } else { Err(used()) };
        }
        let cookies = cookies_of(&dashboard.access, &parts.headers);
        let cookies: Vec<&str> = cookies.into_iter().map(|(_, value)| value).collect();
        dashboard.access.enter(&link, &cookies, now())?.map(Some).ok_or_else(used)
    });
    let failed = |_| Err(Problem::new(Code::Internal, "the request failed"));
    match entered.await.unwrap_or_else(failed) {
        Ok(Some(Entered { cookie, scope, until })) => {
            let path = match &scope {
                Scope::All => "/".to_owned(),
                Scope::Hold { project, run, .. } => layout::hold_address(project, run),
            };
            let mut response = redirect(&path);
            let is_tls = shared.dashboard.hosts.is_tls();
            let name = cookie_name(&shared.dashboard.access, &scope);
            set_cookie(&mut response, &name, Some((cookie.text(), until)), is_tls);
            response
        }
        Ok(None) => {
            let body = html! {
                h1 { "Windlass" }
                form.card.stack method="post" {
                    p { "This link can be used once." }
                    div.row { button.primary type="submit" { "Log in" } }
                }
            };
            let page = Page { title: "Log in", at: "", visitor: None, live_after: None, body };
            let mut response = html_response(StatusCode::OK, page.render());
            if let Some(value) = goes_on.and_then(|value| HeaderValue::try_from(value).ok()) {
                response.headers_mut().insert(REFRESH, value);
            }
            response
        }
        // Whoever guesses has to wait.
        Err(_) if !shared.takes_strangers(&sender) => refuse(&too_many(), true, None),
        Err(problem) => refuse(&problem, true, None),
    }
}

/// Ends a login.
pub(crate) async fn leave(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let cookies = cookies_of(&shared.dashboard.access, request.headers());
    let cookies: Vec<(String, String)> =
        cookies.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    if let Err(response) = crate::server::admit(&shared, request, true).await {
        return *response;
    }
    let is_tls = shared.dashboard.hosts.is_tls();
    let left = tokio::task::spawn_blocking(move || {
        cookies.iter().try_for_each(|(_, cookie)| shared.dashboard.access.leave(cookie))?;
        Ok::<_, AccessError>(cookies)
    });
    match left.await {
        Ok(Ok(cookies)) => {
            let body = html! { h1 { "Logged out" } p { code { "windlass serve link" } " makes a link that logs you in again." } };
            let page = Page { title: "Logged out", at: "", visitor: None, live_after: None, body };
            let mut response = html_response(StatusCode::OK, page.render());
            for (name, _) in &cookies {
                set_cookie(&mut response, name, None, is_tls);
            }
            response
        }
        Ok(Err(error)) => refuse(&error.into(), true, None),
        Err(_) => refuse(&Problem::new(Code::Internal, "the request failed"), true, None),
    }
}

/// Sets a cookie that ends at a time, or removes it.
fn set_cookie(response: &mut Response, name: &str, value: Option<(&str, Timestamp)>, is_tls: bool) {
    let (value, seconds) = value.map_or(("", 0), |(value, until)| {
        (value, until.unix_ms().saturating_sub(now().unix_ms()).max(0) / 1000)
    });
    let secure = if is_tls { "; Secure" } else { "" };
    let text =
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}; Max-Age={seconds}");
    if let Ok(value) = HeaderValue::try_from(text) {
        response.headers_mut().append(SET_COOKIE, value);
    }
}
