//! The commits of the repository that a workspace belongs to.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::mark::Mark;
use crate::rel_path::RelPath;

/// The objects that refs and current commits were.
pub type Tips = BTreeSet<String>;

/// A path, and what is there now.
pub type Asked<'a> = (&'a RelPath, Option<&'a Mark>);

/// Answers what commits have. Whoever may commit has been asked before, but what commands have committed counts for nothing: it
/// is doubted, by a name for each file and content.
pub trait History {
    /// The names of what commits have brought that are there now and were not with these tips: files that are asked about, and links.
    ///
    /// # Errors
    /// Why it cannot be told. Then nothing counts as committed.
    fn brought(
        &self,
        tips: &Tips,
        is_asked: &dyn Fn(&RelPath) -> bool,
    ) -> io::Result<BTreeSet<String>>;

    /// Those of these paths at which there is what the current commit has, without what is doubted.
    fn committed(&self, asked: &[Asked<'_>], doubted: &BTreeSet<String>) -> BTreeSet<RelPath>;

    /// Those of these names whose file is in the workspace as the name says.
    fn present(
        &self,
        names: &BTreeSet<String>,
        marks: &BTreeMap<RelPath, Mark>,
    ) -> BTreeSet<String>;
}
