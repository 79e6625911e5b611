//! Parses loop files, agent files and workflow files, which are Markdown with YAML frontmatter, into
//! checked plans, agents and workflows, or returns an error with file, line and column.
//!
//! Takes bytes and never reads a file. Nothing is guessed: unknown keys, wrong types, duplicate keys
//! and ambiguous YAML are refused.

mod agent;
pub mod draw;
mod error;
mod file;
mod graph;
mod hint;
mod markdown;
mod mission;
mod parts;
mod select;
mod workflow;

pub use agent::AgentFile;
pub use error::LoopError;
pub use file::{KnownNames, LoopFile, LoopKind};
pub use markdown::FILE_BYTES_MAX;
pub use mission::{ExpandError, MissionFile, Parameter};
pub use parts::variant::Variant;
pub use select::SelectError;
pub use workflow::{
    CHAIN_MAX, Category, Gate, INDEX_NAME, PLAN_STEPS_MAX, PlannedStep, STEPS_MAX, WorkflowFile,
    WorkflowStep, Workflows, render_plan,
};
