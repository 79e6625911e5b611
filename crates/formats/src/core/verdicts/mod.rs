//! The answers of the core loop's five agents.

mod critic;
mod custodiet;
mod framework;
mod hydrator;
mod qa;

pub use critic::{CriticAnswer, CriticCheck, CriticFinding, CriticVerdict};
pub use custodiet::{CustodietAnswer, CustodietVerdict, Violation};
pub use framework::{FrameworkAnswer, Improvement};
pub use hydrator::{Complexity, HydratorAnswer, HydratorPath, PlanItem, Scope};
pub use qa::{
    CheckResult, IssueDimension, IssueSeverity, QaAnswer, QaCheck, QaChecks, QaIssue, QaVerdict,
};

/// Declares how an answer is read from text.
macro_rules! answer {
    ($name:ident) => {
        impl $name {
            /// Reads an answer: one JSON object, alone or in one code block, with only white space
            /// around it.
            ///
            /// # Errors
            /// [`AnswerError`](crate::core::AnswerError) when the text is anything else, or a field
            /// is unknown, missing or invalid.
            pub fn read(text: &str) -> Result<Self, $crate::core::AnswerError> {
                let value = $crate::core::answer::object(text)?;
                Ok(Self::from_value(&value)?)
            }
        }
    };
}
use answer;
