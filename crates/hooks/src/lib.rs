//! The hook protocols of coding agents: what their events say, which call of ours a tool use of theirs is, and which
//! answer of ours they understand.
//!
//! Takes bytes and returns bytes; reads no file, no environment and no clock.

mod answer;
mod arguments;
mod cell_line;
mod client;
mod event;
mod event_error;
mod event_kind;
mod fields;
mod glob;
mod install;
mod mcp;
mod patch;
mod paths;
mod recognise;
mod strict_json;
mod tools;
mod transcript;

pub use answer::{
    Answer, HookOutput, MESSAGE_BYTES_MAX, REASON_BYTES_MAX, refuse_unreadable, render,
};
pub use cell_line::{CellLine, is_own_line, is_own_question, unwrap_cell_line};
pub use client::Client;
pub use event::{EVENT_BYTES_MAX, EventKind, HookEvent, Subagent, ToolUse};
pub use event_error::EventError;
pub use install::{
    Binary, Content, FILE_BYTES_MAX, HookFile, HookTrust, INSIGHTS_COMMAND, InstallError,
    InstallState, PluginFile, Position, Removal, Root, Scope, SettingsClient, Trust, claude_plugin,
    diff, folder_trust_file, install, plan, state, trust_file, uninstall,
};
pub use tools::{MappedCall, Mapping, ToolTable, with_command};
pub use transcript::{
    OPENCODE_DATA, OpenCodeReader, ProjectSign, TRANSCRIPT_BYTES_MAX, Tokens, Transcript,
    TranscriptPlace, TranscriptUse, Turn, UseOutcome, conversation, conversation_markdown,
    read_transcript, transcript_places,
};
