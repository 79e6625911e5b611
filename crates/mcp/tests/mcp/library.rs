//! The official client library, over a stream and over HTTP, with and without `initialize`.

use std::net::TcpListener;
use std::os::unix::net::UnixStream;

use rmcp::model::{CallToolRequestParams, ProtocolVersion, SubscriptionFilter};
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientLifecycleMode, ClientServiceExt as _};
use serde_json::json;
use windlass_mcp::{HttpOptions, HttpServer, Limits, Server, Token};

use super::support::{Host, server_with, tool};

pub const TOKEN: &str = "a-token-of-more-than-16-bytes";

fn lifecycles() -> [ClientLifecycleMode; 2] {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    [ClientLifecycleMode::Initialize, ClientLifecycleMode::Discover { preferred_versions }]
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

type Running = RunningService<RoleClient, ()>;

async fn use_tools(client: &Running, server: &Server, host: &Host) {
    let names: Vec<_> =
        client.list_all_tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["read", "write", "more"]);
    let mut calls = Vec::new();
    for number in 0..20 {
        let args = json!({ "number": number }).as_object().unwrap().clone();
        let peer = client.peer().clone();
        calls.push(tokio::spawn(async move {
            let call = CallToolRequestParams::new("read").with_arguments(args);
            peer.call_tool(call).await.unwrap()
        }));
    }
    for (number, call) in calls.into_iter().enumerate() {
        let result = serde_json::to_value(call.await.unwrap()).unwrap();
        assert_eq!(result["content"][0]["text"], json!({ "number": number }).to_string());
    }
    let refused = client.call_tool(CallToolRequestParams::new("none")).await.unwrap_err();
    assert!(refused.to_string().contains("there is no tool `none`"), "{refused}");
    assert_eq!(client.list_all_resources().await.unwrap().len(), 0);
    assert_eq!(client.list_all_prompts().await.unwrap().len(), 0);
    let ordinals = |host: &Host| {
        let mut ordinals = host.finished.lock().unwrap().clone();
        ordinals.sort_unstable();
        ordinals
    };
    assert_eq!(ordinals(host), (1..=20).collect::<Vec<_>>());
    server.tools_changed();
}

/// Changes of the tools arrive by a subscription, in the version that has them.
async fn subscribe(client: &Running, server: &Server) {
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    let mut subscription = client.listen(filter).await.unwrap();
    server.tools_changed();
    assert!(subscription.next().await.unwrap().is_some());
}

fn world() -> (std::sync::Arc<Host>, Server) {
    let host = Host::echo();
    host.tools.lock().unwrap().push(tool("more"));
    let server = server_with(&host, Limits { tools_page: 2, ..Limits::default() });
    (host, server)
}

#[test]
fn over_a_stream() {
    for lifecycle in lifecycles() {
        let stateless = !matches!(lifecycle, ClientLifecycleMode::Initialize);
        let (host, server) = world();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let serving = server.clone();
        let served = std::thread::spawn(move || {
            serving.serve_stream("s", theirs.try_clone().unwrap(), theirs)
        });
        runtime().block_on(async {
            ours.set_nonblocking(true).unwrap();
            let stream = tokio::net::UnixStream::from_std(ours).unwrap();
            let client = ().serve_with_lifecycle(stream.into_split(), lifecycle).await.unwrap();
            use_tools(&client, &server, &host).await;
            if stateless {
                subscribe(&client, &server).await;
            }
            client.cancel().await.unwrap();
        });
        served.join().unwrap().unwrap();
        assert_ne!(host.listed.lock().unwrap().len(), 0);
    }
}

#[test]
fn over_http() {
    // The client of the test needs one even for plain HTTP, if another crate of the workspace has it without.
    let _ = rustls::crypto::ring::default_provider().install_default();
    for lifecycle in lifecycles() {
        let stateless = !matches!(lifecycle, ClientLifecycleMode::Initialize);
        let (host, server) = world();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let options = HttpOptions::local(Token::new(TOKEN.to_owned()).unwrap());
        let http = HttpServer::start(listener, &server, options).unwrap();
        runtime().block_on(async {
            let config =
                StreamableHttpClientTransportConfig::with_uri(http.url()).auth_header(TOKEN);
            let transport = StreamableHttpClientTransport::from_config(config);
            let client = ().serve_with_lifecycle(transport, lifecycle).await.unwrap();
            use_tools(&client, &server, &host).await;
            if stateless {
                subscribe(&client, &server).await;
            }
            client.cancel().await.unwrap();
        });
        drop(http);
        let sessions = host.begun.lock().unwrap();
        assert!(sessions.iter().all(|call| call.session == sessions[0].session));
        assert_eq!(sessions[0].session.len(), 32);
    }
}
