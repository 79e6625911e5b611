//! Time and ids that are the same in every run.

use std::sync::atomic::{AtomicU64, Ordering};

use windlass_kernel::{Timestamp, Uuid7};
use windlass_runtime::Clock;

/// 2026-01-01T00:00:00Z.
const START_MS: u64 = 1_767_225_600_000;

/// A clock that steps by a millisecond whenever it is read, and ids that count.
#[derive(Debug, Default)]
pub struct TestClock(AtomicU64);

impl TestClock {
    /// A clock that goes on where this one stands.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self(AtomicU64::new(self.0.load(Ordering::SeqCst)))
    }

    fn step(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let unix_ms = i64::try_from(START_MS + self.step()).unwrap_or_default();
        Timestamp::from_unix_ms(unix_ms).unwrap_or(Timestamp::EPOCH)
    }

    fn new_id(&self) -> Uuid7 {
        let step = self.step();
        let [a, b, c, d, e, f, g, h] = step.to_be_bytes();
        Uuid7::from_parts(START_MS + step, [0, 0, a, b, c, d, e, f, g, h])
    }
}
