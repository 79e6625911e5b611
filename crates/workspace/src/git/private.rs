//! A git directory of our own, for operations on objects alone: no setting, attribute or hook of the
//! repository applies, since none is read.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::error::GitCause;
use super::{Access, GitError, Invocation};

/// A temporary git directory with the objects of a repository.
pub(super) struct PrivateDir {
    folder: TempDir,
    objects: PathBuf,
    alternates: Option<PathBuf>,
}

/// The file with the commits whose parents a shallow clone does not have.
const SHALLOW: &str = "shallow";
/// The number of hex digits of an id in a repository with SHA-256.
const SHA256_DIGITS: usize = 64;

impl PrivateDir {
    /// Creates one for the objects in a directory. The digits of an id give the hash function.
    pub fn new(operation: &'static str, objects: PathBuf, digits: usize) -> Result<Self, GitError> {
        let fail = |error: io::Error| GitError::new(operation, GitCause::File(error.to_string()));
        let folder = TempDir::with_prefix("windlass-git-").map_err(fail)?;
        fill(folder.path(), digits == SHA256_DIGITS).map_err(fail)?;
        Ok(Self { folder, objects, alternates: None })
    }

    /// Ends histories where they end in a shallow clone.
    pub fn with_ends_of(self, operation: &'static str, common: &Path) -> Result<Self, GitError> {
        match fs::copy(common.join(SHALLOW), self.folder.path().join(SHALLOW)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(GitError::new(operation, GitCause::File(error.to_string())))
            }
            Ok(_) | Err(_) => Ok(self),
        }
    }

    /// Adds the objects of another directory, which are only read.
    pub fn with_alternates(mut self, objects: PathBuf) -> Self {
        self.alternates = Some(objects);
        self
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn git(&self, operation: &'static str, access: Access) -> Invocation<'_> {
        let git = Invocation::new(operation, self.folder.path(), access)
            .private()
            .env("GIT_DIR", self.folder.path())
            .env("GIT_OBJECT_DIRECTORY", &self.objects);
        match &self.alternates {
            Some(objects) => git.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted(objects)),
            None => git,
        }
    }
}

fn fill(folder: &Path, sha256: bool) -> io::Result<()> {
    for name in ["objects", "refs"] {
        fs::create_dir(folder.join(name))?;
    }
    let format = if sha256 { "1\n[extensions]\n\tobjectFormat = sha256" } else { "0" };
    let settings = format!(
        "[core]\n\trepositoryformatversion = {format}\n[core]\n\tbare = true\n\
         \tattributesFile = /dev/null\n\tfsync = objects,reference\n"
    );
    fs::write(folder.join("config"), settings)?;
    fs::write(folder.join("HEAD"), "ref: refs/heads/none\n")
}

/// A path as git reads it in a list that colons separate.
pub(crate) fn quoted(path: &Path) -> std::ffi::OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut quoted = b"\"".to_vec();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend([b'\\', *byte]),
            0x20..=0x7e | 0x80.. => quoted.push(*byte),
            _ => quoted.extend(format!("\\{byte:03o}").into_bytes()),
        }
    }
    quoted.push(b'"');
    std::ffi::OsString::from_vec(quoted)
}
