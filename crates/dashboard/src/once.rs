//! Requests that start something once: a second one with the same word, such as by a double click, starts nothing.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The most words that are remembered; the oldest give way.
const WORDS_MAX: usize = 10_000;

/// The words of the requests that were begun since the server started.
#[derive(Debug, Default)]
pub struct Once {
    words: Mutex<VecDeque<String>>,
}

impl Once {
    /// Does something, unless a request with this word does or has done it. After a failure it can be tried again.
    ///
    /// # Errors
    /// Those of what is done.
    pub fn run<E>(&self, word: Option<&str>, act: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let Some(word) = word.filter(|word| !word.is_empty()) else { return act() };
        if !self.begin(word) {
            return Ok(());
        }
        let done = act();
        if done.is_err() {
            self.words().retain(|known| known != word);
        }
        done
    }

    fn begin(&self, word: &str) -> bool {
        let mut words = self.words();
        if words.iter().any(|known| known == word) {
            return false;
        }
        if words.len() == WORDS_MAX {
            words.pop_front();
        }
        words.push_back(word.to_owned());
        true
    }

    fn words(&self) -> std::sync::MutexGuard<'_, VecDeque<String>> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_word_is_done_once_unless_it_failed() {
        let once = Once::default();
        let mut count = 0;
        let mut act = |word: Option<&str>, result: Result<(), ()>| {
            once.run(word, || {
                count += 1;
                result
            })
        };
        assert_eq!(act(Some("a"), Err(())), Err(()));
        assert_eq!(act(Some("a"), Ok(())), Ok(()));
        assert_eq!(act(Some("a"), Err(())), Ok(()), "it was not tried");
        assert_eq!(
            (act(None, Ok(())), act(None, Ok(())), act(Some(""), Ok(()))),
            (Ok(()), Ok(()), Ok(()))
        );
        assert_eq!(count, 5);
    }
}
