//! Posts one JSON document and hands over the response piece by piece, so that whoever waits for it can give up.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use reqwest::{Client, Url};
use tokio::sync::oneshot;

use crate::mcp::{explain, is_loopback};
use crate::post::{PostError, client};

/// How many pieces wait for the reader.
const PIECES_MAX: usize = 16;

/// A piece of a response.
#[derive(Debug, PartialEq, Eq)]
pub enum ResponsePiece {
    /// Its beginning.
    Head {
        /// The status.
        status: u16,
        /// The headers; a name can occur more than once.
        headers: Vec<(String, Vec<u8>)>,
    },
    /// A part of the body.
    Bytes(Vec<u8>),
    /// The proper end.
    End,
    /// Nothing more comes: why.
    Failed(String),
}

/// A response that arrives. Dropping it closes the connection.
#[derive(Debug)]
pub struct PostedStream {
    pieces: Receiver<ResponsePiece>,
    _stop: oneshot::Sender<()>,
}

impl PostedStream {
    /// The next piece; `None` if there is none within this time.
    pub fn next(&self, timeout: Duration) -> Option<ResponsePiece> {
        match self.pieces.recv_timeout(timeout) {
            Ok(piece) => Some(piece),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                Some(ResponsePiece::Failed("the response has ended".to_owned()))
            }
        }
    }
}

/// Posts a document: no redirects, no second try. The values of the headers are treated as secrets.
///
/// # Errors
/// [`PostError`] if it cannot be sent at all.
pub fn post_stream(
    url: &str,
    headers: &[(String, String)],
    body: Vec<u8>,
) -> Result<PostedStream, PostError> {
    let invalid = |reason: String| PostError::Invalid { reason };
    let url = Url::parse(url).map_err(|error| invalid(format!("bad address: {error}")))?;
    if url.scheme() == "http" && !is_loopback(&url) {
        return Err(invalid("only this machine is reached without encryption".to_owned()));
    }
    let client = client(&url, headers)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| invalid(format!("cannot start a runtime: {error}")))?;
    let (sender, pieces) = sync_channel(PIECES_MAX);
    let (stop, stopped) = oneshot::channel::<()>();
    let thread = std::thread::Builder::new().name("windlass-post".to_owned());
    let spawned = thread.spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = stopped => {}
                () = pass_on(client, url, body, &sender) => {}
            }
        });
        // Does not wait for a name that is still being resolved.
        runtime.shutdown_background();
    });
    spawned.map_err(|error| invalid(format!("cannot start a thread: {error}")))?;
    Ok(PostedStream { pieces, _stop: stop })
}

/// Sends the document, and passes the response on until nobody wants it any more.
async fn pass_on(client: Client, url: Url, body: Vec<u8>, sender: &SyncSender<ResponsePiece>) {
    let mut response = match client.post(url).body(body).send().await {
        Ok(response) => response,
        Err(error) => return drop(sender.send(ResponsePiece::Failed(explain(error)))),
    };
    let header = |(name, value): (&reqwest::header::HeaderName, &reqwest::header::HeaderValue)| {
        (name.as_str().to_owned(), value.as_bytes().to_vec())
    };
    let headers = response.headers().iter().map(header).collect();
    let mut piece = ResponsePiece::Head { status: response.status().as_u16(), headers };
    loop {
        let is_last = matches!(piece, ResponsePiece::End | ResponsePiece::Failed(_));
        if sender.send(piece).is_err() || is_last {
            return;
        }
        piece = match response.chunk().await {
            Ok(Some(chunk)) => ResponsePiece::Bytes(chunk.to_vec()),
            Ok(None) => ResponsePiece::End,
            Err(error) => ResponsePiece::Failed(explain(error)),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    fn asked(listener: &TcpListener) -> TcpStream {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut asked, mut part) = (Vec::new(), [0; 4096]);
        while !asked.ends_with(b"{}") {
            let count = stream.read(&mut part).unwrap();
            asked.extend_from_slice(&part[..count]);
        }
        stream
    }

    fn post(listener: &TcpListener) -> PostedStream {
        let url = format!("http://{}/v1/messages", listener.local_addr().unwrap());
        post_stream(&url, &[("x-key".to_owned(), "k".to_owned())], b"{}".to_vec()).unwrap()
    }

    #[test]
    fn pieces_arrive_while_the_response_goes_on() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let posted = post(&listener);
        let mut stream = asked(&listener);
        stream.write_all(b"HTTP/1.1 529 Busy\r\nretry-after: 7\r\n\r\none").unwrap();
        let Some(ResponsePiece::Head { status: 529, headers }) = posted.next(LONG) else {
            panic!("no head")
        };
        assert!(headers.contains(&("retry-after".to_owned(), b"7".to_vec())));
        assert_eq!(posted.next(LONG), Some(ResponsePiece::Bytes(b"one".to_vec())));
        stream.write_all(b"two").unwrap();
        assert_eq!(posted.next(LONG), Some(ResponsePiece::Bytes(b"two".to_vec())));
        assert_eq!(posted.next(Duration::ZERO), None);
        drop(stream);
        assert_eq!(posted.next(LONG), Some(ResponsePiece::End));
    }

    #[test]
    fn a_response_that_breaks_off_is_no_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let posted = post(&listener);
        let mut stream = asked(&listener);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\none").unwrap();
        drop(stream);
        assert!(matches!(posted.next(LONG), Some(ResponsePiece::Head { .. })));
        assert_eq!(posted.next(LONG), Some(ResponsePiece::Bytes(b"one".to_vec())));
        assert!(matches!(posted.next(LONG), Some(ResponsePiece::Failed(_))));
    }

    #[test]
    fn nothing_leaves_the_machine_in_clear() {
        for url in ["http://a.example/v1", "http://192.0.2.1/", "ftp://127.0.0.1/", "127.0.0.1"] {
            let error = post_stream(url, &[], Vec::new()).unwrap_err();
            assert!(matches!(error, PostError::Invalid { .. }), "{url}");
        }
    }

    #[test]
    fn dropping_it_closes_the_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let posted = post(&listener);
        let mut stream = asked(&listener);
        drop(posted);
        assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0);
    }
}
