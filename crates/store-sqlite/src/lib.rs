//! The store on one machine: SQLite with a write-ahead log and full sync, one writer at a time,
//! group commit, leases whose holders are known alive by an OS file lock.
//!
//! No transition rule lives here: the kernel and the store crate's shared checks decide.

mod append;
mod books;
mod error;
mod filing;
mod find;
mod fold;
mod holder;
mod keys;
mod lines;
mod open;
mod reserved;
mod rows;
mod scan;
mod sheet;
mod snapshot;
mod statements;
mod store;
mod tail;
mod takeover;
mod writer;

pub use open::{MIGRATIONS, Settings, format_version};
pub use store::SqliteStore;
