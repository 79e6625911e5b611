//! How much of the model's context a conversation fills, and what is left out when it is too much.

use super::turn::Entry;

/// How full the context may get, and to what it is then brought down, in tenths.
const FULL_TENTHS: u64 = 8;
const TRIMMED_TENTHS: u64 = 6;
/// How many bytes of a request are one token, until the service has counted.
const BYTES_PER_TOKEN: u64 = 4;
/// What stands in place of a result.
const REMOVED: &str = "(this result was removed to make room; make the call again if you need it)";

/// The model's context.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    /// Its size in tokens.
    tokens: u64,
    /// What the service counted last: the tokens, and the bytes of their request.
    counted: Option<(u64, u64)>,
}

/// How strictly results are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trim {
    /// The oldest results, as many as needed; those of the last turns stay.
    Needed,
    /// All but those of the last turn.
    All,
}

impl Context {
    pub(super) const fn new(tokens: u64) -> Self {
        Self { tokens, counted: None }
    }

    /// Takes what the service counted for a request.
    pub(super) const fn count(&mut self, tokens: u64, bytes: u64) {
        if tokens > 0 && bytes > 0 {
            self.counted = Some((tokens, bytes));
        }
    }

    /// The tokens of a request, as far as can be said.
    fn estimate(self, bytes: u64) -> u64 {
        let (tokens, of_bytes) = self.counted.unwrap_or((1, BYTES_PER_TOKEN));
        bytes.saturating_mul(tokens).div_ceil(of_bytes.max(1))
    }

    /// How many bytes of a request are too much; none if it is short enough.
    pub(super) fn excess(self, bytes: u64) -> Option<u64> {
        let tokens = self.estimate(bytes);
        if tokens <= self.tokens.saturating_mul(FULL_TENTHS) / 10 {
            return None;
        }
        let aim = self.tokens.saturating_mul(TRIMMED_TENTHS) / 10;
        let kept = u128::from(bytes) * u128::from(aim) / u128::from(tokens.max(1));
        Some(bytes.saturating_sub(u64::try_from(kept).unwrap_or(bytes)))
    }
}

/// Replaces the oldest results until so many bytes are saved; returns how many are. The brief and the model's own words stay.
pub(super) fn trim(transcript: &mut [Entry], excess: u64, how: Trim) -> u64 {
    let kept = match how {
        Trim::Needed => 3,
        Trim::All => 1,
    };
    let turns = transcript.iter().filter(|entry| matches!(entry, Entry::Results(_))).count();
    let mut saved = 0;
    let results = transcript.iter_mut().filter_map(|entry| match entry {
        Entry::Results(results) => Some(results),
        Entry::User(_) | Entry::Assistant(_) => None,
    });
    for reply in results.take(turns.saturating_sub(kept)).flatten() {
        if saved >= excess && how == Trim::Needed {
            break;
        }
        let spared = reply.text.len().saturating_sub(REMOVED.len());
        if spared > 0 {
            REMOVED.clone_into(&mut reply.text);
            saved = saved.saturating_add(u64::try_from(spared).unwrap_or(u64::MAX));
        }
    }
    saved
}

#[cfg(test)]
mod tests {
    use super::super::turn::{CallReply, Turn};
    use super::*;

    fn transcript(results: usize) -> Vec<Entry> {
        let mut entries = vec![Entry::User("brief".repeat(100))];
        for number in 0..results {
            entries.push(Entry::Assistant(Turn { text: "t".repeat(500), ..Turn::default() }));
            let id = number.to_string();
            let reply = CallReply { id, text: "x".repeat(1000), is_error: false };
            entries.push(Entry::Results(vec![reply]));
        }
        entries
    }

    fn removed(entries: &[Entry]) -> Vec<bool> {
        let results = entries.iter().filter_map(|entry| match entry {
            Entry::Results(results) => Some(results[0].text == REMOVED),
            Entry::User(_) | Entry::Assistant(_) => None,
        });
        results.collect()
    }

    #[test]
    fn the_oldest_results_go_first_and_the_last_stay() {
        let mut entries = transcript(6);
        let saved = trim(&mut entries, 1500, Trim::Needed);
        assert!(saved >= 1500);
        assert_eq!(removed(&entries), [true, true, false, false, false, false]);
        assert_eq!(entries[0], transcript(0)[0]);
        trim(&mut entries, u64::MAX, Trim::Needed);
        assert_eq!(removed(&entries), [true, true, true, false, false, false]);
        trim(&mut entries, 0, Trim::All);
        assert_eq!(removed(&entries), [true, true, true, true, true, false]);
        assert_eq!(trim(&mut entries, u64::MAX, Trim::All), 0);
    }

    #[test]
    fn the_count_of_the_service_outranks_the_estimate() {
        let mut context = Context::new(1000);
        assert_eq!(context.excess(3200), None);
        assert_eq!(context.excess(4000), Some(1600));
        // A token of only one byte.
        context.count(500, 500);
        assert_eq!(context.excess(800), None);
        assert_eq!(context.excess(1000), Some(400));
    }
}
