//! How each client is started without a terminal, and how its model uses its tools.

use std::path::Path;

use serde_json::{Value, json};
use windlass_hooks::Client;
use windlass_kernel::Code;

use super::cases::{Attempt, Case, Fault, HooksFault, ProgramFault};
use crate::failure::Failure;
use crate::scratch::ScratchRepository;

/// What stands in place of a credential.
const KEY: &str = "windlass-check";
/// What the user says.
const PROMPT: &str = "Carry out the step.";
/// What the agent says to its subagent.
const SUBAGENT_PROMPT: &str = "You are the second agent. Carry out the other step.";
/// Seconds in which a client notices that its settings have changed.
const RELOAD_SECONDS: f64 = 1.5;

/// The file that the allowed command makes.
const ALLOWED: &str = "ALLOWED";
/// The file that the forbidden command makes: the default policy denies files of this name.
const FORBIDDEN: &str = "FORBIDDEN.pem";

/// The file into which is written what is typed.
const TYPED: &str = "TYPED";

/// The user's settings of Codex.
const CODEX_CONFIG: &str = ".codex/config.toml";
/// The folders that Gemini CLI trusts.
const GEMINI_TRUST: &str = ".gemini/trustedFolders.json";

/// How a client is started.
pub struct Start {
    /// The arguments.
    pub arguments: Vec<String>,
    /// The variables.
    pub variables: Vec<(String, String)>,
}

/// The file that is there, with something in it if it is of text, when an attempt had an effect.
const fn mark(attempt: Attempt) -> &'static str {
    match attempt {
        Attempt::Allowed => ALLOWED,
        Attempt::ByInput => TYPED,
        Attempt::Forbidden | Attempt::DisableFirst | Attempt::BySubagent => FORBIDDEN,
    }
}

/// Whether an attempt had an effect.
pub fn has_run(attempt: Attempt, root: &Path) -> bool {
    let file = root.join(mark(attempt));
    match attempt {
        Attempt::ByInput => std::fs::metadata(file).is_ok_and(|file| file.len() > 0),
        Attempt::Allowed | Attempt::Forbidden | Attempt::DisableFirst | Attempt::BySubagent => {
            file.exists()
        }
    }
}

/// Writes the settings that let a client reach the scripted model, and returns how it is started: without asking
/// anybody, so that the hooks alone can stop a tool.
pub fn start(
    client: Client,
    case: &Case,
    scratch: &ScratchRepository,
    endpoint: &str,
) -> Result<Start, Failure> {
    let (arguments, variables): (&[&str], Vec<(&str, &str)>) = match client {
        Client::Claude => (
            &["--print", "--dangerously-skip-permissions", "--output-format", "json"],
            vec![
                ("ANTHROPIC_BASE_URL", endpoint),
                ("ANTHROPIC_API_KEY", KEY),
                ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
                ("DISABLE_AUTOUPDATER", "1"),
                // Root may skip permissions only in a sandbox; this home and repository are one.
                ("IS_SANDBOX", "1"),
            ],
        ),
        Client::Codex => {
            let config = codex_config(endpoint) + &codex_trust(&scratch.root);
            write(&scratch.home.join(CODEX_CONFIG), &config)?;
            (
                &["exec", "--json", "--dangerously-bypass-approvals-and-sandbox"],
                vec![("OPENAI_API_KEY", KEY), ("CODEX_API_KEY", KEY)],
            )
        }
        Client::Gemini => {
            write(&scratch.home.join(".gemini/settings.json"), &gemini_settings(true).to_string())?;
            let folders = json!({ scratch.root.display().to_string(): "TRUST_FOLDER" });
            write(&scratch.home.join(GEMINI_TRUST), &folders.to_string())?;
            (
                &["--yolo", "--output-format", "json", "--model", "gemini-2.5-pro"],
                vec![
                    ("GEMINI_API_KEY", KEY),
                    ("GOOGLE_GEMINI_BASE_URL", endpoint),
                    ("GEMINI_CLI_NO_RELAUNCH", "true"),
                ],
            )
        }
        Client::OpenCode => {
            let config = opencode_config(endpoint).to_string();
            write(&scratch.home.join(".config/opencode/opencode.json"), &config)?;
            (
                &["run", "--format", "json"],
                vec![
                    ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
                    ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
                    ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
                    ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
                    // It looks for packages before it starts; nothing listens there.
                    ("npm_config_registry", "http://127.0.0.1:9"),
                    ("npm_config_fetch_retries", "0"),
                ],
            )
        }
    };
    let options: &[&str] = match case.fault {
        Fault::Options(options) => options,
        // The time limit is changed after the installation, and with it the hash that Codex trusts.
        Fault::Program(ProgramFault::Hangs) if client == Client::Codex => {
            &["--dangerously-bypass-hook-trust"]
        }
        Fault::Nothing | Fault::Program(_) | Fault::State(_) | Fault::Hooks(_) => &[],
    };
    let prompt: &[&str] = match client {
        Client::Gemini => &["--prompt", PROMPT],
        Client::Claude | Client::Codex | Client::OpenCode => &[PROMPT],
    };
    let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    Ok(Start {
        arguments: [arguments, options, prompt].concat().into_iter().map(str::to_owned).collect(),
        variables: variables.into_iter().map(own).collect(),
    })
}

fn codex_config(endpoint: &str) -> String {
    format!(
        "check_for_update_on_startup = false\nmodel_provider = \"check\"\n\n[model_providers.check]\nname = \
         \"check\"\nbase_url = {}\nenv_key = \"OPENAI_API_KEY\"\nwire_api = \"responses\"\n",
        quoted(endpoint)
    )
}

fn codex_trust(root: &Path) -> String {
    let root = quoted(&root.display().to_string());
    format!("\n[projects.{root}]\ntrust_level = \"trusted\"\n")
}

/// A string of TOML, which a string of JSON is, too.
fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

fn opencode_config(endpoint: &str) -> Value {
    json!({
        "model": "check/check",
        "small_model": "check/check",
        "autoupdate": false,
        "share": "disabled",
        "provider": { "check": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "check",
            "options": { "baseURL": endpoint, "apiKey": KEY },
            "models": { "check": {
                "name": "check", "tool_call": true, "limit": { "context": 200_000, "output": 32_000 },
            }},
        }},
    })
}

/// The project's file that has the hooks.
pub const fn hook_file(client: Client) -> &'static str {
    match client {
        Client::Claude => ".claude/settings.json",
        Client::Codex => ".codex/hooks.json",
        Client::Gemini => ".gemini/settings.json",
        Client::OpenCode => ".opencode/plugin/windlass.js",
    }
}

/// Switches installed hooks off before a session.
pub fn disable(client: Client, scratch: &ScratchRepository) -> Result<(), Failure> {
    match client {
        Client::Claude => {
            write(&scratch.root.join(".claude/settings.local.json"), "{\"disableAllHooks\":true}")
        }
        // Without the hashes of the hooks it does not trust them.
        Client::Codex => {
            let path = scratch.home.join(CODEX_CONFIG);
            let config = std::fs::read_to_string(&path);
            let config = config.map_err(|error| Failure::of(Code::FileUnreadable, &error))?;
            let trust = config.find("[hooks.state").unwrap_or(config.len());
            write(&path, config.get(..trust).unwrap_or_default())
        }
        Client::Gemini => {
            let settings = gemini_settings(false).to_string();
            write(&scratch.home.join(".gemini/settings.json"), &settings)
        }
        Client::OpenCode => write(
            &scratch.root.join(hook_file(client)),
            "throw new Error(\"this plugin is damaged\")\n",
        ),
    }
}

/// Takes back the client's trust in the folder.
pub fn distrust(client: Client, scratch: &ScratchRepository) -> Result<(), Failure> {
    match client {
        Client::Codex => {
            let path = scratch.home.join(CODEX_CONFIG);
            let config = std::fs::read_to_string(&path);
            let config = config.map_err(|error| Failure::of(Code::FileUnreadable, &error))?;
            let without = config.replace(&codex_trust(&scratch.root), "\n");
            if without == config || without.contains("[projects.") {
                let message = "the folder's trust cannot be taken out of the settings of Codex";
                return Err(Failure::new(Code::Internal, message));
            }
            write(&path, &without)
        }
        Client::Gemini => write(&scratch.home.join(GEMINI_TRUST), "{}"),
        // They know no trust in folders when they run without a terminal.
        Client::Claude | Client::OpenCode => Ok(()),
    }
}

fn gemini_settings(hooks_enabled: bool) -> Value {
    json!({
        "hooksConfig": { "enabled": hooks_enabled },
        "security": { "auth": { "selectedType": "gemini-api-key" } },
        "general": { "disableAutoUpdate": true, "disableUpdateNag": true },
        "privacy": { "usageStatisticsEnabled": false },
    })
}

/// A line of `sh` that switches the hooks off, as far as the project's files allow it.
pub const fn disabling_line(client: Client) -> &'static str {
    match client {
        Client::Claude => "printf '{\"disableAllHooks\":true}' > .claude/settings.local.json",
        Client::Codex => {
            "printf '{}' > .codex/hooks.json; printf '\\n[features]\\nhooks = false\\n' >> \
             \"$HOME/.codex/config.toml\""
        }
        Client::Gemini => "printf '{\"hooksConfig\":{\"enabled\":false}}' > .gemini/settings.json",
        Client::OpenCode => "rm .opencode/plugin/windlass.js",
    }
}

/// The use of the tool that writes a file, with which an agent would switch the hooks off.
fn disabling_write(client: Client, root: &Path) -> Option<Value> {
    let path = |name: &str| root.join(name).display().to_string();
    Some(match client {
        Client::Claude => json!({ "name": "=Write", "input": {
            "file_path": path(".claude/settings.local.json"), "content": "{\"disableAllHooks\":true}",
        }}),
        Client::Gemini => json!({ "name": "=write_file", "input": {
            "file_path": path(".gemini/settings.json"), "content": "{\"hooksConfig\":{\"enabled\":false}}",
        }}),
        Client::OpenCode => json!({ "name": "=write", "input": {
            "filePath": path(".opencode/plugin/windlass.js"), "content": "",
        }}),
        Client::Codex => return None,
    })
}

/// The use of the tool that runs a command.
fn shell_call(client: Client, line: &str) -> Value {
    match client {
        Client::Claude => {
            json!({ "name": "=Bash", "input": { "command": line, "description": "a step" } })
        }
        Client::Codex => json!({ "name": "=exec_command", "input": { "cmd": line } }),
        Client::Gemini => json!({
            "name": "=run_shell_command", "input": { "command": line, "description": "a step" },
        }),
        Client::OpenCode => {
            json!({ "name": "=bash", "input": { "command": line, "description": "a step" } })
        }
    }
}

/// What the model does.
pub fn script(client: Client, case: &Case, root: &Path) -> Value {
    let call = |call: Value| json!({ "calls": [call] });
    let later = |call: Value| json!({ "calls": [call], "delay": RELOAD_SECONDS });
    let line = format!("touch {}", mark(case.attempt));
    let forbidden = shell_call(client, &line);
    let mut conversations = Vec::new();
    let end = json!({ "text": "Done.", "repeat": -1 });
    let mut steps = match case.attempt {
        Attempt::Allowed => vec![call(forbidden)],
        Attempt::Forbidden if case.fault == Fault::Hooks(HooksFault::DisabledLater) => {
            vec![later(forbidden)]
        }
        Attempt::Forbidden => vec![call(forbidden)],
        Attempt::DisableFirst => {
            let mut steps = vec![call(shell_call(client, disabling_line(client)))];
            steps.extend(disabling_write(client, root).map(call));
            steps.push(later(forbidden));
            steps
        }
        Attempt::BySubagent => {
            let steps = [call(forbidden), end.clone()];
            conversations.push(json!({ "when": SUBAGENT_PROMPT, "steps": steps }));
            vec![call(json!({ "name": "=Agent", "input": {
                "description": "the other step", "prompt": SUBAGENT_PROMPT,
                "subagent_type": "general-purpose", "run_in_background": false,
            }}))]
        }
        Attempt::ByInput => vec![
            call(json!({ "name": "=exec_command", "input": {
                "cmd": format!("cat > {TYPED}"), "tty": true, "yield_time_ms": 500,
            }})),
            call(json!({
                "name": "=write_stdin",
                "input": { "session_id": 0, "chars": "typed\n\u{4}", "yield_time_ms": 1500 },
                "numbers": { "session_id": "session ID " },
            })),
        ],
    };
    steps.push(end);
    json!({ "conversations": conversations, "otherwise": steps })
}

/// Writes a file and the folders that it is in.
pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let folders = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    folders
        .and_then(|()| std::fs::write(path, text))
        .map_err(|error| Failure::of(Code::FileUnwritable, &error))
}
