//! Paths of clients as paths of ours: relative to the workspace where they are below it.

use crate::fields::{PATH_BYTES_MAX, is_limited};

/// The folders that paths are taken from.
#[derive(Clone, Copy)]
pub(crate) struct Folders<'a> {
    root: &'a str,
    cwd: &'a str,
}

impl<'a> Folders<'a> {
    /// The workspace, and the folder that the client works in.
    pub(crate) fn new(root: &'a str, cwd: &'a str) -> Self {
        let trimmed = |path: &'a str| path.trim_end_matches('/');
        Self { root: trimmed(root), cwd: trimmed(cwd) }
    }

    /// The path as ours.
    ///
    /// # Errors
    /// A path that clients understand in different ways: with spaces around it, or one that starts with `~` or is an
    /// address.
    pub(crate) fn path(self, path: &str) -> Result<String, String> {
        if !is_limited(path, PATH_BYTES_MAX) {
            return Err(format!(
                "a path must have 1 to {PATH_BYTES_MAX} bytes and no control characters"
            ));
        }
        if path.trim() != path || path.starts_with(['~', '\u{feff}']) || path.contains("://") {
            return Err(format!("the path `{path}` is not plain; use an absolute path"));
        }
        if path.starts_with('/') {
            return Ok(self.below_root(path));
        }
        if self.cwd == self.root {
            return Ok(path.to_owned());
        }
        Ok(self.below_root(&format!("{}/{path}", self.cwd)))
    }

    /// The folder that the client works in, as ours.
    pub(crate) fn cwd(self) -> Result<String, String> {
        if self.cwd == self.root { Ok(".".to_owned()) } else { self.path(self.cwd) }
    }

    /// Cuts the root off an absolute path. `..` stays as it is: where it leads is not known here.
    fn below_root(self, path: &str) -> String {
        match path.strip_prefix(self.root) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                let rest = rest.trim_start_matches('/');
                if rest.is_empty() { ".".to_owned() } else { rest.to_owned() }
            }
            Some(_) | None => path.to_owned(),
        }
    }
}

/// A path below a folder of ours.
pub(crate) fn join(folder: &str, path: &str) -> String {
    match (folder, path) {
        (folder, "") => folder.to_owned(),
        (_, absolute) if absolute.starts_with('/') => absolute.to_owned(),
        (".", path) => path.to_owned(),
        (folder, path) => format!("{}/{path}", folder.trim_end_matches('/')),
    }
}
