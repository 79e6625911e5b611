//! The `windlass` command: arguments, wiring, output, exit codes. It decides nothing.

mod args;
mod commands;
mod config;
mod failure;
mod output;
mod project;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use crate::args::{Cli, Command};
use crate::failure::{Done, Failure};
use crate::output::Output;
use crate::project::Project;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let usage = error.use_stderr();
            // Help goes to standard output, mistakes to standard error; clap knows which.
            return match error.print() {
                Ok(()) if !usage => ExitCode::SUCCESS,
                _ => ExitCode::from(2),
            };
        }
    };
    let output = Output::new(cli.json, cli.color);
    let done = windlass_store::fault::check()
        .map_err(|message| Failure::new(windlass_kernel::Code::RequestInvalid, message))
        .and_then(|()| run(&cli, &output));
    match done {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            failure.print(&output);
            ExitCode::from(failure.exit())
        }
    }
}

fn run(cli: &Cli, output: &Output) -> Done {
    let find = || Project::find(cli.project.as_deref());
    match &cli.command {
        Command::Init(options) => commands::init::run(cli.project.as_deref(), options, output),
        Command::Call(command) => commands::call::run(&find()?, command, output),
        Command::Trace(command) => commands::trace::run(&find()?, command, output),
        Command::Recover(options) => commands::recover::run(&find()?, options, output),
        Command::Verify(options) => match &options.file {
            Some(file) => commands::verify_file::run(file, output),
            None => commands::verify::run(&find()?, options, output),
        },
        Command::Policy(command) => commands::policy::run(&find()?, command, output),
        Command::Canon(options) => commands::canon::run(options, output),
        Command::Doctor(options) => commands::doctor::run(cli.project.as_deref(), options, output),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "windlass", &mut script);
            output::raw(&String::from_utf8_lossy(&script));
            Ok(0)
        }
    }
}
