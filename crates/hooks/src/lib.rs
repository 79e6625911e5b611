//! The hook protocols of coding agents: what their events say, which call of ours a tool use of theirs is, and which
//! answer of ours they understand.
//!
//! Takes bytes and returns bytes; reads no file, no environment and no clock.

mod client;
mod install;

pub use client::Client;
pub use install::{
    Binary, Content, FILE_BYTES_MAX, HookFile, HookTrust, InstallError, InstallState, PluginFile,
    Position, Removal, Root, Scope, SettingsClient, claude_plugin, diff, install, plan, state,
    trust_file, uninstall,
};
