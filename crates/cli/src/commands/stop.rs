//! `windlass stop`: the switch that stops runs before their next effect.

use serde_json::json;
use windlass_engine::StopRequest;

use crate::args::StopRuns;
use crate::commands::run::open;
use crate::failure::Done;
use crate::output::Output;
use crate::project::Project;
use crate::workshop::whoami;

/// Stops a run or all of them, or lets them go on.
pub fn run(project: &Project, options: &StopRuns, output: &Output) -> Done {
    let shop = open(project, options.by.as_deref(), output)?;
    let run = match &options.run {
        Some(name) => {
            let run = shop.engine.read(shop.engine.find(name)?)?;
            run.started.as_ref().map(|started| started.run_id.clone())
        }
        None => None,
    };
    let switch = shop.engine.stop_switch();
    let what = run.as_deref().unwrap_or("all runs");
    if options.clear {
        let was_on = switch.clear(run.as_deref())?;
        if output.json {
            output.value(&json!({ "stopped": false, "was_stopped": was_on }))?;
        } else if was_on {
            output.line(&format!("{what}: may go on"));
        } else {
            output.line(&format!("{what}: was not stopped"));
        }
        return Ok(0);
    }
    let by = whoami(options.by.as_deref());
    switch.request(run.as_deref(), &StopRequest { by, reason: options.reason.clone() })?;
    if output.json {
        output.value(&json!({ "stopped": true }))?;
    } else {
        output.line(&format!("{what}: stopped before the next effect"));
        if run.is_none() {
            output.line("no run starts until: windlass stop --clear");
        }
    }
    Ok(0)
}
