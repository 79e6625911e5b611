//! Answers questions about the files of the workspace: follows symlinks, resolves `..`, creates nothing.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use windlass_policy::{IgnoredPath, ResolvedPath, UncommittedFile, Workspace, is_build_output};
use windlass_workspace::{Git, GitCause, GitError};

/// The maximum number of symlinks in one path.
const LINKS_MAX: u32 = 40;
/// The most entries that are looked at below one folder.
const ENTRIES_MAX: usize = 100_000;
/// How long what git's settings name is taken as it was read.
const NAMED_FOR: Duration = Duration::from_secs(1);
/// What git's settings name, each with the setting, and when that was read.
type NamedByGit = Option<(Instant, Vec<(String, String)>)>;

/// A directory that tools are confined to.
#[derive(Clone, Debug)]
pub struct FileWorkspace {
    root: PathBuf,
    folds_case: bool,
    /// What Windlass itself writes below the root, relative to it.
    views: Vec<PathBuf>,
    named: Arc<Mutex<NamedByGit>>,
}

impl FileWorkspace {
    /// Creates the workspace of a directory.
    ///
    /// # Errors
    /// An error if the directory cannot be resolved.
    pub fn new(root: &Path) -> std::io::Result<Self> {
        let root = root.canonicalize()?;
        let folds_case = folds_case(&root);
        Ok(Self { root, folds_case, views: Vec::new(), named: Arc::default() })
    }

    /// Sets the files and folders that Windlass itself writes. They change whenever a run goes on, so a call that
    /// names a folder above them does not name them.
    #[must_use]
    pub fn with_views(mut self, views: &[PathBuf]) -> Self {
        let below = |path: &PathBuf| path.strip_prefix(&self.root).ok().map(Path::to_owned);
        self.views = views.iter().filter_map(below).collect();
        self
    }

    /// Whether Windlass itself writes this path, which is relative to the root.
    pub(crate) fn is_view(&self, path: &str) -> bool {
        self.views.iter().any(|view| Path::new(path).starts_with(view))
    }

    /// The resolved directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The names of the files below a folder.
    fn walk_files(&self, folder: &str) -> Option<Vec<String>> {
        let mut files = Vec::new();
        let mut followed = BTreeSet::new();
        let mut waiting = vec![self.root.join(folder)];
        let mut seen = 0_usize;
        while let Some(path) = waiting.pop() {
            let entries = match std::fs::read_dir(&path) {
                Ok(entries) => entries,
                Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
                    files.extend(self.relative(&path));
                    continue;
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(_) => return None,
            };
            for entry in entries {
                seen += 1;
                let entry = entry.ok().filter(|_| seen <= ENTRIES_MAX)?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let kind = entry.file_type().ok()?;
                if !kind.is_dir() {
                    files.extend(self.relative(&entry.path()));
                    // Some commands follow links, so what they lead to counts too.
                    let target = kind.is_symlink().then(|| entry.path().canonicalize().ok());
                    let target = target.flatten().filter(|target| target.starts_with(&self.root));
                    waiting.extend(target.filter(|target| followed.insert(target.clone())));
                } else if name == ".git" {
                    // A repository of its own counts as one file.
                    let nested = path != self.root;
                    files.extend(self.relative(&entry.path()).filter(|_| nested));
                } else if !is_build_output(&name) {
                    waiting.push(entry.path());
                }
            }
        }
        Some(files)
    }

    fn relative(&self, path: &Path) -> Option<String> {
        let relative = path.strip_prefix(&self.root).ok()?;
        Some(relative.to_string_lossy().into_owned())
    }

    /// Whether the path or a folder above it is marked as a cache.
    fn is_cache(&self, path: &str) -> bool {
        let full = self.root.join(path);
        let above = full.ancestors().take_while(|folder| *folder != self.root);
        above.into_iter().any(|folder| folder.join("CACHEDIR.TAG").is_file())
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

    fn files_below(&self, folder: &str) -> Option<Vec<String>> {
        self.walk_files(folder)
    }

    fn links_below(&self, folder: &str, levels: usize) -> Option<Vec<String>> {
        let mut links = Vec::new();
        let mut waiting = vec![(self.root.join(folder), levels)];
        let mut seen = 0_usize;
        while let Some((path, levels)) = waiting.pop() {
            // What is no folder has no links, and what is not there matches no pattern.
            let Ok(entries) = std::fs::read_dir(&path) else { continue };
            for entry in entries {
                seen += 1;
                let entry = entry.ok().filter(|_| seen <= ENTRIES_MAX)?;
                let kind = entry.file_type().ok()?;
                let name = entry.file_name().to_string_lossy().into_owned();
                if kind.is_symlink() {
                    links.extend(self.relative(&entry.path()));
                } else if kind.is_dir() && levels > 1 && name != ".git" && !is_build_output(&name) {
                    waiting.push((entry.path(), levels - 1));
                }
            }
        }
        Some(links)
    }

    fn ignored_below(&self, path: &str) -> Option<Vec<IgnoredPath>> {
        // What is not there cannot be lost.
        if std::fs::symlink_metadata(self.root.join(path)).is_err() {
            return Some(Vec::new());
        }
        let ignored = match Git::new(&self.root).ignored(path) {
            Ok(ignored) => ignored,
            // Without a repository nothing is ignored.
            Err(GitError { cause: GitCause::NotARepository(_), .. }) => return Some(Vec::new()),
            Err(_) => return None,
        };
        let entry = |path: String| IgnoredPath { is_cache: self.is_cache(&path), path };
        Some(ignored.into_iter().map(entry).collect())
    }

    fn is_repository(&self, folder: &str) -> bool {
        let full = self.root.join(folder);
        let above =
            full.ancestors().take_while(|path| *path != self.root && path.starts_with(&self.root));
        above.into_iter().any(|path| {
            path.join(".git").exists()
                || path.join("HEAD").is_file() && path.join("objects").is_dir()
        })
    }

    fn changed_files(&self, revision: &str) -> Option<Vec<String>> {
        match Git::new(&self.root).changed_since(revision) {
            Ok(files) => Some(files),
            Err(GitError { cause: GitCause::NotARepository(_), .. }) => Some(Vec::new()),
            Err(_) => None,
        }
    }

    fn uncommitted_files(&self) -> Option<Vec<UncommittedFile>> {
        let files = match Git::new(&self.root).uncommitted() {
            Ok(files) => files,
            Err(GitError { cause: GitCause::NotARepository(_), .. }) => return Some(Vec::new()),
            Err(_) => return None,
        };
        Some(
            files
                .into_iter()
                .map(|(path, is_tracked)| UncommittedFile { path, is_tracked })
                .collect(),
        )
    }

    fn named_by_git(&self) -> Option<Vec<(String, String)>> {
        // Several questions about one call are asked one after the other.
        let mut known = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, named)) = known.as_ref()
            && at.elapsed() < NAMED_FOR
        {
            return Some(named.clone());
        }
        let named: Vec<_> = Git::new(&self.root).named_by_settings().ok()?.into_iter().collect();
        *known = Some((Instant::now(), named.clone()));
        Some(named)
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
        // A folder whose name only begins like that of the workspace is another one.
        let sibling = folder.path().join("work-evil");
        std::fs::create_dir(&sibling).unwrap();
        symlink(&sibling, root.join("near")).unwrap();
        for path in ["../work-evil/x", "near/x", sibling.to_str().unwrap()] {
            assert!(matches!(workspace.resolve(path), ResolvedPath::Outside(_)), "{path}");
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

    #[test]
    fn links_are_listed_and_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for path in ["docs/old", "keys", "sub/.git"] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        std::fs::write(root.join("keys/id_rsa"), "").unwrap();
        for (link, target) in [("deep", "docs/old"), ("docs/keys", "../keys"), ("docs/out", "/etc")]
        {
            symlink(target, root.join(link)).unwrap();
        }
        let workspace = FileWorkspace::new(&root).unwrap();
        let links = |folder: &str, levels| {
            let mut links = workspace.links_below(folder, levels).unwrap();
            links.sort();
            links
        };
        assert_eq!(links(".", 1), ["deep"]);
        assert_eq!(links(".", 2), ["deep", "docs/keys", "docs/out"]);
        assert_eq!(links("docs", 1), ["docs/keys", "docs/out"]);
        assert_eq!(links("docs/old", 3), Vec::<String>::new());
        let mut files = workspace.files_below("docs").unwrap();
        files.sort();
        assert_eq!(files, ["docs/keys", "docs/out", "keys/id_rsa"]);
        assert_eq!(workspace.files_below("sub"), Some(vec!["sub/.git".to_owned()]));
    }

    fn git(root: &Path, words: &[&str]) {
        let identity =
            ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main"];
        let output =
            std::process::Command::new("git").args(identity).args(words).current_dir(root).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
    }

    #[test]
    fn facts_about_files_come_from_the_disk_and_from_git() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        git(&root, &["init", "-q"]);
        write(".gitignore", "target\nlocal.db\nmade\n");
        write("src/a.rs", "a");
        git(&root, &["add", "."]);
        git(&root, &["commit", "-qm", "one"]);
        git(&root, &["switch", "-qc", "other"]);
        write(".claude/settings.json", "{}");
        git(&root, &["add", "."]);
        git(&root, &["commit", "-qm", "two"]);
        git(&root, &["switch", "-q", "main"]);
        write("target/x", "x");
        write("local.db", "x");
        write("made/CACHEDIR.TAG", "x");
        write("bare/HEAD", "x");
        std::fs::create_dir_all(root.join("bare/objects")).unwrap();
        let workspace = FileWorkspace::new(&root).unwrap();
        assert_eq!(
            workspace.changed_files("other"),
            Some(vec![".claude/settings.json".to_owned()])
        );
        assert_eq!(workspace.changed_files("main"), Some(Vec::new()));
        assert_eq!(workspace.changed_files("no-such"), Some(Vec::new()));
        assert_eq!(workspace.changed_files("--output=x"), Some(Vec::new()));
        assert_eq!(workspace.files_below("src"), Some(vec!["src/a.rs".to_owned()]));
        let ignored = |path: &str| {
            let found = workspace.ignored_below(path).unwrap();
            found.into_iter().map(|one| (one.path, one.is_cache)).collect::<Vec<_>>()
        };
        assert_eq!(ignored("src"), []);
        assert_eq!(ignored("local.db"), [("local.db".to_owned(), false)]);
        let mut all = ignored(".");
        all.sort();
        let expected = [("local.db", false), ("made", true), ("target", false)];
        assert_eq!(all, expected.map(|(path, cache)| (path.to_owned(), cache)));
        write("src/a.rs", "b");
        let file = |path: &str, is_tracked| UncommittedFile { path: path.to_owned(), is_tracked };
        let mut uncommitted = workspace.uncommitted_files().unwrap();
        uncommitted.sort_by(|one, other| one.path.cmp(&other.path));
        assert_eq!(uncommitted, [file("bare/HEAD", false), file("src/a.rs", true)]);
        std::fs::create_dir_all(root.join("nested/.git/hooks")).unwrap();
        assert_eq!(workspace.files_below("nested"), Some(vec!["nested/.git".to_owned()]));
        assert!(workspace.is_repository("bare"));
        assert!(!workspace.is_repository("src"));
        assert!(!workspace.is_repository(""));
    }
}
