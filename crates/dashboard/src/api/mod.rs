//! The HTTP API. One table has every route: from it requests are served, and the description is generated.

mod description;
mod routes;

use schemars::{Schema, SchemaGenerator};
use serde_json::Value;

use crate::access::Role;
use crate::dashboard::Context;
use crate::problem::Problem;

pub use description::description;
pub use routes::ROUTES;
pub(crate) use routes::wanted;

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
    /// Serves a request.
    pub serve: fn(&Context<'_>) -> Result<Value, Problem>,
}

/// The path of the events, which are no JSON.
pub const EVENTS: &str = "/api/v1/events";
/// The path of the description.
pub const DESCRIPTION: &str = "/api/v1/openapi.json";
