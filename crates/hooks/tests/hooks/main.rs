//! The hook protocols: events, the table of tools, answers, and properties of all three.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test stops at the first surprise"
)]

mod answers;
mod damaged_transcripts;
mod events;
mod fixtures;
mod inputs;
mod install;
mod mapping;
mod mcp;
mod opencode_transcripts;
mod patches;
mod properties;
mod readers;
mod recognition;
mod table;
mod tokens;
mod transcript_places;
mod transcripts;
