//! Random secrets, of which only digests are stored.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use subtle::ConstantTimeEq as _;
use windlass_kernel::Digest;
use zeroize::Zeroizing;

/// The number of random bytes.
const BYTES: usize = 32;

/// A token, or the value of a cookie or link.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Makes a new one.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new() -> Result<Self, getrandom::Error> {
        let mut bytes = Zeroizing::new([0_u8; BYTES]);
        getrandom::fill(bytes.as_mut())?;
        Ok(Self(Zeroizing::new(BASE64_URL_SAFE_NO_PAD.encode(bytes.as_ref()))))
    }

    /// The text, to show or send once.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// What is stored of it.
    #[must_use]
    pub fn digest(&self) -> Digest {
        digest_of(&self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The digest of a secret that somebody shows.
pub(super) fn digest_of(shown: &str) -> Digest {
    Digest::of(shown.as_bytes())
}

/// Compares two digests in a time that does not depend on them.
pub(super) fn is_same(one: &Digest, other: &Digest) -> bool {
    one.hex().as_str().as_bytes().ct_eq(other.hex().as_str().as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_are_long_and_not_shown() {
        let (one, other) = (Secret::new().unwrap(), Secret::new().unwrap());
        assert_ne!(one.text(), other.text());
        assert_eq!(one.text().len(), 43);
        assert!(is_same(&one.digest(), &digest_of(one.text())));
        assert!(!is_same(&one.digest(), &other.digest()));
        assert!(!format!("{one:?}").contains(one.text()));
    }
}
