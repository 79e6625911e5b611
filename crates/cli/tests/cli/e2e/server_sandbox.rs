//! MCP servers in the sandbox.

use std::net::TcpListener;

use serde_json::Value;

use crate::harness::{Outcome, Place};

/// An MCP server whose one tool runs `lab.sh` and returns what that printed.
pub const SERVER: &str = r#"
while read -r line; do
    id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case $line in
    *'"initialize"'*)
        result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"tools/list"'*)
        result='{"tools":[{"name":"do","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/call"'*)
        text=$(bash lab.sh 2>&1 | tr '\n"\\' '   ')
        case $text in *'no answer'*) exit 7 ;; esac
        result='{"content":[{"type":"text","text":"'$text'"}],"isError":false}' ;;
    *) continue ;;
    esac
    [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

const POLICY: &str = r#"
[[rule]]
id = "lab"
verdict = "allow"
reason = "a test runs what it wrote itself"
tool = "lab/do"
matches = [{ tool = "lab/do" }]
"#;

/// A project with the server, which has these settings and whose tool is of this class.
struct Lab {
    place: Place,
}

impl Lab {
    fn new(class: &str, settings: &str) -> Self {
        let place = Place::with_project();
        place.write("server.sh", SERVER);
        place.write(".windlass/policy/lab.toml", POLICY);
        let tools = format!(
            "[server.lab]\nconnector = \"mcp-stdio\"\ncommand = [\"bash\", \"server.sh\"]\n{settings}\n\
             [server.lab.tool.do]\nclass = \"{class}\"\n"
        );
        place.append(".windlass/tools.toml", &tools);
        Self { place }
    }

    fn call(&self, script: &str) -> Outcome {
        self.place.write("lab.sh", script);
        self.place.run(&["call", "run", "lab/do", "--new-key", "--json"])
    }

    /// What a script printed.
    #[track_caller]
    fn prints(&self, script: &str) -> String {
        let report = self.call(script).exit(0).json();
        text(&report)
    }
}

#[track_caller]
fn text(report: &Value) -> String {
    report["result"]["content"][0]["text"].as_str().unwrap().trim().to_owned()
}

#[test]
fn a_server_changes_its_project_and_nothing_else() {
    let lab = Lab::new("write", "");
    std::fs::write(lab.place.home().join("precious"), "gold").unwrap();
    assert_eq!(lab.prints("echo one > kept; cat kept"), "one");
    assert_eq!(lab.place.read("kept"), "one\n");
    let home = lab.place.home().join("precious");
    let said = lab.prints(&format!("cat {}; cat ../home/precious", home.display()));
    assert_eq!(said.matches("No such file").count(), 2, "{said}");
    lab.prints("echo x > ../new; echo x > ../home/new");
    assert!(!lab.place.base().join("new").exists() && !lab.place.home().join("new").exists());
    let said = lab.prints("echo x > .windlass/tools.toml");
    assert!(said.contains("Read-only"), "{said}");
}

#[test]
fn doctor_reaches_a_server_in_its_cell() {
    let lab = Lab::new("write", "");
    lab.place.run(&["doctor", "--servers"]).says("s 1, protocol 2025-06-18, 1 tools");
}

#[test]
fn a_server_whose_tools_only_read_cannot_write() {
    let lab = Lab::new("read", "");
    let said = lab.prints("touch new");
    assert!(said.contains("Read-only"), "{said}");
}

#[test]
fn git_is_read_only_for_a_server_and_cannot_appear() {
    let lab = Lab::new("write", "");
    let report = lab.call("git init -q . ; echo made").exit(1).json();
    assert_eq!(report["error"]["code"], "PROTECTED_PATH_CHANGED", "{report}");
    assert!(!lab.place.work().join(".git").exists());
    let init = |words: &[&str]| {
        let mut git = std::process::Command::new("git");
        assert!(git.args(words).current_dir(lab.place.work()).status().unwrap().success());
    };
    init(&["init", "-q", "."]);
    let said = lab.prints("git config x.y z; git add lab.sh; git status --short | head -1");
    assert!(said.contains("Read-only") && said.contains("?? "), "{said}");
}

#[test]
fn nothing_of_a_server_outlives_it() {
    let lab = Lab::new("write", "");
    lab.prints(
        "setsid bash -c 'while :; do date >> ticks; sleep 0.05; done' > /dev/null 2>&1 & sleep 0.3",
    );
    let size = || std::fs::metadata(lab.place.work().join("ticks")).unwrap().len();
    let before = size();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(size(), before);
}

#[test]
fn a_server_reaches_listed_hosts_and_each_request_is_recorded() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    let lab = Lab::new("write", &format!("network = [\"localhost:{port}\"]"));
    lab.place.settings(&format!("[network]\nprivate = [\"localhost:{port}\"]\n"));
    let server = std::thread::spawn(move || {
        let (mut stream, _) = tcp.accept().unwrap();
        let mut head = [0; 1000];
        let _ = std::io::Read::read(&mut stream, &mut head).unwrap();
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        std::io::Write::write_all(&mut stream, answer).unwrap();
    });
    let ask = |host: &str| {
        format!(
            "exec 3<>/dev/tcp/127.0.0.1/${{http_proxy##*:}}; \
             printf 'GET http://{host}/ HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\n\\r\\n' >&3; \
             cat <&3 | tr -d '\\r'"
        )
    };
    let report = lab.call(&ask(&format!("localhost:{port}"))).exit(0).json();
    assert!(text(&report).ends_with("hello"), "{report}");
    server.join().unwrap();
    let report = lab.call(&ask("other.example")).exit(0).json();
    assert_eq!(
        report["result"]["network"]["events"][0]["refused"], "GET other.example",
        "{report}"
    );
    // A server that gives no answer leaves a call of which nobody knows whether it ran.
    let report = lab.call(&format!("{}; echo no answer", ask("third.example"))).exit(4).json();
    let reason = report["hold"]["reason"].as_str().unwrap();
    assert!(reason.contains("[TOOL_SERVER_UNAVAILABLE]"), "{report}");
    assert!(reason.contains("network: refused GET third.example"), "{report}");
    let direct = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected");
    assert!(!lab.prints(&direct).contains("connected"));
}

#[test]
fn a_server_that_is_let_out_is_shown_as_such() {
    let lab = Lab::new("write", "sandbox = false");
    lab.prints("echo x > ../new");
    assert!(lab.place.base().join("new").exists());
    let shown = lab.place.run(&["trust", "--json"]).json();
    assert!(shown.to_string().contains("unconfined"), "{shown}");
}

#[test]
fn a_server_that_cannot_be_confined_does_not_start() {
    let lab = Lab::new("write", "");
    lab.place.settings("[sandbox]\nwritable = [\"~/missing\"]\n");
    let report = lab.call("touch began").exit(1).json();
    assert_eq!(report["error"]["code"], "SANDBOX_UNAVAILABLE", "{report}");
    assert_eq!(report["error"]["may_have_run"], false, "{report}");
    assert!(!lab.place.work().join("began").exists());
}

#[test]
fn a_server_beyond_its_limits_is_ended_with_a_code() {
    let lab = Lab::new("write", "");
    lab.place.settings("[sandbox.limits]\nprocesses = 40\n");
    let report = lab.call("for n in $(seq 100); do sleep 20 & done; wait").exit(4).json();
    let reason = report["hold"]["reason"].as_str().unwrap();
    assert!(reason.contains("[LIMIT_PROCESSES]"), "{report}");
}

#[test]
fn a_signal_ends_a_call_to_a_server_and_the_server() {
    let lab = Lab::new("write", "");
    lab.place.write(
        "lab.sh",
        "(while :; do echo x >> ticks; sleep 0.05; done) > /dev/null 2>&1 & sleep 0.2; touch begun; wait",
    );
    let words = ["call", "run", "lab/do", "--new-key", "--json"];
    let child = lab.place.command(&words).spawn().unwrap();
    windlass_testkit::eventually("it has begun", || lab.place.work().join("begun").exists());
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let ended = Outcome::of("windlass".to_owned(), child.wait_with_output().unwrap()).exit(130);
    assert_eq!(ended.error()["code"], "INTERRUPTED", "{ended}");
    let size = || std::fs::metadata(lab.place.work().join("ticks")).unwrap().len();
    let before = size();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(size(), before);
}
