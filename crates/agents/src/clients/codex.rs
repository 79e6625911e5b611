//! Codex.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_cell::{Excess, Limits, OnSignal, Program};

use super::claude::PLACEHOLDER;
use crate::client::{Api, Assignment, Client, ClientEvent, Launch, PrivateFolder, SERVER};

/// Codex, by its command `codex`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Codex;

/// Features that give it tools, or let it load something by itself.
const FEATURES_OFF: [&str; 23] = [
    "apps",
    "auth_elicitation",
    "browser_use",
    "browser_use_external",
    "code_mode_host",
    "computer_use",
    "goals",
    "hooks",
    "image_generation",
    "in_app_browser",
    "memories",
    "multi_agent",
    "plugins",
    "remote_plugin",
    "shell_snapshot",
    "shell_tool",
    "skill_mcp_dependency_install",
    "skill_search",
    "sleep_tool",
    "tool_call_mcp_elicitation",
    "tool_suggest",
    "unified_exec",
    "view_image",
];

/// The arguments by which it prints the models that it knows.
const LIST_MODELS: [&str; 3] = ["debug", "models", "--bundled"];

/// How long it may take to print its models.
const CATALOG_LIMITS: Limits =
    Limits { timeout: Duration::from_secs(30), output_bytes_max: 16 << 20 };

impl Client for Codex {
    fn name(&self) -> &'static str {
        "codex"
    }

    fn program(&self) -> &'static str {
        "codex"
    }

    fn measured(&self) -> &'static [&'static str] {
        &["0.166.0"]
    }

    fn api(&self) -> &'static Api {
        &Api {
            endpoint: ("OPENAI_BASE_URL", "https://api.openai.com/v1"),
            credentials: &[
                ("CODEX_API_KEY", "authorization", "Bearer "),
                ("OPENAI_API_KEY", "authorization", "Bearer "),
            ],
            headers: &["authorization"],
        }
    }

    fn shown_names(&self, tool: &str) -> Vec<String> {
        ["mcp__w::", "mcp__w__"].map(|prefix| format!("{prefix}{tool}")).to_vec()
    }

    fn harmless_tools(&self) -> &'static [&'static str] {
        // They reach only our server, which has no resources.
        &[
            "list_mcp_resources",
            "list_mcp_resource_templates",
            "read_mcp_resource",
            "functions::list_mcp_resources",
            "functions::list_mcp_resource_templates",
            "functions::read_mcp_resource",
        ]
    }

    fn needs_model(&self) -> bool {
        false
    }

    fn own_tools(&self, file: &str) -> Vec<(&'static str, Value)> {
        let line = format!("touch {file}");
        let patch = format!("*** Begin Patch\n*** Add File: {file}\n+x\n*** End Patch");
        vec![
            ("shell", json!({ "command": ["bash", "-c", line] })),
            ("exec_command", json!({ "cmd": line })),
            ("apply_patch", json!({ "input": patch })),
        ]
    }

    fn launch(&self, folder: &PrivateFolder, assignment: &Assignment<'_>) -> io::Result<Launch> {
        let home = folder.home().join("codex");
        std::fs::create_dir_all(&home)?;
        let catalog = folder.root().join("codex-models.json");
        if !catalog.exists() {
            std::fs::write(&catalog, model_catalog(assignment.command)?.to_string())?;
        }
        std::fs::write(home.join("config.toml"), config(folder, assignment, &catalog)?)?;
        let mut arguments: Vec<String> = ["exec"].map(str::to_owned).to_vec();
        let prompt = match assignment.continued {
            Some((session, prompt)) => {
                arguments.extend(["resume".to_owned(), session.to_owned()]);
                prompt.to_owned()
            }
            None => format!("{}\n\n{}", assignment.brief.system, assignment.brief.prompt),
        };
        arguments.extend(
            ["--json", "--strict-config", "--ignore-rules", "--skip-git-repo-check", "-"]
                .map(str::to_owned),
        );
        let env = BTreeMap::from([
            ("CODEX_HOME".to_owned(), home.display().to_string()),
            ("CODEX_API_KEY".to_owned(), PLACEHOLDER.to_owned()),
            ("OPENAI_API_KEY".to_owned(), PLACEHOLDER.to_owned()),
        ]);
        Ok(Launch { arguments, env, stdin: Some(prompt) })
    }

    fn session_in(&self, folder: &PrivateFolder) -> Option<String> {
        let mut newest: Option<(std::time::SystemTime, String)> = None;
        let mut folders = vec![folder.home().join("codex/sessions")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let modified = entry.metadata().ok()?.modified().ok()?;
                // rollout-2026-11-17T00-00-00-UUID.jsonl
                let stem = path.file_stem()?.to_str()?;
                let id = stem.get(stem.len().checked_sub(36)?..)?.to_owned();
                if newest.as_ref().is_none_or(|(time, _)| *time < modified) {
                    newest = Some((modified, id));
                }
            }
        }
        newest.map(|(_, id)| id)
    }

    fn read(&self, line: &Value) -> Vec<ClientEvent> {
        let text = |pointer: &str| line.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        match line.get("type").and_then(Value::as_str) {
            Some("thread.started") => {
                text("/thread_id").map(ClientEvent::Session).into_iter().collect()
            }
            Some("item.completed") => item(line.get("item").unwrap_or(&Value::Null)),
            Some("turn.completed") => vec![ClientEvent::Ended(None)],
            Some("turn.failed") => {
                let reason = text("/error/message").unwrap_or_else(|| "it failed".to_owned());
                vec![ClientEvent::Ended(Some(reason.chars().take(500).collect()))]
            }
            Some(_) | None => Vec::new(),
        }
    }
}

fn item(item: &Value) -> Vec<ClientEvent> {
    let text = |key: &str| item.get(key).and_then(Value::as_str).map(str::to_owned);
    match item.get("type").and_then(Value::as_str) {
        Some("agent_message") => text("text").map(ClientEvent::Text).into_iter().collect(),
        Some("mcp_tool_call") => {
            let [server, tool] = ["server", "tool"].map(|key| text(key).unwrap_or_default());
            let failed = text("status").is_none_or(|status| status != "completed");
            let name = Some(format!("mcp__{server}__{tool}"));
            vec![ClientEvent::ToolEnded { id: None, name, failed }]
        }
        // Tools of its own, which are switched off.
        Some(own @ ("command_execution" | "file_change" | "web_search" | "collab_tool_call")) => {
            let failed = text("status").is_some_and(|status| status != "completed");
            vec![ClientEvent::ToolEnded { id: None, name: Some(own.to_owned()), failed }]
        }
        Some(_) | None => Vec::new(),
    }
}

/// Its configuration: everything off, our server alone.
fn config(
    folder: &PrivateFolder,
    assignment: &Assignment<'_>,
    catalog: &Path,
) -> io::Result<String> {
    let Some((program, arguments)) = assignment.server.split_first() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // A JSON string is a TOML string.
    let quoted = |text: &str| Value::String(text.to_owned()).to_string();
    let mut text = String::new();
    let mut line = |key: &str, value: &str| {
        let _ = writeln!(text, "{key} = {value}");
    };
    line("approval_policy", "\"never\"");
    line("sandbox_mode", "\"read-only\"");
    line("web_search", "\"disabled\"");
    line("project_doc_max_bytes", "0");
    line("check_for_update_on_startup", "false");
    line("model_catalog_json", &quoted(&catalog.display().to_string()));
    line("model_provider", "\"windlass\"");
    if let Some(model) = assignment.model {
        line("model", &quoted(model));
    }
    text.push_str("\n[model_providers.windlass]\n");
    let mut line = |key: &str, value: &str| {
        let _ = writeln!(text, "{key} = {value}");
    };
    line("name", "\"windlass\"");
    line("base_url", &quoted(assignment.endpoint));
    line("env_key", "\"OPENAI_API_KEY\"");
    line("wire_api", "\"responses\"");
    line("request_max_retries", "2");
    line("stream_max_retries", "2");
    text.push_str("\n[features]\n");
    for feature in FEATURES_OFF {
        {
            let _ = writeln!(text, "{feature} = false");
        };
    }
    text.push_str("\n[agents]\nenabled = false\n\n[skills]\ninclude_instructions = false\n");
    text.push_str("\n[tools]\nexperimental_request_user_input = { enabled = false }\n");
    let cwd = quoted(&folder.empty().display().to_string());
    let _ = write!(text, "\n[projects.{cwd}]\ntrust_level = \"untrusted\"\n");
    let _ = write!(text, "\n[mcp_servers.{SERVER}]\n");
    let mut line = |key: &str, value: &str| {
        let _ = writeln!(text, "{key} = {value}");
    };
    line("command", &quoted(program));
    line("args", &json!(arguments).to_string());
    line("required", "true");
    line("omit_tools_from", "[\"deferred\"]");
    line("default_tools_approval_mode", "\"approve\"");
    line("tool_timeout_sec", "86400");
    Ok(text)
}

/// Its list of models, in which none has a tool of its own.
fn model_catalog(command: &[String]) -> io::Result<Value> {
    let finished = windlass_cell::run(&Program {
        argv: command.iter().map(OsStr::new).chain(LIST_MODELS.map(OsStr::new)).collect(),
        stdin: None,
        env: Vec::new(),
        cwd: Path::new("/"),
        limits: CATALOG_LIMITS,
        confined: None,
        excess: Excess::End,
        on_signal: OnSignal::End,
    });
    let finished = finished.map_err(|error| io::Error::other(error.to_string()))?;
    let malformed = || io::Error::other("`codex debug models --bundled` printed no list of models");
    let mut catalog: Value = serde_json::from_slice(&finished.stdout).map_err(|_| malformed())?;
    let models = catalog.get_mut("models").and_then(Value::as_array_mut).ok_or_else(malformed)?;
    for model in models {
        let model = model.as_object_mut().ok_or_else(malformed)?;
        for key in ["apply_patch_tool_type", "tool_mode", "multi_agent_version"] {
            model.insert(key.to_owned(), Value::Null);
        }
        model.insert("shell_type".to_owned(), json!("disabled"));
        model.insert("supports_search_tool".to_owned(), json!(false));
        model.insert("experimental_supported_tools".to_owned(), json!([]));
    }
    Ok(catalog)
}
