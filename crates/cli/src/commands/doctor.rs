//! `windlass doctor`.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use windlass_connect::{Connectors, Limits, SandboxSupport, ServerDescription};
use windlass_kernel::{Code, RiskLevel, State};
use windlass_policy::{Connector, Server};
use windlass_runtime::PolicySupervisor;
use windlass_store::{Store, TraceFilter};

use crate::args::Doctor;
use crate::config::{Protect, Sandbox};
use crate::failure::{Done, Failure};
use crate::output::{Ink, Output, plain};
use crate::project::Project;
use crate::sandbox::find_program;

/// What one look found.
struct Check {
    name: String,
    verdict: Health,
    message: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Health {
    Good,
    Warn,
    Bad,
}

impl Health {
    const fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Warn => "warn",
            Self::Bad => "bad",
        }
    }
}

struct Findings(Vec<Check>);

impl Findings {
    fn add(&mut self, name: impl Into<String>, verdict: Health, message: impl Into<String>) {
        self.0.push(Check { name: name.into(), verdict, message: message.into() });
    }

    fn fail(&mut self, name: &str, failure: &Failure) {
        self.add(name, Health::Bad, failure.summary());
    }
}

/// Looks at everything, and says what is wrong and what to do.
pub fn run(named: Option<&Path>, options: &Doctor, output: &Output) -> Done {
    let mut findings = Findings(Vec::new());
    for (program, need) in
        [("bash", "the shell tools run by it"), ("git", "runs keep their work with it")]
    {
        if find_program(program).is_some() {
            findings.add(program, Health::Good, "found");
        } else {
            findings.add(program, Health::Warn, format!("not found in PATH; {need}"));
        }
    }
    match Project::find(named) {
        Ok(project) => look_at(&project, options, &mut findings),
        Err(failure) => findings.fail("project", &failure),
    }
    print(&findings, output)?;
    let bad = findings.0.iter().any(|check| check.verdict == Health::Bad);
    Ok(u8::from(bad))
}

fn look_at(project: &Project, options: &Doctor, findings: &mut Findings) {
    findings.add("project", Health::Good, project.root.display().to_string());
    let files = match project.files() {
        Ok(files) => files,
        Err(failure) => return findings.fail("files", &failure),
    };
    let config = match Project::config(&files) {
        Ok(config) => {
            findings.add("settings", Health::Good, "config.toml is valid");
            config
        }
        Err(failure) => return findings.fail("settings", &failure),
    };
    look_at_sandbox(&config.sandbox, findings);
    match project.supervisor(&files) {
        Ok(supervisor) => {
            let set = supervisor.set();
            let message = format!(
                "{} rules, {} tools, {} cases hold; hash {}",
                set.rules().len(),
                set.registry().tools().count(),
                set.cases(),
                set.hash()
            );
            findings.add("policy", Health::Good, message);
            look_at_servers(&supervisor, options.servers, findings);
        }
        Err(failure) => findings.fail("policy", &failure),
    }
    match project.store(&config) {
        Ok(store) => look_at_store(&store, findings),
        Err(failure) => findings.fail("journal", &failure),
    }
}

fn look_at_store(store: &dyn Store, findings: &mut Findings) {
    let version = windlass_store_sqlite::FORMAT;
    findings.add("journal", Health::Good, format!("opens, format {version}"));
    let open = match store.list_traces(&TraceFilter::open(10_000)) {
        Ok(open) => open,
        Err(error) => return findings.fail("open calls", &error.into()),
    };
    let mut waiting = 0;
    let mut interrupted = 0;
    for state in &open {
        if !store.is_held(state).unwrap_or(true) {
            match state.head.state {
                Some(State::Executing | State::Authorized) => interrupted += 1,
                _ => waiting += 1,
            }
        }
    }
    let (verdict, message) = match (interrupted, waiting) {
        (0, 0) => (Health::Good, "none".to_owned()),
        (0, waiting) => (
            Health::Warn,
            format!("waiting for a person: {waiting}; `windlass call list --held` shows them"),
        ),
        (interrupted, _) => {
            (Health::Warn, format!("interrupted: {interrupted}; `windlass recover` takes them up"))
        }
    };
    findings.add("open calls", verdict, message);
}

fn look_at_servers(supervisor: &PolicySupervisor, reach: bool, findings: &mut Findings) {
    let connectors = Connectors::new();
    for server in supervisor.set().registry().servers() {
        let name = format!("server {}", server.name);
        let target = match supervisor.target(server) {
            Ok(target) => target,
            Err(refusal) => {
                findings.add(name, Health::Bad, refusal.reason);
                continue;
            }
        };
        if let Connector::McpHttp { url, bearer_env: Some(_) } = &server.connector
            && url.starts_with("http://")
            && !["http://127.", "http://localhost", "http://[::1]"]
                .iter()
                .any(|local| url.starts_with(local))
        {
            findings.add(&name, Health::Warn, "its token travels in the clear; use https");
        }
        if server.connector == Connector::Command {
            findings.add(name, Health::Good, format!("{} commands", server.tools.len()));
        } else if reach {
            let limits = Limits { timeout: Duration::from_secs(20), output_bytes_max: 16 << 20 };
            match connectors.describe(&target, limits) {
                Ok(description) => compare(server, &description, findings),
                Err(error) => {
                    findings.add(name, Health::Bad, format!("{} [{}]", error.message, error.code));
                }
            }
        } else {
            findings.add(name, Health::Good, "not reached; `--servers` does");
        }
    }
}

/// Compares the registry's word on a server's tools with the server's own.
fn compare(server: &Server, description: &ServerDescription, findings: &mut Findings) {
    let name = format!("server {}", server.name);
    let message = format!(
        "{} {}, protocol {}, {} tools",
        description.name,
        description.version,
        description.protocol,
        description.tools.len()
    );
    findings.add(&name, Health::Good, message);
    for tool in server.tools.values() {
        let Some(theirs) = description.tools.iter().find(|theirs| theirs.name == tool.remote_name)
        else {
            let message =
                format!("it has no tool `{}`, which the registry names", tool.remote_name);
            findings.add(&name, Health::Bad, message);
            continue;
        };
        let riskier = theirs.read_only == Some(false) || theirs.destructive == Some(true);
        if tool.class == RiskLevel::Read && riskier {
            let message = format!("`{}` is registered as a read, but it says it writes", tool.name);
            findings.add(&name, Health::Bad, message);
        }
    }
}

fn look_at_sandbox(sandbox: &Sandbox, findings: &mut Findings) {
    let name = "sandbox";
    if !sandbox.enabled {
        let message = "off: commands can change all that you can; `[sandbox]` in config.toml";
        return findings.add(name, Health::Warn, message);
    }
    let support = SandboxSupport::detect();
    if let Some(problem) = support.problem() {
        let message = format!("{problem}; no command is run [{}]", Code::SandboxUnavailable);
        return findings.add(name, Health::Bad, message);
    }
    let network = if sandbox.network { "open" } else { "closed" };
    let mut message = format!("Landlock {} and seccomp, network {network}", support.landlock);
    if let Some(gap) = support.gap() {
        findings.add(name, Health::Warn, gap);
    }
    match (sandbox.bwrap(), sandbox.protect) {
        (Some(bwrap), _) => match try_bwrap(&bwrap) {
            Ok(()) => message.push_str("; bwrap protects .windlass"),
            Err(why) => {
                let message = format!(
                    "bwrap does not work here: {why}; no command is run [{}]; \
                     `sandbox.protect = \"never\"` does without",
                    Code::SandboxUnavailable
                );
                return findings.add(name, Health::Bad, message);
            }
        },
        (None, Protect::Always) => {
            let message =
                format!("bwrap is not installed; no command is run [{}]", Code::SandboxUnavailable);
            return findings.add(name, Health::Bad, message);
        }
        (None, Protect::Auto | Protect::Never) => {
            message.push_str("; .windlass stays writable without bwrap");
        }
    }
    findings.add(name, Health::Good, message);
}

/// Tries whether `bwrap` may do what commands need of it.
fn try_bwrap(bwrap: &Path) -> Result<(), String> {
    let output = std::process::Command::new(bwrap)
        .args(["--dev-bind", "/", "/", "--ro-bind", "/", "/", "--", "true"])
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(text.lines().next().unwrap_or("it gives no reason").to_owned())
}

fn print(findings: &Findings, output: &Output) -> Result<(), Failure> {
    if output.json {
        let checks: Vec<_> = findings
            .0
            .iter()
            .map(|check| {
                json!({ "name": check.name, "verdict": check.verdict.word(), "message": check.message })
            })
            .collect();
        return output.value(&checks);
    }
    let rows: Vec<_> = findings
        .0
        .iter()
        .map(|check| {
            let ink = match check.verdict {
                Health::Good => Ink::Good,
                Health::Warn => Ink::Warn,
                Health::Bad => Ink::Bad,
            };
            vec![
                (check.verdict.word().to_owned(), Some(ink)),
                (check.name.clone(), None),
                (plain(&check.message), None),
            ]
        })
        .collect();
    output.table(&["", "WHAT", "FOUND"], &rows);
    Ok(())
}
