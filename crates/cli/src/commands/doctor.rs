//! `windlass doctor`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use windlass_cell::{Level, Maker};
use windlass_connect::{Limits, ServerDescription};
use windlass_kernel::{Code, RiskLevel, State};
use windlass_policy::{Connector, Server};
use windlass_runtime::PolicySupervisor;
use windlass_store::{Store, TraceFilter};
use windlass_workspace::{TemporaryFolder, TemporaryUse, find_helper};

use crate::args::Doctor;
use crate::failure::{CommandResult, Failure};
use crate::installed;
use crate::output::{Output, Style, sanitize};
use crate::part::Part;
use crate::project::Project;
use crate::sandbox::find_program;
use crate::user_config::{self, UserConfig};

/// The result of one check.
struct Check {
    name: String,
    verdict: Health,
    message: String,
    /// What to do about it, in several lines.
    advice: Option<String>,
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
        let (name, message) = (name.into(), message.into());
        self.0.push(Check { name, verdict, message, advice: None });
    }

    /// Adds advice to the last check.
    fn advise(&mut self, advice: String) {
        if let Some(check) = self.0.last_mut() {
            check.advice = Some(advice);
        }
    }

    fn fail(&mut self, name: &str, failure: &Failure) {
        self.add(name, Health::Bad, failure.summary());
    }
}

/// What lets a machine make namespaces.
fn advice() -> String {
    let program = std::env::current_exe().unwrap_or_else(|_| "/path/of/windlass".into());
    format!(
        "\
to let commands run in full cells:
- where AppArmor forbids namespaces, allow them for windlass in /etc/apparmor.d/windlass, then run
  `apparmor_parser -r /etc/apparmor.d/windlass`:
    abi <abi/4.0>,
    profile windlass {} flags=(unconfined) {{ userns, }}
- in a container, start it with --security-opt seccomp=unconfined --security-opt systempaths=unconfined
- where only `bwrap` may make namespaces, install bubblewrap (in a folder of the system, or `helpers.bwrap` of
  your settings): commands then run, but cannot change `.git` or caches
- a kernel older than 5.13, or one without overlayfs for users (before 5.11), cannot do it
- weaker, by your own choice: `sandbox.level = \"landlock\"` in your settings",
        program.display()
    )
}

/// Checks the machine and the project, and prints what is wrong and how to fix it.
pub fn run(named: Option<&Path>, options: &Doctor, output: &Output) -> CommandResult {
    if let Some(clients) = &options.agents {
        let clients: Vec<_> = clients.iter().map(|client| client.client()).collect();
        return crate::guard_check::run(&clients, &options.cases, output);
    }
    let mut findings = Findings(Vec::new());
    if find_program("bash").is_some() {
        findings.add("bash", Health::Good, "found");
    } else {
        findings.add("bash", Health::Warn, "not found in PATH; the shell tools need it");
    }
    let user = UserConfig::load();
    let program = |user: &UserConfig| user.helpers.git.clone();
    match find_helper("git", user.as_ref().ok().and_then(program).as_deref()) {
        Ok(_) => findings.add("git", Health::Good, "found"),
        Err(why) => findings.add("git", Health::Warn, format!("{why}; runs need it")),
    }
    match user {
        Ok(user) => {
            let path = user_config::path().filter(|path| path.exists());
            let from = path.map_or("no file".to_owned(), |path| path.display().to_string());
            findings.add("your settings", Health::Good, format!("{from}: {}", user.describe()));
            check_sandbox(&user, &mut findings);
        }
        Err(failure) => findings.fail("your settings", &failure),
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
    let trusted = check_state(project, &files, options.servers, findings);
    match project.supervisor(Part::Whole, &files) {
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
            check_servers(project, &supervisor, options.servers && trusted, findings);
        }
        Err(failure) => findings.fail("policy", &failure),
    }
    match project.store(&config) {
        Ok(store) => {
            check_store(&store, findings);
            if let Some(told) = project.held_log() {
                findings.add("journal's log", Health::Warn, told);
            }
        }
        Err(failure) => findings.fail("journal", &failure),
    }
    for hooks in installed::all(project) {
        let name = format!("hooks of {}", hooks.client.as_str());
        match (hooks.problem, hooks.path) {
            (Some(problem), _) => findings.add(name, Health::Bad, problem.to_string()),
            (None, Some(path)) => findings.add(name, Health::Good, path.display().to_string()),
            (None, None) => findings.add(name, Health::Good, hooks.scope.as_str()),
        }
    }
}

/// Checks the state folder and the trust; returns whether the configuration is trusted.
fn check_state(
    project: &Project,
    files: &BTreeMap<String, Vec<u8>>,
    servers: bool,
    findings: &mut Findings,
) -> bool {
    let state = match project.state() {
        Ok(state) => state,
        Err(failure) => {
            findings.fail("state", &failure);
            return false;
        }
    };
    findings.add("state", Health::Good, state.display().to_string());
    let trusted = project.require_trust(files);
    match &trusted {
        Ok(()) => findings.add("trust", Health::Good, "you have trusted the configuration"),
        // Only the servers need trust here.
        Err(failure) if !servers => findings.add("trust", Health::Warn, failure.summary()),
        Err(failure) => findings.fail("trust", failure),
    }
    trusted.is_ok()
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
                // An open grant waits for nobody, and a message for its receiver.
                Some(State::Granted | State::Due) => {}
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

fn check_servers(
    project: &Project,
    supervisor: &PolicySupervisor,
    reach: bool,
    findings: &mut Findings,
) {
    let connectors = || UserConfig::load().and_then(|user| user.connectors(project));
    let connectors = match reach.then(connectors).transpose() {
        Ok(connectors) => connectors,
        Err(failure) => return findings.fail("servers", &failure),
    };
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
        if matches!(server.connector, Connector::Files | Connector::Person | Connector::Agent) {
            findings.add(name, Health::Good, format!("tools of Windlass: {}", server.tools.len()));
        } else if server.connector == Connector::Client {
            let message = format!("tools that only coding agents have: {}", server.tools.len());
            findings.add(name, Health::Good, message);
        } else if server.connector == Connector::Command {
            findings.add(name, Health::Good, format!("{} commands", server.tools.len()));
        } else if let Some(connectors) = &connectors {
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

/// Makes a real cell and runs a program in it.
fn check_sandbox(user: &UserConfig, findings: &mut Findings) {
    let name = "sandbox";
    let tried = TemporaryFolder::new(TemporaryUse::Doctor)
        .map_err(|error| format!("there is no temporary folder: {error}"))
        .and_then(|folder| {
            let sandbox = user.sandbox(folder.path()).map_err(|failure| failure.summary())?;
            sandbox.try_out()
        });
    match (tried, user.sandbox.level) {
        (Ok(Maker::Own), Level::Full) => {
            findings.add(name, Health::Good, "full: namespaces, Landlock and seccomp");
        }
        (Ok(Maker::Bwrap { program }), Level::Full) => {
            let message = format!(
                "full, by {}, since windlass itself may make no namespaces: commands cannot change `.git` or \
                 caches, and have no terminals",
                program.display()
            );
            findings.add(name, Health::Warn, message);
            findings.advise(advice());
        }
        (Ok(_), Level::Landlock) => {
            let message = "level `landlock`, as you chose: commands read everything that you can read, and \
                           processes can outlive their call; `.git` and `.windlass` are not protected";
            findings.add(name, Health::Warn, message);
        }
        (Err(why), _) => {
            let message = format!("{why}; commands are not run [{}]", Code::SandboxUnavailable);
            findings.add(name, Health::Bad, message);
            if windlass_cell::inside_a_cell().is_none() {
                findings.advise(advice());
            }
        }
    }
}

fn print(findings: &Findings, output: &Output) -> Result<(), Failure> {
    if output.json {
        let checks: Vec<_> = findings
            .0
            .iter()
            .map(|check| {
                let mut json = json!({ "name": check.name, "verdict": check.verdict.label(), "message": check.message });
                if let (Some(advice), Some(json)) = (&check.advice, json.as_object_mut()) {
                    json.insert("advice".to_owned(), advice.as_str().into());
                }
                json
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
    for advice in findings.0.iter().filter_map(|check| check.advice.as_ref()) {
        output.line("");
        advice.lines().for_each(|line| output.line(&sanitize(line)));
    }
    Ok(())
}
