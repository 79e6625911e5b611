//! A crash point: the place after each write of a change, at which tests end it.

use std::cell::Cell;
use std::io;

thread_local! {
    /// After how many writes the changes of this thread end.
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Ends the changes of this thread after so many writes, as if the process had died; `None` lets them go on. For tests.
#[doc(hidden)]
pub fn die_after(writes: Option<usize>) {
    LEFT.set(writes);
}

/// Passes a write.
pub(super) fn point() -> io::Result<()> {
    match LEFT.get() {
        Some(0) => Err(io::Error::other("the process is dead")),
        Some(more) => {
            LEFT.set(Some(more - 1));
            Ok(())
        }
        None => Ok(()),
    }
}
