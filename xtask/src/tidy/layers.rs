//! Which crate may use which of our crates, and which others a pure crate may use.

use std::path::PathBuf;

use serde_json::Value;

use crate::cargo::{array, text};

/// One of our crates. Names are written without `windlass-`; lists are separated by spaces.
struct Layer {
    name: &'static str,
    /// The crates of ours that it may use.
    ours: Ours,
    /// The foreign crates that it may use; `None` for any.
    foreign: Option<&'static str>,
}

/// Which of our crates a crate may use.
enum Ours {
    These(&'static str),
    /// All that are shipped.
    Shipped,
    All,
}

const fn layer(name: &'static str, ours: &'static str) -> Layer {
    Layer { name, ours: Ours::These(ours), foreign: None }
}

/// A crate without IO. Its list of foreign crates is closed: none of them can reach outside.
const fn pure(name: &'static str, ours: &'static str, foreign: &'static str) -> Layer {
    Layer { name, ours: Ours::These(ours), foreign: Some(foreign) }
}

/// A crate that is never shipped and may use everything.
const fn unshipped(name: &'static str) -> Layer {
    Layer { name, ours: Ours::All, foreign: None }
}

/// All our crates. Development dependencies are free.
const LAYERS: &[Layer] = &[
    pure(
        "kernel",
        "",
        "base64 ed25519-dalek schemars serde serde_json serde_json_canonicalizer sha2 thiserror zeroize",
    ),
    pure("text", "kernel", "saphyr-parser serde serde_json strsim thiserror toml"),
    pure("redact", "", "aho-corasick serde_json"),
    pure("hooks", "", "serde serde_json thiserror toml_edit"),
    pure("governance", "kernel text", "regex serde serde_json thiserror toml"),
    pure("loops", "kernel text governance", "serde_json thiserror"),
    pure(
        "policy",
        "kernel text",
        "regex serde serde_json thiserror toml tree-sitter tree-sitter-bash",
    ),
    pure("formats", "kernel text", "serde serde_json thiserror"),
    layer("store", "kernel"),
    layer("store-sqlite", "kernel store"),
    layer("journal", "kernel store"),
    layer("broker", "kernel"),
    layer("mcp", "kernel"),
    layer("cell", ""),
    layer("beneath", ""),
    layer("gate", "kernel text beneath"),
    layer("files", "kernel"),
    layer("loopback-model", ""),
    layer("workspace", "kernel text beneath cell"),
    layer("connect", "kernel text beneath broker cell files gate workspace"),
    layer("database", "kernel"),
    layer("work", "kernel cell database"),
    layer("memory", "kernel connect database"),
    layer("seal", "kernel journal workspace"),
    layer("runtime", "kernel policy redact store journal connect workspace"),
    layer("sessions", "kernel hooks store journal runtime"),
    layer(
        "engine",
        "kernel text beneath policy redact formats governance store journal connect workspace runtime",
    ),
    layer("views", "kernel beneath formats store journal workspace engine"),
    layer("dashboard", "kernel text store journal views"),
    layer("notify", "kernel redact store journal cell connect runtime views"),
    layer("agents", "kernel broker cell mcp connect runtime engine"),
    layer("driver", "kernel text beneath policy store journal runtime engine"),
    Layer { name: "windlass", ours: Ours::Shipped, foreign: None },
    unshipped("testkit"),
    unshipped("bench"),
    unshipped("xtask"),
];

fn find(name: &str) -> Option<&'static Layer> {
    let short = name.strip_prefix("windlass-").unwrap_or(name);
    LAYERS.iter().find(|layer| layer.name == short)
}

fn is_ours(name: &str) -> bool {
    name == "xtask" || name == "windlass" || name.starts_with("windlass-")
}

fn contains(list: &str, name: &str) -> bool {
    list.split(' ').any(|listed| listed == name)
}

impl Layer {
    fn may_use(&self, name: &str) -> bool {
        if !is_ours(name) {
            return self.foreign.is_none_or(|foreign| contains(foreign, name));
        }
        match self.ours {
            Ours::These(these) => {
                name.strip_prefix("windlass-").is_some_and(|short| contains(these, short))
            }
            Ours::Shipped => find(name).is_none_or(|used| !matches!(used.ours, Ours::All)),
            Ours::All => true,
        }
    }
}

/// Crates without a layer, and dependencies that their layer does not allow.
pub fn problems(metadata: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for package in array(metadata, "packages") {
        let name = text(package, "name");
        let Some(layer) = find(name) else {
            problems.push(format!("the crate `{name}` is not in the table of layers"));
            continue;
        };
        for used in dependencies(package).filter(|used| !layer.may_use(used)) {
            let kind = if is_ours(used) { "" } else { " is pure and" };
            problems.push(format!("`{name}`{kind} may not use `{used}`"));
        }
    }
    problems
}

/// The first source file of each of our crates' targets.
pub fn crate_roots(metadata: &Value) -> Vec<PathBuf> {
    let targets = array(metadata, "packages").flat_map(|package| array(package, "targets"));
    targets
        .filter(|target| {
            array(target, "kind").any(|kind| kind.as_str().is_some_and(|kind| kind != "example"))
        })
        .map(|target| PathBuf::from(text(target, "src_path")))
        .filter(|path| path.components().any(|part| part.as_os_str() == "src"))
        .collect()
}

/// The dependencies of a package's build, without those of its tests.
fn dependencies(package: &Value) -> impl Iterator<Item = &str> {
    array(package, "dependencies")
        .filter(|dependency| dependency.get("kind").and_then(Value::as_str) != Some("dev"))
        .map(|dependency| text(dependency, "name"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, used: &str, kind: Option<&str>) -> Value {
        let dependency = json!({ "name": used, "kind": kind });
        json!({ "packages": [{ "name": name, "dependencies": [dependency] }] })
    }

    fn count(name: &str, used: &str) -> usize {
        problems(&package(name, used, None)).len()
    }

    #[test]
    fn only_the_dependencies_of_the_table_pass() {
        for (name, used) in [
            ("windlass-policy", "windlass-kernel"),
            ("windlass-store-sqlite", "windlass-store"),
            ("windlass-runtime", "windlass-connect"),
            ("windlass", "windlass-store-sqlite"),
            ("windlass-testkit", "windlass-runtime"),
            ("windlass-bench", "windlass-testkit"),
            ("windlass-connect", "tokio"),
            ("windlass-connect", "windlass-broker"),
            ("windlass-seal", "windlass-journal"),
            ("windlass-views", "windlass-engine"),
            ("windlass-driver", "windlass-engine"),
        ] {
            assert_eq!(count(name, used), 0, "{name} {used}");
        }
        for (name, used) in [
            ("windlass-kernel", "windlass-policy"),
            ("windlass-loops", "windlass-policy"),
            ("windlass-policy", "windlass-store"),
            ("windlass-engine", "windlass-views"),
            ("windlass-engine", "windlass-driver"),
            ("windlass-workspace", "windlass-connect"),
            ("windlass-store", "windlass-store-sqlite"),
            ("windlass-connect", "windlass-store"),
            ("windlass-broker", "windlass-connect"),
            ("windlass-policy", "windlass-broker"),
            ("windlass-runtime", "windlass-store-sqlite"),
            ("windlass-runtime", "windlass-testkit"),
            ("windlass", "windlass-testkit"),
            ("windlass-kernel", "xtask"),
            ("windlass-seal", "windlass-store"),
        ] {
            assert_eq!(count(name, used), 1, "{name} {used}");
        }
    }

    #[test]
    fn a_crate_that_is_not_in_the_table_is_reported() {
        assert_eq!(count("windlass-shiny", "serde"), 1);
    }

    #[test]
    fn tests_may_use_everything_and_builds_may_not() {
        let with = |kind| problems(&package("windlass-kernel", "windlass-testkit", Some(kind)));
        assert_eq!(with("dev"), Vec::<String>::new());
        assert_eq!(with("build"), ["`windlass-kernel` may not use `windlass-testkit`"]);
        assert_eq!(problems(&package("windlass-kernel", "proptest", Some("dev"))).len(), 0);
    }

    #[test]
    fn a_pure_crate_has_a_closed_list() {
        let pure: Vec<&Layer> = LAYERS.iter().filter(|layer| layer.foreign.is_some()).collect();
        assert_eq!(pure.len(), 8);
        for used in ["tokio", "rusqlite", "reqwest", "rand", "uuid", "chrono"] {
            for layer in &pure {
                let name = format!("windlass-{}", layer.name);
                assert_eq!(count(&name, used), 1, "{name} {used}");
            }
        }
        assert_eq!(count("windlass-kernel", "serde"), 0);
        assert_eq!(count("windlass-connect", "tokio"), 0);
    }

    #[test]
    fn the_roots_are_the_sources_of_the_targets() {
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
