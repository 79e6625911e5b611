//! SHA-256 digests; their text form is 64 lower-case hex digits.

use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::text_form::text_form;

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// Text that is not 64 lower-case hex digits.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("a digest is 64 lower-case hex digits")]
pub struct DigestError;

impl Digest {
    /// The previous digest of the first entry of a trace: 64 zeros.
    pub const GENESIS: Self = Self([0; 32]);

    /// Hashes `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Creates a digest from its binary form.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The digest in binary form.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The digest as lower-case hex, without allocation.
    #[must_use]
    pub fn hex(&self) -> HexDigest {
        let mut out = [0u8; 64];
        write_hex(&self.0, &mut out);
        HexDigest(out)
    }
}

/// The 64 hex digits of a [`Digest`].
#[derive(Clone, Copy)]
pub struct HexDigest([u8; 64]);

impl HexDigest {
    /// The digits as ASCII bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 64] {
        &self.0
    }

    /// The digits as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// Writes `bytes` as hex into `out`, which must be twice as long.
#[inline]
pub(crate) fn write_hex(bytes: &[u8], out: &mut [u8]) {
    for (pair, byte) in out.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
        *pair = hex_pair(*byte);
    }
}

/// The two digits of a byte.
#[inline]
pub(crate) const fn hex_pair(byte: u8) -> [u8; 2] {
    [digit(byte >> 4), digit(byte & 15)]
}

/// The hex digit of a number below 16. Computed, not looked up, so that the compiler can vectorise it.
const fn digit(number: u8) -> u8 {
    const LETTERS: u8 = b'a' - b'0' - 10;
    b'0' + number + if number > 9 { LETTERS } else { 0 }
}

/// Reads lower-case hex into `out`; `None` if the text is anything else.
pub(crate) fn read_hex(text: &[u8], out: &mut [u8]) -> Option<()> {
    if text.len() != out.len() * 2 {
        return None;
    }
    // An invalid digit sets upper bits; they are checked once, at the end.
    let mut seen = 0;
    for (byte, [high, low]) in out.iter_mut().zip(text.as_chunks::<2>().0) {
        let (high, low) = (nibble(*high), nibble(*low));
        seen |= high | low;
        *byte = (high << 4) | (low & 15);
    }
    (seen & 0xf0 == 0).then_some(())
}

/// The value of each hex digit, and [`NOT_HEX`] for every other byte.
static NIBBLES: [u8; 256] = {
    let mut table = [NOT_HEX; 256];
    let mut value = 0;
    while value < 16 {
        #[expect(clippy::indexing_slicing, reason = "computed at compile time, checked there")]
        {
            table[digit(value) as usize] = value;
        }
        value += 1;
    }
    table
};
const NOT_HEX: u8 = 0xff;

fn nibble(digit: u8) -> u8 {
    NIBBLES.get(usize::from(digit)).copied().unwrap_or(NOT_HEX)
}

impl Digest {
    /// Parses the text form.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, DigestError> {
        let mut bytes = [0; 32];
        read_hex(text, &mut bytes).ok_or(DigestError)?;
        Ok(Self(bytes))
    }
}

text_form! {
    Digest, DigestError, |digest| digest.hex().0,
    "SHA-256 as lower-case hex.",
    "^[0-9a-f]{64}$"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_digest() {
        assert_eq!(
            Digest::of(b"abc").to_string(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn every_byte_is_written_as_by_the_general_formatter() {
        for byte in 0..=u8::MAX {
            assert_eq!(hex_pair(byte), *format!("{byte:02x}").as_bytes());
        }
    }

    #[test]
    fn only_lower_case_hex_is_read() {
        let hex = Digest::of(b"abc").to_string();
        assert_eq!(hex.parse(), Ok(Digest::of(b"abc")));
        assert_eq!(hex.to_uppercase().parse::<Digest>(), Err(DigestError));
        assert_eq!(hex.replace('b', "g").parse::<Digest>(), Err(DigestError));
        assert_eq!(format!("{hex}0").parse::<Digest>(), Err(DigestError));
        assert_eq!("".parse::<Digest>(), Err(DigestError));
    }
}
