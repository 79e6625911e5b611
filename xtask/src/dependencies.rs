//! Which licences, sources and versions our dependencies may have.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, bail};
use serde_json::Value;

use crate::cargo::{array, metadata, text};

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The platform of our releases. What is built only for others is not even downloaded.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// The licences that a dependency may have, each with the reason.
const LICENCES: &[(&str, &str)] = &[
    ("Apache-2.0", "our own licence"),
    ("BSD-3-Clause", "permissive: asks for the notice, which the sources carry"),
    ("ISC", "permissive: asks for the notice, which the sources carry"),
    ("MIT", "permissive: asks for the notice, which the sources carry"),
    ("MIT-0", "permissive: asks for nothing"),
    ("Unicode-3.0", "permissive: the data of the Unicode standard"),
    ("Zlib", "permissive: asks not to misrepresent the origin"),
];

/// Dependencies of which there may be several versions, each with the reason.
const DUPLICATES: &[(&str, &str)] = &[
    ("getrandom", "0.2 for ring, 0.3 for jsonschema (only in tests), 0.4 for all others"),
    ("ryu-js", "0.2 for serde_jcs, the second canonical JSON that tests compare ours with"),
    ("syn", "2 for derive macros that have not moved to 3: tracing, curve25519-dalek, landlock"),
];

/// Dependencies that are never used, each with the reason.
const BANNED: &[(&str, &str)] = &[
    ("openssl", "TLS is rustls, so that a build needs no system library"),
    ("openssl-sys", "TLS is rustls, so that a build needs no system library"),
    ("native-tls", "TLS is rustls, so that a build needs no system library"),
];

/// Checks all dependencies, those of tests included, and reports all problems at once.
///
/// # Errors
/// If there is a problem, or Cargo.lock is not up to date.
pub fn check(root: &Path) -> Result<()> {
    let options = ["--locked", "--all-features", "--filter-platform", PLATFORM];
    let problems = problems(&metadata(root, &options)?);
    for problem in &problems {
        eprintln!("dependencies: {problem}");
    }
    if !problems.is_empty() {
        bail!("{} problem(s) with dependencies", problems.len());
    }
    Ok(())
}

fn problems(metadata: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let mut licences = BTreeSet::new();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in array(metadata, "packages") {
        let (name, version) = (text(package, "name"), text(package, "version"));
        versions.entry(name).or_default().insert(version);
        if let Some((_, reason)) = BANNED.iter().find(|(banned, _)| *banned == name) {
            problems.push(format!("`{name}` is banned: {reason}"));
        }
        match package.get("source").and_then(Value::as_str) {
            Some(CRATES_IO) => {
                let licence = text(package, "license");
                if !is_allowed(licence, &mut licences) {
                    problems.push(format!("`{name}` has the licence `{licence}`"));
                }
            }
            Some(source) => problems.push(format!("`{name}` is not from crates.io: {source}")),
            None => problems.extend(wildcards(package)),
        }
    }
    for (name, versions) in &versions {
        if versions.len() > 1 && !DUPLICATES.iter().any(|(allowed, _)| allowed == name) {
            let versions: Vec<&str> = versions.iter().copied().collect();
            problems
                .push(format!("there are several versions of `{name}`: {}", versions.join(", ")));
        }
    }
    for (name, _) in DUPLICATES {
        if versions.get(name).is_none_or(|versions| versions.len() < 2) {
            problems.push(format!("the list of duplicates needs no `{name}`"));
        }
    }
    for (licence, _) in LICENCES.iter().filter(|(licence, _)| !licences.contains(licence)) {
        problems.push(format!("the list of licences needs no `{licence}`"));
    }
    problems
}

/// Dependencies of one of our crates that would take any version.
fn wildcards(package: &Value) -> impl Iterator<Item = String> {
    let any_version =
        |dependency: &&Value| text(dependency, "req") == "*" && dependency.get("path").is_none();
    array(package, "dependencies").filter(any_version).map(|dependency| {
        format!("`{}` takes any version of `{}`", text(package, "name"), text(dependency, "name"))
    })
}

/// Whether an SPDX expression can be met with allowed licences. Notes which were needed.
fn is_allowed(expression: &str, needed: &mut BTreeSet<&'static str>) -> bool {
    // Old manifests write `MIT/Apache-2.0`.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words, needed };
    parser.any() == Some(true) && parser.words.is_empty()
}

/// Evaluates an SPDX expression; `None` if it is malformed.
struct Parser<'a> {
    words: &'a [&'a str],
    needed: &'a mut BTreeSet<&'static str>,
}

impl Parser<'_> {
    fn take(&mut self, expected: &str) -> bool {
        let found = self.words.first() == Some(&expected);
        if found {
            self.words = self.words.get(1..).unwrap_or_default();
        }
        found
    }

    fn any(&mut self) -> Option<bool> {
        let mut allowed = self.all()?;
        while self.take("OR") {
            allowed |= self.all()?;
        }
        Some(allowed)
    }

    fn all(&mut self) -> Option<bool> {
        let mut allowed = self.one()?;
        while self.take("AND") {
            allowed &= self.one()?;
        }
        Some(allowed)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let allowed = self.any()?;
            return self.take(")").then_some(allowed);
        }
        let (licence, rest) = self.words.split_first()?;
        self.words = rest;
        if self.take("WITH") {
            // No licence with an exception is in the list.
            self.words = self.words.get(1..)?;
            return Some(false);
        }
        let allowed = LICENCES.iter().find(|(allowed, _)| allowed == licence);
        self.needed.extend(allowed.map(|(licence, _)| licence));
        Some(allowed.is_some())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A dependency from crates.io.
    fn package(name: &str, version: &str, license: &str) -> Value {
        json!({ "name": name, "version": version, "license": license, "source": CRATES_IO })
    }

    /// The problems of these packages, beside packages that need every entry of the lists.
    fn problems_of(packages: &[Value]) -> Vec<String> {
        let mut all = packages.to_vec();
        all.extend(LICENCES.iter().map(|(licence, _)| package("licensed", "1.0.0", licence)));
        for (name, _) in DUPLICATES {
            all.extend(["1.0.0", "2.0.0"].map(|version| package(name, version, "MIT")));
        }
        problems(&json!({ "packages": all }))
    }

    #[test]
    fn a_licence_is_met_by_any_allowed_choice() {
        let allowed = |expression| is_allowed(expression, &mut BTreeSet::new());
        for expression in [
            "MIT",
            "GPL-3.0-only OR MIT",
            "MIT/Apache-2.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
            "(MIT OR GPL-3.0-only) AND Unicode-3.0",
            "MIT AND BSD-3-Clause OR GPL-3.0-only",
        ] {
            assert!(allowed(expression), "{expression}");
        }
        for expression in [
            "",
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "GPL-3.0-only OR MIT AND GPL-3.0-only",
            "Apache-2.0 WITH LLVM-exception",
            "(MIT",
            "MIT Apache-2.0",
            "MIT OR",
            "OR",
        ] {
            assert!(!allowed(expression), "{expression}");
        }
    }

    #[test]
    fn licences_sources_and_bans_are_checked() {
        assert_eq!(problems_of(&[package("good", "1.0.0", "MIT")]), Vec::<String>::new());
        let git = json!({ "name": "a", "version": "1.0.0", "license": "MIT", "source": "git+x" });
        for (package, problem) in [
            (package("a", "1.0.0", "GPL-3.0-only"), "`a` has the licence `GPL-3.0-only`"),
            (git, "`a` is not from crates.io: git+x"),
            (
                package("native-tls", "1.0.0", "MIT"),
                "`native-tls` is banned: TLS is rustls, so that a build needs no system library",
            ),
            (
                json!({ "name": "windlass", "version": "1.0.0", "source": null, "dependencies": [
                    { "name": "b", "req": "*" }, { "name": "c", "req": "*", "path": "c" },
                ] }),
                "`windlass` takes any version of `b`",
            ),
        ] {
            assert_eq!(problems_of(&[package]), [problem]);
        }
    }

    #[test]
    fn several_versions_need_an_entry_and_an_entry_several_versions() {
        let two = ["1.0.0", "1.1.0"].map(|version| package("a", version, "MIT"));
        assert_eq!(problems_of(&two), ["there are several versions of `a`: 1.0.0, 1.1.0"]);
        let entries = DUPLICATES.len() + LICENCES.len();
        assert_eq!(problems(&json!({ "packages": [] })).len(), entries);
    }
}
