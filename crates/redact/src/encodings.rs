//! The forms in which the value of a secret is found in text.

use std::collections::BTreeSet;

use crate::redactor::SECRET_BYTES_MIN;

/// The minimum length of a line of a value that is looked for by itself.
const LINE_BYTES_MIN: usize = 16;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The forms of a value in text.
pub(crate) fn forms(value: &str) -> BTreeSet<Vec<u8>> {
    let mut forms = digits(value);
    forms.insert(value.as_bytes().to_vec());
    let lines = value.lines().map(str::trim).filter(|line| line.len() >= LINE_BYTES_MIN);
    forms.extend(lines.map(|line| line.as_bytes().to_vec()));
    // Decoded text has no backslashes.
    let bare = value.replace('\\', "");
    if bare.len() >= SECRET_BYTES_MIN {
        forms.insert(bare.into_bytes());
    }
    let units: Vec<u16> = value.encode_utf16().collect();
    forms.insert(units.iter().flat_map(|unit| unit.to_le_bytes()).collect());
    forms.insert(units.iter().flat_map(|unit| unit.to_be_bytes()).collect());
    for case in [HexCase::Lower, HexCase::Upper] {
        let percent = percent(value, case);
        forms.insert(percent.replace("%20", "+").into_bytes());
        forms.insert(percent.into_bytes());
    }
    let json = serde_json::Value::from(value).to_string();
    let json = json.get(1..json.len().saturating_sub(1)).unwrap_or_default();
    forms.extend([json, &json.replace('/', "\\/")].map(|form| form.as_bytes().to_vec()));
    forms.insert(ascii_json(json).into_bytes());
    forms
}

/// The forms of a value in digits, which blanks and line ends can stand between.
pub(crate) fn digits(value: &str) -> BTreeSet<Vec<u8>> {
    let cases = [HexCase::Lower, HexCase::Upper];
    let mut forms: BTreeSet<Vec<u8>> =
        cases.into_iter().map(|case| hex(value, case).into_bytes()).collect();
    for alphabet in [STANDARD, URL_SAFE] {
        for alignment in 0..3 {
            base64(value.as_bytes(), alphabet, alignment, &mut forms);
        }
    }
    forms
}

#[derive(Clone, Copy)]
enum HexCase {
    Lower,
    Upper,
}

fn push_hex(text: &mut String, byte: u8, case: HexCase) {
    text.push_str(&match case {
        HexCase::Lower => format!("{byte:02x}"),
        HexCase::Upper => format!("{byte:02X}"),
    });
}

fn hex(value: &str, case: HexCase) -> String {
    let mut text = String::new();
    for byte in value.bytes() {
        push_hex(&mut text, byte, case);
    }
    text
}

fn percent(value: &str, case: HexCase) -> String {
    let mut text = String::new();
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            text.push(char::from(byte));
        } else {
            text.push('%');
            push_hex(&mut text, byte, case);
        }
    }
    text
}

/// A JSON text whose characters beyond ASCII are escaped.
fn ascii_json(json: &str) -> String {
    let mut text = String::new();
    for char in json.chars() {
        if char.is_ascii() {
            text.push(char);
        } else {
            for unit in char.encode_utf16(&mut [0; 2]) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    text
}

/// Adds the base64 of a value that begins `alignment` bytes after a group of three: the characters that
/// depend on the value alone, then also the last one and the padding as they are at the end of the data.
fn base64(value: &[u8], alphabet: &[u8; 64], alignment: usize, forms: &mut BTreeSet<Vec<u8>>) {
    let mut bits: u32 = 0;
    let mut pending: u32 = 0;
    let mut text: Vec<u8> = Vec::new();
    let digit = |six: u32| {
        let at = usize::try_from(six & 63).unwrap_or(0);
        alphabet.get(at).copied().unwrap_or(b'A')
    };
    for byte in std::iter::repeat_n(&0, alignment).chain(value) {
        pending = ((pending << 8) | u32::from(*byte)) & 0xffff;
        bits += 8;
        while bits >= 6 {
            bits -= 6;
            text.push(digit(pending >> bits));
        }
    }
    let first = if alignment == 0 { 0 } else { alignment + 1 };
    let mut form = text.split_off(first.min(text.len()));
    forms.insert(form.clone());
    if bits > 0 {
        form.push(digit(pending << (6 - bits)));
        forms.insert(form.clone());
        form.extend(std::iter::repeat_n(b'=', if bits == 2 { 2 } else { 1 }));
        forms.insert(form);
    }
}
