//! Trusted keys, and the rotations that extend trust to other keys.

use std::collections::BTreeSet;

use crate::key::{KeyFile, PublicKey};
use crate::rotation::Rotation;

/// A set of trusted keys, with rotations that extend trust to other keys.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    keys: Vec<PublicKey>,
    rotations: Vec<Rotation>,
}

impl Trust {
    /// Trusts these keys.
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = PublicKey>) -> Self {
        Self { keys: keys.into_iter().collect(), rotations: Vec::new() }
    }

    /// Trusts the keys of these files.
    #[must_use]
    pub fn of_files(files: &[KeyFile]) -> Self {
        Self::new(files.iter().map(|file| file.key))
    }

    /// Adds rotations; those that are not valid are ignored.
    #[must_use]
    pub fn with_rotations(mut self, rotations: impl IntoIterator<Item = Rotation>) -> Self {
        self.rotations.extend(rotations);
        self
    }

    /// Whether a key is trusted, directly or through a chain of rotations; `more` are the rotations in the
    /// document that is being verified.
    #[must_use]
    pub fn trusts(&self, key: &PublicKey, more: &[Rotation]) -> bool {
        let wanted = key.to_bytes();
        let mut trusted: BTreeSet<[u8; 32]> = self.keys.iter().map(PublicKey::to_bytes).collect();
        let mut unused: Vec<&Rotation> = self.rotations.iter().chain(more).collect();
        while !trusted.contains(&wanted) {
            // Each round adds a key or is the last; each signature is verified at most once.
            let mut added = Vec::new();
            unused.retain(|rotation| {
                let ends = [rotation.from(), rotation.to()].map(PublicKey::to_bytes);
                let known = ends.map(|end| trusted.contains(&end));
                if !known.contains(&true) {
                    return true;
                }
                if known.contains(&false) && rotation.is_valid() {
                    added.extend(ends);
                }
                false
            });
            if added.is_empty() {
                return false;
            }
            trusted.extend(added);
        }
        true
    }
}
