//! Paths inside a workspace, compared as text.
//!
//! The engine resolves symlinks; here a path that is not plain is refused.

/// The longest path.
const PATH_BYTES_MAX: usize = 4096;

/// Whether a path is relative and normalised, so that it can be compared as text.
pub(crate) fn is_plain(path: &str) -> bool {
    let part = |part: &str| !matches!(part, "" | "." | "..");
    path.len() <= PATH_BYTES_MAX
        && path.split('/').all(part)
        && !path.contains(|char: char| char.is_control() || matches!(char, '\\' | ':'))
}

/// Whether a scope contains a path: `.` contains all, `src/` all below it, `a/b` exactly that path.
pub(crate) fn contains(scope: &str, path: &str) -> bool {
    match scope.strip_suffix('/') {
        _ if scope == "." => true,
        Some(folder) => path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')),
        None => scope == path,
    }
}

/// Whether a scope denies a path: case is ignored, and `src/` denies the folder itself too, so that
/// the denial holds on every file system.
pub(crate) fn denies(scope: &str, path: &str) -> bool {
    let (scope, path) = (scope.to_lowercase(), path.to_lowercase());
    contains(&scope, &path)
        || contains(&format!("{}/", scope.trim_end_matches('/')), &path)
        || scope.strip_suffix('/') == Some(path.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_paths_are_plain() {
        for path in ["a", "a/b.rs", ".env", "a/...", "ü/ß"] {
            assert!(is_plain(path), "{path}");
        }
        for path in
            ["", "/a", "a/", "a//b", "./a", "a/.", "..", "a/../b", "a\\b", "c:a", "a\0", "a\n"]
        {
            assert!(!is_plain(path), "{path:?}");
        }
        assert!(!is_plain(&"a".repeat(PATH_BYTES_MAX + 1)));
    }

    #[test]
    fn a_scope_contains_whole_parts() {
        for (scope, path, held) in [
            (".", "a/b", true),
            ("src/", "src/a/b", true),
            ("src/", "src", false),
            ("src/", "srcs/a", false),
            ("src", "src/a", false),
            ("a/b", "a/b", true),
            ("a/b", "A/b", false),
        ] {
            assert_eq!(contains(scope, path), held, "{scope} {path}");
        }
        for (scope, path, denied) in [
            ("secrets/", "Secrets/key", true),
            ("secrets/", "SECRETS", true),
            ("secrets", "secrets/key", true),
            (".env", ".ENV", true),
            (".env", ".environment", false),
        ] {
            assert_eq!(denies(scope, path), denied, "{scope} {path}");
        }
    }
}
