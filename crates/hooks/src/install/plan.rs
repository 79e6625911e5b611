//! Which files of a client have our hooks.

use serde::{Deserialize, Serialize};

use super::binary::Binary;
use super::entries::SettingsClient;
use super::trust::Trust;
use crate::Client;

/// For whom hooks are installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// For everything that the user does.
    User,
    /// For one project.
    Project,
}

impl Scope {
    /// Its name on the command line and in records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

/// The folder that a file is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// The project's root.
    Project,
    /// A client's folder of the user.
    User {
        /// The variable that names it, if it is set.
        variable: &'static str,
        /// What follows the variable's value.
        below: &'static str,
        /// Where it is otherwise, below the user's home.
        in_home: &'static str,
    },
}

/// A file that has hooks of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookFile {
    /// The folder.
    pub root: Root,
    /// The path from there.
    pub path: &'static str,
    /// What is written into it.
    pub content: Content,
}

/// What is written into a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Hooks among a client's settings.
    Settings {
        /// The client.
        client: SettingsClient,
        /// The program that they run.
        binary: Binary,
    },
    /// A plugin for OpenCode.
    Plugin {
        /// The program that it runs.
        binary: Binary,
    },
    /// Trust in hooks of Codex.
    Trust(Trust),
    /// Trust of Gemini CLI in a project's folder.
    FolderTrust(String),
    /// The whole of a file.
    Whole(String),
}

/// The user's folder of Codex.
const CODEX_HOME: Root = Root::User { variable: "CODEX_HOME", below: "", in_home: ".codex" };

/// The user's folder of Gemini CLI.
const GEMINI_HOME: Root =
    Root::User { variable: "GEMINI_CLI_HOME", below: ".gemini", in_home: ".gemini" };

/// The files that have a client's hooks.
///
/// Codex also needs [`trust_file`], of which the content is known only when this file is written.
#[must_use]
pub fn plan(client: Client, scope: Scope, binary: &Binary) -> Vec<HookFile> {
    let binary = binary.clone();
    let content = match client {
        Client::Claude => Content::Settings { client: SettingsClient::Claude, binary },
        Client::Codex => Content::Settings { client: SettingsClient::Codex, binary },
        Client::Gemini => Content::Settings { client: SettingsClient::Gemini, binary },
        Client::OpenCode => Content::Plugin { binary },
    };
    let user = |variable, below, in_home| Root::User { variable, below, in_home };
    let (root, path) = match (scope, client) {
        (Scope::Project, Client::Claude) => (Root::Project, ".claude/settings.json"),
        (Scope::Project, Client::Codex) => (Root::Project, ".codex/hooks.json"),
        (Scope::Project, Client::Gemini) => (Root::Project, ".gemini/settings.json"),
        (Scope::Project, Client::OpenCode) => (Root::Project, ".opencode/plugin/windlass.js"),
        (Scope::User, Client::Claude) => {
            (user("CLAUDE_CONFIG_DIR", "", ".claude"), "settings.json")
        }
        (Scope::User, Client::Codex) => (CODEX_HOME, "hooks.json"),
        (Scope::User, Client::Gemini) => (GEMINI_HOME, "settings.json"),
        (Scope::User, Client::OpenCode) => {
            (user("XDG_CONFIG_HOME", "opencode", ".config/opencode"), "plugin/windlass.js")
        }
    };
    vec![HookFile { root, path, content }]
}

/// The file in which Codex keeps its trust in hooks: the user's, whatever the hooks' scope is.
#[must_use]
pub fn trust_file(trust: Trust) -> HookFile {
    HookFile { root: CODEX_HOME, path: "config.toml", content: Content::Trust(trust) }
}

/// The file in which Gemini CLI keeps its trust in folders. It starts hooks in trusted folders only.
#[must_use]
pub fn folder_trust_file(folder: &str) -> HookFile {
    let content = Content::FolderTrust(folder.to_owned());
    HookFile { root: GEMINI_HOME, path: "trustedFolders.json", content }
}
