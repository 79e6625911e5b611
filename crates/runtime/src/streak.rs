//! Calls in a row that lead nowhere.

use serde::{Deserialize, Serialize};
use windlass_kernel::{Code, Digest, State};

use crate::request::CallRequest;

/// When calls are broken off; 0 is never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// How often the same call may be made in a row.
    pub identical_max: u32,
    /// How many calls in a row may be denied.
    pub denied_max: u32,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self { identical_max: 5, denied_max: 10 }
    }
}

/// The calls in a row that lead nowhere. A repeated attempt makes the same calls, so it counts the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CallStreak {
    /// The digest of the last call's tool and arguments.
    last: Option<Digest>,
    identical: u32,
    denied: u32,
    /// Why no more calls are made.
    pub broken: Option<String>,
}

impl CallStreak {
    /// Counts a request; returns why it is refused.
    pub fn request(&mut self, limits: CallLimits, request: &CallRequest) -> Option<(Code, String)> {
        let text = serde_json::json!([request.server, request.tool, request.args]).to_string();
        let digest = Digest::of(text.as_bytes());
        self.identical = if self.last == Some(digest) { self.identical + 1 } else { 1 };
        self.last = Some(digest);
        let CallLimits { identical_max, denied_max } = limits;
        let refusal = if identical_max > 0 && self.identical > identical_max {
            let reason = format!(
                "this call was made {identical_max} times in a row with the same arguments, and its result \
                 will not change: use what it returned, change the arguments, or finish and say what is missing"
            );
            Some((Code::CallsRepeated, reason))
        } else if denied_max > 0 && self.denied >= denied_max {
            let reason = format!(
                "{denied_max} calls in a row were denied: do what the reasons of the denials say, or finish \
                 and say which permission is missing"
            );
            Some((Code::DenialsRepeated, reason))
        } else {
            None
        };
        self.broken = refusal.as_ref().map(|(code, reason)| format!("[{code}] {reason}"));
        refusal
    }

    /// Whether the last call was denied.
    #[must_use]
    pub const fn was_denied(&self) -> bool {
        self.denied > 0
    }

    /// Counts the end of a call.
    pub const fn ended(&mut self, state: State) {
        self.denied = if matches!(state, State::Denied) { self.denied + 1 } else { 0 };
    }
}
