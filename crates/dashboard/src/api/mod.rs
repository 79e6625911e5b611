//! The HTTP API. One table has every route: from it requests are served, and the description is generated.

mod contents;
mod description;
mod notifications;
mod observed;
mod routes;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;
use windlass_kernel::Code;

use crate::access::Role;
use crate::dashboard::{Context, LinkUse};
use crate::problem::Problem;

pub use description::description;
pub(crate) use notifications::{again as send_again, listed as notifications, test as send_test};
pub(crate) use routes::{cursor, wanted};

/// The method of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Does something.
    Post,
}

/// A route of the API.
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path, with named parts in braces.
    pub path: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Who may use it.
    pub role: Role,
    /// The names of its query fields, and what they mean.
    pub query: &'static [(&'static str, &'static str)],
    /// The schema of the body.
    pub body: Option<fn(&mut SchemaGenerator) -> Schema>,
    /// The schema of the answer; `None` if it is what the command prints with `--json`.
    pub answer: Option<fn(&mut SchemaGenerator) -> Schema>,
    /// Whether what it answers stays the same, so that whoever has it need not get it again.
    pub is_kept: bool,
    /// Whether somebody who came for one hold may use it.
    pub by_link: LinkUse,
    /// Serves a request.
    pub serve: Serve,
}

/// What serves a request.
#[derive(Clone, Copy)]
pub enum Serve {
    /// A document.
    Json(fn(&Context<'_>) -> Result<Value, Problem>),
    /// A content that its own digest names, as it is.
    Content(fn(&Context<'_>) -> Result<Vec<u8>, Problem>),
}

/// The path of the events, which are no JSON.
pub const EVENTS: &str = "/api/v1/events";
/// The path of the description.
pub const DESCRIPTION: &str = "/api/v1/openapi.json";

/// The routes, a table for each file.
const TABLES: &[&[Route]] =
    &[routes::ROUTES, observed::ROUTES, contents::ROUTES, notifications::ROUTES];

/// All routes.
pub fn routes() -> impl Iterator<Item = &'static Route> {
    TABLES.iter().flat_map(|table| table.iter())
}

/// The schema of a type.
fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// A route that reads.
const fn get(
    path: &'static str,
    summary: &'static str,
    query: &'static [(&'static str, &'static str)],
    answer: Option<fn(&mut SchemaGenerator) -> Schema>,
    serve: fn(&Context<'_>) -> Result<Value, Problem>,
) -> Route {
    Route {
        method: Method::Get,
        path,
        summary,
        role: Role::Viewer,
        query,
        body: None,
        answer,
        is_kept: false,
        by_link: LinkUse::Refused,
        serve: Serve::Json(serve),
    }
}

/// A route that does something.
const fn post(
    path: &'static str,
    summary: &'static str,
    role: Role,
    body: Option<fn(&mut SchemaGenerator) -> Schema>,
    answer: Option<fn(&mut SchemaGenerator) -> Schema>,
    serve: fn(&Context<'_>) -> Result<Value, Problem>,
) -> Route {
    let (method, query, is_kept, by_link) = (Method::Post, &[], false, LinkUse::Refused);
    let serve = Serve::Json(serve);
    Route { method, path, summary, role, query, body, answer, is_kept, by_link, serve }
}

/// The same route, whose answers stay the same: they have a strong `ETag`, and whoever names it is told that it is still
/// the same.
const fn kept(route: Route) -> Route {
    Route { is_kept: true, ..route }
}

/// A route that answers with a content that its own digest names.
const fn content(
    path: &'static str,
    summary: &'static str,
    serve: fn(&Context<'_>) -> Result<Vec<u8>, Problem>,
) -> Route {
    let serve = Serve::Content(serve);
    Route {
        method: Method::Get,
        path,
        summary,
        role: Role::Viewer,
        query: &[],
        body: None,
        answer: None,
        is_kept: true,
        by_link: LinkUse::Refused,
        serve,
    }
}

/// The same route, which somebody who came for one hold may use for that hold.
const fn of_hold(route: Route) -> Route {
    Route { by_link: LinkUse::OfItsHold, ..route }
}

/// An answer.
fn to_value(value: &impl Serialize) -> Result<Value, Problem> {
    serde_json::to_value(value).map_err(|error| Problem::new(Code::Internal, error.to_string()))
}
