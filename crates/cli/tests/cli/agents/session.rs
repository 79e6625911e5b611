//! A person's own session: a real client that is started without Windlass, with hooks that were installed.

use std::process::Command;

use serde_json::{Value, json};

use crate::agents::lab::Lab;
use crate::harness::{Outcome, finish};

/// A script of a model that calls tools one after another, whether they are offered or not, and ends.
pub fn script(calls: &[(&str, Value)]) -> Value {
    let step = |(name, input): &(&str, Value)| json!({ "calls": [{ "name": format!("={name}"), "input": input }] });
    let mut steps: Vec<Value> = calls.iter().map(step).collect();
    steps.push(json!({ "text": "done", "repeat": -1 }));
    json!({ "conversations": [], "otherwise": steps })
}

/// A call of the client's own shell.
pub fn shell(client: &str, line: &str) -> (&'static str, Value) {
    match client {
        "claude" => ("Bash", json!({ "command": line, "description": "a step" })),
        "codex" => ("exec_command", json!({ "cmd": line })),
        "gemini" => ("run_shell_command", json!({ "command": line, "description": "a step" })),
        "opencode" => ("bash", json!({ "command": line, "description": "a step" })),
        _ => panic!("{client}"),
    }
}

/// Settings with which the client talks to the model and asks nobody itself. They are there before hooks are.
pub fn configure(lab: &Lab) {
    let home = lab.repo.place.home();
    let write = |path: &str, text: &str| {
        let path = home.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    };
    let address = lab.model.address();
    match lab.kind.name {
        "codex" => write(
            ".codex/config.toml",
            &format!(
                "# mine\nmodel_provider = \"loopback\"\napproval_policy = \"never\"\nsandbox_mode = \
                 \"danger-full-access\"\ncheck_for_update_on_startup = false\n\n[model_providers.loopback]\n\
                 name = \"loopback\"\nbase_url = \"http://{address}/v1\"\nenv_key = \"OPENAI_API_KEY\"\n\
                 wire_api = \"responses\"\n"
            ),
        ),
        "gemini" => write(
            ".gemini/settings.json",
            "{\n  // mine\n  \"security\": { \"auth\": { \"selectedType\": \"gemini-api-key\" } },\n  \
             \"general\": { \"disableAutoUpdate\": true },\n  \"privacy\": { \"usageStatisticsEnabled\": false }\n}\n",
        ),
        "opencode" => {
            let config = json!({
                "model": "loopback/m",
                "small_model": "loopback/m",
                "autoupdate": false,
                "share": "disabled",
                "permission": { "*": "allow" },
                "provider": { "loopback": {
                    "npm": "@ai-sdk/openai-compatible",
                    "name": "loopback",
                    "options": { "baseURL": format!("http://{address}/v1"), "apiKey": "key" },
                    "models": { "m": {
                        "name": "m", "tool_call": true, "limit": { "context": 200_000, "output": 32_000 },
                    }},
                }},
            });
            write(".config/opencode/opencode.json", &config.to_string());
        }
        _ => {}
    }
}

/// The client, to be started by a person in the repository.
pub fn client(lab: &Lab) -> Command {
    let windlass = lab.command(&[]);
    // A client that waits for something is a failure, with all that it has said.
    let mut command = Command::new("timeout");
    command.arg("240").arg(lab.clients().join(".bin").join(lab.kind.program));
    lab.repo.place.settle(&mut command);
    command.envs(windlass.get_envs().filter_map(|(name, value)| Some((name, value?))));
    match lab.kind.name {
        "claude" => command
            .args(["-p", "go on", "--permission-mode", "bypassPermissions", "--verbose"])
            .args(["--output-format", "stream-json"])
            .env("DISABLE_AUTOUPDATER", "1")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            // Else it refuses to skip its own questions as root.
            .env("IS_SANDBOX", "1"),
        "codex" => command.args(["exec", "--json", "go on"]),
        "gemini" => command
            .args(["-p", "go on", "--approval-mode", "yolo", "--model", "gemini-2.5-pro"])
            .args(["--output-format", "stream-json", "--skip-trust"])
            // It then reads its settings before it knows of `--skip-trust`, as in a folder that it does not trust.
            .env("GEMINI_CLI_NO_RELAUNCH", "true"),
        "opencode" => command
            .args(["run", "--format", "json", "go on"])
            .env("OPENCODE_DISABLE_MODELS_FETCH", "1")
            .env("OPENCODE_DISABLE_AUTOUPDATE", "1")
            .env("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1")
            .env("OPENCODE_DISABLE_LSP_DOWNLOAD", "1")
            // Nothing listens there, and it need not be tried again.
            .env("npm_config_registry", "http://127.0.0.1:9")
            .env("npm_config_fetch_retries", "0"),
        name => panic!("{name}"),
    };
    command
}

/// Runs the client until it ends.
pub fn run(command: Command) -> Outcome {
    finish(command, &[])
}
