//! Enums that are written as keywords.

use thiserror::Error;

/// Text that is none of the known keywords.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{word}` is not one of `{}`", known.join("`, `"))]
pub struct UnknownKeyword {
    /// The text.
    pub word: String,
    /// The keywords.
    pub known: Vec<&'static str>,
}

/// Declares an enum that is written and read as one of its keywords exactly.
macro_rules! keywords {
    ($(#[$doc:meta])* $name:ident { $($(#[$word_doc:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$word_doc])* $variant,)*
        }

        impl $name {
            /// All variants.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The keyword.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownKeyword;

            fn from_str(text: &str) -> Result<Self, $crate::UnknownKeyword> {
                Self::ALL.iter().copied().find(|word| word.as_str() == text).ok_or_else(|| {
                    $crate::UnknownKeyword {
                        word: text.chars().take(80).collect(),
                        known: vec![$($text),*],
                    }
                })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use keywords;
