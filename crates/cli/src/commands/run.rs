//! `windlass run` and `windlass resume`.

use serde_json::Value;
use windlass_engine::NewRun;
use windlass_engine::executors::{ANSWERS_OPTION, Script};
use windlass_formats::{TaskInput, TaskSpec, detect_task};
use windlass_kernel::run::Run;
use windlass_kernel::run::plan::Plan;
use windlass_kernel::{Code, Digest, canon};

use crate::args::{Resume, RunTask};
use crate::commands::{backlog, status};
use crate::failure::{CommandResult, Failure};
use crate::input;
use crate::output::Output;
use crate::project::{Access, Project};
use crate::setup::{RunSetup, actor_name, compose_rules};

/// The maximum size of an answer or task file.
const BYTES_MAX: u64 = 4 << 20;

/// Opens a project's engine to act, which needs the user's trust; run events are printed.
pub fn open(project: &Project, by: Option<&str>, output: &Output) -> Result<RunSetup, Failure> {
    RunSetup::open(project, &actor_name(by), Access::Act, *output)
}

/// Opens a project's engine to read, or to record what starts nothing.
pub fn open_to_read(
    project: &Project,
    by: Option<&str>,
    output: &Output,
) -> Result<RunSetup, Failure> {
    RunSetup::open(project, &actor_name(by), Access::Read, *output)
}

/// Starts a run and drives it until it ends or waits.
pub fn run(project: &Project, options: &RunTask, output: &Output) -> CommandResult {
    let setup = open(project, options.by.as_deref(), output)?;
    let task = read_task(&options.task)?;
    let answers = options.answers.as_deref();
    let selection = LoopSelection {
        name: &options.name,
        variant: options.variant.as_deref(),
        with: &options.with,
    };
    let run = start(&setup, &selection, task, options.worktree, answers, Vec::new())?;
    report(&run, output)
}

/// A loop and the selected parts of it.
pub struct LoopSelection<'a> {
    /// The loop.
    pub name: &'a str,
    /// Its variant.
    pub variant: Option<&'a str>,
    /// Phases to include that are optional or excluded by the variant.
    pub with: &'a [String],
}

/// Builds the plan of a selection, with the rules of all levels; returns it with the loop file's digest.
pub fn build_plan(
    setup: &RunSetup,
    selection: &LoopSelection<'_>,
) -> Result<(Plan, Digest), Failure> {
    let name = selection.name;
    let Some(file) = setup.loops.get(name) else {
        return Err(Failure::new(Code::LoopNotFound, format!("there is no loop `{name}`")));
    };
    let mut plan = file.plan_with(selection.variant, selection.with)?;
    plan.governance = compose_rules(&setup.rules, Some(file))?.governance;
    Ok((plan, file.digest))
}

/// Starts a run of a loop.
pub fn start(
    setup: &RunSetup,
    selection: &LoopSelection<'_>,
    task: Value,
    worktree: bool,
    answers: Option<&std::path::Path>,
    more: Vec<(String, Value)>,
) -> Result<Run, Failure> {
    let (plan, digest) = build_plan(setup, selection)?;
    let mut options: serde_json::Map<String, Value> = more.into_iter().collect();
    if let Some(path) = answers {
        let bytes = input::read(path, BYTES_MAX)?;
        Script::parse(&bytes).map_err(|error| {
            let message = format!("`{}`: {error}", path.display());
            Failure::new(Code::AnswersInvalid, message)
        })?;
        options.insert(ANSWERS_OPTION.to_owned(), canon::parse(&bytes, bytes.len())?);
    }
    Ok(setup.engine.start(NewRun {
        worktree,
        options: Value::Object(options),
        ..NewRun::new(plan, digest, task)
    })?)
}

/// Resumes a run.
pub fn resume(project: &Project, options: &Resume, output: &Output) -> CommandResult {
    let setup = open(project, options.by.as_deref(), output)?;
    let trace_id = setup.engine.find(&options.run)?;
    let run = setup.engine.resume(trace_id)?;
    report(&run, output)
}

/// Prints a run's state and returns its exit code.
pub fn report(run: &Run, output: &Output) -> CommandResult {
    if output.json {
        output.value(&status::describe(run))?;
    } else {
        status::print_end(run, output);
    }
    // After printing: the run has passed even if its backlog item cannot be marked.
    backlog::complete_item(run, output)?;
    Ok(status::exit(run))
}

/// Reads a task from a file, inline JSON or a sentence.
pub fn read_task(text: &str) -> Result<Value, Failure> {
    let task = match detect_task(text) {
        TaskInput::InlineJson => TaskSpec::from_json(text.as_bytes()),
        TaskInput::Sentence => TaskSpec::from_sentence(text),
        TaskInput::File => {
            let path = std::path::Path::new(text.trim());
            TaskSpec::from_file(&input::read(path, BYTES_MAX)?)
        }
    };
    Ok(Value::Object(task?.to_object()))
}
