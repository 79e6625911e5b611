//! The store on one machine: one SQLite file with a write-ahead log and full sync, one writer at a time,
//! group commit, and leases whose holders are known to be alive by an OS file lock. It contains no
//! transition rule: the kernel and the shared rules of the store crate decide.
//!
//! ```text
//!   append ──▶ GroupCommit ──▶ WriteTransaction: check, insert one row, COMMIT (one sync)
//!                                   │
//!          ┌────────────────────────┴───────────┐
//!          ▼ first append of a trace            ▼ its later appends
//!   first_batches (id, entries)          later_batches (id, entries)      unindexed: known only
//!          └──────────────────┬─────────────────┘                         by their entries
//!                             │ index: many traces in one transaction
//!          ┌──────────────────┼──────────────────────┐
//!          ▼                  ▼                      ▼
//!   traces (trace_id,    keys (hash,           indexed (upto)             indexed: head, lease and
//!   number, head, lease) trace_number)                                    keys have rows
//! ```
//!
//! **A row.** One append is one row, an entry batch: its entries one after the other, each with the
//! canonical bytes of its artifact (`entry_batch`). The id of the row is that of its first entry,
//! `trace_number << 24 | sequence_number`. The store numbers traces in the order in which they are created.
//! Beside the fields of the entry, which its digest covers, a batch has fields that no digest covers, but a
//! checksum: plan and holder with the first entry of a trace, a mark where an append released the lease, and
//! the reservation of an idempotency key with the entry that reserves it.
//!
//! **From appended to indexed.** A new trace is *unindexed*: its entries are durable, its state follows
//! from them (`replay`), and the writer has it in memory (`unindexed`). To *index* a trace is to write its
//! row in `traces` and its rows in `keys`. That happens to the older half when 256 traces are unindexed,
//! to a trace with more than 8 entries, to all before anything but an append changes an unindexed trace,
//! to all when another process writes too and more than 16 are unindexed, and to all when the store is
//! closed. Then the number in `indexed` grows. An append to an indexed trace inserts its batch and updates
//! its rows in the same transaction.
//!
//! **Lookup.** A reader looks in the tables first; then at the number under which this process knows the
//! trace or key, if that is above `indexed`; then at all traces with numbers that this process does not
//! know, which another process has created. All of this in one snapshot, which begins after the memory was
//! read. The writer begins each transaction with `PRAGMA data_version` and reads the unindexed traces again
//! if another process has written.
//!
//! **The head file.** Every write adds one to the position of the store (`progress`), which is written to a
//! file beside the database after each commit, without a sync (`head_file`). A database that is behind that
//! file has lost commits and is refused. After a power failure the file can be older than the database, torn,
//! empty or missing, and then says less or nothing; it is never ahead, because a commit is synced
//! (`synchronous = FULL`) before its position is written, and the one commit that is not synced, the index
//! that `close` writes, does not change the position.
//!
//! **The log.** It is checkpointed when it is long, and by whoever opens the store after one that left it long. The first
//! process to open a store reads all of the log, so that a process which closes the store and lives for longer than a
//! moment leaves at most 64 pages in it, unless somebody else reads them.
//!
//! **Counts.** Triggers keep the number of indexed traces in each state, and of their entries, in the transaction
//! that changes a trace (`counts.sql`), so that `count` does not read them all. No decision depends on it.
//!
//! **Damage.** A row that cannot be trusted is an error for every reader: rows of `traces`, `indexed` and
//! `replay_points` and the fields beside entries have checksums, dispatches are bound by a digest in the row
//! of their trace, and keys are looked up in the entries. `audit` and `key_audit` find the rest.
//!
//! **Invariants.**
//! - Rows of entries, keys and dispatches are inserted and never changed; triggers refuse the rest.
//! - What the store reports as done is durable; what it refuses has left nothing.
//! - Trace numbers only grow. Up to `indexed.upto` every trace has its rows; above it, none has to.
//! - An unindexed trace has its first holder and fence 1: whoever takes it over indexes it first.
//! - `traces` has the head of a trace apart from its entries, so that a cut-off end shows. An unindexed
//!   trace has no such head: the process that wrote it notices, and later the head file shows it.
//! - The position never shrinks, and the head file is never ahead of the database.
//! - Nothing is committed to a file that is not at its path any more (`files`), and no holder is taken for dead
//!   whose lock file is missing (`liveness`).
//! - A key is free only if neither `keys` nor an unindexed entry has it. A row in `keys` whose record cannot
//!   be read is an error, never a free key.
//! - Whether an id is in use is decided inside the transaction that writes it.

mod append;
mod audit;
mod entries;
mod entry_batch;
mod files;
mod group_commit;
mod head_file;
mod key_audit;
mod keys;
mod listing;
mod liveness;
mod long_log;
mod lookup;
mod open;
#[cfg(test)]
mod plans;
mod progress;
mod redispatches;
mod replay;
mod scan;
mod sql;
mod store;
mod trace_rows;
mod turns;
mod types;
mod unindexed;
mod write_connection;

pub use long_log::{LOG_BYTES_MAX, held_log};
pub use open::{FORMAT, Life, SCHEMA, Settings, seal_copy};
pub use store::SqliteStore;
