//! `windlass memory`: what is remembered across sessions.

use serde_json::json;
use windlass_memory::{NewMemory, TEXT_BYTES_MAX};

use crate::args::MemoryCommand;
use crate::commands::text_or_input;
use crate::failure::CommandResult;
use crate::memory::memory;
use crate::output::{Output, Style, sanitize};
use crate::part::Part;
use crate::project::Project;

/// Runs a subcommand of `memory`.
pub fn run(project: &Project, command: &MemoryCommand, output: &Output) -> CommandResult {
    let memory = memory(project, &project.settings()?)?;
    match command {
        MemoryCommand::Search { query, limit } => {
            let hits = memory.retrieve(query, *limit)?;
            if output.json {
                output.value(&hits)?;
                return Ok(0);
            }
            if hits.is_empty() {
                output.line("nothing was found");
            }
            for hit in hits {
                let tags = hit.tags.iter().map(|tag| format!(" #{tag}")).collect::<String>();
                let source = sanitize(&format!("{}{tags}", hit.source));
                output.line(&output.paint(&source, Style::Bold));
                for line in hit.text.lines() {
                    output.line(&format!("    {}", sanitize(line)));
                }
            }
        }
        MemoryCommand::Add { text, tag } => {
            let given = text_or_input(text, TEXT_BYTES_MAX)?;
            // What is remembered is given to agents, and to whatever server keeps it.
            let text =
                project.supervisor(Part::Whole, &project.files()?)?.redactor().redacted(&given);
            if text != given {
                output.note("what looks like a secret was left out");
            }
            let id = memory.store(&NewMemory { text, source: None, tags: tag.clone() })?;
            if output.json {
                output.value(&json!({ "id": id }))?;
            } else {
                output.line(format!("stored {}", sanitize(&id)).trim_end());
            }
        }
    }
    Ok(0)
}
