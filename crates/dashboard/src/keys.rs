//! The keys with which people sign their decisions, as far as a page must know of them.

use windlass_kernel::Signed;

/// The key of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// They have none, so they cannot decide.
    Missing,
    /// It signs without a question.
    Ready,
    /// It needs its passphrase.
    Locked,
}

/// Knows the keys of people.
pub trait Keys: Send + Sync {
    /// The key of whoever has this name.
    fn key_of(&self, name: &str) -> Key;

    /// Whether a signature is of somebody who can decide now: their key was not revoked.
    fn knows(&self, signed: &Signed) -> bool;
}
