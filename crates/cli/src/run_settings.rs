//! What becomes of the files of runs that did not pass.

use serde::Deserialize;
use windlass_engine::Engine;
use windlass_kernel::run::Run;

use crate::output::{Output, sanitize};
use crate::setup::RunSetup;

/// The settings of runs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunSettings {
    /// Whether the files of a run that did not pass are put back to how they were at its start.
    pub put_back: bool,
}

/// Puts the files of a run that did not pass back, if the project's settings say so.
pub fn put_back(setup: &RunSetup, run: Run, output: &Output) -> Run {
    if !setup.config.runs.put_back || Engine::start_of_failed(&run).is_none() {
        return run;
    }
    match setup.engine.put_back(run.head.trace_id, setup.engine.actor()) {
        Ok(run) => {
            output
                .note("the files are as they were before the run; its work is in its checkpoints");
            run
        }
        // The run has ended all the same, and says how to put them back.
        Err(error) => {
            let why = sanitize(&error.to_string());
            output.note(&format!("the files were not put back: {why} [{}]", error.code()));
            run
        }
    }
}
