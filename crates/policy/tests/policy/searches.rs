//! What a search may show: its globs are paths, and what a client searches is read.

use std::collections::BTreeMap;

use crate::common::question;
use crate::shipped::shipped;
use serde_json::{Value, json};
use windlass_kernel::{SECRET_FILE_EXAMPLES, SECRET_FILES};
use windlass_policy::{LexicalWorkspace, Verdict};

fn workspace() -> LexicalWorkspace {
    ["src/a.rs", "app/.env", "docs/key.md", "app/.envrc", ".env.example"]
        .into_iter()
        .fold(LexicalWorkspace::default(), LexicalWorkspace::with_file)
}

#[test]
fn a_glob_that_names_a_secret_is_denied_like_its_path() {
    for args in [
        json!({ "pattern": "PASSWORD", "glob": ".env" }),
        json!({ "pattern": "PASSWORD", "glob": "**/.env" }),
        json!({ "pattern": "PASSWORD", "glob": "/app/.env" }),
        json!({ "pattern": "PASSWORD", "glob": ".env", "path": "app" }),
        json!({ "pattern": "PASSWORD", "glob": ".env*" }),
        json!({ "pattern": "PASSWORD", "glob": "*.{rs,pem}" }),
        json!({ "pattern": "PASSWORD", "glob": "{a,{b,.npmrc}}" }),
        json!({ "pattern": "PASSWORD", "glob": "*.rs,.env" }),
        json!({ "pattern": "PASSWORD", "glob": "*.rs .env" }),
        json!({ "pattern": "PASSWORD", "glob": ".ENV", "ignore_case": true }),
        json!({ "glob": "**/credentials.json" }),
    ] {
        let judgement = shipped().judge(&question("fs/search", args.clone()), &workspace());
        assert_eq!(judgement.verdict, Verdict::Deny, "{args}: {}", judgement.reason);
    }
    for args in [
        json!({ "pattern": "PASSWORD" }),
        json!({ "pattern": "PASSWORD", "glob": "*.rs" }),
        json!({ "pattern": "PASSWORD", "glob": "!.env" }),
        json!({ "pattern": "PASSWORD", "glob": ".env.example" }),
        json!({ "pattern": ".env", "path": "src" }),
    ] {
        let judgement = shipped().judge(&question("fs/search", args.clone()), &workspace());
        assert_eq!(judgement.verdict, Verdict::Allow, "{args}: {}", judgement.reason);
    }
}

#[test]
fn a_search_of_a_client_reads_the_files_below_its_folder() {
    let ignoring = workspace().with_ignored("app/.env", false).with_ignored("app/.envrc", false);
    let only = |name: &str| LexicalWorkspace::default().with_file(name);
    let cases: [(Value, LexicalWorkspace, Verdict); 9] = [
        (json!({ "pattern": "P", "path": "." }), workspace(), Verdict::Ask),
        (json!({ "pattern": "P", "path": "app" }), workspace(), Verdict::Ask),
        (json!({ "pattern": "P", "path": "src" }), workspace(), Verdict::Allow),
        (json!({ "pattern": "P", "glob": "*.rs" }), workspace(), Verdict::Allow),
        (json!({ "pattern": "P", "glob": ".e*" }), workspace(), Verdict::Ask),
        // Clients leave out what git ignores, unless they are told not to, or a glob chooses it.
        (json!({ "pattern": "P" }), ignoring.clone(), Verdict::Allow),
        (json!({ "pattern": "P", "include_ignored": true }), ignoring.clone(), Verdict::Ask),
        (json!({ "pattern": "P", "glob": "app/*" }), ignoring, Verdict::Ask),
        (json!({ "pattern": "P" }), only("src/a.rs"), Verdict::Allow),
    ];
    let set = shipped().for_clients();
    for (args, workspace, expected) in cases {
        let judgement = set.judge(&question("fs/search", args.clone()), &workspace);
        assert_eq!(judgement.verdict, expected, "{args}: {}", judgement.reason);
    }
}

#[test]
fn a_search_leaves_out_what_may_not_be_read() {
    let unreadable = shipped().unreadable(&question("fs/search", json!({ "pattern": "P" })), false);
    for path in ["app/.env", ".aws/credentials", "a/server.pem", ".envrc", "x.tfstate"] {
        assert!(unreadable.contains(path), "{path}");
    }
    for path in ["src/a.rs", ".env.example", "CLAUDE.md", ".github/workflows/ci.yml", ".ENV"] {
        assert!(!unreadable.contains(path), "{path}");
    }
    let folding = shipped().unreadable(&question("fs/search", json!({ "pattern": "P" })), true);
    assert!(folding.contains(".ENV"));
    let reading = shipped().unreadable(&question("fs/read", json!({ "path": ".env" })), false);
    assert!(!reading.contains(".env"), "a file that is named is judged itself");
}

#[test]
fn the_shipped_rule_and_the_cell_have_the_same_list() {
    let text = include_str!("../../../../policies/default.toml");
    let file: BTreeMap<String, toml::Value> = toml::from_str(text).unwrap();
    let rules = file["rule"].as_array().unwrap();
    let rule = rules.iter().find(|rule| rule["id"].as_str() == Some("keep-secrets")).unwrap();
    let globs = |key: &str| -> Vec<&str> {
        rule[key].as_array().unwrap().iter().filter_map(toml::Value::as_str).collect()
    };
    assert_eq!(globs("path"), SECRET_FILES);
    // A person may show it.
    let except = [&SECRET_FILE_EXAMPLES[..], &["**/.envrc"]].concat();
    assert_eq!(globs("except_path"), except);
}

#[test]
fn a_search_without_a_match_is_an_answer() {
    let set = shipped();
    let (_, tool) = set.registry().find("shell", "run").unwrap();
    let is_answer = |line: &str| tool.no_match_is_an_answer(&json!({ "line": line }));
    for line in [
        "grep -rn needle src",
        "cd src && grep needle a.rs",
        "cat a | grep b",
        "git grep -n needle",
        "rg needle",
        "git log --oneline | grep fix",
    ] {
        assert!(is_answer(line), "{line}");
    }
    for line in [
        "cargo test",
        "cargo test | grep x",
        "grep x a && cargo test",
        "grep x a | wc -l",
        "grep x $Y",
        "",
    ] {
        assert!(!is_answer(line), "{line}");
    }
    assert!(!tool.no_match_is_an_answer(&json!({})));
}
