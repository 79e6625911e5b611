//! Requests that start a run once: a second one with the same word, such as by a double click, starts nothing.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use windlass_kernel::TraceId;

/// The most words that are remembered; the oldest give way.
const WORDS_MAX: usize = 10_000;

/// The words of the requests that were begun since the server started, and the runs that they started.
#[derive(Debug, Default)]
pub struct Once {
    words: Mutex<VecDeque<(String, TraceId)>>,
}

impl Once {
    /// Starts a run, unless a request with this word does or has done it; returns the run of the word. After a failure it
    /// can be tried again.
    ///
    /// # Errors
    /// Those of the start.
    pub fn run<E>(
        &self,
        word: Option<&str>,
        run: TraceId,
        start: impl FnOnce() -> Result<(), E>,
    ) -> Result<TraceId, E> {
        let Some(word) = word.filter(|word| !word.is_empty()) else {
            return start().map(|()| run);
        };
        if let Some(known) = self.begin(word, run) {
            return Ok(known);
        }
        let done = start();
        if done.is_err() {
            self.words().retain(|(known, _)| known != word);
        }
        done.map(|()| run)
    }

    /// Notes a word, unless it is known; then this is its run.
    fn begin(&self, word: &str, run: TraceId) -> Option<TraceId> {
        let mut words = self.words();
        if let Some((_, run)) = words.iter().find(|(known, _)| known == word) {
            return Some(*run);
        }
        if words.len() == WORDS_MAX {
            words.pop_front();
        }
        words.push_back((word.to_owned(), run));
        None
    }

    fn words(&self) -> std::sync::MutexGuard<'_, VecDeque<(String, TraceId)>> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use windlass_kernel::Uuid7;

    use super::*;

    #[test]
    fn what_has_a_word_is_done_once_unless_it_failed() {
        let once = Once::default();
        let mut count = 0;
        let run = |number| TraceId(Uuid7::from_parts(number, [0; 10]));
        let mut act = |word: Option<&str>, result: Result<(), ()>| {
            let mut own = false;
            let number = count + 1;
            let started = once.run(word, run(number), || {
                own = true;
                result
            });
            count += u64::from(own);
            started
        };
        assert_eq!(act(Some("a"), Err(())), Err(()));
        assert_eq!(act(Some("a"), Ok(())), Ok(run(2)));
        assert_eq!(act(Some("a"), Err(())), Ok(run(2)), "it was not tried");
        assert_eq!(act(None, Ok(())), Ok(run(3)));
        assert_eq!(act(None, Ok(())), Ok(run(4)));
        assert_eq!(act(Some(""), Ok(())), Ok(run(5)));
        assert_eq!(count, 5);
    }
}
