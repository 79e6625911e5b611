//! Whether a snapshot can be restored from where a workspace stands.

use super::objects::{Got, Objects, Trouble};
use super::plan::plain;
use super::{SnapshotError, Snapshots};
use crate::TreeId;

impl Snapshots {
    /// Reads everything that a restore from one snapshot to another would write.
    ///
    /// # Errors
    /// [`SnapshotError::Corrupt`] names the first content that is missing or not what its name says.
    pub fn readable(&self, from: &TreeId, to: &TreeId) -> Result<(), SnapshotError> {
        let mut objects = Objects::new(self);
        for change in self.changes(from, to)? {
            let Some(entry) = plain(&change.after) else { continue };
            let got = objects.copy(&entry.object, &mut |_| Ok(()));
            let got = got.map_err(|trouble| match trouble {
                Trouble::Git(error) => SnapshotError::from(error),
                Trouble::Sink(error) => SnapshotError::file("read", &self.private, &error),
            })?;
            if got == Got::Bad {
                let (tree, object) = (to.clone(), entry.object.clone());
                return Err(SnapshotError::Corrupt { tree, object });
            }
        }
        Ok(())
    }
}
