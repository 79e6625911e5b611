//! Feeds the files of a workspace to a validator, within limits and never a file outside the workspace.

use std::fs::Metadata;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use windlass_beneath::Folder;
use windlass_governance::{Content, FileValidator, Observation};
use windlass_workspace::{WalkedFile, is_private, walk_files};

/// The maximum number of matching files.
const FILES_MAX: usize = 10_000;
/// The maximum size of one file, and of all files of one rule.
const FILE_BYTES_MAX: u64 = 64 << 20;
const ALL_BYTES_MAX: u64 = 1 << 30;

/// Inspects the changed files, or all files.
pub(super) fn inspect(
    workspace: &Path,
    validator: FileValidator,
    changed: Option<&[String]>,
) -> Observation {
    let root = match workspace.canonicalize() {
        Ok(root) => root,
        Err(error) => {
            return Observation::Unavailable(format!("the workspace cannot be read: {error}"));
        }
    };
    let mut files = FileInspection { root, validator, inspected: 0, bytes: 0 };
    let end = match changed {
        Some(paths) => paths.iter().try_for_each(|path| files.inspect_changed(path)),
        None => walk_files(&files.root.clone(), &mut |file| files.inspect_walked(file)),
    };
    match end {
        Ok(()) => files.validator.finish(),
        Err(why) => Observation::Unavailable(why),
    }
}

struct FileInspection {
    root: PathBuf,
    validator: FileValidator,
    inspected: usize,
    bytes: u64,
}

impl FileInspection {
    fn inspect_changed(&mut self, path: &str) -> Result<(), String> {
        if path.split('/').next().is_some_and(is_private) || !self.validator.matches(path) {
            return Ok(());
        }
        // The replacement character: the real name of the file is not UTF-8.
        if path.contains('\u{fffd}') {
            self.validator.check(path, 1, Content::Unreadable("its name is not UTF-8"));
            return Ok(());
        }
        match std::fs::symlink_metadata(self.root.join(path)) {
            // The file was removed, or one of its parents is no longer a folder.
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(())
            }
            Ok(metadata) if metadata.is_dir() => Ok(()),
            Ok(_) | Err(_) => self.inspect_file(path),
        }
    }

    fn inspect_walked(&mut self, file: WalkedFile<'_>) -> Result<(), String> {
        let WalkedFile { path, kind, is_utf8 } = file;
        if kind.is_dir() {
            self.validator.add_violation(&format!("`{path}` has a name that is not UTF-8"));
        } else if self.validator.matches(path) {
            if is_utf8 {
                return self.inspect_file(path);
            }
            self.validator.check(path, 1, Content::Unreadable("its name is not UTF-8"));
        }
        Ok(())
    }

    /// Inspects one file that the validator wants.
    fn inspect_file(&mut self, path: &str) -> Result<(), String> {
        if self.inspected >= FILES_MAX {
            return Err(format!("the patterns match more than {FILES_MAX} files"));
        }
        self.inspected += 1;
        match self.read(path) {
            Ok(None) => {}
            Ok(Some((bytes, text))) => {
                self.bytes = self.bytes.saturating_add(bytes);
                self.validator.check(path, bytes, Content::Bytes(&text));
            }
            Err(why) => self.validator.check(path, 1, Content::Unreadable(&why)),
        }
        if self.bytes > ALL_BYTES_MAX {
            return Err(format!("the patterns match more than {ALL_BYTES_MAX} bytes"));
        }
        Ok(())
    }

    /// Returns the size and, if needed, the content of a file; `None` for a link to a folder in the
    /// workspace, whose files are inspected under their own paths.
    fn read(&self, path: &str) -> Result<Option<(u64, Vec<u8>)>, String> {
        let unresolved = |error: std::io::Error| {
            let missing = error.kind() == ErrorKind::NotFound;
            if missing { "it leads nowhere".to_owned() } else { error.to_string() }
        };
        let real = self.root.join(path).canonicalize().map_err(unresolved)?;
        let inside = real.strip_prefix(&self.root).map_err(|_| "it leads outside the workspace")?;
        let top = inside.components().next();
        if top.is_some_and(|top| top.as_os_str().to_str().is_some_and(is_private)) {
            return Err("it leads outside the work".to_owned());
        }
        let fault = |error: std::io::Error| error.to_string();
        let kind = std::fs::symlink_metadata(&real).map_err(fault)?;
        if kind.is_dir() {
            return Ok(None);
        }
        is_file(&kind)?;
        // Does not block on a pipe, and does not follow a link created since.
        let file = Folder::file_real(&real).map_err(fault)?;
        let metadata = file.metadata().map_err(fault)?;
        is_file(&metadata)?;
        let bytes = metadata.len();
        if !self.validator.needs_content(bytes) {
            return Ok(Some((bytes, Vec::new())));
        }
        if bytes > FILE_BYTES_MAX {
            return Err(format!("it is larger than {FILE_BYTES_MAX} bytes"));
        }
        let mut text = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(fault)?;
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        if bytes > FILE_BYTES_MAX {
            return Err(format!("it is larger than {FILE_BYTES_MAX} bytes"));
        }
        Ok(Some((bytes, text)))
    }
}

fn is_file(metadata: &Metadata) -> Result<(), String> {
    if metadata.is_file() { Ok(()) } else { Err("it is not a file".to_owned()) }
}
