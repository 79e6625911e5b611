//! `windlass call`.

use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_journal::{Check, Reader};
use windlass_kernel::artifact::{CLIENT_WORKSPACE, Decider, NamedFile};
use windlass_kernel::run::RunName;
use windlass_kernel::{
    Call as KernelCall, Code, Digest, Machine, PlanId, RiskLevel, State, TraceId,
};
use windlass_policy::RuleHit;
use windlass_runtime::{
    Answer, Attribution, CallReport, CallRequest, CallView, Clock as _, Gateway, GatewayError,
    HoldQuestion, SystemClock, Who,
};

use crate::args::{Call, CallRun, CommandOutput, Decide};
use crate::commands::queue::shown_digest;
use crate::commands::{cell, held_back, read_args, recover, risk, tool_name, trace, trace_id};
use crate::failure::{CommandResult, Failure, exit_of, hint_of, stale};
use crate::output::{Output, Style, sanitize};
use crate::part::Part;
use crate::people::AccountPeople;
use crate::project::{Access, Project};

/// Runs a subcommand of `call`.
pub fn run(project: &Project, command: &Call, output: &Output) -> CommandResult {
    match command {
        Call::Run(options) => make(project, options, output),
        Call::Show { id, form } => {
            let gateway = project.gateway(Access::Look)?;
            let report = gateway.show(trace_id(id)?)?;
            match form {
                Some(form) => print_whole(project, &report, *form, output)?,
                None => show(&gateway, &report, output)?,
            }
            Ok(0)
        }
        Call::List(options) => trace::list(project, options, Some(Machine::Call), output),
        Call::Approve(options) => {
            let args = options.args.as_deref().map(read_args).transpose()?;
            let seen = Seen { args, shown: options.shown.as_deref() };
            decide(project, Answer::Approve, &options.decide, &seen, output)
        }
        Call::Deny(options) => decide(project, Answer::Deny, options, &Seen::default(), output),
        Call::Settle(options) => {
            let answer = match (options.ran, options.not_run) {
                (true, _) => Answer::Ran,
                (false, true) => Answer::DidNotRun,
                (false, false) => Answer::Failed,
            };
            let seen = Seen { args: None, shown: options.shown.as_deref() };
            decide(project, answer, &options.decide, &seen, output)
        }
        Call::HeldBack(options) => held_back::run(project, options, output),
    }
}

/// What a person was shown of a call, and puts in place of it.
#[derive(Default)]
struct Seen<'a> {
    args: Option<Value>,
    shown: Option<&'a str>,
}

/// Makes one call.
pub fn make(project: &Project, options: &CallRun, output: &Output) -> CommandResult {
    let (server, tool) = tool_name(&options.tool)?;
    let args = read_args(&options.args)?;
    let plan_id: Option<PlanId> = match &options.plan {
        Some(plan) => Some(PlanId(trace_id(plan)?.0)),
        None => None,
    };
    let files = project.files()?;
    let supervisor = project.supervisor(Part::Whole, &files)?;
    // Without `--class` the registry's class is declared.
    let registered = supervisor.set().registry().find(&server, &tool).map(|(_, tool)| tool.class);
    let declared_class = options.class.map(risk).or(registered).unwrap_or(RiskLevel::Read);
    let gateway = project.gateway_with(&files, supervisor, Access::Act)?;
    recover::at_start(&gateway, output);
    let key = match (&options.key, options.new_key) {
        (Some(key), _) => Some(key.clone()),
        (None, true) => Some(SystemClock.new_id().to_string()),
        (None, false) => None,
    };
    let report = gateway.call(CallRequest {
        intent: options
            .intent
            .clone()
            .unwrap_or_else(|| format!("windlass call run {}", options.tool)),
        server,
        tool,
        args,
        resources: Vec::new(),
        declared_class,
        key,
        plan_id,
        agent: options.agent.clone(),
        phase: options.phase.clone(),
        run: None,
    })?;
    print(&report, output)?;
    let code = report.refusal.as_ref().map(|refused| refused.code);
    if let (false, Some(hint)) = (output.json, code.and_then(hint_of)) {
        output.note(&format!("{} {hint}", output.paint_note("hint:", Style::Good)));
    }
    Ok(exit(&report))
}

fn decide(
    project: &Project,
    answer: Answer,
    options: &Decide,
    seen: &Seen<'_>,
    output: &Output,
) -> CommandResult {
    let id = trace_id(&options.id)?;
    let decider = &options.decider;
    let people = AccountPeople::open()?;
    people.use_passphrase_file(decider.passphrase_file.as_deref());
    let name = people.decider(decider.by.as_deref())?;
    // Only these start something.
    let access = match answer {
        Answer::Approve | Answer::DidNotRun => Access::Act,
        Answer::Deny | Answer::Ran | Answer::Failed => Access::Read,
    };
    let (gateway, of_session) = gateway_for(project, id, access)?;
    if let Some(SessionCall { has_cell: false, .. }) = of_session
        && answer == Answer::Approve
    {
        people.require_protected(&name)?;
    }
    let run = of_session.map(|one| one.run);
    let files = match shown_digest(seen.shown)? {
        Some(shown) => {
            let view = gateway.view(id)?;
            if view.shown != Some(shown) {
                let message = format!("call `{id}` is not as it was shown to you");
                return Err(
                    Failure::new(Code::HoldStale, message).hint(stale("call", &id.to_string()))
                );
            }
            view.changed_files
        }
        None => Vec::new(),
    };
    let who = Who::Person { name: &name, people: &people, run };
    let attribution =
        Attribution { who, reason: &decider.reason, edit: seen.args.as_ref(), files: &files };
    let report = gateway.decide(id, answer, attribution)?;
    print(&report, output)?;
    if report.state == State::Authorized {
        output.note("the agent may make the same call once");
    }
    // Denying as requested is a success of the command.
    Ok(match answer {
        Answer::Approve | Answer::DidNotRun | Answer::Ran => exit(&report),
        Answer::Deny | Answer::Failed => 0,
    })
}

/// A call that a session makes itself.
#[derive(Clone, Copy)]
struct SessionCall {
    run: TraceId,
    /// Whether the agent's shell runs in a cell, where no keys are.
    has_cell: bool,
}

/// The gateway that decides on a call, and the session that makes the call itself, if one does.
fn gateway_for(
    project: &Project,
    id: TraceId,
    access: Access,
) -> Result<(Gateway, Option<SessionCall>), Failure> {
    let runs = project.runs()?;
    let call = Reader::<KernelCall>::state_of(runs.store(), id, Check::Verified)
        .map_err(GatewayError::from)?;
    let of_client =
        call.request.filter(|(request, _)| request.proposal.workspace == CLIENT_WORKSPACE);
    let Some((request, _)) = of_client else { return Ok((project.gateway(access)?, None)) };
    let run = request.run.map(|run| runs.read(run)).transpose()?;
    let task = run.and_then(|run| run.started.map(|started| started.task.clone()));
    let folder = task.as_ref().and_then(|task| task.get("folder")).and_then(Value::as_str);
    // The user's own project is worked in wherever the client is.
    let project = match folder {
        Some(folder) => &Project::of_session(Some(&project.root), Path::new(folder))?,
        None => project,
    };
    let files = project.files_of(Part::Policy)?;
    let config = Project::config(&files)?;
    let supervisor = Arc::new(project.supervisor(Part::Policy, &files)?.for_clients());
    let store = Arc::new(project.store(&config)?);
    let has_cell = cell::is_used(&supervisor);
    let of_session = request.run.map(|run| SessionCall { run, has_cell });
    let gateway = project.client_gateway(Part::Policy, &files, &config, supervisor, store)?;
    Ok((gateway, of_session))
}

/// The exit code for a call's state.
pub fn exit(report: &CallReport) -> u8 {
    if report.hold.is_some() {
        return exit_of(Code::CallOnHold);
    }
    match report.state {
        // A call that an agent makes itself is approved, and nothing more.
        State::Completed | State::Authorized => 0,
        State::Denied => report
            .refusal
            .as_ref()
            .map_or(exit_of(Code::PolicyDenied), |refused| exit_of(refused.code).max(3)),
        // A call refused because of the server's annotations never ran.
        State::Failed => match report.error.as_ref().map(|error| exit_of(error.code)) {
            Some(3) => 3,
            _ => 1,
        },
        State::Pending
        | State::Executing
        | State::Init
        | State::Running
        | State::Checkpoint
        | State::Resumed
        | State::Terminal
        | State::Granted
        | State::Withdrawn
        | State::Due
        | State::Settled => 1,
    }
}

/// Prints a call with its request and decision: what a person needs to decide it.
fn show(gateway: &Gateway, report: &CallReport, output: &Output) -> Result<(), Failure> {
    let records = gateway.store().list_log_entries(report.trace_id, 0, 2)?;
    let mut bodies = records.iter().map(|record| -> Value {
        let body = record.body.as_deref();
        body.and_then(|body| serde_json::from_slice(body).ok()).unwrap_or_default()
    });
    let (request, decision) =
        (bodies.next().unwrap_or_default(), bodies.next().unwrap_or_default());
    if output.json {
        let mut value = serde_json::to_value(report).unwrap_or_default();
        if let Some(map) = value.as_object_mut() {
            map.insert("request".to_owned(), request);
            map.insert("decision".to_owned(), decision);
        }
        return output.value(&value);
    }
    let mut asked = Vec::new();
    let text =
        |value: &Value, name: &str| value.pointer(name).and_then(Value::as_str).map(sanitize);
    for name in ["intent", "agent", "phase"] {
        let value = text(&request, &format!("/{name}"));
        asked.extend(value.map(|value| format!("  {name:<8} {value}")));
    }
    if let Some(args) = request.pointer("/proposal/args") {
        asked.push(format!("  args     {}", sanitize(&args.to_string())));
    }
    if let (Some(verdict), Some(reason)) =
        (text(&decision, "/decision"), text(&decision, "/rationale"))
    {
        let name = text(&decision, "/decided_by/decider/name");
        let granted = text(&decision, "/decided_by/grant").map(|grant| {
            let name = text(&decision, "/decided_by/name").unwrap_or_default();
            format!("{name}, by the grant {grant}")
        });
        let of_hold = decision.pointer("/decided_by/decider/names").and_then(Value::as_array);
        let of_hold = of_hold.map(|names| {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            sanitize(&names.join(", "))
        });
        let by = name.or(granted).or(of_hold).unwrap_or_else(|| "policy".to_owned());
        asked.push(format!("  decided  {verdict} by {by}: {reason}"));
    }
    print_with(report, &asked, output);
    Ok(())
}

/// Prints a call as recorded.
pub fn print(report: &CallReport, output: &Output) -> Result<(), Failure> {
    if output.json {
        return output.value(report);
    }
    print_with(report, &[], output);
    Ok(())
}

fn print_with(report: &CallReport, asked: &[String], output: &Output) {
    let (word, style) = headline(report);
    let replayed =
        if report.replayed { " (recorded result; the tool was not called again)" } else { "" };
    output.line(&format!("{} {}{replayed}", output.paint(&word, style), report.tool));
    output.line(&format!("  trace    {}", report.trace_id));
    if let Some(key) = &report.idempotency_key {
        output.line(&format!("  key      {}", key.escape_debug()));
    }
    for line in asked {
        output.line(line);
    }
    if let Some(args) = &report.edited_args {
        output.line(&format!("  edited   {}", sanitize(&args.to_string())));
    }
    if let Some(refused) = &report.refusal {
        output.line(&format!("  refused  {} [{}]", sanitize(&refused.reason), refused.code));
    }
    if let Some(error) = &report.error {
        output.line(&format!("  error    {} [{}]", sanitize(&error.message), error.code));
        if error.may_have_run && error.code != Code::ToolFailed {
            output.line("           it may have taken effect anyway");
        }
    }
    for again in &report.redispatches {
        let by = again.by.as_ref().map_or_else(|| "on_uncertain".to_owned(), Decider::names);
        let (by, reason) = (sanitize(&by), sanitize(&again.reason));
        output.line(&format!("  again    dispatch {} by {by}: {reason}", again.attempt));
    }
    print_result(report, output);
    if let Some(hold) = &report.hold {
        output.line(&format!("  waits    {} [{}]", sanitize(&hold.reason), Code::CallOnHold));
        print_view(&hold.view, output);
        if let Some(shown) = hold.view.shown {
            output.line(&format!("  shown    {shown}"));
        }
        if let Some(run) = hold.view.run {
            output.line(&format!(
                "\nit is answered through its run:\n  windlass queue show {}",
                RunName::of(run)
            ));
            return;
        }
        let id = report.trace_id;
        let answers: &[(&str, &str)] = match hold.question {
            HoldQuestion::MayItRun => &[("to approve it", "approve"), ("to deny it", "deny")],
            HoldQuestion::DidItRun => &[
                ("if it ran", "settle --ran"),
                ("if it did not run, to make it now", "settle --not-run"),
                ("to close it as failed", "settle --failed"),
            ],
        };
        output.line("");
        for (when, command) in answers {
            output.line(&format!("{when}:\n  windlass call {command} {id} --reason TEXT"));
        }
    }
}

/// Prints all of a call that a person should see before deciding.
pub fn print_view(view: &CallView, output: &Output) {
    let seen = &view.examination;
    output.line(&format!("  folder   {}", sanitize(&seen.folder)));
    let list = |name: &str, items: Vec<String>| {
        for (at, item) in items.iter().enumerate() {
            let name = if at == 0 { name } else { "" };
            output.line(&format!("  {name:<8} {}", sanitize(item)));
        }
    };
    list("runs", seen.commands.clone());
    let rule =
        |hit: &RuleHit| format!("{} {} ({}): {}", hit.verdict.as_str(), hit.on, hit.id, hit.reason);
    list("rules", seen.rules.iter().map(rule).collect());
    list("findings", seen.findings.clone());
    let file = |file: &NamedFile| format!("{} {}", file.digest, file.path);
    list("files", seen.files.iter().map(file).collect());
    if !view.changed_files.is_empty() {
        output.line(
            "           a file has changed since the question: look at it before you approve",
        );
    }
}

fn headline(report: &CallReport) -> (String, Style) {
    let state = report.state.as_str().to_owned();
    match (report.state, &report.hold) {
        (_, Some(_)) => (format!("{state}, waits for a person:"), Style::Warn),
        (State::Completed, None) => (state, Style::Good),
        (State::Failed | State::Denied, None) => (state, Style::Bad),
        (
            State::Pending
            | State::Authorized
            | State::Executing
            | State::Init
            | State::Running
            | State::Checkpoint
            | State::Resumed
            | State::Terminal
            | State::Granted
            | State::Withdrawn
            | State::Due
            | State::Settled,
            None,
        ) => (state, Style::Warn),
    }
}

/// Prints all that a command printed to one of its outputs: unchanged, but visibly on a terminal.
fn print_whole(
    project: &Project,
    report: &CallReport,
    form: CommandOutput,
    output: &Output,
) -> Result<(), Failure> {
    let name = match form {
        CommandOutput::Stdout => "stdout",
        CommandOutput::Stderr => "stderr",
    };
    let Some(recorded) = report.result.get(name).and_then(Value::as_str) else {
        let message = format!("no `{name}` of this call is recorded");
        return Err(Failure::new(Code::RequestInvalid, message)
            .hint(format!("`windlass call show {}` shows what is", report.trace_id)));
    };
    let cut = report.result.pointer(&format!("/cut/{name}"));
    let text = match cut.map(|cut| cut.get("kept").and_then(Value::as_str)) {
        None => recorded.to_owned(),
        Some(kept) => {
            let digest = kept.and_then(|kept| kept.parse::<Digest>().ok()).ok_or_else(|| {
                let message = format!("the whole `{name}` of this call could not be kept");
                Failure::new(Code::BlobMissing, message)
            })?;
            let stored = project.kept_outputs(Arc::default())?.stored();
            let stored = stored.map_err(|why| Failure::new(Code::FileUnreadable, why))?;
            let mut bytes = Vec::new();
            stored
                .copy_to(&digest, &mut bytes)
                .map_err(|error| Failure::of(error.code(), &error))?;
            String::from_utf8_lossy(&bytes).into_owned()
        }
    };
    if output.json {
        return output.value(&json!({ "trace_id": report.trace_id, name: text }));
    }
    if std::io::stdout().is_terminal() {
        text.lines().for_each(|line| output.line(&sanitize(line)));
    } else {
        output.bytes(text.as_bytes());
    }
    Ok(())
}

/// Prints a tool's result: a command's output as text, everything else as JSON.
fn print_result(report: &CallReport, output: &Output) {
    let result = &report.result;
    if result.is_null() {
        return;
    }
    let stream = |name: &str| result.get(name).and_then(Value::as_str);
    match (stream("stdout"), stream("stderr"), result.get("exit_code")) {
        (Some(stdout), Some(stderr), Some(code)) => {
            output.line(&format!("  exit     {code}"));
            for (name, text) in [("stdout", stdout), ("stderr", stderr)] {
                for line in text.lines() {
                    output.line(&format!("  {name}   {}", sanitize(line)));
                }
                print_cut(report, name, output);
            }
        }
        _ => output.line(&format!("  result   {}", sanitize(&result.to_string()))),
    }
}

/// Says what is left out of an output, and where the whole is.
fn print_cut(report: &CallReport, name: &str, output: &Output) {
    let Some(cut) = report.result.pointer(&format!("/cut/{name}")) else { return };
    let bytes = cut.get("bytes").and_then(Value::as_u64).unwrap_or_default();
    let whole = match (cut.get("kept"), cut.get("kept_bytes"), cut.get("not_kept")) {
        (Some(_), None, _) => {
            format!("all with `windlass call show {} --as {name}`", report.trace_id)
        }
        (Some(_), Some(kept), _) => {
            format!("{kept} with `windlass call show {} --as {name}`", report.trace_id)
        }
        (None, _, why) => {
            let why = why.and_then(Value::as_str).unwrap_or_default();
            format!("the rest could not be kept: {}", sanitize(why))
        }
    };
    output.line(&format!("  cut      {name} has {bytes} bytes; {whole}"));
}
