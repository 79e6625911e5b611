//! Each test that the documents name is there.

use std::collections::BTreeSet;
use std::path::Path;

/// The documents that name tests.
const DOCUMENTS: [&str; 2] = ["docs/requirements", "SECURITY.md"];

/// Collects what the documents name, and what there is.
#[derive(Default)]
pub struct Check {
    /// The names of functions, modules and files.
    known: BTreeSet<String>,
    /// A document, a line in it, and the test that it names.
    named: Vec<(String, usize, String)>,
}

impl Check {
    /// Takes up one file.
    pub fn add(&mut self, path: &Path, text: &str) {
        let shown = path.to_string_lossy();
        if DOCUMENTS.iter().any(|document| shown.starts_with(document)) {
            for (at, line) in text.lines().enumerate() {
                let quoted = line.split('`').skip(1).step_by(2);
                let tests = quoted.filter(|text| text.contains("::") && !text.contains('…'));
                self.named.extend(tests.map(|test| (shown.to_string(), at + 1, test.to_owned())));
            }
        }
        if path.extension().is_some_and(|end| end == "rs") {
            let parts = path.iter().map(|part| part.to_string_lossy().replace(".rs", ""));
            self.known.extend(parts);
            let words: Vec<&str> =
                text.split(|one: char| !(one.is_alphanumeric() || one == '_')).collect();
            let declared = words.windows(2).filter(|pair| matches!(pair, ["fn" | "mod", _]));
            self.known.extend(declared.filter_map(|pair| Some((*pair.last()?).to_owned())));
        }
    }

    /// The names of which no function, module or file is known.
    pub fn problems(&self) -> Vec<String> {
        let is_missing = |test: &str| {
            let name = test.rsplit("::").next().unwrap_or_default();
            let is_name = name.len() > 5
                && name
                    .chars()
                    .all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '_');
            is_name && !self.known.contains(name)
        };
        let missing = self.named.iter().filter(|(.., test)| is_missing(test));
        missing
            .map(|(document, line, test)| format!("{document}:{line}: there is no test `{test}`"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_is_gone_is_told() {
        let mut check = Check::default();
        check.add(
            Path::new("crates/x/tests/x/holds.rs"),
            "fn it_holds_water() {}\nmod inner_part {}\n",
        );
        check.add(Path::new("SECURITY.md"), "| a | `x holds::it_holds_water`, `x::inner_part` |\n");
        check.add(
            Path::new("docs/requirements/x.md"),
            "\n`holds::it_holds_no_water` and `A::b`, `holds::it_…`\n",
        );
        check.add(Path::new("docs/other.md"), "`holds::it_is_not_here`\n");
        assert_eq!(
            check.problems(),
            ["docs/requirements/x.md:2: there is no test `holds::it_holds_no_water`"]
        );
    }
}
