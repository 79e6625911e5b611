//! What an event is about, by its client and name.

use serde_json::Value;

use crate::client::Client;
use crate::event::{EventKind, ToolUse};
use crate::event_error::EventError;
use crate::fields::{Fields, NAME_BYTES_MAX, invalid, is_limited, needed};
use crate::recognise::has_event;

/// Fields that make an unknown event a question.
const QUESTION_FIELDS: [&str; 3] = ["tool_name", "tool_input", "prompt"];

/// Reads what an event is about.
pub(crate) fn read(client: Client, name: &str, fields: &Fields) -> Result<EventKind, EventError> {
    let kind = match client {
        Client::Claude => claude(name, fields)?,
        Client::Codex => codex(name, fields)?,
        Client::Gemini => gemini(name, fields)?,
        Client::OpenCode => opencode(name, fields)?,
    };
    if let Some(kind) = kind {
        return Ok(kind);
    }
    let name = name.to_owned();
    if !has_event(client, &name)
        && let Some(field) = QUESTION_FIELDS.into_iter().find(|field| fields.has(field))
    {
        return Err(EventError::UnknownQuestion { name, field });
    }
    Ok(EventKind::Other { name })
}

fn claude(name: &str, fields: &Fields) -> Result<Option<EventKind>, EventError> {
    Ok(Some(match name {
        "PostToolUseFailure" => EventKind::AfterTool {
            tool_use: tool_use(Client::Claude, fields)?,
            result: Value::Null,
            failure: Some(needed("error", fields.text("error"))?),
            interrupted: fields.flag("is_interrupt")?,
            duration_ms: fields.milliseconds("duration_ms")?,
        },
        "ConfigChange" => EventKind::SettingsChanged {
            source: needed("source", fields.name("source"))?,
            file: fields.path("file_path")?,
        },
        _ => return shared(Client::Claude, name, fields),
    }))
}

fn codex(name: &str, fields: &Fields) -> Result<Option<EventKind>, EventError> {
    shared(Client::Codex, name, fields)
}

/// The events that Codex has from Claude Code.
fn shared(client: Client, name: &str, fields: &Fields) -> Result<Option<EventKind>, EventError> {
    Ok(Some(match name {
        "SessionStart" => EventKind::SessionStarted { source: fields.name("source")? },
        "SessionEnd" => EventKind::SessionEnded { reason: fields.name("reason")? },
        "UserPromptSubmit" => {
            let text = needed("prompt", fields.text("prompt"))?;
            EventKind::Prompted { text, source: fields.name("source")? }
        }
        "PreToolUse" => EventKind::BeforeTool(tool_use(client, fields)?),
        "PermissionRequest" => EventKind::PermissionRequested(tool_use(client, fields)?),
        "PostToolUse" => after_tool(client, fields, None)?,
        "SubagentStart" => EventKind::SubagentStarted,
        "SubagentStop" => {
            EventKind::SubagentStopped { last_message: fields.text("last_assistant_message")? }
        }
        "Stop" => EventKind::Stopped { last_message: fields.text("last_assistant_message")? },
        _ => return Ok(None),
    }))
}

fn gemini(name: &str, fields: &Fields) -> Result<Option<EventKind>, EventError> {
    Ok(Some(match name {
        "SessionStart" => EventKind::SessionStarted { source: fields.name("source")? },
        "SessionEnd" => EventKind::SessionEnded { reason: fields.name("reason")? },
        "BeforeAgent" => {
            EventKind::Prompted { text: needed("prompt", fields.text("prompt"))?, source: None }
        }
        "BeforeTool" => EventKind::BeforeTool(tool_use(Client::Gemini, fields)?),
        "AfterTool" => {
            let error = fields.get("tool_response").and_then(|response| response.get("error"));
            after_tool(Client::Gemini, fields, error.and_then(failure_text))?
        }
        "AfterAgent" => EventKind::Stopped { last_message: fields.text("prompt_response")? },
        _ => return Ok(None),
    }))
}

fn opencode(name: &str, fields: &Fields) -> Result<Option<EventKind>, EventError> {
    Ok(Some(match name {
        "session.created" => EventKind::SessionStarted { source: fields.name("source")? },
        "session.deleted" => EventKind::SessionEnded { reason: fields.name("reason")? },
        "chat.message" => {
            EventKind::Prompted { text: needed("prompt", fields.text("prompt"))?, source: None }
        }
        "tool.execute.before" => EventKind::BeforeTool(tool_use(Client::OpenCode, fields)?),
        "tool.execute.after" => {
            let error = fields.get("error").and_then(failure_text);
            after_tool(Client::OpenCode, fields, error)?
        }
        _ => return Ok(None),
    }))
}

fn after_tool(
    client: Client,
    fields: &Fields,
    failure: Option<String>,
) -> Result<EventKind, EventError> {
    Ok(EventKind::AfterTool {
        tool_use: tool_use(client, fields)?,
        result: fields.get("tool_response").cloned().unwrap_or_default(),
        failure,
        interrupted: false,
        duration_ms: fields.milliseconds("duration_ms")?,
    })
}

/// An error as text: its message, or the whole of it.
fn failure_text(error: &Value) -> Option<String> {
    match error {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            let message = error.get("message").and_then(Value::as_str);
            Some(message.map_or_else(|| error.to_string(), str::to_owned))
        }
    }
}

fn tool_use(client: Client, fields: &Fields) -> Result<ToolUse, EventError> {
    let mcp_server = match client {
        Client::Claude => server_in(fields, "mcp_server", "name")?,
        Client::Codex => None,
        Client::Gemini => server_in(fields, "mcp_context", "server_name")?,
        Client::OpenCode => fields.name("mcp_server")?,
    };
    Ok(ToolUse {
        id: fields.name("tool_use_id")?,
        name: needed("tool_name", fields.name("tool_name"))?,
        input: needed("tool_input", fields.object("tool_input"))?,
        mcp_server,
    })
}

/// The name of the MCP server in an object of the event.
fn server_in(
    fields: &Fields,
    field: &'static str,
    key: &str,
) -> Result<Option<String>, EventError> {
    let Some(object) = fields.object(field)? else { return Ok(None) };
    match object.get(key).and_then(Value::as_str) {
        Some(name) if is_limited(name, NAME_BYTES_MAX) => Ok(Some(name.to_owned())),
        Some(_) | None => Err(invalid(field, "an object with the server's name")),
    }
}
