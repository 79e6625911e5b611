//! `windlass grant`: calls that may run without a question.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_kernel::grant::{Decided, Grant, Status, Terms};
use windlass_kernel::{Code, Timestamp, TraceId};
use windlass_runtime::{Clock as _, Gateway, GrantList, People, SystemClock};

use crate::args::{self, AddGrant, Decider};
use crate::commands::trace::note_unreadable;
use crate::commands::trace_id;
use crate::failure::{CommandResult, Failure};
use crate::output::{Output, Style, sanitize};
use crate::people::AccountPeople;
use crate::project::{Access, Project};

/// How long a grant is valid if nobody says so: 24 hours.
const VALID_MS: i64 = 24 * 3_600_000;

/// Runs a subcommand of `grant`.
pub fn run(project: &Project, command: &args::Grant, output: &Output) -> CommandResult {
    if let Some(inside) = windlass_cell::inside_a_cell() {
        return Err(
            Failure::new(Code::SandboxUnavailable, inside).hint("run Windlass outside of it")
        );
    }
    match command {
        args::Grant::Add(options) => add(project, options, output),
        args::Grant::List { all, ids } => list(project, *all, *ids, output),
        args::Grant::Show { id } => {
            let grant = project.gateway(Access::Look)?.show_grant(trace_id(id)?)?;
            show(&grant, &AccountPeople::open()?, output)
        }
        args::Grant::Revoke { id, decider } => revoke(project, trace_id(id)?, decider, output),
    }
}

/// The gateway, and the name of the person who decides with it.
fn open(
    project: &Project,
    decider: &Decider,
    access: Access,
) -> Result<(Gateway, String), Failure> {
    let people = AccountPeople::open()?;
    people.use_passphrase_file(decider.passphrase_file.as_deref());
    let name = people.decider(decider.by.as_deref())?;
    Ok((project.gateway(access)?.with_people(Arc::new(people)), name))
}

fn add(project: &Project, options: &AddGrant, output: &Output) -> CommandResult {
    let run = match &options.run {
        Some(name) => Some(project.runs()?.find(name)?),
        None => None,
    };
    let terms = Terms {
        everything: false,
        command: options.command.clone(),
        path: options.path.clone(),
        run,
        times: options.times,
        tool: options.tool.clone(),
        until: until(options)?,
    };
    let (gateway, name) = open(project, &options.decider, Access::Act)?;
    let grant = gateway.grant(terms, &name, &options.decider.reason)?;
    if output.json {
        output.value(&describe(&grant, SystemClock.now(), &AccountPeople::open()?))?;
        return Ok(0);
    }
    output.line(&format!("granted {}", grant.head.trace_id));
    print_terms(&grant, output);
    Ok(0)
}

fn revoke(project: &Project, id: TraceId, decider: &Decider, output: &Output) -> CommandResult {
    let (gateway, name) = open(project, decider, Access::Read)?;
    let grant = gateway.revoke_grant(id, &name, &decider.reason)?;
    if output.json {
        output.value(&describe(&grant, SystemClock.now(), &AccountPeople::open()?))?;
    } else {
        output.line(&format!("revoked {id}; it was used {}", times(grant.used())));
    }
    Ok(0)
}

/// The time until which the grant is valid.
fn until(options: &AddGrant) -> Result<Timestamp, Failure> {
    let invalid = |text: &str, form: &str| {
        let shown: String = text.chars().take(60).collect();
        let message = format!("`{}` is not {form}", shown.escape_debug());
        Failure::new(Code::RequestInvalid, message)
    };
    if let Some(text) = &options.until {
        let parsed = text.parse().or_else(|_| text.replace('Z', ".000Z").parse());
        return parsed.map_err(|_: windlass_kernel::TimestampError| {
            invalid(text, "a time such as 2026-01-31T23:59:59Z")
        });
    }
    let valid_ms = match &options.duration {
        Some(text) => {
            duration_ms(text).ok_or_else(|| invalid(text, "a duration such as 30m, 2h or 7d"))?
        }
        None => VALID_MS,
    };
    let until_ms = SystemClock.now().unix_ms().saturating_add(valid_ms);
    Timestamp::from_unix_ms(until_ms).map_err(|_| invalid(&valid_ms.to_string(), "a duration"))
}

/// Reads a number with a unit: `90s`, `30m`, `2h`, `7d`.
fn duration_ms(text: &str) -> Option<i64> {
    let (at, unit) = text.char_indices().next_back()?;
    let unit_ms = match unit {
        's' => 1000,
        'm' => 60_000,
        'h' => 3_600_000,
        'd' => 86_400_000,
        _ => return None,
    };
    let digits = text.get(..at).filter(|digits| digits.bytes().all(|one| one.is_ascii_digit()))?;
    digits.parse::<i64>().ok()?.checked_mul(unit_ms)
}

fn list(project: &Project, all: bool, ids: bool, output: &Output) -> CommandResult {
    let GrantList { mut grants, unreadable } = project.gateway(Access::Look)?.grants(all)?;
    note_unreadable(unreadable, output);
    let (now, people) = (SystemClock.now(), AccountPeople::open()?);
    grants.retain(|grant| all || Standing::of(grant, now, &people) == Standing::Usable);
    if ids {
        grants.iter().for_each(|grant| output.line(&grant.head.trace_id.to_string()));
        return Ok(0);
    }
    if output.json {
        output
            .value(&grants.iter().map(|grant| describe(grant, now, &people)).collect::<Vec<_>>())?;
        return Ok(0);
    }
    if grants.is_empty() {
        output.line("no grants");
        return Ok(0);
    }
    let rows: Vec<_> = grants.iter().filter_map(|grant| row(grant, now, &people)).collect();
    output.table(&["GRANT", "TOOL", "PATTERN", "SCOPE", "USED", "UNTIL", "BY", "STATUS"], &rows);
    Ok(0)
}

/// Whether a grant can be used, as the gateway sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It can be used.
    Usable,
    /// It has not ended, but the key of whoever gave it was revoked: no call is let through by it.
    Void,
    /// It has ended.
    Ended(Status),
}

impl Standing {
    fn of(grant: &Grant, now: Timestamp, people: &dyn People) -> Self {
        let is_known = grant.granted.as_ref().is_some_and(|(_, one)| people.knows(&one.by));
        match grant.status(now) {
            Status::Open if is_known => Self::Usable,
            Status::Open => Self::Void,
            status @ (Status::Revoked | Status::UsedUp | Status::Expired) => Self::Ended(status),
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Usable => Status::Open.as_str(),
            Self::Void => "void",
            Self::Ended(status) => status.as_str(),
        }
    }
}

fn row(grant: &Grant, now: Timestamp, people: &dyn People) -> Option<Vec<(String, Option<Style>)>> {
    let (terms, decided) = grant.granted.as_ref()?;
    let status = Standing::of(grant, now, people);
    let style = if status == Standing::Usable { Style::Good } else { Style::Faint };
    Some(vec![
        (grant.head.trace_id.to_string(), None),
        (sanitize(&terms.tool), None),
        (pattern(terms), None),
        (scope(terms), None),
        (format!("{} of {}", grant.used(), terms.times), None),
        (terms.until.to_string(), Some(Style::Faint)),
        (sanitize(&decided.by.name), None),
        (status.as_str().to_owned(), Some(style)),
    ])
}

fn pattern(terms: &Terms) -> String {
    let parts = [("", &terms.command), ("path ", &terms.path)];
    let parts = parts.iter().filter_map(|(name, glob)| Some(format!("{name}{}", glob.as_ref()?)));
    sanitize(&parts.collect::<Vec<_>>().join(", "))
}

fn scope(terms: &Terms) -> String {
    match terms.run {
        Some(run) => windlass_kernel::run::RunName::of(run).to_string(),
        None => "project".to_owned(),
    }
}

fn show(grant: &Grant, people: &dyn People, output: &Output) -> CommandResult {
    let now = SystemClock.now();
    let standing = Standing::of(grant, now, people);
    if output.json {
        let mut value = describe(grant, now, people);
        if let Some(map) = value.as_object_mut() {
            map.insert("uses".to_owned(), json!(grant.uses));
        }
        output.value(&value)?;
        return Ok(0);
    }
    let status = output.paint(standing.as_str(), Style::Bold);
    output.line(&format!("{status} grant {}", grant.head.trace_id));
    print_terms(grant, output);
    if standing == Standing::Void {
        output.note("the key of whoever gave it was revoked: it cannot be used");
    }
    if let Some(revoked) = &grant.revoked {
        output.line(&format!("  revoked  {}", who(revoked)));
    }
    for one in &grant.uses {
        output.line(&format!("  used     {} by call {}", one.ts, one.call));
    }
    Ok(0)
}

fn print_terms(grant: &Grant, output: &Output) {
    let Some((terms, decided)) = &grant.granted else { return };
    let line = |name: &str, text: &str| output.line(&format!("  {name:<8} {}", sanitize(text)));
    line("tool", &terms.tool);
    if let Some(glob) = &terms.command {
        line("command", glob);
    }
    if let Some(glob) = &terms.path {
        line("path", glob);
    }
    line("scope", &scope(terms));
    line("until", &terms.until.to_string());
    line("uses", &format!("{} of {}", grant.used(), terms.times));
    line("by", &who(decided));
}

fn who(decided: &Decided) -> String {
    format!("{} at {}: {}", decided.by.name, decided.ts, decided.reason)
}

fn times(count: u32) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn describe(grant: &Grant, now: Timestamp, people: &dyn People) -> Value {
    let status = match Standing::of(grant, now, people) {
        Standing::Void => json!("void"),
        Standing::Usable | Standing::Ended(_) => json!(grant.status(now)),
    };
    let decided = |one: &Decided| json!({ "at": one.ts, "by": one.by.name, "key_id": one.by.key.id(), "reason": one.reason });
    let granted = grant.granted.as_ref();
    json!({
        "granted": granted.map(|(_, one)| decided(one)),
        "revoked": grant.revoked.as_ref().map(decided),
        "status": status,
        "terms": granted.map(|(terms, _)| terms),
        "trace_id": grant.head.trace_id,
        "used": grant.used(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_number_and_a_unit() {
        for (text, ms) in
            [("90s", 90_000), ("30m", 1_800_000), ("2h", 7_200_000), ("7d", 604_800_000)]
        {
            assert_eq!(duration_ms(text), Some(ms), "{text}");
        }
        for text in ["", "h", "2", "-2h", "+2h", "2 h", "2w", "1.5h", "99999999999999999d", "٢h"] {
            assert_eq!(duration_ms(text), None, "{text}");
        }
    }
}
