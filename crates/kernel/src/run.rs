//! One task going through a loop: what it follows, what was recorded of it, what comes next.
//!
//! [`Run`] is the fold of a run's entries; [`Run::next`] says from it alone what to record or perform.

mod event;
mod fold;
mod hold;
mod judge;
mod name;
mod next;
pub mod plan;
mod state;

pub use event::{
    Base, Call, Change, Decision, Done, Event, Failure, Held, InvocationResult, Note, RunEvent,
    Started, Usage, Vote,
};
pub use fold::RunError;
pub use name::{RunName, RunNameError};
pub use next::{Next, Work};
pub use state::{
    Commit, Ended, Hold, Judged, Noted, PhaseState, PhaseStatus, Resolution, Run, Source, Spent,
    Stage,
};
