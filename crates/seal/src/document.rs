//! Documents that have exactly one form: canonical JSON, read back only as it was written.

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_kernel::canon;

/// Reads a document of at most `bytes_max` bytes, which must be canonical to the byte.
///
/// A reader alone takes more than is ever written: other orders, absent fields for null.
pub(crate) fn read<T: DeserializeOwned + Serialize>(
    bytes: &[u8],
    bytes_max: usize,
) -> Result<T, String> {
    let value = canon::parse(bytes, bytes_max).map_err(|error| error.to_string())?;
    let document: T = serde_json::from_value(value).map_err(|error| error.to_string())?;
    if write(&document)? != bytes {
        return Err("it is not in canonical form".to_owned());
    }
    Ok(document)
}

/// Writes a document.
pub(crate) fn write(document: &impl Serialize) -> Result<Vec<u8>, String> {
    canon::to_bytes(document).map_err(|error| error.to_string())
}

/// The bytes that are signed: a line that names the kind of document, then its canonical form.
pub(crate) fn to_sign(kind: &str, document: &impl Serialize) -> Result<Vec<u8>, String> {
    let mut bytes = format!("{kind}\n").into_bytes();
    bytes.extend(write(document)?);
    Ok(bytes)
}
