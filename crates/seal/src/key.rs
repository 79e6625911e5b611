//! Ed25519 keys and signatures, and their forms as text.

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
use windlass_kernel::{Digest, Timestamp};
use zeroize::Zeroizing;

/// The first 16 hex digits of the SHA-256 of a raw public key. A name, not a proof: what decides is
/// always the whole key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyId([u8; 16]);

impl KeyId {
    /// The digits.
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

/// An Ed25519 signature, written in base64.
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
        fixed(deserializer, "a signature has 64 bytes in base64").map(Self)
    }
}

/// Reads so many bytes from base64; text with other padding or spare bits is refused.
fn fixed<'de, D: Deserializer<'de>, const N: usize>(
    deserializer: D,
    expected: &str,
) -> Result<[u8; N], D::Error> {
    let text = String::deserialize(deserializer)?;
    let bytes = STANDARD.decode(&text).ok();
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| serde::de::Error::custom(expected))
}

/// A key to check signatures with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Wraps the 32 raw bytes.
    ///
    /// # Errors
    /// A sentence when they are no key, or one with which anything would hold.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, &'static str> {
        let key = VerifyingKey::from_bytes(bytes).map_err(|_| "it is not an Ed25519 public key")?;
        if key.is_weak() { Err("it is a weak key") } else { Ok(Self(key)) }
    }

    /// Reads a key in PEM, with or without the lines that a `.pub` file has before it.
    ///
    /// # Errors
    /// A sentence when there is no such key in the text.
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
        // 32 bytes always have this form.
        self.0.to_public_key_pem(LineEnding::LF).unwrap_or_default()
    }

    /// The raw bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// The key's name.
    #[must_use]
    pub fn id(&self) -> KeyId {
        let digest = Digest::of(self.0.as_bytes());
        let mut digits = [0; 16];
        for (slot, digit) in digits.iter_mut().zip(digest.hex().as_bytes()) {
            *slot = *digit;
        }
        KeyId(digits)
    }

    /// Whether `signature` is this key's, of exactly these bytes.
    ///
    /// The strict rules are used: every accepted signature has one form only.
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
        let bytes = fixed(deserializer, "a public key has 32 bytes in base64")?;
        Self::from_bytes(&bytes).map_err(serde::de::Error::custom)
    }
}

/// A key to sign with. Its bytes are wiped when it goes.
pub struct Signer(SigningKey);

impl Signer {
    /// Makes a key from 32 bytes, which must be random.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// Reads a key in PEM (PKCS #8).
    ///
    /// # Errors
    /// A sentence when it is none.
    pub fn from_pem(text: &str) -> Result<Self, &'static str> {
        SigningKey::from_pkcs8_pem(text)
            .map(Self)
            .map_err(|_| "it is not an Ed25519 signing key in PEM")
    }

    /// The key in PEM (PKCS #8, without the public key: so every program can read it).
    pub(crate) fn to_pem(&self) -> Zeroizing<String> {
        let pair = KeypairBytes { secret_key: self.0.to_bytes(), public_key: None };
        pair.to_pkcs8_pem(LineEnding::LF).unwrap_or_default()
    }

    /// The key that checks what this one signs.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Signs bytes. The same bytes always give the same signature.
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

/// A public key as it is kept: with when it was made, and when it stopped signing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyFile {
    /// The key.
    pub key: PublicKey,
    /// When it was made.
    pub created_at: Timestamp,
    /// When another key took its place.
    pub retired_at: Option<Timestamp>,
}

const TITLE: &str = "windlass public key";

impl KeyFile {
    /// The text of the `.pub` file: four lines for people, then PEM for programs.
    #[must_use]
    pub fn to_text(&self) -> String {
        let retired = self.retired_at.map_or_else(|| "no".to_owned(), |at| at.to_string());
        format!(
            "{TITLE}\nid: {}\ncreated: {}\nretired: {retired}\n{}",
            self.key.id(),
            self.created_at,
            self.key.to_pem()
        )
    }

    /// Reads the text of a `.pub` file, which must be as [`KeyFile::to_text`] writes it.
    ///
    /// # Errors
    /// A sentence when it is not.
    pub fn from_text(text: &str) -> Result<Self, &'static str> {
        let key = PublicKey::from_pem(text)?;
        let after = |word: &str| text.lines().find_map(|line| line.strip_prefix(word));
        let created_at = after("created: ").and_then(|at| at.parse().ok());
        let created_at = created_at.ok_or("it does not say when the key was made")?;
        let retired_at = match after("retired: ") {
            Some("no") => None,
            Some(at) => Some(at.parse().map_err(|_| "it does not say when the key was retired")?),
            None => return Err("it does not say whether the key was retired"),
        };
        let file = Self { key, created_at, retired_at };
        if file.to_text() == text { Ok(file) } else { Err("it is not in the form of a key file") }
    }
}
