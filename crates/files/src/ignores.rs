//! Which paths git ignores, as far as the workspace itself says so.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{Mode, OFlags, openat};

use crate::root::Root;

/// How much of a file with rules is read.
const RULES_BYTES_MAX: u64 = 1024 * 1024;

/// The rules of a folder and of those that it lies in.
pub(crate) struct Ignores {
    /// The rules of the folders above.
    above: Option<Arc<Self>>,
    /// The folder that these rules count from.
    folder: PathBuf,
    rules: Gitignore,
}

impl Ignores {
    /// The rules that hold for the folder `path` itself, without its own.
    pub(crate) fn above(root: &Root, path: &Path) -> Option<Arc<Self>> {
        let mut ignores = None;
        if let Ok(info) = root.open_folder(Path::new(".git/info")) {
            ignores = Self::of_file(&info, "exclude", Path::new(""), None);
        }
        let mut folders: Vec<&Path> = path.ancestors().skip(1).collect();
        folders.reverse();
        for folder in folders {
            // What cannot be opened has no rules.
            let Ok(fd) = root.open_folder(folder) else { continue };
            ignores = Self::in_folder(&fd, folder, ignores);
        }
        ignores
    }

    /// Adds the rules in a folder to those above it.
    pub(crate) fn in_folder(
        fd: impl AsFd,
        folder: &Path,
        above: Option<Arc<Self>>,
    ) -> Option<Arc<Self>> {
        Self::of_file(fd, ".gitignore", folder, above)
    }

    fn of_file(
        fd: impl AsFd,
        name: &str,
        folder: &Path,
        above: Option<Arc<Self>>,
    ) -> Option<Arc<Self>> {
        // Git does not follow a link here either.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = openat(fd, name, flags, Mode::empty()).map(File::from) else { return above };
        let mut bytes = Vec::new();
        let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
        if !is_file || file.take(RULES_BYTES_MAX).read_to_end(&mut bytes).is_err() {
            return above;
        }
        // With this root, paths are taken as they are.
        let mut builder = GitignoreBuilder::new(".");
        let text = String::from_utf8_lossy(&bytes);
        for line in text.strip_prefix('\u{feff}').unwrap_or(&text).lines() {
            // A line that is no pattern ignores nothing.
            let _ = builder.add_line(None, line);
        }
        match builder.build() {
            Ok(rules) if !rules.is_empty() => {
                Some(Arc::new(Self { above, folder: folder.to_owned(), rules }))
            }
            _ => above,
        }
    }

    /// Whether `path` is ignored, provided that its folder is not.
    pub(crate) fn is_ignored(&self, path: &Path, is_folder: bool) -> bool {
        let mut ignores = Some(self);
        // The nearest rules decide.
        while let Some(present) = ignores {
            let relative = path.strip_prefix(&present.folder).unwrap_or(path);
            match present.rules.matched(relative, is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => ignores = present.above.as_deref(),
            }
        }
        false
    }
}

/// Whether a name is that of a file with rules.
pub(crate) fn has_rules(name: &OsStr) -> bool {
    name == ".gitignore"
}
