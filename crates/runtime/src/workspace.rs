//! Resolves paths of the workspace in the file system: follows symlinks, resolves `..`, creates nothing.

use std::path::{Component, Path, PathBuf};

use windlass_policy::{ResolvedPath, Workspace};

/// The maximum number of symlinks in one path.
const LINKS_MAX: u32 = 40;

/// A directory that tools are confined to.
#[derive(Clone, Debug)]
pub struct FileWorkspace {
    root: PathBuf,
    folds_case: bool,
}

impl FileWorkspace {
    /// Creates the workspace of a directory.
    ///
    /// # Errors
    /// An error if the directory cannot be resolved.
    pub fn new(root: &Path) -> std::io::Result<Self> {
        let root = root.canonicalize()?;
        let folds_case = folds_case(&root);
        Ok(Self { root, folds_case })
    }

    /// The resolved directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn real_path(&self, path: &str) -> Result<PathBuf, String> {
        let mut resolved = PathBuf::from("/");
        let mut links = 0;
        let full = self.root.join(path);
        walk(&mut resolved, &full, &mut links)?;
        Ok(resolved)
    }
}

/// Resolves `path` relative to `resolved` and follows each symlink.
fn walk(resolved: &mut PathBuf, path: &Path, links: &mut u32) -> Result<(), String> {
    for component in path.components() {
        match component {
            Component::Prefix(_) | Component::RootDir => *resolved = PathBuf::from("/"),
            Component::CurDir => {}
            Component::ParentDir => {
                resolved.pop();
            }
            Component::Normal(name) => {
                let next = resolved.join(name);
                match std::fs::symlink_metadata(&next) {
                    Ok(meta) if meta.is_symlink() => {
                        *links += 1;
                        if *links > LINKS_MAX {
                            return Err("the path contains too many symlinks".to_owned());
                        }
                        let target = std::fs::read_link(&next).map_err(|e| e.to_string())?;
                        walk(resolved, &target, links)?;
                    }
                    Ok(_) => *resolved = next,
                    // A file that does not exist yet is not a symlink.
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => *resolved = next,
                    Err(error) => return Err(error.to_string()),
                }
            }
        }
    }
    Ok(())
}

/// Whether the file system ignores the case of names.
fn folds_case(root: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let Some(name) = root.file_name().and_then(|name| name.to_str()) else { return false };
    let swapped: String =
        name.chars()
            .map(|c| {
                if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }
            })
            .collect();
    if swapped == name {
        return false;
    }
    match (std::fs::metadata(root), std::fs::metadata(root.with_file_name(swapped))) {
        (Ok(one), Ok(other)) => one.ino() == other.ino() && one.dev() == other.dev(),
        _ => false,
    }
}

impl Workspace for FileWorkspace {
    fn resolve(&self, path: &str) -> ResolvedPath {
        if path.is_empty() {
            return ResolvedPath::Unresolvable("the path is empty".to_owned());
        }
        if path.contains('\0') {
            return ResolvedPath::Unresolvable("the path contains a NUL character".to_owned());
        }
        if path.starts_with('~') {
            return ResolvedPath::Outside(path.to_owned());
        }
        let resolved = match self.real_path(path) {
            Ok(resolved) => resolved,
            Err(reason) => return ResolvedPath::Unresolvable(reason),
        };
        match resolved.strip_prefix(&self.root) {
            Ok(relative) => match relative.to_str() {
                Some("") => ResolvedPath::Inside(".".to_owned()),
                Some(relative) => ResolvedPath::Inside(relative.to_owned()),
                None => ResolvedPath::Unresolvable("the path is not UTF-8".to_owned()),
            },
            Err(_) => ResolvedPath::Outside(resolved.to_string_lossy().into_owned()),
        }
    }

    fn folds_case(&self) -> bool {
        self.folds_case
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn symlinks_and_dots_are_resolved() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("work");
        std::fs::create_dir_all(root.join("src")).unwrap();
        std::fs::write(root.join("src/main.rs"), "").unwrap();
        symlink("/etc", root.join("out")).unwrap();
        symlink("src", root.join("in")).unwrap();
        symlink("../../secret", root.join("src/dangling")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let workspace = FileWorkspace::new(&root).unwrap();
        let inside = |path: &str| ResolvedPath::Inside(path.to_owned());
        for (path, place) in [
            ("src/main.rs", inside("src/main.rs")),
            ("./src/../src//main.rs", inside("src/main.rs")),
            ("in/main.rs", inside("src/main.rs")),
            ("src/new/file.rs", inside("src/new/file.rs")),
            (".", inside(".")),
            ("in/../in/new", inside("src/new")),
        ] {
            assert_eq!(workspace.resolve(path), place, "{path}");
        }
        let absolute = workspace.root().join("src/main.rs");
        assert_eq!(workspace.resolve(absolute.to_str().unwrap()), inside("src/main.rs"));
        for path in [
            "out/passwd",
            "../x",
            "src/../../x",
            "/etc/passwd",
            "~/x",
            "src/dangling",
            "in/../../x",
        ] {
            assert!(matches!(workspace.resolve(path), ResolvedPath::Outside(_)), "{path}");
        }
        for path in ["", "a\0b", "loop", "loop/x"] {
            assert!(matches!(workspace.resolve(path), ResolvedPath::Unresolvable(_)), "{path:?}");
        }
    }
}
