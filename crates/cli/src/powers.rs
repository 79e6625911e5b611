//! What a project's configuration can start and open, as it is shown before the user trusts it.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use windlass_governance::LocatedRule;
use windlass_kernel::HostRule;
use windlass_kernel::run::plan::{Doer, Evidence, Phase};
use windlass_policy::{ArgvPart, Connector, PolicySet, Server, Tool, Verdict};

use crate::failure::Failure;
use crate::output::Style;
use crate::project::Project;
use crate::setup::{agents, loops, rules};

/// One thing that the configuration can start or open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Power {
    /// What kind of thing it is.
    pub kind: PowerKind,
    /// The file or tool that has it.
    pub source: String,
    /// The program, address or setting.
    pub text: String,
}

/// The kind of a power, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PowerKind {
    /// A program that runs outside of the sandbox.
    Unconfined,
    /// An MCP server that is started.
    Server,
    /// A use of the network.
    Network,
    /// An environment variable or a secret whose value a server gets.
    Secret,
    /// A folder outside of the project that files are written to.
    Folder,
    /// A command that makes the work tree of a run ready, or a file that is copied into it.
    Setup,
    /// A command of a tool.
    Command,
    /// A program of a loop.
    Loop,
    /// A program of a governance rule.
    Rule,
    /// What the policy allows without asking.
    Policy,
}

impl PowerKind {
    /// The name for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unconfined => "unconfined",
            Self::Server => "server",
            Self::Network => "network",
            Self::Secret => "secret",
            Self::Folder => "folder",
            Self::Setup => "setup",
            Self::Command => "command",
            Self::Loop => "loop",
            Self::Rule => "rule",
            Self::Policy => "policy",
        }
    }

    /// The heading for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Unconfined => "tools outside of the sandbox",
            Self::Server => "servers",
            Self::Network => "network",
            Self::Secret => "environment variables and secrets that servers get",
            Self::Folder => "folders outside of the project",
            Self::Setup => "setup of work trees, in the sandbox",
            Self::Command => "commands of tools, in the sandbox",
            Self::Loop => "programs of loops, in the sandbox",
            Self::Rule => "programs of governance rules, in the sandbox",
            Self::Policy => "policy",
        }
    }

    /// The style of the heading.
    pub const fn style(self) -> Style {
        match self {
            Self::Unconfined | Self::Server | Self::Network | Self::Secret | Self::Folder => {
                Style::Warn
            }
            Self::Setup | Self::Command | Self::Loop | Self::Rule | Self::Policy => Style::Bold,
        }
    }
}

/// Lists what configuration files can start and open; fails if they are invalid.
pub fn powers(files: &BTreeMap<String, Vec<u8>>) -> Result<Vec<Power>, Failure> {
    let config = Project::config(files)?;
    let set = PolicySet::load(files)?;
    let mut found = Vec::new();
    let mut add = |kind, source: &str, text: String| {
        found.push(Power { kind, source: source.to_owned(), text });
    };
    for server in set.registry().servers() {
        add_server(server, &mut add);
    }
    let agents = agents(files)?;
    for file in loops(files, &agents)?.values() {
        for phase in file.all_phases() {
            add_phase(&file.id, phase, &mut add);
        }
        add_rules(&file.governance, &mut add);
    }
    add_rules(&rules(files)?, &mut add);
    for argv in &config.worktree.setup {
        add(PowerKind::Setup, "config.toml", words(argv));
    }
    for glob in &config.worktree.copy {
        add(PowerKind::Setup, "config.toml", format!("copies {glob} into work trees"));
    }
    if let Some(endpoint) = config.telemetry.endpoint {
        add(PowerKind::Network, "config.toml", format!("telemetry to {endpoint}"));
    }
    for (name, one) in &config.notify {
        let source = format!("notify.{name}");
        let kind = if one.command.is_some() { PowerKind::Unconfined } else { PowerKind::Network };
        add(kind, &source, format!("notifications to {}", one.way()));
        for secret in one.url_secret.iter().chain(&one.secret) {
            add(PowerKind::Secret, &source, format!("your secret {secret}"));
        }
    }
    if let Some(root) = config.artifacts_root.filter(|root| leads_outside(root)) {
        add(PowerKind::Folder, "config.toml", root.display().to_string());
    }
    let allowing = set.rules().iter().filter(|rule| rule.verdict() == Verdict::Allow).count();
    let text = format!("{} rules, {allowing} of them allow calls", set.rules().len());
    add(PowerKind::Policy, "policy/", text);
    found.sort_by(|a, b| (a.kind, &a.source, &a.text).cmp(&(b.kind, &b.source, &b.text)));
    found.dedup();
    Ok(found)
}

/// Whether a path leads out of the project's folder.
fn leads_outside(path: &Path) -> bool {
    path.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir))
}

fn add_server(server: &Server, add: &mut impl FnMut(PowerKind, &str, String)) {
    let source = format!("server {}", server.name);
    match &server.connector {
        Connector::McpStdio { command, sandbox, network } => {
            let line = words(command);
            add_hosts(network, &source, &line, add);
            let kind = if *sandbox { PowerKind::Server } else { PowerKind::Unconfined };
            add(kind, &source, line);
        }
        Connector::McpHttp { url, bearer_env } => {
            add(PowerKind::Network, &source, url.clone());
            if let Some(name) = bearer_env {
                add(PowerKind::Secret, &source, name.clone());
            }
        }
        // They work in the workspace alone, or only in the client.
        Connector::Files | Connector::Person | Connector::Client | Connector::Agent => {}
        Connector::Command => {
            for tool in server.tools.values() {
                let source = format!("{}/{}", server.name, tool.name);
                let line = command_line(tool);
                add_hosts(&tool.network, &source, &line, add);
                let kind = if tool.sandbox { PowerKind::Command } else { PowerKind::Unconfined };
                add(kind, &source, line);
            }
        }
    }
    for tool in server.tools.values() {
        let source = format!("{}/{}", server.name, tool.name);
        for name in &tool.secrets {
            add(PowerKind::Secret, &source, format!("your secret {name}"));
        }
    }
    for name in &server.env {
        add(PowerKind::Secret, &source, name.clone());
    }
}

fn add_hosts(
    hosts: &[HostRule],
    source: &str,
    line: &str,
    add: &mut impl FnMut(PowerKind, &str, String),
) {
    if !hosts.is_empty() {
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        add(PowerKind::Network, source, format!("{line}: {}", hosts.join(", ")));
    }
}

/// The command line of a tool; an argument of the call is shown by its name.
fn command_line(tool: &Tool) -> String {
    let parts = tool.argv.iter().map(|part| match part {
        ArgvPart::Literal(word) => word.clone(),
        ArgvPart::Argument { pointer, .. } => format!("<{}>", pointer.text()),
    });
    words(&parts.collect::<Vec<_>>())
}

fn words(argv: &[String]) -> String {
    let word = |word: &String| match word.contains(char::is_whitespace) || word.is_empty() {
        true => format!("{word:?}"),
        false => word.clone(),
    };
    argv.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn add_phase(id: &str, phase: &Phase, add: &mut impl FnMut(PowerKind, &str, String)) {
    let doers = std::iter::once(&phase.doer).chain(phase.checks.iter().map(|check| &check.doer));
    for doer in doers {
        match doer {
            Doer::Command { argv, .. } => {
                add(PowerKind::Loop, &format!("{id}, phase {}", phase.id), words(argv));
            }
            Doer::Builtin { with, .. } => {
                if let Some(tool) = with.get("tool").and_then(serde_json::Value::as_str) {
                    let text = format!("calls the tool {tool}");
                    add(PowerKind::Loop, &format!("{id}, phase {}", phase.id), text);
                }
            }
            Doer::Agent { .. } | Doer::Consensus { .. } | Doer::Person { .. } => {}
        }
    }
}

fn add_rules(rules: &[LocatedRule], add: &mut impl FnMut(PowerKind, &str, String)) {
    for LocatedRule { rule, .. } in rules {
        match &rule.evidence {
            Evidence::Metric { argv, .. } | Evidence::Tool { argv, .. } => {
                add(PowerKind::Rule, &rule.id, words(argv));
            }
            Evidence::Validator { .. } => {}
        }
    }
}
