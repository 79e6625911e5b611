//! Where time and fresh ids come from: the only two things the runtime takes out of thin air.

use std::time::{SystemTime, UNIX_EPOCH};

use windlass_kernel::{Timestamp, Uuid7};

/// Gives the time and fresh ids; tests bring their own.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;
    /// An id that nobody has had before, later than those given before it.
    fn new_id(&self) -> Uuid7;
}

/// The machine's clock and random numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_ms = i64::try_from(since.as_millis()).unwrap_or_default();
        Timestamp::from_unix_ms(unix_ms).unwrap_or(Timestamp::EPOCH)
    }

    fn new_id(&self) -> Uuid7 {
        let bytes = uuid::Uuid::now_v7().into_bytes();
        Uuid7::from_bytes(bytes).unwrap_or_else(|_| {
            // The crate's v7 always has these bits; if it ever had not, the same bytes with them.
            let [t0, t1, t2, t3, t4, t5, rest @ ..] = bytes;
            Uuid7::from_parts(u64::from_be_bytes([0, 0, t0, t1, t2, t3, t4, t5]), rest)
        })
    }
}
