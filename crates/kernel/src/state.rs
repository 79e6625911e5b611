//! The journal's states and the one table of transitions between them.
//!
//! A trace is a call or a run. Both share the envelope and this table; which one a trace is follows
//! from its first entry.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::canon::canonical_names;

macro_rules! names {
    ($(#[$doc:meta])* $type:ident, $what:literal { $($(#[$vdoc:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize,
            schemars::JsonSchema)]
        pub enum $type {
            $($(#[$vdoc])* #[serde(rename = $text)] $variant,)*
        }

        impl $type {
            /// All of them, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name as the journal writes it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        canonical_names! { $type }

        impl FromStr for $type {
            type Err = UnknownName;

            fn from_str(text: &str) -> Result<Self, UnknownName> {
                match text {
                    $($text => Ok(Self::$variant),)*
                    _ => Err(UnknownName { what: $what, name: text.chars().take(40).collect() }),
                }
            }
        }
    };
}

/// A name that the journal does not know.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{name}` is not the name of {what}")]
pub struct UnknownName {
    what: &'static str,
    name: String,
}

names! {
    /// Where a trace stands.
    State, "a state" {
        /// A call: requested, not yet decided.
        Pending = "PENDING",
        /// A call: allowed, not yet handed over.
        Authorized = "AUTHORIZED",
        /// A call: handed over; whether the tool has run is unknown until its effect is recorded.
        Executing = "EXECUTING",
        /// A call, for good: the tool reported success.
        Completed = "COMPLETED",
        /// A call, for good: the tool failed, or nobody knows that it succeeded.
        Failed = "FAILED",
        /// A call, for good: refused.
        Denied = "DENIED",
        /// A run: recorded, not yet started.
        Init = "INIT",
        /// A run: phases are being done.
        Running = "RUNNING",
        /// A run: on hold for a person.
        Checkpoint = "CHECKPOINT",
        /// A run: a person has answered the hold.
        Resumed = "RESUMED",
        /// A run: it has an outcome, and only a rollback leads out of it.
        Terminal = "TERMINAL",
    }
}

names! {
    /// What an entry's artifact is.
    ArtifactType, "an artifact type" {
        /// What an agent wants done.
        ActionRequest = "action_request",
        /// What policy or a person said to it.
        SupervisorDecision = "supervisor_decision",
        /// The call that is handed over.
        ToolCall = "tool_call",
        /// What came of it.
        ToolEffect = "tool_effect",
        /// A step of a run.
        RunEvent = "run_event",
    }
}

/// The two kinds of trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// One tool call.
    Call,
    /// One task going through a loop.
    Run,
}

impl Machine {
    /// The `schema_id` of this machine's entries.
    #[must_use]
    pub const fn schema_id(self) -> &'static str {
        match self {
            Self::Call => "tga.execution_log_entry",
            Self::Run => "windlass.run_log_entry",
        }
    }
}

impl State {
    /// Whether nothing follows this state by itself; a person may still take a run back.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Denied | Self::Terminal)
    }

    /// The machine this state belongs to.
    #[must_use]
    pub const fn machine(self) -> Machine {
        match self {
            Self::Pending
            | Self::Authorized
            | Self::Executing
            | Self::Completed
            | Self::Failed
            | Self::Denied => Machine::Call,
            Self::Init | Self::Running | Self::Checkpoint | Self::Resumed | Self::Terminal => {
                Machine::Run
            }
        }
    }
}

/// A transition as an entry claims it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The state before.
    pub from: State,
    /// The state after.
    pub to: State,
    /// What justifies it.
    pub artifact: ArtifactType,
}

impl Transition {
    /// Whether the table has a row for this transition from `current` (`None`: an empty trace).
    ///
    /// INVARIANT: this is the only transition table; live work, replay, stores and verification
    /// all ask it.
    #[must_use]
    pub const fn is_allowed_from(self, current: Option<State>) -> bool {
        use ArtifactType as A;
        use State as S;
        let Some(current) = current else {
            return matches!(
                (self.from, self.to, self.artifact),
                (S::Pending, S::Pending, A::ActionRequest) | (S::Init, S::Init, A::RunEvent)
            );
        };
        if self.from as u8 != current as u8 {
            return false;
        }
        matches!(
            (self.from, self.to, self.artifact),
            (S::Pending, S::Authorized | S::Denied, A::SupervisorDecision)
                | (S::Authorized, S::Executing, A::ToolCall)
                | (S::Executing, S::Completed | S::Failed, A::ToolEffect)
                | (S::Init, S::Running | S::Terminal, A::RunEvent)
                | (S::Running, S::Running | S::Checkpoint | S::Terminal, A::RunEvent)
                | (
                    S::Checkpoint,
                    S::Checkpoint | S::Resumed | S::Running | S::Terminal,
                    A::RunEvent
                )
                | (S::Resumed, S::Running | S::Terminal, A::RunEvent)
                // A person takes the run back.
                | (S::Terminal, S::Running, A::RunEvent)
        )
    }
}
