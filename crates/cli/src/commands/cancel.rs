//! `windlass cancel`: gives a run up.

use windlass_engine::Cancellation;

use crate::args::Cancel;
use crate::commands::run::open_to_read;
use crate::commands::status;
use crate::failure::CommandResult;
use crate::output::{Output, sanitize};
use crate::project::Project;
use crate::setup::actor_name;

/// Ends a run that has not ended.
pub fn run(project: &Project, options: &Cancel, output: &Output) -> CommandResult {
    let by = actor_name(options.by.as_deref());
    let setup = open_to_read(project, Some(&by), output)?;
    let trace_id = setup.engine.find(&options.run)?;
    match setup.engine.cancel(trace_id, &by, &options.reason)? {
        Cancellation::Ended(run) if output.json => output.value(&status::describe(&run))?,
        Cancellation::Requested(run) if output.json => output.value(&status::describe(&run))?,
        Cancellation::Ended(run) => status::print_end(&run, output),
        Cancellation::Requested(_) => {
            output.line(&format!("{}: will end before its next effect", sanitize(&options.run)));
        }
    }
    Ok(0)
}
