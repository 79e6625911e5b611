//! Resolves paths with regard to the workspace.

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

/// Resolves paths. The runtime's implementation follows symlinks; [`LexicalWorkspace`] uses only
/// the text.
pub trait Workspace {
    /// Resolves `path`; a relative path starts at the root of the workspace.
    fn resolve(&self, path: &str) -> ResolvedPath;

    /// Whether the file system ignores case.
    fn folds_case(&self) -> bool;
}

/// A workspace known only by the text of its root: for examples, cases and tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LexicalWorkspace {
    root: Vec<String>,
    folds_case: bool,
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
        Self { root: names(root).map(str::to_owned).collect(), folds_case: false }
    }

    /// The same on a file system that ignores case.
    #[must_use]
    pub fn folding_case(mut self) -> Self {
        self.folds_case = true;
        self
    }
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
}

#[cfg(test)]
mod tests {
    use super::*;

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
