//! `windlass recover`.

use serde_json::{Value, json};
use windlass_engine::RecoveredRun;
use windlass_journal::JournalError;
use windlass_kernel::Code;
use windlass_kernel::recovery::RecoveryPlan;
use windlass_kernel::run::RunName;
use windlass_runtime::{Gateway, GatewayError, RecoveredCall, Recovery};
use windlass_views::RunSummary;

use crate::args::Recover;
use crate::commands::{backlog, call, status, trace_id};
use crate::failure::{CommandResult, Failure, exit_of};
use crate::output::{Output, Style, sanitize};
use crate::project::{Access, Project};
use crate::run_settings::put_back;
use crate::setup::RunSetup;
use crate::user_config::UserConfig;

/// Recovers one trace, or all that are open.
pub fn run(project: &Project, options: &Recover, output: &Output) -> CommandResult {
    if let Some(name) = &options.trace
        && let Some(done) = one_run(project, name, output)?
    {
        return Ok(done);
    }
    let gateway = project.gateway(Access::Act)?;
    let sandbox = UserConfig::load()?.sandbox(&project.state()?.join("cells"))?;
    let left = sandbox.settle();
    for line in left.map_err(|why| Failure::new(Code::SandboxUnavailable, why))? {
        output.note(&line);
    }
    if let Some(id) = &options.trace {
        let recovery = gateway.recover(trace_id(id)?)?;
        if output.json {
            output.value(&recovery)?;
        } else {
            call::print(&recovery.report, output)?;
        }
        return Ok(call::exit(&recovery.report));
    }
    let (all, interrupted_call) = split_calls(gateway.recover_all()?);
    // A signal during the calls leaves the runs for the next time.
    let (runs, interrupted_run) = match interrupted_call {
        Some(_) => (Vec::new(), None),
        None => {
            let setup = super::run::open(project, None, output)?;
            let (runs, interrupted) = split_runs(setup.engine.recover()?);
            (runs.into_iter().map(|run| settled(&setup, run, output)).collect(), interrupted)
        }
    };
    let interrupted = interrupted_call.or(interrupted_run);
    if output.json {
        let mut values: Vec<Value> = all.iter().map(describe).collect();
        values.extend(runs.iter().map(describe_run));
        output.value(&values)?;
    } else if all.is_empty() && runs.is_empty() && interrupted.is_none() {
        output.line("nothing to recover");
    } else {
        for recovered in &all {
            print(recovered, output)?;
        }
        for run in &runs {
            print_run(run, output);
        }
    }
    for run in runs.iter().filter_map(|recovered| recovered.result.as_ref().ok()) {
        backlog::complete_item(run, output)?;
    }
    if let Some(failure) = interrupted {
        return Err(failure);
    }
    let codes = all.iter().map(exit_of_call).chain(runs.iter().map(exit_of_run));
    Ok(worst(codes))
}

/// Takes the first call that a signal ended out of the results: it ends the command. What was not begun any
/// more is no result.
fn split_calls(all: Vec<RecoveredCall>) -> (Vec<RecoveredCall>, Option<Failure>) {
    let mut interrupted = None;
    let mut others = Vec::new();
    for recovered in all {
        match recovered.result {
            Err(error) if error.code() == Code::Interrupted => {
                interrupted.get_or_insert_with(|| Failure::from(error));
            }
            result => others.push(RecoveredCall { result, ..recovered }),
        }
    }
    (others, interrupted)
}

/// As [`split_calls`], for runs.
fn split_runs(all: Vec<RecoveredRun>) -> (Vec<RecoveredRun>, Option<Failure>) {
    let mut interrupted = None;
    let mut others = Vec::new();
    for recovered in all {
        match recovered.result {
            Err(error) if error.code() == Code::Interrupted => {
                interrupted.get_or_insert_with(|| Failure::from(error));
            }
            result => others.push(RecoveredRun { result, ..recovered }),
        }
    }
    (others, interrupted)
}

/// A recovered run whose files are put back, if it has ended without passing and the settings say so.
fn settled(setup: &RunSetup, recovered: RecoveredRun, output: &Output) -> RecoveredRun {
    let result = recovered.result.map(|run| put_back(setup, run, output));
    RecoveredRun { result, ..recovered }
}

/// Recovers one run, if `name` is a run id or the trace of a run.
fn one_run(project: &Project, name: &str, output: &Output) -> Result<Option<u8>, Failure> {
    let setup = super::run::open(project, None, output)?;
    let engine = &setup.engine;
    let trace_id = match engine.find(name) {
        Ok(trace_id) => trace_id,
        // A run id cannot be the trace of a call.
        Err(error) if name.parse::<RunName>().is_ok() => return Err(error.into()),
        Err(_) => return Ok(None),
    };
    let recovered = engine.recover_one(trace_id);
    let recovered = match recovered.result {
        Err(error) if error.code() == Code::Interrupted => return Err(error.into()),
        result => settled(&setup, RecoveredRun { result, ..recovered }, output),
    };
    if output.json {
        output.value(&describe_run(&recovered))?;
    } else {
        print_run(&recovered, output);
    }
    if let Ok(run) = &recovered.result {
        backlog::complete_item(run, output)?;
    }
    Ok(Some(exit_of_run(&recovered)))
}

/// Recovers interrupted calls before a new call, and reports them.
pub fn at_start(gateway: &Gateway, output: &Output) {
    match gateway.recover_interrupted() {
        Ok(all) => {
            for recovered in &all {
                let (id, what) = (recovered.trace_id, sanitize(&what_happened(recovered)));
                output.note(&format!("recovered {id}: {what}"));
            }
        }
        Err(error) => output.note(&format!("interrupted calls were not recovered: {error}")),
    }
}

fn what_happened(recovered: &RecoveredCall) -> String {
    match &recovered.result {
        Ok(Recovery { plan, report }) => match (&report.hold, plan) {
            (Some(hold), _) => format!("{}, waits for a person: {}", report.state, hold.reason),
            (None, RecoveryPlan::Nothing) => format!("{}, nothing to do", report.state),
            (None, RecoveryPlan::Start) => format!("{}, was allowed and has now run", report.state),
            (None, RecoveryPlan::Redispatch) => format!("{}, dispatched again", report.state),
            (None, RecoveryPlan::Probe) => format!("{}, by asking the server", report.state),
            (None, RecoveryPlan::Compensate) => format!("{}, compensated", report.state),
            (None, RecoveryPlan::Judge | RecoveryPlan::Hold) => report.state.to_string(),
        },
        Err(GatewayError::Journal(JournalError::Held(_))) => "in use by a live process".to_owned(),
        Err(error) => {
            let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
            format!("{error}{} [{}]", cause.unwrap_or_default(), error.code())
        }
    }
}

fn print(recovered: &RecoveredCall, output: &Output) -> Result<(), Failure> {
    let style = match &recovered.result {
        Ok(recovery) if recovery.report.hold.is_some() => Style::Warn,
        Ok(_) | Err(GatewayError::Journal(JournalError::Held(_))) => Style::Good,
        Err(_) => Style::Bad,
    };
    let what = output.paint(&sanitize(&what_happened(recovered)), style);
    output.line(&format!("{}  {what}", recovered.trace_id));
    Ok(())
}

fn describe(recovered: &RecoveredCall) -> Value {
    match &recovered.result {
        Ok(recovery) => {
            json!({ "trace_id": recovered.trace_id, "plan": recovery.plan, "report": recovery.report })
        }
        Err(error) => json!({ "trace_id": recovered.trace_id, "error": {
            "code": error.code(),
            "message": error.to_string(),
            "cause": std::error::Error::source(error).map(ToString::to_string),
        }}),
    }
}

fn describe_run(recovered: &RecoveredRun) -> Value {
    match &recovered.result {
        Ok(run) => json!({
            "trace_id": recovered.trace_id,
            "on_restart": recovered.on_restart,
            "run": status::describe_short(&RunSummary::of(run)),
        }),
        Err(error) => json!({ "trace_id": recovered.trace_id, "error": {
            "code": error.code(),
            "message": error.to_string(),
            "cause": std::error::Error::source(error).map(ToString::to_string),
        }}),
    }
}

fn print_run(recovered: &RecoveredRun, output: &Output) {
    match &recovered.result {
        Ok(run) => status::print_end(run, output),
        Err(error) => {
            let what = output.paint(&sanitize(&format!("{error} [{}]", error.code())), Style::Bad);
            output.line(&format!("{}  {what}", recovered.trace_id));
        }
    }
}

fn exit_of_run(recovered: &RecoveredRun) -> u8 {
    match &recovered.result {
        Ok(run) if run.hold.is_some() && run.ended.is_none() => exit_of(Code::RunOnHold),
        Ok(_) => 0,
        Err(error) => exit_of(error.code()),
    }
}

fn exit_of_call(recovered: &RecoveredCall) -> u8 {
    match &recovered.result {
        Ok(recovery) if recovery.report.hold.is_some() => exit_of(Code::CallOnHold),
        Ok(_) | Err(GatewayError::Journal(JournalError::Held(_))) => 0,
        Err(error) => exit_of(error.code()),
    }
}

/// The most severe exit code: corrupt before failed before on hold.
fn worst(codes: impl Iterator<Item = u8>) -> u8 {
    let rank = |code: &u8| match code {
        0 => 0,
        4 => 1,
        5 => 3,
        _ => 2,
    };
    codes.max_by_key(rank).unwrap_or(0)
}
