//! The text form of a value, in JSON and elsewhere.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Error, Visitor};

/// Deserializes a string and parses it in place, without copying the text.
pub(crate) fn from_str<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    struct Text<T>(PhantomData<T>);

    impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Text<T> {
        type Value = T;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a string")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }
    }

    deserializer.deserialize_str(Text(PhantomData))
}

/// Implements reading and writing of a type by its text form, which needs no escape in JSON. The type has
/// a function `parse(&[u8])`; the closure returns the ASCII bytes of the text.
macro_rules! text_form {
    ($type:ident, $error:ident, |$value:ident| $text:expr, $description:literal, $pattern:literal) => {
        impl std::str::FromStr for $type {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, $error> {
                Self::parse(text.as_bytes())
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $value = self;
                formatter.write_str(std::str::from_utf8(&$text).unwrap_or_default())
            }
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, formatter)
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let $value = self;
                serializer.serialize_str(std::str::from_utf8(&$text).unwrap_or_default())
            }
        }

        impl crate::canon::Canonical for $type {
            fn write(&self, out: &mut Vec<u8>) {
                let $value = self;
                crate::canon::write_plain(&$text, out);
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                crate::text_form::from_str(deserializer)
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "description": $description,
                    "pattern": $pattern
                })
            }
        }
    };
}
pub(crate) use text_form;
