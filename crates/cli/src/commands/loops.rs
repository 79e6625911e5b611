//! `windlass loop`: the loops of a project, or those that a new one gets.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use windlass_kernel::Code;
use windlass_loops::draw;
use windlass_policy::PolicySet;

use crate::args::{Draw, Loop};
use crate::commands::init;
use crate::commands::verify::count;
use crate::failure::{CommandResult, Failure};
use crate::input;
use crate::output::{Output, Style, sanitize};
use crate::project::{FILE_BYTES_MAX, Project};
use crate::readiness::{called_tools, require_tools, tool_names};
use crate::setup::{agents, builtins, compose_rules, loops, rules};

/// Runs a subcommand of `loop`.
pub fn run(named: Option<&Path>, command: &Loop, output: &Output) -> CommandResult {
    let files = files(named)?;
    let agents = agents(&files)?;
    match command {
        Loop::List => {
            let loops = loops(&files, &agents)?;
            if output.json {
                let values: Vec<_> = loops
                    .values()
                    .map(|file| {
                        json!({
                            "id": file.id, "title": file.title, "type": file.kind.as_str(),
                            "category": file.category, "version": file.version,
                            "phases": file.plan.phases.len(), "digest": file.digest,
                            "variants": file.variants.keys().collect::<Vec<_>>(),
                        })
                    })
                    .collect();
                output.value(&values)?;
                return Ok(0);
            }
            let rows: Vec<_> = loops
                .values()
                .map(|file| {
                    vec![
                        (file.id.clone(), Some(Style::Bold)),
                        (file.plan.phases.len().to_string(), None),
                        (file.category.clone(), Some(Style::Faint)),
                        (sanitize(&file.title), None),
                        (variants(file), Some(Style::Faint)),
                    ]
                })
                .collect();
            output.table(&["LOOP", "PHASES", "CATEGORY", "TITLE", "VARIANTS"], &rows);
            Ok(0)
        }
        Loop::Show { name, variant, with, draw } => {
            let loops = loops(&files, &agents)?;
            let Some(file) = loops.get(name) else {
                return Err(Failure::new(Code::LoopNotFound, format!("there is no loop `{name}`")));
            };
            let plan = file.plan_with(variant.as_deref(), with)?;
            if output.json {
                output.value(&json!({ "id": file.id, "plan": plan, "digest": file.digest }))?;
                return Ok(0);
            }
            let text = match draw {
                Draw::Text => {
                    let colours = if output.is_coloured() {
                        draw::Colours::Ansi
                    } else {
                        draw::Colours::None
                    };
                    draw::text(&plan, colours)
                }
                Draw::Mermaid => draw::mermaid(&plan),
                Draw::Svg => draw::svg(&plan),
            };
            output.bytes(text.as_bytes());
            Ok(0)
        }
        Loop::Check { files: named } if named.is_empty() => {
            let loops = loops(&files, &agents)?;
            let rules = rules(&files)?;
            for file in loops.values() {
                compose_rules(&rules, Some(file))?;
                check_tools(file, &files)?;
            }
            if output.json {
                output.value(&json!({ "loops": loops.keys().collect::<Vec<_>>() }))?;
            } else {
                let ok = output.paint("ok:", Style::Good);
                output.line(&format!("{ok} {}", count(loops.len(), "loop", "loops")));
            }
            Ok(0)
        }
        Loop::Check { files: named } => {
            let (names, builtins) = (agents.keys().cloned().collect(), builtins());
            let known = windlass_loops::KnownNames { agents: &names, builtins: &builtins };
            let rules = rules(&files)?;
            for path in named {
                let bytes = input::read(path, FILE_BYTES_MAX)?;
                let file =
                    windlass_loops::LoopFile::parse(&path.display().to_string(), &bytes, &known)?;
                compose_rules(&rules, Some(&file))?;
                check_tools(&file, &files)?;
                if output.json {
                    output.value(
                        &json!({ "file": path, "id": file.id, "phases": file.plan.phases.len() }),
                    )?;
                } else {
                    let phases = count(file.plan.phases.len(), "phase", "phases");
                    let ok = output.paint("ok:", Style::Good);
                    output.line(&format!("{ok} {}: {phases}", path.display()));
                }
            }
            Ok(0)
        }
    }
}

/// The files of the project; outside of one, those that a new project gets.
fn files(named: Option<&Path>) -> Result<BTreeMap<String, Vec<u8>>, Failure> {
    match Project::find(named) {
        Ok(project) => project.files(),
        Err(failure) if failure.code() == Code::ProjectMissing && named.is_none() => {
            Ok(init::shipped_files())
        }
        Err(failure) => Err(failure),
    }
}

/// Fails if a loop calls a tool that is not registered.
fn check_tools(
    file: &windlass_loops::LoopFile,
    files: &BTreeMap<String, Vec<u8>>,
) -> Result<(), Failure> {
    if called_tools(&file.plan).next().is_none() {
        return Ok(());
    }
    require_tools(&file.plan, &tool_names(&PolicySet::load(files)?))
}

/// The names of a loop's variants.
fn variants(file: &windlass_loops::LoopFile) -> String {
    file.variants.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}
