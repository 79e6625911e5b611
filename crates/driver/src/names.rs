//! Names in the configuration, one type for each kind.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The longest name.
pub const NAME_BYTES_MAX: usize = 64;

/// Text that is not a valid name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "`{name}` is not a valid name of {what}: 1 to {NAME_BYTES_MAX} of a-z, A-Z, 0-9, `_`, `-`, `.`"
)]
pub struct NameError {
    what: &'static str,
    name: String,
}

fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.bytes().all(plain)
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $what:literal),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The name as it is written.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(name: String) -> Result<Self, NameError> {
                if is_name(&name) {
                    return Ok(Self(name));
                }
                Err(NameError { what: $what, name: name.chars().take(40).collect() })
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::try_from(text.to_owned())
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    )*};
}

names! {
    /// The name of an intent.
    IntentId = "an intent",
    /// The name of a model in this configuration, independent of its provider.
    ModelId = "a model",
    /// The name of a tier of authority.
    Tier = "a tier",
    /// The name of a capability profile.
    ProfileId = "a profile",
    /// The name of a role of a model in a task.
    Role = "a role",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_plain() {
        for text in ["A", "code_review", "gemini-2.5-pro", &"x".repeat(NAME_BYTES_MAX)] {
            assert_eq!(text.parse::<ModelId>().unwrap().as_str(), text);
        }
        for text in ["", " ", "a b", "a/b", "é", "a\n", &"x".repeat(NAME_BYTES_MAX + 1)] {
            assert!(text.parse::<ModelId>().is_err(), "{text}");
            assert!(serde_json::from_value::<ModelId>(text.into()).is_err(), "{text}");
        }
    }
}
