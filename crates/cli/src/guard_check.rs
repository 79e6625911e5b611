//! Checks how the hooks of clients fail: with a scripted model, each installed client uses a tool while the guard
//! fails in one way after another.

mod cases;
mod clients;
mod report;
mod stand_in;
mod trial;

use windlass_hooks::Client;
use windlass_kernel::Code;

use crate::agents::ClientProgram;
use crate::failure::{CommandResult, Failure};
use crate::output::Output;
use crate::scratch::CheckLock;
use crate::user_config::UserConfig;
use cases::{CASES, Case, WORKING};
use report::{Level, Measured, Report, Verdict};
use trial::Tried;

/// The names of all cases.
pub fn case_names() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|case| case.name)
}

/// Tries all failures, or those that are named, with these clients, or with all if none is named, and prints what
/// became of the tools.
pub fn run(named: &[Client], chosen: &[String], output: &Output) -> CommandResult {
    let is_named = |client: &Client| named.is_empty() || named.contains(client);
    let is_tried = |name: &&String| {
        CASES.iter().any(|case| case.name == **name && case.clients.iter().any(is_named))
    };
    if let Some(case) = chosen.iter().find(|name| !is_tried(name)) {
        let message = format!("the case `{case}` is tried with none of these clients");
        return Err(Failure::new(Code::RequestInvalid, message)
            .hint("`windlass doctor --agents` tries all cases that a client has"));
    }
    let user = UserConfig::load()?;
    let lock = CheckLock::wait()?;
    let mut reports = Vec::new();
    let mut is_bad = false;
    for client in Client::ALL {
        if !is_named(&client) {
            continue;
        }
        let config = user.agents.get(client.as_str()).cloned().unwrap_or_default();
        let report = match ClientProgram::find(Some(client.as_str()), &config) {
            Ok(program) => measure(client, &program, chosen, &lock, output)?,
            Err(missing) => {
                // Asked for by name, it is missed.
                is_bad |= !named.is_empty();
                let problem = format!("not installed: {missing}");
                let version = String::new();
                reports.push(Report { client, version, measured: Err(problem), is_whole: false });
                continue;
            }
        };
        is_bad |=
            !report.measured.as_ref().is_ok_and(|measured| Level::of(measured) != Level::Open);
        reports.push(report);
    }
    report::print(&reports, output)?;
    Ok(u8::from(is_bad))
}

fn measure(
    client: Client,
    program: &ClientProgram,
    chosen: &[String],
    lock: &CheckLock,
    output: &Output,
) -> Result<Report, Failure> {
    let version = windlass_agents::version_of(&program.path, &program.arguments);
    let all = windlass_agents::all();
    let known = all.iter().find(|known| known.name() == client.as_str());
    let endpoint = known.map_or("", |known| known.api().endpoint.1);
    let tried = Tried { client, program, endpoint };
    let mut measured: Vec<Measured> = Vec::new();
    // Whatever is chosen: what a guard does that does not work tells nothing.
    let is_chosen = |case: &&Case| {
        chosen.is_empty() || case.name == WORKING || chosen.iter().any(|name| name == case.name)
    };
    let has_case = |case: &&Case| case.clients.contains(&client);
    let cases: Vec<_> = CASES.iter().filter(has_case).filter(is_chosen).collect();
    let is_whole = cases.len() == CASES.iter().filter(has_case).count();
    let report = |measured| Report { client, version: version.clone(), measured, is_whole };
    for (index, case) in cases.iter().enumerate() {
        let one = match tried.measure(case, lock)? {
            Ok(one) => one,
            Err(problem) => return Ok(report(Err(problem))),
        };
        output.note(&format!(
            "{client} {version}, {} of {}: {}: {}",
            index + 1,
            cases.len(),
            case.what,
            one.verdict.as_str(),
            client = client.as_str(),
        ));
        if case.name == WORKING && one.verdict != Verdict::Works {
            let problem = format!(
                "the guard does not work with it even if nothing fails: {} {}",
                one.verdict.as_str(),
                one.detail
            );
            return Ok(report(Err(problem)));
        }
        measured.push(one);
    }
    Ok(report(Ok(measured)))
}
