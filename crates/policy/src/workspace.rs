//! Resolves paths with regard to the workspace.

use windlass_text::{Glob, GlobKind};

use crate::judge::folder_of_pattern;

/// A path, resolved with regard to the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolvedPath {
    /// Inside the workspace: relative to the root, normalised; `.` is the root itself.
    Inside(String),
    /// Outside the workspace: as far as it could be resolved.
    Outside(String),
    /// Why it could not be resolved.
    Unresolvable(String),
}

/// A file or folder that git ignores, so that no checkpoint brings it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredPath {
    /// Its path, relative to the root.
    pub path: String,
    /// Whether it lies in a folder that is marked as a cache by a `CACHEDIR.TAG`.
    pub is_cache: bool,
}

/// A file that is not in the present commit as it is in the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UncommittedFile {
    /// Its path, relative to the root.
    pub path: String,
    /// Whether git tracks it.
    pub is_tracked: bool,
}

/// Facts about the files of a workspace. The runtime's implementation reads the file system;
/// [`LexicalWorkspace`] knows what it was told.
///
/// Paths are relative to the root. `None` means that the answer is not known.
pub trait Workspace {
    /// Resolves `path`; a relative path starts at the root of the workspace.
    fn resolve(&self, path: &str) -> ResolvedPath;

    /// Whether the file system ignores case.
    fn folds_case(&self) -> bool;

    /// The files below a folder, without build outputs and git's own.
    fn files_below(&self, folder: &str) -> Option<Vec<String>>;

    /// The symbolic links in a folder, at most so many levels below it, without build outputs and git's own.
    fn links_below(&self, folder: &str, levels: usize) -> Option<Vec<String>>;

    /// What git ignores at a path and below it.
    fn ignored_below(&self, path: &str) -> Option<Vec<IgnoredPath>>;

    /// Whether git would take this folder for a repository of its own, as it does with a bare one.
    fn is_repository(&self, folder: &str) -> bool;

    /// The files that differ between the present commit and a revision; none if there is no such revision.
    fn changed_files(&self, revision: &str) -> Option<Vec<String>>;

    /// The files that differ from the present commit, with those that git neither tracks nor ignores.
    fn uncommitted_files(&self) -> Option<Vec<UncommittedFile>>;

    /// The files and folders that git obeys because its settings name them, each with the setting.
    fn named_by_git(&self) -> Option<Vec<(String, String)>>;
}

/// The files that a file name pattern matches, and those below the folders that it matches; `None` if there are
/// more than can be looked at.
#[must_use]
pub fn files_matching(workspace: &dyn Workspace, pattern: &str) -> Option<Vec<String>> {
    let start = folder_of_pattern(pattern);
    let ResolvedPath::Inside(folder) = workspace.resolve(start) else { return Some(Vec::new()) };
    let tail = pattern.strip_prefix(start).unwrap_or(pattern).trim_start_matches('/');
    let files = workspace.files_below(&folder)?;
    let Ok(glob) = Glob::new(tail, GlobKind::Path) else { return Some(files) };
    let matches = |file: &String| {
        let below = if folder == "." { Some(file.as_str()) } else { file.strip_prefix(&folder) };
        let names: Vec<&str> = below.unwrap_or(file).trim_start_matches('/').split('/').collect();
        (1..=names.len())
            .any(|count| glob.matches_str(&names.get(..count).unwrap_or_default().join("/")))
    };
    Some(files.into_iter().filter(matches).collect())
}

/// Names of files and folders that a build makes again; a `*` at an end stands for any text.
const BUILD_OUTPUTS: &[&str] = &[
    "target",
    "node_modules",
    "dist",
    "build",
    "out",
    "bin",
    "obj",
    "coverage",
    "htmlcov",
    "tmp",
    "logs",
    "__pycache__",
    "*.pyc",
    "*.pyo",
    "*.egg-info",
    ".eggs",
    ".venv",
    "venv",
    ".tox",
    ".nox",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
    ".ipynb_checkpoints",
    ".coverage",
    ".coverage.*",
    ".cache",
    ".parcel-cache",
    ".next",
    ".nuxt",
    ".output",
    ".svelte-kit",
    ".astro",
    ".angular",
    ".turbo",
    ".nx",
    ".vite",
    ".nyc_output",
    ".eslintcache",
    ".stylelintcache",
    "*.tsbuildinfo",
    "storybook-static",
    ".gradle",
    ".kotlin",
    "*.class",
    "cmake-build-*",
    "CMakeFiles",
    "CMakeCache.txt",
    "_build",
    "_deps",
    "*.o",
    "*.a",
    "*.so",
    "*.d",
    "*.obj",
    "*.exe",
    "*.log",
    "*.tmp",
    "*.swp",
    "*.pid",
    ".dart_tool",
    ".build",
    "DerivedData",
    "Pods",
    ".zig-cache",
    "zig-cache",
    "zig-out",
    "bazel-*",
    ".stack-work",
    "dist-newstyle",
    "elm-stuff",
    ".bundle",
    ".terraform",
    ".DS_Store",
    "Thumbs.db",
    "*.profraw",
    "*.profdata",
    "flamegraph.svg",
    "mutants.out",
];

/// Whether a name is that of a build output.
#[must_use]
pub fn is_build_output(name: &str) -> bool {
    BUILD_OUTPUTS.iter().any(|known| match (known.strip_prefix('*'), known.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == *known,
    })
}

/// A workspace known only by the text of its root and by what it was told: for examples, cases and tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LexicalWorkspace {
    root: Vec<String>,
    folds_case: bool,
    files: Vec<String>,
    ignored: Vec<IgnoredPath>,
    repositories: Vec<String>,
    links: Vec<(String, String)>,
    changes: Vec<(String, Vec<String>)>,
    uncommitted: Vec<UncommittedFile>,
    named: Vec<(String, String)>,
}

impl Default for LexicalWorkspace {
    fn default() -> Self {
        Self::new("/workspace")
    }
}

impl LexicalWorkspace {
    /// A workspace at an absolute root such as `/workspace`.
    #[must_use]
    pub fn new(root: &str) -> Self {
        Self {
            root: names(root).map(str::to_owned).collect(),
            folds_case: false,
            files: Vec::new(),
            ignored: Vec::new(),
            repositories: Vec::new(),
            links: Vec::new(),
            changes: Vec::new(),
            uncommitted: Vec::new(),
            named: Vec::new(),
        }
    }

    /// The same on a file system that ignores case.
    #[must_use]
    pub const fn folding_case(mut self) -> Self {
        self.folds_case = true;
        self
    }

    /// The same with a file.
    #[must_use]
    pub fn with_file(mut self, path: &str) -> Self {
        self.files.push(path.to_owned());
        self
    }

    /// The same with a path that git ignores.
    #[must_use]
    pub fn with_ignored(mut self, path: &str, is_cache: bool) -> Self {
        self.ignored.push(IgnoredPath { path: path.to_owned(), is_cache });
        self
    }

    /// The same with a folder that is a repository of its own.
    #[must_use]
    pub fn with_repository(mut self, folder: &str) -> Self {
        self.repositories.push(folder.to_owned());
        self
    }

    /// The same with a symlink.
    #[must_use]
    pub fn with_link(mut self, path: &str, target: &str) -> Self {
        self.links.push((path.to_owned(), target.to_owned()));
        self
    }

    /// The same with a file that is not committed as it is.
    #[must_use]
    pub fn with_uncommitted(mut self, path: &str, is_tracked: bool) -> Self {
        self.uncommitted.push(UncommittedFile { path: path.to_owned(), is_tracked });
        self
    }

    /// The same with a file or folder that a setting of git names.
    #[must_use]
    pub fn with_named_by_git(mut self, path: &str, setting: &str) -> Self {
        self.named.push((path.to_owned(), setting.to_owned()));
        self
    }

    /// The same with a revision, and the files that differ there.
    #[must_use]
    pub fn with_revision(mut self, revision: &str, files: &[&str]) -> Self {
        let files = files.iter().map(|file| (*file).to_owned()).collect();
        self.changes.push((revision.to_owned(), files));
        self
    }
}

/// Whether a path lies at or below a folder.
fn is_at_or_below(path: &str, folder: &str) -> bool {
    folder == "."
        || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty() && *name != ".")
}

impl Workspace for LexicalWorkspace {
    fn resolve(&self, path: &str) -> ResolvedPath {
        if path.is_empty() {
            return ResolvedPath::Unresolvable("the path is empty".to_owned());
        }
        if path.contains('\0') {
            return ResolvedPath::Unresolvable("the path contains a NUL byte".to_owned());
        }
        if path.starts_with('~') {
            return ResolvedPath::Outside(path.to_owned());
        }
        let link = self.links.iter().find(|(link, _)| is_at_or_below(path, link));
        if let Some((link, target)) = link {
            let rest = path.strip_prefix(link.as_str()).unwrap_or_default();
            return self.resolve(&format!("{target}{rest}"));
        }
        let mut at: Vec<&str> = Vec::new();
        if !path.starts_with('/') {
            at.extend(self.root.iter().map(String::as_str));
        }
        for name in names(path) {
            if name == ".." {
                at.pop();
            } else {
                at.push(name);
            }
        }
        let same = |(root, name): (&String, &&str)| {
            root == name || self.folds_case && root.to_lowercase() == name.to_lowercase()
        };
        let inside = at.len() >= self.root.len() && self.root.iter().zip(&at).all(same);
        match at.get(self.root.len()..) {
            Some([]) if inside => ResolvedPath::Inside(".".to_owned()),
            Some(rest) if inside => ResolvedPath::Inside(rest.join("/")),
            Some(_) | None => ResolvedPath::Outside(format!("/{}", at.join("/"))),
        }
    }

    fn folds_case(&self) -> bool {
        self.folds_case
    }

    fn files_below(&self, folder: &str) -> Option<Vec<String>> {
        Some(self.files.iter().filter(|file| is_at_or_below(file, folder)).cloned().collect())
    }

    fn links_below(&self, folder: &str, levels: usize) -> Option<Vec<String>> {
        let depth = |path: &str| names(path).count();
        let near = |link: &&String| {
            is_at_or_below(link, folder) && depth(link) <= depth(folder).saturating_add(levels)
        };
        Some(self.links.iter().map(|(link, _)| link).filter(near).cloned().collect())
    }

    fn ignored_below(&self, path: &str) -> Option<Vec<IgnoredPath>> {
        let below =
            |one: &&IgnoredPath| is_at_or_below(&one.path, path) || is_at_or_below(path, &one.path);
        Some(self.ignored.iter().filter(below).cloned().collect())
    }

    fn is_repository(&self, folder: &str) -> bool {
        self.repositories.iter().any(|known| is_at_or_below(folder, known))
    }

    fn changed_files(&self, revision: &str) -> Option<Vec<String>> {
        let change = self.changes.iter().find(|(known, _)| known == revision);
        Some(change.map(|(_, files)| files.clone()).unwrap_or_default())
    }

    fn uncommitted_files(&self) -> Option<Vec<UncommittedFile>> {
        Some(self.uncommitted.clone())
    }

    fn named_by_git(&self) -> Option<Vec<(String, String)>> {
        Some(self.named.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_stands_for_files_and_for_what_is_in_folders() {
        let names = ["new/a.yml", "new/sub/b.yml", "new/c.txt", "d.yml", "other/e"];
        let workspace = names.iter().fold(LexicalWorkspace::default(), |w, name| w.with_file(name));
        let matching = |pattern: &str| files_matching(&workspace, pattern).unwrap();
        assert_eq!(matching("new/*"), ["new/a.yml", "new/sub/b.yml", "new/c.txt"]);
        assert_eq!(matching("new/*.yml"), ["new/a.yml"]);
        assert_eq!(matching("*.yml"), ["d.yml"]);
        assert_eq!(matching("n?w"), ["new/a.yml", "new/sub/b.yml", "new/c.txt"]);
        assert_eq!(matching("/etc/*"), Vec::<String>::new());
    }

    #[test]
    fn paths_are_resolved_by_text_alone() {
        let workspace = LexicalWorkspace::default();
        for (path, expected) in [
            ("a/b", ResolvedPath::Inside("a/b".into())),
            ("./a//b/", ResolvedPath::Inside("a/b".into())),
            ("a/../b", ResolvedPath::Inside("b".into())),
            (".", ResolvedPath::Inside(".".into())),
            ("/workspace", ResolvedPath::Inside(".".into())),
            ("/workspace/a", ResolvedPath::Inside("a".into())),
            ("/workspace/../etc", ResolvedPath::Outside("/etc".into())),
            ("/workspace2/a", ResolvedPath::Outside("/workspace2/a".into())),
            ("../x", ResolvedPath::Outside("/x".into())),
            ("a/../../workspace/b", ResolvedPath::Inside("b".into())),
            ("~/x", ResolvedPath::Outside("~/x".into())),
            ("~root", ResolvedPath::Outside("~root".into())),
            ("/", ResolvedPath::Outside("/".into())),
            ("/Workspace/a", ResolvedPath::Outside("/Workspace/a".into())),
        ] {
            assert_eq!(workspace.resolve(path), expected, "{path}");
        }
        assert!(matches!(workspace.resolve("a\0b"), ResolvedPath::Unresolvable(_)));
        assert!(matches!(workspace.resolve(""), ResolvedPath::Unresolvable(_)));
        let folding = LexicalWorkspace::default().folding_case();
        assert_eq!(folding.resolve("/Workspace/A"), ResolvedPath::Inside("A".into()));
    }
}
