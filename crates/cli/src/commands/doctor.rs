//! `windlass doctor`.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use windlass_connect::{Connectors, Limits, SandboxSupport, ServerDescription};
use windlass_kernel::{Code, RiskLevel, State};
use windlass_policy::{Connector, Server};
use windlass_runtime::PolicySupervisor;
use windlass_store::{Store, TraceFilter};
use windlass_workspace::find_helper;

use crate::args::Doctor;
use crate::config::{Protect, Sandbox};
use crate::failure::{CommandResult, Failure};
use crate::output::{Output, Style, sanitize};
use crate::project::Project;
use crate::sandbox::find_program;

/// The result of one check.
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
    const fn label(self) -> &'static str {
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

/// Checks the machine and the project, and prints what is wrong and how to fix it.
pub fn run(named: Option<&Path>, options: &Doctor, output: &Output) -> CommandResult {
    let mut findings = Findings(Vec::new());
    if find_program("bash").is_some() {
        findings.add("bash", Health::Good, "found");
    } else {
        findings.add("bash", Health::Warn, "not found in PATH; the shell tools need it");
    }
    match find_helper("git", None) {
        Ok(_) => findings.add("git", Health::Good, "found"),
        Err(why) => findings.add("git", Health::Warn, format!("{why}; runs need it")),
    }
    match Project::find(named) {
        Ok(project) => check_project(&project, options, &mut findings),
        Err(failure) => findings.fail("project", &failure),
    }
    print(&findings, output)?;
    let bad = findings.0.iter().any(|check| check.verdict == Health::Bad);
    Ok(u8::from(bad))
}

fn check_project(project: &Project, options: &Doctor, findings: &mut Findings) {
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
    check_sandbox(&config.sandbox, findings);
    match project.supervisor(&files) {
        Ok(supervisor) => {
            let set = supervisor.set();
            let message = format!(
                "{} rules, {} tools, {} cases pass; hash {}",
                set.rules().len(),
                set.registry().tools().count(),
                set.cases(),
                set.hash()
            );
            findings.add("policy", Health::Good, message);
            check_servers(&supervisor, options.servers, findings);
        }
        Err(failure) => findings.fail("policy", &failure),
    }
    match project.store(&config) {
        Ok(store) => check_store(&store, findings),
        Err(failure) => findings.fail("journal", &failure),
    }
}

fn check_store(store: &dyn Store, findings: &mut Findings) {
    let version = windlass_store_sqlite::FORMAT;
    findings.add("journal", Health::Good, format!("readable, format {version}"));
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
            format!(
                "{waiting} waiting for a person; see `windlass call list --held`, `windlass queue list`"
            ),
        ),
        (interrupted, _) => {
            (Health::Warn, format!("{interrupted} interrupted; run `windlass recover`"))
        }
    };
    findings.add("open calls", verdict, message);
}

fn check_servers(supervisor: &PolicySupervisor, reach: bool, findings: &mut Findings) {
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
            findings.add(&name, Health::Warn, "its token is sent unencrypted; use https");
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
            findings.add(name, Health::Good, "not checked; use `--servers`");
        }
    }
}

/// Compares the registry's tools of a server with the server's own list.
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
                format!("the server has no tool `{}`, which the registry lists", tool.remote_name);
            findings.add(&name, Health::Bad, message);
            continue;
        };
        let riskier = theirs.read_only == Some(false) || theirs.destructive == Some(true);
        if tool.class == RiskLevel::Read && riskier {
            let message = format!(
                "`{}` is registered as a read, but the server says that it writes",
                tool.name
            );
            findings.add(&name, Health::Bad, message);
        }
    }
}

fn check_sandbox(sandbox: &Sandbox, findings: &mut Findings) {
    let name = "sandbox";
    if !sandbox.enabled {
        let message = "off: commands can change everything that you can; enable it in `[sandbox]` of config.toml";
        return findings.add(name, Health::Warn, message);
    }
    let support = SandboxSupport::detect();
    if let Some(problem) = support.problem() {
        let message = format!("{problem}; commands are not run [{}]", Code::SandboxUnavailable);
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
                    "bwrap does not work here: {why}; commands are not run [{}]; \
                     `sandbox.protect = \"never\"` disables it",
                    Code::SandboxUnavailable
                );
                return findings.add(name, Health::Bad, message);
            }
        },
        (None, Protect::Always) => {
            let message = format!(
                "bwrap is not installed; commands are not run [{}]",
                Code::SandboxUnavailable
            );
            return findings.add(name, Health::Bad, message);
        }
        (None, Protect::Auto | Protect::Never) => {
            message.push_str("; .windlass stays writable without bwrap");
        }
    }
    findings.add(name, Health::Good, message);
}

/// Tests whether `bwrap` can create the mounts that commands need.
fn try_bwrap(bwrap: &Path) -> Result<(), String> {
    let output = std::process::Command::new(bwrap)
        .args(["--dev-bind", "/", "/", "--ro-bind", "/", "/", "--", "true"])
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(text.lines().next().unwrap_or("no reason given").to_owned())
}

fn print(findings: &Findings, output: &Output) -> Result<(), Failure> {
    if output.json {
        let checks: Vec<_> = findings
            .0
            .iter()
            .map(|check| {
                json!({ "name": check.name, "verdict": check.verdict.label(), "message": check.message })
            })
            .collect();
        return output.value(&checks);
    }
    let rows: Vec<_> = findings
        .0
        .iter()
        .map(|check| {
            let style = match check.verdict {
                Health::Good => Style::Good,
                Health::Warn => Style::Warn,
                Health::Bad => Style::Bad,
            };
            vec![
                (check.verdict.label().to_owned(), Some(style)),
                (check.name.clone(), None),
                (sanitize(&check.message), None),
            ]
        })
        .collect();
    output.table(&["", "CHECK", "RESULT"], &rows);
    Ok(())
}
