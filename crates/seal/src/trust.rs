//! Whom a reader trusts, and whom those vouch for.

use std::collections::BTreeSet;

use crate::key::{KeyFile, PublicKey};
use crate::rotation::Rotation;

/// Keys that are trusted, and statements by which trust reaches others.
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

    /// Trusts the keys that a project has kept.
    #[must_use]
    pub fn of_files(files: &[KeyFile]) -> Self {
        Self::new(files.iter().map(|file| file.key))
    }

    /// Also follows these statements; those that do not hold count for nothing.
    #[must_use]
    pub fn with_rotations(mut self, rotations: impl IntoIterator<Item = Rotation>) -> Self {
        self.rotations.extend(rotations);
        self
    }

    /// Whether nobody is trusted.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether a key is trusted, or a chain of statements leads to it from one that is; `more` are
    /// statements that came with what is checked.
    #[must_use]
    pub fn reaches(&self, key: &PublicKey, more: &[Rotation]) -> bool {
        let wanted = key.to_bytes();
        let mut reached: BTreeSet<[u8; 32]> = self.keys.iter().map(PublicKey::to_bytes).collect();
        let mut left: Vec<&Rotation> = self.rotations.iter().chain(more).collect();
        while !reached.contains(&wanted) {
            // Each round adds at least one key or ends; a statement is looked at closely only once.
            let mut found = Vec::new();
            left.retain(|rotation| {
                let ends = [rotation.from(), rotation.to()].map(PublicKey::to_bytes);
                let known = ends.map(|end| reached.contains(&end));
                if !known.contains(&true) {
                    return true;
                }
                if known.contains(&false) && rotation.holds() {
                    found.extend(ends);
                }
                false
            });
            if found.is_empty() {
                return false;
            }
            reached.extend(found);
        }
        true
    }
}
