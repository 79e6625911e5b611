//! Keeps a credential out of what a client sees.

use zeroize::Zeroizing;

/// Replaces secrets in a stream by asterisks. Only bytes that may be the beginning of a secret are
/// held back, so that events pass as they come.
pub(crate) struct Scrubber {
    secrets: Vec<Zeroizing<Vec<u8>>>,
    held: Vec<u8>,
}

impl Scrubber {
    pub(crate) fn new<'a>(secrets: impl Iterator<Item = &'a str>) -> Self {
        let secrets = secrets.map(|secret| Zeroizing::new(secret.as_bytes().to_vec())).collect();
        Self { secrets, held: Vec::new() }
    }

    /// Whether these bytes contain a secret.
    pub(crate) fn finds(&self, bytes: &[u8]) -> bool {
        self.secrets.iter().any(|secret| bytes.windows(secret.len()).any(|part| part == **secret))
    }

    /// Takes bytes, and returns those that can be passed on.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        for secret in &self.secrets {
            let mut from = 0;
            while let Some(at) = position(self.held.get(from..).unwrap_or_default(), secret) {
                let end = from + at + secret.len();
                if let Some(found) = self.held.get_mut(from + at..end) {
                    found.fill(b'*');
                }
                from = end;
            }
        }
        let kept = self.secrets.iter().map(|secret| overlap(&self.held, secret)).max();
        let ready = self.held.len() - kept.unwrap_or(0);
        let rest = self.held.split_off(ready);
        std::mem::replace(&mut self.held, rest)
    }

    /// The bytes that were held back.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

fn position(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// How many of the last bytes are the beginning of `secret`.
fn overlap(bytes: &[u8], secret: &[u8]) -> usize {
    let longest = bytes.len().min(secret.len().saturating_sub(1));
    let is_begun = |count: &usize| secret.get(..*count).is_some_and(|begun| bytes.ends_with(begun));
    (1..=longest).rev().find(is_begun).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_secret_is_replaced_wherever_the_stream_is_cut() {
        let text = b"key: sesame-12345, again sesame-12345sesame-1234";
        for cut in 0..text.len() {
            let mut scrubber = Scrubber::new(["sesame-12345"].into_iter());
            let mut shown = scrubber.push(&text[..cut]);
            shown.extend(scrubber.push(&text[cut..]));
            shown.extend(scrubber.finish());
            assert_eq!(shown, b"key: ************, again ************sesame-1234", "{cut}");
        }
    }

    #[test]
    fn what_cannot_become_a_secret_passes_at_once() {
        let mut scrubber = Scrubber::new(["Bearer abc", "abc"].into_iter());
        assert_eq!(scrubber.push(b"data: 1\n\n"), b"data: 1\n\n");
        assert_eq!(scrubber.push(b"data: ab"), b"data: ");
        assert_eq!(scrubber.push(b"\n\n"), b"ab\n\n");
        assert_eq!(scrubber.push(b"Bearer abc!"), b"**********!");
        assert!(scrubber.finds(b"x abc"));
        assert!(!scrubber.finds(b"ab c"));
    }

    proptest! {
        #[test]
        fn no_secret_passes(pieces in prop::collection::vec("[ab]{0,4}", 0..12)) {
            let mut scrubber = Scrubber::new(["abba", "ba"].into_iter());
            let mut shown: Vec<u8> = pieces.iter().flat_map(|piece| scrubber.push(piece.as_bytes())).collect();
            shown.extend(scrubber.finish());
            prop_assert_eq!(shown.len(), pieces.concat().len());
            prop_assert!(!scrubber.finds(&shown));
        }
    }
}
