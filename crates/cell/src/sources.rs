//! Checks what a cell shows of the machine, before it is mounted.

use std::io;
use std::path::{Path, PathBuf};

use crate::mounts::{MountError, failed};
use crate::spec::Mount;

/// What has been mounted: its path, and where it really lies on the machine if it is of the machine.
#[derive(Debug, Default)]
pub(crate) struct Shown(Vec<(PathBuf, Option<PathBuf>)>);

impl Shown {
    /// Adds a mount.
    pub fn add(&mut self, path: &Path, real: Option<PathBuf>) {
        self.0.push((path.to_owned(), real));
    }

    /// Checks that what was opened for a path inside an earlier mount is what that mount has there: a
    /// command in another cell may put a link in its place at any moment.
    pub fn check(&self, path: &Path, real: &Path) -> Result<(), MountError> {
        let holds = |(outer, _): &&(PathBuf, Option<PathBuf>)| path.starts_with(outer);
        let around = self.0.iter().filter(holds).max_by_key(|(outer, _)| outer.as_os_str().len());
        let expected = around.and_then(|(outer, at)| {
            path.strip_prefix(outer).ok().zip(at.as_ref()).map(|(rest, at)| at.join(rest))
        });
        match expected {
            // `join` with nothing appends a separator, which comparing paths ignores.
            Some(expected) if expected != real => {
                Err(failed("show", path)(io::Error::other("it is a link, or was just replaced")))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Refuses a mount that would show again what an empty folder covers: a repository around the home folder.
pub(crate) fn keep_covered(earlier: &[Mount], mount: &Mount) -> Result<(), MountError> {
    let path = match mount {
        Mount::Bind { path, .. } | Mount::BindAt { path, .. } | Mount::Overlay { path, .. } => path,
        Mount::Mask { .. } | Mount::Memory { .. } | Mount::Link { .. } => return Ok(()),
    };
    let covers = |earlier: &Mount| matches!(earlier, Mount::Memory { path: empty, .. } if empty.starts_with(path));
    if earlier.iter().any(covers) {
        let error = io::Error::other("it holds the home folder or the temporary folder");
        return Err(failed("show", path)(error));
    }
    Ok(())
}
