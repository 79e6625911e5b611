//! Notifications: what receivers were told, and what became of it.

use serde_json::Value;

use super::{Route, get, post};
use crate::access::Role;
use crate::act::operand;
use crate::dashboard::Context;
use crate::problem::Problem;
use crate::project::Command;

/// How many are listed.
const NOTIFICATIONS_MAX: &str = "100";

/// The routes of notifications.
pub(super) const ROUTES: &[Route] = &[
    get(
        "/api/v1/projects/{project}/notifications",
        "The receivers, and the newest notifications with their deliveries",
        &[],
        None,
        list,
    ),
    post(
        "/api/v1/projects/{project}/notifications/{notification}/again",
        "Send a notification once more",
        Role::Operator,
        None,
        None,
        again,
    ),
    post(
        "/api/v1/projects/{project}/receivers/{receiver}/test",
        "Send a test message to a receiver",
        Role::Operator,
        None,
        None,
        test,
    ),
];

/// The receivers and the newest notifications of a project.
pub(crate) fn list(context: &Context<'_>) -> Result<Value, Problem> {
    context.require_all()?;
    listed(context.project()?.as_ref())
}

/// The receivers and the newest notifications of one project.
pub(crate) fn listed(project: &dyn crate::project::Project) -> Result<Value, Problem> {
    project.command(Command::new(["notify", "list"]).option("limit", NOTIFICATIONS_MAX))
}

/// Sends a notification once more.
pub(crate) fn again(context: &Context<'_>) -> Result<Value, Problem> {
    asked(context, "again", context.part("notification")?)
}

/// Sends a test message to a receiver.
pub(crate) fn test(context: &Context<'_>) -> Result<Value, Problem> {
    asked(context, "test", context.part("receiver")?)
}

fn asked(context: &Context<'_>, word: &str, of: &str) -> Result<Value, Problem> {
    context.require(Role::Operator)?;
    context.require_all()?;
    let command = Command::new(["notify", word]).option("by", &context.visitor.name);
    context.project()?.command(operand(command, of))
}
