//! Grants: a person's signed decision for a pattern of calls, and the calls that have used it.
//!
//! A grant has a trace of its own. Its first entry holds the terms and the person's signature; each use
//! is an entry, so that the number of uses is exact; then it is revoked, used up or expired.

use serde::{Deserialize, Serialize};

use crate::artifact::DecidedBy;
use crate::canon;
use crate::entry::present;
use crate::{
    ArtifactType, ChainError, Digest, Entry, EventArtifact, Head, PlanId, Signed, State, Statement,
    Timestamp, TraceEvent, TraceId,
};

/// The maximum number of uses of a grant.
pub const TIMES_MAX: u32 = 1000;
/// The longest validity of a grant: 30 days.
pub const VALID_MS_MAX: i64 = 30 * 86_400_000;
/// The longest validity of a grant of everything: a day.
pub const EVERYTHING_MS_MAX: i64 = 86_400_000;
/// The pattern of tools of a grant of everything.
pub const EVERY_TOOL: &str = "**";
/// The maximum length of a pattern.
const PATTERN_BYTES_MAX: usize = 4096;
/// The maximum length of a reason.
const REASON_BYTES_MAX: usize = 4096;

/// What a grant covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// The glob that the commands must match.
    #[serde(deserialize_with = "present")]
    pub command: Option<String>,
    /// Whether it covers all calls of one session, also those that the policy denies.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub everything: bool,
    /// The glob that the paths must match.
    #[serde(deserialize_with = "present")]
    pub path: Option<String>,
    /// The run whose calls it covers; `None` means all calls of the project.
    #[serde(deserialize_with = "present")]
    pub run: Option<TraceId>,
    /// How often it can be used.
    pub times: u32,
    /// The glob that the tool (`server/tool`) must match.
    pub tool: String,
    /// When it expires.
    pub until: Timestamp,
}

impl Terms {
    /// The digest of the terms, which the person signs.
    #[must_use]
    pub fn digest(&self) -> Digest {
        // Text, ids and small numbers always have a canonical form.
        canon::digest(self).unwrap_or(Digest::GENESIS)
    }

    /// Whether calls of this plan are in the scope.
    #[must_use]
    pub fn includes(&self, plan_id: PlanId) -> bool {
        self.run.is_none_or(|run| run.0 == plan_id.0)
    }

    /// Checks the terms of a grant that is given at `now`.
    ///
    /// # Errors
    /// A message that says what terms may be.
    pub fn check(&self, now: Timestamp) -> Result<(), &'static str> {
        let patterns = [Some(&self.tool), self.command.as_ref(), self.path.as_ref()];
        let is_valid = |pattern: &&String| {
            !pattern.trim().is_empty()
                && pattern.len() <= PATTERN_BYTES_MAX
                && !pattern.chars().any(char::is_control)
        };
        if !patterns.iter().flatten().all(is_valid) {
            return Err("a pattern is 1 to 4096 bytes on one line and not blank");
        }
        let is_plain = self.tool == EVERY_TOOL && self.command.is_none() && self.path.is_none();
        if self.everything && !(is_plain && self.run.is_some()) {
            return Err("a grant of everything is for one session and has no pattern");
        }
        if !(1..=TIMES_MAX).contains(&self.times) {
            return Err("a grant is used 1 to 1000 times");
        }
        let valid_ms = self.until.unix_ms().saturating_sub(now.unix_ms());
        if !(1..=VALID_MS_MAX).contains(&valid_ms) {
            return Err("a grant expires in the future, within 30 days");
        }
        if self.everything && valid_ms > EVERYTHING_MS_MAX {
            return Err("a grant of everything expires within a day");
        }
        Ok(())
    }

    /// What a person signs who gives or revokes a grant whose trace ends at `head`.
    #[must_use]
    pub fn statement<'a>(
        &self,
        head: &Head,
        decision: &'static str,
        reason: &'a str,
    ) -> Statement<'a> {
        Statement {
            after: head.entry_digest,
            conditions: &[],
            decision: decision.into(),
            edit: None,
            files: &[],
            reason,
            send_back: None,
            shown: self.digest(),
            trace_id: head.trace_id,
        }
    }
}

/// The decision that a person signs to give a grant.
pub const GRANT: &str = "GRANT";
/// The decision that a person signs to revoke a grant.
pub const REVOKE: &str = "REVOKE";

/// Why a grant ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// Its time is over.
    Expired,
    /// All of its uses are recorded.
    UsedUp,
}

/// An event of a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// A person gave the grant.
    Granted {
        /// The person, with the signature of the terms.
        by: Signed,
        /// The reason.
        reason: String,
        /// The terms.
        terms: Terms,
    },
    /// A call is about to run under the grant.
    Used {
        /// The trace of the call.
        call: TraceId,
        /// The number of the use, from 1.
        number: u32,
        /// The digest of the call's request.
        request_digest: Digest,
    },
    /// A person revoked the grant.
    Revoked {
        /// The person, with the signature of the revocation.
        by: Signed,
        /// The reason.
        reason: String,
    },
    /// The grant was found expired or used up.
    Ended {
        /// The cause.
        cause: EndCause,
    },
}

impl Event {
    /// The name of the kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Granted { .. } => "granted",
            Self::Used { .. } => "used",
            Self::Revoked { .. } => "revoked",
            Self::Ended { .. } => "ended",
        }
    }

    /// The state after the event.
    #[must_use]
    pub const fn to_state(&self) -> State {
        match self {
            Self::Granted { .. } | Self::Used { .. } => State::Granted,
            Self::Revoked { .. } | Self::Ended { .. } => State::Withdrawn,
        }
    }
}

/// The artifact of an entry of a grant: an event with its envelope.
pub type GrantEvent = EventArtifact<Event>;

impl TraceEvent for Event {
    const SCHEMA_ID: &'static str = "windlass.grant_event";
    const ARTIFACT: ArtifactType = ArtifactType::GrantEvent;
    const OF_ANOTHER: &'static str = "the event belongs to another grant";

    fn state_after(&self, _: State) -> State {
        self.to_state()
    }
}

/// A person's decision about a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The person, with the signature.
    pub by: Signed,
    /// The reason.
    pub reason: String,
    /// When it was recorded.
    pub ts: Timestamp,
}

/// One use of a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Use {
    /// The trace of the call.
    pub call: TraceId,
    /// The digest of the entry that records the use.
    pub entry_digest: Digest,
    /// The digest of the call's request.
    pub request_digest: Digest,
    /// When it was recorded, which is before the call is dispatched.
    pub ts: Timestamp,
}

/// Whether a grant can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It can be used.
    Open,
    /// A person revoked it.
    Revoked,
    /// All of its uses are recorded.
    UsedUp,
    /// Its time is over.
    Expired,
}

impl Status {
    /// The name in output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Revoked => "revoked",
            Self::UsedUp => "used up",
            Self::Expired => "expired",
        }
    }
}

/// A grant folded from its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The head of its trace.
    pub head: Head,
    /// The terms, and who gave it; `None` without entries.
    pub granted: Option<(Terms, Decided)>,
    /// The uses, in their order.
    pub uses: Vec<Use>,
    /// Who revoked it, if it was revoked.
    pub revoked: Option<Decided>,
}

impl Grant {
    /// A grant without entries.
    #[must_use]
    pub const fn empty(trace_id: TraceId) -> Self {
        Self { head: Head::empty(trace_id), granted: None, uses: Vec::new(), revoked: None }
    }

    /// Whether it can be used at `now`.
    #[must_use]
    pub fn status(&self, now: Timestamp) -> Status {
        if self.revoked.is_some() {
            return Status::Revoked;
        }
        match &self.granted {
            Some((terms, _)) if self.used() >= terms.times => Status::UsedUp,
            Some((terms, _)) if now < terms.until => Status::Open,
            Some(_) | None => Status::Expired,
        }
    }

    /// How many uses are recorded.
    #[must_use]
    pub fn used(&self) -> u32 {
        u32::try_from(self.uses.len()).unwrap_or(u32::MAX)
    }

    /// The use that is recorded for a call with this request.
    #[must_use]
    pub fn use_of(&self, call: TraceId, request_digest: Digest) -> Option<&Use> {
        self.uses.iter().find(|one| one.call == call && one.request_digest == request_digest)
    }

    /// Whether the entry with this digest records the use by a call with this request.
    #[must_use]
    pub fn records(&self, call: TraceId, request_digest: Digest, entry_digest: Digest) -> bool {
        self.use_of(call, request_digest).is_some_and(|one| one.entry_digest == entry_digest)
    }

    /// Folds one more entry, whose position in the chain (`head`) has been verified.
    ///
    /// # Errors
    /// [`ChainError`] if a signature is not valid or the event cannot occur here.
    pub fn apply(&mut self, entry: &Entry, event: &Event, head: Head) -> Result<(), ChainError> {
        let sequence_number = entry.sequence_number;
        let impossible = |why: &str| {
            let (kind, why) = (event.kind(), why.to_owned());
            Err(ChainError::Impossible { sequence_number, kind, why })
        };
        let unsigned = ChainError::Link {
            sequence_number,
            reason: "the signature of the decision is not valid",
        };
        match (event, &self.granted) {
            (Event::Granted { by, reason, terms }, None) => {
                if let Err(why) = terms.check(entry.ts) {
                    return impossible(why);
                }
                if !is_reason(reason) {
                    return impossible("a reason is 1 to 4096 bytes long and not blank");
                }
                if !by.verifies(&terms.statement(&self.head, GRANT, reason)) {
                    return Err(unsigned);
                }
                self.granted = Some((terms.clone(), decided(by, reason, entry.ts)));
            }
            (Event::Used { call, number, request_digest }, Some((terms, _))) => {
                if *number != self.used() + 1 || *number > terms.times {
                    return impossible("it is not the next use of the grant");
                }
                if entry.ts >= terms.until {
                    return impossible("the grant has expired");
                }
                if self.uses.iter().any(|one| one.call == *call) {
                    return impossible("the call has used the grant before");
                }
                let entry_digest = entry.entry_digest;
                let (call, request_digest, ts) = (*call, *request_digest, entry.ts);
                self.uses.push(Use { call, entry_digest, request_digest, ts });
            }
            (Event::Revoked { by, reason }, Some((terms, _))) => {
                if !is_reason(reason) {
                    return impossible("a reason is 1 to 4096 bytes long and not blank");
                }
                if !by.verifies(&terms.statement(&self.head, REVOKE, reason)) {
                    return Err(unsigned);
                }
                self.revoked = Some(decided(by, reason, entry.ts));
            }
            (Event::Ended { cause }, Some((terms, _))) => {
                let is_over = match cause {
                    EndCause::Expired => entry.ts >= terms.until,
                    EndCause::UsedUp => self.used() >= terms.times,
                };
                if !is_over {
                    return impossible("the grant has not ended");
                }
            }
            (Event::Granted { .. }, Some(_)) => return impossible("the grant is already given"),
            (Event::Used { .. } | Event::Revoked { .. } | Event::Ended { .. }, None) => {
                return impossible("nobody has given the grant");
            }
        }
        self.head = head;
        Ok(())
    }
}

fn decided(by: &Signed, reason: &str, ts: Timestamp) -> Decided {
    Decided { by: by.clone(), reason: reason.to_owned(), ts }
}

/// The use of a grant that a decision on a call refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantUse {
    /// The digest of the grant's entry that records the use.
    pub entry_digest: Digest,
    /// The trace of the grant.
    pub grant: TraceId,
}

impl GrantUse {
    pub(crate) const fn of_decision(decided_by: &DecidedBy) -> Option<Self> {
        match decided_by {
            DecidedBy::Grant { entry_digest, grant, .. } => {
                Some(Self { entry_digest: *entry_digest, grant: *grant })
            }
            DecidedBy::Person { .. } | DecidedBy::Policy { .. } | DecidedBy::Prompt { .. } => None,
        }
    }
}

/// Whether a text can be the reason of a decision.
#[must_use]
pub fn is_reason(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= REASON_BYTES_MAX
}
