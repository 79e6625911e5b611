//! What the dashboard has of projects: their journals, and commands that are run in them.

mod announcer;
mod project;
mod worker;

pub use announcer::Announcer;
pub use project::ServedProject;
pub use worker::Worker;
