//! What the gateway adds to a call over MCP, and how much later a client starts in its cage.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use windlass_loopback_model::{LoopbackModel, Script};

use crate::calls::{self, Kind};
use crate::{median, raw};

/// How long a client may take until it asks its model.
const START_MAX: Duration = Duration::from_secs(60);

/// A project and a home folder of its own.
pub struct Project {
    binary: PathBuf,
    home: PathBuf,
    /// The folder that is worked in.
    pub work: PathBuf,
}

impl Project {
    /// Makes one in an empty folder.
    pub fn new(folder: &Path) -> Result<Self> {
        let binary = std::env::current_exe()?.with_file_name("windlass");
        ensure!(binary.exists(), "`{}` is not built", binary.display());
        let [home, work] = ["home", "work"].map(|name| folder.join(name));
        for folder in [&home, &work] {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(work.join("small.txt"), "a line\n")?;
        let project = Self { binary, home, work };
        for line in ["git init -q -b main", "windlass init", "git add -A", "git commit -qm first"] {
            let words: Vec<&str> = line.split(' ').collect();
            project.succeeds(&words)?;
        }
        Ok(project)
    }

    /// A program, and nothing of the user's environment.
    pub fn command(&self, words: &[&str]) -> Command {
        let (program, arguments) = words.split_first().unwrap_or((&"true", &[]));
        let program =
            if *program == "windlass" { self.binary.as_os_str() } else { program.as_ref() };
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.work).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", &self.home);
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "bench");
            command.env(format!("GIT_{who}_EMAIL"), "bench@example.com");
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Adds loops, and trusts the project with them.
    pub fn add_loops(&self, loops: &[(&str, &str)]) -> Result<()> {
        for (name, text) in loops {
            std::fs::write(self.work.join(format!(".windlass/loops/{name}.md")), text)?;
        }
        let shown =
            self.command(&["windlass", "trust", "--json"]).stdout(Stdio::piped()).output()?;
        let shown: Value = serde_json::from_slice(&shown.stdout)?;
        let digest = shown.get("digest").and_then(Value::as_str).context("no digest")?;
        self.succeeds(&["windlass", "trust", "--yes", digest])
    }

    fn succeeds(&self, words: &[&str]) -> Result<()> {
        let status = self.command(words).status()?;
        ensure!(status.success(), "`{}`: {status}", words.join(" "));
        Ok(())
    }
}

/// A client of `windlass mcp serve`.
struct Client {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    asked: u64,
}

impl Client {
    fn start(project: &Project) -> Result<Self> {
        let mut command = project.command(&["windlass", "mcp", "serve"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take().context("no input")?;
        let stdout = BufReader::new(child.stdout.take().context("no output")?);
        let mut client = Self { child, stdin, stdout, asked: 0 };
        let info = json!({ "name": "bench", "version": "1" });
        let hello =
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
        client.ask("initialize", &hello)?;
        writeln!(client.stdin, r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#)?;
        Ok(client)
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.asked += 1;
        let id = self.asked;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(self.stdin, "{request}")?;
        loop {
            let mut line = String::new();
            ensure!(self.stdout.read_line(&mut line)? > 0, "the server ended");
            let answer: Value = serde_json::from_str(&line)?;
            if answer.get("id").and_then(Value::as_u64) == Some(id) {
                return Ok(answer);
            }
        }
    }

    /// The median time of a call, in milliseconds.
    fn time(&mut self, calls: usize, tool: &str, args: impl Fn(usize) -> Value) -> Result<f64> {
        let mut times = Vec::with_capacity(calls);
        for number in 0..calls {
            let params = json!({ "name": tool, "arguments": args(number) });
            let started = Instant::now();
            let answer = self.ask("tools/call", &params)?;
            times.push(started.elapsed().as_secs_f64() * 1e3);
            let failed = answer.pointer("/result/isError").and_then(Value::as_bool);
            ensure!(failed == Some(false), "{answer}");
        }
        Ok(median(times.into_iter()))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints the time of calls over MCP beside the commits that they make.
pub fn gateway(folder: &Path, calls: usize) -> Result<()> {
    let folder = folder.join("mcp");
    std::fs::create_dir(&folder)?;
    let project = Project::new(&folder.canonicalize()?)?;
    let mut client = Client::start(&project)?;
    println!("a call over MCP by `windlass mcp serve`, median of {calls}");
    let read = |_| json!({ "path": "small.txt" });
    let write = |number| json!({ "path": format!("made/{number}.txt"), "content": "a line\n" });
    for (name, tool, kind, args) in [
        ("fs/read", "fs_read", Kind::Read, &read as &dyn Fn(usize) -> Value),
        ("fs/write", "fs_write", Kind::Write, &write),
    ] {
        let whole = client.time(calls, tool, args)?;
        let payload = calls::payload(&folder, kind)?;
        let commits = 1e3 / raw::rate(&folder, &payload, 1, 0.5)?.per_second;
        println!(
            "  {name:<9} {whole:6.2} ms; its commits alone {commits:6.2} ms; added {:6.2} ms",
            whole - commits
        );
    }
    drop(client);
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// A client, and how it is started by itself.
struct Start {
    name: &'static str,
    endpoint: &'static str,
    /// What follows the address of the model.
    path: &'static str,
    key: &'static str,
    /// Its words, for an address.
    words: fn(&str) -> Vec<String>,
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

const STARTS: [Start; 3] = [
    Start {
        name: "claude",
        endpoint: "ANTHROPIC_BASE_URL",
        path: "",
        key: "ANTHROPIC_API_KEY",
        words: |_| words(&["claude", "-p", "hello"]),
    },
    Start {
        name: "codex",
        endpoint: "OPENAI_BASE_URL",
        path: "/v1",
        key: "OPENAI_API_KEY",
        words: |url| {
            let provider = format!(
                "model_providers.m={{name=\"m\",base_url=\"{url}\",env_key=\"OPENAI_API_KEY\",wire_api=\"responses\"}}"
            );
            words(&["codex", "exec", "-c", "model_provider=\"m\"", "-c", &provider, "hello"])
        },
    },
    Start {
        name: "gemini",
        endpoint: "GOOGLE_GEMINI_BASE_URL",
        path: "",
        key: "GEMINI_API_KEY",
        words: |_| words(&["gemini", "--skip-trust", "-p", "hello"]),
    },
];

/// Prints how long each client takes from its start to its first request, by itself and in its cage.
pub fn starts(folder: &Path, rounds: usize) -> Result<()> {
    let clients = match std::env::var_os("WINDLASS_TEST_CLIENTS") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from("target/clients"),
    };
    let Ok(programs) = clients.join("node_modules/.bin").canonicalize() else {
        println!(
            "starts of clients: not measured, since `cargo xtask clients` has not installed them"
        );
        return Ok(());
    };
    println!("from the start of a client to its first request, median of {rounds}");
    for start in &STARTS {
        // One that does not start by itself here has nothing to be compared with.
        match measured(folder, start, &programs, rounds) {
            Ok((alone, caged)) => println!(
                "  {:<9} alone {alone:6.0} ms; caged {caged:6.0} ms; {:+.0} ms",
                start.name,
                caged - alone
            ),
            Err(error) => println!("  {:<9} not measured: {error}", start.name),
        }
    }
    Ok(())
}

/// The medians of a client's starts, by itself and in its cage.
fn measured(folder: &Path, start: &Start, programs: &Path, rounds: usize) -> Result<(f64, f64)> {
    let (mut alone, mut caged) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let place = folder.join(format!("{}-{round}", start.name));
        std::fs::create_dir_all(&place)?;
        alone.push(first_request(&place.join("alone"), start, programs, false)?);
        caged.push(first_request(&place.join("caged"), start, programs, true)?);
        std::fs::remove_dir_all(&place)?;
    }
    Ok((median(alone.into_iter()), median(caged.into_iter())))
}

/// The milliseconds from a start to the first request.
fn first_request(folder: &Path, start: &Start, programs: &Path, is_caged: bool) -> Result<f64> {
    let answer = json!({ "calls": [{ "name": "finish", "input": { "summary": "x" } }] });
    let script =
        json!({ "conversations": [], "otherwise": [answer, { "text": "x", "repeat": -1 }] });
    let model = LoopbackModel::start(Script::from_json(&script.to_string())?)?;
    std::fs::create_dir_all(folder)?;
    let project = Project::new(&folder.canonicalize()?)?;
    let url = format!("http://{}{}", model.address(), start.path);
    let line = if is_caged {
        words(&["windlass", "run", "hello", "--agent", start.name])
    } else {
        (start.words)(&url)
    };
    let mut command = project.command(&line.iter().map(String::as_str).collect::<Vec<_>>());
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", programs.display()));
    command.env(start.endpoint, &url).env(start.key, "a-key").process_group(0);
    let started = SystemTime::now();
    let mut child = command.spawn()?;
    let asked = model.wait_for(1, START_MAX);
    let at = SystemTime::now();
    let begun = if is_caged { invocation_started(&project.home)? } else { started };
    let group = format!("-{}", child.id());
    let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
    let _ = child.wait();
    ensure!(asked, "`{}` did not ask its model", line.join(" "));
    Ok(at.duration_since(begun)?.as_secs_f64() * 1e3)
}

/// When the first invocation of a run started, by the first line of its transcript.
fn invocation_started(home: &Path) -> Result<SystemTime> {
    let mut folders = vec![home.join(".local/state/windlass")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().contains("/transcripts/live/") {
                // It is made when the invocation starts.
                return Ok(std::fs::metadata(&path)?.created()?);
            }
        }
    }
    anyhow::bail!("there is no transcript")
}
