//! Types that the other modules share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_kernel::{Digest, State};
use windlass_store::{Slot, StoreError, TraceState};

/// How many bits of a row id hold the sequence number: a trace has fewer than 2^24 entries.
const SEQUENCE_BITS: u32 = 24;

/// The number that the store gives to a trace; it grows with each new trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TraceNumber(pub i64);

impl TraceNumber {
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Whether a trace can have this number, or zero.
    pub const fn is_valid(self) -> bool {
        self.0 >= 0 && self.0 < 1 << (63 - SEQUENCE_BITS)
    }

    /// The smallest row id that belongs to the trace.
    pub const fn first_id(self) -> i64 {
        self.0 << SEQUENCE_BITS
    }

    /// Splits the id of an entry into the number of its trace and its sequence number.
    pub const fn of_entry(entry_id: i64) -> (Self, u64) {
        let sequence_number = entry_id & ((1 << SEQUENCE_BITS) - 1);
        (Self(entry_id >> SEQUENCE_BITS), sequence_number.unsigned_abs())
    }

    /// The id of one of the trace's entries.
    pub fn entry_id(self, sequence_number: u64) -> Result<i64, StoreError> {
        i64::try_from(sequence_number)
            .ok()
            .filter(|number| *number < 1 << SEQUENCE_BITS)
            .map(|number| self.first_id() | number)
            .ok_or_else(|| StoreError::Corrupt {
                reason: format!("a trace can have no entry {sequence_number}"),
            })
    }
}

/// The hash of an idempotency key: the first eight bytes of the digest of server, tool and key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyHash(pub i64);

impl KeyHash {
    pub fn of(slot: &Slot) -> Self {
        Self::of_names(slot_names(slot))
    }

    pub fn of_names(names: [&str; 3]) -> Self {
        let mut bytes = Vec::with_capacity(64);
        for name in names {
            bytes.extend_from_slice(&(name.len() as u64).to_be_bytes());
            bytes.extend_from_slice(name.as_bytes());
        }
        let digest = Digest::of(&bytes);
        let first = digest.as_bytes().first_chunk();
        Self(first.map_or(0, |first| i64::from_be_bytes(*first)))
    }
}

pub fn slot_names(slot: &Slot) -> [&str; 3] {
    [&slot.server_id, &slot.tool_name, &slot.idempotency_key]
}

/// A trace with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRow {
    pub state: TraceState,
    pub number: TraceNumber,
    /// The digest that binds the dispatches of the call after its first, if there are any.
    pub redispatches: Option<Digest>,
}

impl TraceRow {
    /// A trace without dispatches after the first.
    pub const fn new(state: TraceState, number: TraceNumber) -> Self {
        Self { state, number, redispatches: None }
    }
}

pub fn is_open(state: &TraceState) -> bool {
    !state.head.state.is_some_and(State::is_terminal)
}

/// Locks a mutex. A panic while it was locked is no reason to fail: whoever changes shared state
/// leaves it valid, or marks it as unknown.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name of a column or field that cannot be read.
pub type Unreadable = &'static str;

#[cfg(test)]
mod tests {
    use super::*;

    /// Databases contain these hashes.
    #[test]
    fn the_hash_of_a_key_is_pinned_and_depends_on_where_each_name_ends() {
        let hash = |names| KeyHash::of_names(names);
        assert_eq!(hash(["srv", "tool", "key-1"]), KeyHash(-4_263_284_924_545_589_375));
        let [one, two, three] = [["ab", "c", "d"], ["a", "bc", "d"], ["a", "b", "cd"]].map(hash);
        assert!(one != two && two != three && one != three);
    }
}
