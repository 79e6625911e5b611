//! `windlass export`: writes the files that show a run again, from the journal alone, or its bundle.

use serde_json::json;

use crate::args::Export;
use crate::commands::bundle;
use crate::commands::run::open;
use crate::failure::Done;
use crate::output::Output;
use crate::project::Project;

/// Rewrites a run's files and names them.
pub fn run(project: &Project, options: &Export, output: &Output) -> Done {
    let setup = open(project, None, output)?;
    let trace_id = setup.engine.find(&options.run)?;
    if let Some(file) = &options.bundle {
        return bundle::write(project, &setup, trace_id, file, options.force, output);
    }
    let config = project.settings()?;
    let files = project.shown(&setup.store, &config);
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
