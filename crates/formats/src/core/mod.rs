//! The documents of the core loop: the state of a session, its insights, the reflection on it, and
//! the answers of the agents that judge it.
//!
//! Answers are read strictly: text that is not exactly such an answer is an error, never a verdict.

mod answer;
mod date;
mod error;
mod insights;
mod reflection;
mod session_state;
mod verdicts;

pub use answer::{ANSWER_BYTES_MAX, ANSWER_ITEMS_MAX, ANSWER_TEXT_CHARS_MAX, AnswerError};
pub use date::{Date, DateError};
pub use error::DocumentError;
pub use insights::{
    INSIGHTS_BYTES_MAX, INSIGHTS_ITEMS_MAX, INSIGHTS_TEXT_CHARS_MAX, Insights, Recorded,
    TrendCounts, Trends, insights_path,
};
pub use reflection::{
    REFLECTION_CHARS_MAX, Reflection, ReflectionError, ReflectionField, SessionOutcome,
};
pub use session_state::{
    HydrationState, MainAgentState, SESSION_STATE_BYTES_MAX, SessionFlags, SessionState,
    SubagentState, session_state_path, short_session_id,
};
pub use verdicts::{
    CheckResult, Complexity, CriticAnswer, CriticCheck, CriticFinding, CriticVerdict,
    CustodietAnswer, CustodietVerdict, FrameworkAnswer, HydratorAnswer, HydratorPath, Improvement,
    IssueDimension, IssueSeverity, PlanItem, QaAnswer, QaCheck, QaChecks, QaIssue, QaVerdict,
    Scope, Violation,
};
