//! What goes wrong, as `application/problem+json` (RFC 9457) with our codes.

use axum::http::StatusCode;
use serde_json::{Value, json};
use windlass_journal::JournalError;
use windlass_kernel::Code;
use windlass_store::StoreError;

use crate::access::AccessError;

/// A request that is not answered as it was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The status.
    pub status: StatusCode,
    /// The stable code, as in `windlass explain`.
    pub code: String,
    /// What happened.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem with one of our codes.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            status: status_of(code.as_str()),
            code: code.as_str().to_owned(),
            message: message.into(),
            hint: None,
        }
    }

    /// The same with another status.
    #[must_use]
    pub fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// There is no such page or thing.
    #[must_use]
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::RequestInvalid, message).status(StatusCode::NOT_FOUND)
    }

    /// The error that a command of ours printed with `--json`; `None` if it printed something else.
    #[must_use]
    pub fn printed(text: &str) -> Option<Self> {
        let line = text.lines().rev().find(|line| line.starts_with("{\"error\""))?;
        let printed: Value = serde_json::from_str(line).ok()?;
        let error = printed.get("error")?;
        let text = |name: &str| error.get(name).and_then(Value::as_str).map(str::to_owned);
        let code = text("code")?;
        let mut message = text("message")?;
        for cause in error.get("causes").and_then(Value::as_array).into_iter().flatten() {
            if let Some(cause) = cause.as_str() {
                message.push_str(": ");
                message.push_str(cause);
            }
        }
        Some(Self { status: status_of(&code), code, message, hint: text("hint") })
    }

    /// The document.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "type": format!("urn:windlass:{}", self.code),
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.message,
            "hint": self.hint,
        })
    }
}

/// The status of a code: what is not there, what is not as it was, what is not allowed, what is not understood.
fn status_of(code: &str) -> StatusCode {
    match code {
        "RUN_NOT_FOUND"
        | "LOOP_NOT_FOUND"
        | "TRACE_NOT_FOUND"
        | "CHECKPOINT_NOT_FOUND"
        | "BLOB_MISSING"
        | "STATE_MISSING"
        | "PERSON_UNKNOWN" => StatusCode::NOT_FOUND,
        "REQUEST_INVALID" | "ID_INVALID" | "TASK_INVALID" => StatusCode::UNPROCESSABLE_ENTITY,
        "PERSON_LOCKED" => StatusCode::FORBIDDEN,
        "STORE_UNAVAILABLE" => StatusCode::SERVICE_UNAVAILABLE,
        "PROJECT_MISSING" => StatusCode::SERVICE_UNAVAILABLE,
        "INTERNAL" => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::CONFLICT,
    }
}

impl From<JournalError> for Problem {
    fn from(error: JournalError) -> Self {
        let problem = Self::new(error.code(), error.to_string());
        if error.is_damage() {
            return problem.hint(
                "its entries show what can still be read; `windlass verify` lists every fault. Other runs are not \
                 affected, and a backup has what was here before",
            );
        }
        problem
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<AccessError> for Problem {
    fn from(error: AccessError) -> Self {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        let message = format!("{error}{}", cause.unwrap_or_default());
        let problem = Self::new(error.code(), message).status(StatusCode::SERVICE_UNAVAILABLE);
        match error.code() == Code::FileUnwritable {
            true => problem.hint("check that the disk has free space and the folder is writable"),
            false => problem,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_command_becomes_a_problem() {
        let printed = "warning: x\n{\"error\":{\"causes\":[\"b\"],\"code\":\"RUN_NOT_FOUND\",\"hint\":null,\"message\":\"a\"}}\n";
        let problem = Problem::printed(printed).unwrap();
        assert_eq!((problem.status, problem.message.as_str()), (StatusCode::NOT_FOUND, "a: b"));
        assert_eq!(problem.to_json()["status"], 404);
        for other in ["", "{}", "{\"error\":{}}", "error: no"] {
            assert_eq!(Problem::printed(other), None, "{other}");
        }
    }
}
