//! Opens the small SQLite files beside the journal: the work tracker's and the memory's.
//!
//! It knows settings, formats and what goes wrong with a file, and nothing of the tables. The journal is
//! not opened here: its store has rules of its own.

mod open;

use std::time::{SystemTime, UNIX_EPOCH};

pub use open::{DatabaseError, Format, open};
use windlass_kernel::Timestamp;

/// The present time, in milliseconds and UTC.
#[must_use]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let unix_ms = i64::try_from(since.as_millis()).unwrap_or_default();
    Timestamp::from_unix_ms(unix_ms).unwrap_or(Timestamp::EPOCH)
}
