//! Events: what a client reports or asks.

use serde_json::Value;

use crate::client::Client;
use crate::event_error::EventError;
use crate::event_kind;
use crate::fields::{Fields, invalid, needed};
use crate::recognise;

pub use crate::fields::EVENT_BYTES_MAX;

/// An event that a client sent to a hook.
#[derive(Clone, Debug, PartialEq)]
pub struct HookEvent {
    /// The client.
    pub client: Client,
    /// The event's name as the client sent it.
    pub name: String,
    /// The client's id of the session.
    pub session: String,
    /// The folder that the client works in; absolute.
    pub cwd: String,
    /// The file in which the client keeps the session.
    pub transcript: Option<String>,
    /// The subagent that the event happened in.
    pub subagent: Option<Subagent>,
    /// The model.
    pub model: Option<String>,
    /// The client's own permission mode.
    pub permission_mode: Option<String>,
    /// What happened or is asked.
    pub kind: EventKind,
}

/// An agent that the session's main agent started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subagent {
    /// The client's id of it.
    pub id: String,
    /// The client's name of its kind.
    pub kind: Option<String>,
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq)]
pub enum EventKind {
    /// A session started or was resumed.
    SessionStarted {
        /// What started it.
        source: Option<String>,
    },
    /// A session ended.
    SessionEnded {
        /// Why.
        reason: Option<String>,
    },
    /// A prompt was entered.
    Prompted {
        /// The prompt.
        text: String,
        /// Who or what entered it, if the client says so: `user`, or a timer or another program.
        source: Option<String>,
    },
    /// A tool is about to be used: may it?
    BeforeTool(ToolUse),
    /// A tool was used.
    AfterTool {
        /// Which, and with what input.
        tool_use: ToolUse,
        /// What it returned; null if the client does not say.
        result: Value,
        /// Why it failed.
        failure: Option<String>,
        /// Whether a person interrupted it.
        interrupted: bool,
        /// How long it took.
        duration_ms: Option<u64>,
    },
    /// The client is about to ask a person whether a tool may be used.
    PermissionRequested(ToolUse),
    /// A subagent started.
    SubagentStarted,
    /// A subagent is about to stop.
    SubagentStopped {
        /// The last text that it wrote.
        last_message: Option<String>,
    },
    /// The main agent is about to stop.
    Stopped {
        /// The last text that it wrote.
        last_message: Option<String>,
    },
    /// The client's settings changed.
    SettingsChanged {
        /// Which settings.
        source: String,
        /// Their file.
        file: Option<String>,
    },
    /// Something else; nothing is asked about a tool or a prompt unless the client is known to have this event.
    Other {
        /// The event's name.
        name: String,
    },
}

/// The use of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolUse {
    /// The client's id of it; Gemini CLI has none.
    pub id: Option<String>,
    /// The tool's name as the client sent it.
    pub name: String,
    /// The input; an object.
    pub input: Value,
    /// The MCP server that has the tool, if the client says so.
    pub mcp_server: Option<String>,
}

impl HookEvent {
    /// Reads an event of `client`, or of the client that its fields show.
    ///
    /// Unknown fields are ignored; an unknown event is read as [`EventKind::Other`] unless it is about a tool or a
    /// prompt.
    ///
    /// # Errors
    /// [`EventError`]; answer with [`refuse_unreadable`](crate::refuse_unreadable).
    pub fn parse(bytes: &[u8], client: Option<Client>) -> Result<Self, EventError> {
        let fields = Fields::read(bytes)?;
        let name = needed("hook_event_name", fields.name("hook_event_name"))?;
        let client = recognise::client(&fields, &name, client)?;
        let cwd = needed("cwd", fields.path("cwd"))?;
        if !cwd.starts_with('/') {
            return Err(invalid("cwd", "an absolute path"));
        }
        // The one with which Claude Code compacts a conversation has no type: its text is empty.
        let kind = fields.name_or_empty("agent_type")?;
        Ok(Self {
            client,
            session: needed("session_id", fields.name("session_id"))?,
            cwd,
            transcript: fields.path("transcript_path")?,
            subagent: fields.name("agent_id")?.map(|id| Subagent { id, kind }),
            model: fields.name("model")?,
            permission_mode: fields.name("permission_mode")?,
            kind: event_kind::read(client, &name, &fields)?,
            name,
        })
    }
}
