//! Where a path lies: the one question that the judge asks the world about.

/// Where a path lies with regard to the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Inside; normal form, `/` between names, relative to the root; `.` is the root itself.
    Inside(String),
    /// Outside; as far as it could be resolved.
    Outside(String),
    /// It cannot be said; the text says why.
    Unresolvable(String),
}

/// Resolves paths. The runtime's follows symlinks; [`LexicalWorkspace`] only reads the text.
pub trait Workspace {
    /// Where `path` lies; a relative path starts at the workspace's root.
    fn place(&self, path: &str) -> Place;

    /// Whether the file system takes `A` and `a` for the same name.
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

    /// The same on a file system that folds case.
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
    fn place(&self, path: &str) -> Place {
        if path.is_empty() {
            return Place::Unresolvable("the path is empty".to_owned());
        }
        if path.contains('\0') {
            return Place::Unresolvable("the path holds a NUL byte".to_owned());
        }
        if path.starts_with('~') {
            return Place::Outside(path.to_owned());
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
            Some([]) if inside => Place::Inside(".".to_owned()),
            Some(rest) if inside => Place::Inside(rest.join("/")),
            Some(_) | None => Place::Outside(format!("/{}", at.join("/"))),
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
    fn places_by_text_alone() {
        let workspace = LexicalWorkspace::default();
        for (path, expected) in [
            ("a/b", Place::Inside("a/b".into())),
            ("./a//b/", Place::Inside("a/b".into())),
            ("a/../b", Place::Inside("b".into())),
            (".", Place::Inside(".".into())),
            ("/workspace", Place::Inside(".".into())),
            ("/workspace/a", Place::Inside("a".into())),
            ("/workspace/../etc", Place::Outside("/etc".into())),
            ("/workspace2/a", Place::Outside("/workspace2/a".into())),
            ("../x", Place::Outside("/x".into())),
            ("a/../../workspace/b", Place::Inside("b".into())),
            ("~/x", Place::Outside("~/x".into())),
            ("~root", Place::Outside("~root".into())),
            ("/", Place::Outside("/".into())),
            ("/Workspace/a", Place::Outside("/Workspace/a".into())),
        ] {
            assert_eq!(workspace.place(path), expected, "{path}");
        }
        assert!(matches!(workspace.place("a\0b"), Place::Unresolvable(_)));
        assert!(matches!(workspace.place(""), Place::Unresolvable(_)));
        let folding = LexicalWorkspace::default().folding_case();
        assert_eq!(folding.place("/Workspace/A"), Place::Inside("A".into()));
    }
}
