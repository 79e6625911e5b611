//! Names that stand for git's own folder.

/// Whether a name stands for `.git` here or on another system: in other letter case, with the endings and short names of
/// Windows, or with characters that file systems of Apple pass over. Git does not record files with such names.
#[must_use]
pub fn is_git_name(name: &str) -> bool {
    let is_ignored = |char: &char| matches!(char, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let plain: String = name.chars().filter(|char| !is_ignored(char)).collect();
    let plain = plain.split([':', '\\']).next().unwrap_or_default();
    let plain = plain.trim_end_matches(['.', ' ']);
    [".git", "git~1"].iter().any(|git| plain.eq_ignore_ascii_case(git))
}

#[cfg(test)]
mod tests {
    use super::is_git_name;

    #[test]
    fn names_of_other_systems_are_recognised() {
        for name in [
            ".git",
            ".GIT",
            ".git.",
            ".git ",
            ".git . .",
            "git~1",
            "GIT~1",
            ".git::$INDEX_ALLOCATION",
        ] {
            assert!(is_git_name(name), "{name}");
        }
        for name in [".g\u{200c}it", "\u{feff}.git", ".git\\config", "git~1 "] {
            assert!(is_git_name(name), "{name}");
        }
        for name in
            ["git", ".gitignore", ".github", "git~2", "x.git", ".gi", "", "git~10", ".git-old"]
        {
            assert!(!is_git_name(name), "{name}");
        }
    }
}
