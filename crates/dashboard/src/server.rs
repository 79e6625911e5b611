//! Serving requests: connections, checks, limits, answers.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{ConnectInfo, RawPathParams, Request, State};
use axum::http::header::{self, HeaderName};
use axum::http::{Extensions, Method as HttpMethod, StatusCode};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use windlass_kernel::Code;

use crate::access::{Role, Visit, Visitor, only};
use crate::api::{self, Method, Route, Serve};
use crate::dashboard::{Context, Dashboard, LeftOut, LinkUse, authorize, now};
use crate::events::Admission;
use crate::icon;
use crate::pages::{self, PageRoute};
use crate::problem::Problem;
use crate::rate::Rate;
use crate::respond::{Cache, finish, html_response, json, kept, redirect, refuse, stored};
use crate::seats::Seats;
use crate::stall::Stalling;

/// How long a client has for the head and the body of a request, and for a TLS handshake.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
const TLS_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take nothing of an answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long clients have to read the last answers when the server ends.
const FLUSH: Duration = Duration::from_secs(2);
/// How long to wait after an error of `accept`, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The longest head of a request, and what is kept of a body or an answer on its way.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// The longest body of a request.
const BODY_BYTES_MAX: usize = 256 << 10;
/// The most requests that are worked on at once; others wait.
const AT_WORK_MAX: usize = 16;
/// The header by which a listener says which event it has seen last.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// A server. Dropping it closes all connections; commands that it has started go on.
#[must_use = "a server stops when its handle is dropped"]
pub struct Server {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) dashboard: Dashboard,
    /// Requests of those who are not known, by address.
    strangers: Rate<IpAddr>,
    /// Requests of those who are known, by name.
    visitors: Rate<String>,
    at_work: Semaphore,
}

impl Shared {
    /// Takes one request of somebody who is not known; whether the address may send more.
    pub(crate) fn takes_strangers(&self, request: &Extensions) -> bool {
        let peer = request.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
        peer.is_none_or(|peer| self.strangers.take(peer, Instant::now()))
    }
}

/// The answer to who sends too many requests.
pub(crate) fn too_many() -> Problem {
    let problem = Problem::new(Code::RequestInvalid, "too many requests");
    problem.status(StatusCode::TOO_MANY_REQUESTS).hint("try again in a minute")
}

impl Server {
    /// Starts to serve.
    ///
    /// # Errors
    /// The system refuses threads or the use of the socket.
    pub fn start(
        listener: TcpListener,
        dashboard: Dashboard,
        tls: Option<Arc<ServerConfig>>,
    ) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            // Some for the checks of requests, so that long work does not keep them waiting.
            .max_blocking_threads(2 * AT_WORK_MAX)
            .build()?;
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let shared = Arc::new(Shared {
            dashboard,
            strangers: Rate::new(30, 1),
            visitors: Rate::new(400, 100),
            at_work: Semaphore::new(AT_WORK_MAX),
        });
        let router = router(shared);
        let (stop, stopped) = oneshot::channel();
        let name = "windlass-dashboard".to_owned();
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            let tls = tls.map(TlsAcceptor::from);
            runtime.block_on(accept(router, listener, tls, stopped));
            // What is being read is of no use to anybody now.
            runtime.shutdown_background();
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the server has closed its connections too.
            drop(thread.join());
        }
    }
}

async fn accept(
    router: Router,
    listener: tokio::net::TcpListener,
    tls: Option<TlsAcceptor>,
    mut stopped: oneshot::Receiver<()>,
) {
    let (closing, _) = watch::channel(false);
    let (mut connections, seats) = (JoinSet::new(), Seats::default());
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let Some(seat) = seats.take(peer.ip()) else { continue };
                    drop(stream.set_nodelay(true));
                    let (router, tls) = (router.clone(), tls.clone());
                    let closing = closing.subscribe();
                    connections.spawn(async move {
                        let _seat = seat;
                        match tls {
                            None => converse(router, stream, peer, closing).await,
                            Some(tls) => {
                                if let Ok(Ok(stream)) = timeout(TLS_TIMEOUT, tls.accept(stream)).await {
                                    converse(router, stream, peer, closing).await;
                                }
                            }
                        }
                    });
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }
    drop(listener);
    let _ = closing.send(true);
    drop(timeout(FLUSH, async { while connections.join_next().await.is_some() {} }).await);
    connections.shutdown().await;
}

/// Serves one connection.
async fn converse<S>(
    router: Router,
    stream: S,
    peer: SocketAddr,
    mut closing: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = Stalling::new(stream, WRITE_TIMEOUT);
    let service = router.layer(axum::Extension(ConnectInfo(peer)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // A client that has said all it has to say still reads.
        .half_close(true)
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = closing.wait_for(|closing| *closing) => connection.as_mut().graceful_shutdown(),
    }
    // A stream of events does not end by itself.
    drop(timeout(FLUSH, connection).await);
}

/// What serves a request.
#[derive(Clone, Copy)]
enum Target {
    Api(&'static Route),
    Page(&'static PageRoute),
}

impl Target {
    /// Who may use it.
    const fn needs(self) -> (Role, LinkUse) {
        match self {
            Self::Api(route) => (route.role, route.by_link),
            Self::Page(page) => (page.role, page.by_link),
        }
    }
}

fn router(shared: Arc<Shared>) -> Router {
    let mut router = Router::new();
    for route in api::routes() {
        router = add(router, route.method, route.path, Target::Api(route));
    }
    for page in pages::routes() {
        router = add(router, page.method, page.path, Target::Page(page));
    }
    for (path, _, _) in pages::ASSETS {
        router = router.route(path, axum::routing::get(asset));
    }
    for (path, bytes) in &icon::PNGS {
        let icon = move || async move {
            finish(Response::new(Body::from(Bytes::from_static(bytes.as_slice()))), "image/png")
        };
        router = router.route(path, axum::routing::get(icon));
    }
    router
        .route(api::EVENTS, axum::routing::get(events))
        .route(api::DESCRIPTION, axum::routing::get(describe))
        .route("/enter/{link}", axum::routing::get(pages::enter).post(pages::enter))
        .route("/leave", axum::routing::post(pages::leave))
        .fallback(missing)
        .method_not_allowed_fallback(other_method)
        .with_state(shared)
}

fn add(
    router: Router<Arc<Shared>>,
    method: Method,
    path: &'static str,
    target: Target,
) -> Router<Arc<Shared>> {
    let filter = match method {
        Method::Get => MethodFilter::GET,
        Method::Post => MethodFilter::POST,
    };
    let serve = move |State(shared): State<Arc<Shared>>,
                      path: Result<RawPathParams, RawPathParamsRejection>,
                      request: Request| async move {
        // What is not UTF-8 names nothing here.
        let Ok(path) = path else { return missing(State(shared), request).await };
        let path = path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        serve(shared, target, path, request).await
    };
    router.route(path, on(filter, serve))
}

/// Serves one request of the API or of a page.
async fn serve(
    shared: Arc<Shared>,
    target: Target,
    path: BTreeMap<String, String>,
    request: Request,
) -> Response {
    let is_page = matches!(target, Target::Page(_));
    let (visitor, request) = match admit(&shared, request, is_page).await {
        Ok(admitted) => admitted,
        Err(response) => return *response,
    };
    let (role, by_link) = target.needs();
    if let Err(problem) = authorize(&visitor, role, by_link, &path) {
        return refuse(&problem, is_page, is_page.then_some(&visitor));
    }
    let known = only(request.headers(), header::IF_NONE_MATCH).map(str::to_owned);
    let (fields, body) = match read(target, request).await {
        Ok(read) => read,
        Err(problem) => return refuse(&problem, is_page, Some(&visitor)),
    };
    // So many at once; the others wait for their turn.
    let Ok(_turn) = shared.at_work.acquire().await else {
        return refuse(&Problem::new(Code::Internal, "the server ends"), is_page, None);
    };
    let worker = Arc::clone(&shared);
    let worked = tokio::task::spawn_blocking(move || {
        let dashboard = &worker.dashboard;
        let projects = dashboard.projects.list();
        let left_out = LeftOut::default();
        let newest_event = dashboard.hub.newest();
        let context = Context {
            dashboard,
            projects: &projects,
            left_out: &left_out,
            newest_event: &newest_event,
            visitor: &visitor,
            path: &path,
            fields: &fields,
            body: &body,
        };
        match target {
            Target::Api(route) => {
                let known = known.as_deref();
                let served = match route.serve {
                    Serve::Json(serve) if route.is_kept => serve(&context).map(|value| {
                        let bytes = Bytes::from(value.to_string());
                        kept(bytes, "application/json", known, Cache::Private)
                    }),
                    Serve::Json(serve) => serve(&context).map(|value| json(&value)),
                    Serve::Content(serve) => serve(&context).map(|bytes| stored(bytes, known)),
                };
                served.unwrap_or_else(|problem| refuse(&problem, false, None))
            }
            Target::Page(page) => match (page.serve)(&context) {
                Ok(pages::Answer::Page(html)) => html_response(StatusCode::OK, html),
                Ok(pages::Answer::GoTo(path)) => redirect(&path),
                Err(problem) => {
                    html_response(problem.status, pages::refused(&problem, page, &context))
                }
            },
        }
    });
    let failed = |_| refuse(&Problem::new(Code::Internal, "the request failed"), is_page, None);
    worked.await.unwrap_or_else(failed)
}

/// Lets a request in, or says why not.
pub(crate) async fn admit(
    shared: &Arc<Shared>,
    request: Request,
    is_page: bool,
) -> Result<(Visitor, Request), Box<Response>> {
    let (parts, body) = request.into_parts();
    let worker = Arc::clone(shared);
    let checked = tokio::task::spawn_blocking(move || {
        let dashboard = &worker.dashboard;
        let visit = dashboard.hosts.visit(&dashboard.access, &parts, now());
        (visit, parts)
    });
    let refused = |problem: &Problem| Box::new(refuse(problem, is_page, None));
    let internal = |_| refused(&Problem::new(Code::Internal, "the request failed"));
    let (visit, parts) = checked.await.map_err(internal)?;
    match visit {
        Ok(Visit::By(visitor)) => {
            if !shared.visitors.take(visitor.name.clone(), Instant::now()) {
                return Err(refused(&too_many()));
            }
            Ok((visitor, Request::from_parts(parts, body)))
        }
        Ok(Visit::Unknown) => {
            if !shared.takes_strangers(&parts.extensions) {
                return Err(refused(&too_many()));
            }
            let problem = Problem::new(Code::PersonUnknown, "nobody is logged in here")
                .status(StatusCode::UNAUTHORIZED)
                .hint("`windlass serve link` makes a link that logs you in; programs send a token");
            Err(refused(&problem))
        }
        Ok(Visit::Refused(status, reason)) => {
            Err(refused(&Problem::new(Code::RequestInvalid, reason).status(status)))
        }
        Err(error) => Err(refused(&error.into())),
    }
}

/// The fields of the query or the form, and the body of a request.
async fn read(
    target: Target,
    request: Request,
) -> Result<(BTreeMap<String, String>, Value), Problem> {
    let (parts, body) = request.into_parts();
    let invalid =
        |message: &str, status| Problem::new(Code::RequestInvalid, message).status(status);
    if parts.method == HttpMethod::GET {
        let query = parts.uri.query().unwrap_or_default();
        return Ok((pairs(query.as_bytes()), Value::Null));
    }
    let bytes = timeout(BODY_TIMEOUT, to_bytes(body, BODY_BYTES_MAX)).await;
    let bytes = match bytes {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => return Err(invalid("the body is too long", StatusCode::PAYLOAD_TOO_LARGE)),
        Err(_) => return Err(invalid("the body did not arrive", StatusCode::REQUEST_TIMEOUT)),
    };
    let kind = only(&parts.headers, header::CONTENT_TYPE).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match target {
        Target::Page(_) => Ok((pairs(&bytes), Value::Null)),
        Target::Api(route) if route.body.is_none() => Ok((BTreeMap::new(), Value::Null)),
        Target::Api(_) if kind != "application/json" => {
            Err(invalid("the body is not `application/json`", StatusCode::UNSUPPORTED_MEDIA_TYPE))
        }
        Target::Api(_) => {
            let value = serde_json::from_slice(&bytes);
            let value = value.map_err(|error| {
                invalid(&format!("the body is not JSON: {error}"), StatusCode::BAD_REQUEST)
            })?;
            Ok((BTreeMap::new(), value))
        }
    }
}

/// The fields of a query or form, with line ends as elsewhere: browsers send both characters. A field that is repeated has
/// all its values, one a line.
fn pairs(bytes: &[u8]) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::<String, String>::new();
    for (name, value) in form_urlencoded::parse(bytes) {
        let value = value.replace("\r\n", "\n");
        match fields.get_mut(name.as_ref()) {
            Some(all) => {
                all.push('\n');
                all.push_str(&value);
            }
            None => drop(fields.insert(name.into_owned(), value)),
        }
    }
    fields
}

async fn events(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    // A browser that opens a new stream cannot send the header.
    let mut query = pairs(request.uri().query().unwrap_or_default().as_bytes());
    let last = only(request.headers(), LAST_EVENT_ID).map(str::to_owned);
    let last = last.or_else(|| query.remove("after"));
    let (visitor, request) = match admit(&shared, request, false).await {
        Ok(admitted) => admitted,
        Err(response) => return *response,
    };
    // What happens elsewhere is not for somebody who came for one hold.
    if visitor.scope != crate::access::Scope::All {
        let problem = Problem::new(Code::RequestInvalid, "your link is for one decision only");
        return refuse(&problem.status(StatusCode::FORBIDDEN), false, None);
    }
    let (parts, _) = request.into_parts();
    let admission = Admission::of(&shared.dashboard, visitor, parts);
    let Some(stream) = shared.dashboard.hub.listen(last.as_deref(), admission) else {
        let problem = Problem::new(Code::RequestInvalid, "too many listen already");
        return refuse(&problem.status(StatusCode::TOO_MANY_REQUESTS), false, None);
    };
    finish(Response::new(Body::new(stream)), "text/event-stream")
}

async fn describe(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    match admit(&shared, request, false).await {
        Ok(_) => json(&api::description()),
        Err(response) => *response,
    }
}

async fn missing(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let is_page = !request.uri().path().starts_with("/api/");
    match admit(&shared, request, is_page).await {
        Ok((visitor, _)) => {
            refuse(&Problem::not_found("there is no such page"), is_page, Some(&visitor))
        }
        Err(response) => *response,
    }
}

/// A page or route that is there, asked in another way.
async fn other_method(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let is_page = !request.uri().path().starts_with("/api/");
    match admit(&shared, request, is_page).await {
        Ok((visitor, _)) => {
            let problem = Problem::new(Code::RequestInvalid, "this cannot be asked in this way");
            let problem = problem.status(StatusCode::METHOD_NOT_ALLOWED);
            refuse(&problem, is_page, Some(&visitor))
        }
        Err(response) => *response,
    }
}

/// Assets are the same for everybody, and are no secret.
async fn asset(request: Request) -> Result<Response, Infallible> {
    let path = request.uri().path();
    let found = pages::ASSETS.iter().find(|(one, _, _)| *one == path);
    let Some((_, kind, bytes)) = found else {
        return Ok(refuse(&Problem::not_found("there is no such file"), false, None));
    };
    let known = only(request.headers(), header::IF_NONE_MATCH);
    Ok(kept(Bytes::from_static(bytes), kind, known, Cache::Public))
}

#[cfg(test)]
#[path = "server_authority.rs"]
mod authority;
