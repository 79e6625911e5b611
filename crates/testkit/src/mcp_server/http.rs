//! The server over streamable HTTP.

use std::io::Write;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::Value;

use super::Options;
use super::tools::TestServer;

const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

#[derive(Clone)]
struct Gate {
    server: TestServer,
    authorization: Option<String>,
}

/// Listens on the loopback and prints the URL.
pub(super) async fn serve(server: TestServer, options: &Options) -> Result<(), String> {
    let fail = |error: std::io::Error| error.to_string();
    let authorization = options.bearer.as_ref().map(|bearer| format!("Bearer {bearer}"));
    let gate = Gate { server: server.clone(), authorization };
    let mut config = StreamableHttpServerConfig::default();
    config.legacy_session_mode = !options.stateless;
    config.json_response = options.stateless;
    let manager = Arc::new(LocalSessionManager::default());
    let mcp = StreamableHttpService::new(move || Ok(server.clone()), manager, config);
    let app =
        axum::Router::new().fallback_service(mcp).layer(middleware::from_fn_with_state(gate, pass));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", options.port)).await;
    let listener = listener.map_err(fail)?;
    let address = listener.local_addr().map_err(fail)?;
    let mut stdout = std::io::stdout();
    stdout.write_all(format!("http://{address}/mcp\n").as_bytes()).map_err(fail)?;
    stdout.flush().map_err(fail)?;
    axum::serve(listener, app).await.map_err(fail)
}

/// Asks for the bearer, and answers with garbage where that is asked for.
async fn pass(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    if !authorized(&gate, request.headers()) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, BODY_BYTES_MAX).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    match garbage(&gate, &body) {
        Some(response) => response,
        None => next.run(Request::from_parts(parts, Body::from(body))).await,
    }
}

fn authorized(gate: &Gate, headers: &HeaderMap) -> bool {
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    gate.authorization.is_none() || given == gate.authorization.as_deref()
}

fn garbage(gate: &Gate, body: &Bytes) -> Option<Response> {
    let message: Value = serde_json::from_slice(body).ok()?;
    let params = message
        .get("params")
        .filter(|params| params.get("name").and_then(Value::as_str) == Some("garbage"))?;
    let part = |name: &str| params.get(name).cloned().unwrap_or_default();
    gate.server.record("garbage", &part("_meta"), part("arguments")).ok()?;
    Some(([(CONTENT_TYPE, "application/json")], "this is not JSON").into_response())
}
