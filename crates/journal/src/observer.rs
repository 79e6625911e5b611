//! Observers of the entries of a trace as they are folded.

use thiserror::Error;
use windlass_kernel::{Code, Entry};

use crate::fold::Fold;

/// Where a folded entry comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was recorded before and has been read back.
    Read,
    /// It is being recorded now.
    Appended,
}

/// One entry that was folded.
pub struct Step<'a, F: Fold> {
    /// The entry.
    pub entry: &'a Entry,
    /// Its artifact.
    pub artifact: &'a F::Artifact,
    /// The state after it.
    pub state: &'a F,
    /// Whether it was read back or is new.
    pub origin: Origin,
}

/// Sees every entry of a trace once, in order. An observer decides nothing.
///
/// A [`Recorder`](crate::Recorder) owns its observers: when a commit fails, they are dropped with it,
/// so none keeps what never became durable.
pub trait Observer<F: Fold>: Send {
    /// Called before an entry is folded into `state`.
    fn before(&mut self, state: &F, artifact: &F::Artifact);

    /// Called after an entry was folded. It may not be durable yet.
    fn after(&mut self, step: &Step<'_, F>);

    /// Called when everything seen so far is durable: the time to write or to print.
    ///
    /// # Errors
    /// [`ObserverError`]; the entries are durable all the same.
    fn durable(&mut self, state: &F) -> Result<(), ObserverError>;
}

/// An observer could not follow the journal.
#[derive(Debug, Error)]
#[error("{message}")]
pub struct ObserverError {
    /// The stable code.
    pub code: Code,
    /// What could not be done.
    pub message: String,
    /// The cause, if the operating system names one.
    #[source]
    pub source: Option<std::io::Error>,
}
