//! Which client sent an event.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::client::Client;
use crate::event_error::EventError;
use crate::fields::Fields;

const CLAUDE: [&str; 33] = [
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "Notification",
    "UserPromptSubmit",
    "UserPromptExpansion",
    "SessionStart",
    "SessionEnd",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "PreModelSwitch",
    "PostModelSwitch",
    "PermissionRequest",
    "PermissionDenied",
    "Setup",
    "TeammateIdle",
    "TaskCreated",
    "TaskCompleted",
    "Elicitation",
    "ElicitationResult",
    "ConfigChange",
    "WorktreeCreate",
    "WorktreeRemove",
    "InstructionsLoaded",
    "CwdChanged",
    "FileChanged",
    "DirectoryAdded",
    "MessageDisplay",
];

const CODEX: [&str; 11] = [
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "PreCompact",
    "PostCompact",
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "SubagentStart",
    "SubagentStop",
    "Stop",
];

const GEMINI: [&str; 11] = [
    "SessionStart",
    "SessionEnd",
    "BeforeAgent",
    "AfterAgent",
    "BeforeModel",
    "AfterModel",
    "BeforeToolSelection",
    "BeforeTool",
    "AfterTool",
    "PreCompress",
    "Notification",
];

const OPENCODE: [&str; 5] = [
    "tool.execute.before",
    "tool.execute.after",
    "session.created",
    "session.deleted",
    "chat.message",
];

/// Whether the client has an event of this name.
pub(crate) fn has_event(client: Client, name: &str) -> bool {
    let names: &[&str] = match client {
        Client::Claude => &CLAUDE,
        Client::Codex => &CODEX,
        Client::Gemini => &GEMINI,
        Client::OpenCode => &OPENCODE,
    };
    names.contains(&name)
}

/// Finds the client that sent an event, and checks that it is the one that was given.
///
/// # Errors
/// [`EventError::ClientUnclear`] or [`EventError::OtherClient`].
pub(crate) fn client(
    fields: &Fields,
    name: &str,
    given: Option<Client>,
) -> Result<Client, EventError> {
    let senders: BTreeSet<Client> =
        Client::ALL.into_iter().filter(|client| has_event(*client, name)).collect();
    let certain = certain_signs(fields, name, &senders);
    if let Some(given) = given {
        let other = |reason| EventError::OtherClient { name: name.to_owned(), given, reason };
        if !senders.is_empty() && !senders.contains(&given) {
            return Err(other("only other clients have this event"));
        }
        if certain.iter().any(|client| *client != given) {
            return Err(other("its fields are those of another client"));
        }
        return Ok(given);
    }
    let unclear = |reason| EventError::ClientUnclear { name: name.to_owned(), reason };
    let mut certain = certain.into_iter();
    match (certain.next(), certain.next()) {
        (Some(client), None) if senders.is_empty() || senders.contains(&client) => Ok(client),
        (Some(_), _) => Err(unclear("its fields are those of several clients")),
        (None, _) => by_likely_signs(fields, name, &senders).map_err(unclear),
    }
}

/// Clients of which a field or the name is an unmistakable sign.
fn certain_signs(fields: &Fields, name: &str, senders: &BTreeSet<Client>) -> BTreeSet<Client> {
    let mut signs = BTreeSet::new();
    signs.extend(fields.get("client").and_then(Value::as_str).and_then(Client::named));
    if senders.len() == 1 {
        signs.extend(senders);
    }
    if has_event(Client::Codex, name) && fields.has("turn_id") && fields.has("model") {
        signs.insert(Client::Codex);
    }
    signs
}

/// Goes by fields that only one of the event's possible senders is known to send.
fn by_likely_signs(
    fields: &Fields,
    name: &str,
    senders: &BTreeSet<Client>,
) -> Result<Client, &'static str> {
    const SEVERAL: &str = "its fields are those of several clients";
    let has = |field: &str| fields.has(field);
    if senders.is_empty() {
        return match (has("timestamp"), has("turn_id") && has("model")) {
            (true, false) => Ok(Client::Gemini),
            (false, true) => Ok(Client::Codex),
            (true, true) => Err(SEVERAL),
            (false, false) => Err("the event is not known"),
        };
    }
    if senders.contains(&Client::Gemini) && has("timestamp") {
        let others = ["turn_id", "model", "permission_mode", "prompt_id"];
        return if others.into_iter().any(has) { Err(SEVERAL) } else { Ok(Client::Gemini) };
    }
    if !senders.contains(&Client::Codex) {
        return Ok(Client::Claude);
    }
    match name {
        // Claude Code may send the model here, and both may send a permission mode.
        "SessionStart" if has("model") && !has("prompt_id") && !has("effort") => {
            if has("permission_mode") { Err(SEVERAL) } else { Ok(Client::Claude) }
        }
        "SessionEnd" if has("model") => Ok(Client::Codex),
        "SessionStart" => Ok(Client::Claude),
        _ if has("turn_id") || has("model") || fields.is_null("transcript_path") => Err(SEVERAL),
        _ => Ok(Client::Claude),
    }
}
