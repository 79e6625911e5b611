//! Faulty MCP servers, as shell scripts.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_connect::{Certainty, Connect, Connectors, Job, Limits, Reply, Target};
use windlass_kernel::Code;

use crate::common::{self, PATIENT, eventually, failure, is_alive, success};

/// Answers the handshake and lists one tool.
const PRELUDE: &str = r#"
    answer() {
        read -r line || exit 0
        id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
        printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"
    }
    hello() {
        answer '"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}'
        read -r line
    }
    tools() { answer '"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}'; }
    done='"result":{"content":[],"isError":false}'
"#;

fn script(script: &str, cwd: &Path) -> Target {
    let script = format!("{PRELUDE}\n{script}");
    Target::McpStdio {
        server: "script".to_owned(),
        command: ["/bin/sh", "-c", &script].map(str::to_owned).to_vec(),
        env: BTreeMap::new(),
        cwd: cwd.to_owned(),
        confinement: None,
    }
}

fn call(target: &Target) -> Reply {
    Connectors::new().perform(&common::job(target, "t", &json!({})))
}

fn call_script(text: &str) -> Reply {
    call(&script(text, Path::new("/")))
}

fn done() -> Value {
    json!({ "content": [], "isError": false })
}

#[test]
fn a_missing_server_did_not_run() {
    let mut target = script("", Path::new("/"));
    let Target::McpStdio { command, .. } = &mut target else { panic!() };
    *command = vec!["/no/such/server".to_owned()];
    let (message, _) = failure(call(&target), Code::ToolServerUnavailable, Certainty::DidNotRun);
    assert!(message.contains("/no/such/server"), "{message}");
}

#[test]
fn a_server_that_will_not_start_says_why() {
    let reply = call_script("echo 'no licence found' >&2; exit 4");
    let (message, _) = failure(reply, Code::ToolServerUnavailable, Certainty::DidNotRun);
    assert!(message.contains("status 4") && message.contains("no licence found"), "{message}");
}

#[test]
fn a_server_that_never_shakes_hands_times_out() {
    let target = script("exec sleep 1000", Path::new("/"));
    let limits = Limits { timeout: Duration::from_secs(1), ..PATIENT };
    let args = json!({});
    let reply = Connectors::new().perform(&Job { limits, ..common::job(&target, "t", &args) });
    failure(reply, Code::ToolTimeout, Certainty::DidNotRun);
}

#[test]
fn nonsense_instead_of_a_handshake_did_not_run() {
    for text in [
        "echo hello; cat",
        r#"answer '"result":{"protocolVersion":"2025-06-18"}'; cat"#,
        r#"answer '"error":{"code":-32600,"message":"no"}'; cat"#,
        r#"read -r line; echo '{"jsonrpc":"1.0","id":0,"result":{}}'; cat"#,
        r#"answer '"result":{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"s","version":"1"}}'; cat"#,
        r#"hello; answer '"result":{"tools":"none"}'; cat"#,
        r#"hello; answer '"error":{"code":-32601,"message":"no tools here"}'; cat"#,
        r#"hello; while :; do answer '"result":{"tools":[],"nextCursor":"more"}'; done"#,
    ] {
        failure(call_script(text), Code::ToolProtocolError, Certainty::DidNotRun);
    }
}

#[test]
fn nonsense_instead_of_a_result_may_have_run() {
    for result in [
        "7",
        "{}",
        r#"{"content":"text"}"#,
        r#"{"content":[],"isError":"no"}"#,
        r#"{"content":[],"content":[]}"#,
        r#"{"resultType":"input_required","inputRequests":{}}"#,
        r#"{"resultType":"input_required","content":[]}"#,
        r#"{"content":[],"structuredContent":123456789012345678901234567890}"#,
    ] {
        let reply = call_script(&format!("hello; tools; answer '\"result\":{result}'; cat"));
        failure(reply, Code::ToolProtocolError, Certainty::Unknown);
    }
}

#[test]
fn an_error_answer_is_the_tools_failure() {
    let reply =
        call_script(r#"hello; tools; answer '"error":{"code":-32000,"message":"full"}'; cat"#);
    let (message, _) = failure(reply, Code::ToolFailed, Certainty::Ran);
    assert!(message.contains("-32000") && message.contains("full"), "{message}");
}

#[test]
fn an_endless_line_is_cut_off() {
    let reply = call_script("hello; tools; read -r line; exec cat /dev/zero");
    failure(reply, Code::ToolOutputTooLarge, Certainty::Unknown);
    let reply = call_script("exec cat /dev/zero");
    failure(reply, Code::ToolOutputTooLarge, Certainty::DidNotRun);
}

#[test]
fn an_answer_counts_even_if_it_was_the_last_word() {
    for last in ["exit 1", "echo garbage", "kill -9 $$"] {
        let reply = call_script(&format!("hello; tools; answer \"$done\"; {last}"));
        assert_eq!(success(reply), done());
    }
}

#[test]
fn late_and_unknown_answers_are_ignored() {
    let stray = r#"{"jsonrpc":"2.0","id":999,"result":{}}"#;
    let reply = call_script(&format!("hello; tools; echo '{stray}'; answer \"$done\"; cat"));
    assert_eq!(success(reply), done());
}

#[test]
fn requests_of_the_server_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"
        hello; tools; read -r call
        for method in sampling/createMessage roots/list elicitation/create ping; do
            echo '{"jsonrpc":"2.0","id":"'$method'","method":"'$method'"}'
        done
        for _ in 1 2 3 4; do read -r line; echo "$line" >> answers; done
        printf '%s\n' "$call" | answer "$done"
        cat > /dev/null"#;
    assert_eq!(success(call(&script(text, dir.path()))), done());
    let answers = std::fs::read_to_string(dir.path().join("answers")).unwrap();
    let answers: Vec<Value> =
        answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (answer, id) in
        answers.iter().zip(["sampling/createMessage", "roots/list", "elicitation/create"])
    {
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32601)));
    }
    assert_eq!(answers[3], json!({ "jsonrpc": "2.0", "id": "ping", "result": {} }));
}

#[test]
fn a_changed_tool_list_is_asked_for_again() {
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let other = r#""result":{"tools":[{"name":"other"}]}"#;
    let text = format!("hello; tools; echo '{changed}'; answer \"$done\"; answer '{other}'; cat");
    let target = script(&text, Path::new("/"));
    let connectors = Connectors::new();
    let args = json!({});
    assert_eq!(success(connectors.perform(&common::job(&target, "t", &args))), done());
    let reply = connectors.perform(&common::job(&target, "t", &args));
    failure(reply, Code::ToolProtocolError, Certainty::DidNotRun);
}

#[test]
fn the_server_is_notified_of_a_time_out() {
    let dir = tempfile::tempdir().unwrap();
    let target =
        script("hello; tools; read -r call; read -r line; echo \"$line\" > told; cat", dir.path());
    let connectors = Connectors::new();
    let args = json!({});
    let limits = Limits { timeout: Duration::from_secs(2), ..PATIENT };
    let reply = connectors.perform(&Job { limits, ..common::job(&target, "t", &args) });
    failure(reply, Code::ToolTimeout, Certainty::Unknown);
    let told = dir.path().join("told");
    let read = || std::fs::read_to_string(&told).unwrap_or_default();
    eventually("the server heard of it", || read().contains("notifications/cancelled"));
}

#[test]
fn a_server_that_hangs_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    // The first server stops reading, the second works.
    let text = "hello; tools
        if mkdir first 2>/dev/null; then echo $$ > pid; exec sleep 1000; fi
        answer \"$done\"; cat";
    let target = script(text, dir.path());
    let connectors = Connectors::new();
    let args = json!({});
    let limits = Limits { timeout: Duration::from_secs(2), ..PATIENT };
    let reply = connectors.perform(&Job { limits, ..common::job(&target, "t", &args) });
    failure(reply, Code::ToolTimeout, Certainty::Unknown);
    assert_eq!(success(connectors.perform(&common::job(&target, "t", &args))), done());
    let pid = std::fs::read_to_string(dir.path().join("pid")).unwrap();
    eventually("the deaf one is dead", || !is_alive(pid.trim()));
}

#[test]
fn a_dead_server_is_noticed_though_its_child_holds_the_stream() {
    let dir = tempfile::tempdir().unwrap();
    let text = "hello; tools; read -r line; sleep 1000 & echo $! > child; exit 5";
    let reply = call(&script(text, dir.path()));
    let (message, _) = failure(reply, Code::ToolServerUnavailable, Certainty::Unknown);
    assert!(message.contains("status 5"), "{message}");
    let child = std::fs::read_to_string(dir.path().join("child")).unwrap();
    eventually("the child is dead", || !is_alive(child.trim()));
}

#[test]
fn a_server_with_new_settings_is_started_anew() {
    let dir = tempfile::tempdir().unwrap();
    let text = "echo $$ >> pids; hello; tools; answer \"$done\"; cat";
    let connectors = Connectors::new();
    let mut target = script(text, dir.path());
    let args = json!({});
    assert_eq!(success(connectors.perform(&common::job(&target, "t", &args))), done());
    let Target::McpStdio { env, .. } = &mut target else { panic!() };
    env.insert("NEW".to_owned(), "1".to_owned());
    assert_eq!(success(connectors.perform(&common::job(&target, "t", &args))), done());
    let pids = std::fs::read_to_string(dir.path().join("pids")).unwrap();
    let pids: Vec<_> = pids.lines().collect();
    assert_eq!(pids.len(), 2);
    eventually("the old one is gone", || !is_alive(pids[0]));
    assert!(is_alive(pids[1]));
}

#[test]
fn the_servers_environment_is_clean() {
    let dir = tempfile::tempdir().unwrap();
    let text = "/usr/bin/env > env; hello; tools; answer \"$done\"; cat";
    assert_eq!(success(call(&script(text, dir.path()))), done());
    let env = std::fs::read_to_string(dir.path().join("env")).unwrap();
    assert!(env.contains("PATH=") && !env.contains("CARGO_PKG_"), "{env}");
}

#[test]
fn a_talkative_error_stream_does_not_block() {
    let noise = "yes noise | head -c 1000000 >&2";
    let reply = call_script(&format!("{noise}; hello; tools; {noise}; answer \"$done\"; cat"));
    assert_eq!(success(reply), done());
}

#[test]
fn it_can_be_used_inside_a_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let reply = runtime.block_on(async { call_script("hello; tools; answer \"$done\"; cat") });
    assert_eq!(success(reply), done());
}
