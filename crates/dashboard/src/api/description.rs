//! The description of the API.

use serde_json::{Value, json};

use super::{DESCRIPTION, EVENTS, Method, Serve, routes};

/// The description of the API, in the form of `OpenAPI` 3.1.
#[must_use]
pub fn description() -> Value {
    let mut generator = schemars::generate::SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .into_generator();
    let mut paths = serde_json::Map::new();
    for route in routes() {
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
        let content = match route.serve {
            Serve::Json(_) => json!({ "application/json": { "schema": answer } }),
            Serve::Content(_) => json!({ "application/octet-stream": {} }),
        };
        let mut responses = json!({
            "200": { "description": "The answer", "content": content },
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
        if let (true, Some(responses)) = (route.is_kept, responses.as_object_mut()) {
            let same = json!({ "description": "It is still what `If-None-Match` names" });
            responses.insert("304".to_owned(), same);
        }
        if let (Serve::Content(_), Some(responses)) = (route.serve, responses.as_object_mut()) {
            responses.insert("413".to_owned(), problem("The content is too large to be sent"));
        }
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
    paths.insert(EVENTS.to_owned(), events());
    paths.insert(DESCRIPTION.to_owned(), itself());
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

/// The stream, which is no document.
fn events() -> Value {
    let last = json!({
        "name": "Last-Event-ID", "in": "header", "schema": { "type": "string" },
        "description": "the id of the last event that was read: the stream goes on after it",
    });
    let after = json!({
        "name": "after", "in": "query", "schema": { "type": "string" },
        "description": "the same, for those who cannot send a header; the header counts if both are there",
    });
    json!({ "get": {
        "summary": "What is recorded, as it is: an event `entry` for each entry of a run, and when a call begins or ceases to wait; `reset` if the stream cannot go on where it was",
        "description": "Needs the role viewer. The answer does not end.",
        "parameters": [last, after],
        "responses": {
            "200": { "description": "The events", "content": { "text/event-stream": {} } },
            "401": { "description": "Nobody is logged in" },
            "403": { "description": "A link for one hold shows nothing else" },
            "421": { "description": "The server has no such name" },
            "429": { "description": "Too many requests or streams" },
        },
    } })
}

/// This description.
fn itself() -> Value {
    json!({ "get": {
        "summary": "This description",
        "description": "Needs the role viewer.",
        "responses": {
            "200": { "description": "The description", "content": { "application/json": {} } },
            "401": { "description": "Nobody is logged in" },
            "421": { "description": "The server has no such name" },
            "429": { "description": "Too many requests" },
        },
    } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_described_and_every_reference_leads_somewhere() {
        let description = description();
        for route in routes() {
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
