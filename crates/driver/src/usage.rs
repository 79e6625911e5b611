//! What a task has used of its capability profile.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use windlass_kernel::{Code, canon};

use crate::{DriverConfig, Outcome, Profile, ProfileId};

/// The largest counter: the largest integer of canonical JSON.
const COUNT_MAX: u64 = canon::INTEGER_MAX.unsigned_abs();

/// What a task has used.
///
/// There is one per task, whichever model works: a fallback continues it, and so does the work after
/// an intervention. A counter only grows, except that the real number of tokens replaces an estimate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    task_id: String,
    profile: ProfileId,
    calls: u64,
    retries: u64,
    tokens: u64,
}

/// The next model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NextCall {
    /// Whether it is a retry.
    pub kind: CallKind,
    /// The expected number of tokens.
    pub token_estimate: u64,
}

/// Whether a call is a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    /// A first call.
    First,
    /// A call that repeats a failed one.
    Retry,
}

/// What a profile limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// `max_calls_per_task`.
    Calls,
    /// `max_retries`.
    Retries,
    /// `max_tokens`.
    Tokens,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Calls => "calls",
            Self::Retries => "retries",
            Self::Tokens => "tokens",
        })
    }
}

/// Why a task exceeds its limits; it halts.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UsageError {
    /// A limit is exceeded.
    #[error("task `{task_id}` needs {wanted} {limit}; profile `{profile}` allows {allowed}")]
    Exceeded {
        /// The task.
        task_id: String,
        /// Its profile.
        profile: ProfileId,
        /// The limit.
        limit: Limit,
        /// The number that is needed.
        wanted: u64,
        /// The number that is allowed.
        allowed: u64,
    },
    /// The configuration has no such profile, so nothing is allowed.
    #[error("task `{task_id}` has the unknown profile `{profile}`")]
    UnknownProfile {
        /// The task.
        task_id: String,
        /// The profile.
        profile: ProfileId,
    },
}

impl UsageError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Exceeded { .. } | Self::UnknownProfile { .. } => Code::DriverCapabilityExceeded,
        }
    }

    /// The outcome of the task.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::Exceeded { .. } | Self::UnknownProfile { .. } => Outcome::Halt,
        }
    }
}

impl Usage {
    /// A task that has used nothing.
    #[must_use]
    pub fn new(task_id: impl Into<String>, profile: ProfileId) -> Self {
        Self { task_id: task_id.into(), profile, calls: 0, retries: 0, tokens: 0 }
    }

    /// Its profile, which never changes.
    #[must_use]
    pub const fn profile(&self) -> &ProfileId {
        &self.profile
    }

    /// Model calls so far, including retries.
    #[must_use]
    pub const fn calls(&self) -> u64 {
        self.calls
    }

    /// Retries so far.
    #[must_use]
    pub const fn retries(&self) -> u64 {
        self.retries
    }

    /// Tokens so far.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Checks whether the next call is within the limits.
    ///
    /// # Errors
    /// [`UsageError`] when it would exceed a limit; the task then halts.
    pub fn admit(&self, config: &DriverConfig, next: NextCall) -> Result<(), UsageError> {
        self.after(next).within(config)
    }

    /// Counts the next call, if it is within the limits.
    ///
    /// # Errors
    /// As [`Usage::admit`]; nothing is counted then.
    pub fn begin(&mut self, config: &DriverConfig, next: NextCall) -> Result<(), UsageError> {
        let after = self.after(next);
        after.within(config)?;
        *self = after;
        Ok(())
    }

    /// Replaces the estimate of a call by the tokens that it used.
    pub fn settle(&mut self, call: NextCall, tokens_used: u64) {
        let others = self.tokens.saturating_sub(call.token_estimate);
        self.tokens = others.saturating_add(tokens_used).min(COUNT_MAX);
    }

    /// Checks the limits of the profile.
    ///
    /// # Errors
    /// [`UsageError`] when a limit is exceeded; the task then halts.
    pub fn within(&self, config: &DriverConfig) -> Result<(), UsageError> {
        let Some(profile) = config.profiles.get(&self.profile) else {
            let (task_id, profile) = (self.task_id.clone(), self.profile.clone());
            return Err(UsageError::UnknownProfile { task_id, profile });
        };
        let Profile { max_calls_per_task, max_retries, max_tokens, .. } = profile;
        for (limit, wanted, allowed) in [
            (Limit::Calls, self.calls, *max_calls_per_task),
            (Limit::Retries, self.retries, *max_retries),
            (Limit::Tokens, self.tokens, *max_tokens),
        ] {
            if wanted > allowed {
                let (task_id, profile) = (self.task_id.clone(), self.profile.clone());
                return Err(UsageError::Exceeded { task_id, profile, limit, wanted, allowed });
            }
        }
        Ok(())
    }

    fn after(&self, next: NextCall) -> Self {
        let retry = match next.kind {
            CallKind::First => 0,
            CallKind::Retry => 1,
        };
        let add = |count: u64, more: u64| count.saturating_add(more).min(COUNT_MAX);
        Self {
            task_id: self.task_id.clone(),
            profile: self.profile.clone(),
            calls: add(self.calls, 1),
            retries: add(self.retries, retry),
            tokens: add(self.tokens, next.token_estimate),
        }
    }
}
