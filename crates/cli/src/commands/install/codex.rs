//! Trust of Codex in hooks: it skips a hook that it was not told to trust, and says nothing. Which hooks there are, and
//! what their hashes are, is asked of Codex itself.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_hooks::{HookTrust, Trust};
use windlass_kernel::Code;

use crate::agents::ClientProgram;
use crate::failure::Failure;
use crate::user_config::UserConfig;

/// How long Codex may take to tell its hooks.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long it may take to end.
const ENDING: Duration = Duration::from_secs(3);
/// The longest line that it may print.
const LINE_BYTES_MAX: usize = 4 << 20;

/// What Codex knows of hooks.
pub struct Codex {
    program: ClientProgram,
}

/// A hook, as `hooks/list` describes it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedHook {
    key: String,
    current_hash: String,
    #[serde(default)]
    command: Option<String>,
    source_path: String,
    enabled: bool,
    trust_status: String,
}

impl ListedHook {
    fn is_trusted(&self) -> bool {
        self.enabled && matches!(self.trust_status.as_str(), "trusted" | "managed")
    }
}

/// Where hooks are looked for.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The folder in which a session would be.
    pub root: &'a Path,
    /// The project that Codex is to trust while it tells its hooks, if it is one.
    pub project: Option<&'a str>,
    /// The file that has our hooks.
    pub file: &'a Path,
    /// How many of them there are.
    pub count: usize,
}

impl Codex {
    /// Finds the program; `Err` says what is missing.
    pub fn find() -> Result<Result<Self, String>, Failure> {
        let config = UserConfig::load()?.agents.get("codex").cloned().unwrap_or_default();
        Ok(ClientProgram::find(Some("codex"), &config).map(|program| Self { program }))
    }

    /// What must be trusted for our hooks to run.
    pub fn trust(&self, place: Place<'_>) -> Result<Trust, Failure> {
        let hooks = self.ours(place, true)?;
        let hooks =
            hooks.into_iter().map(|hook| HookTrust { key: hook.key, hash: hook.current_hash });
        Ok(Trust { hooks: hooks.collect(), project: place.project.map(str::to_owned) })
    }

    /// Fails unless Codex says that it trusts all our hooks.
    pub fn require_trust(&self, place: Place<'_>) -> Result<(), Failure> {
        let hooks = self.ours(place, false)?;
        match hooks.iter().find(|hook| !hook.is_trusted()) {
            None => Ok(()),
            Some(hook) => {
                let message = format!(
                    "Codex would skip the hook `{}`: it is {}",
                    hook.key,
                    if hook.enabled { &hook.trust_status } else { "switched off" }
                );
                Err(Failure::new(Code::AgentUnguarded, message).hint(
                    "look at `[hooks.state]` of your `config.toml` of Codex; nothing was changed",
                ))
            }
        }
    }

    /// Our hooks, of which Codex must know all.
    fn ours(&self, place: Place<'_>, as_trusted: bool) -> Result<Vec<ListedHook>, Failure> {
        let project = place.project.filter(|_| as_trusted);
        let mut hooks = self.list(place.root, project)?;
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let file = real(place.file);
        hooks.retain(|hook| {
            let ours = |command: &str| command.trim_end().ends_with(" hook --client codex");
            real(Path::new(&hook.source_path)) == file && hook.command.as_deref().is_some_and(ours)
        });
        if hooks.len() == place.count {
            return Ok(hooks);
        }
        let message = format!(
            "Codex knows {} of the {} hooks in `{}`",
            hooks.len(),
            place.count,
            place.file.display()
        );
        Err(Failure::new(Code::AgentUnguarded, message)
            .hint("nothing was changed; a newer version of Codex may be needed"))
    }

    /// All hooks of a session in a folder.
    fn list(&self, root: &Path, project: Option<&str>) -> Result<Vec<ListedHook>, Failure> {
        let mut command = Command::new(&self.program.path);
        command.args(&self.program.arguments).arg("app-server");
        if let Some(project) = project {
            let level = toml::Table::from_iter([("trust_level".to_owned(), "trusted".into())]);
            let projects = toml::Table::from_iter([(project.to_owned(), level.into())]);
            command.arg("-c").arg(format!("projects={}", toml::Value::from(projects)));
        }
        let mut server = Server::start(command.current_dir(root))?;
        let version = env!("CARGO_PKG_VERSION");
        let info = json!({ "name": "windlass", "title": "Windlass", "version": version });
        server.ask(1, "initialize", &json!({ "clientInfo": info }))?;
        server.send(&json!({ "method": "initialized" }))?;
        let answer = server.ask(2, "hooks/list", &json!({ "cwds": [root] }))?;
        let hooks = answer.pointer("/data/0/hooks").cloned().unwrap_or_default();
        serde_json::from_value(hooks)
            .map_err(|error| failed(&format!("its list of hooks is not understood: {error}")))
    }
}

fn failed(why: &str) -> Failure {
    Failure::new(Code::AgentUnavailable, format!("`codex app-server`: {why}"))
        .hint("nothing was changed; see whether `codex` itself starts, then run the command again")
}

/// A running `codex app-server`.
struct Server {
    child: Child,
    lines: Receiver<String>,
    until: Instant,
}

impl Server {
    fn start(command: &mut Command) -> Result<Self, Failure> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| failed(&error.to_string()))?;
        let stdout = child.stdout.take().ok_or_else(|| failed("it has no standard output"))?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if line.len() > LINE_BYTES_MAX || sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, lines, until: Instant::now() + TIMEOUT })
    }

    fn send(&mut self, message: &Value) -> Result<(), Failure> {
        let stdin = self.child.stdin.as_mut().ok_or_else(|| failed("it has no standard input"))?;
        let sent = stdin.write_all(format!("{message}\n").as_bytes());
        sent.and_then(|()| stdin.flush()).map_err(|error| failed(&error.to_string()))
    }

    /// Sends a request and waits for its answer.
    fn ask(&mut self, id: u64, method: &str, params: &Value) -> Result<Value, Failure> {
        self.send(&json!({ "id": id, "method": method, "params": params }))?;
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).map_err(|error| match error {
                RecvTimeoutError::Timeout => {
                    failed(&format!("no answer within {} seconds", TIMEOUT.as_secs()))
                }
                RecvTimeoutError::Disconnected => failed("it ended without an answer"),
            })?;
            let mut message: Value = serde_json::from_str(&line).unwrap_or_default();
            if message.get("id").and_then(Value::as_u64) != Some(id) {
                continue;
            }
            if let Some(error) = message.pointer("/error/message").and_then(Value::as_str) {
                return Err(failed(error));
            }
            return Ok(message.get_mut("result").map(Value::take).unwrap_or_default());
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends when its input does.
        drop(self.child.stdin.take());
        let until = Instant::now() + ENDING;
        while Instant::now() < until {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
