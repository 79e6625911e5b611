//! One TOML file and the places in it.

use std::ops::Range;

use serde::de::DeserializeOwned;
use windlass_kernel::Code;

use crate::PolicyError;

/// The largest rule or registry file.
pub(crate) const FILE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The text of one file, which knows where its bytes stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

impl<'a> Source<'a> {
    /// Reads the bytes of a file as text.
    pub fn new(file: &'a str, bytes: &'a [u8]) -> Result<Self, PolicyError> {
        let empty = Self { file, text: "" };
        if bytes.len() > FILE_BYTES_MAX {
            return Err(PolicyError {
                code: Code::DocSizeExceeded,
                ..empty.error(
                    0..0,
                    format!("the file is {} bytes long, over {FILE_BYTES_MAX}", bytes.len()),
                )
            });
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Self { file, text }),
            Err(error) => {
                let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
                let text = std::str::from_utf8(good).unwrap_or_default();
                let here = Self { file, text };
                Err(here.error(good.len()..good.len(), "the file is not UTF-8 text"))
            }
        }
    }

    /// Reads the text as TOML of a known shape.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, PolicyError> {
        toml::from_str(self.text).map_err(|error| {
            let message = error.message().trim().replace('\n', "; ");
            self.error(error.span().unwrap_or(0..0), message)
        })
    }

    /// An error at a place of this file.
    pub fn error(&self, span: Range<usize>, message: impl Into<String>) -> PolicyError {
        let mut end = span.start.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let before = self.text.get(..end).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        PolicyError {
            file: self.file.to_owned(),
            line,
            column,
            message: message.into(),
            hint: None,
            code: Code::PolicyInvalid,
        }
    }
}

/// One string or a list of strings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Strings(pub Vec<String>);

impl<'de> serde::Deserialize<'de> for Strings {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> serde::de::Visitor<'de> for Reader {
            type Value = Strings;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a string or a list of strings")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Strings, E> {
                Ok(Strings(vec![text.to_owned()]))
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> Result<Strings, A::Error> {
                let mut strings = Vec::new();
                while let Some(text) = list.next_element()? {
                    strings.push(text);
                }
                if strings.is_empty() {
                    return Err(serde::de::Error::custom("an empty list matches nothing"));
                }
                Ok(Strings(strings))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_counted_in_lines_and_characters() {
        let source = Source::new("a.toml", "é = 1\nöö = 2".as_bytes()).unwrap();
        let at = source.text.find("= 2").unwrap();
        let error = source.error(at..at, "no");
        assert_eq!((error.line, error.column), (2, 4));
        assert_eq!(error.to_string(), "a.toml:2:4: no");
    }

    #[test]
    fn bytes_that_are_not_text_are_refused_where_they_stand() {
        let error = Source::new("a.toml", b"a = 1\nb\xff").unwrap_err();
        assert_eq!((error.line, error.column, error.code()), (2, 2, Code::PolicyInvalid));
        let error = Source::new("a.toml", &vec![b' '; FILE_BYTES_MAX + 1]).unwrap_err();
        assert_eq!(error.code(), Code::DocSizeExceeded);
    }
}
