//! `windlass mission`: the missions of a project.

use std::path::Path;

use serde_json::{Value, json};
use windlass_loops::{MissionFile, Parameter};

use crate::args::MissionCommand;
use crate::failure::CommandResult;
use crate::input;
use crate::missions::{check, find, missions};
use crate::output::{Output, Style, sanitize};
use crate::project::{FILE_BYTES_MAX, Project};
use crate::setup::{agents, loops};

/// Runs a subcommand of `mission`.
pub fn run(named: Option<&Path>, command: &MissionCommand, output: &Output) -> CommandResult {
    let files = Project::find(named)?.files()?;
    match command {
        MissionCommand::List => {
            let missions = missions(&files)?;
            if output.json {
                output.value(&missions.values().map(describe).collect::<Vec<_>>())?;
                return Ok(0);
            }
            if missions.is_empty() {
                output.line("no missions");
                return Ok(0);
            }
            let row = |file: &MissionFile| {
                vec![
                    (file.name.clone(), Some(Style::Bold)),
                    (file.loop_name.clone(), None),
                    (names(file), Some(Style::Faint)),
                    (sanitize(&file.description), None),
                ]
            };
            let rows: Vec<_> = missions.values().map(row).collect();
            output.table(&["MISSION", "LOOP", "PARAMETERS", "DESCRIPTION"], &rows);
            Ok(0)
        }
        MissionCommand::Show { name } => {
            let missions = missions(&files)?;
            let file = find(&missions, name)?;
            if output.json {
                output.value(&describe(file))?;
            } else {
                print(file, output);
            }
            Ok(0)
        }
        MissionCommand::Check { files: named } => {
            let loops = loops(&files, &agents(&files)?)?;
            let mut checked = Vec::new();
            if named.is_empty() {
                checked.extend(missions(&files)?.into_values());
            }
            for path in named {
                let bytes = input::read(path, FILE_BYTES_MAX)?;
                checked.push(MissionFile::parse(&path.display().to_string(), &bytes)?);
            }
            checked.iter().try_for_each(|mission| check(mission, &loops))?;
            if output.json {
                output.value(&json!({ "checked": checked.len(), "valid": true }))?;
            } else {
                output.line(&format!("valid missions: {}", checked.len()));
            }
            Ok(0)
        }
    }
}

/// The names of the parameters; those that may be left out in brackets.
fn names(file: &MissionFile) -> String {
    let name = |(name, parameter): (&String, &Parameter)| match parameter.default {
        Some(_) => format!("[{name}]"),
        None => name.clone(),
    };
    file.parameters.iter().map(name).collect::<Vec<_>>().join(" ")
}

fn describe(file: &MissionFile) -> Value {
    let parameter = |(name, parameter): (&String, &Parameter)| {
        json!({
            "name": name, "description": parameter.description, "default": parameter.default,
            "required": parameter.default.is_none(),
        })
    };
    json!({
        "name": file.name,
        "description": file.description,
        "loop": file.loop_name,
        "variant": file.variant,
        "with": file.with,
        "worktree": file.worktree,
        "parameters": file.parameters.iter().map(parameter).collect::<Vec<_>>(),
        "task": file.task,
        "digest": file.digest,
    })
}

fn print(file: &MissionFile, output: &Output) {
    output.line(&output.paint(&sanitize(&file.name), Style::Bold));
    output.line(&format!("  about    {}", sanitize(&file.description)));
    let variant = file.variant.as_ref().map(|name| format!(", variant {name}")).unwrap_or_default();
    output.line(&format!("  loop     {}{variant}", file.loop_name));
    if !file.with.is_empty() {
        output.line(&format!("  with     {}", file.with.join(", ")));
    }
    for (name, parameter) in &file.parameters {
        let about = parameter.description.as_deref().map(sanitize).unwrap_or_default();
        let default = match &parameter.default {
            Some(default) => format!(" [default: {}]", sanitize(default)),
            None => String::new(),
        };
        output.line(format!("  set      {name}  {about}{default}").trim_end());
    }
    output.line(&format!("  digest   {}", file.digest));
    let task = file.task.get("task").and_then(Value::as_str).unwrap_or_default();
    output.line("");
    for line in task.lines() {
        output.line(&sanitize(line));
    }
}
