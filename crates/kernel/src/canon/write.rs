//! Writes canonical JSON in one pass into one buffer.
//!
//! A general encoder examines every character. The names of our own fields, ids, digests and times need
//! no escapes, so they are copied without examination.

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

use super::scalar::{write_number, write_string};
use super::utf16_order;

/// A value that can write its canonical form.
pub(crate) trait Canonical {
    /// Appends the canonical bytes to `out`.
    fn write(&self, out: &mut Vec<u8>);
}

/// Writes an object whose members are local variables, in the given order, which must be canonical. A
/// property test must compare each such object with [`super::to_bytes`].
macro_rules! write_object {
    ($out:expr, $first:ident $(, $name:ident)*) => {
        $out.extend_from_slice(concat!("{\"", stringify!($first), "\":").as_bytes());
        $first.write($out);
        $(
            $out.extend_from_slice(concat!(",\"", stringify!($name), "\":").as_bytes());
            $name.write($out);
        )*
        $out.push(b'}');
    };
}

/// Implements [`Canonical`] for structs, whose fields are listed as for [`write_object`]. The compiler
/// reports a field that is missing; a field that must not be written follows `but`.
macro_rules! canonical {
    ($($type:ident { $($name:ident),* $(,)? $(; but $left_out:ident)? })*) => {$(
        impl $crate::canon::Canonical for $type {
            fn write(&self, out: &mut Vec<u8>) {
                let Self { $($name,)* $($left_out: _)? } = self;
                $crate::canon::write_object!(out, $($name),*);
            }
        }
    )*};
}

/// Implements [`Canonical`] for enums by their names, which need no escapes.
macro_rules! canonical_names {
    ($($type:ident),*) => {$(
        impl $crate::canon::Canonical for $type {
            fn write(&self, out: &mut Vec<u8>) {
                $crate::canon::write_plain(self.as_str().as_bytes(), out);
            }
        }
    )*};
}

pub(crate) use {canonical, canonical_names, write_object};

/// Writes a string that needs no escapes.
#[inline]
pub(crate) fn write_plain(text: &[u8], out: &mut Vec<u8>) {
    debug_assert_eq!(super::scalar::plain_length(text), text.len(), "the text needs escapes");
    out.reserve(text.len() + 2);
    out.push(b'"');
    out.extend_from_slice(text);
    out.push(b'"');
}

impl Canonical for str {
    fn write(&self, out: &mut Vec<u8>) {
        write_string(self, out);
    }
}

impl Canonical for String {
    fn write(&self, out: &mut Vec<u8>) {
        write_string(self, out);
    }
}

impl Canonical for Cow<'_, str> {
    fn write(&self, out: &mut Vec<u8>) {
        write_string(self, out);
    }
}

impl Canonical for bool {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(if *self { b"true" } else { b"false" });
    }
}

impl Canonical for u8 {
    fn write(&self, out: &mut Vec<u8>) {
        u32::from(*self).write(out);
    }
}

impl Canonical for u32 {
    fn write(&self, out: &mut Vec<u8>) {
        write_number(u64::from(*self), out);
    }
}

impl Canonical for u64 {
    fn write(&self, out: &mut Vec<u8>) {
        write_number(*self, out);
    }
}

impl<T: Canonical> Canonical for Option<T> {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Some(value) => value.write(out),
            None => out.extend_from_slice(b"null"),
        }
    }
}

impl<T: Canonical> Canonical for Vec<T> {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        for (index, item) in self.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            item.write(out);
        }
        out.push(b']');
    }
}

impl Canonical for Value {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(value) => value.write(out),
            Self::Number(number) => number.write(out),
            Self::String(text) => text.write(out),
            Self::Array(items) => items.write(out),
            Self::Object(map) => map.write(out),
        }
    }
}

impl Canonical for Number {
    fn write(&self, out: &mut Vec<u8>) {
        if let Some(number) = self.as_u64() {
            write_number(number, out);
        } else if let Some(number) = self.as_i64() {
            out.push(b'-');
            write_number(number.unsigned_abs(), out);
        } else if let Ok(text) = serde_json_canonicalizer::to_vec(self) {
            // As ECMAScript writes it. This cannot fail: a JSON number is finite.
            out.extend_from_slice(&text);
        }
    }
}

/// Members are ordered by the UTF-16 code units of their keys, as RFC 8785 requires.
impl Canonical for Map<String, Value> {
    fn write(&self, out: &mut Vec<u8>) {
        if self.keys().is_sorted_by(|a, b| utf16_order(a, b).is_lt()) {
            write_members(self.iter(), out);
        } else {
            let mut members: Vec<_> = self.iter().collect();
            members.sort_by(|(a, _), (b, _)| utf16_order(a, b));
            write_members(members.into_iter(), out);
        }
    }
}

fn write_members<'a>(members: impl Iterator<Item = (&'a String, &'a Value)>, out: &mut Vec<u8>) {
    out.push(b'{');
    for (index, (key, value)) in members.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        key.write(out);
        out.push(b':');
        value.write(out);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Serialize;

    use super::*;

    /// The output of this encoder and of the general encoder.
    fn both(value: &(impl Canonical + Serialize)) -> (String, String) {
        let mut out = Vec::new();
        value.write(&mut out);
        (String::from_utf8(out).unwrap(), serde_json::to_string(value).unwrap())
    }

    #[test]
    fn every_kind_of_value_is_written_as_by_the_general_encoder() {
        let lists = vec![vec![], vec![Some(true), None], vec![Some(false)]];
        let (written, general) = both(&lists);
        assert_eq!(written, general);
        let (written, general) = both(&vec![0_u32, 7, u32::MAX]);
        assert_eq!(written, general);
        let (written, general) = both(&serde_json::json!({
            "a": [], "b": {}, "c": [null, true, false, 0, -7, 0.5, "\""], "d": { "e": [{}], "f": 1 },
        }));
        assert_eq!(written, general);
    }

    #[test]
    fn numbers_are_written_as_digits() {
        for number in [0, 1, 9, 10, 99, 100, 16_777_215, u64::MAX] {
            let (written, general) = both(&number);
            assert_eq!(written, general);
            let (written, general) = both(&Number::from(number));
            assert_eq!(written, general);
        }
        for number in [0, -1, -10, i64::MIN, i64::MAX] {
            let (written, general) = both(&Number::from(number));
            assert_eq!(written, general);
        }
    }

    #[test]
    fn every_character_that_may_need_an_escape_is_written_as_by_the_general_encoder() {
        for letter in (0..=0x80_u8).map(char::from) {
            for text in [format!("{letter}"), format!("a{letter}b{letter}{letter}c")] {
                let (written, general) = both(&text);
                assert_eq!(written, general);
            }
        }
    }

    proptest! {
        #[test]
        fn strings_are_written_as_by_the_general_encoder(text: String, plain in "[ -~]{0,80}") {
            let (written, general) = both(&text);
            prop_assert_eq!(written, general);
            let (written, general) = both(&plain);
            prop_assert_eq!(written, general);
        }
    }
}
