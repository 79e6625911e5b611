//! Ed25519 keys and signatures and their text formats.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{
    DecodePrivateKey as _, DecodePublicKey as _, EncodePrivateKey as _, EncodePublicKey as _,
    KeypairBytes,
};
use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

use crate::Digest;
use crate::canon::{Canonical, write_plain};

/// The first 16 hex digits of the SHA-256 of a raw public key. It only names a key: signatures are
/// always verified with the full key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyId([u8; 16]);

impl KeyId {
    /// The hex digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for KeyId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits: [u8; 16] =
            text.as_bytes().try_into().map_err(|_| "a key id has 16 hex digits")?;
        let hex = digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        if hex { Ok(Self(digits)) } else { Err("a key id has 16 lower-case hex digits") }
    }
}

impl Serialize for KeyId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for KeyId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// An Ed25519 signature, serialised as base64.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature([u8; 64]);

impl Signature {
    /// Wraps the raw bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 64]) -> Self {
        Self(bytes)
    }

    /// The raw bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 64] {
        &self.0
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&STANDARD.encode(self.0))
    }
}

impl Serialize for Signature {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(self.0))
    }
}

impl<'de> Deserialize<'de> for Signature {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        decode_fixed(deserializer, "a signature has 64 bytes in base64").map(Self)
    }
}

/// Decodes exactly `N` bytes of base64; other padding or unused bits that are not zero are refused.
fn decode_fixed<'de, D: Deserializer<'de>, const N: usize>(
    deserializer: D,
    expected: &str,
) -> Result<[u8; N], D::Error> {
    let text = String::deserialize(deserializer)?;
    let bytes = STANDARD.decode(&text).ok();
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| serde::de::Error::custom(expected))
}

/// A key that verifies signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Wraps the 32 raw bytes.
    ///
    /// # Errors
    /// A message if they are not a key, or a weak key, with which forged signatures would verify.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, &'static str> {
        let key = VerifyingKey::from_bytes(bytes).map_err(|_| "it is not an Ed25519 public key")?;
        if key.is_weak() { Err("it is a weak key") } else { Ok(Self(key)) }
    }

    /// Reads a key in PEM, with or without the header lines of a `.pub` file.
    ///
    /// # Errors
    /// A message if the text has no such key.
    pub fn from_pem(text: &str) -> Result<Self, &'static str> {
        let start = text.find("-----BEGIN").ok_or("it is not a key in PEM")?;
        let pem = text.get(start..).unwrap_or_default();
        let key = VerifyingKey::from_public_key_pem(pem)
            .map_err(|_| "it is not an Ed25519 public key in PEM")?;
        Self::from_bytes(&key.to_bytes())
    }

    /// The key in PEM.
    #[must_use]
    pub fn to_pem(&self) -> String {
        // Encoding 32 bytes never fails.
        self.0.to_public_key_pem(LineEnding::LF).unwrap_or_default()
    }

    /// The raw bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// The id of the key.
    #[must_use]
    pub fn id(&self) -> KeyId {
        let digest = Digest::of(self.0.as_bytes());
        let mut digits = [0; 16];
        for (slot, digit) in digits.iter_mut().zip(digest.hex().as_bytes()) {
            *slot = *digit;
        }
        KeyId(digits)
    }

    /// Whether `signature` is this key's signature of `bytes`.
    ///
    /// Verification is strict, so no second encoding of a valid signature is accepted.
    #[must_use]
    pub fn verifies(&self, bytes: &[u8], signature: &Signature) -> bool {
        let signature = ed25519_dalek::Signature::from_bytes(&signature.0);
        self.0.verify_strict(bytes, &signature).is_ok()
    }
}

impl Serialize for PublicKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(self.to_bytes()))
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = decode_fixed(deserializer, "a public key has 32 bytes in base64")?;
        Self::from_bytes(&bytes).map_err(serde::de::Error::custom)
    }
}

/// A signing key. Its bytes are wiped on drop.
pub struct Signer(SigningKey);

impl Signer {
    /// Creates a key from 32 random bytes.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// Reads a key in PEM (PKCS #8).
    ///
    /// # Errors
    /// A message if the text is not such a key.
    pub fn from_pem(text: &str) -> Result<Self, &'static str> {
        SigningKey::from_pkcs8_pem(text)
            .map(Self)
            .map_err(|_| "it is not an Ed25519 signing key in PEM")
    }

    /// The key in PEM (PKCS #8 without the public key, the form that every program can read).
    #[must_use]
    pub fn to_pem(&self) -> Zeroizing<String> {
        let pair = KeypairBytes { secret_key: self.0.to_bytes(), public_key: None };
        pair.to_pkcs8_pem(LineEnding::LF).unwrap_or_default()
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Signs bytes deterministically.
    #[must_use]
    pub fn sign(&self, bytes: &[u8]) -> Signature {
        Signature(self.0.sign(bytes).to_bytes())
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Signer({})", self.public().id())
    }
}

impl Canonical for PublicKey {
    fn write(&self, out: &mut Vec<u8>) {
        write_plain(STANDARD.encode(self.to_bytes()).as_bytes(), out);
    }
}

impl Canonical for Signature {
    fn write(&self, out: &mut Vec<u8>) {
        write_plain(STANDARD.encode(self.0).as_bytes(), out);
    }
}

/// Describes base64 of a fixed length in schemas.
macro_rules! base64_schema {
    ($type:ident, $name:literal, $length:literal) => {
        impl schemars::JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "minLength": $length, "maxLength": $length, "pattern": "^[A-Za-z0-9+/]+=*$"})
            }
        }
    };
}

base64_schema!(PublicKey, "PublicKey", 44);
base64_schema!(Signature, "Signature", 88);
