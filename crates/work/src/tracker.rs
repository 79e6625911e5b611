//! The interface of a tracker.

use crate::{Change, Item, LinkKind, NewItem, WorkError};

/// A tracker of work. Every request has a deadline of its own.
pub trait Tracker: Send + Sync {
    /// `bd` or `built-in`.
    fn name(&self) -> &'static str;

    /// Items that are not closed, the most urgent and then the oldest first.
    ///
    /// # Errors
    /// [`WorkError`].
    fn open(&self, limit: usize) -> Result<Vec<Item>, WorkError>;

    /// Items of this assignee that are not closed, in the order of [`open`](Self::open).
    ///
    /// # Errors
    /// [`WorkError`].
    fn assigned(&self, to: &str, limit: usize) -> Result<Vec<Item>, WorkError>;

    /// Items that are not closed and are blocked, with their blockers, in the order of
    /// [`open`](Self::open).
    ///
    /// # Errors
    /// [`WorkError`].
    fn blocked(&self, limit: usize) -> Result<Vec<Item>, WorkError>;

    /// The items that were changed last, closed ones too.
    ///
    /// # Errors
    /// [`WorkError`].
    fn recent(&self, limit: usize) -> Result<Vec<Item>, WorkError>;

    /// One item.
    ///
    /// # Errors
    /// [`WorkError`].
    fn show(&self, id: &str) -> Result<Item, WorkError>;

    /// Creates an item, which is open.
    ///
    /// # Errors
    /// [`WorkError`].
    fn create(&self, new: &NewItem) -> Result<Item, WorkError>;

    /// Changes an item. A status opens a closed one again.
    ///
    /// # Errors
    /// [`WorkError`].
    fn update(&self, id: &str, change: &Change) -> Result<Item, WorkError>;

    /// Closes an item. One that is closed stays as it is.
    ///
    /// # Errors
    /// [`WorkError`].
    fn close(&self, id: &str, reason: &str) -> Result<Item, WorkError>;

    /// Links two items: `from` blocks, is related to, or is the parent of `to`. A link that is there
    /// stays.
    ///
    /// # Errors
    /// [`WorkError`]; a cycle is invalid.
    fn link(&self, from: &str, to: &str, kind: LinkKind) -> Result<(), WorkError>;

    /// Exchanges items with where others have them, and says in one line what was done.
    ///
    /// # Errors
    /// [`WorkError`].
    fn sync(&self) -> Result<String, WorkError>;
}
