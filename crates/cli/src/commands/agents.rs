//! `windlass agents`: lists and checks those who run agents.

use serde_json::{Value, json};
use windlass_kernel::Code;

use crate::agents::{self, ClientConfig, ClientProgram, Kind};
use crate::args::{Agents, AgentsCommand};
use crate::failure::{CommandResult, Failure};
use crate::output::{Output, Style, sanitize};
use crate::readiness::{Clients, Level, Readiness};
use crate::user_config::UserConfig;

/// Runs `agents` and its subcommands.
pub fn run(options: &Agents, output: &Output) -> CommandResult {
    let user = UserConfig::load()?;
    let secrets = user.named_secrets();
    let mut clients = Clients::new(&user.agents, &secrets)?;
    match &options.command {
        None => list(&clients, &user, output),
        Some(AgentsCommand::Check { names }) => check(&mut clients, names, output),
    }
}

fn list(clients: &Clients<'_>, user: &UserConfig, output: &Output) -> CommandResult {
    let mut rows = Vec::new();
    let mut values = Vec::new();
    let mut withheld = Vec::new();
    for name in agents::names(&user.agents) {
        let config = user.agents.get(&name).cloned().unwrap_or_default();
        let listed = Listed::of(&name, &config, clients);
        rows.push(listed.row(&name));
        values.push(json!({
            "name": name,
            "kind": listed.kind,
            "version": listed.version,
            "level": listed.level.as_ref().map(Level::as_str),
            "model": config.model,
            "endpoint": listed.endpoint,
            "problem": listed.problem,
            "withheld": listed.withheld,
        }));
        withheld.extend(listed.withheld);
    }
    if output.json {
        output.value(&values)?;
    } else {
        output.table(&["RUNNER", "KIND", "VERSION", "CAGE", "STATE"], &rows);
        withheld.iter().for_each(|note| output.note(&sanitize(note)));
    }
    Ok(0)
}

/// What is known of a runner.
#[derive(Default)]
struct Listed {
    kind: &'static str,
    version: String,
    level: Option<Level>,
    endpoint: Option<String>,
    problem: Option<String>,
    withheld: Option<String>,
}

impl Listed {
    fn of(name: &str, config: &ClientConfig, clients: &Clients<'_>) -> Self {
        match Kind::of(name, config) {
            Ok(Kind::Client(client)) => {
                let readiness = clients.readiness(name, client);
                Self {
                    kind: client.name(),
                    problem: problem(&readiness),
                    version: readiness.version,
                    level: readiness.program.is_ok().then_some(readiness.level),
                    endpoint: Some(readiness.endpoint),
                    withheld: readiness.withheld,
                }
            }
            Ok(Kind::Model(api)) => Self {
                kind: "model",
                problem: clients.problem_of_model(api, config),
                withheld: clients.withheld_of_model(name, api, config),
                ..Self::default()
            },
            Ok(Kind::Command) => Self {
                kind: "command",
                problem: ClientProgram::find(None, config).err(),
                ..Self::default()
            },
            Ok(Kind::Person) => Self { kind: "person", ..Self::default() },
            Err(message) => Self { problem: Some(message.trim().to_owned()), ..Self::default() },
        }
    }

    fn row(&self, name: &str) -> Vec<(String, Option<Style>)> {
        let style = match &self.level {
            Some(Level::Measured | Level::Checked) => Style::Good,
            Some(Level::Unchecked | Level::Watched) | None => Style::Warn,
            Some(Level::Failed(_)) => Style::Bad,
        };
        let (state, state_style) = match &self.problem {
            Some(problem) => (sanitize(problem), Style::Warn),
            None => ("ready".to_owned(), Style::Good),
        };
        let level = self.level.as_ref().map(Level::as_str).unwrap_or_default();
        vec![
            (name.to_owned(), None),
            (self.kind.to_owned(), Some(Style::Faint)),
            (sanitize(&self.version), None),
            (level.to_owned(), Some(style)),
            (state, Some(state_style)),
        ]
    }
}

fn problem(readiness: &Readiness) -> Option<String> {
    match (&readiness.problem, &readiness.level) {
        (Some(problem), _) => Some(problem.clone()),
        (None, Level::Failed(reason)) => Some(reason.clone()),
        (None, Level::Measured | Level::Checked | Level::Unchecked | Level::Watched) => None,
    }
}

fn check(clients: &mut Clients<'_>, names: &[String], output: &Output) -> CommandResult {
    let all = windlass_agents::all();
    if let Some(unknown) =
        names.iter().find(|name| !all.iter().any(|client| client.name() == **name))
    {
        let known: Vec<&str> = all.iter().map(|client| client.name()).collect();
        return Err(Failure::new(Code::RequestInvalid, format!("there is no client `{unknown}`"))
            .hint(format!("the clients are {}", known.join(", "))));
    }
    let mut rows = Vec::new();
    let mut values: Vec<Value> = Vec::new();
    let mut code = 0;
    for client in all {
        if !names.is_empty() && !names.iter().any(|name| name == client.name()) {
            continue;
        }
        let readiness = clients.readiness(client.name(), client);
        let (word, style, seconds, reason) = if let Err(missing) = &readiness.program {
            // Asked for by name, it is missed.
            code = if names.is_empty() { code } else { 1 };
            ("not installed", Style::Faint, None, Some(missing.clone()))
        } else {
            output.note(&format!("checking {} {}", client.name(), readiness.version));
            match clients.check(client, &readiness)? {
                Ok(took) => ("passed", Style::Good, Some(took.as_secs_f64()), None),
                Err(reason) => {
                    code = 1;
                    ("failed", Style::Bad, None, Some(reason))
                }
            }
        };
        let time = seconds.map(|seconds| format!("{seconds:.1} s")).unwrap_or_default();
        rows.push(vec![
            (client.name().to_owned(), None),
            (sanitize(&readiness.version), None),
            (word.to_owned(), Some(style)),
            (time, None),
            (sanitize(reason.as_deref().unwrap_or_default()), None),
        ]);
        values.push(json!({
            "name": client.name(),
            "version": readiness.version,
            "result": word,
            "seconds": seconds,
            "reason": reason,
        }));
    }
    if output.json {
        output.value(&values)?;
    } else {
        output.table(&["RUNNER", "VERSION", "RESULT", "TIME", "WHY"], &rows);
    }
    Ok(code)
}
