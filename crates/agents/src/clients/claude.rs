//! Claude Code.

use std::collections::BTreeMap;
use std::io;

use serde_json::{Value, json};

use crate::client::{Api, Assignment, Client, ClientEvent, Launch, PrivateFolder, SERVER};

/// Claude Code, by its command `claude`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Claude;

/// Variables that keep it from reading, sending or changing anything by itself.
const VARIABLES: [(&str, &str); 8] = [
    ("CLAUDE_CODE_DISABLE_FILE_MENTIONS", "1"),
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT", "0"),
    ("CLAUDE_CODE_MAX_RETRIES", "4"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("DISABLE_ERROR_REPORTING", "1"),
    ("DISABLE_TELEMETRY", "1"),
    ("MCP_TOOL_TIMEOUT", "86400000"),
];

impl Client for Claude {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn program(&self) -> &'static str {
        "claude"
    }

    fn measured(&self) -> &'static [&'static str] {
        &["2.1.325"]
    }

    fn api(&self) -> &'static Api {
        &Api {
            endpoint: ("ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
            credentials: &[
                ("ANTHROPIC_API_KEY", "x-api-key", ""),
                ("ANTHROPIC_AUTH_TOKEN", "authorization", "Bearer "),
                ("CLAUDE_CODE_OAUTH_TOKEN", "authorization", "Bearer "),
            ],
            headers: &["x-api-key", "authorization"],
        }
    }

    fn shown_names(&self, tool: &str) -> Vec<String> {
        vec![format!("mcp__{SERVER}__{tool}")]
    }

    fn harmless_tools(&self) -> &'static [&'static str] {
        // One carries a structured answer, the other stands for tools that are loaded later.
        &["StructuredOutput", "DeferredToolPlaceholder"]
    }

    fn needs_model(&self) -> bool {
        false
    }

    fn own_tools(&self, file: &str) -> Vec<(&'static str, Value)> {
        vec![
            ("Bash", json!({ "command": format!("touch {file}"), "description": "a check" })),
            ("Write", json!({ "file_path": file, "content": "x" })),
        ]
    }

    fn launch(&self, folder: &PrivateFolder, assignment: &Assignment<'_>) -> io::Result<Launch> {
        let (program, arguments) = match assignment.server.split_first() {
            Some((program, arguments)) => (program.as_str(), arguments),
            None => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let servers = json!({ "mcpServers": { SERVER: {
            "type": "stdio", "command": program, "args": arguments,
        }}});
        let servers = folder.write("claude-servers.json", &servers.to_string())?;
        let system = folder.write("system-prompt.txt", &assignment.brief.system)?;
        let text = |path: std::path::PathBuf| path.display().to_string();
        let mut arguments: Vec<String> = [
            "--print",
            "--restricted",
            "--strict-mcp-config",
            "--disable-slash-commands",
            "--output-format",
            "stream-json",
            "--verbose",
            "--permission-mode",
            "dontAsk",
            "--permission-prompts",
            "none",
            "--tools",
            "",
            "--setting-sources",
            "",
        ]
        .map(str::to_owned)
        .to_vec();
        let mut option = |name: &str, value: String| {
            arguments.push(name.to_owned());
            arguments.push(value);
        };
        option("--mcp-config", text(servers));
        option("--allowedTools", format!("mcp__{SERVER}"));
        option("--append-system-prompt-file", text(system));
        if let Some(model) = assignment.model {
            option("--model", model.to_owned());
        }
        let prompt = match assignment.continued {
            Some((session, prompt)) => {
                option("--resume", session.to_owned());
                prompt
            }
            None => {
                option("--session-id", assignment.session.to_owned());
                assignment.brief.prompt.as_str()
            }
        };
        let mut env: BTreeMap<String, String> =
            VARIABLES.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let mut set = |name: &str, value: String| env.insert(name.to_owned(), value);
        set("ANTHROPIC_BASE_URL", assignment.endpoint.to_owned());
        set("ANTHROPIC_API_KEY", PLACEHOLDER.to_owned());
        set("CLAUDE_CONFIG_DIR", text(folder.home().join("claude")));
        Ok(Launch { arguments, env, stdin: Some(prompt.to_owned()) })
    }

    fn session_in(&self, folder: &PrivateFolder) -> Option<String> {
        let projects = folder.home().join("claude/projects");
        let files = std::fs::read_dir(projects)
            .ok()?
            .flatten()
            .flat_map(|project| std::fs::read_dir(project.path()).into_iter().flatten().flatten());
        let sessions = files.filter_map(|file| {
            let path = file.path();
            let is_session = path.extension().is_some_and(|extension| extension == "jsonl");
            let modified = file.metadata().ok()?.modified().ok()?;
            let name = path.file_stem()?.to_str()?.to_owned();
            is_session.then_some((modified, name))
        });
        sessions.max().map(|(_, name)| name)
    }

    fn read(&self, line: &Value) -> Vec<ClientEvent> {
        let text = |pointer: &str| line.pointer(pointer).and_then(Value::as_str);
        match (text("/type"), text("/subtype")) {
            (Some("system"), Some("init")) => init(line),
            (Some("assistant" | "user"), _) => {
                let blocks = line.pointer("/message/content").and_then(Value::as_array);
                blocks.into_iter().flatten().filter_map(block).collect()
            }
            (Some("result"), subtype) => {
                let dollars = line.get("total_cost_usd").and_then(Value::as_f64);
                let cost = dollars.and_then(crate::usage::micros).map(ClientEvent::Cost);
                let is_error = line.get("is_error").and_then(Value::as_bool).unwrap_or(false);
                let failed = is_error || subtype.is_some_and(|subtype| subtype != "success");
                let reason = failed.then(|| {
                    let what = text("/result").or(subtype).unwrap_or("it failed");
                    what.chars().take(500).collect()
                });
                cost.into_iter().chain([ClientEvent::Ended(reason)]).collect()
            }
            (Some(_) | None, _) => Vec::new(),
        }
    }
}

/// The key that clients see in place of the real one, which only the forwarder knows.
pub const PLACEHOLDER: &str = "windlass";

fn init(line: &Value) -> Vec<ClientEvent> {
    let mut events = Vec::new();
    if let Some(session) = line.get("session_id").and_then(Value::as_str) {
        events.push(ClientEvent::Session(session.to_owned()));
    }
    let servers = line.get("mcp_servers").and_then(Value::as_array);
    let ours = servers.into_iter().flatten().find(|server| server["name"] == SERVER);
    match ours.and_then(|server| server.get("status")).and_then(Value::as_str) {
        Some("connected") => {}
        status => events.push(ClientEvent::ServerMissing(status.unwrap_or("absent").to_owned())),
    }
    let tools = line.get("tools").and_then(Value::as_array);
    let names = tools.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    events.push(ClientEvent::Tools(names.collect()));
    events
}

fn block(block: &Value) -> Option<ClientEvent> {
    let text = |key: &str| block.get(key).and_then(Value::as_str).map(str::to_owned);
    match block.get("type").and_then(Value::as_str) {
        Some("text") => text("text").map(ClientEvent::Text),
        Some("tool_result") => {
            let failed = block.get("is_error").and_then(Value::as_bool).unwrap_or(false);
            Some(ClientEvent::ToolEnded { id: text("tool_use_id"), name: None, failed })
        }
        Some(_) | None => None,
    }
}
