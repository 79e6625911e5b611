//! The statements of appends, compiled and at hand for all of a batch.

use std::sync::Arc;

use rusqlite::{CachedStatement, Connection};
use windlass_store::{IdempotencyRecord, Slot, StoreError};

use crate::error::During;
use crate::keys::{self, Finder, KeyHash};
use crate::rows::{self, KeyFinder};
use crate::sheet::Sheet;
use crate::tail::Tail;

const OPERATION: &str = "insert entries";
/// So many sheets are inserted by one statement, and what is left by one each.
const ROWS: usize = 4;

/// What a batch writes with.
#[derive(Default)]
pub struct Statements<'a> {
    /// Inserts what traces begin with.
    opening: Tree<'a>,
    /// Inserts what is added to them.
    later: Tree<'a>,
    /// Finds a key by its number.
    key: Option<Finder<'a>>,
    /// Finds a key by its name.
    record: Option<KeyFinder<'a>>,
}

/// The tree of sheets that a statement inserts into.
#[derive(Default)]
struct Tree<'a> {
    one: Option<CachedStatement<'a>>,
    some: Option<CachedStatement<'a>>,
    /// What is put off, with its keys.
    rows: Vec<(i64, Arc<Sheet>)>,
}

impl<'a> Statements<'a> {
    fn tree(&mut self, new: bool) -> &mut Tree<'a> {
        if new { &mut self.opening } else { &mut self.later }
    }

    /// Inserts a sheet.
    pub fn insert(
        &mut self,
        connection: &'a Connection,
        new: bool,
        id: i64,
        sheet: &Sheet,
    ) -> Result<(), StoreError> {
        let sql = if new {
            "INSERT INTO sheets_opening VALUES (?1, ?2)"
        } else {
            "INSERT INTO sheets_later VALUES (?1, ?2)"
        };
        execute(connection, &mut self.tree(new).one, sql, [(id, sheet)])
    }

    /// Puts a sheet off, to be inserted with all that is.
    pub fn put_off(&mut self, new: bool, id: i64, sheet: &Arc<Sheet>) {
        self.tree(new).rows.push((id, Arc::clone(sheet)));
    }

    /// Inserts what is put off: several sheets a statement, and in the order of their keys, so that
    /// they go to the end of their tree.
    pub fn insert_rest(&mut self, connection: &'a Connection) -> Result<(), StoreError> {
        for new in [true, false] {
            let tree = self.tree(new);
            let mut rows = std::mem::take(&mut tree.rows);
            rows.sort_unstable_by_key(|(id, _)| *id);
            let sql = if new {
                "INSERT INTO sheets_opening VALUES (?1, ?2), (?3, ?4), (?5, ?6), (?7, ?8)"
            } else {
                "INSERT INTO sheets_later VALUES (?1, ?2), (?3, ?4), (?5, ?6), (?7, ?8)"
            };
            let (chunks, rest) = rows.as_chunks::<ROWS>();
            for chunk in chunks {
                let rows = chunk.each_ref().map(|(id, sheet)| (*id, &**sheet));
                execute(connection, &mut tree.some, sql, rows)?;
            }
            for (id, sheet) in rest {
                self.insert(connection, new, *id, sheet)?;
            }
        }
        Ok(())
    }

    /// The record of a key, wherever it stands.
    pub fn load_key(
        &mut self,
        connection: &'a Connection,
        tail: &Tail,
        (slot, hash): (&Slot, KeyHash),
    ) -> Result<Option<IdempotencyRecord>, StoreError> {
        let Some(mut record) = self.find_key(connection, tail, (slot, hash))? else {
            return Ok(None);
        };
        record.effect_digest = match rows::load_trace(connection, record.trace_id)? {
            Some(trace) => rows::load_effect(connection, &trace)?,
            None => tail.effect(record.trace_id),
        };
        Ok(Some(record))
    }

    fn find_key(
        &mut self,
        connection: &'a Connection,
        tail: &Tail,
        (slot, hash): (&Slot, KeyHash),
    ) -> Result<Option<IdempotencyRecord>, StoreError> {
        for number in tail.key(hash) {
            // It may be of this batch.
            self.insert_rest(connection)?;
            if let Some(record) = keys::read(connection, number, (slot, hash))? {
                return Ok(Some(record));
            }
        }
        let finder = match &mut self.key {
            Some(finder) => finder,
            none => none.insert(Finder::new(connection)?),
        };
        for number in finder.numbers(hash)? {
            if let Some(record) = keys::read(connection, number, (slot, hash))? {
                return Ok(Some(record));
            }
        }
        if !tail.has_records() {
            return Ok(None);
        }
        let finder = match &mut self.record {
            Some(finder) => finder,
            none => none.insert(KeyFinder::new(connection)?),
        };
        finder.find(slot)
    }
}

/// Executes a statement that inserts sheets under their keys.
fn execute<'a, const N: usize>(
    connection: &'a Connection,
    statement: &mut Option<CachedStatement<'a>>,
    sql: &str,
    sheets: [(i64, &Sheet); N],
) -> Result<(), StoreError> {
    let statement = match statement {
        Some(statement) => statement,
        none => none.insert(connection.prepare_cached(sql).during(OPERATION)?),
    };
    for (place, (id, sheet)) in sheets.into_iter().enumerate() {
        statement.raw_bind_parameter(2 * place + 1, id).during(OPERATION)?;
        statement.raw_bind_parameter(2 * place + 2, sheet.bytes.as_slice()).during(OPERATION)?;
    }
    statement.raw_execute().during(OPERATION).map(drop)
}
