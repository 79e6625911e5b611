//! Answers to events, in the form that each client takes for what it is.
//!
//! A client that cannot read an answer goes on as if there were none, so a refusal uses the one form that is certain:
//! exit code 2, a reason on standard error, and nothing on standard output.

mod claude;
mod codex;
mod gemini;
mod opencode;
mod text;

use serde_json::{Value, json};

use crate::client::Client;

pub use text::{MESSAGE_BYTES_MAX, REASON_BYTES_MAX};

/// An answer to an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Nothing to say: the client goes on in its own way.
    Proceed,
    /// The tool may be used.
    Allow {
        /// The input to use it with instead of the client's. It is refused where the client takes none. Claude Code
        /// takes one only with a permission, so it does not ask the person then.
        input: Option<Value>,
        /// Whether the client shall not ask the person itself.
        skip_prompt: bool,
    },
    /// It is refused; the agent may go on.
    Deny {
        /// Why, for the agent.
        reason: String,
    },
    /// The client shall ask a person; refused where the client has no prompt that cannot be skipped.
    Ask {
        /// Why.
        reason: String,
        /// The input to use the tool with instead of the client's, which the person is shown.
        input: Option<Value>,
    },
    /// The session shall pause before the tool and can be resumed; refused by all but Claude Code.
    ///
    /// Claude Code pauses only when it runs without a terminal (`-p`): do not use it otherwise.
    Defer {
        /// Why.
        reason: String,
    },
    /// It is refused and the agent shall stop. Codex and OpenCode only refuse: stop them in another way.
    Halt {
        /// Why.
        reason: String,
    },
    /// The client goes on in its own way and shows the agent, or else the person, a text.
    Tell {
        /// The text.
        text: String,
    },
}

/// What a hook prints, and the code with which it exits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookOutput {
    /// The exit code.
    pub exit_code: u8,
    /// The whole standard output; nothing else may be printed there.
    pub stdout: String,
    /// The standard error.
    pub stderr: String,
}

/// Writes an answer to the event `event_name` of a client.
///
/// Where an event cannot be refused, a refusal is written all the same.
#[must_use]
pub fn render(client: Client, event_name: &str, answer: &Answer) -> HookOutput {
    match client {
        Client::Claude => claude::render(event_name, answer),
        Client::Codex => codex::render(event_name, answer),
        Client::Gemini => gemini::render(event_name, answer),
        Client::OpenCode => opencode::render(answer),
    }
}

/// Writes the refusal of an event that cannot be read.
#[must_use]
pub fn refuse_unreadable(client: Option<Client>, reason: &str) -> HookOutput {
    match client {
        Some(Client::OpenCode) => opencode::refusal(reason),
        Some(Client::Claude | Client::Codex | Client::Gemini) | None => refusal(reason),
    }
}

/// The refusal that Claude Code, Codex and Gemini CLI all understand.
fn refusal(reason: &str) -> HookOutput {
    HookOutput { exit_code: 2, stdout: String::new(), stderr: text::reason(reason) }
}

/// The refusal after which Claude Code and Gemini CLI stop.
fn halt(reason: &str) -> HookOutput {
    let stdout = json!({ "continue": false, "stopReason": text::reason(reason) }).to_string();
    HookOutput { stdout, ..refusal(reason) }
}

/// Says nothing.
const fn silence() -> HookOutput {
    HookOutput { exit_code: 0, stdout: String::new(), stderr: String::new() }
}

fn printed(value: &Value) -> HookOutput {
    HookOutput { stdout: value.to_string(), ..silence() }
}

/// A text for the agent if the event has a place for it, or else for the person.
fn told(event_name: &str, told: &str, places: &[&str]) -> HookOutput {
    let told = text::message(told);
    if told.is_empty() {
        silence()
    } else if places.contains(&event_name) {
        printed(&json!({
            "hookSpecificOutput": { "additionalContext": told, "hookEventName": event_name },
        }))
    } else {
        printed(&json!({ "systemMessage": told }))
    }
}

/// The reason for a refusal because the input cannot be changed.
const NO_INPUT: &str = "the client takes no changed input here";
