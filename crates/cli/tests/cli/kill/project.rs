//! A project in a folder of its own, with the counting server behind its tools.

use crate::states;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// How the server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Stdio,
    Http,
}

/// Everything is allowed, but for one tool a person is asked.
const POLICY: &str = r#"
[[rule]]
id = "all"
verdict = "allow"
reason = "the tools are the test's own"
tool = ["keyed/*", "plain/*"]
matches = [{ tool = "keyed/add" }, { tool = "plain/add_hold" }]

[[rule]]
id = "ask"
verdict = "ask"
reason = "a person decides this one"
tool = "plain/add_ask"
matches = [{ tool = "plain/add_ask" }]
"#;

/// The tools of the server that honours keys.
const KEYED: &str = r#"
honours_keys = true
tool.add.class = "write"
tool.slow = { class = "write", retries_max = 100 }
tool.die.class = "write"
tool.hang.class = "write"
tool.get.class = "read"
"#;

/// The tools of the server that does not: whatever is handed over twice happens twice.
const PLAIN: &str = r#"
tool.add.class = "write"
tool.slow.class = "write"
tool.die.class = "write"
tool.hang.class = "write"
tool.lookup.class = "read"
[server.plain.tool.add_ask]
class = "write"
remote_name = "add"
[server.plain.tool.add_hold]
class = "write"
remote_name = "add"
on_uncertain = "hold"
[server.plain.tool.add_probe]
class = "write"
remote_name = "add"
[server.plain.tool.add_probe.on_uncertain]
action = "probe"
tool = "lookup"
args = { key = "$key" }
found = "/structuredContent/found"
result = "/structuredContent/result"
[server.plain.tool.add_undo]
class = "write"
remote_name = "add"
[server.plain.tool.add_undo.on_uncertain]
action = "compensate"
tool = "remove"
args = { key = "$key" }
[server.plain.tool.remove]
class = "write"
[server.plain.tool.remove.on_uncertain]
action = "probe"
tool = "lookup"
args = { key = "$key" }
found = "/structuredContent/found"
"#;

/// One execution, as the server wrote it down.
#[derive(Clone, Debug)]
pub struct Executed {
    pub tool: String,
    pub key: Option<String>,
    pub args: Value,
}

/// How a process ended and what it printed.
#[derive(Debug)]
pub struct Ended {
    pub exit: Option<i32>,
    pub killed: bool,
    pub out: Value,
    pub err: String,
}

impl Ended {
    pub fn of(output: &Output) -> Self {
        let killed = output.status.signal() == Some(9);
        let text = String::from_utf8_lossy(&output.stdout);
        // What a killed process printed may have been cut off.
        let out = match serde_json::from_str(&text) {
            Ok(value) => value,
            Err(error) if !killed && !text.trim().is_empty() => panic!("{error}: {text}"),
            Err(_) => Value::Null,
        };
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        Self { exit: output.status.code(), killed, out, err }
    }

    pub fn text(&self, pointer: &str) -> &str {
        self.out.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// The code of the error that it printed.
    pub fn error_code(&self) -> String {
        let last = self.err.lines().last().unwrap_or_default();
        let error: Value = serde_json::from_str(last).unwrap_or_default();
        error.pointer("/error/code").and_then(Value::as_str).unwrap_or_default().to_owned()
    }
}

/// A project and the servers that it needs.
pub struct Project {
    folder: TempDir,
    servers: Vec<Child>,
}

impl Project {
    pub fn new(transport: Transport) -> Self {
        let mut project = Self { folder: TempDir::new().unwrap(), servers: Vec::new() };
        std::fs::create_dir(project.root()).unwrap();
        let made = project.run(&["init"]);
        assert_eq!(made.exit, Some(0), "{made:?}");
        let keyed = project.reach(transport, &["--honour-keys"]);
        let plain = project.reach(transport, &[]);
        let tools = format!("[server.keyed]\n{keyed}{KEYED}[server.plain]\n{plain}{PLAIN}");
        project.configure("tools.toml", &tools);
        project.configure("policy/default.toml", POLICY);
        project
    }

    /// The lines of the registry that lead to a server, which is started here if it must be.
    fn reach(&mut self, transport: Transport, options: &[&str]) -> String {
        let binary = windlass_testkit::example_binary("counting_server");
        let log = self.log_path();
        let mut words = vec![binary.to_str().unwrap(), "--log", log.to_str().unwrap()];
        words.extend(options);
        match transport {
            Transport::Stdio => {
                format!("connector = \"mcp-stdio\"\nsandbox = false\ncommand = {words:?}\n")
            }
            Transport::Http => {
                words.push("--http");
                let mut server = Command::new(words[0])
                    .args(&words[1..])
                    .stdin(Stdio::null())
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap();
                let mut url = String::new();
                BufReader::new(server.stdout.take().unwrap()).read_line(&mut url).unwrap();
                self.servers.push(server);
                format!("connector = \"mcp-http\"\nurl = {:?}\n", url.trim())
            }
        }
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// The state folder.
    pub fn state(&self) -> PathBuf {
        let states = self.folder.path().join("home/.local/state/windlass");
        states::state_of(&self.root(), &states).unwrap()
    }

    pub fn configuration(&self) -> PathBuf {
        self.root().join(".windlass")
    }

    /// Writes a file of the configuration, which the user trusts.
    pub fn configure(&self, name: &str, text: &str) {
        std::fs::write(self.configuration().join(name), text).unwrap();
        states::trust(&self.root(), &self.state());
    }

    fn log_path(&self) -> PathBuf {
        self.root().join("executed.jsonl")
    }

    fn command(&self, words: &[&str]) -> Command {
        Self::command_in(&self.root(), words)
    }

    /// The command in any folder, ready to start; the home is beside it.
    pub fn command_in(folder: &Path, words: &[&str]) -> Command {
        let state_root = folder.parent().unwrap().join("home/.local/state/windlass");
        let command = |words: &[&str]| Self::plain_command_in(folder, words);
        windlass_testkit::add_people(words, &state_root, command);
        command(words)
    }

    fn plain_command_in(folder: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(["--json", "-C"]).arg(folder).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env_remove(windlass_store::fault::VARIABLE);
        command.env("HOME", folder.parent().unwrap().join("home"));
        for name in ["WINDLASS_STATE", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
            command.env_remove(name);
        }
        command
    }

    pub fn run(&self, words: &[&str]) -> Ended {
        let ended = Ended::of(&self.command(words).output().unwrap());
        assert!(ended.exit.is_some(), "{words:?}: {ended:?}");
        ended
    }

    /// Runs a command that is to die at `point` when it passes it for the `count`th time.
    pub fn run_to(&self, words: &[&str], point: &str, count: u32) -> Ended {
        let mut command = self.command(words);
        command.env(windlass_store::fault::VARIABLE, format!("{point}:{count}"));
        let output = command.output().unwrap();
        let ended = Ended::of(&output);
        assert!(ended.killed || ended.exit.is_some(), "{words:?}: {:?}", output.status);
        ended
    }

    pub fn start(&self, words: &[&str]) -> Child {
        self.command(words).spawn().unwrap()
    }

    /// Kills the servers that were started here.
    pub fn kill_servers(&mut self) {
        for mut server in self.servers.drain(..) {
            server.kill().unwrap();
            server.wait().unwrap();
        }
    }

    /// Changes the registry: what was left to a person is from now on asked of the server.
    pub fn let_holds_be_probed(&self) {
        let text = std::fs::read_to_string(self.configuration().join("tools.toml")).unwrap();
        let probe = "on_uncertain = { action = \"probe\", tool = \"lookup\", \
            args = { key = \"$key\" }, found = \"/structuredContent/found\" }";
        let changed = text.replacen("on_uncertain = \"hold\"", probe, 1);
        assert_ne!(text, changed);
        self.configure("tools.toml", &changed);
    }

    /// What the servers executed, in order.
    pub fn executed(&self) -> Vec<Executed> {
        let text = std::fs::read_to_string(self.log_path()).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let lines = whole.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines
            .map(|line| Executed {
                tool: line["tool"].as_str().unwrap().to_owned(),
                key: line["key"].as_str().map(str::to_owned),
                args: line["args"].clone(),
            })
            .collect()
    }

    /// How often each key was executed.
    pub fn executions(&self) -> BTreeMap<String, u32> {
        let mut counts = BTreeMap::new();
        for key in self.executed().into_iter().filter_map(|executed| executed.key) {
            *counts.entry(key).or_default() += 1;
        }
        counts
    }

    /// The processes that this project's commands have started and that still run.
    pub fn children(&self) -> Vec<i32> {
        let log = self.log_path();
        let own: Vec<i32> = self.servers.iter().map(|server| pid(server.id())).collect();
        processes_naming(log.to_str().unwrap())
            .into_iter()
            .filter(|pid| !own.contains(pid))
            .collect()
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        self.kill_servers();
    }
}

fn pid(number: u32) -> i32 {
    i32::try_from(number).unwrap()
}

/// The processes with `text` among the words they were started with.
fn processes_naming(text: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(number) = process.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let words = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        if words.split(|byte| *byte == 0).any(|word| word == text.as_bytes()) {
            found.push(number);
        }
    }
    found
}
