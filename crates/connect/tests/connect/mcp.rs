//! MCP calls against a real server, over stdio and over HTTP with and without sessions.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_connect::{Certainty, Connect, Connectors, Job, Limits, Reply, Target};
use windlass_kernel::{Code, RiskLevel};
use windlass_testkit::example_binary;

use crate::common::{self, CALL_ID, PATIENT, eventually, failure, is_alive, success};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Stdio,
    Http,
    HttpStateless,
}

/// A server and a client.
struct Bench {
    connectors: Connectors,
    target: Target,
    log: PathBuf,
    over: Over,
    http: Option<Child>,
    _dir: tempfile::TempDir,
}

impl Bench {
    fn new(over: Over, options: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let mut command = vec![example_binary("test_server").display().to_string()];
        command.extend(["--log".to_owned(), log.display().to_string()]);
        command.extend(options.iter().map(|&option| option.to_owned()));
        let server = "test".to_owned();
        let (target, http) = if over == Over::Stdio {
            let (env, cwd) = (BTreeMap::new(), dir.path().to_owned());
            (Target::McpStdio { server, command, env, cwd, confinement: None }, None)
        } else {
            let (child, url) = start_http(over, &command);
            (Target::McpHttp { server, url, bearer: None }, Some(child))
        };
        Self { connectors: Connectors::new(), target, log, over, http, _dir: dir }
    }

    fn call(&self, tool: &str, args: &Value) -> Reply {
        self.connectors.perform(&common::job(&self.target, tool, args))
    }

    /// Every execution of a tool.
    fn executions(&self, tool: &str) -> Vec<Value> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["tool"] == tool).collect()
    }

    fn pid(&self) -> String {
        self.get("pid")
    }

    /// How often the server was connected to.
    fn clients(&self) -> String {
        self.get("clients")
    }

    fn get(&self, name: &str) -> String {
        let result = success(self.call("get", &json!({})));
        result["structuredContent"][name].to_string()
    }
}

impl Bench {
    /// Kills the server and waits until it is gone.
    fn kill(&mut self, pid: &str) {
        assert!(Command::new("kill").args(["-9", pid]).status().unwrap().success());
        if let Some(child) = &mut self.http {
            child.wait().unwrap();
        }
        eventually("it is gone", || !std::path::Path::new("/proc").join(pid).exists());
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Some(child) = &mut self.http {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn start_http(over: Over, command: &[String]) -> (Child, String) {
    let mut child = Command::new(&command[0])
        .args(&command[1..])
        .arg("--http")
        .args((over == Over::HttpStateless).then_some("--stateless"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    (child, url.trim().to_owned())
}

fn short(seconds: u64) -> Limits {
    Limits { timeout: Duration::from_secs(seconds), ..PATIENT }
}

fn succeeds(over: Over) {
    let bench = Bench::new(over, &["--page-size", "3"]);
    let result = success(bench.call("add", &json!({ "text": "hello" })));
    let structured = json!({ "added": true, "count": 1 });
    let content = json!([{ "type": "text", "text": structured.to_string() }]);
    let expected = json!({ "content": content, "structuredContent": structured, "isError": false });
    assert_eq!(result, expected);
}

fn sends_key_and_call_id(over: Over) {
    let bench = Bench::new(over, &["--honour-keys"]);
    let args = json!({ "text": "hello" });
    let job = Job { idempotency_key: Some("key-1"), ..common::job(&bench.target, "add", &args) };
    let first = success(bench.connectors.perform(&job));
    let again = success(bench.connectors.perform(&job));
    assert_eq!(first, again);
    let line = json!({ "tool": "add", "key": "key-1", "call_id": CALL_ID, "args": args });
    assert_eq!(bench.executions("add"), [line]);
    let found = success(bench.call("lookup", &json!({ "key": "key-1" })));
    let expected = json!({ "found": true, "result": { "added": true, "count": 1 } });
    assert_eq!(found["structuredContent"], expected);
}

fn reports_the_tools_failure(over: Over) {
    let bench = Bench::new(over, &[]);
    let reply = bench.call("fail", &json!({}));
    let (message, result) = failure(reply, Code::ToolFailed, Certainty::Ran);
    assert!(message.contains("it did not work"), "{message}");
    assert_eq!(result.unwrap()["isError"], true);
}

fn refuses_an_unknown_tool(over: Over) {
    let bench = Bench::new(over, &["--page-size", "3"]);
    let reply = bench.call("nothing", &json!({}));
    let (message, _) = failure(reply, Code::ToolProtocolError, Certainty::DidNotRun);
    assert!(message.contains("no tool `nothing`"), "{message}");
    let reply = bench.call("add", &json!([1]));
    failure(reply, Code::ToolProtocolError, Certainty::DidNotRun);
    assert_eq!(bench.executions("add"), [] as [Value; 0]);
}

fn times_out(over: Over) {
    let bench = Bench::new(over, &[]);
    let pid = bench.pid();
    let args = json!({});
    let job = Job { limits: short(1), ..common::job(&bench.target, "hang", &args) };
    failure(bench.connectors.perform(&job), Code::ToolTimeout, Certainty::Unknown);
    eventually("it was called once", || bench.executions("hang").len() == 1);
    assert_eq!((bench.pid(), bench.clients()), (pid, "1".to_owned()), "it is still good");
}

fn survives_the_servers_death(over: Over) {
    let bench = Bench::new(over, &[]);
    let reply = bench.call("die", &json!({}));
    let (message, _) = failure(reply, Code::ToolServerUnavailable, Certainty::Unknown);
    if over == Over::Stdio {
        assert!(message.contains("exited with status 1"), "{message}");
        assert!(message.contains("dying as asked"), "{message}");
        bench.pid();
    } else {
        let reply = bench.call("get", &json!({}));
        failure(reply, Code::ToolServerUnavailable, Certainty::DidNotRun);
    }
    assert_eq!(bench.executions("die").len(), 1, "never sent twice");
}

fn survives_garbage(over: Over) {
    let bench = Bench::new(over, &[]);
    let reply = bench.call("garbage", &json!({}));
    let (message, _) = failure(reply, Code::ToolProtocolError, Certainty::Unknown);
    assert!(message.contains("this is not JSON"), "{message}");
    assert_eq!(bench.executions("garbage").len(), 1);
    bench.pid();
}

fn bounds_the_result(over: Over) {
    let bench = Bench::new(over, &[]);
    let fits = success(bench.call("huge", &json!({ "bytes": 1_000_000 })));
    assert_eq!(fits["content"][0]["text"].as_str().unwrap().len(), 1_000_000);
    // Just within the limit of a message, and just beyond it.
    let reply = bench.call("huge", &json!({ "bytes": 1_048_576 }));
    // An answer of this call, so it has run; what is longer ends before anybody can tell.
    failure(reply, Code::ToolOutputTooLarge, Certainty::Ran);
    let reply = bench.call("huge", &json!({ "bytes": 6_000_000 }));
    let Reply::Failure { code, certainty, .. } = reply else { panic!("{reply:?}") };
    assert_eq!(code, Code::ToolOutputTooLarge);
    assert_ne!(certainty, Certainty::DidNotRun);
    bench.pid();
}

fn keeps_numbers(over: Over) {
    let bench = Bench::new(over, &[]);
    let result = success(bench.call("unsafe_number", &json!({})));
    let expected = json!({ "number": 9_007_199_254_740_993_u64 });
    assert_eq!(result["structuredContent"], expected);
}

fn refuses_a_riskier_tool(over: Over) {
    let bench = Bench::new(over, &[]);
    let args = json!({});
    for tool in ["liar", "add"] {
        let job = Job { class: RiskLevel::Read, ..common::job(&bench.target, tool, &args) };
        let reply = bench.connectors.perform(&job);
        failure(reply, Code::ToolClassMismatch, Certainty::DidNotRun);
        assert_eq!(bench.executions(tool), [] as [Value; 0]);
        success(bench.call(tool, &args));
    }
    let job = Job { class: RiskLevel::Read, ..common::job(&bench.target, "get", &args) };
    success(bench.connectors.perform(&job));
}

fn shares_one_connection(over: Over) {
    let bench = Bench::new(over, &[]);
    // No call is answered before all have reached the same process.
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| success(bench.call("meet", &json!({ "calls": 20 }))));
        }
    });
    assert_eq!(bench.executions("meet").len(), 20);
    assert_eq!(bench.clients(), "1");
}

fn ignores_a_flood(over: Over) {
    let bench = Bench::new(over, &[]);
    success(bench.call("flood", &json!({ "messages": 2000 })));
    assert_eq!(bench.executions("flood").len(), 1);
}

fn reconnects_to_a_new_server(over: Over) {
    let mut bench = Bench::new(over, &[]);
    let old = bench.pid();
    bench.kill(&old);
    if over != Over::Stdio {
        // At the same address, without the old sessions.
        let Target::McpHttp { url, .. } = &bench.target else { panic!() };
        let port = url.trim_end_matches("/mcp").rsplit(':').next().unwrap();
        let server = example_binary("test_server").display().to_string();
        let log = bench.log.display().to_string();
        let command = [&server, "--log", &log, "--port", port].map(str::to_owned);
        bench.http = Some(start_http(over, &command).0);
    }
    success(bench.call("add", &json!({})));
    let new = bench.pid();
    assert_ne!(new, old);
    if over != Over::Stdio {
        bench.kill(&new);
        let reply = bench.call("add", &json!({}));
        failure(reply, Code::ToolServerUnavailable, Certainty::DidNotRun);
    }
    assert_eq!(bench.executions("add").len(), 1);
}

fn describes(over: Over) {
    let bench = Bench::new(over, &["--page-size", "5"]);
    let server = bench.connectors.describe(&bench.target, PATIENT).unwrap();
    assert_eq!((server.name.as_str(), server.version.as_str()), ("windlass-test-server", "1.2.3"));
    assert_eq!(server.protocol, "2025-11-25");
    let names: Vec<_> = server.tools.iter().map(|tool| tool.name.as_str()).collect();
    let expected = [
        "add",
        "die",
        "fail",
        "flood",
        "garbage",
        "get",
        "hang",
        "huge",
        "liar",
        "lookup",
        "meet",
        "remove",
        "slow",
        "unsafe_number",
    ];
    assert_eq!(names, expected);
    let hints = |name| {
        let tool = server.tools.iter().find(|tool| tool.name == name).unwrap();
        (tool.read_only, tool.destructive, tool.idempotent)
    };
    assert_eq!(hints("add"), (Some(false), Some(false), Some(false)));
    assert_eq!(hints("get"), (Some(true), None, None));
    assert_eq!(hints("liar"), (None, Some(true), None));
    assert_eq!(hints("meet"), (None, None, None));
}

fn leaves_nothing_behind(over: Over) {
    let bench = Bench::new(over, &[]);
    let pid = bench.pid();
    let Bench { ref target, .. } = bench;
    let other = Connectors::new();
    success(other.perform(&common::job(target, "get", &json!({}))));
    drop(other);
    assert!(is_alive(&pid), "a pool ends only what it started");
    if bench.over == Over::Stdio {
        let pool = Connectors::new();
        let result = success(pool.perform(&common::job(target, "get", &json!({}))));
        let pid = result["structuredContent"]["pid"].to_string();
        drop(pool);
        assert!(!std::path::Path::new("/proc").join(pid).exists(), "ended and reaped");
    }
}

macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        mod stdio { $(#[test] fn $name() { super::$name(super::Over::Stdio); })* }
        mod http { $(#[test] fn $name() { super::$name(super::Over::Http); })* }
        mod http_stateless { $(#[test] fn $name() { super::$name(super::Over::HttpStateless); })* }
    };
}

tests! {
    succeeds,
    sends_key_and_call_id,
    reports_the_tools_failure,
    refuses_an_unknown_tool,
    times_out,
    survives_the_servers_death,
    survives_garbage,
    bounds_the_result,
    keeps_numbers,
    refuses_a_riskier_tool,
    shares_one_connection,
    ignores_a_flood,
    reconnects_to_a_new_server,
    describes,
    leaves_nothing_behind,
}
