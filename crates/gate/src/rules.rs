//! The rules about files that a command may not change unasked.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use windlass_kernel::Digest;
use windlass_text::{Glob, GlobKind, GlobText};

use crate::rel_path::RelPath;

/// The most names that a pattern's alternatives are spelled out to.
const NAMES_MAX: usize = 4096;

/// One rule of the policy about paths that are written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// Its name.
    pub id: String,
    /// Its reason, for people.
    pub reason: String,
    /// The paths.
    pub paths: Vec<Glob>,
    /// Those of them that it does not mean.
    pub except: Vec<Glob>,
}

/// These rules, and what tells quickly that a path matches none.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    rules: Vec<Rule>,
    digest: Digest,
    quick: Quick,
    /// For each rule the folders that its paths have on the way.
    folders: Vec<Vec<Glob>>,
}

/// The names without which no rule matches a path: a pattern that begins with `**/` needs its next part somewhere.
#[derive(Clone, Debug, Default, PartialEq)]
struct Quick {
    names: BTreeSet<String>,
    endings: Vec<String>,
    /// A pattern needs no name that could be told.
    is_any: bool,
}

impl Eq for Rules {}

impl Rules {
    /// Prepares rules.
    #[must_use]
    pub fn new(rules: Vec<Rule>) -> Self {
        let mut quick = Quick::default();
        for glob in rules.iter().flat_map(|rule| &rule.paths) {
            quick.add(glob.pattern());
        }
        let text = serde_json::to_vec(&rules).unwrap_or_default();
        let folders = rules.iter().map(|rule| rule.paths.iter().flat_map(folders_of).collect());
        Self { folders: folders.collect(), digest: Digest::of(&text), quick, rules }
    }

    /// These with more of them, which replace those of the same name.
    #[must_use]
    pub fn with(&self, more: Vec<Rule>) -> Self {
        let others = self.rules.iter().filter(|rule| more.iter().all(|new| new.id != rule.id));
        let others: Vec<Rule> = others.cloned().collect();
        Self::new(others.into_iter().chain(more).collect())
    }

    /// All of them.
    pub(crate) fn all(&self) -> &[Rule] {
        &self.rules
    }

    /// What tells them from others.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// The rule that a path matches.
    #[must_use]
    pub fn of(&self, path: &str) -> Option<&Rule> {
        let text = GlobText::new(path);
        let any = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(&text));
        self.rules.iter().find(|rule| any(&rule.paths) && !any(&rule.except))
    }

    /// The rule that a path matches, or something that can be reached through it if it is a folder or a link to one.
    #[must_use]
    pub(crate) fn of_or_below(&self, path: &RelPath) -> Option<&Rule> {
        let text = path.text();
        if let Some(rule) = self.of(&text) {
            return Some(rule);
        }
        let text = GlobText::new(&text);
        let any = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(&text));
        let mut all = self.rules.iter().zip(&self.folders);
        all.find(|(rule, folders)| any(folders) && !any(&rule.except)).map(|(rule, _)| rule)
    }

    /// Whether a rule is about whatever is in a folder.
    #[must_use]
    pub fn is_about_all_of(&self, folder: &RelPath) -> bool {
        self.of(&format!("{folder}/a")).is_some()
    }

    /// Whether something with one of a path's names in its own may match a rule.
    pub(crate) fn may_match_by(&self, path: &RelPath) -> bool {
        path.as_path().iter().any(|name| self.may_match(&name.to_string_lossy()))
    }

    /// Whether a path with this name in it may match a rule.
    pub(crate) fn may_match(&self, name: &str) -> bool {
        let Quick { names, endings, is_any } = &self.quick;
        *is_any || names.contains(name) || endings.iter().any(|ending| name.ends_with(ending))
    }
}

impl Quick {
    fn add(&mut self, pattern: &str) {
        let parts = pattern.split('/').skip_while(|part| *part == "**");
        // A brace can hold a slash: then the parts are none.
        let balanced = |part: &str| part.matches('{').count() == part.matches('}').count();
        let Some(first) = parts.into_iter().next().filter(|part| balanced(part)) else {
            self.is_any = true;
            return;
        };
        let Some(names) = spelled_out(first) else {
            self.is_any = true;
            return;
        };
        for name in names {
            match name.strip_prefix('*') {
                Some(ending) if is_literal(ending) && !ending.is_empty() => {
                    self.endings.push(ending.to_owned());
                }
                None if is_literal(&name) => drop(self.names.insert(name)),
                _ => self.is_any = true,
            }
        }
    }
}

/// The folders that a pattern's paths have on the way: its beginnings, but for those that any path matches.
fn folders_of(glob: &Glob) -> Vec<Glob> {
    // Without a list of its alternatives every folder may be one.
    let all = spelled_out(glob.pattern()).unwrap_or_else(|| vec!["**/*/x".to_owned()]);
    let mut found = BTreeSet::new();
    for pattern in &all {
        let ends = pattern.match_indices('/').map(|(at, _)| at);
        let starts = ends.filter_map(|at| pattern.get(..at));
        found.extend(starts.filter(|start| !start.split('/').all(|part| part == "**")));
    }
    found.into_iter().filter_map(|start| Glob::new(start, GlobKind::Path).ok()).collect()
}

fn is_literal(text: &str) -> bool {
    !text.contains(['*', '?', '[', ']', '{', '}', '\\'])
}

/// A part of a pattern with each of its alternatives; `None` if there are too many, or it cannot be taken apart.
fn spelled_out(part: &str) -> Option<Vec<String>> {
    let Some((before, rest)) = part.split_once('{') else { return Some(vec![part.to_owned()]) };
    if before.contains('\\') {
        return None;
    }
    let (mut depth, mut end, mut cuts) = (0_usize, None, Vec::new());
    for (at, char) in rest.char_indices() {
        match char {
            '\\' => return None,
            '{' => depth += 1,
            '}' if depth == 0 => {
                end = Some(at);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => cuts.push(at),
            _ => {}
        }
    }
    let end = end?;
    let (mut names, mut from) = (Vec::new(), 0);
    let after = rest.get(end + 1..)?;
    for cut in cuts.into_iter().chain([end]) {
        let alternative = rest.get(from..cut)?;
        names.extend(spelled_out(&format!("{before}{alternative}{after}"))?);
        from = cut + 1;
        if names.len() > NAMES_MAX {
            return None;
        }
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(patterns: &[&str]) -> Rules {
        let paths = patterns.iter().map(|pattern| Glob::in_workspace(pattern).unwrap()).collect();
        let (id, reason) = ("id".to_owned(), "reason".to_owned());
        Rules::new(vec![Rule { id, reason, paths, except: Vec::new() }])
    }

    #[test]
    fn alternatives_are_spelled_out() {
        let spelled = |part| spelled_out(part).map(|names| names.join(" "));
        assert_eq!(spelled("a").as_deref(), Some("a"));
        assert_eq!(
            spelled("{,.}left{.{yml,yaml},hook}").as_deref(),
            Some("left.yml left.yaml lefthook .left.yml .left.yaml .lefthook")
        );
        assert_eq!(spelled("{a,b"), None);
    }

    #[test]
    fn what_may_not_match_by_its_names_matches_no_rule() {
        let rules =
            rules(&["**/.{claude,codex}/**", "**/*.code-workspace", "**/.github", "docs/x"]);
        for (path, expected) in [
            (".claude/settings.json", true),
            ("a/.codex/b/c", true),
            ("a/x.code-workspace", true),
            (".github", true),
            ("docs/x", true),
            ("src/main.rs", false),
            ("claude/settings.json", false),
        ] {
            assert_eq!(rules.of(path).is_some(), expected, "{path}");
            let quick = path.split('/').any(|name| rules.may_match(name));
            assert!(quick || !expected, "{path}");
        }
        assert!(!rules.may_match("src") && !rules.may_match("main.rs"));
    }

    #[test]
    fn a_folder_on_the_way_to_what_a_rule_is_about_is_found() {
        let rules = rules(&["**/.cargo/config{,.toml}", "docs/{a/b,c}/x", "**/CLAUDE.md"]);
        for (path, expected) in [
            (".cargo", true),
            ("sub/.cargo", true),
            ("docs", true),
            ("docs/a", true),
            ("docs/a/b", true),
            ("docs/d", false),
            ("cargo", false),
            (".cargo/registry", false),
            ("CLAUDE.md", true),
            ("src", false),
        ] {
            assert_eq!(rules.of_or_below(&RelPath::from(path)).is_some(), expected, "{path}");
        }
    }

    #[test]
    fn a_pattern_that_names_nothing_is_compared_with_every_path() {
        for pattern in ["**", "**/*", "**/a[bc]/**", "**/{a/b,c}"] {
            assert!(rules(&[pattern]).may_match("whatever"), "{pattern}");
        }
    }
}
