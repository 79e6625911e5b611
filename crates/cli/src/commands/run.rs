//! `windlass run` and `windlass resume`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_driver::executor::INTENT_OPTION;
use windlass_engine::executors::{AGENTS_OPTION, ANSWERS_OPTION, INSTRUCTIONS_OPTION, Script};
use windlass_engine::{Engine, HoldQueue, NewRun};
use windlass_formats::{CheckpointId, TaskInput, TaskSpec, detect_task};
use windlass_journal::{RunFilter, Runs};
use windlass_kernel::run::plan::{Doer, Plan};
use windlass_kernel::run::{Run, checkpoint_name};
use windlass_kernel::{Code, Digest, TraceId, is_git_name};
use windlass_runtime::{Clock as _, SystemClock};

use crate::agents;
use crate::args::{Resume, RunTask};
use crate::commands::{backlog, run_list, status};
use crate::core_run::audits;
use crate::failure::{CommandResult, Failure, exit_of};
use crate::input::{self, unreadable};
use crate::missions;
use crate::output::{Output, sanitize};
use crate::people::{AccountPeople, unreachable_quorums};
use crate::project::{Access, Project};
use crate::readiness::{Clients, require_programs, require_tools};
use crate::run_policy::with_subagents;
use crate::run_settings::put_back;
use crate::setup::{RunSetup, actor_name, compose_rules};

/// How often a waiting process looks at the clock and the stop switch.
const WAIT_TICK: Duration = Duration::from_millis(500);
/// How many files of instructions there may be, and how large each.
const INSTRUCTIONS_MAX: usize = 8;
const INSTRUCTIONS_BYTES_MAX: u64 = 64 << 10;
/// How many runs are looked at for one that left its changes.
const EARLIER_MAX: usize = 5;
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

/// Opens a project's engine to look only, so that its state may be read-only.
pub fn open_to_look(project: &Project, output: &Output) -> Result<RunSetup, Failure> {
    RunSetup::open(project, &actor_name(None), Access::Look, *output)
}

/// Starts a run, or one for each task of a file, and drives it until it ends or waits.
pub fn run(project: &Project, options: &RunTask, output: &Output) -> CommandResult {
    let setup = open(project, options.by.as_deref(), output)?;
    if options.mission.is_none() && !options.set.is_empty() {
        let message = "`--set` gives parameters of a mission, and there is none";
        return Err(Failure::new(Code::RequestInvalid, message).hint("add `--mission NAME`"));
    }
    let run = match (&options.mission, &options.tasks, &options.task) {
        (Some(name), _, _) => run_mission(&setup, options, name, output)?,
        (None, Some(path), _) => return run_list::run_all(&setup, options, path, output),
        (None, None, Some(task)) => run_task(&setup, options, task, output)?,
        (None, None, None) => {
            return Err(Failure::new(Code::RequestInvalid, "there is no task"));
        }
    };
    report(&run, output)
}

/// Takes one task through the loop.
pub(super) fn run_task(
    setup: &RunSetup,
    options: &RunTask,
    task: &str,
    output: &Output,
) -> Result<Run, Failure> {
    let task = read_task(task)?;
    let selection = LoopSelection {
        name: &options.name,
        variant: options.variant.as_deref(),
        with: &options.with,
    };
    let mut more = Vec::new();
    if let Some(intent) = &options.intent {
        let (plan, _) = build_plan(setup, &selection)?;
        if !plan.builtins().any(|name| name == "driver/classify") {
            let message = format!("the tasks of loop `{}` have no intent", options.name);
            return Err(Failure::new(Code::RequestInvalid, message)
                .hint("leave `--intent` out, or add `--loop driver`"));
        }
        if !setup.intents.iter().any(|known| known.eq_ignore_ascii_case(intent.trim())) {
            let message = format!("there is no intent `{intent}`");
            let hint = format!("the intents are {}", setup.intents.join(", "));
            return Err(Failure::new(Code::RequestInvalid, message).hint(hint));
        }
        more.push((INTENT_OPTION.to_owned(), json!(intent)));
    }
    run_selected(setup, options, &selection, task, options.worktree, more, output)
}

/// Takes the task of a mission through its loop.
fn run_mission(
    setup: &RunSetup,
    options: &RunTask,
    name: &str,
    output: &Output,
) -> Result<Run, Failure> {
    let mission = missions::find(&setup.missions, name)?;
    missions::check(mission, &setup.loops)?;
    let (values, task) = missions::task_of(mission, &missions::given_values(&options.set)?)?;
    let recorded = json!({ "name": mission.name, "digest": mission.digest, "parameters": values });
    let more = vec![(missions::OPTION.to_owned(), recorded)];
    let variant = mission.variant.as_deref();
    let selection = LoopSelection { name: &mission.loop_name, variant, with: &mission.with };
    let worktree = options.worktree || mission.worktree;
    run_selected(setup, options, &selection, task, worktree, more, output)
}

/// Takes a task through a loop, with the options of the command.
fn run_selected(
    setup: &RunSetup,
    options: &RunTask,
    selection: &LoopSelection<'_>,
    task: Value,
    worktree: bool,
    mut more: Vec<(String, Value)>,
    output: &Output,
) -> Result<Run, Failure> {
    if !options.agent.is_empty() {
        more.push((AGENTS_OPTION.to_owned(), agents::parse_options(&options.agent)?));
    }
    let answers = options.answers.as_deref();
    let place = Place { worktree, trace_id: options.trace_id };
    let run = start(setup, selection, task, place, answers, more, output)?;
    let run = if options.wait { wait(setup, run, output)? } else { run };
    Ok(put_back(setup, run, output))
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

/// Where a run takes place.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// Whether it has its own work tree.
    pub worktree: bool,
    /// The id of its trace, if it was chosen already.
    pub trace_id: Option<TraceId>,
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
    audits::set(&setup.config.core, name, &mut plan);
    Ok((plan, file.digest))
}

/// Starts a run of a loop.
pub fn start(
    setup: &RunSetup,
    selection: &LoopSelection<'_>,
    task: Value,
    place: Place,
    answers: Option<&std::path::Path>,
    more: Vec<(String, Value)>,
    output: &Output,
) -> Result<Run, Failure> {
    let (plan, digest) = build_plan(setup, selection)?;
    let options = recorded_options(setup, answers, more)?;
    require_programs(&plan)?;
    require_tools(&plan, &setup.tools)?;
    tell_unreachable(&plan, output)?;
    let agents: Vec<String> = plan.agents().map(str::to_owned).collect();
    let chosen = if answers.is_some() { Value::Null } else { options.clone() };
    let new_setup = setup.config.worktree.new_setup();
    let Place { worktree, trace_id } = place;
    let new =
        NewRun { trace_id, worktree, setup: new_setup, options, ..NewRun::new(plan, digest, task) };
    let started = setup.engine.start_if(new, &mut || {
        if answers.is_some() {
            return Ok(());
        }
        require_runners(setup, agents.clone(), &chosen, output).map_err(Failure::into_engine_error)
    });
    started.map_err(|error| left_by_earlier(Failure::from(error), setup))
}

/// Tells at the start which approvals of a loop can never be reached.
fn tell_unreachable(plan: &Plan, output: &Output) -> Result<(), Failure> {
    if !plan.phases.iter().any(|phase| matches!(phase.doer, Doer::Consensus { .. })) {
        return Ok(());
    }
    let people = AccountPeople::open()?.store().all()?;
    unreachable_quorums(plan, &people).iter().for_each(|told| output.note(&sanitize(told)));
    Ok(())
}

/// Fails unless somebody can run each of these agents, and those that they may start.
pub fn require_runners(
    setup: &RunSetup,
    agents: Vec<String>,
    options: &Value,
    output: &Output,
) -> Result<(), Failure> {
    let agents = with_subagents(agents, &setup.subagents);
    let mut clients = Clients::new(&setup.clients, &setup.secrets)?;
    clients.require(&agents, &setup.runners, options, output)
}

/// The options that are recorded with a run: recorded answers and instructions of the repository among them.
pub fn recorded_options(
    setup: &RunSetup,
    answers: Option<&std::path::Path>,
    more: Vec<(String, Value)>,
) -> Result<Value, Failure> {
    let mut options: serde_json::Map<String, Value> = more.into_iter().collect();
    if let Some(path) = answers {
        let bytes = input::read(path, BYTES_MAX)?;
        Script::parse(&bytes).map_err(|error| {
            let message = format!("`{}`: {error}", path.display());
            Failure::new(Code::AnswersInvalid, message)
        })?;
        // As text: thousands of calls take many times their length as values.
        let text = String::from_utf8_lossy(&bytes).into_owned();
        options.insert(ANSWERS_OPTION.to_owned(), Value::String(text));
    }
    let instructions = instructions(setup)?;
    if !instructions.is_empty() {
        options.insert(INSTRUCTIONS_OPTION.to_owned(), Value::Array(instructions));
    }
    Ok(Value::Object(options))
}

/// The repository's own instructions for agents, as they are now: they are recorded with the run.
fn instructions(setup: &RunSetup) -> Result<Vec<Value>, Failure> {
    let files = &setup.config.brief.files;
    if files.len() > INSTRUCTIONS_MAX {
        let message = format!("`brief.files` has more than {INSTRUCTIONS_MAX} files");
        return Err(Failure::new(Code::ConfigInvalid, message)
            .hint("put the instructions into fewer files"));
    }
    let read = |path: &PathBuf| {
        let full = setup.root.join(path);
        let found = full.canonicalize().map_err(|error| unreadable(&full, &error))?;
        if path.is_absolute() || !found.starts_with(&setup.root) {
            let message = format!("`brief.files`: `{}` is not in the project", path.display());
            return Err(Failure::new(Code::PathOutsideWorkspace, message));
        }
        let below = found.strip_prefix(&setup.root).unwrap_or(&found);
        let is_git = below.iter().filter_map(|name| name.to_str()).any(is_git_name);
        if is_git || windlass_workspace::is_secret_file(below.as_os_str().as_encoded_bytes()) {
            let message = format!(
                "`brief.files`: `{}` is `{}`, which usually holds secrets and is not shown to agents",
                path.display(),
                below.display()
            );
            return Err(Failure::new(Code::ConfigInvalid, message)
                .hint("name a file with instructions, that is no link to another one"));
        }
        let bytes = input::read_real(&found, INSTRUCTIONS_BYTES_MAX)?;
        let digest = Digest::of(&bytes);
        let text = String::from_utf8_lossy(&bytes);
        Ok(json!({ "path": path, "digest": digest, "text": text }))
    };
    files.iter().map(read).collect()
}

/// Resumes a run, or all that are due.
pub fn resume(project: &Project, options: &Resume, output: &Output) -> CommandResult {
    let setup = open(project, options.by.as_deref(), output)?;
    let Some(name) = &options.run else { return resume_due(project, &setup, output) };
    let (trace_id, hold) = find_hold(project, &setup, name)?;
    let run = resume_run(project, &setup, trace_id)?;
    let run = if options.wait { wait(&setup, run, output)? } else { run };
    let run = put_back(&setup, run, output);
    if output.json {
        let mut value = status::describe(&run);
        if let Some(object) = value.as_object_mut() {
            object.insert("resumed".to_owned(), json!(true));
            object.insert("checkpoint_id".to_owned(), json!(hold));
        }
        output.value(&value)?;
        backlog::complete_item(&run, output)?;
        return Ok(status::exit(&run));
    }
    report(&run, output)
}

/// Resumes a run; an error says how the files of the run are had again.
pub fn resume_run(project: &Project, setup: &RunSetup, trace_id: TraceId) -> Result<Run, Failure> {
    let run = setup.engine.read(trace_id)?;
    let id = run_id(&run);
    let last = run.checkpoints.last().and_then(|last| {
        let (phase, _) = run.phase(last.phase)?;
        Some(checkpoint_name(last.at, &phase.id, last.version))
    });
    let rollback = last
        .as_ref()
        .map(|last| format!("`windlass checkpoint rollback {id}/{last} --force --reason TEXT`"));
    let tree = run.started.as_ref().and_then(|started| started.worktree.clone());
    let tree = tree.map(|tree| Ok::<_, Failure>(project.state()?.join(tree))).transpose()?;
    if let Some(tree) = tree.filter(|tree| run.ended.is_none() && !tree.exists()) {
        let tree = tree.display();
        let message = format!("the work tree `{tree}` of run `{id}` is gone");
        let mut hint = format!(
            "`git worktree prune`, then `git worktree add {tree} windlass/{id}` make it again"
        );
        if let Some(rollback) = rollback {
            hint.push_str(&format!("; then {rollback} puts the run's files back"));
        }
        return Err(Failure::new(Code::RepoMissing, message).hint(hint));
    }
    setup.engine.resume(trace_id).map_err(|error| {
        let is_dirty = error.code() == Code::RepoDirty;
        let failure = Failure::from(error);
        if !is_dirty {
            return way_out(failure, &id);
        }
        failure.hint(dirty_hint(&id, rollback.as_deref()))
    })
}

/// What helps when files have changed while a run waited. A rollback puts back what the run has written; what people
/// have added it leaves alone.
fn dirty_hint(id: &str, rollback: Option<&str>) -> String {
    let mut hint = format!(
        "move files of your own out of the project and undo your changes to the others, then run `windlass \
         resume {id}` again (a commit or a stash would take the run's own work, too)"
    );
    if let Some(rollback) = rollback {
        hint.push_str(&format!(
            "; for changed files of the run, {rollback} puts them back, keeps the present ones in a snapshot, \
             leaves files of your own where they are, and asks again"
        ));
    }
    hint.push_str(&format!("; or give the run up: `windlass cancel {id} --reason TEXT`"));
    hint
}

/// Names the commands that help with a run that cannot be resumed.
fn way_out(failure: Failure, id: &str) -> Failure {
    if failure.code() == Code::RepoMoved {
        return failure.hint(format!(
            "switch back to the run's branch, at the commit where the run left it, or give the run up: `windlass \
             cancel {id} --reason TEXT`"
        ));
    }
    if failure.code() == Code::PolicyChangedMidRun {
        return failure.hint(format!(
            "start a new run under the new policy; `windlass close {id} --restore` puts the files back first, if \
             this run has changed any"
        ));
    }
    failure
}

/// Names the command that puts back what an earlier run left, if the workspace is refused because of changes.
fn left_by_earlier(failure: Failure, setup: &RunSetup) -> Failure {
    if failure.code() != Code::RepoDirty {
        return failure;
    }
    let filter = RunFilter { open_only: false, state: None, limit: EARLIER_MAX };
    let runs = Runs::new(Arc::clone(&setup.store));
    let found = runs.list(&filter).unwrap_or_default();
    let mut earlier = found.iter().filter_map(|one| runs.read(one.trace.head.trace_id).ok());
    match earlier.find(|run| Engine::start_of_failed(run).is_some()) {
        Some(run) => failure.hint(format!(
            "if run `{id}` left these changes, `windlass close {id} --restore` puts the files back; otherwise \
             commit, stash or remove what `git status` lists",
            id = run_id(&run)
        )),
        None => failure,
    }
}

/// Finds a run by what a person calls it, and the id of the hold that it waits at. The id of a hold that it does not
/// wait at is refused: what was decided is not what waits now.
pub fn find_hold(
    project: &Project,
    setup: &RunSetup,
    name: &str,
) -> Result<(TraceId, Option<String>), Failure> {
    let trace_id = setup.engine.find(name)?;
    let files = project.run_files(&setup.store, &setup.config);
    let hold = files.hold_id(trace_id)?.map(|id| id.to_string());
    if name.parse::<CheckpointId>().is_ok() && hold.as_deref() != Some(name) {
        let message = match &hold {
            Some(now) => format!("the run does not wait at `{name}` any more, but at `{now}`"),
            None => format!("the run does not wait at `{name}`"),
        };
        return Err(Failure::new(Code::HoldStale, message)
            .hint("`windlass queue list` lists what waits now"));
    }
    Ok((trace_id, hold))
}

/// Resumes a run each time its agent can be tried again.
fn wait(setup: &RunSetup, mut run: Run, output: &Output) -> Result<Run, Failure> {
    while let Some(due) = run.due() {
        let id = run_id(&run);
        let question =
            run.hold.as_ref().map(|hold| sanitize(&hold.held.question)).unwrap_or_default();
        output.note(&format!("{id} waits until {due}: {question}"));
        while SystemClock.now() < due {
            setup.engine.require_not_stopped(&run)?;
            std::thread::sleep(WAIT_TICK);
        }
        run = setup.engine.resume(run.head.trace_id)?;
    }
    Ok(run)
}

/// Resumes the runs whose agent can be tried again. One that cannot be resumed does not keep the others waiting.
fn resume_due(project: &Project, setup: &RunSetup, output: &Output) -> CommandResult {
    let now = SystemClock.now();
    let mut code = 0;
    let mut values = Vec::new();
    let queue = HoldQueue::read(&project.runs()?, usize::MAX)?;
    for (name, error) in queue.damaged {
        code = exit_of(error.code());
        output.note(&format!("{name}: {error} [{}]", error.code()));
    }
    for waiting in queue.waiting {
        if waiting.run.due().is_none_or(|due| due > now) {
            continue;
        }
        let resumed = setup.engine.resume(waiting.trace_id);
        match resumed.map(|run| put_back(setup, run, output)) {
            Ok(run) if output.json => values.push(status::describe(&run)),
            Ok(run) => {
                status::print_end(&run, output);
                backlog::complete_item(&run, output)?;
            }
            Err(error) => {
                let failure = Failure::from(error);
                code = failure.exit();
                output.note(&format!("{}: {}", run_id(&waiting.run), failure.summary()));
            }
        }
    }
    if output.json {
        output.value(&values)?;
    }
    Ok(code)
}

fn run_id(run: &Run) -> String {
    run.started.as_ref().map(|started| started.run_id.clone()).unwrap_or_default()
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
