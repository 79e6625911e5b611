//! `windlass export`: rewrites a run's files from the journal, or writes its bundle.

use serde_json::json;

use crate::args::Export;
use crate::commands::bundle;
use crate::commands::run::open_to_read;
use crate::failure::CommandResult;
use crate::output::Output;
use crate::project::Project;

/// Rewrites a run's files and lists them.
pub fn run(project: &Project, options: &Export, output: &Output) -> CommandResult {
    let setup = open_to_read(project, None, output)?;
    let trace_id = setup.engine.find(&options.run)?;
    if let Some(file) = &options.bundle {
        return bundle::write(project, &setup, trace_id, file, options.force, output);
    }
    let files = project.run_files(&setup.store, &setup.config);
    let written = files.rebuild(trace_id)?;
    if output.json {
        output.value(&json!({ "files": written }))?;
    } else {
        for path in &written {
            output.line(&path.display().to_string());
        }
    }
    Ok(0)
}
