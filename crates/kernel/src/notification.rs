//! Notifications: messages to receivers outside about what a journal records, and their deliveries.
//!
//! A notification has a trace of its own. Its id is derived from its receiver and from what it is about, so that no
//! two processes can create it twice. An attempt to deliver it is an entry before it is made, and its result is an
//! entry after it: an attempt without a result was interrupted, and is made again under the same id.

use serde::{Deserialize, Serialize};

use crate::canon;
use crate::entry::present;
use crate::{
    ArtifactType, ChainError, Digest, Entry, EventArtifact, Head, State, Timestamp, TraceEvent,
    TraceId, Uuid7,
};

/// The longest name of a receiver.
pub const RECEIVER_BYTES_MAX: usize = 64;
/// The longest text of a message, and the longest reason of a failure.
pub const TEXT_BYTES_MAX: usize = 4096;

/// What a notification tells.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A run or a call waits for a person.
    HoldOpened,
    /// A hold that nobody has answered expires soon.
    HoldExpiring,
    /// A run has ended.
    RunEnded,
    /// A budget is exhausted, or the limit of an agent is reached.
    LimitReached,
    /// A trace failed verification.
    ChainBroken,
    /// A person tries out a receiver.
    Test,
}

impl Kind {
    /// All variants.
    pub const ALL: [Self; 6] = [
        Self::HoldOpened,
        Self::HoldExpiring,
        Self::RunEnded,
        Self::LimitReached,
        Self::ChainBroken,
        Self::Test,
    ];

    /// The name in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HoldOpened => "hold_opened",
            Self::HoldExpiring => "hold_expiring",
            Self::RunEnded => "run_ended",
            Self::LimitReached => "limit_reached",
            Self::ChainBroken => "chain_broken",
            Self::Test => "test",
        }
    }
}

/// What a notification is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// When that happened.
    pub at: Timestamp,
    /// What tells it from all others of its kind in the same trace, such as the digest of what a hold shows.
    pub mark: String,
    /// The trace.
    #[serde(deserialize_with = "present")]
    pub trace: Option<TraceId>,
}

/// What a receiver is told. Secrets were taken out before it is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Until when the hold can be answered.
    #[serde(deserialize_with = "present")]
    pub expires_at: Option<Timestamp>,
    /// What it tells.
    pub kind: Kind,
    /// The name of the run.
    #[serde(deserialize_with = "present")]
    pub run: Option<String>,
    /// The digest of what the hold shows.
    #[serde(deserialize_with = "present")]
    pub shown: Option<Digest>,
    /// The whole message.
    pub text: String,
    /// The message in one line.
    pub title: String,
}

/// The id of the notification of a receiver about something.
#[must_use]
pub fn id_of(receiver: &str, kind: Kind, about: &About) -> TraceId {
    // Text and ids always have a canonical form.
    let digest = canon::digest(&(receiver, kind, about)).unwrap_or(Digest::GENESIS);
    let mut random = [0; 10];
    for (byte, of) in random.iter_mut().zip(digest.as_bytes()) {
        *byte = *of;
    }
    TraceId(Uuid7::from_parts(u64::try_from(about.at.unix_ms()).unwrap_or_default(), random))
}

/// An event of a notification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// There is something to tell a receiver.
    Created {
        /// What it is about.
        about: About,
        /// The message.
        message: Message,
        /// The name of the receiver.
        receiver: String,
    },
    /// It is about to be sent.
    Attempted {
        /// The number of the attempt, from 1.
        number: u32,
    },
    /// The receiver has accepted it.
    Delivered {
        /// The number of the attempt.
        number: u32,
        /// The status of the answer over HTTP.
        #[serde(deserialize_with = "present")]
        status: Option<u16>,
    },
    /// An attempt has failed.
    Failed {
        /// The number of the attempt.
        number: u32,
        /// Why.
        reason: String,
        /// When the next attempt is due.
        retry_at: Timestamp,
        /// The status of the answer over HTTP.
        #[serde(deserialize_with = "present")]
        status: Option<u16>,
    },
    /// It is not sent any more.
    GivenUp {
        /// The number of the last attempt; 0 if there was none.
        number: u32,
        /// Why.
        reason: String,
        /// The status of the last answer over HTTP.
        #[serde(deserialize_with = "present")]
        status: Option<u16>,
    },
    /// A person asked to send it once more.
    Requested {
        /// Who.
        by: String,
    },
}

impl Event {
    /// The name of the kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Created { .. } => "created",
            Self::Attempted { .. } => "attempted",
            Self::Delivered { .. } => "delivered",
            Self::Failed { .. } => "failed",
            Self::GivenUp { .. } => "given_up",
            Self::Requested { .. } => "requested",
        }
    }

    /// The state after the event.
    #[must_use]
    pub const fn to_state(&self) -> State {
        match self {
            Self::Created { .. }
            | Self::Attempted { .. }
            | Self::Failed { .. }
            | Self::Requested { .. } => State::Due,
            Self::Delivered { .. } | Self::GivenUp { .. } => State::Settled,
        }
    }
}

/// The artifact of an entry of a notification: an event with its envelope.
pub type NotificationEvent = EventArtifact<Event>;

impl TraceEvent for Event {
    const SCHEMA_ID: &'static str = "windlass.notification_event";
    const ARTIFACT: ArtifactType = ArtifactType::NotificationEvent;
    const OF_ANOTHER: &'static str = "the event belongs to another notification";

    fn state_after(&self, _: State) -> State {
        self.to_state()
    }
}

/// The delivery of a notification, as far as it got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is to be sent.
    Due {
        /// When.
        at: Timestamp,
    },
    /// It is being sent, or whoever sent it was interrupted.
    Attempting {
        /// Since when.
        since: Timestamp,
    },
    /// The receiver has accepted it.
    Delivered {
        /// When.
        at: Timestamp,
        /// The status of the answer over HTTP.
        status: Option<u16>,
    },
    /// It is not sent any more.
    GivenUp {
        /// When.
        at: Timestamp,
    },
}

/// A failed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// When it failed.
    pub at: Timestamp,
    /// Why.
    pub reason: String,
    /// The status of the answer over HTTP.
    pub status: Option<u16>,
}

/// What a notification was created with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// What it is about.
    pub about: About,
    /// When it was created.
    pub at: Timestamp,
    /// The message.
    pub message: Message,
    /// The name of the receiver.
    pub receiver: String,
}

/// A notification folded from its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The head of its trace.
    pub head: Head,
    /// What it was created with; `None` without entries.
    pub created: Option<Created>,
    /// How often it was attempted.
    pub attempts: u32,
    /// How often since it was created, or since somebody asked for it once more.
    pub tries: u32,
    /// The delivery.
    pub delivery: Delivery,
    /// The newest failure.
    pub failure: Option<Failure>,
}

impl Notification {
    /// A notification without entries.
    #[must_use]
    pub const fn empty(trace_id: TraceId) -> Self {
        Self {
            head: Head::empty(trace_id),
            created: None,
            attempts: 0,
            tries: 0,
            delivery: Delivery::Due { at: Timestamp::EPOCH },
            failure: None,
        }
    }

    /// When it is to be sent; `None` if it was delivered or given up. An interrupted attempt is made again at once.
    #[must_use]
    pub const fn due_at(&self) -> Option<Timestamp> {
        match self.delivery {
            Delivery::Due { at } | Delivery::Attempting { since: at } => Some(at),
            Delivery::Delivered { .. } | Delivery::GivenUp { .. } => None,
        }
    }

    /// Folds one more entry, whose position in the chain (`head`) has been verified.
    ///
    /// # Errors
    /// [`ChainError`] if the event cannot occur here.
    pub fn apply(&mut self, entry: &Entry, event: &Event, head: Head) -> Result<(), ChainError> {
        let (sequence_number, at) = (entry.sequence_number, entry.ts);
        let impossible = |why: &str| {
            let (kind, why) = (event.kind(), why.to_owned());
            Err(ChainError::Impossible { sequence_number, kind, why })
        };
        let is_attempting = matches!(self.delivery, Delivery::Attempting { .. });
        match (event, &self.created) {
            (Event::Created { about, message, receiver }, None) => {
                if !is_receiver(receiver) {
                    return impossible("a receiver has no such name");
                }
                if message.text.len() > TEXT_BYTES_MAX || message.title.len() > TEXT_BYTES_MAX {
                    return impossible("the message is too long");
                }
                if id_of(receiver, message.kind, about) != entry.trace_id {
                    return impossible("its id is not that of what it is about");
                }
                let (about, message, receiver) = (about.clone(), message.clone(), receiver.clone());
                self.created = Some(Created { about, at, message, receiver });
                self.delivery = Delivery::Due { at };
            }
            (Event::Attempted { number }, Some(_)) => {
                if *number != self.attempts.saturating_add(1) || self.due_at().is_none() {
                    return impossible("it is not the next attempt");
                }
                self.attempts = *number;
                self.tries = self.tries.saturating_add(1);
                self.delivery = Delivery::Attempting { since: at };
            }
            (Event::Delivered { number, status }, Some(_)) => {
                if *number != self.attempts || !is_attempting {
                    return impossible("there is no such attempt");
                }
                self.delivery = Delivery::Delivered { at, status: *status };
            }
            (Event::Failed { number, reason, retry_at, status }, Some(_)) => {
                if *number != self.attempts || !is_attempting {
                    return impossible("there is no such attempt");
                }
                self.delivery = Delivery::Due { at: *retry_at };
                self.failure = Some(Failure { at, reason: reason.clone(), status: *status });
            }
            (Event::GivenUp { number, reason, status }, Some(_)) => {
                if *number != self.attempts {
                    return impossible("there is no such attempt");
                }
                self.delivery = Delivery::GivenUp { at };
                self.failure = Some(Failure { at, reason: reason.clone(), status: *status });
            }
            (Event::Requested { .. }, Some(_)) => {
                if self.due_at().is_some() {
                    return impossible("it is to be sent already");
                }
                self.tries = 0;
                self.delivery = Delivery::Due { at };
            }
            (Event::Created { .. }, Some(_)) => return impossible("it is created already"),
            (
                Event::Attempted { .. }
                | Event::Delivered { .. }
                | Event::Failed { .. }
                | Event::GivenUp { .. }
                | Event::Requested { .. },
                None,
            ) => return impossible("it was not created"),
        }
        self.head = head;
        Ok(())
    }
}

/// Whether a text can be the name of a receiver.
#[must_use]
pub fn is_receiver(name: &str) -> bool {
    (1..=RECEIVER_BYTES_MAX).contains(&name.len())
        && name.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-'))
}
