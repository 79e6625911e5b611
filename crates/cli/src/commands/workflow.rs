//! `windlass workflow`: the workflows of the core loop.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_kernel::Code;
use windlass_loops::{Gate, PlannedStep, WorkflowFile, Workflows, render_plan};

use crate::args::WorkflowCommand;
use crate::failure::{CommandResult, Failure};
use crate::output::{Output, Style, sanitize};
use crate::project::Project;
use crate::workflows::{Origin, load, load_folder};

/// Runs a subcommand of `workflow`.
pub fn run(project: &Project, command: &WorkflowCommand, output: &Output) -> CommandResult {
    match command {
        WorkflowCommand::List => {
            let (workflows, origin) = load(&project.files()?)?;
            list(&workflows, origin, output)
        }
        WorkflowCommand::Show { id, plan } => {
            let (workflows, origin) = load(&project.files()?)?;
            show(&workflows, origin, id, *plan, output)
        }
        WorkflowCommand::Check { folder: Some(folder) } => checked(&load_folder(folder)?, output),
        WorkflowCommand::Check { folder: None } => checked(&load(&project.files()?)?.0, output),
    }
}

fn names(gates: &BTreeSet<Gate>) -> Vec<&'static str> {
    gates.iter().map(|gate| gate.as_str()).collect()
}

/// What lists and pages have in common, and the members in which they differ.
fn value<const N: usize>(
    file: &WorkflowFile,
    origin: Origin,
    more: [(&'static str, Value); N],
) -> serde_json::Map<String, Value> {
    let common = [
        ("id", json!(file.id)),
        ("title", json!(file.title)),
        ("category", json!(file.category.as_str())),
        ("gates", json!(names(&file.gates))),
        ("dependencies", json!(file.dependencies)),
        ("digest", json!(file.digest)),
        ("origin", json!(origin.as_str())),
    ];
    common.into_iter().chain(more).map(|(name, value)| (name.to_owned(), value)).collect()
}

fn list(workflows: &Workflows, origin: Origin, output: &Output) -> CommandResult {
    let files = workflows.files();
    if output.json {
        let values: Vec<_> = files
            .values()
            .map(|file| value(file, origin, [("steps", json!(file.steps.len()))]))
            .collect();
        output.value(&values)?;
        return Ok(0);
    }
    let rows: Vec<_> = files
        .values()
        .map(|file| {
            vec![
                (file.id.clone(), Some(Style::Bold)),
                (file.steps.len().to_string(), None),
                (file.category.as_str().to_owned(), Some(Style::Faint)),
                (sanitize(&file.title), None),
                (names(&file.gates).join(", "), Some(Style::Faint)),
            ]
        })
        .collect();
    output.table(&["WORKFLOW", "STEPS", "CATEGORY", "TITLE", "GATES"], &rows);
    Ok(0)
}

fn show(
    workflows: &Workflows,
    origin: Origin,
    id: &str,
    only_plan: bool,
    output: &Output,
) -> CommandResult {
    let parts = (workflows.files().get(id), workflows.compose(id), workflows.gates(id));
    let (Some(file), Some(steps), Some(gates)) = parts else {
        let message = format!("there is no workflow `{id}`");
        return Err(Failure::new(Code::LoopNotFound, message)
            .hint("`windlass workflow list` lists the workflows"));
    };
    if output.json {
        let steps: Value = steps.iter().map(step_value).collect();
        if only_plan {
            output.value(&json!({ "id": file.id, "steps": steps }))?;
        } else {
            let gates = json!(names(&gates));
            let more = [("all_gates", gates), ("steps", steps), ("body", json!(file.body))];
            output.value(&value(file, origin, more))?;
        }
        return Ok(0);
    }
    if only_plan {
        print(&render_plan(&steps), output);
        return Ok(0);
    }
    let name = output.paint(&file.id, Style::Bold);
    output.line(&format!("{name}: {}", sanitize(&file.title)));
    output.line(&format!("category: {}", file.category.as_str()));
    output.line(&format!("gates: {}\n", names(&gates).join(", ")));
    let rows: Vec<_> = steps
        .iter()
        .map(|step| {
            vec![
                (step.id.clone(), Some(Style::Bold)),
                (step.workflow.clone(), Some(Style::Faint)),
                (sanitize(&step.name), None),
            ]
        })
        .collect();
    output.table(&["STEP", "WORKFLOW", "NAME"], &rows);
    output.line("");
    print(file.body.trim(), output);
    Ok(0)
}

fn step_value(step: &PlannedStep) -> Value {
    json!({
        "id": step.id, "name": step.name, "description": step.description,
        "workflow": step.workflow, "depth": step.depth,
    })
}

/// Prints text of a file, line by line.
fn print(text: &str, output: &Output) {
    text.lines().for_each(|line| output.line(&sanitize(line)));
}

fn checked(workflows: &Workflows, output: &Output) -> CommandResult {
    let ids: Vec<&String> = workflows.files().keys().collect();
    if output.json {
        output.value(&json!({ "workflows": ids }))?;
    } else {
        let ok = output.paint("ok:", Style::Good);
        output.line(&format!("{ok} {} workflows", ids.len()));
    }
    Ok(0)
}
