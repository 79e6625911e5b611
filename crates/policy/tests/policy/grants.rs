//! What a grant covers, and which grants cannot be given.

use std::collections::BTreeMap;

use serde_json::json;
use windlass_kernel::grant::Terms;
use windlass_kernel::{Code, Timestamp, TraceId, Uuid7};
use windlass_policy::{LexicalWorkspace, PolicySet, Question, Verdict, covers};

const TOOLS: &str = r#"
[server.shell]
connector = "command"
[server.shell.tool.run]
class = "write"
argv = ["bash", "-c", "--", { arg = "/line", dash = true }]
shell_line = "/line"
[server.files]
connector = "mcp-stdio"
command = ["files"]
[server.files.tool.write]
class = "write"
paths.write = ["/path"]
[server.files.tool.wipe]
class = "write"
"#;

const RULES: &str = r#"
[[rule]]
id = "work"
verdict = "allow"
reason = "ordinary work"
tool = "shell/run"
command = ["ls *", "echo *", "cp *", "cat *", "{source,.,export,cd,set,env,read,alias,bash} *"]
matches = [{ tool = "shell/run", args = { line = "ls" } }]
[[rule]]
id = "leaves"
verdict = "ask"
reason = "it leaves the machine"
tool = "shell/run"
command = ["git push *", "curl *"]
matches = [{ tool = "shell/run", args = { line = "git push" } }]
[[rule]]
id = "force"
verdict = "deny"
reason = "never"
tool = "shell/run"
command = "git push --force *"
matches = [{ tool = "shell/run", args = { line = "git push --force" } }]
[[rule]]
id = "ci"
verdict = "ask"
reason = "settings of CI"
path = ".ci/**"
matches = [{ tool = "shell/run", args = { line = "cp x .ci/y" } }]
[[rule]]
id = "secret"
verdict = "deny"
reason = "secret"
path = "**/*.pem"
matches = [{ tool = "shell/run", args = { line = "cat x.pem" } }]
[[rule]]
id = "files"
verdict = "ask"
reason = "it writes"
tool = "files/*"
matches = [{ tool = "files/write", args = { path = "x" } }]
"#;

fn set() -> PolicySet {
    let files = BTreeMap::from([
        ("tools.toml".to_owned(), TOOLS.as_bytes().to_vec()),
        ("policy/rules.toml".to_owned(), RULES.as_bytes().to_vec()),
    ]);
    PolicySet::load(&files).expect("the policy loads")
}

fn terms(tool: &str, command: Option<&str>, path: Option<&str>) -> Terms {
    Terms {
        everything: false,
        command: command.map(str::to_owned),
        path: path.map(str::to_owned),
        run: None,
        times: 1,
        tool: tool.to_owned(),
        until: Timestamp::EPOCH,
    }
}

fn question(server: &str, tool: &str, args: serde_json::Value) -> Question {
    Question {
        server: server.to_owned(),
        tool: tool.to_owned(),
        declared_class: None,
        args,
        has_key: true,
        phase: None,
        agent: None,
    }
}

fn line(line: &str) -> Question {
    question("shell", "run", json!({ "line": line }))
}

fn is_covered(set: &PolicySet, terms: &Terms, question: &Question) -> bool {
    covers(terms, question, &set.judge(question, &LexicalWorkspace::default()))
}

#[test]
fn a_grant_for_commands_names_the_program() {
    let set = set();
    for wide in ["g*", "g* push", "?it push", "[g]it push origin main", "*"] {
        let refused = set.check_grant(&terms("shell/run", Some(wide), None)).unwrap_err();
        assert_eq!(refused.code, Code::GrantTooWide, "{wide}");
    }
    for fine in ["git push *", "git push origin main", "{git,curl} x"] {
        set.check_grant(&terms("shell/run", Some(fine), None)).unwrap();
    }
}

#[test]
fn every_command_that_is_asked_about_must_be_covered() {
    let set = set();
    let push = terms("shell/run", Some("git push *"), None);
    for covered in [
        "git push",
        "git push origin main",
        "ls && git push origin main",
        "git push; echo done",
        "git push origin a && git push origin b",
    ] {
        assert!(is_covered(&set, &push, &line(covered)), "{covered}");
    }
    for other in [
        "curl http://x",
        "git push && curl http://x",
        "git push | curl -T - http://x",
        "ls",
        "git push --force",
        "git push && git push --force",
        "git pushx",
        "rm x",
        "git push && rm x",
        // Not as it was shown.
        "/usr/bin/git push",
        "git -C other push",
        "git --no-pager push",
        "source bin/activate; git push",
        ". bin/activate && git push",
        "git() { ls; }; git push",
        "cd other && git push",
        "GIT_SSH_COMMAND=ls git push",
        "export GIT_DIR=x; git push",
        "env GIT_DIR=x git push",
        "x=1; git push",
        "alias git=ls; git push",
        "set -e; git push",
        "bash -c 'cd other; git push'",
        "PATH=x; git push",
        "read x; git push",
    ] {
        assert!(!is_covered(&set, &push, &line(other)), "{other}");
    }
}

#[test]
fn what_hides_the_command_stays_a_question() {
    let set = set();
    // Even a grant for the whole tool does not answer what judging could not see through.
    let any = terms("shell/run", None, None);
    let push = terms("shell/run", Some("git push *"), None);
    for hidden in ["git push $(cat x)", "eval git push", "$GIT push", "git push `ls`"] {
        let judgement = set.judge(&line(hidden), &LexicalWorkspace::default());
        assert_ne!(judgement.verdict, Verdict::Allow, "{hidden}");
        assert!(!is_covered(&set, &any, &line(hidden)), "{hidden}");
        assert!(!is_covered(&set, &push, &line(hidden)), "{hidden}");
    }
    assert!(is_covered(&set, &any, &line("git push && curl http://x")));
}

#[test]
fn a_pattern_that_may_match_a_denied_path_stays_a_question() {
    let set = set();
    let maybe = line("cat *.pe?");
    let judgement = set.judge(&maybe, &LexicalWorkspace::default());
    assert_eq!(judgement.verdict, Verdict::Ask);
    for terms in [
        terms("shell/run", None, None),
        terms("shell/run", Some("cat *"), None),
        terms("shell/run", None, Some("**")),
        terms("shell/run", Some("cat *"), Some("**")),
    ] {
        assert!(!is_covered(&set, &terms, &maybe), "{terms:?}");
    }
}

#[test]
fn a_question_about_a_path_is_answered_by_a_path() {
    let set = set();
    let (one, both) = (line("cp x .ci/y"), line("cp x .ci/y && cp x .ci/z"));
    let path = |glob| terms("shell/run", None, Some(glob));
    assert!(is_covered(&set, &path(".ci/**"), &one));
    // The copy may land below a folder of that name, so the name alone does not cover it.
    assert!(!is_covered(&set, &path(".ci/y"), &one));
    assert!(is_covered(&set, &path(".ci/y{,/**}"), &one));
    assert!(is_covered(&set, &path(".ci/**"), &both));
    assert!(!is_covered(&set, &path(".ci/y{,/**}"), &both), "the other path is asked about too");
    assert!(!is_covered(&set, &path("src/**"), &one));
    assert!(!is_covered(&set, &terms("shell/run", Some("cp *"), None), &one), "not by a command");
    assert!(!is_covered(&set, &path(".ci/**"), &line("git push")), "nor the other way");
    let precise = terms("shell/run", Some("cp *"), Some(".ci/**"));
    assert!(is_covered(&set, &precise, &one));
    let echo = line("echo x > .ci/y");
    assert!(is_covered(&set, &path(".ci/**"), &echo));
    assert!(!is_covered(&set, &precise, &echo), "the command is another");
    assert!(!is_covered(&set, &path(".ci/**"), &line("cp x .ci/*")), "a pattern is not one path");
}

#[test]
fn a_tool_without_commands_is_covered_by_its_paths() {
    let set = set();
    let write = |path: &str| question("files", "write", json!({ "path": path }));
    assert!(is_covered(&set, &terms("files/write", None, None), &write("src/a")));
    assert!(is_covered(&set, &terms("files/*", None, Some("src/**")), &write("src/a")));
    assert!(!is_covered(&set, &terms("files/write", None, Some("src/**")), &write("doc/a")));
    assert!(!is_covered(&set, &terms("files/write", Some("*"), None), &write("src/a")));
    assert!(!is_covered(&set, &terms("shell/*", None, None), &write("src/a")));
    // It is asked about by two rules, and both must be covered.
    assert!(is_covered(&set, &terms("files/write", None, Some(".ci/*")), &write(".ci/a")));
    assert!(!is_covered(&set, &terms("files/write", None, Some("src/*")), &write(".ci/a")));
    let wipe = question("files", "wipe", json!({}));
    assert!(!is_covered(&set, &terms("files/wipe", None, Some("**")), &wipe), "it names no path");
    assert!(!is_covered(&set, &terms("[", None, None), &wipe));
}

#[test]
fn a_grant_must_be_narrow_and_not_denied() {
    let set = set();
    let code = |terms: &Terms| set.check_grant(terms).map_err(|refusal| refusal.code);
    for (tool, command, path) in [
        ("shell/run", Some("git push *"), None),
        ("shell/run", None, Some(".ci/**")),
        ("*", Some("cargo add *"), None),
        ("files/write", None, None),
        ("files/*", None, Some("**")),
    ] {
        assert_eq!(code(&terms(tool, command, path)), Ok(()), "{tool} {command:?} {path:?}");
    }
    for (tool, command, path, expected) in [
        ("*", None, None, Code::GrantTooWide),
        ("*/*", Some("*"), None, Code::GrantTooWide),
        ("{*,files/write}", None, None, Code::GrantTooWide),
        ("shell/run", None, None, Code::GrantTooWide),
        ("shell/run", Some("*"), None, Code::GrantTooWide),
        ("shell/run", Some("[a-z]*"), None, Code::GrantTooWide),
        ("shell/run", Some("[!z]*"), None, Code::GrantTooWide),
        ("shell/run", Some("*[a-m]*"), None, Code::GrantTooWide),
        ("shell/run", Some("{[a-m]*,[n-y]*}"), None, Code::GrantTooWide),
        ("shell/run", None, Some("[!z]*/**"), Code::GrantTooWide),
        ("shell/run", None, Some("**"), Code::GrantTooWide),
        ("shell/run", Some("git push --force *"), None, Code::PolicyDenied),
        ("shell/run", Some("git push --force origin *"), None, Code::PolicyDenied),
        ("nothing/here", None, None, Code::RequestInvalid),
        ("shell/run", Some("{"), None, Code::RequestInvalid),
    ] {
        assert_eq!(code(&terms(tool, command, path)), Err(expected), "{tool} {command:?} {path:?}");
    }
    let run = Some(TraceId(Uuid7::from_parts(1, [1; 10])));
    assert_eq!(code(&Terms { run, ..terms("*", None, None) }), Ok(()), "one run may be wide");
}

#[test]
fn what_stands_beside_a_granted_command_must_only_read() {
    let set = crate::shipped::shipped();
    let commands = |command: &str| terms("shell/run", Some(command), None);
    for (grant, covered) in [
        ("git push origin main", "git push origin main"),
        ("git push origin main", "git status && git log -1 && git push origin main"),
        ("git push origin main", "timeout 60 git push origin main 2>&1 | tail -5"),
        ("git push origin main", "sleep 1; git push origin main; echo done"),
        ("{git push origin main,cargo test}", "cargo test && git push origin main"),
    ] {
        assert!(is_covered(&set, &commands(grant), &line(covered)), "{covered}");
    }
    for (grant, other) in [
        ("git push origin main", "./evil.sh; git push origin main"),
        ("git push origin main", "git push origin main; ./evil.sh"),
        ("git push origin main", "git switch -q evil && git push origin main"),
        ("git push origin main", "git commit -am x && git push origin main"),
        ("git push origin main", "cargo test && git push origin main"),
        ("git push origin main", "bash -c 'make x; git push origin main'"),
        ("npm install left-pad", "cp evil.json package.json && npm install left-pad"),
        ("npm install left-pad", "echo '{}' > package.json && npm install left-pad"),
        ("npm install left-pad", "cat evil.json | tee package.json; npm install left-pad"),
    ] {
        let question = line(other);
        let judgement = set.judge(&question, &LexicalWorkspace::default());
        assert_eq!(judgement.verdict, Verdict::Ask, "{other}: {}", judgement.reason);
        assert!(!is_covered(&set, &commands(grant), &question), "{other}");
    }
    let claude = terms("shell/run", None, Some("CLAUDE.md"));
    assert!(is_covered(&set, &claude, &line("echo x >> CLAUDE.md")));
    assert!(is_covered(&set, &claude, &line("sed -i s/a/b/ CLAUDE.md")));
    assert!(!is_covered(&set, &claude, &line("make x; echo x >> CLAUDE.md")));
    assert!(!is_covered(&set, &claude, &line("cat x >> CLAUDE.md > README.md")));
}
