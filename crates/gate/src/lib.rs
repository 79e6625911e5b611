//! What a command changed in a workspace: compared with what was there before, and held back where a person must decide.
//!
//! A cell keeps a command inside its workspace; it does not say what may be left there. Agents, editors, CI and git obey
//! files of a workspace later, outside every cell. So the state of those files is written down before a command starts, by
//! digest, and compared at every end: when the command has ended, when a server has answered and when it stops, and, if
//! Windlass itself was killed, before the next command. What may not be left is moved into a folder of ours, and what was there
//! before is put back.
//!
//! [`Gate`] does this around a command; `judge` compares what was seen before and after without touching a file.

mod doubts;
mod gate;
mod git_folder;
mod held_back;
mod history;
mod hold;
mod judge;
mod mark;
mod move_away;
mod record;
mod rel_path;
mod rules;
mod scan;
mod seen;
mod targets;

pub use gate::{Gate, GateError, Watch};
pub use held_back::HeldBack;
pub use history::{Asked, History, Tips};
pub use hold::Held;
pub use judge::Allowed;
pub use mark::Mark;
pub use rel_path::RelPath;
pub use rules::{Rule, Rules};
pub use scan::Scope;
