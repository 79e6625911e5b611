//! The file that a call writes: what it is now, and its replacement.

use std::fs::{File, Metadata};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, fchmod, fsync, mkdirat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use windlass_kernel::Digest;
use windlass_kernel::artifact::FileChange;

use crate::error::FilesError;
use crate::files::version_of;
use crate::limits::FILE_BYTES_MAX;
use crate::read::each_chunk;
use crate::replacement::{Replacement, ReplacementError};
use crate::root::{Root, text_of};

/// The file that a call writes.
pub(crate) struct Target {
    path: PathBuf,
    pub(crate) text: String,
    present: Option<Present>,
}

/// A file that exists.
struct Present {
    file: File,
    metadata: Metadata,
    digest: Digest,
    /// Its content, if it was asked for.
    content: Vec<u8>,
}

/// Whether the content of the present file is needed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    Keep,
    OnlyDigest,
}

/// What is left to do for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Write,
    /// The file is already as it is to become.
    Nothing,
}

impl Target {
    /// Finds the file, and refuses one that must not be replaced.
    pub(crate) fn new(root: &Root, path: &str, content: Content) -> Result<Self, FilesError> {
        let resolved = root.resolve_for_writing(path)?;
        let text = text_of(&resolved.path);
        if resolved.kind.is_none() {
            return Ok(Self { path: resolved.path, text, present: None });
        }
        let file = root.open_file(&resolved)?;
        let metadata = file.metadata().map_err(|error| FilesError::io("look at", &text, &error))?;
        let refused = |why: &str| Err(FilesError::Refused(format!("`{text}` {why}")));
        if metadata.nlink() > 1 {
            return refused(
                "has several names (hard links), and writing would part them; write to a new file",
            );
        }
        if metadata.mode() & 0o200 == 0 {
            return refused("is read-only");
        }
        let mut bytes = Vec::new();
        let mut hash = Sha256::new();
        each_chunk(&file, &text, FILE_BYTES_MAX, |chunk| {
            hash.update(chunk);
            if content == Content::Keep {
                bytes.extend_from_slice(chunk);
            }
        })?;
        let digest = Digest::from_bytes(hash.finalize().into());
        let present = Some(Present { file, metadata, digest, content: bytes });
        Ok(Self { path: resolved.path, text, present })
    }

    /// The digest of the present content.
    pub(crate) fn before(&self) -> Option<Digest> {
        self.present.as_ref().map(|present| present.digest)
    }

    /// The present content, if it was asked for.
    pub(crate) fn content(&self) -> Option<&[u8]> {
        self.present.as_ref().map(|present| present.content.as_slice())
    }

    /// The change to a file with this new digest.
    pub(crate) fn change(&self, after: Digest) -> FileChange {
        FileChange { path: self.text.clone(), before: self.before(), after }
    }

    /// Compares the present file with what was foreseen.
    pub(crate) fn next_step(&self, foreseen: &FileChange) -> Result<Step, FilesError> {
        let text = &self.text;
        if foreseen.path != *text {
            let message =
                format!("`{text}` is not the file that was foreseen; make the call again");
            return Err(FilesError::Changed(message));
        }
        if self.before() == Some(foreseen.after) {
            return Ok(Step::Nothing);
        }
        if self.before() == foreseen.before {
            return Ok(Step::Write);
        }
        Err(changed(text))
    }

    /// Replaces the file by one with this content, or creates it.
    pub(crate) fn write(
        &self,
        root: &Root,
        content: &[u8],
        executable: Option<bool>,
    ) -> Result<(), FilesError> {
        let text = &self.text;
        let failed = |error| FilesError::system("write", text, error);
        if u64::try_from(content.len()).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
            let message =
                format!("`{text}` would be larger than {FILE_BYTES_MAX} bytes; write less");
            return Err(FilesError::TooLarge(message));
        }
        let name = self.path.file_name().ok_or_else(|| {
            FilesError::Invalid(format!("`{text}` is a folder; use a path of a file"))
        })?;
        let folder = self.path.parent().unwrap_or(Path::new(""));
        make_folders(root, folder).map_err(failed)?;
        let folder = root.open_folder(folder).map_err(failed)?;
        let present = self.present.as_ref().map(|present| &present.metadata);
        let replaced = Replacement::new(folder, name, content).and_then(|replacement| {
            replacement.permit(present, self.mode(executable))?;
            replacement.commit(present)
        });
        replaced.map_err(|error| match error {
            ReplacementError::Changed => changed(text),
            ReplacementError::Owner => FilesError::Refused(format!(
                "`{text}` belongs to another user, and its owner would change; write to a new file"
            )),
            ReplacementError::System(error) => failed(error),
        })
    }

    /// Makes a file that already has its content executable or not.
    pub(crate) fn set_mode(&self, executable: Option<bool>) -> Result<(), FilesError> {
        let Some(present) = &self.present else { return Ok(()) };
        let mode = self.mode(executable);
        if present.metadata.permissions().mode() & 0o777 == mode {
            return Ok(());
        }
        fchmod(&present.file, Mode::from_raw_mode(mode))
            .and_then(|()| fsync(&present.file))
            .map_err(|error| FilesError::system("change the mode of", &self.text, error))
    }

    /// The permissions that the file is to have. Bits that lend the owner's rights are not kept.
    fn mode(&self, executable: Option<bool>) -> u32 {
        let mode = self.present.as_ref().map_or(0o644, |present| present.metadata.mode() & 0o777);
        match executable {
            None => mode,
            Some(false) => mode & !0o111,
            // Whoever may read it may execute it.
            Some(true) => mode | ((mode & 0o444) >> 2),
        }
    }

    /// Refuses a call whose version is not that of the present content.
    pub(crate) fn check_version(&self, version: Option<&str>) -> Result<(), FilesError> {
        let text = &self.text;
        let present = self.before().map(|digest| version_of(&digest));
        match (version, present) {
            (None, _) => Ok(()),
            (Some(version), Some(present)) if version == present => Ok(()),
            (Some(_), Some(_)) => Err(changed(text)),
            (Some(_), None) => Err(FilesError::Changed(format!(
                "`{text}` does not exist any more; leave `version` out to create it"
            ))),
        }
    }
}

fn changed(text: &str) -> FilesError {
    let advice = "read it again, then make the call for its present text and `version`";
    FilesError::Changed(format!("`{text}` has changed meanwhile; {advice}"))
}

/// Makes the folder and those that it lies in.
fn make_folders(root: &Root, folder: &Path) -> Result<(), Errno> {
    let mut made = PathBuf::new();
    for part in folder {
        let parent = made.clone();
        made.push(part);
        match root.open_folder(&made) {
            Ok(_) => {}
            Err(Errno::NOENT) => {
                let parent = root.open_folder(&parent)?;
                match mkdirat(&parent, part, Mode::from_raw_mode(0o755)) {
                    Ok(()) => fsync(&parent)?,
                    // Somebody else was quicker.
                    Err(Errno::EXIST) => {}
                    Err(error) => return Err(error),
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
