//! Verifies a chain entry by entry, from any source.

use serde::Serialize;
use serde_json::Value;

use crate::{
    ArtifactType, ChainError, Code, Digest, Entry, Head, Machine, State, TraceId, Uuid7, canon,
};

/// A streaming verifier of one trace, in constant memory.
///
/// The first entry determines the trace. After the first error, entries are counted but no longer
/// verified: entries after a broken link prove nothing.
#[derive(Debug, Default)]
pub struct ChainVerifier {
    head: Option<Head>,
    entry_count: u64,
    error: Option<ChainError>,
    buffer: Vec<u8>,
    /// Whether the first entry has the upstream `schema_id`; then all must have it.
    is_upstream: bool,
    /// The idempotency key of the dispatched call.
    call_key: Option<String>,
}

/// The `schema_id` of the entries of calls that other programs write. Their digests cover it.
pub const UPSTREAM_ENTRY_SCHEMA_ID: &str = "talos.tga.execution_log_entry";

/// The head of a chain without a valid entry. A report does not contain the trace id, so any id will do.
const NO_HEAD: Head = Head::empty(TraceId(Uuid7::from_parts(0, [0; 10])));

impl ChainVerifier {
    /// Creates a verifier.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads one entry strictly and verifies that it is the next one.
    ///
    /// A value that is not an entry, or contains a number that canonical JSON would change, is
    /// [`ChainError::Malformed`]. A [`Value`] does not show whether its text had a duplicate key, so
    /// parse text with [`canon::parse`] first.
    pub fn push_json(&mut self, value: &Value) {
        self.push_json_with(value, |_| Ok(()));
    }

    /// Like [`ChainVerifier::push_json`], for an entry that must also satisfy `check`, such as the
    /// verification of its artifact.
    pub fn push_json_with(
        &mut self,
        value: &Value,
        check: impl FnOnce(&Entry) -> Result<(), ChainError>,
    ) {
        if self.error.is_some() {
            self.entry_count += 1;
            return;
        }
        match read(value) {
            Ok(entry) => self.push_with(&entry, digest_as_sent(value), check),
            Err(reason) => {
                let sequence_number = self.last_sequence_number() + 1;
                self.entry_count += 1;
                self.error = Some(ChainError::Malformed { sequence_number, reason });
            }
        }
    }

    /// Verifies that `entry` is the next one.
    pub fn push(&mut self, entry: &Entry) {
        self.push_with(entry, None, |_| Ok(()));
    }

    /// Reports a chain whose entries are valid, but which as a whole is not.
    pub fn refuse(&mut self, reason: String) {
        let sequence_number = self.last_sequence_number() + 1;
        self.error.get_or_insert(ChainError::Malformed { sequence_number, reason });
    }

    fn push_with(
        &mut self,
        entry: &Entry,
        as_sent: Option<Digest>,
        check: impl FnOnce(&Entry) -> Result<(), ChainError>,
    ) {
        self.entry_count += 1;
        if self.error.is_some() {
            return;
        }
        let head = self.head.unwrap_or(Head::empty(entry.trace_id));
        if self.head.is_none() {
            self.is_upstream = entry.schema_id == UPSTREAM_ENTRY_SCHEMA_ID
                && entry.from_state.machine() == Machine::Call;
        }
        let schema_id = match self.is_upstream {
            true => UPSTREAM_ENTRY_SCHEMA_ID,
            false => entry.from_state.machine().schema_id(),
        };
        let buffer = &mut self.buffer;
        let next = head.admit_as(entry, schema_id, |entry| {
            as_sent == Some(entry.entry_digest)
                || entry.compute_digest(buffer) == entry.entry_digest
        });
        match next.and_then(|next| self.check_key(entry).and_then(|()| check(entry)).map(|()| next))
        {
            Ok(next) => self.head = Some(next),
            Err(error) => self.error = Some(error),
        }
    }

    /// Verifies that an effect has the idempotency key of its call.
    fn check_key(&mut self, entry: &Entry) -> Result<(), ChainError> {
        if entry.to_state == State::Executing {
            self.call_key.clone_from(&entry.idempotency_key);
        } else if entry.artifact_type == ArtifactType::ToolEffect
            && entry.idempotency_key != self.call_key
        {
            let reason = "the effect and its call have different idempotency keys";
            return Err(ChainError::Link { sequence_number: entry.sequence_number, reason });
        }
        Ok(())
    }

    /// The head after the last valid entry; `None` before the first one.
    #[must_use]
    pub const fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// The first error, if there was one.
    #[must_use]
    pub const fn error(&self) -> Option<&ChainError> {
        self.error.as_ref()
    }

    /// Returns the report. A chain without entries is valid.
    #[must_use]
    pub fn finish(&self) -> ChainReport {
        let head = self.head.as_ref().unwrap_or(&NO_HEAD);
        ChainReport::new(head, self.entry_count, self.error.as_ref())
    }

    fn last_sequence_number(&self) -> u64 {
        self.head.map_or(0, |head| head.sequence_number)
    }
}

/// The result of the verification of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChainReport {
    /// Whether the chain is intact.
    pub chain_valid: bool,
    /// The code of the error, if there is one.
    pub error_code: Option<Code>,
    /// The first sequence number at which the trace is wrong.
    pub divergence_point: Option<u64>,
    /// How many entries were read.
    pub entry_count: u64,
    /// The sequence number of the last valid entry.
    pub last_sequence_number: u64,
    /// The digest of the last valid entry.
    pub latest_entry_digest: Digest,
    /// The state after the last valid entry.
    pub final_state: Option<State>,
}

impl ChainReport {
    /// Describes a chain of `entry_count` entries, whose valid entries fold to `head`, and the error
    /// that ended the fold, if there was one.
    #[must_use]
    pub fn new(head: &Head, entry_count: u64, error: Option<&ChainError>) -> Self {
        Self {
            chain_valid: error.is_none(),
            error_code: error.map(ChainError::code),
            divergence_point: error.map(|error| match error {
                ChainError::ReplayPoint { sequence_number, .. }
                | ChainError::Key { sequence_number, .. }
                | ChainError::HeadMismatch { sequence_number } => *sequence_number,
                ChainError::Truncated { expected, found } => expected.min(found).saturating_add(1),
                ChainError::SequenceGap { .. }
                | ChainError::ForeignTrace { .. }
                | ChainError::PreviousDigest { .. }
                | ChainError::Transition { .. }
                | ChainError::MissingToolCall { .. }
                | ChainError::ToolCall { .. }
                | ChainError::OwnDigest { .. }
                | ChainError::Malformed { .. }
                | ChainError::Artifact { .. }
                | ChainError::Impossible { .. }
                | ChainError::Link { .. } => head.sequence_number.saturating_add(1),
            }),
            entry_count,
            last_sequence_number: head.sequence_number,
            latest_entry_digest: head.entry_digest,
            final_state: head.state,
        }
    }
}

/// The digest of an upstream entry that leaves out an optional field: its writer may not have hashed a null there.
fn digest_as_sent(value: &Value) -> Option<Digest> {
    let fields = value.as_object()?;
    let is_upstream = fields.get("schema_id")?.as_str()? == UPSTREAM_ENTRY_SCHEMA_ID;
    let is_whole = fields.contains_key("tool_call_id") && fields.contains_key("idempotency_key");
    if !is_upstream || is_whole {
        return None;
    }
    let mut fields = fields.clone();
    fields.remove("entry_digest");
    canon::digest(&fields).ok()
}

fn read(value: &Value) -> Result<Entry, String> {
    canon::check(value).map_err(|error| error.to_string())?;
    if !value.is_object() {
        // Serde would accept an array of the fields in order.
        return Err("it is not a JSON object".to_owned());
    }
    serde_json::from_value(value.clone()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn without_valid_entry(error_code: Option<Code>, entry_count: u64) -> ChainReport {
        ChainReport {
            chain_valid: error_code.is_none(),
            error_code,
            divergence_point: error_code.map(|_| 1),
            entry_count,
            last_sequence_number: 0,
            latest_entry_digest: Digest::GENESIS,
            final_state: None,
        }
    }

    #[test]
    fn a_chain_without_entries_is_valid() {
        assert_eq!(ChainVerifier::new().finish(), without_valid_entry(None, 0));
    }

    #[test]
    fn entries_after_an_error_are_only_counted() {
        let mut chain = ChainVerifier::new();
        for value in [json!(null), json!({}), json!([])] {
            chain.push_json(&value);
        }
        assert!(matches!(chain.error(), Some(ChainError::Malformed { sequence_number: 1, .. })));
        assert_eq!(chain.head(), None);
        assert_eq!(chain.finish(), without_valid_entry(Some(Code::StateChecksumMismatch), 3));
    }

    #[test]
    fn a_missing_trace_is_detected_by_its_recorded_head() {
        let recorded = Head { sequence_number: 2, ..NO_HEAD };
        let error = NO_HEAD.matches(&recorded).unwrap_err();
        let report = ChainReport::new(&NO_HEAD, 0, Some(&error));
        assert_eq!(report, without_valid_entry(Some(Code::StateSequenceGap), 0));
        assert_eq!(NO_HEAD.matches(&NO_HEAD), Ok(()));
    }
}
