//! `windlass telemetry`: sends runs to an OpenTelemetry collector again.

use serde_json::json;
use windlass_journal::RunFilter;
use windlass_kernel::Code;
use windlass_kernel::run::RunName;

use crate::args::Telemetry;
use crate::commands::run::open_to_read;
use crate::failure::{CommandResult, Failure};
use crate::output::Output;
use crate::project::Project;
use crate::telemetry::Collector;

/// Runs a subcommand of `telemetry`.
pub fn run(project: &Project, command: &Telemetry, output: &Output) -> CommandResult {
    let Telemetry::Push { run } = command;
    let setup = open_to_read(project, None, output)?;
    // An address that the environment names is the user's own.
    let Some(collector) = Collector::find(&setup.config)? else {
        let files = project.files()?;
        if Project::config(&files)?.telemetry.endpoint.is_some() {
            project.require_trust(&files)?;
        }
        let message = "no collector is configured";
        return Err(Failure::new(Code::ConfigInvalid, message).hint(
            "set `[telemetry] endpoint` in `.windlass/config.toml`, or OTEL_EXPORTER_OTLP_ENDPOINT",
        ));
    };
    let ids = match run {
        Some(name) => vec![setup.engine.find(name)?],
        None => {
            let all = RunFilter { open_only: false, state: None, limit: usize::MAX };
            let all = setup.engine.list(&all)?;
            all.iter().rev().map(|found| found.trace.head.trace_id).collect()
        }
    };
    let mut worst = 0;
    let mut sent = Vec::new();
    for trace_id in ids {
        let name = RunName::of(trace_id).to_string();
        match collector.send(setup.store.as_ref(), trace_id, None) {
            Ok(spans) if output.json => sent.push(json!({ "run_id": name, "spans": spans })),
            Ok(spans) => output.line(&format!("sent {name}, {spans} spans")),
            // An unreadable run does not prevent sending the others.
            Err(failure) if run.is_none() && failure.code() != Code::TelemetryUnavailable => {
                output.note(&format!("{name} was not sent: {}", failure.summary()));
                worst = worst.max(failure.exit());
            }
            Err(failure) => return Err(failure),
        }
    }
    if output.json {
        output.value(&sent)?;
    }
    Ok(worst)
}
