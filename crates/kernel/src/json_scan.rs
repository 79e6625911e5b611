//! Finds members of a JSON object without deserializing it.
//!
//! The scanner reads canonical text, which has no white space. It returns `None` for text that it cannot
//! read, for which the caller uses the general parser. It accepts nothing that the general parser refuses.

use crate::canon::scalar::plain_length;

/// The greatest nesting depth; deeper values are left to the general parser.
const DEPTH_MAX: u32 = 64;

/// Returns the texts of the members `names` of an object. `None` if the object is not canonical, or one
/// of the members is missing or duplicated.
pub(crate) fn members<'a, const N: usize>(
    body: &'a [u8],
    names: [&str; N],
) -> Option<[&'a [u8]; N]> {
    // Validating the whole text at once is faster than validating each string.
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

/// Returns the content of a string without escapes; `None` for any other value.
pub(crate) fn plain(value: &[u8]) -> Option<&str> {
    let mut text = Text(value);
    let content = text.plain_string()?;
    text.0.is_empty().then(|| std::str::from_utf8(content).ok())?
}

/// Returns the text between the quotes of a value found by [`members`]; `None` if it is not a string.
pub(crate) fn quoted(value: &[u8]) -> Option<&[u8]> {
    value.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// The remaining text.
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

    /// Reads one value and returns its text.
    fn value(&mut self, depth: u32) -> Option<&'a [u8]> {
        let before = self.0;
        match before.first()? {
            b'"' => self.string()?,
            b'{' => self.container(b'{', b'}', depth)?,
            b'[' => self.container(b'[', b']', depth)?,
            b't' => self.word(b"true")?,
            b'f' => self.word(b"false")?,
            b'n' => self.word(b"null")?,
            _ => self.number()?,
        }
        before.get(..before.len() - self.0.len())
    }

    /// Reads an object or an array.
    fn container(&mut self, first: u8, last: u8, depth: u32) -> Option<()> {
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

    /// Reads a string without escapes.
    #[inline]
    fn plain_string(&mut self) -> Option<&'a [u8]> {
        self.eat(b'"')?;
        let before = self.0;
        let length = plain_prefix(before)?;
        self.skip(length)?;
        self.eat(b'"')?;
        before.get(..length)
    }

    #[inline]
    fn string(&mut self) -> Option<()> {
        self.eat(b'"')?;
        loop {
            let length = plain_prefix(self.0)?;
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
        // The sign is optional.
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

/// Returns the number of leading bytes that need no escape; `None` if that is the whole text.
#[inline]
fn plain_prefix(text: &[u8]) -> Option<usize> {
    let length = plain_length(text);
    (length < text.len()).then_some(length)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    /// The members as the general parser reads them.
    fn general(body: &[u8]) -> Option<BTreeMap<String, Box<RawValue>>> {
        serde_json::from_slice(body).ok()
    }

    fn agree(body: &[u8]) {
        if let Some([a, b]) = members(body, ["a", "b"]) {
            let general = general(body).expect("accepted text is JSON");
            assert_eq!(general["a"].get().as_bytes(), a);
            assert_eq!(general["b"].get().as_bytes(), b);
        }
    }

    #[test]
    fn values_are_returned_unchanged() {
        let body = br#"{"a":{"x":[1,-0.5e+7,"\u00e9\n",{}],"b":0},"b":"plain","c":[],"d":null}"#;
        let [a, b, c] = members(body, ["a", "b", "c"]).unwrap();
        assert_eq!(a, br#"{"x":[1,-0.5e+7,"\u00e9\n",{}],"b":0}"#);
        assert_eq!((plain(b), c), (Some("plain"), &b"[]"[..]));
        assert_eq!(plain(br#""a\n""#), None);
        assert_eq!(plain(b"null"), None);
    }

    #[test]
    fn text_that_is_not_canonical_is_left_to_the_general_parser() {
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
        fn nothing_is_accepted_that_the_general_parser_refuses(
            parts in prop::collection::vec(prop::sample::select(vec![
                "{", "}", "[", "]", ":", ",", "\"a\"", "\"b\"", "\"a\":", "\"b\":1", "\"", "\\", "0",
                "-", "1.5", "e3", "true", "null", "\\u00", "{\"a\":", "x", " ", "\u{7f}", "é", "[]",
            ]), 0..14),
        ) {
            agree(parts.concat().as_bytes());
            agree(format!("{{\"a\":{},\"b\":1}}", parts.concat()).as_bytes());
        }

        #[test]
        fn a_changed_byte_is_read_as_by_the_general_parser(at in 0_usize..60, byte: u8) {
            let mut body = br#"{"a":{"x":[1,-0.5e+7,"\u00e9\n",{}],"y":true},"b":"plain"}"#.to_vec();
            if let Some(old) = body.get_mut(at) {
                *old = byte;
            }
            agree(&body);
        }
    }
}
