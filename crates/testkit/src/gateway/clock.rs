//! Time and ids that are the same in every run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use windlass_kernel::{Timestamp, Uuid7};
use windlass_runtime::Clock;

use crate::plans::START_MS;

/// A clock that steps whenever it is read, and ids that count.
#[derive(Debug)]
pub struct TestClock {
    start_ms: u64,
    step_ms: u64,
    steps: AtomicU64,
}

impl Default for TestClock {
    /// Begins with the year 2026 and steps by a millisecond.
    fn default() -> Self {
        Self::new(START_MS, 1)
    }
}

impl TestClock {
    /// A clock that begins at `start_ms` and steps by `step_ms`.
    #[must_use]
    pub const fn new(start_ms: u64, step_ms: u64) -> Self {
        Self { start_ms, step_ms, steps: AtomicU64::new(0) }
    }

    /// A clock that goes on where this one stands.
    #[must_use]
    pub fn fork(&self) -> Self {
        let steps = AtomicU64::new(self.steps.load(Ordering::SeqCst));
        Self { steps, ..*self }
    }

    /// Lets time pass.
    pub fn pass(&self, time: Duration) {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.steps.fetch_add(ms / self.step_ms, Ordering::SeqCst);
    }

    fn step(&self) -> (u64, u64) {
        let step = self.steps.fetch_add(1, Ordering::SeqCst);
        (step, self.start_ms + step * self.step_ms)
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let unix_ms = i64::try_from(self.step().1).unwrap_or_default();
        Timestamp::from_unix_ms(unix_ms).unwrap_or(Timestamp::EPOCH)
    }

    fn new_id(&self) -> Uuid7 {
        let (step, unix_ms) = self.step();
        let [a, b, c, d, e, f, g, h] = step.to_be_bytes();
        Uuid7::from_parts(unix_ms, [0, 0, a, b, c, d, e, f, g, h])
    }
}
