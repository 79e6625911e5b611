//! The status of a work tree.

use std::path::PathBuf;

use super::{Git, GitError, path_of};

/// How many changed paths a status lists.
pub const DIRTY_PATHS_MAX: usize = 20;

const OPERATION: &str = "read the status";

/// Whether a work tree has uncommitted changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorktreeStatus {
    /// It has none.
    Clean,
    /// It has changed, staged, conflicting or untracked files; ignored files do not count.
    Dirty {
        /// The first [`DIRTY_PATHS_MAX`], relative to the top.
        paths: Vec<PathBuf>,
        /// The number of all of them.
        count: usize,
    },
}

impl Git {
    /// Reads the status of the work tree, untracked files and submodules included.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn status(&self) -> Result<WorktreeStatus, GitError> {
        let bytes = self
            .read(OPERATION)
            .args(["status", "--porcelain=v2", "-z", "--untracked-files=all"])
            .args(["--ignored=no", "--ignore-submodules=none", "--no-renames"])
            .output()?;
        let paths = changed_paths(&bytes).ok_or_else(|| GitError::unexpected(OPERATION, &bytes))?;
        if paths.is_empty() {
            return Ok(WorktreeStatus::Clean);
        }
        let first = paths.iter().take(DIRTY_PATHS_MAX).map(|path| path_of(path)).collect();
        Ok(WorktreeStatus::Dirty { paths: first, count: paths.len() })
    }
}

/// The paths of a status in porcelain format 2; `None` for anything that is not that.
fn changed_paths(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    if bytes.is_empty() {
        return Some(Vec::new());
    }
    let mut paths = Vec::new();
    let mut records = bytes.strip_suffix(b"\0")?.split(|byte| *byte == 0);
    while let Some(record) = records.next() {
        // How many fields stand before the path, which may hold spaces itself.
        let fields = match record.first()? {
            b'1' => 8,
            b'2' => 9,
            b'u' => 10,
            b'?' => 1,
            b'#' | b'!' => continue,
            _ => return None,
        };
        let path = record.splitn(fields + 1, |byte| *byte == b' ').nth(fields)?;
        if path.is_empty() {
            return None;
        }
        paths.push(path);
        if record.starts_with(b"2") {
            // Where it was.
            records.next().filter(|from| !from.is_empty())?;
        }
    }
    Some(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_record_is_read() {
        let status = b"# branch.oid x\0\
            1 .M N... 100644 100644 100644 aa bb a  file\0\
            2 R. N... 100644 100644 100644 aa bb R100 new\nname\0old \xff name\0\
            u UU N... 100644 100644 100644 100644 aa bb cc in conflict\0\
            ? \"quoted\" \xff\0! ignored\0";
        let expected: [&[u8]; 4] = [b"a  file", b"new\nname", b"in conflict", b"\"quoted\" \xff"];
        assert_eq!(changed_paths(status), Some(expected.to_vec()));
        assert_eq!(changed_paths(b""), Some(Vec::new()));
    }

    #[test]
    fn anything_else_is_refused() {
        for bad in [
            &b"? no end"[..],
            b"\0",
            b"x what\0",
            b"? \0",
            b"?\0",
            b"1 .M N... 100644\0",
            b"2 R. N... 100644 100644 100644 aa bb R100 new\0",
        ] {
            assert_eq!(changed_paths(bad), None, "{:?}", String::from_utf8_lossy(bad));
        }
    }
}
