//! Settings files of clients: they belong to the user, so that links, permissions and foreign contents stay.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use windlass_beneath::{Access, Folder};
use windlass_hooks::{FILE_BYTES_MAX, Root};
use windlass_kernel::Code;

use crate::failure::Failure;
use crate::input::{self, unreadable};
use crate::{atomic, user_folders};

/// The permissions of a new file of the user.
const USER_MODE: u32 = 0o600;
/// The permissions of a new file of a project, which others may read.
const PROJECT_MODE: u32 = 0o644;

/// A file of a client, as it was when it was read.
#[derive(Debug)]
pub struct ClientFile {
    /// Where the client looks for it.
    pub path: PathBuf,
    /// What was in it; nothing if there was no such file.
    pub bytes: Option<Vec<u8>>,
    /// Where links lead.
    real: PathBuf,
    /// Its permissions, or those of a new file.
    mode: u32,
}

/// The folder of a client's files.
pub fn folder_of(root: Root, project: &Path) -> Result<PathBuf, Failure> {
    let Root::User { variable, below, in_home } = root else { return Ok(project.to_owned()) };
    match std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from) {
        Some(folder) if folder.is_absolute() => Ok(folder.join(below)),
        Some(folder) => {
            let message = format!("{variable} is `{}`, which is relative", folder.display());
            Err(Failure::new(Code::ConfigInvalid, message)
                .hint(format!("set {variable} to an absolute path, or unset it")))
        }
        None => user_folders::home().map(|home| home.join(in_home)).ok_or_else(|| {
            let message = format!("neither {variable} nor HOME names a folder");
            Failure::new(Code::ConfigInvalid, message).hint("set HOME to your home folder")
        }),
    }
}

impl ClientFile {
    /// Reads a file, which need not exist. A file of a project must not be a link that leads out of the `project`.
    pub fn read(path: &Path, project: Option<&Path>) -> Result<Self, Failure> {
        let real = real_path(path)?;
        if let Some(root) = project.filter(|root| !real.starts_with(root)) {
            let message = format!(
                "`{}` leads to `{}`, which is outside of `{}`",
                path.display(),
                real.display(),
                root.display()
            );
            return Err(Failure::new(Code::PathOutsideWorkspace, message)
                .hint("replace the link by a file or folder, or install with `--user`"));
        }
        let new = if project.is_some() { PROJECT_MODE } else { USER_MODE };
        let found = match std::fs::metadata(&real) {
            Ok(found) => Some(found.permissions().mode() & 0o7777),
            Err(error) if is_missing(&error) => None,
            Err(error) => return Err(unreadable(path, &error)),
        };
        let bytes_max = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX);
        let bytes = found.map(|_| input::read_real(&real, bytes_max)).transpose()?;
        Ok(Self { path: path.to_owned(), bytes, real, mode: found.unwrap_or(new) })
    }

    /// Fails if somebody has changed the file since it was read.
    pub fn require_unchanged(&self) -> Result<(), Failure> {
        let bytes_max = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX);
        let now =
            if self.real.exists() { Some(input::read_real(&self.real, bytes_max)?) } else { None };
        if now == self.bytes {
            return Ok(());
        }
        let message = format!("`{}` has changed meanwhile", self.path.display());
        Err(Failure::new(Code::WorkspaceChanged, message).hint("run the command again"))
    }

    /// The folders that writing the file would make, outermost first.
    pub fn missing_folders(&self) -> Vec<PathBuf> {
        let parents = self.real.ancestors().skip(1);
        let mut missing: Vec<PathBuf> =
            parents.take_while(|folder| !folder.exists()).map(Path::to_owned).collect();
        missing.reverse();
        missing
    }

    /// Gives the file these bytes, or deletes it.
    pub fn put(&self, bytes: Option<&[u8]>) -> Result<(), Failure> {
        let put = match bytes {
            Some(bytes) => self.write(bytes),
            None => match self.remove() {
                Err(error) if is_missing(&error) => Ok(()),
                removed => removed,
            },
        };
        put.map_err(|error| {
            let message = format!("`{}` cannot be written: {error}", self.real.display());
            Failure::new(Code::FileUnwritable, message)
        })
    }

    // Its folder may belong to an agent, too: a link that took the place of one since then is refused.
    fn write(&self, bytes: &[u8]) -> std::io::Result<()> {
        let (folder, name) = atomic::parts(&self.real)?;
        let access = match &self.bytes {
            Some(_) => Access::Exactly(self.mode),
            // A new file has no more permissions than the user's mask allows.
            None => Access::AtMost(self.mode),
        };
        Folder::make_real(folder)?.replace_durably(name, bytes, access)
    }

    fn remove(&self) -> std::io::Result<()> {
        let (folder, name) = atomic::parts(&self.real)?;
        let folder = Folder::open_real(folder)?;
        folder.remove_file(name)?;
        folder.sync()
    }
}

fn is_missing(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound)
}

/// The path without links, of a file that need not exist.
pub fn real_path(path: &Path) -> Result<PathBuf, Failure> {
    for part in path.ancestors() {
        match std::fs::symlink_metadata(part) {
            Ok(_) => {
                let real = part.canonicalize().map_err(|error| {
                    let message = format!("`{}` leads nowhere: {error}", part.display());
                    Failure::new(Code::FileUnreadable, message)
                        .hint("mend or remove the link, then run the command again")
                })?;
                let rest = path.strip_prefix(part).unwrap_or(Path::new(""));
                return Ok(if rest.as_os_str().is_empty() { real } else { real.join(rest) });
            }
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(unreadable(part, &error)),
        }
    }
    Ok(path.to_owned())
}
