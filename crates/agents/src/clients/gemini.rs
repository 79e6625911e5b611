//! Gemini CLI.
//!
//! A resumed session does not show the call that was interrupted, so every invocation starts anew. Our server is not
//! told the model's id of a call, and results reach the model inside of `<untrusted_context>`. Without `-m` a request
//! for choosing a model comes first; the model that is asked may differ from the one that was named. The cage has two
//! locks: no tools of its own (`tools.core`), and a policy that denies everything but our server.

use std::collections::BTreeMap;
use std::io;

use serde_json::{Value, json};

use super::claude::PLACEHOLDER;
use crate::client::{Api, Assignment, Client, ClientEvent, Launch, PrivateFolder, SERVER};

/// Gemini CLI, by its command `gemini`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gemini;

/// The model, if none is named.
const MODEL: &str = "gemini-2.5-pro";

/// How long a call may take, in milliseconds.
const CALL_MS_MAX: u64 = 86_400_000;

/// A name that no file has.
const NO_CONTEXT: &str = "NO_CONTEXT_FILE";

impl Client for Gemini {
    fn name(&self) -> &'static str {
        "gemini"
    }

    fn program(&self) -> &'static str {
        "gemini"
    }

    fn measured(&self) -> &'static [&'static str] {
        &["0.61.0"]
    }

    fn api(&self) -> &'static Api {
        &Api {
            endpoint: ("GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com"),
            credentials: &[
                ("GEMINI_API_KEY", "x-goog-api-key", ""),
                ("GOOGLE_API_KEY", "x-goog-api-key", ""),
            ],
            headers: &["x-goog-api-key"],
        }
    }

    fn shown_names(&self, tool: &str) -> Vec<String> {
        vec![format!("mcp_{SERVER}_{tool}")]
    }

    fn harmless_tools(&self) -> &'static [&'static str] {
        &[]
    }

    fn needs_model(&self) -> bool {
        false
    }

    fn own_tools(&self, file: &str) -> Vec<(&'static str, Value)> {
        vec![
            (
                "run_shell_command",
                json!({ "command": format!("touch {file}"), "description": "a check" }),
            ),
            ("write_file", json!({ "file_path": file, "content": "x" })),
        ]
    }

    fn launch(&self, folder: &PrivateFolder, assignment: &Assignment<'_>) -> io::Result<Launch> {
        let settings = settings(assignment)?;
        folder.write("home/.gemini/settings.json", &settings.to_string())?;
        let policy = folder.write("gemini-policy.toml", &policy())?;
        let arguments = [
            "--skip-trust",
            "--output-format",
            "stream-json",
            "--extensions",
            "none",
            "--allowed-mcp-server-names",
            SERVER,
            "--admin-policy",
            &policy.display().to_string(),
            "--model",
            assignment.model.unwrap_or(MODEL),
        ];
        let home = folder.home().display().to_string();
        let env: BTreeMap<String, String> = [
            ("GEMINI_CLI_HOME", home.as_str()),
            ("GEMINI_CLI_NO_RELAUNCH", "true"),
            ("GEMINI_API_KEY", PLACEHOLDER),
            ("GOOGLE_GEMINI_BASE_URL", assignment.endpoint),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
        let stdin = format!("{}\n\n{}", assignment.brief.system, assignment.brief.prompt);
        Ok(Launch { arguments: arguments.map(str::to_owned).to_vec(), env, stdin: Some(stdin) })
    }

    fn session_in(&self, _: &PrivateFolder) -> Option<String> {
        None
    }

    fn read(&self, line: &Value) -> Vec<ClientEvent> {
        let text = |pointer: &str| line.pointer(pointer).and_then(Value::as_str);
        let event = match text("/type") {
            Some("init") => text("/session_id").map(|id| ClientEvent::Session(id.to_owned())),
            Some("message") if text("/role") == Some("assistant") => {
                text("/content").map(|said| ClientEvent::Text(said.to_owned()))
            }
            // The id is made of the name of the tool, two underscores, and the model's id.
            Some("tool_result") => Some(ClientEvent::ToolEnded {
                id: None,
                name: text("/tool_id")
                    .and_then(|id| id.rsplit_once("__"))
                    .map(|(name, _)| name.to_owned()),
                failed: text("/status") == Some("error"),
            }),
            Some("error") => text("/message").map(|said| ClientEvent::Text(said.to_owned())),
            Some("result") => {
                let failed = text("/status").is_some_and(|status| status != "success");
                let reason = text("/error/message").unwrap_or("it failed");
                Some(ClientEvent::Ended(failed.then(|| reason.chars().take(500).collect())))
            }
            Some(_) | None => None,
        };
        event.into_iter().collect()
    }
}

/// Its settings: everything off, our server alone.
fn settings(assignment: &Assignment<'_>) -> io::Result<Value> {
    let Some((program, arguments)) = assignment.server.split_first() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    Ok(json!({
        "tools": { "core": [] },
        "mcp": { "allowed": [SERVER] },
        "mcpServers": { SERVER: { "command": program, "args": arguments, "timeout": CALL_MS_MAX } },
        "skills": { "enabled": false },
        "hooksConfig": { "enabled": false },
        "experimental": { "enableAgents": false },
        "context": { "fileName": [NO_CONTEXT] },
        "advanced": { "ignoreLocalEnv": true },
        // After many turns it would ask another model whether this one goes round in circles.
        "model": { "disableLoopDetection": true },
        "security": { "auth": { "selectedType": "gemini-api-key" } },
        "general": { "disableAutoUpdate": true, "disableUpdateNag": true },
        "privacy": { "usageStatisticsEnabled": false },
        "telemetry": { "enabled": false },
    }))
}

/// Its policy: our tools, nothing else.
fn policy() -> String {
    format!(
        "[[rule]]\ntoolName = \"*\"\ndecision = \"deny\"\npriority = 1\n\n\
         [[rule]]\nmcpName = \"{SERVER}\"\ntoolName = \"*\"\ndecision = \"allow\"\npriority = 900\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_output_is_read() {
        let ended = |name: &str, failed| ClientEvent::ToolEnded {
            id: None,
            name: Some(name.to_owned()),
            failed,
        };
        for (line, events) in [
            (
                json!({ "type": "init", "session_id": "s", "model": "m" }),
                vec![ClientEvent::Session("s".to_owned())],
            ),
            (json!({ "type": "message", "role": "user", "content": "a" }), vec![]),
            (
                json!({ "type": "message", "role": "assistant", "content": "a", "delta": true }),
                vec![ClientEvent::Text("a".to_owned())],
            ),
            (json!({ "type": "tool_use", "tool_name": "mcp_w_fs_read", "tool_id": "x" }), vec![]),
            (
                json!({ "type": "tool_result", "tool_id": "mcp_w_fs_read__call_1", "status": "success" }),
                vec![ended("mcp_w_fs_read", false)],
            ),
            (
                json!({ "type": "tool_result", "tool_id": "run_shell_command__1", "status": "error" }),
                vec![ended("run_shell_command", true)],
            ),
            (json!({ "type": "result", "status": "success" }), vec![ClientEvent::Ended(None)]),
            (
                json!({ "type": "result", "status": "error", "error": { "message": "no" } }),
                vec![ClientEvent::Ended(Some("no".to_owned()))],
            ),
            (json!([]), vec![]),
        ] {
            assert_eq!(Gemini.read(&line), events, "{line}");
        }
    }
}
