//! The text form of a stored public key.

use windlass_kernel::Timestamp;
pub use windlass_kernel::{KeyId, PublicKey, Signature, Signer};

/// A stored public key with its times of creation and retirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyFile {
    /// The key.
    pub key: PublicKey,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time another key replaced it, if that happened.
    pub retired_at: Option<Timestamp>,
}

const TITLE: &str = "windlass public key";

impl KeyFile {
    /// The text of the `.pub` file: four readable lines, then PEM.
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

    /// Reads the text of a `.pub` file in the exact form of [`KeyFile::to_text`].
    ///
    /// # Errors
    /// A message if it has another form.
    pub fn from_text(text: &str) -> Result<Self, &'static str> {
        let key = PublicKey::from_pem(text)?;
        let after = |word: &str| text.lines().find_map(|line| line.strip_prefix(word));
        let created_at = after("created: ").and_then(|at| at.parse().ok());
        let created_at = created_at.ok_or("it has no valid time of creation")?;
        let retired_at = match after("retired: ") {
            Some("no") => None,
            Some(at) => Some(at.parse().map_err(|_| "it has no valid time of retirement")?),
            None => return Err("it has no `retired` line"),
        };
        let file = Self { key, created_at, retired_at };
        if file.to_text() == text { Ok(file) } else { Err("it is not a valid key file") }
    }
}
