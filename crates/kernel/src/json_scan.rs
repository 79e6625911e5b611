//! Finds the members of a JSON object without building it.
//!
//! It reads canonical text: no white space. What it cannot read it leaves to the general reader, and
//! what it accepts the general reader would accept too.

use crate::canon::scalar::plain_length;

/// How deep values may lie in each other; deeper ones are left to the general reader.
const DEPTH_MAX: u32 = 64;

/// The texts of the values that an object has under `names`. `None` when it is not canonical, or lacks
/// one of them, or has one twice.
pub(crate) fn members<'a, const N: usize>(
    body: &'a [u8],
    names: [&str; N],
) -> Option<[&'a [u8]; N]> {
    // The whole of it at once is quicker than each string by itself.
    std::str::from_utf8(body).ok()?;
    let mut found: [Option<&[u8]>; N] = [None; N];
    let mut text = Text(body);
    text.eat(b'{')?;
    loop {
        let key = text.plain_string()?;
        text.eat(b':')?;
        let value = text.value(DEPTH_MAX)?;
        let slots = names.iter().zip(&mut found);
        if let Some((_, slot)) = slots.into_iter().find(|(name, _)| name.as_bytes() == key)
            && slot.replace(value).is_some()
        {
            return None;
        }
        if text.eat(b',').is_none() {
            break;
        }
    }
    text.eat(b'}')?;
    if !text.0.is_empty() || found.contains(&None) {
        return None;
    }
    Some(found.map(Option::unwrap_or_default))
}

/// The letters of a string that has no escapes.
pub(crate) fn plain(value: &[u8]) -> Option<&str> {
    let mut text = Text(value);
    let letters = text.plain_string()?;
    text.0.is_empty().then(|| std::str::from_utf8(letters).ok())?
}

/// What stands between the quotes of a value that [`members`] has found, if it is a string.
pub(crate) fn quoted(value: &[u8]) -> Option<&[u8]> {
    value.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// What is left to read.
struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    #[inline]
    fn eat(&mut self, byte: u8) -> Option<()> {
        let (first, rest) = self.0.split_first()?;
        (*first == byte).then(|| self.0 = rest)
    }

    #[inline]
    fn skip(&mut self, count: usize) -> Option<()> {
        self.0 = self.0.get(count..)?;
        Some(())
    }

    /// The text of one value.
    fn value(&mut self, depth: u32) -> Option<&'a [u8]> {
        let before = self.0;
        match before.first()? {
            b'"' => self.string()?,
            b'{' => self.many(b'{', b'}', depth)?,
            b'[' => self.many(b'[', b']', depth)?,
            b't' => self.word(b"true")?,
            b'f' => self.word(b"false")?,
            b'n' => self.word(b"null")?,
            _ => self.number()?,
        }
        before.get(..before.len() - self.0.len())
    }

    /// An object or an array.
    fn many(&mut self, first: u8, last: u8, depth: u32) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        self.eat(first)?;
        if self.eat(last).is_some() {
            return Some(());
        }
        loop {
            if first == b'{' {
                self.string()?;
                self.eat(b':')?;
            }
            self.value(depth)?;
            if self.eat(b',').is_none() {
                return self.eat(last);
            }
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(word)?;
        Some(())
    }

    /// A string whose letters stand for themselves.
    #[inline]
    fn plain_string(&mut self) -> Option<&'a [u8]> {
        self.eat(b'"')?;
        let before = self.0;
        let length = run_length(before)?;
        self.skip(length)?;
        self.eat(b'"')?;
        before.get(..length)
    }

    #[inline]
    fn string(&mut self) -> Option<()> {
        self.eat(b'"')?;
        loop {
            let length = run_length(self.0)?;
            self.skip(length)?;
            if self.eat(b'"').is_some() {
                return Some(());
            }
            self.eat(b'\\')?;
            match self.0.first()? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.skip(1)?,
                b'u' => {
                    let digits = self.0.get(1..5)?;
                    digits.iter().all(u8::is_ascii_hexdigit).then_some(())?;
                    self.skip(5)?;
                }
                _ => return None,
            }
        }
    }

    fn number(&mut self) -> Option<()> {
        // Its sign may be missing.
        let _ = self.eat(b'-');
        if self.eat(b'0').is_none() {
            self.digits()?;
        }
        if self.eat(b'.').is_some() {
            self.digits()?;
        }
        if self.eat(b'e').or_else(|| self.eat(b'E')).is_some() {
            let _ = self.eat(b'+').or_else(|| self.eat(b'-'));
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let other = self.0.iter().position(|byte| !byte.is_ascii_digit());
        let count = other.unwrap_or(self.0.len());
        (count > 0).then_some(())?;
        self.skip(count)
    }
}

/// How many letters that stand for themselves a text begins with; `None` when it has no others.
#[inline]
fn run_length(text: &[u8]) -> Option<usize> {
    let length = plain_length(text);
    (length < text.len()).then_some(length)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    /// The same by the general reader.
    fn general(body: &[u8]) -> Option<BTreeMap<String, Box<RawValue>>> {
        serde_json::from_slice(body).ok()
    }

    fn agree(body: &[u8]) {
        if let Some([a, b]) = members(body, ["a", "b"]) {
            let general = general(body).expect("what is accepted is JSON");
            assert_eq!(general["a"].get().as_bytes(), a);
            assert_eq!(general["b"].get().as_bytes(), b);
        }
    }

    #[test]
    fn values_are_found_as_they_are_written() {
        let body = br#"{"a":{"x":[1,-0.5e+7,"\u00e9\n",{}],"b":0},"b":"plain","c":[],"d":null}"#;
        let [a, b, c] = members(body, ["a", "b", "c"]).unwrap();
        assert_eq!(a, br#"{"x":[1,-0.5e+7,"\u00e9\n",{}],"b":0}"#);
        assert_eq!((plain(b), c), (Some("plain"), &b"[]"[..]));
        assert_eq!(plain(br#""a\n""#), None);
        assert_eq!(plain(b"null"), None);
    }

    #[test]
    fn what_is_not_canonical_is_left_to_the_general_reader() {
        for body in [
            "",
            "{}",
            "[]",
            "{\"a\":1}",
            "{\"a\":1,\"b\":2",
            "{\"a\":1,\"b\":2} ",
            "{\"a\":1,\"b\":2}}",
            "{\"a\": 1,\"b\":2}",
            "{\"a\":1,\"a\":1,\"b\":2}",
            "{\"a\":1,\"b\":2,}",
            "{\"a\":01,\"b\":2}",
            "{\"a\":1.,\"b\":2}",
            "{\"a\":-,\"b\":2}",
            "{\"a\":1e,\"b\":2}",
            "{\"a\":tru,\"b\":2}",
            "{\"a\":\"\u{1}\",\"b\":2}",
            "{\"a\":\"\\x\",\"b\":2}",
            "{\"a\":\"\\u12g4\",\"b\":2}",
            "{\"a\":[1,],\"b\":2}",
            "{\"a\":[1}],\"b\":2}",
            "{\"a\":{\"x\"},\"b\":2}",
        ] {
            assert_eq!(members(body.as_bytes(), ["a", "b"]), None, "{body}");
        }
        let deep = format!("{{\"a\":{}{},\"b\":1}}", "[".repeat(9_999), "]".repeat(9_999));
        assert_eq!(members(deep.as_bytes(), ["a", "b"]), None);
    }

    proptest! {
        #[test]
        fn nothing_is_accepted_that_the_general_reader_refuses(
            parts in prop::collection::vec(prop::sample::select(vec![
                "{", "}", "[", "]", ":", ",", "\"a\"", "\"b\"", "\"a\":", "\"b\":1", "\"", "\\", "0",
                "-", "1.5", "e3", "true", "null", "\\u00", "{\"a\":", "x", " ", "\u{7f}", "é", "[]",
            ]), 0..14),
        ) {
            agree(parts.concat().as_bytes());
            agree(format!("{{\"a\":{},\"b\":1}}", parts.concat()).as_bytes());
        }

        #[test]
        fn one_changed_byte_is_read_as_the_general_reader_reads_it(at in 0_usize..60, byte: u8) {
            let mut body = br#"{"a":{"x":[1,-0.5e+7,"\u00e9\n",{}],"y":true},"b":"plain"}"#.to_vec();
            if let Some(old) = body.get_mut(at) {
                *old = byte;
            }
            agree(&body);
        }
    }
}
