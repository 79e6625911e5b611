//! What a rule leaves out is left out only where nothing is in doubt.

use crate::common::{load, question};
use serde_json::{Value, json};
use windlass_policy::{LexicalWorkspace, PolicySet, Verdict};

const TOOLS: &str = r#"
[server.shell]
connector = "command"
[server.shell.tool.run]
class = "write"
argv = ["bash", "-c", "--", { arg = "/line", dash = true }]
shell_line = "/line"
[server.notes]
connector = "mcp-stdio"
command = ["node", "server.js"]
[server.notes.tool.add]
class = "write"
"#;

const RULES: &str = r#"
[[rule]]
id = "work"
verdict = "allow"
reason = "ordinary work"
tool = "shell/run"
command = ["git *", "cat *"]
matches = [{ tool = "shell/run", args = { line = "cat a" } }]
[[rule]]
id = "leaves"
verdict = "deny"
reason = "it leaves the machine"
tool = "shell/run"
command = "git push *"
except_command = "git push fork *"
matches = [{ tool = "shell/run", args = { line = "git push" } }]
[[rule]]
id = "keys"
verdict = "deny"
reason = "keys"
path = "keys/**"
except_path = "keys/*.pub"
matches = [{ tool = "shell/run", args = { line = "cat keys/a" } }]
[[rule]]
id = "notes"
verdict = "allow"
reason = "plain notes"
tool = "notes/add"
args = { "/kind" = "plain" }
matches = [{ tool = "notes/add", args = { kind = "plain" } }]
"#;

fn set() -> PolicySet {
    load(TOOLS, RULES).unwrap()
}

fn verdict(line: &str, workspace: &LexicalWorkspace) -> Verdict {
    judged(line, workspace).0
}

/// The verdict on a line, and the rules that it comes from.
fn judged(line: &str, workspace: &LexicalWorkspace) -> (Verdict, Vec<String>) {
    let judgement = set().judge(&question("shell/run", json!({ "line": line })), workspace);
    (judgement.verdict, judgement.rules.into_iter().map(|hit| hit.id).collect())
}

#[test]
fn an_exception_does_not_count_for_a_line_that_cannot_be_read_with_certainty() {
    let workspace = LexicalWorkspace::default();
    assert_eq!(verdict("git push fork main", &workspace), Verdict::Allow);
    assert_eq!(verdict("git push origin main", &workspace), Verdict::Deny);
    assert_eq!(verdict("git push fork 'main", &workspace), Verdict::Deny);
}

#[test]
fn an_excepted_path_does_not_count_for_a_pattern_of_paths() {
    let workspace = LexicalWorkspace::default();
    assert_eq!(verdict("cat keys/a.pub", &workspace), Verdict::Allow);
    assert_eq!(verdict("cat keys/*.pub", &workspace), Verdict::Deny);
    assert_eq!(verdict("cat keys/[!x].pub", &workspace), Verdict::Deny);
}

#[test]
fn an_allowed_argument_must_be_there() {
    let set = set();
    let judged =
        |args: Value| set.judge(&question("notes/add", args), &LexicalWorkspace::default()).verdict;
    assert_eq!(judged(json!({ "kind": "plain" })), Verdict::Allow);
    assert_eq!(judged(json!({ "kind": "other" })), Verdict::Deny);
    assert_eq!(judged(json!({})), Verdict::Deny);
}

#[test]
fn options_of_git_itself_do_not_hide_what_drops_changes() {
    let workspace = LexicalWorkspace::default()
        .with_file("keys/changed")
        .with_file("keys/new")
        .with_uncommitted("keys/changed", true)
        .with_uncommitted("keys/new", false);
    let expected = (Verdict::Ask, vec!["keys".to_owned(), "work".to_owned()]);
    for command in ["clean -fd", "checkout -f", "reset --hard", "restore ."] {
        for options in ["", "-c a.b=c ", "-C . ", "-c a.b=c -C . "] {
            let line = format!("git {options}{command}");
            assert_eq!(judged(&line, &workspace), expected, "{line}");
        }
    }
}

#[test]
fn changes_of_what_git_obeys_are_asked_about() {
    let workspace = LexicalWorkspace::default()
        .with_named_by_git("tools/clean.sh", "filter.x.clean")
        .with_named_by_git("ci/hooks", "core.hooksPath");
    for line in [
        "git mv a tools/clean.sh",
        "cat a > tools/clean.sh",
        "cat a > ./ci/../ci/hooks/pre-commit",
        "git mv evil ci",
    ] {
        let judgement = set().judge(&question("shell/run", json!({ "line": line })), &workspace);
        assert_eq!(judgement.verdict, Verdict::Ask, "{line}: {judgement:?}");
        assert!(judgement.findings.iter().any(|one| one.contains("its setting")), "{judgement:?}");
    }
    for line in ["cat tools/clean.sh", "cat a > tools/other.sh", "git mv a ci-hooks", "git status"]
    {
        assert_eq!(verdict(line, &workspace), Verdict::Allow, "{line}");
    }
}
