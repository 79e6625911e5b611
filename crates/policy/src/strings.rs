//! A TOML value that is one string or a list of strings.

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// One string or a list of strings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Strings(pub Vec<String>);

impl<'de> Deserialize<'de> for Strings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StringsVisitor;
        impl<'de> Visitor<'de> for StringsVisitor {
            type Value = Strings;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a string or a list of strings")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Strings, E> {
                Ok(Strings(vec![text.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Strings, A::Error> {
                let mut strings = Vec::new();
                while let Some(text) = list.next_element()? {
                    strings.push(text);
                }
                if strings.is_empty() {
                    return Err(Error::custom("an empty list matches nothing"));
                }
                Ok(Strings(strings))
            }
        }
        deserializer.deserialize_any(StringsVisitor)
    }
}
