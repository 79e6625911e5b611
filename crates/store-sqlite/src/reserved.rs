//! Whether keys are on record as the entries say: what is lost there would let a call run twice.

use std::hash::BuildHasher as _;
use std::ops::ControlFlow;

use foldhash::quality::RandomState;
use rusqlite::Connection;
use windlass_kernel::{ReservedKey, TraceId};
use windlass_store::{Slot, StoreError, Unreserved, Visitor};

use crate::error::During;
use crate::fold;
use crate::keys::{self, KeyHash};
use crate::lines;
use crate::rows::{KeyFinder, TraceNumber};
use crate::scan;
use crate::sheet::{Field, Line};

const OPERATION: &str = "read keys";

/// What is made of a key on record.
type Visit<'a> = &'a mut dyn FnMut(KeyHash, TraceNumber) -> Result<(), StoreError>;

/// Holds the keys on record against the entries while all of these are read.
///
/// Row by row that would be a search for each key. So both sides are summed up, each row by a hash
/// that nobody can foresee, and only if the sums differ is every row looked at.
pub struct Check<'a> {
    connection: &'a Connection,
    /// Up to here traces are filed, and their keys with them.
    upto: TraceNumber,
    seed: RandomState,
    sum: u64,
}

impl<'a> Check<'a> {
    /// Begins, before the first entry.
    pub fn new(connection: &'a Connection) -> Result<Self, StoreError> {
        let upto = fold::filed_upto(connection)?;
        Ok(Self { connection, upto, seed: RandomState::default(), sum: 0 })
    }

    /// Takes an entry into account. Tells if neither it nor a record in full has what the visitor
    /// says must be reserved with it.
    pub fn entry(
        &mut self,
        line: &Line<'_>,
        promised: Option<ReservedKey<'_>>,
    ) -> Result<Option<Unreserved>, StoreError> {
        if let Some(hash) = self.filed_hash(line) {
            self.sum = self.sum.wrapping_add(self.mix(hash, line.number));
        }
        let Some(key) = promised else { return Ok(None) };
        if keys::in_line(line) == Some(key) || self.recorded(line, &key)? {
            return Ok(None);
        }
        let (sequence_number, reason) = (line.sequence_number, Unreserved::LOST);
        Ok(trace_of(line).map(|trace_id| Unreserved { trace_id, sequence_number, reason }))
    }

    /// The number of the key that must be filed for an entry.
    fn filed_hash(&self, line: &Line<'_>) -> Option<KeyHash> {
        let fields = line.fields.as_ref().ok().filter(|_| line.number <= self.upto)?;
        fields.get(Field::Server)?;
        KeyHash::in_entry(fields)
    }

    fn mix(&self, hash: KeyHash, number: TraceNumber) -> u64 {
        self.seed.hash_one((hash.0, number.0))
    }

    /// Whether a key has a record in full that says what it must.
    fn recorded(&self, line: &Line<'_>, key: &ReservedKey<'_>) -> Result<bool, StoreError> {
        let record = match KeyFinder::new(self.connection)?.find(&Slot::from(key)) {
            // One that cannot be read says nothing.
            Err(StoreError::Corrupt { .. }) => None,
            found => found?,
        };
        Ok(record.is_some_and(|record| line.entry().is_ok_and(|entry| record.is_for(key, &entry))))
    }

    /// Ends, after the last entry, and tells the visitor what does not match.
    pub fn finish(self, visitor: &mut dyn Visitor) -> Result<(), StoreError> {
        let mut sum = 0_u64;
        let mut add = |hash, number| {
            sum = sum.wrapping_add(self.mix(hash, number));
            Ok(())
        };
        self.numbers(&mut add)?;
        self.records(&mut add)?;
        if sum == self.sum {
            return Ok(());
        }
        let mut tell = |trace_id, sequence_number, reason| {
            visitor.unreserved(Unreserved { trace_id, sequence_number, reason });
        };
        let mut filed = self
            .connection
            .prepare("SELECT EXISTS (SELECT 1 FROM keys WHERE hash = ?1 AND trace_number = ?2)")
            .during(OPERATION)?;
        lines::of_all(self.connection, |line| {
            if let Some(hash) = self.filed_hash(line)
                && let Some(key) = keys::in_line(line)
                && let Some(trace_id) = trace_of(line)
                && !filed
                    .query_row([hash.0, line.number.0], |row| row.get::<_, bool>(0))
                    .during(OPERATION)?
                && !self.recorded(line, &key)?
            {
                tell(trace_id, line.sequence_number, Unreserved::LOST);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        self.numbers(&mut |hash, number| {
            let (mut named, mut reserved) = (None, false);
            lines::of_trace(self.connection, number, 0, |line| {
                named = named.or_else(|| trace_of(line));
                reserved |= self.filed_hash(line) == Some(hash);
                Ok(ControlFlow::Continue(()))
            })?;
            if !reserved {
                let named = named.map_or_else(|| scan::filed_under(self.connection, number), Ok);
                tell(named?, 1, Unreserved::EXTRA);
            }
            Ok(())
        })
    }

    /// Shows the keys that are filed by their numbers.
    fn numbers(&self, visit: Visit<'_>) -> Result<(), StoreError> {
        let mut statement =
            self.connection.prepare("SELECT hash, trace_number FROM keys").during(OPERATION)?;
        let mut rows = statement.query([]).during(OPERATION)?;
        while let Some(row) = rows.next().during(OPERATION)? {
            let hash = KeyHash(row.get(0).during(OPERATION)?);
            visit(hash, TraceNumber(row.get(1).during(OPERATION)?))?;
        }
        Ok(())
    }

    /// Shows the keys of filed traces that have their records in full.
    fn records(&self, visit: Visit<'_>) -> Result<(), StoreError> {
        let mut statement = self
            .connection
            .prepare(
                "SELECT server_id, tool_name, idempotency_key, trace_number
                 FROM idempotency JOIN traces USING (trace_id)",
            )
            .during(OPERATION)?;
        let mut rows = statement.query([]).during(OPERATION)?;
        while let Some(row) = rows.next().during(OPERATION)? {
            let slot = Slot {
                server_id: row.get(0).during(OPERATION)?,
                tool_name: row.get(1).during(OPERATION)?,
                idempotency_key: row.get(2).during(OPERATION)?,
            };
            visit(KeyHash::of(&slot), TraceNumber(row.get(3).during(OPERATION)?))?;
        }
        Ok(())
    }
}

fn trace_of(line: &Line<'_>) -> Option<TraceId> {
    line.fields.as_ref().ok()?.trace_id().ok()
}
