//! Which crate may use which, and what a pure crate may use at all.

use std::path::PathBuf;

use serde_json::Value;

/// What a crate may use of ours.
enum May {
    /// Only these.
    Use(&'static [&'static str]),
    /// All but the test doubles, which are never shipped.
    Ship,
    /// All: it is never shipped.
    UseAny,
}

/// The table of layers; development dependencies are free.
const LAYERS: &[(&str, May)] = &[
    ("windlass-kernel", May::Use(&[])),
    ("windlass-text", May::Use(&["windlass-kernel"])),
    ("windlass-governance", May::Use(&["windlass-kernel", "windlass-text"])),
    ("windlass-loops", May::Use(&["windlass-kernel", "windlass-text", "windlass-governance"])),
    ("windlass-policy", May::Use(&["windlass-kernel", "windlass-text"])),
    ("windlass-formats", May::Use(&["windlass-kernel", "windlass-text"])),
    ("windlass-driver", May::Use(&["windlass-kernel", "windlass-text"])),
    ("windlass-store", May::Use(&["windlass-kernel"])),
    ("windlass-store-sqlite", May::Use(&["windlass-store", "windlass-kernel"])),
    ("windlass-connect", May::Use(&["windlass-kernel"])),
    ("windlass-blobs", May::Use(&["windlass-kernel"])),
    ("windlass-seal", May::Use(&["windlass-blobs", "windlass-kernel"])),
    (
        "windlass-runtime",
        May::Use(&["windlass-kernel", "windlass-policy", "windlass-store", "windlass-connect"]),
    ),
    (
        "windlass-engine",
        May::Use(&[
            "windlass-kernel",
            "windlass-text",
            "windlass-policy",
            "windlass-formats",
            "windlass-driver",
            "windlass-governance",
            "windlass-store",
            "windlass-connect",
            "windlass-runtime",
            "windlass-blobs",
        ]),
    ),
    ("windlass", May::Ship),
    ("windlass-testkit", May::UseAny),
    ("windlass-bench", May::UseAny),
    ("xtask", May::UseAny),
];

/// What is never part of what we ship.
const UNSHIPPED: [&str; 3] = ["windlass-testkit", "windlass-bench", "xtask"];

/// The crates that do no IO, and all that they may depend on: nothing here can reach outside.
const PURE: &[(&str, &[&str])] = &[
    (
        "windlass-kernel",
        &["schemars", "serde", "serde_json", "serde_json_canonicalizer", "sha2", "thiserror"],
    ),
    (
        "windlass-text",
        &["saphyr-parser", "serde", "serde_json", "strsim", "thiserror", "toml", "windlass-kernel"],
    ),
    (
        "windlass-governance",
        &["regex", "serde", "serde_json", "thiserror", "toml", "windlass-kernel", "windlass-text"],
    ),
    (
        "windlass-loops",
        &["serde_json", "thiserror", "windlass-governance", "windlass-kernel", "windlass-text"],
    ),
    (
        "windlass-policy",
        &[
            "serde",
            "serde_json",
            "thiserror",
            "toml",
            "tree-sitter",
            "tree-sitter-bash",
            "windlass-kernel",
            "windlass-text",
        ],
    ),
    ("windlass-formats", &["serde", "serde_json", "thiserror", "windlass-kernel", "windlass-text"]),
    (
        "windlass-driver",
        &["serde", "serde_json", "thiserror", "toml", "windlass-kernel", "windlass-text"],
    ),
];

/// Dependencies between our crates that the table does not have.
pub fn edges(metadata: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for package in packages(metadata) {
        let name = text(package, "name");
        let Some((_, may)) = LAYERS.iter().find(|(layer, _)| *layer == name) else {
            problems.push(format!("the crate `{name}` is not in the table of layers"));
            continue;
        };
        for used in dependencies(package).filter(|used| is_ours(used)) {
            let allowed = match may {
                May::Use(these) => these.contains(&used),
                May::Ship => !UNSHIPPED.contains(&used),
                May::UseAny => true,
            };
            if !allowed {
                problems.push(format!("`{name}` may not use `{used}`"));
            }
        }
    }
    problems
}

/// Dependencies with which a pure crate would not be pure.
pub fn purity(metadata: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for package in packages(metadata) {
        let name = text(package, "name");
        let Some((_, allowed)) = PURE.iter().find(|(pure, _)| *pure == name) else { continue };
        for used in dependencies(package).filter(|used| !allowed.contains(used)) {
            problems.push(format!("`{name}` is pure and may not depend on `{used}`"));
        }
    }
    problems
}

/// The files at which our crates start.
pub fn crate_roots(metadata: &Value) -> Vec<PathBuf> {
    let targets = packages(metadata).flat_map(|package| array(package, "targets"));
    targets
        .filter(|target| {
            array(target, "kind").any(|kind| kind.as_str().is_some_and(|kind| kind != "example"))
        })
        .map(|target| PathBuf::from(text(target, "src_path")))
        .filter(|path| path.components().any(|part| part.as_os_str() == "src"))
        .collect()
}

fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    array(metadata, "packages")
}

/// What a package depends on when it is built, not only tested.
fn dependencies(package: &Value) -> impl Iterator<Item = &str> {
    array(package, "dependencies")
        .filter(|dependency| dependency.get("kind").and_then(Value::as_str) != Some("dev"))
        .map(|dependency| text(dependency, "name"))
}

fn is_ours(name: &str) -> bool {
    name == "xtask" || name == "windlass" || name.starts_with("windlass-")
}

fn array<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn planted(name: &str, used: &str, kind: Option<&str>) -> Value {
        let dependency = json!({ "name": used, "kind": kind });
        json!({ "packages": [{ "name": name, "dependencies": [dependency] }] })
    }

    fn edge(name: &str, used: &str) -> usize {
        edges(&planted(name, used, None)).len()
    }

    #[test]
    fn only_the_tables_edges_pass() {
        for (name, used) in [
            ("windlass-policy", "windlass-kernel"),
            ("windlass-store-sqlite", "windlass-store"),
            ("windlass-runtime", "windlass-connect"),
            ("windlass", "windlass-store-sqlite"),
            ("windlass-testkit", "windlass-runtime"),
            ("windlass-bench", "windlass-testkit"),
            ("windlass-connect", "tokio"),
            ("windlass-seal", "windlass-blobs"),
        ] {
            assert_eq!(edge(name, used), 0, "{name} {used}");
        }
        for (name, used) in [
            ("windlass-kernel", "windlass-policy"),
            ("windlass-loops", "windlass-policy"),
            ("windlass-policy", "windlass-store"),
            ("windlass-driver", "windlass-policy"),
            ("windlass-store", "windlass-store-sqlite"),
            ("windlass-connect", "windlass-store"),
            ("windlass-runtime", "windlass-store-sqlite"),
            ("windlass-runtime", "windlass-testkit"),
            ("windlass", "windlass-testkit"),
            ("windlass-kernel", "xtask"),
            ("windlass-seal", "windlass-store"),
        ] {
            assert_eq!(edge(name, used), 1, "{name} {used}");
        }
    }

    #[test]
    fn a_crate_that_is_not_in_the_table_is_reported() {
        assert_eq!(edge("windlass-shiny", "serde"), 1);
    }

    #[test]
    fn tests_may_use_what_they_need_and_builds_may_not() {
        let with = |kind| planted("windlass-kernel", "windlass-testkit", Some(kind));
        assert_eq!(edges(&with("dev")), Vec::<String>::new());
        assert_eq!(edges(&with("build")).len(), 1);
        assert_eq!(purity(&planted("windlass-kernel", "proptest", Some("dev"))).len(), 0);
    }

    #[test]
    fn a_pure_crate_has_a_closed_list() {
        for used in ["tokio", "rusqlite", "reqwest", "rand", "uuid", "chrono"] {
            for (name, _) in PURE {
                assert_eq!(purity(&planted(name, used, None)).len(), 1, "{name} {used}");
            }
        }
        assert_eq!(purity(&planted("windlass-kernel", "serde", None)).len(), 0);
        assert_eq!(purity(&planted("windlass-connect", "tokio", None)).len(), 0);
    }

    #[test]
    fn a_crate_starts_where_its_targets_do() {
        let target = |kind: &str, path: &str| json!({ "kind": [kind], "src_path": path });
        let metadata = json!({ "packages": [{ "name": "windlass", "targets": [
            target("lib", "/w/crates/a/src/lib.rs"),
            target("bin", "/w/crates/a/src/main.rs"),
            target("test", "/w/crates/a/tests/t.rs"),
        ]}]});
        let roots = ["/w/crates/a/src/lib.rs", "/w/crates/a/src/main.rs"].map(PathBuf::from);
        assert_eq!(crate_roots(&metadata), roots);
    }
}
