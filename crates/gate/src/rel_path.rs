//! Paths beneath a workspace, which need not be UTF-8.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path relative to the workspace; the empty one is the workspace itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RelPath(PathBuf);

impl RelPath {
    /// The path of an entry in this folder.
    #[must_use]
    pub fn join(&self, name: &OsStr) -> Self {
        Self(self.0.join(name))
    }

    /// The path of something in this folder; the empty one is the folder itself.
    #[must_use]
    pub(crate) fn beneath(&self, rest: &Path) -> Self {
        if rest.as_os_str().is_empty() { self.clone() } else { Self(self.0.join(rest)) }
    }

    /// As a path.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// As text, for rules and people.
    #[must_use]
    pub fn text(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }

    /// Its last name.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        self.0.file_name().unwrap_or_default()
    }

    /// The folders above it, without the workspace, outermost first.
    pub fn above(&self) -> impl Iterator<Item = Self> {
        let above: Vec<&Path> = self.0.ancestors().skip(1).collect();
        let above = above.into_iter().rev().filter(|path| !path.as_os_str().is_empty());
        above.map(|path| Self(path.to_owned())).collect::<Vec<_>>().into_iter()
    }

    /// Whether it is this folder or lies in it.
    #[must_use]
    pub fn is_within(&self, folder: &Self) -> bool {
        self.0.starts_with(&folder.0)
    }
}

impl From<&str> for RelPath {
    fn from(text: &str) -> Self {
        Self(PathBuf::from(text))
    }
}

impl From<&Path> for RelPath {
    fn from(path: &Path) -> Self {
        Self(path.to_owned())
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text())
    }
}

/// Whether a byte is written as it is.
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && byte != b'%' || byte == b' '
}

impl Serialize for RelPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = self.0.as_os_str().as_bytes();
        let mut text = String::with_capacity(bytes.len());
        for byte in bytes {
            if is_plain(*byte) {
                text.push(char::from(*byte));
            } else {
                text.push_str(&format!("%{byte:02x}"));
            }
        }
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for RelPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text.as_bytes();
        while let Some((first, more)) = rest.split_first() {
            rest = more;
            if *first != b'%' {
                bytes.push(*first);
                continue;
            }
            let digits = rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
            let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            bytes.push(
                byte.ok_or_else(|| serde::de::Error::custom("an escaped byte has two digits"))?,
            );
            rest = rest.get(2..).unwrap_or_default();
        }
        Ok(Self(OsString::from_vec(bytes).into()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_path_is_written_and_read(bytes in prop::collection::vec(1_u8.., 0..40)) {
            let path = RelPath(OsString::from_vec(bytes).into());
            let text = serde_json::to_string(&path).unwrap();
            prop_assert_eq!(serde_json::from_str::<RelPath>(&text).unwrap(), path);
        }
    }

    #[test]
    fn the_folders_above_a_path_are_outermost_first() {
        let above: Vec<String> = RelPath::from("a/b/c").above().map(|path| path.text()).collect();
        assert_eq!(above, ["a", "a/b"]);
        assert_eq!(RelPath::from("a").above().count(), 0);
    }
}
