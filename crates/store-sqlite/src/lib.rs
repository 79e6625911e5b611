//! DOCS
mod append;
mod entries;
mod entry_batch;
mod group_commit;
mod key_audit;
mod keys;
mod listing;
mod liveness;
mod lookup;
mod open;
mod replay;
mod scan;
mod sql;
mod store;
mod trace_rows;
mod types;
mod unindexed;
mod write_connection;

pub use open::{FORMAT, SCHEMA, Settings};
pub use store::SqliteStore;
