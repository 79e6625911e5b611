//! The Claude Code plugin that the repository's root is: our hooks, and commands that show what is going on.

use super::binary::Binary;
use super::entries::SettingsClient;
use super::render::{Json, Layout, Style};
use super::settings::hooks_object;

/// A file of the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginFile {
    /// Its path from the plugin's root.
    pub path: &'static str,
    /// What is in it.
    pub text: String,
}

/// What the plugin is, in one sentence.
const DESCRIPTION: &str =
    "Asks Windlass before a tool runs, and records what Claude Code does in its journal.";

/// The command that analyses sessions, as a file of Claude Code.
pub const INSIGHTS_COMMAND: &str = include_str!("session-insights.md");

/// The files of the plugin. Its hooks find the program on the client's `PATH`; without it, no tool runs.
#[must_use]
pub fn claude_plugin(version: &str) -> Vec<PluginFile> {
    let manifest = Json::Object(vec![
        ("name", Json::text("windlass")),
        ("version", Json::text(version)),
        ("description", Json::text(DESCRIPTION)),
        ("author", Json::Object(vec![("name", Json::text("Windlass"))])),
        ("license", Json::text("Apache-2.0")),
        ("keywords", Json::Array(["hooks", "policy", "journal"].map(Json::text).to_vec())),
    ]);
    let hooks = Json::Object(vec![
        ("description", Json::text(DESCRIPTION)),
        ("hooks", hooks_object(&SettingsClient::Claude.entries(&Binary::by_name()))),
    ]);
    let json =
        |json: &Json| Style::ours().json(json, &Layout::Lines { indent: String::new() }) + "\n";
    vec![
        PluginFile { path: ".claude-plugin/plugin.json", text: json(&manifest) },
        PluginFile { path: "hooks/hooks.json", text: json(&hooks) },
        PluginFile { path: "commands/status.md", text: include_str!("status.md").to_owned() },
        PluginFile { path: "commands/queue.md", text: include_str!("queue.md").to_owned() },
        PluginFile { path: "commands/session-insights.md", text: INSIGHTS_COMMAND.to_owned() },
    ]
}
