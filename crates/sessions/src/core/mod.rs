//! The core loop in a session: what each prompt must go through before its work may write, and before it is closed.
//!
//! The person leads, so nothing is driven here. The agent is told what comes next; what writes is refused until it has
//! happened; and what a judge says is read from the client's report of it, never from the agent.

mod answered;
mod cached;
mod closing;
mod delivery;
mod gate;
mod guard;
mod judge;
mod judging;
mod note;
mod prompt;
mod settings;
mod state;
mod surroundings;

pub(crate) use answered::judge_of;
pub use cached::{CoreProgress, Counters};
pub use delivery::{Delivery, DeliveryKind};
pub use gate::{Missing, NextStep};
pub(crate) use guard::Gate;
pub use guard::{Core, WAITING_CALL};
pub use judge::Judge;
pub use note::{CloseStep, CoreNote, Finding, PlanStep, StepStatus};
pub use prompt::{is_notice, is_skipped, judge_prompt};
pub use settings::CoreSettings;
pub use state::{
    ALL_ITEMS, Block, CoreState, CriticState, DELEGATED, INFORMATION_ONLY, LastJudge, Plan,
    PlanState, QaState, Running,
};
pub use surroundings::{
    CloseReport, CoreSurroundings, HydrationContext, JudgeFile, JudgeMaterial, SessionFacts,
    Workflow,
};

#[cfg(test)]
mod tests;
