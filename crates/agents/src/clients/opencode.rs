//! OpenCode, with models behind an OpenAI-compatible endpoint.
//!
//! Its sessions are in a database of its own, so every invocation starts anew. Our server is not told the model's id of
//! a call. A request for a title, without tools, comes first. All of its configuration is in one variable. It knows no
//! model by itself here, so one must be named.

use std::collections::BTreeMap;
use std::io;

use serde_json::{Value, json};

use super::claude::PLACEHOLDER;
use crate::client::{Api, Assignment, Client, ClientEvent, Launch, PrivateFolder, SERVER};

/// OpenCode, by its command `opencode`.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenCode;

/// How long a call may take, in milliseconds.
const CALL_MS_MAX: u64 = 86_400_000;

/// The tool that it uses in place of one that it does not have; it does nothing but say so.
const MISSING: &str = "invalid";

/// Variables that keep it from reading, sending or changing anything by itself.
const VARIABLES: [(&str, &str); 9] = [
    ("OPENCODE_DISABLE_PROJECT_CONFIG", "1"),
    ("OPENCODE_PURE", "1"),
    ("OPENCODE_DISABLE_CLAUDE_CODE", "1"),
    ("OPENCODE_DISABLE_EXTERNAL_SKILLS", "1"),
    ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
    ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
    ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
    ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
    // Nothing listens there.
    ("npm_config_registry", "http://127.0.0.1:9"),
];

impl Client for OpenCode {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn program(&self) -> &'static str {
        "opencode"
    }

    fn measured(&self) -> &'static [&'static str] {
        &["1.18.33"]
    }

    fn api(&self) -> &'static Api {
        &Api {
            endpoint: ("OPENAI_BASE_URL", "https://api.openai.com/v1"),
            credentials: &[("OPENAI_API_KEY", "authorization", "Bearer ")],
            headers: &["authorization"],
        }
    }

    fn shown_names(&self, tool: &str) -> Vec<String> {
        vec![format!("{SERVER}_{tool}")]
    }

    fn harmless_tools(&self) -> &'static [&'static str] {
        &[]
    }

    fn needs_model(&self) -> bool {
        true
    }

    fn own_tools(&self, file: &str) -> Vec<(&'static str, Value)> {
        vec![
            ("bash", json!({ "command": format!("touch {file}"), "description": "a check" })),
            ("write", json!({ "filePath": file, "content": "x" })),
        ]
    }

    fn launch(&self, _: &PrivateFolder, assignment: &Assignment<'_>) -> io::Result<Launch> {
        let Some(model) = assignment.model else {
            return Err(io::Error::other(
                "no model is named: set `model` below [agents.opencode] in your settings",
            ));
        };
        let mut env: BTreeMap<String, String> =
            VARIABLES.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        env.insert("OPENCODE_CONFIG_CONTENT".to_owned(), config(assignment, model).to_string());
        let arguments = ["run", "--pure", "--format", "json"].map(str::to_owned).to_vec();
        let stdin = format!("{}\n\n{}", assignment.brief.system, assignment.brief.prompt);
        Ok(Launch { arguments, env, stdin: Some(stdin) })
    }

    fn session_in(&self, _: &PrivateFolder) -> Option<String> {
        None
    }

    fn read(&self, line: &Value) -> Vec<ClientEvent> {
        let text = |pointer: &str| line.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let session = text("/sessionID").map(ClientEvent::Session);
        let event = match text("/type").as_deref() {
            Some("text") => text("/part/text").map(ClientEvent::Text),
            Some("tool_use") => Some(ClientEvent::ToolEnded {
                id: None,
                name: text("/part/tool"),
                failed: text("/part/tool").is_none_or(|tool| tool == MISSING)
                    || text("/part/state/status").is_none_or(|status| status != "completed"),
            }),
            // Each answer of the model is a step; after the last one it ends.
            Some("step_finish") if text("/part/reason").is_some_and(|why| why != "tool-calls") => {
                Some(ClientEvent::Ended(None))
            }
            Some("error") => {
                let reason = text("/error/data/message").or_else(|| text("/error/name"));
                let reason = reason.unwrap_or_else(|| "it failed".to_owned());
                Some(ClientEvent::Ended(Some(reason.chars().take(500).collect())))
            }
            Some(_) | None => None,
        };
        session.into_iter().chain(event).collect()
    }
}

/// Its configuration: one model, everything off, our server alone.
fn config(assignment: &Assignment<'_>, model: &str) -> Value {
    let name = format!("{SERVER}/{model}");
    let ours = format!("{SERVER}_*");
    json!({
        "model": name,
        "small_model": name,
        "autoupdate": false,
        "share": "disabled",
        "provider": { SERVER: {
            // It is part of the program.
            "npm": "@ai-sdk/openai-compatible",
            "name": SERVER,
            "options": { "baseURL": assignment.endpoint, "apiKey": PLACEHOLDER },
            "models": { model: {
                "name": model, "tool_call": true, "limit": { "context": 200_000, "output": 32_000 },
            }},
        }},
        "tools": { "*": false, ours.as_str(): true },
        // Three equal calls in one answer would end it.
        "permission": { "*": "deny", ours.as_str(): "allow", "doom_loop": "allow" },
        "mcp": { SERVER: { "type": "local", "command": assignment.server, "timeout": CALL_MS_MAX } },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_output_is_read() {
        let session = || ClientEvent::Session("s".to_owned());
        let ended = |name: &str, failed| ClientEvent::ToolEnded {
            id: None,
            name: Some(name.to_owned()),
            failed,
        };
        let tool = |name: &str, status: &str| {
            let part = json!({ "type": "tool", "tool": name, "state": { "status": status } });
            json!({ "type": "tool_use", "sessionID": "s", "part": part })
        };
        let error = json!({ "name": "APIError", "data": { "message": "no" } });
        for (line, events) in [
            (json!({ "type": "step_start", "sessionID": "s", "part": {} }), vec![session()]),
            (
                json!({ "type": "text", "sessionID": "s", "part": { "text": "a" } }),
                vec![session(), ClientEvent::Text("a".to_owned())],
            ),
            (tool("w_fs_read", "completed"), vec![session(), ended("w_fs_read", false)]),
            (tool("w_fs_read", "error"), vec![session(), ended("w_fs_read", true)]),
            (tool("invalid", "completed"), vec![session(), ended("invalid", true)]),
            (
                json!({ "type": "step_finish", "sessionID": "s", "part": { "reason": "tool-calls" } }),
                vec![session()],
            ),
            (
                json!({ "type": "step_finish", "sessionID": "s", "part": { "reason": "stop" } }),
                vec![session(), ClientEvent::Ended(None)],
            ),
            (
                json!({ "type": "error", "error": error }),
                vec![ClientEvent::Ended(Some("no".to_owned()))],
            ),
            (json!([]), vec![]),
        ] {
            assert_eq!(OpenCode.read(&line), events, "{line}");
        }
    }
}
