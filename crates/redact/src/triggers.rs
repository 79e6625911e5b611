//! Where the triggers of shapes are in a text.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::shapes::{SHAPES, Shape};

/// From so many bytes on, the automaton is worth the time that it takes to make.
const AUTOMATON_FROM_BYTES: usize = 32 * 1024;

/// A trigger and its shape.
type Trigger = (&'static str, &'static Shape);

/// A trigger in a text.
type Found = (Range<usize>, &'static Shape);

fn all() -> impl Iterator<Item = Trigger> {
    SHAPES.iter().flat_map(|shape| shape.triggers.iter().map(move |trigger| (*trigger, shape)))
}

/// The triggers in a text, by their end, the longest first. An automaton is made only in a process that has much to
/// search.
pub(crate) fn triggers_in(text: &[u8]) -> Vec<Found> {
    static SEARCHED: AtomicUsize = AtomicUsize::new(0);
    let before = SEARCHED.fetch_add(text.len(), Ordering::Relaxed);
    if before.saturating_add(text.len()) < AUTOMATON_FROM_BYTES {
        return by_first_byte(text);
    }
    // It is enough now; the sum must not overflow.
    SEARCHED.store(AUTOMATON_FROM_BYTES, Ordering::Relaxed);
    by_automaton(text)
}

/// Whether a text is a trigger of a shape.
fn is_trigger(text: &[u8], (trigger, shape): Trigger) -> bool {
    match shape.exact {
        true => text == trigger.as_bytes(),
        false => text.eq_ignore_ascii_case(trigger.as_bytes()),
    }
}

fn by_first_byte(text: &[u8]) -> Vec<Found> {
    static BY_FIRST: OnceLock<Vec<(u8, Trigger)>> = OnceLock::new();
    let by_first = BY_FIRST.get_or_init(|| {
        let first = |(trigger, _): &Trigger| trigger.bytes().next().map(|b| b.to_ascii_lowercase());
        let mut by_first: Vec<_> = all().filter_map(|one| Some((first(&one)?, one))).collect();
        by_first.sort_by_key(|(first, _)| *first);
        by_first
    });
    let mut begins = [false; 256];
    for (first, _) in by_first {
        if let Some(begins) = begins.get_mut(usize::from(*first)) {
            *begins = true;
        }
    }
    let mut found = Vec::new();
    for (at, byte) in text.iter().enumerate() {
        let byte = byte.to_ascii_lowercase();
        if begins.get(usize::from(byte)) != Some(&true) {
            continue;
        }
        let from = by_first.partition_point(|(first, _)| *first < byte);
        let same = by_first.iter().skip(from).take_while(|(first, _)| *first == byte);
        for (_, one) in same {
            let place = at..at.saturating_add(one.0.len());
            if text.get(place.clone()).is_some_and(|text| is_trigger(text, *one)) {
                found.push((place, one.1));
            }
        }
    }
    found.sort_by_key(|(place, _)| (place.end, Reverse(place.len())));
    found
}

fn by_automaton(text: &[u8]) -> Vec<Found> {
    static AUTOMATON: OnceLock<Option<(AhoCorasick, Vec<Trigger>)>> = OnceLock::new();
    let automaton = AUTOMATON.get_or_init(|| {
        let triggers: Vec<_> = all().collect();
        let search = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .kind(Some(AhoCorasickKind::DFA))
            .build(triggers.iter().map(|(trigger, _)| trigger));
        Some((search.ok()?, triggers))
    });
    let Some((search, triggers)) = automaton else { return by_first_byte(text) };
    let found = search.find_overlapping_iter(text).filter_map(|found| {
        let trigger = *triggers.get(found.pattern().as_usize())?;
        let is = text.get(found.range()).is_some_and(|text| is_trigger(text, trigger));
        is.then_some((found.range(), trigger.1))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(found: Vec<Found>) -> Vec<(Range<usize>, &'static str)> {
        found.into_iter().map(|(place, shape)| (place, shape.name)).collect()
    }

    #[test]
    fn both_searches_find_every_trigger() {
        for (trigger, shape) in all() {
            let text = format!("x {trigger} y");
            let place = 2..2 + trigger.len();
            for found in [by_first_byte(text.as_bytes()), by_automaton(text.as_bytes())] {
                assert!(names(found).contains(&(place.clone(), shape.name)), "{trigger}");
            }
        }
    }

    proptest! {
        #[test]
        fn both_searches_find_the_same(
            parts in prop::collection::vec((any::<prop::sample::Index>(), "[a-zA-Z0-9_ :=-]{0,6}", any::<bool>()), 0..8),
        ) {
            let triggers: Vec<_> = all().map(|(trigger, _)| trigger).collect();
            let mut text = String::new();
            for (index, between, upper) in parts {
                let trigger = index.get(&triggers);
                text.push_str(&if upper { trigger.to_uppercase() } else { (*trigger).to_owned() });
                text.push_str(&between);
            }
            let text = text.as_bytes();
            prop_assert_eq!(names(by_first_byte(text)), names(by_automaton(text)));
        }
    }
}
