//! Ids of git objects.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Text that is not the full id of a git object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a git object id has 40 or 64 lower-case hex digits")]
pub struct ObjectIdError;

fn is_object_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64)
        && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

macro_rules! object_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// The hex digits.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = ObjectIdError;

            fn from_str(text: &str) -> Result<Self, ObjectIdError> {
                if is_object_id(text) { Ok(Self(text.to_owned())) } else { Err(ObjectIdError) }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

object_id! {
    /// The full id of a commit.
    CommitId
}
object_id! {
    /// The full id of a tree.
    TreeId
}

/// A tree, or a commit that stands for its tree: what a work tree is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Treeish {
    /// The tree of a commit.
    Commit(CommitId),
    /// A tree.
    Tree(TreeId),
}

impl Treeish {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Commit(id) => id.as_str(),
            Self::Tree(id) => id.as_str(),
        }
    }
}

impl From<CommitId> for Treeish {
    fn from(id: CommitId) -> Self {
        Self::Commit(id)
    }
}

impl From<TreeId> for Treeish {
    fn from(id: TreeId) -> Self {
        Self::Tree(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_full_ids_are_accepted() {
        for good in ["a".repeat(40), "0".repeat(64)] {
            assert_eq!(good.parse::<CommitId>().unwrap().as_str(), good);
        }
        for bad in ["A".repeat(40), "a".repeat(39), "g".repeat(40), "-".repeat(40), String::new()] {
            assert_eq!(bad.parse::<CommitId>(), Err(ObjectIdError), "{bad}");
        }
    }
}
