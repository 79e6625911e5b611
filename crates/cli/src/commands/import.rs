//! `windlass import`: continues a run that another program began.

use serde_json::{Value, json};
use windlass_engine::NewRun;
use windlass_formats::{V1_BYTES_MAX, V1State};
use windlass_kernel::Code;

use crate::args::Import;
use crate::commands::run::{LoopSelection, build_plan, open, read_task, report};
use crate::failure::{CommandResult, Failure};
use crate::input;
use crate::output::{Output, sanitize};
use crate::project::Project;

/// Runs a subcommand of `import`.
pub fn run(project: &Project, command: &Import, output: &Output) -> CommandResult {
    let Import::V1 { file, name, variant, task, by } = command;
    let limit = u64::try_from(V1_BYTES_MAX).unwrap_or(u64::MAX);
    let bytes = input::read(file, limit)?;
    let state = V1State::read(&bytes)
        .map_err(|error| Failure::new(error.code(), format!("`{}`: {error}", file.display())))?;
    let setup = open(project, by.as_deref(), output)?;
    let selection = LoopSelection { name, variant: variant.as_deref(), with: &[] };
    let (plan, digest) = build_plan(&setup, &selection)?;
    let task = match task {
        Some(task) => read_task(task)?,
        None => task_from_state(&state)?,
    };
    let mut new = NewRun::new(plan, digest, task);
    new.options = json!({ "imported": { "v1": state.more } });
    let imported = setup.engine.import_v1(&state, new)?;
    if !output.json {
        for path in &imported.missing {
            output.note(&format!("`{}` is listed in the state file but missing", sanitize(path)));
        }
        if !imported.presumed.is_empty() {
            let names = sanitize(&imported.presumed.join(", "));
            output.note(&format!("assumed complete, because later phases are: {names}"));
        }
    }
    report(&imported.run, output)
}

/// The task that the state file names.
fn task_from_state(state: &V1State) -> Result<Value, Failure> {
    let words = ["task", "goal", "description", "name", "project_name"]
        .iter()
        .find_map(|key| state.more.get(*key).and_then(Value::as_str))
        .filter(|text| !text.trim().is_empty());
    match words {
        Some(words) => read_task(words),
        None => Err(Failure::new(
            Code::ImportInvalid,
            "the state file names no task; pass one with --task",
        )),
    }
}
