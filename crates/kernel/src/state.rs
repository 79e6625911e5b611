//! The states of traces and the table of transitions between them.
//!
//! A trace is a call, a run, a grant or a notification, depending on its first entry. All use the same entries
//! and this table.

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
            /// All variants, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name in the journal.
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

/// A name that is not known.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{name}` is not the name of {what}")]
pub struct UnknownName {
    what: &'static str,
    name: String,
}

names! {
    /// The state of a trace.
    State, "a state" {
        /// A call that is requested and not decided yet.
        Pending = "PENDING",
        /// A call that is approved and not dispatched yet.
        Authorized = "AUTHORIZED",
        /// A call that is dispatched. Whether the tool has run is unknown until its effect is recorded.
        Executing = "EXECUTING",
        /// A call that ended: the tool reported success.
        Completed = "COMPLETED",
        /// A call that ended: the tool failed, or is not known to have succeeded.
        Failed = "FAILED",
        /// A call that ended: it was refused.
        Denied = "DENIED",
        /// A run that is recorded and has not begun yet.
        Init = "INIT",
        /// A run in progress.
        Running = "RUNNING",
        /// A run on hold for a person.
        Checkpoint = "CHECKPOINT",
        /// A run whose hold a person has answered.
        Resumed = "RESUMED",
        /// A run that has ended. Only a rollback leaves this state.
        Terminal = "TERMINAL",
        /// A grant that was given.
        Granted = "GRANTED",
        /// A grant that was revoked, is used up or has expired.
        Withdrawn = "WITHDRAWN",
        /// A notification that is to be sent.
        Due = "DUE",
        /// A notification that was delivered or given up. Only a person who asks for it once more leaves this state.
        Settled = "SETTLED",
    }
}

names! {
    /// The type of an artifact.
    ArtifactType, "an artifact type" {
        /// The request for a call.
        ActionRequest = "action_request",
        /// The decision of the policy or of a person.
        SupervisorDecision = "supervisor_decision",
        /// The dispatched call.
        ToolCall = "tool_call",
        /// The effect of the call.
        ToolEffect = "tool_effect",
        /// An event of a run.
        RunEvent = "run_event",
        /// An event of a grant.
        GrantEvent = "grant_event",
        /// An event of a notification.
        NotificationEvent = "notification_event",
    }
}

/// The kinds of trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// One tool call.
    Call,
    /// One run of a loop.
    Run,
    /// One grant for a pattern of calls.
    Grant,
    /// One notification of one receiver.
    Notification,
}

impl Machine {
    /// The `schema_id` of the entries of this kind.
    #[must_use]
    pub const fn schema_id(self) -> &'static str {
        match self {
            Self::Call => "tga.execution_log_entry",
            Self::Run => "windlass.run_log_entry",
            Self::Grant => "windlass.grant_log_entry",
            Self::Notification => "windlass.notification_log_entry",
        }
    }
}

impl State {
    /// Whether the trace has ended. A person can still roll back a run.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Completed
                | Self::Failed
                | Self::Denied
                | Self::Terminal
                | Self::Withdrawn
                | Self::Settled
        )
    }

    /// The kind of trace that has this state.
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
            Self::Granted | Self::Withdrawn => Machine::Grant,
            Self::Due | Self::Settled => Machine::Notification,
        }
    }
}

/// The transition of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The state before.
    pub from: State,
    /// The state after.
    pub to: State,
    /// The type of the artifact that causes it.
    pub artifact: ArtifactType,
}

impl Transition {
    /// Whether the table has a row for this transition from `current` (`None`: an empty trace).
    ///
    /// INVARIANT: this is the only transition table; live work, replay, stores and verification all
    /// use it.
    #[must_use]
    pub const fn is_allowed_from(self, current: Option<State>) -> bool {
        use ArtifactType as A;
        use State as S;
        let Some(current) = current else {
            return matches!(
                (self.from, self.to, self.artifact),
                (S::Pending, S::Pending, A::ActionRequest)
                    | (S::Init, S::Init, A::RunEvent)
                    | (S::Granted, S::Granted, A::GrantEvent)
                    | (S::Due, S::Due, A::NotificationEvent)
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
                // A rollback, or the merge of an ended run.
                | (S::Terminal, S::Running | S::Terminal, A::RunEvent)
                | (S::Granted, S::Granted | S::Withdrawn, A::GrantEvent)
                | (S::Due, S::Due | S::Settled, A::NotificationEvent)
                // A person asks for it once more.
                | (S::Settled, S::Due, A::NotificationEvent)
        )
    }
}
