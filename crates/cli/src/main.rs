//! The `windlass` command: parses arguments, builds the engine and gateway, prints results, sets exit
//! codes. It makes no policy or state decisions itself.

mod agents;
mod args;
mod atomic;
mod client_check;
mod client_file;
mod commands;
mod config;
mod core_run;
mod core_session;
mod dashboard;
mod driver_setup;
mod exit_code;
mod failure;
mod guard_check;
mod input;
mod installed;
mod journal_copy;
mod kept_policy;
mod logging;
mod mcp;
mod memory;
mod missions;
mod notify;
mod output;
mod part;
mod people;
mod powers;
mod progress;
mod project;
mod project_views;
mod readiness;
mod refused_events;
mod retention;
mod run_policy;
mod run_settings;
mod sandbox;
mod scratch;
mod secrets;
mod session_loop;
mod session_surroundings;
mod session_transcripts;
mod setup;
mod state;
mod telemetry;
mod tls;
mod tool_definitions;
mod trust;
mod user_config;
mod user_folders;
mod work;
mod workflows;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use windlass_kernel::Code;

use crate::args::{BundleCommand, Cli, Command};
use crate::failure::{CommandResult, Failure};
use crate::output::Output;
use crate::project::Project;

fn main() -> ExitCode {
    // Before any secret is read. A lower limit is never refused.
    let _ = windlass_cell::leave_no_core_dump();
    // The launcher of cells, which must do nothing else first.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == "confined") {
        let stage = words.next().unwrap_or_default();
        let code = match stage.to_str() {
            Some("bound") => windlass_cell::run_bound(words),
            _ => windlass_cell::launch(&stage.to_string_lossy()),
        };
        return ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX));
    }
    // Without it such a write ends the process, as it does anyway where the handler cannot be set.
    let _ = windlass_cell::survive_file_limit();
    // What looks for the program, and nothing else.
    if std::env::args_os().skip(1).eq(["--version"]) {
        Output::new(false, args::Color::Never)
            .line(concat!("windlass ", env!("CARGO_PKG_VERSION")));
        return ExitCode::SUCCESS;
    }
    // Hooks are asked before each use of a tool: this one form of theirs needs no parser of all commands.
    if let Some(client) = hook_of(std::env::args_os().skip(1)) {
        let options = args::Hook { client: Some(client) };
        return ExitCode::from(commands::hook::run(None, &options));
    }
    // What clients of agents start in their cells.
    if std::env::args_os().nth(1).is_some_and(|word| word == "mcp")
        && std::env::args_os().nth(2).is_some_and(|word| word == "relay")
        && let Some(socket) = std::env::args_os().nth(3)
    {
        return match windlass_mcp::relay(std::path::Path::new(&socket)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let message = format!("cannot reach the tools of Windlass: {error}");
                Failure::new(Code::ToolServerUnavailable, message)
                    .print(&Output::new(false, args::Color::Never));
                ExitCode::FAILURE
            }
        };
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage_error(&error),
    };
    let output = Output::new(cli.json, cli.color);
    let output = match (cli.log, cli.log_format) {
        (args::LogLevel::Off, _) | (_, args::LogFormat::Text) => output,
        (_, args::LogFormat::Json) => output.with_json_log(),
    };
    logging::start(cli.log, cli.log_format);
    let result = windlass_store::fault::check()
        .map_err(|message| {
            Failure::new(Code::RequestInvalid, message)
                .hint("the variable is for crash tests; unset it")
        })
        .and_then(|()| run(&cli, &output));
    match result {
        Ok(code) => ExitCode::from(output.exit(code)),
        Err(failure) => {
            failure.print(&output);
            ExitCode::from(failure.exit())
        }
    }
}

/// Prints help to standard output and usage errors to standard error; clap says which it is.
fn usage_error(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind as Kind;
    if !error.use_stderr() {
        // A closed standard output is not an error here.
        drop(error.print());
        return ExitCode::SUCCESS;
    }
    if !std::env::args_os().any(|word| word == "--json") {
        drop(error.print());
        return ExitCode::from(2);
    }
    let text = error.to_string();
    let message = if error.kind() == Kind::DisplayHelpOnMissingArgumentOrSubcommand {
        "a command is missing"
    } else {
        text.split("\n\nUsage:").next().unwrap_or_default()
    };
    let message = message.split("\n\nFor more").next().unwrap_or_default();
    let message = message.trim_start_matches("error: ");
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    Failure::new(Code::RequestInvalid, message)
        .hint("`windlass --help` lists the commands, `windlass COMMAND --help` their options")
        .print(&Output::new(true, args::Color::Never));
    ExitCode::from(2)
}

/// The client of `hook --client CLIENT`, if these are all arguments and no variable stands for another one.
fn hook_of(words: impl Iterator<Item = std::ffi::OsString>) -> Option<args::HookClient> {
    let words: Vec<String> = words.map(|word| word.into_string().ok()).collect::<Option<_>>()?;
    let [command, option, client] = words.as_slice() else { return None };
    let is_plain = command == "hook" && option == "--client";
    let is_set = |name: &str| name.starts_with("WINDLASS_") && name != "WINDLASS_STATE";
    let mut variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    (is_plain && !variables.any(|name| is_set(&name)))
        .then(|| args::HookClient::named(client))
        .flatten()
}

fn run(cli: &Cli, output: &Output) -> CommandResult {
    let find = || Project::find(cli.project.as_deref());
    match &cli.command {
        Command::Init(options) => commands::init::run(cli.project.as_deref(), options, output),
        Command::Trust(options) => commands::trust::run(&find()?, options, output),
        Command::State(command) => commands::state::run(cli.project.as_deref(), command, output),
        Command::Store(command) => commands::store::run(cli.project.as_deref(), command, output),
        Command::Run(options) => commands::run::run(&find()?, options, output),
        Command::Resume(options) => commands::run::resume(&find()?, options, output),
        Command::Status(options) => commands::status::run(&find()?, options, output),
        Command::Watch(options) => commands::watch::run(&find()?, options, output),
        Command::Serve(options) => commands::serve::run(cli.project.as_deref(), options, output),
        Command::Notify(command) => commands::notify::run(&find()?, command, output),
        Command::Telemetry(command) => commands::telemetry::run(&find()?, command, output),
        Command::Queue(command) => commands::queue::run(&find()?, command, output),
        Command::Stop(options) => commands::stop::run(&find()?, options, output),
        Command::Cancel(options) => commands::cancel::run(&find()?, options, output),
        Command::Checkpoint(command) => commands::checkpoint::run(&find()?, command, output),
        Command::Import(command) => commands::import::run(&find()?, command, output),
        Command::Backlog(command) => commands::backlog::run(&find()?, command, output),
        Command::Loop(command) => commands::loops::run(cli.project.as_deref(), command, output),
        Command::Mission(command) => {
            commands::mission::run(cli.project.as_deref(), command, output)
        }
        Command::Workflow(command) => commands::workflow::run(&find()?, command, output),
        Command::Close(options) => commands::close::run(&find()?, options, output),
        Command::Export(options) => commands::export::run(&find()?, options, output),
        Command::Demo(options) => commands::demo::run(options, output),
        Command::Call(command) => commands::call::run(&find()?, command, output),
        Command::Agents(options) => commands::agents::run(options, output),
        Command::Install(options) => {
            commands::install::install(cli.project.as_deref(), options, output)
        }
        Command::Uninstall(options) => {
            commands::install::uninstall(cli.project.as_deref(), options, output)
        }
        Command::Hook(options) => Ok(commands::hook::run(cli.project.as_deref(), options)),
        Command::Session(command) => {
            commands::session::run(cli.project.as_deref(), command, output)
        }
        Command::Cell(options) => commands::cell::run(find()?, options),
        Command::Mcp(command) => commands::mcp::run(&find()?, command, output),
        Command::Work(command) => commands::work::run(&find()?, command, output),
        Command::Memory(command) => commands::memory::run(&find()?, command, output),
        Command::Grant(command) => commands::grant::run(&find()?, command, output),
        Command::Trace(command) => commands::trace::run(&find()?, command, output),
        Command::Recover(options) => commands::recover::run(&find()?, options, output),
        Command::Verify(options) => {
            commands::verify::choose(cli.project.as_deref(), options, output)
        }
        Command::Bundle(command) => {
            let BundleCommand::Restore(options) = &**command;
            commands::bundle_restore::run(cli.project.as_deref(), options, output)
        }
        Command::Anchor(options) => commands::anchor::write(&find()?, options, output),
        Command::People(command) => commands::people::run(command, output),
        Command::Keys(command) => commands::keys::run(&find()?, **command, output),
        Command::Policy(command) => commands::policy::run(&find()?, command, output),
        Command::Canon(options) => commands::canon::run(options, output),
        Command::Doctor(options) => commands::doctor::run(cli.project.as_deref(), options, output),
        Command::Explain { code } => commands::explain::run(code.as_deref(), output),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "windlass", &mut script);
            output.bytes(&script);
            Ok(0)
        }
    }
}
