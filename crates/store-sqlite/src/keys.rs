//! Where keys are found.
//!
//! The table `keys` has a number for each key and the trace that has reserved it; the record itself is
//! in that trace's entries. Different keys may have the same number: the entries tell. If they do not,
//! the record is lost, which is an error and not a key that is free.

use std::ops::ControlFlow;

use rusqlite::{CachedStatement, Connection};
use windlass_kernel::{Digest, ReservedKey};
use windlass_store::{IdempotencyRecord, Reservation, Slot, StoreError};

use crate::error::During;
use crate::lines;
use crate::rows::TraceNumber;
use crate::sheet::{Field, Fields, Line};

/// A key's number: the beginning of the digest of its server, its tool and itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyHash(pub i64);

impl KeyHash {
    /// The number of a key.
    pub fn of(slot: &Slot) -> Self {
        Self::new(names(slot))
    }

    /// The number of the key that is reserved with an entry, if one is.
    pub fn in_entry(fields: &Fields<'_>) -> Option<Self> {
        reserved(fields).map(Self::new)
    }

    fn new(names: [&str; 3]) -> Self {
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

fn names(slot: &Slot) -> [&str; 3] {
    [&slot.server_id, &slot.tool_name, &slot.idempotency_key]
}

/// The names of the key that is reserved with an entry.
fn reserved<'a>(fields: &Fields<'a>) -> Option<[&'a str; 3]> {
    let [server, tool, key] =
        [Field::Server, Field::Tool, Field::Key].map(|field| fields.text(field));
    Some([server?, tool?, key?])
}

/// Whether a key is reserved with an entry.
pub fn is_reserved(fields: &Fields<'_>, slot: &Slot) -> bool {
    reserved(fields) == Some(names(slot))
}

/// The key that is reserved with an entry, if one is and its record can be made of it.
pub fn in_line<'a>(line: &Line<'a>) -> Option<ReservedKey<'a>> {
    let fields = line.fields.as_ref().ok()?;
    let [server_id, tool_name, idempotency_key] = reserved(fields)?;
    let (request_digest, _) = fields.bound().ok()?;
    Some(ReservedKey { server_id, tool_name, idempotency_key, request_digest })
}

/// Finds the traces that have reserved keys and are filed.
pub struct Finder<'a>(CachedStatement<'a>);

impl<'a> Finder<'a> {
    const OPERATION: &'static str = "find a key";

    /// Prepares to find.
    pub fn new(connection: &'a Connection) -> Result<Self, StoreError> {
        connection
            .prepare_cached("SELECT trace_number FROM keys WHERE hash = ?1")
            .during(Self::OPERATION)
            .map(Self)
    }

    /// The traces that may have reserved a key of this number.
    pub fn numbers(&mut self, hash: KeyHash) -> Result<Vec<TraceNumber>, StoreError> {
        let operation = Self::OPERATION;
        self.0.raw_bind_parameter(1, hash.0).during(operation)?;
        let mut rows = self.0.raw_query();
        let mut numbers = Vec::new();
        while let Some(row) = rows.next().during(operation)? {
            numbers.push(TraceNumber(row.get(0).during(operation)?));
        }
        Ok(numbers)
    }
}

/// The record of a key, without its effect, by the entries of a trace that may have reserved it.
pub fn read(
    connection: &Connection,
    number: TraceNumber,
    (slot, hash): (&Slot, KeyHash),
) -> Result<Option<IdempotencyRecord>, StoreError> {
    let mut record = None;
    let mut another = false;
    lines::of_trace(connection, number, 0, |line| {
        let Ok(fields) = &line.fields else { return Ok(ControlFlow::Continue(())) };
        if is_reserved(fields, slot) {
            record = Some(fields.bound().and_then(|bound| Ok((bound, fields.trace_id()?))));
            return Ok(ControlFlow::Break(()));
        }
        another |= KeyHash::in_entry(fields) == Some(hash);
        Ok(ControlFlow::Continue(()))
    })?;
    match record {
        Some(Ok(((request_digest, tool_call_id), trace_id))) => Ok(Some(IdempotencyRecord {
            reservation: Reservation { slot: slot.clone(), request_digest, tool_call_id },
            trace_id,
            effect_digest: None,
        })),
        None if another => Ok(None),
        Some(Err(_)) | None => Err(StoreError::Corrupt {
            reason: format!("the idempotency record of trace number {} is unreadable", number.0),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sheet::{self, FIELDS};

    fn slot(server: &str, tool: &str, key: &str) -> Slot {
        Slot {
            server_id: server.to_owned(),
            tool_name: tool.to_owned(),
            idempotency_key: key.to_owned(),
        }
    }

    /// The numbers themselves: a database is read by versions that come later.
    #[test]
    fn the_number_of_a_key_is_pinned_and_tells_its_names_apart() {
        assert_eq!(KeyHash::of(&slot("srv", "tool", "key-1")), KeyHash(-4_263_284_924_545_589_375));
        let alike = [slot("ab", "c", "d"), slot("a", "bc", "d"), slot("a", "b", "cd")];
        let [one, two, three] = alike.each_ref().map(KeyHash::of);
        assert!(one != two && two != three && one != three);
    }

    /// Two keys of one number are told apart; a number that no key of the trace has is an error.
    #[test]
    fn keys_of_one_number_are_told_apart_by_their_entries() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(&crate::MIGRATIONS.concat()).unwrap();
        let id = [0x01, 0x9c, 0, 0, 0, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, 1];
        let mut fields = [None; FIELDS];
        for (field, bytes) in [
            (Field::Trace, &id[..]),
            (Field::Call, &id),
            (Field::Request, &[7; 32]),
            (Field::Server, b"srv"),
            (Field::Tool, b"tool"),
            (Field::Key, b"key-1"),
        ] {
            fields[field as usize] = Some(bytes);
        }
        let mut bytes = Vec::new();
        sheet::put(&mut bytes, &Fields::new(fields), None);
        let number = TraceNumber(3);
        let row = rusqlite::params![number.entry_id(1).unwrap(), bytes];
        connection.execute("INSERT INTO sheets_opening VALUES (?1, ?2)", row).unwrap();
        let (mine, other) = (slot("srv", "tool", "key-1"), slot("srv", "tool", "key-2"));
        let hash = KeyHash::of(&mine);
        let found = read(&connection, number, (&mine, hash)).unwrap().unwrap();
        assert_eq!(found.reservation.request_digest, Digest::from_bytes([7; 32]));
        assert_eq!(read(&connection, number, (&other, hash)).unwrap(), None);
        let lost = read(&connection, number, (&other, KeyHash::of(&other))).unwrap_err();
        assert!(matches!(lost, StoreError::Corrupt { .. }), "{lost}");
        let lost = read(&connection, TraceNumber(4), (&mine, hash)).unwrap_err();
        assert!(matches!(lost, StoreError::Corrupt { .. }), "{lost}");
    }
}
