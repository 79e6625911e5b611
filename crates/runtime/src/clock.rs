//! The source of time and new ids, the only inputs of the runtime that are not passed in.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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
        let bytes = id_at(SystemTime::now()).into_bytes();
        Uuid7::from_bytes(bytes).unwrap_or_else(|_| {
            // Unreachable, because `now_v7` sets the version and variant; sets them again if it did not.
            let [t0, t1, t2, t3, t4, t5, rest @ ..] = bytes;
            Uuid7::from_parts(u64::from_be_bytes([0, 0, t0, t1, t2, t3, t4, t5]), rest)
        })
    }
}

/// A new id at a time. An id has no room for times before 1970: ids of a machine whose clock is wrong by so much are
/// in order within one process only.
fn id_at(now: SystemTime) -> uuid::Uuid {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    if now.duration_since(UNIX_EPOCH).is_ok() {
        return uuid::Uuid::now_v7();
    }
    let second = NEXT.fetch_add(1, Ordering::Relaxed);
    uuid::Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, second, 0))
}

/// The time of the system clock when it was started, and what has passed since by a clock that nobody sets. The
/// working time of a run is measured with it. Time in which the machine sleeps does not pass.
#[derive(Clone, Copy, Debug)]
pub struct SteadyClock {
    start: Timestamp,
    since: Instant,
}

impl SteadyClock {
    /// Starts at the time of the system clock.
    #[must_use]
    pub fn start() -> Self {
        Self::start_at(SystemClock.now())
    }

    fn start_at(start: Timestamp) -> Self {
        Self { start, since: Instant::now() }
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.since.elapsed().as_millis()).unwrap_or(i64::MAX);
        let unix_ms = self.start.unix_ms().saturating_add(passed);
        Timestamp::from_unix_ms(unix_ms).unwrap_or(self.start)
    }

    fn new_id(&self) -> Uuid7 {
        SystemClock.new_id()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_before_1970_are_new_and_in_order() {
        let before = UNIX_EPOCH - Duration::from_secs(3600);
        let ids: Vec<_> = (0..100).map(|_| id_at(before)).collect();
        assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
        assert!(ids.iter().all(|id| Uuid7::from_bytes(*id.as_bytes()).is_ok()));
    }

    #[test]
    fn a_steady_clock_does_not_follow_the_system_clock() {
        let clock = SteadyClock::start_at(Timestamp::EPOCH);
        let first = clock.now();
        std::thread::sleep(Duration::from_millis(20));
        let passed = clock.now().unix_ms() - first.unix_ms();
        assert!((20..60_000).contains(&passed), "{passed}");
        assert!(clock.now().unix_ms() < 120_000);
        let now = SystemClock.now().unix_ms();
        assert!((SteadyClock::start().now().unix_ms() - now).abs() < 60_000);
    }
}
