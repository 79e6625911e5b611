//! One JSON document to one address: no redirects, no second try, bounded in time and size.

use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url, redirect, retry};
use thiserror::Error;

use crate::mcp::{explain, is_loopback};

/// The most of an answer that is read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// What is sent.
#[derive(Clone, Debug)]
pub struct Post<'a> {
    /// Where to.
    pub url: &'a str,
    /// Headers beside the usual ones; their values are taken for secrets.
    pub headers: &'a [(String, String)],
    /// The document.
    pub body: Vec<u8>,
    /// How long all of it may take.
    pub timeout: Duration,
}

/// A document that did not arrive.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PostError {
    /// It cannot be sent at all.
    #[error("it cannot be sent: {reason}")]
    Invalid {
        /// Why.
        reason: String,
    },
    /// Nobody took it.
    #[error("the address cannot be reached: {reason}")]
    Unreachable {
        /// Why.
        reason: String,
    },
    /// It was refused.
    #[error("the answer is HTTP {status}")]
    Refused {
        /// The status.
        status: u16,
    },
}

/// Posts a document and returns the answer's body, cut at 64 KiB.
///
/// # Errors
/// [`PostError`] when it did not arrive; it may still have, when the time ran out.
pub fn post_json(post: Post<'_>) -> Result<Vec<u8>, PostError> {
    let invalid = |reason: String| PostError::Invalid { reason };
    let url = Url::parse(post.url).map_err(|error| invalid(format!("bad address: {error}")))?;
    let client = client(&url, post.headers)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| invalid(format!("cannot start a runtime: {error}")))?;
    let sent = runtime.block_on(async {
        let unreachable = |reason: String| PostError::Unreachable { reason };
        let sending = async {
            let mut response = client
                .post(url)
                .body(post.body)
                .send()
                .await
                .map_err(|error| unreachable(explain(error)))?;
            let status = response.status();
            if !status.is_success() {
                return Err(PostError::Refused { status: status.as_u16() });
            }
            let mut body = Vec::new();
            while let Ok(Some(chunk)) = response.chunk().await {
                let room = ANSWER_BYTES_MAX - body.len();
                body.extend(chunk.iter().take(room));
                if body.len() == ANSWER_BYTES_MAX {
                    break;
                }
            }
            Ok(body)
        };
        tokio::time::timeout(post.timeout, sending).await.unwrap_or_else(|_| {
            Err(unreachable(format!("no answer within {} ms", post.timeout.as_millis())))
        })
    });
    // A name that is still being looked up must not be waited for.
    runtime.shutdown_background();
    sent
}

fn client(url: &Url, headers: &[(String, String)]) -> Result<Client, PostError> {
    let invalid = |reason: String| PostError::Invalid { reason };
    let mut all = HeaderMap::new();
    all.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in headers {
        let name: HeaderName =
            name.parse().map_err(|_| invalid("a header's name cannot be sent".to_owned()))?;
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| invalid(format!("the value of header `{name}` cannot be sent")))?;
        value.set_sensitive(true);
        all.insert(name, value);
    }
    // Fails when another part of the program was first, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .default_headers(all)
        .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false);
    match url.scheme() {
        "https" => {}
        // The system's certificates are of no use here, and may be missing.
        "http" => builder = builder.tls_certs_only([]),
        other => return Err(invalid(format!("nothing is sent over `{other}`"))),
    }
    if is_loopback(url) {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| invalid(explain(error)))
}
