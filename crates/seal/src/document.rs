//! Signed documents: canonical JSON, accepted only in its exact canonical bytes.

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_kernel::canon;

/// Parses a canonical document of at most `bytes_max` bytes.
///
/// The parser alone would also accept other orders of fields and absent fields for null.
pub(crate) fn read<T: DeserializeOwned + Serialize>(
    bytes: &[u8],
    bytes_max: usize,
) -> Result<T, String> {
    let value = canon::parse(bytes, bytes_max).map_err(|error| error.to_string())?;
    let document: T = serde_json::from_value(value).map_err(|error| error.to_string())?;
    if write(&document)? != bytes {
        return Err("it is not canonical JSON".to_owned());
    }
    Ok(document)
}

/// Writes a document as canonical JSON.
pub(crate) fn write(document: &impl Serialize) -> Result<Vec<u8>, String> {
    canon::to_bytes(document).map_err(|error| error.to_string())
}

/// Returns the bytes to sign: a line that names the kind of document, then its canonical JSON.
pub(crate) fn to_sign(kind: &str, document: &impl Serialize) -> Result<Vec<u8>, String> {
    let mut bytes = format!("{kind}\n").into_bytes();
    bytes.extend(write(document)?);
    Ok(bytes)
}
