//! `windlass cell`: runs a line of bash in a cell, with this process's own standard streams.

use std::os::unix::process::ExitStatusExt as _;

use serde_json::json;
use windlass_connect::{AttachedCommand, Target};
use windlass_kernel::Code;
use windlass_policy::Question;
use windlass_runtime::PolicySupervisor;

use crate::args::Cell;
use crate::failure::{CommandResult, Failure};
use crate::part::Part;
use crate::project::Project;
use crate::sandbox::handle_signals;
use crate::session_surroundings::text_of;
use crate::trust;
use crate::user_config::UserConfig;

/// The tool that runs lines.
const SERVER: &str = "shell";
/// Its name.
const TOOL: &str = "run";
/// The name of the one whose lines only read.
const READING: &str = "read";
/// The variables of the core loop, which its sessions set for their shells.
const PASSED_ON: [&str; 4] = ["AOPS", "ACA_DATA", "PYTHONPATH", "WINDLASS_SESSION"];

/// Whether lines of shell have cells in a project.
pub fn is_used(supervisor: &PolicySupervisor) -> bool {
    supervisor.confinement_of(SERVER, TOOL, "").is_some()
}

/// The path of this program, if it runs lines of shell in cells.
pub fn program(supervisor: &PolicySupervisor) -> Result<Option<String>, Failure> {
    if !is_used(supervisor) {
        return Ok(None);
    }
    let path = std::env::current_exe().and_then(|path| path.canonicalize());
    text_of(&path.map_err(|error| Failure::of(Code::Internal, &error))?).map(Some)
}

/// Runs the line and returns its exit code.
pub fn run(mut project: Project, options: &Cell) -> CommandResult {
    if let Some(workspace) = &options.workspace
        && *workspace != project.root
    {
        project.set_workspace(workspace)?;
    }
    let files = project.files_of(Part::Policy)?;
    trust::require(project.state()?, Part::Policy, &files)?;
    let user = UserConfig::load()?;
    user.apply()?;
    let supervisor = project.supervisor(Part::Policy, &files)?;
    let scope = options.session.as_deref().unwrap_or("cell");
    let tool = if options.reading { READING } else { TOOL };
    let mut confinement = supervisor.confinement_of(SERVER, tool, scope).ok_or_else(|| {
        Failure::new(Code::SandboxUnavailable, "the project runs `shell/run` without a cell")
            .hint("set `sandbox = true` of that tool in `.windlass/tools.toml`")
    })?;
    confinement.named = named(&supervisor, tool, &options.line);
    let (argv, mut env) = command_of(&supervisor, tool, &options.line)?;
    for name in PASSED_ON {
        if let Ok(value) = std::env::var(name) {
            env.entry(name.to_owned()).or_insert(value);
        }
    }
    handle_signals()?;
    let sandbox = user.sandbox(&project.state()?.join("cells"))?;
    let cwd = std::env::current_dir().map_err(|error| Failure::of(Code::FileUnreadable, &error))?;
    let cwd = if cwd.starts_with(&confinement.workspace) {
        cwd
    } else {
        let message =
            format!("`{}` is not in the project, so it is not in the cell", cwd.display());
        return Err(Failure::new(Code::SandboxUnavailable, message)
            .hint(format!("change to `{}` first", confinement.workspace.display())));
    };
    let command = AttachedCommand { argv: &argv, env: &env, cwd: &cwd };
    let status = sandbox
        .run_attached(&confinement, &command)
        .map_err(|message| Failure::new(Code::SandboxUnavailable, message))?;
    let status = status.ok_or_else(|| {
        Failure::new(Code::ToolOutcomeUnknown, "the exit status of the command was lost")
    })?;
    let code = status.code().or_else(|| status.signal().map(|signal| signal.saturating_add(128)));
    Ok(u8::try_from(code.unwrap_or(1)).unwrap_or(1))
}

/// The files that the line names as written. Whoever let it through has seen them.
fn named(supervisor: &PolicySupervisor, tool: &str, line: &str) -> Vec<String> {
    let question = Question {
        server: SERVER.to_owned(),
        tool: tool.to_owned(),
        declared_class: None,
        args: json!({ "line": line }),
        has_key: false,
        phase: None,
        agent: None,
    };
    supervisor.judgement(&question).written
}

type Program = (Vec<String>, std::collections::BTreeMap<String, String>);

/// The program that runs a line, as the registry says, and its variables.
fn command_of(supervisor: &PolicySupervisor, tool: &str, line: &str) -> Result<Program, Failure> {
    let refused = |code: Code, reason: String| Failure::new(code, reason);
    let Some((server, tool)) = supervisor.set().registry().find(SERVER, tool) else {
        return Err(refused(
            Code::ToolUnclassifiedDenied,
            format!("the tool registry has no tool {SERVER}/{tool}"),
        ));
    };
    let target = supervisor.target(server).map_err(|why| refused(why.code, why.reason))?;
    let argv = tool
        .command_line(&json!({ "line": line }))
        .map_err(|error| refused(Code::RequestInvalid, error.to_string()))?
        .argv;
    match target {
        Target::Command { env, .. } => Ok((argv, env)),
        Target::McpStdio { .. }
        | Target::McpHttp { .. }
        | Target::Files { .. }
        | Target::Person
        | Target::Client
        | Target::Agent => {
            Err(refused(Code::SandboxUnavailable, "shell/run is not a command".to_owned()))
        }
    }
}
