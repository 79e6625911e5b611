//! Text without its escapes, and where each of its bytes comes from.
//!
//! What a byte becomes depends on a few bytes next to it, so that a text can be cut anywhere before it.

use std::ops::Range;

/// The most backslashes between the two halves of an escaped character.
const BACKSLASHES_MAX: usize = 4;
/// The most bytes between `&` and `;`: `&#x00000073;`.
const ENTITY_BYTES_MAX: usize = 10;

/// Text whose escapes are decoded and whose other backslashes are left out.
pub(crate) struct Decoded {
    pub bytes: Vec<u8>,
    /// For each byte, where its source begins.
    starts: Vec<usize>,
}

impl Decoded {
    /// Decodes `%73`, `\x73`, `\u0073`, `\163`, `&#115;` and the like.
    pub fn new(text: &[u8]) -> Self {
        let mut decoded =
            Self { bytes: Vec::with_capacity(text.len()), starts: Vec::with_capacity(text.len()) };
        let mut at = 0;
        while let Some(byte) = text.get(at) {
            match escape(text, at) {
                Some((char, length)) => {
                    char.for_each_byte(|byte| decoded.push(byte, at));
                    at += length;
                }
                None => {
                    if *byte != b'\\' {
                        decoded.push(*byte, at);
                    }
                    at += 1;
                }
            }
        }
        decoded
    }

    fn push(&mut self, byte: u8, start: usize) {
        self.bytes.push(byte);
        self.starts.push(start);
    }

    /// Leaves out blanks, line ends and colons, which can stand between digits.
    pub fn compact(self) -> Self {
        let kept = |byte: u8| !byte.is_ascii_whitespace() && byte != b':';
        let pairs = self.bytes.into_iter().zip(self.starts).filter(|(byte, _)| kept(*byte));
        let (bytes, starts) = pairs.unzip();
        Self { bytes, starts }
    }

    /// The place in `text`, from which this was decoded, that these bytes come from.
    pub fn source(&self, text: &[u8], found: Range<usize>) -> Option<Range<usize>> {
        let start = *self.starts.get(found.start)?;
        let last = *self.starts.get(found.end.checked_sub(1)?)?;
        let length = escape(text, last).map_or(1, |(_, length)| length);
        Some(start..last + length)
    }
}

/// Whether a text has anything to decode.
pub(crate) fn has_escapes(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b'%' | b'\\' | b'&'))
}

/// What an escape stands for.
#[derive(Clone, Copy)]
enum Escaped {
    Byte(u8),
    Char(char),
}

impl Escaped {
    fn for_each_byte(self, mut take: impl FnMut(u8)) {
        match self {
            Self::Byte(byte) => take(byte),
            Self::Char(char) => char.encode_utf8(&mut [0; 4]).bytes().for_each(take),
        }
    }
}

/// The escape that begins at `at`, and its length.
fn escape(text: &[u8], at: usize) -> Option<(Escaped, usize)> {
    let byte =
        |at, digits, radix| u8::try_from(number(text, at, digits, radix)?).ok().map(Escaped::Byte);
    if text.get(at) == Some(&b'%') {
        return Some((byte(at + 1, 2, 16)?, 3));
    }
    if text.get(at) == Some(&b'&') {
        return entity(text, at);
    }
    if text.get(at) != Some(&b'\\') {
        return None;
    }
    let plain = |byte| Some((Escaped::Byte(byte), 2));
    match text.get(at + 1)? {
        b'x' => Some((byte(at + 2, 2, 16)?, 4)),
        b'u' => character(text, at),
        b'0'..=b'3' => Some((byte(at + 1, 3, 8)?, 4)),
        b'n' => plain(b'\n'),
        b'r' => plain(b'\r'),
        b't' => plain(b'\t'),
        b'b' => plain(8),
        b'f' => plain(12),
        _ => None,
    }
}

/// The character of `&#115;`, `&#x73;` or `&amp;`.
fn entity(text: &[u8], at: usize) -> Option<(Escaped, usize)> {
    let rest = text.get(at + 1..)?;
    let end = rest.iter().take(ENTITY_BYTES_MAX + 1).position(|byte| *byte == b';')?;
    let numbered = |digits: &[u8], radix| match digits {
        [] => None,
        digits => char::from_u32(number(digits, 0, digits.len(), radix)?),
    };
    let char = match rest.get(..end)? {
        b"amp" => '&',
        b"lt" => '<',
        b"gt" => '>',
        b"quot" => '"',
        b"apos" => '\'',
        [b'#', b'x' | b'X', digits @ ..] => numbered(digits, 16)?,
        [b'#', digits @ ..] => numbered(digits, 10)?,
        _ => return None,
    };
    Some((Escaped::Char(char), end + 2))
}

/// The character of `\u0073`, or of two such escapes that are one character.
fn character(text: &[u8], at: usize) -> Option<(Escaped, usize)> {
    let unit = number(text, at + 2, 4, 16)?;
    if let Some(char) = char::from_u32(unit) {
        return Some((Escaped::Char(char), 6));
    }
    let rest = text.get(at + 6..)?;
    let slashes = rest.iter().take(BACKSLASHES_MAX).take_while(|byte| **byte == b'\\').count();
    let low_at = at + 6 + slashes;
    (slashes > 0 && text.get(low_at) == Some(&b'u')).then_some(())?;
    let pair = [u16::try_from(unit).ok()?, u16::try_from(number(text, low_at + 1, 4, 16)?).ok()?];
    let char = char::decode_utf16(pair).next()?.ok()?;
    Some((Escaped::Char(char), low_at + 5 - at))
}

/// The number that so many digits at `at` are.
fn number(text: &[u8], at: usize, digits: usize, radix: u32) -> Option<u32> {
    let digits = text.get(at..at.checked_add(digits)?)?;
    digits.iter().try_fold(0, |number: u32, digit| {
        Some(number.checked_mul(radix)? + char::from(*digit).to_digit(radix)?)
    })
}
