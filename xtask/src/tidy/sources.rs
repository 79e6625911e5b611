//! What must not be in the repository's files.

use std::path::Path;

/// The longest source file.
const LINES_MAX: usize = 500;

// Assembled, so that this file does not contain what it forbids.
const MACROS: [&str; 3] =
    [concat!("todo", "!"), concat!("unimplemented", "!"), concat!("dbg", "!")];
const WORDS: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];
const IGNORE: &str = concat!("#[", "ignore");
const ROOT_HOME: &str = concat!("/ro", "ot/");
const HOMES: &str = concat!("/ho", "me/");

/// User names for examples.
const EXAMPLE_USERS: [&str; 6] = ["alice", "bob", "me", "name", "user", "you"];

/// All problems of one file.
pub fn problems(path: &Path, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let is_rust = path.extension().is_some_and(|extension| extension == "rs");
    let lines = text.lines().count();
    if is_rust && lines > LINES_MAX {
        problems.push(format!("{}: {lines} lines, more than {LINES_MAX}", path.display()));
    }
    for (number, line) in (1..).zip(text.lines()) {
        let mut report = |what: &str| {
            problems.push(format!("{}:{number}: `{what}` is not allowed", path.display()));
        };
        if let Some(home) = home_path(line) {
            report(home);
        }
        if !is_rust {
            continue;
        }
        for what in MACROS.into_iter().chain(WORDS).filter(|what| has_word(line, what)) {
            report(what);
        }
        if line.contains(IGNORE) {
            report(IGNORE);
        }
    }
    problems
}

/// A crate's first file must begin with the crate's documentation.
pub fn missing_header(path: &Path, text: &str) -> Option<String> {
    let documented = text.starts_with("//!");
    (!documented).then(|| format!("{}: does not begin with `//!`", path.display()))
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Whether `line` contains `word`, and not only as a part of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (line.get(..at), line.get(at + word.len()..));
        !before.is_some_and(|text| text.ends_with(is_word))
            && !after.is_some_and(|text| text.starts_with(is_word))
    })
}

/// The absolute path of somebody's home folder, if there is one in the line.
fn home_path(line: &str) -> Option<&str> {
    let part_of_path = |character: char| is_word(character) || ['.', '-'].contains(&character);
    let absolute = |at: usize| !line.get(..at).is_some_and(|text| text.ends_with(part_of_path));
    if line.match_indices(ROOT_HOME).any(|(at, _)| absolute(at)) {
        return Some(ROOT_HOME);
    }
    line.match_indices(HOMES).filter(|(at, _)| absolute(*at)).find_map(|(at, _)| {
        let rest = line.get(at + HOMES.len()..)?;
        let (name, _) = rest.split_once('/')?;
        let is_name = !name.is_empty() && name.chars().all(part_of_path);
        (is_name && !EXAMPLE_USERS.contains(&name)).then_some(HOMES)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        problems(Path::new(path), text).len()
    }

    #[test]
    fn long_sources_are_reported_and_long_data_is_not() {
        assert_eq!(count("a.rs", &"\n".repeat(LINES_MAX)), 0);
        assert_eq!(count("a.rs", &"\n".repeat(LINES_MAX + 1)), 1);
        assert_eq!(count("a.json", &"\n".repeat(LINES_MAX + 1)), 0);
    }

    #[test]
    fn unfinished_work_is_reported() {
        for what in MACROS.into_iter().chain(WORDS).chain([IGNORE]) {
            assert_eq!(count("a.rs", &format!("fn a() {{}}\n    {what}(later)\n")), 1, "{what}");
            assert_eq!(count("a.md", what), 0, "{what}");
        }
        let problem = problems(Path::new("a.rs"), &format!("\n// {}: later", WORDS.join(" ")));
        assert_eq!(problem.len(), 2);
        assert!(problem.iter().all(|line| line.starts_with("a.rs:2: ")), "{problem:?}");
    }

    #[test]
    fn parts_of_longer_words_pass() {
        for word in WORDS {
            assert_eq!(count("a.rs", &format!("{word}S _{word} x{word}")), 0);
        }
        assert_eq!(count("a.rs", &format!("my_{}()", MACROS.join(" my_"))), 0);
    }

    #[test]
    fn home_folders_are_reported_in_any_file() {
        let home = format!("{HOMES}zoe/src");
        for text in [&home, &format!("\"{ROOT_HOME}x\""), &format!("see {ROOT_HOME}.ssh/id")] {
            assert_eq!(count("a.md", text), 1, "{text}");
            assert_eq!(count("a.rs", text), 1, "{text}");
        }
        for text in [
            format!("{HOMES}user/src"),
            format!("{HOMES}<name>/"),
            HOMES.to_owned(),
            format!("tree{ROOT_HOME}leaf"),
            format!("a{HOMES}zoe/src"),
        ] {
            assert_eq!(count("a.md", &text), 0, "{text}");
        }
    }

    #[test]
    fn a_crate_begins_with_its_documentation() {
        let path = Path::new("lib.rs");
        assert_eq!(missing_header(path, "//! Does things.\n"), None);
        assert!(missing_header(path, "use std::fs;\n//! Too late.\n").is_some());
        assert!(missing_header(path, "").is_some());
    }
}
