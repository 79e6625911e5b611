//! Posts one JSON document to one address: no redirects, no second try, bounded in time and size.

use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Url, redirect, retry};
use thiserror::Error;

use crate::mcp::{explain, is_loopback};

/// How much of a response is read.
const RESPONSE_BYTES_MAX: usize = 64 << 10;

/// A document to post.
#[derive(Clone, Debug)]
pub struct Post<'a> {
    /// The address.
    pub url: &'a str,
    /// Additional headers; their values are treated as secrets.
    pub headers: &'a [(String, String)],
    /// The document.
    pub body: Vec<u8>,
    /// The limit for the whole exchange.
    pub timeout: Duration,
}

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostAnswer {
    /// The status.
    pub status: u16,
    /// When the server wants to be asked again, if it says so in seconds.
    pub retry_after: Option<Duration>,
    /// The body of a success, cut at 64 KiB; that of a refusal is not read.
    pub body: Vec<u8>,
}

impl PostAnswer {
    /// Whether the server accepted the document.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        matches!(self.status, 200..=299)
    }
}

/// Why a document was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PostError {
    /// It cannot be sent.
    #[error("it cannot be sent: {reason}")]
    Invalid {
        /// Why.
        reason: String,
    },
    /// No response arrived.
    #[error("the address cannot be reached: {reason}")]
    Unreachable {
        /// Why.
        reason: String,
    },
    /// The server refused it.
    #[error("the answer is HTTP {status}")]
    Refused {
        /// The status.
        status: u16,
    },
}

/// Posts a document and returns the response's body, cut at 64 KiB.
///
/// # Errors
/// [`PostError`] when it was not accepted; after a time-out it may have arrived nevertheless.
pub fn post_json(post: Post<'_>) -> Result<Vec<u8>, PostError> {
    let answer = exchange(post)?;
    match answer.is_success() {
        true => Ok(answer.body),
        false => Err(PostError::Refused { status: answer.status }),
    }
}

/// Posts a document and returns what the server answered, be it a refusal.
///
/// # Errors
/// [`PostError`] when no answer came; after a time-out the document may have arrived nevertheless.
pub fn exchange(post: Post<'_>) -> Result<PostAnswer, PostError> {
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
            let status = response.status().as_u16();
            let retry_after = response.headers().get(RETRY_AFTER);
            let retry_after = retry_after
                .and_then(|value| value.to_str().ok()?.trim().parse().ok())
                .map(Duration::from_secs);
            let mut answer = PostAnswer { status, retry_after, body: Vec::new() };
            if !answer.is_success() {
                return Ok(answer);
            }
            let body = &mut answer.body;
            while let Ok(Some(chunk)) = response.chunk().await {
                let room = RESPONSE_BYTES_MAX - body.len();
                body.extend(chunk.iter().take(room));
                if body.len() == RESPONSE_BYTES_MAX {
                    break;
                }
            }
            Ok(answer)
        };
        tokio::time::timeout(post.timeout, sending).await.unwrap_or_else(|_| {
            Err(unreachable(format!("no answer within {} ms", post.timeout.as_millis())))
        })
    });
    // Does not wait for a name that is still being resolved.
    runtime.shutdown_background();
    sent
}

pub(crate) fn client(url: &Url, headers: &[(String, String)]) -> Result<Client, PostError> {
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
    // Fails when another part of the program has installed it already, which is as good.
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

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use super::*;

    /// Answers one request with these bytes; returns the request.
    fn server(answer: Vec<u8>) -> (String, JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut asked, mut part) = (Vec::new(), [0; 4096]);
            while !asked.ends_with(b"{\"a\":1}") {
                let count = stream.read(&mut part).unwrap();
                assert!(count > 0);
                asked.extend_from_slice(&part[..count]);
            }
            // The client may close the connection when it has read enough.
            drop(stream.write_all(&answer));
            asked
        });
        (url, served)
    }

    fn post(
        url: &str,
        headers: &[(String, String)],
        timeout_ms: u64,
    ) -> Result<Vec<u8>, PostError> {
        let (body, timeout) = (br#"{"a":1}"#.to_vec(), Duration::from_millis(timeout_ms));
        post_json(Post { url, headers, body, timeout })
    }

    #[test]
    fn a_document_arrives_with_its_headers() {
        let (url, served) = server(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_vec());
        let headers = [("x-key".to_owned(), "k 1".to_owned())];
        assert_eq!(post(&url, &headers, 10_000).unwrap(), b"{}");
        let asked = String::from_utf8(served.join().unwrap()).unwrap();
        assert!(asked.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{asked}");
        assert!(asked.contains("\r\nx-key: k 1\r\n"), "{asked}");
        assert!(asked.contains("\r\ncontent-type: application/json\r\n"), "{asked}");
    }

    #[test]
    fn a_redirect_is_refused_and_not_followed() {
        let answer = "HTTP/1.1 307 T\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
        let (url, served) = server(answer.as_bytes().to_vec());
        assert_eq!(post(&url, &[], 10_000), Err(PostError::Refused { status: 307 }));
        served.join().unwrap();
    }

    #[test]
    fn an_endless_answer_is_cut() {
        let mut answer = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
        answer.resize(answer.len() + (1 << 20), b'x');
        let (url, served) = server(answer);
        assert_eq!(post(&url, &[], 10_000).unwrap().len(), RESPONSE_BYTES_MAX);
        served.join().unwrap();
    }

    #[test]
    fn a_silent_server_is_given_up_after_the_time_limit() {
        // Nothing accepts: the connection is made, and no response comes.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let error = post(&url, &[], 50).unwrap_err();
        assert!(matches!(error, PostError::Unreachable { .. }), "{error}");
    }

    #[test]
    fn an_error_does_not_show_a_header_value() {
        for url in ["", "127.0.0.1", "file:///etc/hosts", "gopher://localhost"] {
            assert!(matches!(post(url, &[], 50), Err(PostError::Invalid { .. })), "{url}");
        }
        let secret = [("authorization".to_owned(), "Bearer s3cret\n".to_owned())];
        let error = post("http://127.0.0.1:1/", &secret, 50).unwrap_err();
        assert!(
            matches!(error, PostError::Invalid { .. }) && !error.to_string().contains("s3cret")
        );
    }
}
