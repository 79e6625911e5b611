//! What attributes of files are read from, and those that are known from the last time.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use windlass_kernel::Digest;

use super::filters::{Attribute, Files};
use super::known::{self, KnownAttributes};
use super::takeover::read_file;
use super::{Git, GitError, path_of};

/// The file in a folder that gives attributes to the files below it.
const ATTRIBUTES: &str = ".gitattributes";
/// Git reads no larger one.
const ATTRIBUTES_BYTES_MAX: u64 = 100 * 1024 * 1024;

impl Git {
    /// A digest of everything that attributes of files in the work tree are read from. The list of paths decides in
    /// which folders git looks; `None` if it would look into the index, too.
    pub(super) fn attribute_sources(
        &self,
        operation: &'static str,
        paths: &[Vec<u8>],
        settings: &[u8],
    ) -> Result<Option<String>, GitError> {
        let mut folders: BTreeSet<&[u8]> = BTreeSet::from([&b""[..]]);
        let mut last: &[u8] = b"";
        for path in paths {
            let mut folder = parent_of(path.strip_suffix(b"\0").unwrap_or(path));
            if folder == last {
                continue;
            }
            last = folder;
            while folders.insert(folder) {
                folder = parent_of(folder);
            }
        }
        let common = self.common_dir()?;
        let in_folders: Vec<PathBuf> = folders
            .into_iter()
            .map(|folder| self.root().join(path_of(folder)).join(ATTRIBUTES))
            .collect();
        let in_tree = |path: &&Vec<u8>| {
            let path = path.strip_suffix(b"\0").unwrap_or(path);
            path.rsplit(|byte| *byte == b'/').next() == Some(ATTRIBUTES.as_bytes())
        };
        let is_missing = |path: &Vec<u8>| {
            let path = path.strip_suffix(b"\0").unwrap_or(path);
            let found = fs::symlink_metadata(self.root().join(path_of(path)));
            !found.is_ok_and(|found| found.is_file())
        };
        let from_tree =
            settings.split(|byte| *byte == 0).any(|field| field.starts_with(b"attr.tree"));
        if from_tree || paths.iter().filter(in_tree).any(is_missing) {
            return Ok(None);
        }
        let mut sources = settings.to_vec();
        let mut add = |file: &Path, bytes: io::Result<Vec<u8>>| match bytes {
            Ok(bytes) => {
                let digest = Digest::of(&bytes);
                sources.extend_from_slice(file.as_os_str().as_encoded_bytes());
                sources.extend_from_slice(format!("\0{}\n", digest.hex().as_str()).as_bytes());
                true
            }
            Err(error) => is_absence(&error),
        };
        for file in in_folders {
            // Whoever works there may have put anything in its place.
            if fs::symlink_metadata(&file).is_ok_and(|found| is_special(found.file_type())) {
                let reason = format!("`{}` is not a file", file.display());
                return Err(GitError::refused(operation, &reason));
            }
            if !add(&file, read_file(&file, ATTRIBUTES_BYTES_MAX)) {
                return Ok(None);
            }
        }
        let others = [common.join("info/attributes")].into_iter();
        for file in others.chain(user_attributes(settings, self.root())) {
            // The user's own may be links.
            let bytes = file.canonicalize().and_then(|real| read_file(&real, ATTRIBUTES_BYTES_MAX));
            if !add(&file, bytes) {
                return Ok(None);
            }
        }
        Ok(Some(Digest::of(&sources).hex().as_str().to_owned()))
    }

    /// As [`Git::attributes`], but paths that were looked up before, with the same sources, are not looked up again.
    pub(super) fn known_attributes(
        &self,
        operation: &'static str,
        files: Files<'_>,
        paths: &[Vec<u8>],
        sources: Option<&str>,
    ) -> Result<Vec<Attribute>, GitError> {
        let Some(sources) = sources else { return self.attributes(operation, files, paths) };
        let last = known::take_attributes(self.root()).filter(|last| last.sources == sources);
        let mut last = last.unwrap_or_else(|| KnownAttributes::new(sources));
        let new: Vec<Vec<u8>> =
            paths.iter().filter(|path| !last.paths.contains(*path)).cloned().collect();
        if !new.is_empty() {
            last.found.extend(self.attributes(operation, files, &new)?);
            last.paths.extend(new);
        }
        let mut found = last.found.clone();
        if !found.is_empty() {
            let present: BTreeSet<&[u8]> =
                paths.iter().map(|path| path.strip_suffix(b"\0").unwrap_or(path)).collect();
            found.retain(|(path, _, _)| present.contains(path.as_slice()));
        }
        known::keep_attributes(self.root(), last);
        Ok(found)
    }
}

/// The files outside of the work tree that attributes are read from, apart from that of the repository.
fn user_attributes(settings: &[u8], root: &Path) -> Vec<PathBuf> {
    let mut files =
        vec![PathBuf::from("/etc/gitattributes"), PathBuf::from("/usr/local/etc/gitattributes")];
    let folder = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    files.extend(folder("XDG_CONFIG_HOME").map(|folder| folder.join("git/attributes")));
    let home = folder("HOME");
    files.extend(home.iter().map(|home| home.join(".config/git/attributes")));
    for record in settings.split(|byte| *byte == 0) {
        if let Some(value) = record.strip_prefix(b"core.attributesfile\n") {
            match (value.strip_prefix(b"~/"), &home) {
                (Some(inside), Some(home)) => files.push(home.join(path_of(inside))),
                _ => files.push(root.join(path_of(value))),
            }
        }
    }
    files
}

/// Whether to read it may take for ever, also for git.
fn is_special(kind: fs::FileType) -> bool {
    kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device()
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The folder of a path; empty for the top.
fn parent_of(path: &[u8]) -> &[u8] {
    let slash = path.iter().rposition(|byte| *byte == b'/');
    slash.and_then(|slash| path.get(..slash)).unwrap_or_default()
}
