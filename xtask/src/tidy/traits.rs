//! A public trait has no default methods: a wrapper that forgets to forward a method must not compile.

use std::collections::BTreeSet;
use std::path::Path;

/// Traits that may have default methods; the reason stands beside each.
const ALLOWED: &[&str] = &[];
/// The crate of test doubles, which override only the methods that they disturb.
const TEST_DOUBLES: &str = "testkit";

/// Collects the public traits of our crates that have default methods.
#[derive(Default)]
pub struct Check {
    found: BTreeSet<String>,
    problems: Vec<String>,
}

impl Check {
    /// Reads one file; only sources under `crates/*/src` count.
    pub fn add(&mut self, path: &Path, text: &str) {
        let mut parts = path.iter().filter_map(|part| part.to_str());
        let is_source = parts.next() == Some("crates")
            && parts.next().is_some_and(|name| name != TEST_DOUBLES)
            && parts.next() == Some("src");
        if !is_source || path.extension().is_none_or(|extension| extension != "rs") {
            return;
        }
        for (name, method) in default_methods(text) {
            if !ALLOWED.contains(&name.as_str()) {
                let path = path.display();
                self.problems.push(format!("{path}: `{name}::{method}` is a default method"));
            }
            self.found.insert(name);
        }
    }

    /// The default methods that are not allowed, and the entries of the list that are not needed.
    pub fn problems(self) -> Vec<String> {
        let mut problems = self.problems;
        for name in ALLOWED.iter().filter(|name| !self.found.contains(**name)) {
            problems.push(format!("the list of traits with default methods needs no `{name}`"));
        }
        problems
    }
}

/// The default methods of all `pub trait`s in a source, each with its trait's name.
fn default_methods(source: &str) -> Vec<(String, String)> {
    let code = without_comments_and_literals(source);
    let mut found = Vec::new();
    for (at, _) in code.match_indices("pub trait ") {
        let rest = code.get(at + "pub trait ".len()..).unwrap_or_default();
        let (Some(name), Some(open)) = (identifier(rest), rest.find('{')) else { continue };
        let body = rest.get(open + 1..).unwrap_or_default();
        let methods = default_methods_of(body).into_iter();
        found.extend(methods.map(|method| (name.to_owned(), method.to_owned())));
    }
    found
}

/// The methods with a body in the text that begins inside a trait's braces.
fn default_methods_of(body: &str) -> Vec<&str> {
    let mut found = Vec::new();
    // The method whose signature is being read.
    let mut method = None;
    let (mut braces, mut brackets) = (0_u32, 0_u32);
    for (at, character) in body.char_indices() {
        let starts_word =
            !body.get(..at).is_some_and(|before| before.ends_with(|c: char| c.is_alphanumeric()));
        match character {
            'f' if braces == 0 && method.is_none() && starts_word => {
                let rest = body.get(at..).and_then(|rest| rest.strip_prefix("fn "));
                method = rest.map(|rest| identifier(rest).unwrap_or("a method"));
            }
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.saturating_sub(1),
            ';' if braces == 0 && brackets == 0 => method = None,
            '{' => {
                if braces == 0 {
                    found.extend(method.take());
                }
                braces += 1;
            }
            '}' if braces == 0 => break,
            '}' => braces -= 1,
            _ => {}
        }
    }
    found
}

fn identifier(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    text.get(..end).filter(|name| !name.is_empty())
}

/// The source without line comments and without the contents of text and character literals, which may
/// hold braces.
fn without_comments_and_literals(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '/' if rest.peek() == Some(&'/') => {
                rest.by_ref().find(|next| *next == '\n');
                code.push('\n');
            }
            '"' => {
                while let Some(next) = rest.next() {
                    match next {
                        '\\' => drop(rest.next()),
                        '"' => break,
                        _ => {}
                    }
                }
                code.push_str("\"\"");
            }
            '\'' if matches!(rest.peek(), Some('{' | '}' | '"' | '(' | ')' | ';')) => {
                rest.next();
            }
            _ => code.push(character),
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(source: &str) -> Vec<String> {
        default_methods(source)
            .into_iter()
            .map(|(name, method)| format!("{name}.{method}"))
            .collect()
    }

    #[test]
    fn only_methods_with_a_body_are_found() {
        let source = r#"
            /// A trait { with a comment
            pub trait Store<T>: Send + Sync
            where
                T: Into<[u8; 3]>,
            {
                type Error;
                const NAME: &'static str = "{";
                fn read(&self, at: [u8; 2]) -> Result<(), Self::Error>;
                // fn commented(&self) {}
                fn size(&self) -> usize {
                    fn inner() {}
                    match '{' { _ => 1 }
                }
                fn generic<F: Fn(u8) -> u8>(&self, act: F)
                where
                    F: Send;
                async fn later(&self) -> u8 { 1 }
            }
            impl Store<u8> for Disk { fn read(&self) {} }
            pub(crate) trait Inside { fn inside(&self) {} }
            trait Private { fn private(&self) {} }
            pub trait Empty {}
            pub trait Second { fn second(&self) {} }
        "#;
        assert_eq!(names(source), ["Store.size", "Store.later", "Second.second"]);
    }

    #[test]
    fn a_trait_in_a_macro_is_found_too() {
        let source = "pub trait Made { $($(#[$doc])* fn $name(&self) -> u8 { self.$name() })* }";
        assert_eq!(names(source), ["Made.a method"]);
    }

    #[test]
    fn only_sources_of_crates_count() {
        for (path, problems) in [
            ("crates/one/src/lib.rs", 1),
            ("crates/one/src/deep/down.rs", 1),
            ("crates/one/tests/it.rs", 0),
            ("xtask/src/main.rs", 0),
            ("crates/one/src/notes.md", 0),
        ] {
            let mut check = Check::default();
            check.add(Path::new(path), "pub trait New { fn new(&self) {} }");
            assert_eq!(check.problems.len(), problems, "{path}");
        }
    }
}
