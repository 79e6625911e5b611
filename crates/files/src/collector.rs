//! Collects the first results in the order of their paths, whatever order they come in, in bounded memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The first results.
pub(crate) struct Collector<T> {
    state: Mutex<State<T>>,
    /// Whether later paths are not wanted any more; saves most threads the lock.
    is_full: AtomicBool,
    weight_max: usize,
}

struct State<T> {
    /// By path, each with its weight.
    items: BTreeMap<Vec<u8>, (usize, T)>,
    weight: usize,
}

impl<T> Collector<T> {
    /// Keeps the first results whose weights add up to `weight_max`, and perhaps a part of the last one too much.
    pub(crate) fn new(weight_max: usize) -> Self {
        let state = State { items: BTreeMap::new(), weight: 0 };
        Self { state: Mutex::new(state), is_full: AtomicBool::new(false), weight_max }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a result at `path` could be among the first ones.
    pub(crate) fn wants(&self, path: &[u8]) -> bool {
        if !self.is_full.load(Ordering::Relaxed) {
            return true;
        }
        let state = self.lock();
        state.items.last_key_value().is_none_or(|(last, _)| path < last.as_slice())
    }

    pub(crate) fn add(&self, path: Vec<u8>, weight: usize, item: T) {
        let mut state = self.lock();
        if let Some((weight, _)) = state.items.insert(path, (weight, item)) {
            state.weight -= weight;
        }
        state.weight += weight;
        while let Some(last) = state.items.last_entry() {
            let last_weight = last.get().0;
            if state.weight - last_weight < self.weight_max {
                break;
            }
            state.items.pop_last();
            state.weight -= last_weight;
        }
        // INVARIANT: never false again: what is removed is not needed to be full.
        if state.weight >= self.weight_max {
            self.is_full.store(true, Ordering::Relaxed);
        }
    }

    /// The results in the order of their paths.
    pub(crate) fn finish(self) -> Vec<(Vec<u8>, T)> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.items.into_iter().map(|(path, (_, item))| (path, item)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ones_are_kept_in_any_order() {
        let weights = [3, 1, 2, 5, 1, 1];
        // Every rotation, forwards and backwards.
        for turn in 0..12 {
            let mut order: Vec<usize> = (0..6).collect();
            order.rotate_left(turn % 6);
            if turn >= 6 {
                order.reverse();
            }
            let collector = Collector::new(5);
            for number in order {
                let path = vec![u8::try_from(number).unwrap()];
                if collector.wants(&path) {
                    collector.add(path, weights[number], number);
                }
            }
            let kept: Vec<usize> =
                collector.finish().into_iter().map(|(_, number)| number).collect();
            assert_eq!(kept, [0, 1, 2]);
        }
    }
}
