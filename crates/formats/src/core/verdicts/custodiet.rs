//! The answer of custodiet.

use serde::Serialize;
use serde_json::Value;

use super::answer;
use crate::core::answer::text;
use crate::fields::{FieldError, Fields};
use crate::keyword::keywords;

keywords! {
    /// Custodiet's verdict on a session.
    CustodietVerdict {
        /// The session keeps to its principles and its task.
        Ok = "OK",
        /// It is about to leave them.
        Warn = "WARN",
        /// It has left them.
        Block = "BLOCK",
    }
}

/// What a session did wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// What would be right.
    pub correction: String,
    /// What happened.
    pub issue: String,
    /// The principle that it violates.
    pub principle: String,
}

/// The answer of custodiet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CustodietAnswer {
    /// Why.
    pub reason: String,
    /// The verdict.
    pub verdict: CustodietVerdict,
    /// What is wrong; present with `WARN` and `BLOCK`, and only then.
    pub violation: Option<Violation>,
}

answer!(CustodietAnswer);

/// The fields of a violation.
const VIOLATION: [&str; 3] = ["issue", "principle", "correction"];

impl CustodietAnswer {
    /// Reads an answer that is JSON already.
    ///
    /// # Errors
    /// [`FieldError`] for the first field that is wrong.
    pub fn from_value(value: &Value) -> Result<Self, FieldError> {
        let known = ["verdict", "reason", "issue", "principle", "correction"];
        let fields = Fields::new(value, "", &known)?;
        let verdict = fields.must("verdict", Fields::parsed)?;
        let reason = text(&fields, "reason")?;
        let violation = match verdict {
            CustodietVerdict::Ok => {
                for field in VIOLATION {
                    if !fields.maybe(field, Fields::text)?.unwrap_or_default().trim().is_empty() {
                        return Err(fields.invalid(field, "it must be empty with `OK`"));
                    }
                }
                None
            }
            CustodietVerdict::Warn | CustodietVerdict::Block => Some(Violation {
                issue: text(&fields, "issue")?,
                principle: text(&fields, "principle")?,
                correction: text(&fields, "correction")?,
            }),
        };
        Ok(Self { reason, verdict, violation })
    }
}
