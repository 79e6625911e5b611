//! A statement that is run for many rows.

use rusqlite::types::Null;
use rusqlite::{CachedStatement, Connection, ToSql};

/// A statement whose parameters keep their values from one row to the next: what does not change, or
/// is null as it was at first, need not be bound again.
pub struct Bound<'a> {
    statement: CachedStatement<'a>,
    /// A bit for each optional parameter that is not null.
    set: u32,
}

impl<'a> Bound<'a> {
    /// Prepares a statement; all its parameters, of which there may be 31, are null.
    pub fn new(connection: &'a Connection, sql: &str) -> rusqlite::Result<Self> {
        Ok(Self { statement: connection.prepare_cached(sql)?, set: 0 })
    }

    /// Binds a parameter.
    pub fn bind(&mut self, index: usize, value: impl ToSql) -> rusqlite::Result<()> {
        self.statement.raw_bind_parameter(index, value)
    }

    /// Binds a parameter, or makes it null if it is not.
    pub fn bind_optional(
        &mut self,
        index: usize,
        value: Option<impl ToSql>,
    ) -> rusqlite::Result<()> {
        let bit = 1_u32 << index;
        match value {
            Some(value) => {
                self.set |= bit;
                self.bind(index, value)
            }
            None if self.set & bit != 0 => {
                self.set &= !bit;
                self.bind(index, Null)
            }
            None => Ok(()),
        }
    }

    /// Runs it with the parameters as they are.
    pub fn run(&mut self) -> rusqlite::Result<()> {
        self.statement.raw_execute().map(drop)
    }
}
