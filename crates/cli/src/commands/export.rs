//! `windlass export`: rewrites a run's files from the journal, writes its bundle, or prints a call in another form.

use std::ops::ControlFlow;

use serde_json::json;
use windlass_formats::tga;
use windlass_journal::{Check, JournalError, Reader};
use windlass_kernel::{Call, Code};

use crate::args::{Export, ExportForm};
use crate::commands::run::open_to_read;
use crate::commands::{bundle, trace_id};
use crate::failure::{CommandResult, Failure};
use crate::output::Output;
use crate::project::Project;

/// Rewrites a run's files and lists them.
pub fn run(project: &Project, options: &Export, output: &Output) -> CommandResult {
    if let Some(ExportForm::Tga) = options.form {
        return tga(project, &options.run, output);
    }
    let setup = open_to_read(project, None, output)?;
    let trace_id = setup.engine.find(&options.run)?;
    if let Some(file) = &options.bundle {
        return bundle::write(project, &setup, trace_id, file, options, output);
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

/// Prints a call with upstream ids.
fn tga(project: &Project, call: &str, output: &Output) -> CommandResult {
    let id = trace_id(call).map_err(|failure| failure.hint(CALL_HINT))?;
    let store = project.store_to_read(&project.settings()?)?;
    let mut records = Vec::new();
    let mut reader = Reader::<Call>::new(id, Check::Verified);
    let read = reader.for_each(&store, &mut |step| {
        records.push((step.entry.clone(), step.artifact.clone()));
        ControlFlow::Continue(())
    });
    read.map_err(|error| {
        let is_no_call = matches!(error, JournalError::WrongMachine { .. });
        let failure = Failure::from(error);
        if is_no_call { failure.hint(CALL_HINT) } else { failure }
    })?;
    let document = tga::write(&records).map_err(|error| Failure::of(Code::Internal, &error))?;
    output.value(&document)?;
    Ok(0)
}

/// The hint for an argument that is not a call.
const CALL_HINT: &str = "`windlass call list` lists the calls with their ids";
