//! Clients over streamable HTTP.

mod body;
mod exchange;
mod guard;
mod sessions;

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use body::{Answer, ReadError};
use exchange::Reply;
use guard::Guard;
pub use guard::Token;
use sessions::Sessions;

use crate::server::{Core, Server};

/// The path of the server.
const PATH: &str = "/mcp";
/// How long a client has to send the head of a request, and the body.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long clients have to read the last answers when the server ends.
const FLUSH: Duration = Duration::from_secs(2);
/// How long to wait after an error of `accept`, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Which addresses a server may listen at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Only those of this machine.
    Loopback,
    /// Any. The connection is not encrypted: something in front of it must do that.
    Network,
}

/// How an HTTP server is reached, and by whom.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// The token that every request must show.
    pub token: Token,
    /// Which addresses are allowed.
    pub reach: Reach,
    /// Further values of `Host` that are accepted.
    pub hosts: Vec<String>,
    /// Values of `Origin` that are accepted. A request of any other web page is refused.
    pub origins: Vec<String>,
}

impl HttpOptions {
    /// For programs on this machine that know the token.
    #[must_use]
    pub fn local(token: Token) -> Self {
        Self { token, reach: Reach::Loopback, hosts: Vec::new(), origins: Vec::new() }
    }
}

/// Why an HTTP server could not be started.
#[derive(Debug, Error)]
pub enum StartError {
    /// The listener has an address outside of this machine.
    #[error("`{0}` can be reached from other machines")]
    NotLoopback(SocketAddr),
    /// The system refused a thread or the use of the socket.
    #[error("cannot start the MCP server")]
    System(#[source] std::io::Error),
    /// The system has no random numbers.
    #[error("cannot make the id of a session")]
    Random(#[source] getrandom::Error),
}

/// A server over HTTP. Dropping it refuses further calls, waits for those in progress, and closes all
/// connections.
#[derive(Debug)]
#[must_use = "a server stops when its handle is dropped"]
pub struct HttpServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Starts to serve `listener`.
    ///
    /// # Errors
    /// [`StartError`] if it cannot start; then nothing is served.
    pub fn start(
        listener: TcpListener,
        server: &Server,
        options: HttpOptions,
    ) -> Result<Self, StartError> {
        let address = listener.local_addr().map_err(StartError::System)?;
        let HttpOptions { token, reach, hosts, origins } = options;
        if reach == Reach::Loopback && !address.ip().is_loopback() {
            return Err(StartError::NotLoopback(address));
        }
        let core = Arc::clone(&server.core);
        let sessions = Sessions::new(&core).map_err(StartError::Random)?;
        let guard = Guard::new(token, address, &hosts, &origins);
        let shared = Arc::new(Shared { core, sessions, guard });
        listener.set_nonblocking(true).map_err(StartError::System)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(StartError::System)?;
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(StartError::System)?
        };
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("windlass-mcp-http".to_owned())
            .spawn(move || {
                runtime.block_on(accept(shared, listener, stopped));
                // A request that is being read cannot be interrupted; nobody waits for it.
                runtime.shutdown_background();
            })
            .map_err(StartError::System)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where clients reach it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the server has closed its connections too.
            let _ = thread.join();
        }
    }
}

struct Shared {
    core: Arc<Core>,
    sessions: Sessions,
    guard: Guard,
}

async fn accept(
    shared: Arc<Shared>,
    listener: tokio::net::TcpListener,
    mut stopped: oneshot::Receiver<()>,
) {
    let (closing, _) = watch::channel(false);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if connections.len() < shared.core.limits.connections_max => {
                    connections.spawn(serve(Arc::clone(&shared), stream, closing.subscribe()));
                }
                Ok((stream, _)) => drop(stream),
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }
    drop(listener);
    // Connections stay open meanwhile, so that the last answers arrive.
    let _ = tokio::task::spawn_blocking(move || shared.sessions.close()).await;
    let _ = closing.send(true);
    let _ = timeout(FLUSH, async { while connections.join_next().await.is_some() {} }).await;
    connections.shutdown().await;
}

async fn serve(shared: Arc<Shared>, stream: TcpStream, mut closing: watch::Receiver<bool>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| respond(Arc::clone(&shared), request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // A client that has said all it has to say still reads.
        .half_close(true)
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = closing.wait_for(|closing| *closing) => connection.as_mut().graceful_shutdown(),
    }
    // What a client does wrong at the end is its own business.
    let _ = connection.await;
}

async fn respond(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Answer>, Infallible> {
    let reply = reply(shared, request).await.unwrap_or_else(Reply::Status);
    Ok(response(reply))
}

async fn reply(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Reply, StatusCode> {
    let (parts, body) = request.into_parts();
    shared.guard.check(&parts)?;
    if parts.uri.path() != PATH {
        return Err(StatusCode::NOT_FOUND);
    }
    match parts.method {
        Method::POST => {
            exchange::check_types(&parts.headers)?;
            let read = body::read(body, shared.core.limits.message_bytes_max);
            let bytes = match timeout(BODY_TIMEOUT, read).await {
                Ok(Ok(bytes)) => bytes,
                Ok(Err(ReadError::TooLong)) => return Err(StatusCode::PAYLOAD_TOO_LARGE),
                Ok(Err(ReadError::Broken)) => return Err(StatusCode::BAD_REQUEST),
                Err(_) => return Err(StatusCode::REQUEST_TIMEOUT),
            };
            // The host may take its time over the list of its tools.
            tokio::task::spawn_blocking(move || {
                exchange::post(&shared.core, &shared.sessions, &parts, &bytes)
            })
            .await
            .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
        }
        Method::GET => Ok(exchange::get(&shared.core, &shared.sessions, &parts)),
        Method::DELETE => Ok(exchange::delete(&shared.core, &shared.sessions, &parts)),
        _ => Err(StatusCode::METHOD_NOT_ALLOWED),
    }
}

fn response(reply: Reply) -> Response<Answer> {
    let json = HeaderValue::from_static("application/json");
    let events = HeaderValue::from_static("text/event-stream");
    let mut response = match reply {
        Reply::Status(status) => {
            let mut response = Response::new(Answer::whole(Vec::new()));
            *response.status_mut() = status;
            if status == StatusCode::UNAUTHORIZED {
                let scheme = HeaderValue::from_static("Bearer");
                response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
            } else if status == StatusCode::METHOD_NOT_ALLOWED {
                let methods = HeaderValue::from_static("DELETE, GET, POST");
                response.headers_mut().insert(ALLOW, methods);
            }
            response
        }
        Reply::Message { status, message, session } => {
            let mut response = Response::new(Answer::whole(message));
            *response.status_mut() = status;
            response.headers_mut().insert(CONTENT_TYPE, json);
            if let Some(Ok(session)) = session.map(HeaderValue::try_from) {
                response.headers_mut().insert("mcp-session-id", session);
            }
            response
        }
        Reply::Events { first, messages, session } => {
            let mut response = Response::new(Answer::events(first, messages, session));
            response.headers_mut().insert(CONTENT_TYPE, events);
            response
        }
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
