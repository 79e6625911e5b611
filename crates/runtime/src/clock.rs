//! The source of time and new ids, the only inputs of the runtime that are not passed in.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use windlass_kernel::{Timestamp, Uuid7};

/// Provides the time and new ids; tests use their own implementation.
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Timestamp;
    /// A new unique id, greater than all ids returned before.
    fn new_id(&self) -> Uuid7;
}

/// The system clock and random number generator.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + ahead();
        let unix_ms = i64::try_from(since.as_millis()).unwrap_or_default();
        Timestamp::from_unix_ms(unix_ms).unwrap_or(Timestamp::EPOCH)
    }

    fn new_id(&self) -> Uuid7 {
        let bytes = uuid::Uuid::now_v7().into_bytes();
        Uuid7::from_bytes(bytes).unwrap_or_else(|_| {
            // Unreachable, because `now_v7` sets the version and variant; sets them again if it did not.
            let [t0, t1, t2, t3, t4, t5, rest @ ..] = bytes;
            Uuid7::from_parts(u64::from_be_bytes([0, 0, t0, t1, t2, t3, t4, t5]), rest)
        })
    }
}

/// How far this process is ahead of the machine's clock: always in step with it, outside of tests.
#[cfg(not(feature = "test-clock"))]
const fn ahead() -> Duration {
    Duration::ZERO
}

/// How far this process is ahead of the machine's clock, in milliseconds of `WINDLASS_TEST_CLOCK`.
#[cfg(feature = "test-clock")]
fn ahead() -> Duration {
    let text = std::env::var("WINDLASS_TEST_CLOCK").unwrap_or_default();
    Duration::from_millis(text.parse().unwrap_or_default())
}
