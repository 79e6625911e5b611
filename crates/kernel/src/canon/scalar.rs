//! Writes numbers and strings of canonical JSON.

/// Writes a number in decimal digits.
pub(crate) fn write_number(number: u64, out: &mut Vec<u8>) {
    let start = out.len();
    let mut left = number;
    loop {
        out.push(b'0' + u8::try_from(left % 10).unwrap_or_default());
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if let Some(digits) = out.get_mut(start..) {
        digits.reverse();
    }
}

/// Whether a byte must be escaped in a string.
pub(super) const fn is_escaped(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Returns the number of leading bytes that need no escape in a string.
#[inline]
pub(crate) fn plain_length(text: &[u8]) -> usize {
    let (words, rest) = text.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let escaped = escaped_in(u64::from_le_bytes(*word));
        if escaped != 0 {
            return index * 8 + escaped.trailing_zeros() as usize / 8;
        }
    }
    match text.last_chunk() {
        // The last eight bytes overlap with bytes that are already known to need no escape.
        Some(word) => match escaped_in(u64::from_le_bytes(*word)) {
            0 => text.len(),
            escaped => text.len() - 8 + escaped.trailing_zeros() as usize / 8,
        },
        None => rest.iter().position(|byte| is_escaped(*byte)).unwrap_or(rest.len()),
    }
}

/// Sets the upper bit of the lowest of eight bytes that must be escaped; higher bytes may be wrong.
///
/// Subtracting a larger number makes a byte wrap around, which sets its upper bit; bytes whose upper
/// bit was set before are masked out. Only the borrow of a byte that wrapped can change the next byte.
/// Neither a quote nor a backslash has the upper bit, so the XOR with them preserves it.
const fn escaped_in(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let below = word.wrapping_sub(ONES * 0x20);
    let quotes = (word ^ (ONES * b'"' as u64)).wrapping_sub(ONES);
    let backslashes = (word ^ (ONES * b'\\' as u64)).wrapping_sub(ONES);
    (below | quotes | backslashes) & !word & (ONES << 7)
}

/// Writes a JSON string as RFC 8785 requires: with the minimum of escapes.
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    out.reserve(rest.len() + 2);
    out.push(b'"');
    loop {
        let (plain, tail) = rest.split_at(plain_length(rest));
        out.extend_from_slice(plain);
        let Some((byte, tail)) = tail.split_first() else { break };
        write_escape(*byte, out);
        rest = tail;
    }
    out.push(b'"');
}

/// Returns the number of bytes that [`write_string`] writes.
pub(super) fn string_length(text: &str) -> usize {
    let escape = |byte: &u8| match byte {
        b'"' | b'\\' | 0x08 | 0x09 | 0x0a | 0x0c | 0x0d => 1,
        0..0x20 => 5,
        _ => 0,
    };
    let (_, rest) = text.as_bytes().split_at(plain_length(text.as_bytes()));
    text.len() + 2 + rest.iter().map(escape).sum::<usize>()
}

fn write_escape(byte: u8, out: &mut Vec<u8>) {
    let letter = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x09 => b't',
        0x0a => b'n',
        0x0c => b'f',
        0x0d => b'r',
        _ => {
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&crate::digest::hex_pair(byte));
            return;
        }
    };
    out.extend_from_slice(&[b'\\', letter]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_plain_prefix_ends_at_the_first_byte_that_needs_an_escape() {
        for plain in [b' ', b'!', b'#', b'[', b']', b'x', 0x7f, 0x80, 0xa2, 0xdc, 0xff] {
            for length in 0..40 {
                let run = vec![plain; length];
                assert_eq!(plain_length(&run), length);
                for end in (0..0x20).chain([b'"', b'\\']) {
                    let text = [&run[..], &[end], b"\"\x00\\ more and more of it"].concat();
                    assert_eq!(plain_length(&text), length, "{plain:#x} {end:#x}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn scanning_eight_bytes_at_a_time_equals_scanning_one_by_one(bytes: Vec<u8>) {
            let first = bytes.iter().position(|byte| is_escaped(*byte));
            prop_assert_eq!(plain_length(&bytes), first.unwrap_or(bytes.len()));
        }
    }
}
