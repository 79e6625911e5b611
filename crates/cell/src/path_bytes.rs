//! Paths in requests to the launcher: text if they are text, bytes otherwise.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&Path> for Form {
    fn from(path: &Path) -> Self {
        path.to_str().map_or_else(
            || Self::Bytes(path.as_os_str().as_bytes().to_vec()),
            |text| Self::Text(text.to_owned()),
        )
    }
}

impl From<Form> for PathBuf {
    fn from(form: Form) -> Self {
        match form {
            Form::Text(text) => text.into(),
            Form::Bytes(bytes) => OsString::from_vec(bytes).into(),
        }
    }
}

pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    Form::from(path).serialize(serializer)
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Form::deserialize(deserializer).map(PathBuf::from)
}

/// Several paths.
pub mod list {
    use super::{Deserialize, Deserializer, Form, PathBuf, Serialize, Serializer};

    pub fn serialize<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
        paths.iter().map(|path| Form::from(&**path)).collect::<Vec<_>>().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<PathBuf>, D::Error> {
        Ok(Vec::<Form>::deserialize(deserializer)?.into_iter().map(PathBuf::from).collect())
    }
}
