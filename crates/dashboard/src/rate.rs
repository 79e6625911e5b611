//! How many requests somebody may send: so many at once, then so many a second.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// How many keys are remembered; if there are more, those that are full again are forgotten.
const KEYS_MAX: usize = 4096;

/// A limit for each key.
#[derive(Debug)]
pub struct Rate<K> {
    at_once: f64,
    per_second: f64,
    buckets: Mutex<HashMap<K, (f64, Instant)>>,
}

impl<K: Eq + Hash> Rate<K> {
    /// A limit of `at_once` requests, to which `per_second` are added.
    #[must_use]
    pub fn new(at_once: u32, per_second: u32) -> Self {
        let (at_once, per_second) = (f64::from(at_once), f64::from(per_second));
        Self { at_once, per_second, buckets: Mutex::default() }
    }

    /// Takes one request; whether there was one left.
    pub fn take(&self, key: K, now: Instant) -> bool {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= KEYS_MAX && !buckets.contains_key(&key) {
            buckets.retain(|_, (left, since)| self.left(*left, *since, now) < self.at_once);
            if buckets.len() >= KEYS_MAX {
                return false;
            }
        }
        let (left, since) = buckets.entry(key).or_insert((self.at_once, now));
        let filled = self.left(*left, *since, now);
        *since = now;
        *left = if filled >= 1.0 { filled - 1.0 } else { filled };
        filled >= 1.0
    }

    fn left(&self, left: f64, since: Instant, now: Instant) -> f64 {
        let seconds = now.saturating_duration_since(since).as_secs_f64();
        self.per_second.mul_add(seconds, left).min(self.at_once)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_key_gets_so_many_at_once_and_then_so_many_a_second() {
        let rate = Rate::new(3, 2);
        let start = Instant::now();
        let taken = (0..5).filter(|_| rate.take("a", start)).count();
        assert_eq!(taken, 3);
        assert!(rate.take("b", start), "another key has its own");
        assert!(!rate.take("a", start + Duration::from_millis(400)));
        assert!(rate.take("a", start + Duration::from_secs(1)));
        let later = start + Duration::from_secs(3600);
        assert_eq!((0..9).filter(|_| rate.take("a", later)).count(), 3, "it does not grow");
    }

    #[test]
    fn keys_that_are_full_again_are_forgotten() {
        let rate = Rate::new(1, 1);
        let start = Instant::now();
        for key in 0..KEYS_MAX {
            assert!(rate.take(key, start));
        }
        assert!(!rate.take(KEYS_MAX, start), "all are in use");
        assert!(rate.take(KEYS_MAX, start + Duration::from_secs(2)));
    }
}
