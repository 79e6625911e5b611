//! Workflows: ways to do a task in steps, which can be composed of other workflows.

mod body;
mod file;
mod index;
mod plan;
mod set;

pub use file::{Category, Gate, STEPS_MAX, WorkflowFile, WorkflowStep};
pub use plan::{PlannedStep, render_plan};
pub use set::{CHAIN_MAX, INDEX_NAME, PLAN_STEPS_MAX, Workflows};
