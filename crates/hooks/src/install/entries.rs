//! Our entries in the settings of each client, and how they are recognised.

use super::binary::Binary;
use super::json::{Comments, Node};
use super::render::Json;
use crate::Client;

/// How long a hook may take, in seconds.
const TIMEOUT_S: u64 = 30;

/// How long a hook may take when an agent is about to stop: its work may be closed then.
const STOP_TIMEOUT_S: u64 = 600;

/// How long a hook may take at the end of a Codex session, which allows no more.
const CODEX_END_TIMEOUT_S: u64 = 3;

/// A client whose hooks are in a JSON file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsClient {
    /// Claude Code.
    Claude,
    /// Codex CLI.
    Codex,
    /// Gemini CLI.
    Gemini,
}

/// An event of a client that has an entry of ours.
#[derive(Clone, Copy)]
struct Event {
    name: &'static str,
    /// Which tools it is about, for the events that are about a tool.
    matcher: Option<&'static str>,
    /// Whether a hook that fails counts as a refusal, where the client lets us say so.
    on_failure: OnFailure,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OnFailure {
    Block,
    /// Nothing waits for the answer, or the client does not take the setting.
    Unset,
}

const fn event(name: &'static str, matcher: Option<&'static str>, on_failure: OnFailure) -> Event {
    Event { name, matcher, on_failure }
}

const CLAUDE: [Event; 13] = [
    event("PreToolUse", Some("*"), OnFailure::Block),
    event("PermissionRequest", Some("*"), OnFailure::Block),
    event("PostToolUse", Some("*"), OnFailure::Block),
    event("PostToolUseFailure", Some("*"), OnFailure::Block),
    event("UserPromptSubmit", None, OnFailure::Block),
    event("ConfigChange", None, OnFailure::Block),
    event("SessionStart", None, OnFailure::Unset),
    event("SessionEnd", None, OnFailure::Unset),
    event("SubagentStart", None, OnFailure::Unset),
    event("SubagentStop", None, OnFailure::Unset),
    event("Stop", None, OnFailure::Unset),
    // Nothing is decided about these; the core loop records them.
    event("PreCompact", None, OnFailure::Unset),
    event("Notification", None, OnFailure::Unset),
];

const CODEX: [Event; 9] = [
    event("PreToolUse", None, OnFailure::Unset),
    event("PermissionRequest", None, OnFailure::Unset),
    event("PostToolUse", None, OnFailure::Unset),
    event("UserPromptSubmit", None, OnFailure::Unset),
    event("SessionStart", None, OnFailure::Unset),
    event("SessionEnd", None, OnFailure::Unset),
    event("SubagentStart", None, OnFailure::Unset),
    event("SubagentStop", None, OnFailure::Unset),
    event("Stop", None, OnFailure::Unset),
];

const GEMINI: [Event; 5] = [
    event("BeforeTool", Some(".*"), OnFailure::Unset),
    event("AfterTool", Some(".*"), OnFailure::Unset),
    event("BeforeAgent", None, OnFailure::Unset),
    event("SessionStart", None, OnFailure::Unset),
    event("SessionEnd", None, OnFailure::Unset),
];

impl SettingsClient {
    /// The client.
    #[must_use]
    pub const fn client(self) -> Client {
        match self {
            Self::Claude => Client::Claude,
            Self::Codex => Client::Codex,
            Self::Gemini => Client::Gemini,
        }
    }

    const fn events(self) -> &'static [Event] {
        match self {
            Self::Claude => &CLAUDE,
            Self::Codex => &CODEX,
            Self::Gemini => &GEMINI,
        }
    }

    /// The events that have an entry of ours.
    pub(crate) fn event_names(self) -> impl Iterator<Item = &'static str> {
        self.events().iter().map(|event| event.name)
    }

    /// Whether the client reads comments in its file.
    pub(crate) const fn comments(self) -> Comments {
        match self {
            Self::Gemini => Comments::Allowed,
            Self::Claude | Self::Codex => Comments::Refused,
        }
    }

    /// What is written for each event, in this order.
    pub(crate) fn entries(self, binary: &Binary) -> Vec<(&'static str, Json)> {
        let entry = |event: &Event| (event.name, self.entry(*event, binary));
        self.events().iter().map(entry).collect()
    }

    fn entry(self, event: Event, binary: &Binary) -> Json {
        let mut hook = vec![("type", Json::text("command"))];
        match self {
            Self::Claude => {
                let arguments = self.arguments().map(Json::text);
                hook.push(("command", Json::text(binary.as_str())));
                hook.push(("args", Json::Array(arguments.to_vec())));
                let timeout_s = if event.name == "Stop" { STOP_TIMEOUT_S } else { TIMEOUT_S };
                hook.push(("timeout", Json::Number(timeout_s)));
                match event.on_failure {
                    OnFailure::Block => hook.push(("onFailure", Json::text("block"))),
                    OnFailure::Unset => {}
                }
            }
            Self::Codex => {
                let last = event.name == "SessionEnd";
                let timeout_s = if last { CODEX_END_TIMEOUT_S } else { TIMEOUT_S };
                hook.push(("command", Json::text(self.command_line(binary))));
                hook.push(("timeout", Json::Number(timeout_s)));
            }
            Self::Gemini => {
                hook.push(("name", Json::text(GEMINI_NAME)));
                hook.push(("command", Json::text(self.command_line(binary))));
                // In milliseconds.
                hook.push(("timeout", Json::Number(TIMEOUT_S * 1000)));
            }
        }
        let mut group = Vec::new();
        group.extend(event.matcher.map(|matcher| ("matcher", Json::text(matcher))));
        group.push(("hooks", Json::Array(vec![Json::Object(hook)])));
        Json::Object(group)
    }

    const fn arguments(self) -> [&'static str; 3] {
        ["hook", "--client", self.client().as_str()]
    }

    /// What a shell is given.
    fn command_line(self, binary: &Binary) -> String {
        format!("{} {}", binary.shell_word(), self.arguments().join(" "))
    }

    /// Whether a hook runs `… hook --client NAME`, whatever the path of the program is.
    fn is_ours(self, hook: &Node) -> bool {
        let Some(command) = hook.get("command").and_then(Node::text) else { return false };
        let ours = self.arguments();
        match hook.get("args").and_then(Node::elements) {
            Some(arguments) => arguments.iter().map(Node::text).eq(ours.map(Some)),
            None => {
                let rest = command.trim_end().strip_suffix(&ours.join(" "));
                rest.is_some_and(|program| {
                    program.ends_with([' ', '\t']) && !program.trim().is_empty()
                })
            }
        }
    }

    /// How much of a group of hooks is ours.
    pub(crate) fn share(self, group: &Node) -> Share {
        let hooks = group.get("hooks").and_then(Node::elements).unwrap_or(&[]);
        let indexed = hooks.iter().enumerate();
        let ours: Vec<usize> =
            indexed.filter(|(_, hook)| self.is_ours(hook)).map(|(index, _)| index).collect();
        if ours.is_empty() {
            Share::None
        } else if ours.len() == hooks.len() {
            Share::All
        } else {
            Share::Some(ours)
        }
    }

    /// What in the settings switches our hooks off, and where.
    pub(crate) fn disabled<'a>(
        self,
        root: &'a Node,
        binary: &Binary,
    ) -> Option<(String, &'a Node)> {
        match self {
            Self::Claude => {
                let node = root.get("disableAllHooks").filter(|node| !is_off(node))?;
                Some(("`disableAllHooks` is set".to_owned(), node))
            }
            Self::Codex => None,
            Self::Gemini => ["hooksConfig", "hooks"].into_iter().find_map(|name| {
                let config = root.get(name)?;
                if let Some(node) = config.get("enabled").filter(|node| is_off(node)) {
                    return Some((format!("`{name}.enabled` is not true"), node));
                }
                let names = [GEMINI_NAME.to_owned(), self.command_line(binary)];
                let listed = config.get("disabled").and_then(Node::elements).unwrap_or(&[]);
                let ours = |node: &&Node| names.iter().any(|name| node.text() == Some(name));
                let node = listed.iter().find(ours)?;
                Some((format!("`{name}.disabled` lists our hook"), node))
            }),
        }
    }
}

/// Our hooks' name in Gemini CLI.
const GEMINI_NAME: &str = "windlass";

/// How much of a group of hooks is ours.
pub(crate) enum Share {
    /// Nothing.
    None,
    /// The hooks at these places.
    Some(Vec<usize>),
    /// All of its hooks.
    All,
}

/// Whether a switch is off, as far as a client may see it.
fn is_off(node: &Node) -> bool {
    use super::json::Value;
    match &node.value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty() || text == "false",
        Value::Number(number) => number == "0",
        Value::Bool(true) | Value::Array(_) | Value::Object(_) => false,
    }
}
