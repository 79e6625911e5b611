//! The HTTP API. One table has every route: from it requests are served, and the description is generated.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Value, json};
use windlass_kernel::Code;

use crate::access::Role;
use crate::act::{self, Decision, NewRun, Way, Why};
use crate::dashboard::{Context, now};
use crate::model::{ProjectItem, RunDetail, RunItem};
use crate::problem::Problem;
use crate::read::{self, PAGE_MAX, Wanted};

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

/// A page of runs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunsPage {
    /// The runs, newest first.
    pub runs: Vec<RunItem>,
    /// The cursor of the next page; `null` at the end.
    pub next: Option<String>,
}

/// What became of a request that goes on after its answer.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Accepted {
    /// Always true: what is refused is a problem.
    pub accepted: bool,
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

const NO_QUERY: &[(&str, &str)] = &[];

/// All routes.
pub const ROUTES: &[Route] = &[
    Route {
        method: Method::Get,
        path: "/api/v1/projects",
        summary: "The projects",
        role: Role::Viewer,
        query: NO_QUERY,
        body: None,
        answer: Some(schema::<Vec<ProjectItem>>),
        serve: projects,
    },
    Route {
        method: Method::Get,
        path: "/api/v1/runs",
        summary: "Runs and sessions, newest first",
        role: Role::Viewer,
        query: &[
            ("project", "only those of this project"),
            ("state", "only those in this state"),
            ("text", "only those whose name, loop or task has this text"),
            ("cursor", "where the page begins: `next` of the page before"),
            ("limit", "at most so many; 50 if it is absent, at most 200"),
        ],
        body: None,
        answer: Some(schema::<RunsPage>),
        serve: runs,
    },
    Route {
        method: Method::Post,
        path: "/api/v1/projects/{project}/runs",
        summary: "Start a run",
        role: Role::Operator,
        query: NO_QUERY,
        body: Some(schema::<NewRun>),
        answer: Some(schema::<Accepted>),
        serve: |context| act::start(context, &context.body()?).and_then(|()| accepted()),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/projects/{project}/runs/{run}",
        summary: "A run in full",
        role: Role::Viewer,
        query: NO_QUERY,
        body: None,
        answer: Some(schema::<RunDetail>),
        serve: run,
    },
    Route {
        method: Method::Post,
        path: "/api/v1/projects/{project}/runs/{run}/resume",
        summary: "Let a run go on",
        role: Role::Operator,
        query: NO_QUERY,
        body: None,
        answer: Some(schema::<Accepted>),
        serve: |context| act::resume(context).and_then(|()| accepted()),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/projects/{project}/runs/{run}/stop",
        summary: "Pause a run",
        role: Role::Operator,
        query: NO_QUERY,
        body: None,
        answer: None,
        serve: |context| act::stop(context, false),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/projects/{project}/runs/{run}/clear-stop",
        summary: "Lift the pause of a run",
        role: Role::Operator,
        query: NO_QUERY,
        body: None,
        answer: None,
        serve: |context| act::stop(context, true),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/projects/{project}/runs/{run}/cancel",
        summary: "Give a run up",
        role: Role::Operator,
        query: NO_QUERY,
        body: Some(schema::<Why>),
        answer: None,
        serve: |context| act::cancel(context, &context.body()?),
    },
    Route {
        method: Method::Get,
        path: "/api/v1/holds",
        summary: "All runs that wait for a person, those that wait longest first",
        role: Role::Viewer,
        query: NO_QUERY,
        body: None,
        answer: Some(schema::<Vec<RunItem>>),
        serve: holds,
    },
    Route {
        method: Method::Get,
        path: "/api/v1/projects/{project}/holds/{run}",
        summary: "What a hold shows: evidence, call, diff, answers so far",
        role: Role::Viewer,
        query: NO_QUERY,
        body: None,
        answer: None,
        serve: act::look,
    },
    Route {
        method: Method::Post,
        path: "/api/v1/projects/{project}/holds/{run}/approve",
        summary: "Approve what a hold shows",
        role: Role::Approver,
        query: NO_QUERY,
        body: Some(schema::<Decision>),
        answer: None,
        serve: |context| act::decide(context, Way::Approve, context.body()?),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/projects/{project}/holds/{run}/reject",
        summary: "Reject what a hold shows",
        role: Role::Approver,
        query: NO_QUERY,
        body: Some(schema::<Decision>),
        answer: None,
        serve: |context| act::decide(context, Way::Reject, context.body()?),
    },
    Route {
        method: Method::Post,
        path: "/api/v1/projects/{project}/holds/{run}/answer",
        summary: "Answer the question of a hold; the text is the reason",
        role: Role::Approver,
        query: NO_QUERY,
        body: Some(schema::<Decision>),
        answer: None,
        serve: |context| act::decide(context, Way::Approve, context.body()?),
    },
];

/// The path of the events, which are no JSON.
pub const EVENTS: &str = "/api/v1/events";
/// The path of the description.
pub const DESCRIPTION: &str = "/api/v1/openapi.json";

fn accepted() -> Result<Value, Problem> {
    to_value(&Accepted { accepted: true })
}

fn to_value(value: &impl Serialize) -> Result<Value, Problem> {
    serde_json::to_value(value).map_err(|error| Problem::new(Code::Internal, error.to_string()))
}

fn projects(context: &Context<'_>) -> Result<Value, Problem> {
    context.require_all()?;
    let all = context.dashboard.projects.iter();
    let items = all.map(|one| ProjectItem { id: one.id().to_owned(), name: one.name().to_owned() });
    to_value(&items.collect::<Vec<_>>())
}

/// Which runs a request asks for.
///
/// # Errors
/// [`Problem`] for a wrong cursor or limit.
pub fn wanted(context: &Context<'_>) -> Result<Wanted, Problem> {
    let text = |name: &str| context.field(name).map(str::to_owned);
    let invalid = |name: &str, reason: String| {
        Problem::new(Code::RequestInvalid, format!("`{name}`: {reason}"))
    };
    let before = context.field("cursor").map(|cursor| {
        cursor.parse().map_err(|_| invalid("cursor", "it is not one of this server".to_owned()))
    });
    let limit = context.field("limit").map(|limit| match limit.parse::<usize>() {
        Ok(limit) if (1..=PAGE_MAX).contains(&limit) => Ok(limit),
        Ok(_) | Err(_) => Err(invalid("limit", format!("it is a number from 1 to {PAGE_MAX}"))),
    });
    Ok(Wanted {
        project: text("project"),
        state: text("state"),
        text: text("text"),
        before: before.transpose()?,
        limit: limit.transpose()?.unwrap_or(50),
    })
}

fn runs(context: &Context<'_>) -> Result<Value, Problem> {
    context.require_all()?;
    let page = read::list(&context.dashboard.projects, &wanted(context)?, now())?;
    to_value(&RunsPage { runs: page.runs, next: page.next.map(|next| next.to_string()) })
}

fn run(context: &Context<'_>) -> Result<Value, Problem> {
    let (project, name) = (context.project()?, context.part("run")?);
    context.require_scope(project.id(), name)?;
    let (run, is_live) = read::run(project.as_ref(), name)?;
    to_value(&RunDetail::of(project.id(), &run, is_live, now()))
}

fn holds(context: &Context<'_>) -> Result<Value, Problem> {
    context.require_all()?;
    to_value(&read::waiting(&context.dashboard.projects, now(), PAGE_MAX)?)
}

/// The description of the API, in the form of `OpenAPI` 3.1.
#[must_use]
pub fn description() -> Value {
    let mut generator = schemars::generate::SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .into_generator();
    let mut paths = serde_json::Map::new();
    for route in ROUTES {
        let names = route
            .path
            .split('/')
            .filter_map(|part| part.strip_prefix('{').and_then(|part| part.strip_suffix('}')));
        let text = json!({ "type": "string" });
        let mut parameters: Vec<Value> = names
            .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": text }))
            .collect();
        parameters.extend(route.query.iter().map(|(name, meaning)| {
            json!({ "name": name, "in": "query", "description": meaning, "schema": text })
        }));
        let answer = route.answer.map_or(json!({}), |answer| json!(answer(&mut generator)));
        let problem = |meaning: &str| {
            let content = json!({ "application/problem+json": {
                "schema": { "$ref": "#/components/schemas/Problem" } } });
            json!({ "description": meaning, "content": content })
        };
        let mut responses = json!({
            "200": { "description": "The answer", "content": { "application/json": { "schema": answer } } },
            "400": problem("The request cannot be read"),
            "401": problem("Nobody is logged in"),
            "403": problem("The role or the link does not allow it, or it comes from another site"),
            "404": problem("There is no such thing"),
            "409": problem("It is not as it was, or the policy refuses it"),
            "421": problem("The server has no such name"),
            "422": problem("The request is not as described"),
            "429": problem("Too many requests"),
            "503": problem("The journal cannot be used now"),
        });
        let mut operation = json!({
            "summary": route.summary,
            "description": format!("Needs the role {}.", route.role.as_str()),
            "parameters": parameters,
        });
        if let (Some(body), Some(object)) = (route.body, operation.as_object_mut()) {
            let schema = json!(body(&mut generator));
            object.insert(
                "requestBody".to_owned(),
                json!({
                "required": true, "content": { "application/json": { "schema": schema } } }),
            );
            if let Some(responses) = responses.as_object_mut() {
                responses.insert("413".to_owned(), problem("The body is too long"));
                responses.insert("415".to_owned(), problem("The body is not JSON"));
            }
        }
        if let Some(object) = operation.as_object_mut() {
            object.insert("responses".to_owned(), responses);
        }
        let method = if route.method == Method::Get { "get" } else { "post" };
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Some(path) = path.as_object_mut() {
            path.insert(method.to_owned(), operation);
        }
    }
    let mut schemas = json!(generator.take_definitions(true));
    if let Some(schemas) = schemas.as_object_mut() {
        let text = json!({ "type": "string" });
        schemas.insert("Problem".to_owned(), json!({
            "type": "object",
            "required": ["type", "title", "status", "code", "detail"],
            "properties": {
                "type": text, "title": text, "status": { "type": "integer" },
                "code": { "type": "string", "description": "a stable code; `windlass explain CODE` tells more" },
                "detail": text, "hint": { "type": ["string", "null"] },
            },
        }));
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Windlass dashboard", "version": "1" },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{ "token": [] }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_described_and_every_reference_leads_somewhere() {
        let description = description();
        for route in ROUTES {
            let method = if route.method == Method::Get { "get" } else { "post" };
            assert!(description["paths"][route.path][method]["summary"].is_string());
        }
        let text = description.to_string();
        for part in text.split("\"$ref\":\"#").skip(1) {
            let pointer = part.split('"').next().unwrap();
            assert!(description.pointer(pointer).is_some(), "{pointer}");
        }
    }
}
