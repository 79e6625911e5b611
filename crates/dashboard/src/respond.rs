//! Answers, and the headers that all of them have.

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::response::Response;
use serde_json::Value;
use windlass_kernel::Digest;

use crate::access::Visitor;
use crate::pages;
use crate::problem::Problem;

/// What a page may do: nothing but what the server itself sends.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
     manifest-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// An answer of the API.
pub(crate) fn json(value: &Value) -> Response {
    finish(Response::new(Body::from(value.to_string())), "application/json")
}

/// Who may keep an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    /// Everybody, who ask whether it still holds.
    Public,
    /// The browser of whoever asked, which asks whether it still holds.
    Private,
    /// The browser of whoever asked, without a further question: the address is the digest.
    Content,
}

/// A content, which a browser stores and never shows.
pub(crate) fn stored(bytes: Vec<u8>, known: Option<&str>) -> Response {
    let mut response = kept(Bytes::from(bytes), "application/octet-stream", known, Cache::Content);
    let attachment = HeaderValue::from_static("attachment");
    response.headers_mut().insert(header::CONTENT_DISPOSITION, attachment);
    response
}

/// An answer that stays the same, for somebody who may have it already. Whoever has it asks whether it still holds, and
/// may do so only as long as they may see it: a person who has left is not shown what a browser kept.
pub(crate) fn kept(
    bytes: Bytes,
    kind: &'static str,
    known: Option<&str>,
    cache: Cache,
) -> Response {
    let tag = format!("\"{}\"", Digest::of(&bytes));
    let is_known = known.is_some_and(|known| {
        let mut tags = known.split(',').map(str::trim);
        // A weak tag is compared as a strong one here (RFC 9110, 13.1.2).
        tags.any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
    });
    let mut response = Response::new(if is_known { Body::empty() } else { Body::from(bytes) });
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let mut response = finish(response, kind);
    let cache = match cache {
        Cache::Public => "public, no-cache",
        Cache::Private => "private, no-cache",
        Cache::Content => "private, max-age=31536000, immutable",
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}

/// A page.
pub(crate) fn html_response(status: StatusCode, html: String) -> Response {
    let mut response = Response::new(Body::from(html));
    *response.status_mut() = status;
    finish(response, "text/html; charset=utf-8")
}

/// Sends a browser to another page.
pub(crate) fn redirect(path: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    if let Ok(path) = HeaderValue::try_from(path) {
        response.headers_mut().insert(header::LOCATION, path);
    }
    finish(response, "text/plain")
}

/// A problem, as a page or as JSON.
pub(crate) fn refuse(problem: &Problem, is_page: bool, visitor: Option<&Visitor>) -> Response {
    let mut response = if is_page {
        html_response(problem.status, pages::problem(problem, visitor))
    } else {
        let body = Body::from(problem.to_json().to_string());
        let mut response = Response::new(body);
        *response.status_mut() = problem.status;
        finish(response, "application/problem+json")
    };
    if problem.status == StatusCode::UNAUTHORIZED {
        let scheme = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
    }
    response
}

/// Adds what every answer has.
pub(crate) fn finish(mut response: Response, kind: &'static str) -> Response {
    let headers = response.headers_mut();
    let all = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        // Not `no-referrer`: with it a browser does not say which page a form comes from.
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in all {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
