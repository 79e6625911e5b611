//! New ids: a prefix, and a few random characters.

use crate::WorkError;

/// The prefix of ids unless another is set.
pub const DEFAULT_PREFIX: &str = "ws";
/// The longest prefix.
const PREFIX_BYTES_MAX: usize = 16;
const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// What all ids of a tracker begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix(String);

impl Default for Prefix {
    fn default() -> Self {
        Self(DEFAULT_PREFIX.to_owned())
    }
}

impl std::str::FromStr for Prefix {
    type Err = WorkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let valid = (1..=PREFIX_BYTES_MAX).contains(&text.len())
            && text.bytes().all(plain)
            && text.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
            && !text.ends_with('-');
        if valid {
            return Ok(Self(text.to_owned()));
        }
        Err(WorkError::invalid(format!(
            "a prefix of ids has 1 to {PREFIX_BYTES_MAX} lower-case letters, digits and hyphens"
        )))
    }
}

impl Prefix {
    /// An id with so many random characters.
    pub(crate) fn new_id(&self, characters: usize) -> Result<String, WorkError> {
        let mut id = format!("{}-", self.0);
        while id.len() < self.0.len() + 1 + characters {
            let mut bytes = [0; 16];
            getrandom::fill(&mut bytes).map_err(|error| {
                WorkError::unavailable(format!("there are no random numbers: {error}"))
            })?;
            // From 252 on the digits would not be equally frequent.
            let digits = bytes.iter().filter(|byte| **byte < 252);
            let digits = digits.filter_map(|byte| DIGITS.get(usize::from(byte % 36)));
            let room = (self.0.len() + 1 + characters).saturating_sub(id.len());
            id.extend(digits.take(room).map(|digit| char::from(*digit)));
        }
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_have_the_prefix_and_differ() {
        let prefix: Prefix = "my-app".parse().unwrap();
        let ids: BTreeSet<_> = (0..200).map(|_| prefix.new_id(8).unwrap()).collect();
        assert_eq!(ids.len(), 200);
        for id in &ids {
            assert_eq!(id.len(), "my-app-".len() + 8);
            assert!(id.starts_with("my-app-") && crate::limits::is_id(id), "{id}");
        }
        assert_eq!(Prefix::default().new_id(4).unwrap().len(), 7);
    }

    #[test]
    fn other_prefixes_are_refused() {
        for text in ["", "-a", "a-", "A", "a b", "1a", "é", "abcdefghijklmnopq"] {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
    }
}
