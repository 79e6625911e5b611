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
use crate::failure::{Done, Failure};
use crate::output::Output;
use crate::project::{Project, read_limited};
use crate::setup::{RunSetup, composed, whoami};

/// The largest file of answers or of a task.
const BYTES_MAX: u64 = 4 << 20;

/// Opens a project's engine with every step announced.
pub fn open(project: &Project, by: Option<&str>, output: &Output) -> Result<RunSetup, Failure> {
    RunSetup::open(project, &whoami(by), *output)
}

/// Starts a run and takes it as far as it goes.
pub fn run(project: &Project, options: &RunTask, output: &Output) -> Done {
    let setup = open(project, options.by.as_deref(), output)?;
    let task = read_task(&options.task)?;
    let answers = options.answers.as_deref();
    let chosen =
        Chosen { name: &options.name, variant: options.variant.as_deref(), with: &options.with };
    let run = start(&setup, &chosen, task, options.worktree, answers, Vec::new())?;
    report(&run, output)
}

/// Which loop, and what of it.
pub struct Chosen<'a> {
    /// The loop.
    pub name: &'a str,
    /// Its variant.
    pub variant: Option<&'a str>,
    /// Phases that would be left out.
    pub with: &'a [String],
}

/// The plan of what is chosen, with the rules of all levels, and the digest of its file.
pub fn planned(setup: &RunSetup, chosen: &Chosen<'_>) -> Result<(Plan, Digest), Failure> {
    let name = chosen.name;
    let Some(file) = setup.loops.get(name) else {
        return Err(Failure::new(Code::LoopNotFound, format!("there is no loop `{name}`")));
    };
    let mut plan = file.plan_with(chosen.variant, chosen.with)?;
    plan.governance = composed(&setup.rules, Some(file))?.governance;
    Ok((plan, file.digest))
}

/// Starts a run of a loop.
pub fn start(
    setup: &RunSetup,
    chosen: &Chosen<'_>,
    task: Value,
    worktree: bool,
    answers: Option<&std::path::Path>,
    more: Vec<(String, Value)>,
) -> Result<Run, Failure> {
    let (plan, digest) = planned(setup, chosen)?;
    let mut options: serde_json::Map<String, Value> = more.into_iter().collect();
    if let Some(path) = answers {
        let bytes = read_limited(path, BYTES_MAX)?;
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

/// Takes a run up again.
pub fn resume(project: &Project, options: &Resume, output: &Output) -> Done {
    let setup = open(project, options.by.as_deref(), output)?;
    let trace_id = setup.engine.find(&options.run)?;
    let run = setup.engine.resume(trace_id)?;
    report(&run, output)
}

/// Prints where a run stands; the exit code says it too.
pub fn report(run: &Run, output: &Output) -> Done {
    if output.json {
        output.value(&status::describe(run))?;
    } else {
        status::print_end(run, output);
    }
    // It has passed, whatever becomes of the list that it came from.
    backlog::settle(run, output)?;
    Ok(status::exit(run))
}

/// A task from a file, inline JSON or a sentence.
pub fn read_task(text: &str) -> Result<Value, Failure> {
    let task = match detect_task(text) {
        TaskInput::InlineJson => TaskSpec::from_json(text.as_bytes()),
        TaskInput::Sentence => TaskSpec::from_sentence(text),
        TaskInput::File => {
            let path = std::path::Path::new(text.trim());
            TaskSpec::from_file(&read_limited(path, BYTES_MAX)?)
        }
    };
    Ok(Value::Object(task?.to_object()))
}
