//! What a task has spent, against its capability profile.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use windlass_kernel::{Code, canon};

use crate::{DriverConfig, Outcome, Profile, ProfileId};

/// Counters stay where canonical JSON keeps them exact.
const COUNT_MAX: u64 = canon::INTEGER_MAX.unsigned_abs();

/// What one task has spent.
///
/// There is one of these per task. It knows no model: a fallback goes on with it, and so does what
/// follows an intervention. Nothing takes a counter back except the real number of tokens that
/// replaces an estimate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    task_id: String,
    profile: ProfileId,
    calls: u64,
    retries: u64,
    tokens: u64,
}

/// A call of a model that is about to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NextCall {
    /// Whether it repeats an earlier one.
    pub kind: CallKind,
    /// How many tokens it is expected to use.
    pub token_estimate: u64,
}

/// Whether a call repeats an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    /// It is made for the first time.
    First,
    /// It repeats one that failed.
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

/// A task that would spend, or has spent, more than it may: it halts.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Overrun {
    /// A limit is passed.
    #[error("task `{task_id}` comes to {wanted} {limit}; profile `{profile}` allows {allowed}")]
    Exceeded {
        /// The task.
        task_id: String,
        /// Its profile.
        profile: ProfileId,
        /// What is passed.
        limit: Limit,
        /// What it comes to.
        wanted: u64,
        /// What is allowed.
        allowed: u64,
    },
    /// Configuration does not know the profile, so nothing is allowed.
    #[error("task `{task_id}` has the unknown profile `{profile}`")]
    UnknownProfile {
        /// The task.
        task_id: String,
        /// The profile.
        profile: ProfileId,
    },
}

impl Overrun {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Exceeded { .. } | Self::UnknownProfile { .. } => Code::DriverCapabilityExceeded,
        }
    }

    /// What the task comes to.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::Exceeded { .. } | Self::UnknownProfile { .. } => Outcome::Halt,
        }
    }
}

impl Usage {
    /// A task that has spent nothing.
    #[must_use]
    pub fn new(task_id: impl Into<String>, profile: ProfileId) -> Self {
        Self { task_id: task_id.into(), profile, calls: 0, retries: 0, tokens: 0 }
    }

    /// The task.
    #[must_use]
    pub fn task_id(&self) -> &str {
        &self.task_id
    }

    /// Its profile, the same from its first call to its last.
    #[must_use]
    pub const fn profile(&self) -> &ProfileId {
        &self.profile
    }

    /// Calls of models so far, retries among them.
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

    /// Says whether the next call may be made.
    ///
    /// # Errors
    /// [`Overrun`] when it would pass a limit; the task then halts.
    pub fn admit(&self, config: &DriverConfig, next: NextCall) -> Result<(), Overrun> {
        self.after(next).within(config)
    }

    /// Counts a call that is about to be made, if it may be.
    ///
    /// # Errors
    /// As [`Usage::admit`]; nothing is counted then.
    pub fn begin(&mut self, config: &DriverConfig, next: NextCall) -> Result<(), Overrun> {
        let after = self.after(next);
        after.within(config)?;
        *self = after;
        Ok(())
    }

    /// Replaces the estimate of a call that was made by what it used.
    pub fn settle(&mut self, call: NextCall, tokens_used: u64) {
        let others = self.tokens.saturating_sub(call.token_estimate);
        self.tokens = others.saturating_add(tokens_used).min(COUNT_MAX);
    }

    /// Says whether what was spent is within the profile.
    ///
    /// # Errors
    /// [`Overrun`] when a limit is passed; the task then halts.
    pub fn within(&self, config: &DriverConfig) -> Result<(), Overrun> {
        let Some(profile) = config.profiles.get(&self.profile) else {
            let (task_id, profile) = (self.task_id.clone(), self.profile.clone());
            return Err(Overrun::UnknownProfile { task_id, profile });
        };
        let Profile { max_calls_per_task, max_retries, max_tokens, .. } = profile;
        for (limit, wanted, allowed) in [
            (Limit::Calls, self.calls, *max_calls_per_task),
            (Limit::Retries, self.retries, *max_retries),
            (Limit::Tokens, self.tokens, *max_tokens),
        ] {
            if wanted > allowed {
                let (task_id, profile) = (self.task_id.clone(), self.profile.clone());
                return Err(Overrun::Exceeded { task_id, profile, limit, wanted, allowed });
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
