//! Grants: patterns of calls that run without a question. They are read here; giving and revoking one are commands,
//! signed for the visitor.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_journal::{Check, Reader};
use windlass_kernel::grant::{Decided, Grant, Status};
use windlass_kernel::run::RunName;
use windlass_kernel::{Machine, State, Timestamp};
use windlass_store::{Store, TraceState};
use zeroize::Zeroizing;

use crate::access::Role;
use crate::act::operand;
use crate::dashboard::{Context, now, shown};
use crate::keys::Keys;
use crate::paging::{Among, Look, Page, Paging, merge, scan};
use crate::problem::Problem;
use crate::project::{Command, Project};

/// A grant.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GrantItem {
    /// The project.
    pub project: String,
    /// Its trace.
    pub grant: String,
    /// `open`, `revoked`, `used_up`, `expired`, `void` if the key of whoever gave it was revoked, or `damaged` if its record
    /// is. Only an open one can be used.
    pub status: String,
    /// The glob of tools.
    pub tool: String,
    /// The glob of commands.
    pub command: Option<String>,
    /// The glob of paths.
    pub path: Option<String>,
    /// Whether it covers all calls of one session, also those that the policy denies.
    pub everything: bool,
    /// The only run that it is for.
    pub run: Option<String>,
    /// How often it was used.
    pub used: u32,
    /// How often it can be used.
    pub times: u32,
    /// Until when.
    #[schemars(with = "Option<String>")]
    pub until: Option<Timestamp>,
    /// Who gave it.
    pub granted: Option<GrantDecision>,
    /// Who revoked it.
    pub revoked: Option<GrantDecision>,
    /// The calls that used it, oldest first.
    pub uses: Vec<GrantUse>,
}

/// Who gave or revoked a grant.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GrantDecision {
    /// The name.
    pub by: String,
    /// When.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// Why.
    pub reason: String,
}

/// A use of a grant.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GrantUse {
    /// The call.
    pub call: String,
    /// When.
    #[schemars(with = "String")]
    pub at: Timestamp,
}

/// A page of grants.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GrantsPage {
    /// The grants, newest first.
    pub grants: Vec<GrantItem>,
    /// The cursor of the next page; `null` at the end.
    pub next: Option<String>,
}

/// A grant to give.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewGrant {
    /// The glob of tools, such as `shell/run`.
    pub tool: String,
    /// The glob that every command must match which the policy asks about.
    #[serde(default)]
    pub command: Option<String>,
    /// The glob that every path must match which the policy asks about.
    #[serde(default)]
    pub path: Option<String>,
    /// The only run that it is for.
    #[serde(default)]
    pub run: Option<String>,
    /// How often it can be used; once if it is absent.
    #[serde(default)]
    pub times: Option<u32>,
    /// How long it is valid, such as `30m` or `2h`; a day if it is absent.
    #[serde(rename = "for", default)]
    pub duration: Option<String>,
    /// Why.
    pub reason: String,
    /// The passphrase of the person's key, if it has one.
    #[serde(default)]
    pub passphrase: Option<String>,
}

/// A revocation.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Revocation {
    /// Why.
    pub reason: String,
    /// The passphrase of the person's key, if it has one.
    #[serde(default)]
    pub passphrase: Option<String>,
}

/// Lists the grants of some projects: those that can be used, or all.
///
/// # Errors
/// [`Problem`] if a journal cannot be read.
pub fn list(
    context: &Context<'_>,
    projects: &[&Arc<dyn Project>],
    all: bool,
    paging: Paging,
) -> Result<Page<GrantItem>, Problem> {
    let (now, keys) = (now(), context.dashboard.keys.as_ref());
    let state = (!all).then_some(State::Granted);
    let among = Among { open_only: !all, state, machine: Some(Machine::Grant), ..Among::default() };
    let mut found = Vec::new();
    for project in projects {
        let scanned = project.store().and_then(|store| {
            scan(store.as_ref(), among, paging, &mut |trace| {
                if !is_grant(trace) {
                    return Ok(Look::Passed);
                }
                let item = read(keys, project.id(), store.as_ref(), trace, now)?;
                let ended = ["expired", "used_up", "revoked", "void"];
                let is_wanted = all || !ended.contains(&item.status.as_str());
                Ok(if is_wanted { Look::Wanted(item) } else { Look::Read })
            })
        });
        found.extend(context.tolerate(project, scanned)?);
    }
    Ok(merge(found, paging.limit))
}

/// The grant in the path.
///
/// # Errors
/// [`Problem`] if there is none.
pub fn one(context: &Context<'_>) -> Result<GrantItem, Problem> {
    context.require_all()?;
    let (project, name) = (context.project()?, context.part("grant")?);
    let missing = || Problem::not_found(format!("there is no grant `{}`", shown(name)));
    let id = name.parse().map_err(|_| missing())?;
    let store = project.store()?;
    let trace = store.load_state(id)?;
    if !is_grant(&trace) {
        return Err(missing());
    }
    let keys = context.dashboard.keys.as_ref();
    read(keys, project.id(), store.as_ref(), &trace, now())
}

fn is_grant(trace: &TraceState) -> bool {
    trace.head.state.is_some_and(|state| state.machine() == Machine::Grant)
}

fn read(
    keys: &dyn Keys,
    project: &str,
    store: &dyn Store,
    trace: &TraceState,
    now: Timestamp,
) -> Result<GrantItem, Problem> {
    let id = trace.head.trace_id;
    let (grant, is_damaged) = match Reader::<Grant>::state_of(store, id, Check::Prefix) {
        Ok(grant) => (grant, false),
        // A damaged grant does not hide the others.
        Err(error) if error.is_damage() => (Grant::empty(id), true),
        Err(error) => return Err(error.into()),
    };
    let decided = |one: &Decided| GrantDecision {
        by: one.by.name.clone(),
        at: one.ts,
        reason: one.reason.clone(),
    };
    let is_known = grant.granted.as_ref().is_some_and(|(_, one)| keys.knows(&one.by));
    let status = match grant.status(now) {
        _ if is_damaged => "damaged",
        // No call is let through by it any more.
        Status::Open if !is_known => "void",
        Status::Open => "open",
        Status::Revoked => "revoked",
        Status::UsedUp => "used_up",
        Status::Expired => "expired",
    };
    let terms = grant.granted.as_ref().map(|(terms, _)| terms);
    Ok(GrantItem {
        project: project.to_owned(),
        grant: id.to_string(),
        status: status.to_owned(),
        tool: terms.map(|terms| terms.tool.clone()).unwrap_or_default(),
        command: terms.and_then(|terms| terms.command.clone()),
        path: terms.and_then(|terms| terms.path.clone()),
        everything: terms.is_some_and(|terms| terms.everything),
        run: terms.and_then(|terms| terms.run).map(|run| RunName::of(run).to_string()),
        used: grant.used(),
        times: terms.map(|terms| terms.times).unwrap_or_default(),
        until: terms.map(|terms| terms.until),
        granted: grant.granted.as_ref().map(|(_, one)| decided(one)),
        revoked: grant.revoked.as_ref().map(decided),
        uses: grant
            .uses
            .iter()
            .map(|one| GrantUse { call: one.call.to_string(), at: one.ts })
            .collect(),
    })
}

/// Gives a grant in the name of the visitor.
///
/// # Errors
/// The error of the command.
pub fn give(context: &Context<'_>, new: NewGrant) -> Result<Value, Problem> {
    context.require(Role::Approver)?;
    context.require_all()?;
    let mut command = Command::new(["grant", "add"])
        .option("by", &context.visitor.name)
        .option("reason", &new.reason);
    let times = new.times.map(|times| times.to_string());
    for (name, value) in [
        ("command", new.command),
        ("path", new.path),
        ("run", new.run),
        ("times", times),
        ("for", new.duration),
    ] {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            command = command.option(name, &value);
        }
    }
    command = command.passphrase(new.passphrase.map(Zeroizing::new));
    context.project()?.command(operand(command, &new.tool))
}

/// Revokes the grant in the path in the name of the visitor.
///
/// # Errors
/// The error of the command.
pub fn revoke(context: &Context<'_>, why: Revocation) -> Result<Value, Problem> {
    context.require(Role::Approver)?;
    context.require_all()?;
    let command = Command::new(["grant", "revoke"])
        .option("by", &context.visitor.name)
        .option("reason", &why.reason)
        .passphrase(why.passphrase.map(Zeroizing::new));
    context.project()?.command(operand(command, context.part("grant")?))
}
