//! The tools of the registry as agents are told of them.

use serde_json::{Map, Value, json};
use windlass_engine::ToolDefinition;
use windlass_files::FileTool;
use windlass_policy::{ArgvPart, Connector, Registry, Server, Tool};

/// The definitions of all tools that need no server to be asked.
pub fn definitions(registry: &Registry) -> Vec<ToolDefinition> {
    registry.tools().filter_map(|(server, tool)| definition(server, tool)).collect()
}

fn definition(server: &Server, tool: &Tool) -> Option<ToolDefinition> {
    let (description, input_schema) = match &server.connector {
        Connector::Files => {
            let own = windlass_files::definition(FileTool::parse(&tool.remote_name)?);
            (own.description.to_owned(), own.input_schema)
        }
        Connector::Person => (ASK.to_owned(), question_schema()),
        Connector::Command => (String::new(), command_schema(tool)),
        // An agent is offered the agents that its own file names, by its run.
        Connector::McpStdio { .. }
        | Connector::McpHttp { .. }
        | Connector::Client
        | Connector::Agent => return None,
    };
    Some(ToolDefinition {
        tool: format!("{}/{}", server.name, tool.name),
        class: tool.class,
        description: tool.description.clone().unwrap_or(description),
        input_schema,
    })
}

const ASK: &str = "Ask a person a question and wait for the answer. Use it only if you cannot go on without one: \
    the work stops until somebody answers.";

fn question_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "question": { "type": "string", "description": "The question, with all that is needed to answer it." },
        },
        "required": ["question"],
        "additionalProperties": false,
    })
}

/// The arguments that a command takes.
fn command_schema(tool: &Tool) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    let mut add = |pointer: &str, optional: bool| {
        let Some(name) = pointer.strip_prefix('/').filter(|name| !name.contains('/')) else {
            return;
        };
        let is_line = tool.shell_line.as_ref().is_some_and(|line| line.text() == pointer);
        let description = if is_line {
            "A line for bash, run in the root of the repository. It may have several commands."
        } else {
            "An argument of the command."
        };
        properties.insert(name.to_owned(), json!({ "type": "string", "description": description }));
        if !optional {
            required.push(name.to_owned());
        }
    };
    for part in &tool.argv {
        if let ArgvPart::Argument { pointer, optional, .. } = part {
            add(pointer.text(), *optional);
        }
    }
    if let Some(stdin) = &tool.stdin {
        add(stdin.text(), true);
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}
