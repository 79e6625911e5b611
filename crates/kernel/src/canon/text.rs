//! Numbers and texts as canonical JSON writes them.

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

/// Whether a byte of a text may not stand for itself in a string.
pub(super) const fn is_escaped(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Writes a JSON string as RFC 8785 does: only what must be escaped is.
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    out.reserve(rest.len() + 2);
    out.push(b'"');
    // Without a way out in the middle this looks at many letters at once.
    if rest.iter().fold(false, |found, byte| found | is_escaped(*byte)) {
        while let Some(at) = rest.iter().position(|byte| is_escaped(*byte)) {
            let (plain, tail) = rest.split_at(at);
            out.extend_from_slice(plain);
            if let Some((byte, tail)) = tail.split_first() {
                write_escape(*byte, out);
                rest = tail;
            }
        }
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// How many bytes [`write_string`] writes.
pub(super) fn string_length(text: &str) -> usize {
    let escape = |byte: &u8| match byte {
        b'"' | b'\\' | 0x08 | 0x09 | 0x0a | 0x0c | 0x0d => 1,
        0..0x20 => 5,
        _ => 0,
    };
    text.len() + 2 + text.as_bytes().iter().map(escape).sum::<usize>()
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
