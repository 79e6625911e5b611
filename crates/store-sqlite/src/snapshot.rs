//! The snapshot that the writing connection keeps between two commits.
//!
//! SQLite refuses to write from a snapshot that is not the newest. So while one is kept, a commit of
//! somebody else cannot go unnoticed, and an append needs nothing but its one row: no transaction
//! around it, no look at what has changed, and two of the six locks that SQLite would take.
//!
//! The log cannot be folded beyond a snapshot that is kept, so it is kept for a moment only.

use rusqlite::{Connection, DEFAULT_NAME, TransactionState};
use windlass_store::StoreError;

use crate::error::During;

/// A row is there, so that the statement stands at it.
const STAND: &str = "SELECT one FROM filed";

/// Keeps the snapshot of the transaction that is being made, beyond its end.
pub fn keep(connection: &Connection) -> Result<(), StoreError> {
    let operation = "keep a snapshot";
    let mut statement = connection.prepare_cached(STAND).during(operation)?;
    let mut rows = statement.raw_query();
    rows.next().during(operation)?;
    // A statement that is not reset goes on reading. It lies with the other compiled statements.
    std::mem::forget(rows);
    Ok(())
}

/// Whether one is kept, and no transaction is being made.
pub fn is_kept(connection: &Connection) -> bool {
    connection.is_autocommit()
        && matches!(connection.transaction_state(DEFAULT_NAME), Ok(TransactionState::Read))
}

/// Gives it up.
pub fn give_up(connection: &Connection) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(STAND).during("give up a snapshot")?;
    // Rows that are dropped reset their statement.
    drop(statement.raw_query());
    Ok(())
}
