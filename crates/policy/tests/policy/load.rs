//! What a policy set refuses when it is read, and where.

use std::collections::BTreeMap;

use crate::common::{RULE, load, question};
use serde_json::json;
use windlass_kernel::{Code, Digest, RiskLevel, canon};
use windlass_policy::{Connector, LexicalWorkspace, OnUncertain, PolicySet, Question, Verdict};

const TOOLS: &str = r#"
[server.notes]
connector = "mcp-stdio"
command = ["node", "server.js"]
env = ["NOTES_TOKEN"]
honours_keys = true
[server.notes.tool.add]
class = "write"
remote_name = "addNote"
input_bytes_max = 64
paths.write = ["/target", "/targets/*"]
on_uncertain = { action = "probe", tool = "lookup", args = { key = "$key" }, found = "/found" }
[server.notes.tool.lookup]
class = "read"
paths.read = ["/path"]
[server.remote]
connector = "mcp-http"
url = "http://127.0.0.1:8080/mcp"
bearer_env = "REMOTE_TOKEN"
[server.remote.tool.drop]
class = "high-risk"
[server.local]
connector = "command"
[server.local.tool.copy]
class = "write"
argv = ["cp", "--", { arg = "/from" }, { arg = "/more", optional = true }]
stdin = "/text"
"#;

#[test]
fn faults_are_named_with_their_place() {
    let changed = |from: &str, to: &str| RULE.replace(from, to);
    for (rules, line, column, message) in [
        (changed("reason =", "raeson ="), 5, 1, "unknown field `raeson`"),
        (changed("reason = \"it is fine\"\n", ""), 2, 1, "missing field `reason`"),
        (changed("it is fine", " "), 5, 10, "the reason must be one line"),
        (changed("\"allow\"", "\"maybe\""), 4, 11, "unknown variant `maybe`"),
        (changed("matches", "misses"), 3, 6, "must have an example"),
        (changed("{ tool = \"notes/add\" }", "{ tool = \"notes/none\" }"), 7, 12, "not registered"),
        (
            changed("{ tool = \"notes/add\" }", "{ tool = \"remote/drop\" }"),
            7,
            12,
            "does not match this",
        ),
        (format!("{RULE}misses = [{{ tool = \"notes/add\" }}]"), 8, 11, "it matches this example"),
        (changed("notes/*", "other/*"), 3, 6, "matches no registered tool"),
        (changed("tool = \"notes/*\"", "tool = \"notes/[\""), 6, 8, "is malformed"),
        (changed("tool = \"notes/*\"\n", ""), 3, 6, "must name its `tool`"),
        (format!("{RULE}path = \"/etc\""), 8, 8, "must be relative"),
        (format!("{RULE}access = \"read\""), 8, 10, "`access` needs `path`"),
        (format!("{RULE}{RULE}"), 10, 6, "is already used at policy/a.toml:2"),
        (format!("{RULE}{}", changed("\"a\"", "\"b\"")), 10, 6, "has no effect"),
        ("= 1".to_owned(), 1, 1, ""),
    ] {
        let error = load(TOOLS, &rules).unwrap_err();
        assert!(error.message.contains(message), "{error} instead of {message}");
        assert_eq!((error.location.line, error.location.column), (line, column), "{error}");
        assert_eq!(
            (error.location.file.as_str(), error.code()),
            ("policy/a.toml", Code::PolicyInvalid)
        );
        assert!(!error.message.contains('\n'), "{error}");
    }
}

#[test]
fn a_rule_under_a_stricter_one_is_refused() {
    let stricter = r#"
[[rule]]
id = "never"
verdict = "deny"
reason = "no"
tool = "*"
matches = [{ tool = "notes/add" }]
"#;
    let error = load(TOOLS, &format!("{RULE}{stricter}")).unwrap_err();
    assert!(error.message.contains("rule `a` has no effect: `never`"), "{error}");
    assert!(error.hint.is_some());
    let narrower = stricter.replace("tool = \"*\"", "tool = \"*\"\nclass = \"write\"");
    let other = RULE.replace("notes/add", "notes/lookup");
    assert!(load(TOOLS, &format!("{other}{narrower}")).is_ok());
}

#[test]
fn an_allow_example_that_another_rule_refuses_is_refused() {
    for (verdict, verb) in [("ask", "asked about"), ("deny", "denied")] {
        let stricter = format!(
            "\n[[rule]]\nid = \"writes\"\nverdict = \"{verdict}\"\nreason = \"no\"\nclass = \"write\"\n\
             matches = [{{ tool = \"notes/add\" }}]\n"
        );
        let error = load(TOOLS, &format!("{RULE}{stricter}")).unwrap_err();
        let expected =
            format!("rule `a`: this example is {verb} by rule `writes` at policy/a.toml:9");
        assert_eq!(error.message, expected);
        assert_eq!((error.location.file.as_str(), error.location.line), ("policy/a.toml", 7));
        assert!(error.hint.is_some());
    }
}

#[test]
fn exceptions_take_out_what_a_rule_matches() {
    let rules = r#"
[[rule]]
id = "copy"
verdict = "allow"
reason = "copying is fine"
tool = "local/copy"
command = "cp -- *"
except_command = "cp -- secret *"
matches = [{ tool = "local/copy", args = { from = ["a", "b"] } }]
misses = [{ tool = "local/copy", args = { from = ["secret", "b"] } }]
[[rule]]
id = "keep"
verdict = "deny"
reason = "kept"
path = "kept/**"
except_path = "kept/open/**"
matches = [{ tool = "local/copy", args = { from = ["kept/a", "b"] } }]
misses = [{ tool = "local/copy", args = { from = ["kept/open/a", "b"] } }]
"#;
    load(TOOLS, rules).unwrap();
    let needs = rules.replace("command = \"cp -- *\"\n", "");
    let error = load(TOOLS, &needs).unwrap_err();
    assert!(error.message.contains("`except_command` needs `command`"), "{error}");
    let needs = rules.replace("path = \"kept/**\"\n", "tool = \"*\"\n");
    let error = load(TOOLS, &needs).unwrap_err();
    assert!(error.message.contains("`except_path` needs `path`"), "{error}");
}

#[test]
fn a_scheme_does_not_hide_a_path() {
    let set = load(TOOLS, RULE).unwrap();
    let judged = |path: &str| {
        let question = question("notes/add", json!({ "target": path }));
        let judgement = set.judge(&question, &LexicalWorkspace::default());
        (judgement.verdict, judgement.code)
    };
    for path in ["a.md", "./a:b", "file:a.md", "file:///workspace/a.md"] {
        assert_eq!(judged(path), (Verdict::Allow, None), "{path}");
    }
    for path in [
        "file:///etc/passwd",
        "FILE:///etc/passwd",
        "file://localhost/etc/passwd",
        "file:/etc/passwd",
        "file:../x",
        "file:%2e%2e/x",
        "file:///workspace/%2e%2e/x",
        "http://example.org/x",
        "data:text/plain,x",
        "a:b",
    ] {
        assert_eq!(judged(path), (Verdict::Deny, Some(Code::PathOutsideWorkspace)), "{path}");
    }
}

#[test]
fn registry_faults_are_named_with_their_place() {
    let changed = |from: &str, to: &str| TOOLS.replace(from, to);
    for (tools, line, message) in [
        (changed("honours_keys", "honors_keys"), 6, "unknown field `honors_keys`"),
        (changed("class = \"read\"", "class = \"reads\""), 14, "unknown variant `reads`"),
        (changed("server.remote", "server.Remote"), 16, "server name `Remote`"),
        (changed("tool = \"lookup\"", "tool = \"add\""), 7, "is not a read tool"),
        (changed("\"$key\"", "\"$kye\""), 7, "`$kye`"),
        (changed("command = [\"node\", \"server.js\"]\n", ""), 2, "needs `command`"),
        (changed("argv = [\"cp\"", "argv = [{ arg = \"/x\" }"), 24, "must be a literal"),
        (changed("input_bytes_max = 64", "input_bytes_max = 0"), 7, "must be between 1 and"),
        (changed("stdin = \"/text\"", "on_uncertain = \"retry\""), 24, "`idempotent = true`"),
        (changed("stdin = \"/text\"", "shell_line = \"/text\""), 24, "exactly that argument"),
        (changed("\"/path\"", "\"path\""), 13, "must start with `/`"),
    ] {
        let error = load(&tools, "").unwrap_err();
        assert!(error.message.contains(message), "{error} instead of {message}");
        assert_eq!(
            (error.location.file.as_str(), error.location.line),
            ("tools.toml", line),
            "{error}"
        );
    }
}

#[test]
fn the_registry_says_what_is_written_and_what_follows() {
    let set = load(TOOLS, "").unwrap();
    let (notes, add) = set.registry().find("notes", "add").unwrap();
    assert_eq!(
        notes.connector,
        Connector::McpStdio {
            command: vec!["node".into(), "server.js".into()],
            sandbox: true,
            network: Vec::new(),
        }
    );
    assert_eq!((add.remote_name.as_str(), add.class), ("addNote", RiskLevel::Write));
    assert_eq!((add.timeout_ms, add.output_bytes_max, add.retries_max), (60_000, 5 << 20, 3));
    assert!(matches!(add.on_uncertain(notes, Some("key")), OnUncertain::Probe { .. }));
    let (_, lookup) = set.registry().find("notes", "lookup").unwrap();
    assert_eq!(
        (lookup.input_bytes_max, lookup.on_uncertain(notes, Some("key"))),
        (10 << 20, OnUncertain::Retry)
    );
    let (remote, drop) = set.registry().find("remote", "drop").unwrap();
    assert_eq!(drop.on_uncertain(remote, Some("key")), OnUncertain::Hold);
    let (local, copy) = set.registry().find("local", "copy").unwrap();
    assert_eq!(copy.on_uncertain(local, Some("key")), OnUncertain::Hold);
    // A command gets no key, whatever is said of its server.
    let keyed = TOOLS.replace("[server.local]\n", "[server.local]\nhonours_keys = true\n");
    let keyed = load(&keyed, "").unwrap();
    let (local, copy) = keyed.registry().find("local", "copy").unwrap();
    assert_eq!(copy.on_uncertain(local, Some("key")), OnUncertain::Hold);
    assert!(set.registry().find("notes", "none").is_none());
}

#[test]
fn a_command_line_is_made_without_a_shell() {
    let set = load(TOOLS, "").unwrap();
    let (_, copy) = set.registry().find("local", "copy").unwrap();
    let line = copy.command_line(&json!({ "from": ["a b", 1, true], "text": "in" })).unwrap();
    assert_eq!(line.argv, ["cp", "--", "a b", "1", "true"]);
    assert_eq!(line.stdin.as_deref(), Some("in"));
    for (args, message) in [
        (json!({}), "the argument `/from` is missing"),
        (json!({ "from": "-r" }), "starts with `-`"),
        (json!({ "from": { "a": 1 } }), "is not text"),
        (json!({ "from": "a\0" }), "NUL"),
        (json!({ "from": "a", "text": 1 }), "is not text"),
    ] {
        let error = copy.command_line(&args).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn preconditions_deny_in_their_order() {
    let set = load(TOOLS, RULE).unwrap();
    let workspace = LexicalWorkspace::default();
    let judge = |question: &Question| {
        let judgement = set.judge(question, &workspace);
        assert_eq!(judgement.code.is_some(), judgement.verdict == Verdict::Deny);
        judgement.code
    };
    let base = question("notes/add", json!({ "target": "a" }));
    assert_eq!(judge(&base), None);
    let with = |change: &dyn Fn(&mut Question)| {
        let mut question = base.clone();
        change(&mut question);
        judge(&question)
    };
    assert_eq!(with(&|q| q.tool = "none".into()), Some(Code::ToolUnclassifiedDenied));
    assert_eq!(
        with(&|q| (q.declared_class, q.has_key) = (Some(RiskLevel::Read), false)),
        Some(Code::ToolClassDeclarationMismatch)
    );
    assert_eq!(with(&|q| q.declared_class = Some(RiskLevel::Write)), None);
    assert_eq!(with(&|q| q.has_key = false), Some(Code::IdempotencyKeyRequired));
    assert_eq!(with(&|q| q.args = json!({ "x": "y".repeat(64) })), Some(Code::DocSizeExceeded));
    for args in [
        json!({ "target": "../a" }),
        json!({ "target": "/etc" }),
        json!({ "target": "~/a" }),
        json!({ "target": "a\0" }),
        json!({ "target": 1 }),
        json!({ "targets": ["a", "/b"] }),
        json!({ "target": ["a", "/b"] }),
        json!({ "target": "" }),
    ] {
        assert_eq!(with(&|q| q.args = args.clone()), Some(Code::PathOutsideWorkspace), "{args}");
    }
    assert_eq!(
        with(&|q| (q.server, q.tool) = ("remote".into(), "drop".into())),
        Some(Code::PolicyDenied)
    );
}

#[test]
fn allow_needs_all_paths_and_deny_any() {
    let rules = r#"
[[rule]]
id = "docs"
verdict = "allow"
reason = "docs are free"
tool = "notes/add"
path = "docs/**"
matches = [{ tool = "notes/add", args = { targets = ["docs/a", "docs/b"] } }]
misses = [{ tool = "notes/add", args = { targets = ["docs/a", "b"] } }, { tool = "notes/add" }]
[[rule]]
id = "secret"
verdict = "deny"
reason = "secret"
path = "docs/Secret/**"
access = "write"
matches = [{ tool = "notes/add", args = { targets = ["docs/a", "docs/Secret/b"] } }]
misses = [{ tool = "notes/lookup", args = { path = "docs/Secret/b" } }]
[[rule]]
id = "main"
verdict = "ask"
reason = "main is shared"
tool = "notes/*"
phase = "build"
agent = ["skeptic", "qa*"]
args = { "/branch" = "main*" }
matches = [{ tool = "notes/add", phase = "build", agent = "qa2", args = { branch = "main2" } }]
misses = [
  { tool = "notes/add", phase = "plan", agent = "qa2", args = { branch = "main" } },
  { tool = "notes/add", phase = "build", args = { branch = "main" } },
  { tool = "notes/add", phase = "build", agent = "skeptic" },
]
"#;
    let set = load(TOOLS, rules).unwrap();
    let verdict = |targets: serde_json::Value, workspace: &LexicalWorkspace| {
        set.judge(&question("notes/add", json!({ "targets": targets })), workspace).verdict
    };
    let plain = LexicalWorkspace::default();
    assert_eq!(verdict(json!(["docs/a", "./docs//b"]), &plain), Verdict::Allow);
    assert_eq!(verdict(json!(["docs/a", "docs/../b"]), &plain), Verdict::Deny);
    assert_eq!(verdict(json!(["docs/secret/b"]), &plain), Verdict::Allow);
    assert_eq!(verdict(json!(["docs/SECRET/b"]), &plain.folding_case()), Verdict::Deny);
}

#[test]
fn a_word_that_may_be_a_path_does_not_make_a_line_fit_a_rule_about_paths() {
    let tools = "[server.shell]\nconnector = \"command\"\n[server.shell.tool.read]\nclass = \"read\"\nshell_line = \"/line\"\nargv = [\"bash\", \"-c\", { arg = \"/line\", dash = true }]\n";
    let rules = r#"
[[rule]]
id = "docs"
verdict = "allow"
reason = "docs are free"
tool = "shell/read"
command = "cat *"
path = "docs/**"
matches = [{ tool = "shell/read", args = { line = "cat docs/a" } }]
misses = [{ tool = "shell/read", args = { line = "cat a" } }]
"#;
    let set = load(tools, rules).unwrap();
    let asked = |line: &str| question("shell/read", json!({ "line": line }));
    let verdict = |line: &str| set.judge(&asked(line), &LexicalWorkspace::default()).verdict;
    assert_eq!(verdict("cat docs/a docs/b"), Verdict::Allow);
    for line in ["cat */x", "cat docs/a */x", "cat d*/x", "cat"] {
        assert_ne!(verdict(line), Verdict::Allow, "{line}");
    }
}

#[test]
fn the_hash_covers_every_file_and_name() {
    let mut files = BTreeMap::from([("tools.toml".to_owned(), TOOLS.as_bytes().to_vec())]);
    let first = PolicySet::load(&files).unwrap().hash();
    let names =
        BTreeMap::from([("tools.toml", Digest::of(TOOLS.as_bytes()).hex().as_str().to_owned())]);
    assert_eq!(first, canon::digest(&names).unwrap());
    files.insert("loops/a.md".to_owned(), b"x".to_vec());
    let second = PolicySet::load(&files).unwrap().hash();
    assert_ne!(first, second);
    for name in ["/a", "../a", "a//b", "a/./b", "", "a\\b"] {
        assert!(
            PolicySet::load(&BTreeMap::from([(name.to_owned(), Vec::new())])).is_err(),
            "{name}"
        );
    }
}

#[test]
fn an_empty_set_denies_everything() {
    let set = PolicySet::load(&BTreeMap::new()).unwrap();
    let judgement = set.judge(&question("a/b", json!({})), &LexicalWorkspace::default());
    assert_eq!(judgement.code, Some(Code::ToolUnclassifiedDenied));
    let set = load(TOOLS, "").unwrap();
    let judgement = set.judge(&question("notes/lookup", json!({})), &LexicalWorkspace::default());
    assert_eq!((judgement.verdict, judgement.code), (Verdict::Deny, Some(Code::PolicyDenied)));
}

#[test]
fn cases_are_run_and_reported() {
    let case = |verdict: &str| {
        format!("[[case]]\nname = \"adds\"\ntool = \"notes/add\"\nverdict = \"{verdict}\"\n")
    };
    assert!(load(TOOLS, &format!("{RULE}{}", case("allow"))).is_ok());
    let error = load(TOOLS, &format!("{RULE}{}", case("deny"))).unwrap_err();
    assert!(error.message.contains("case `adds` expects deny but gets allow"), "{error}");
    assert_eq!(error.location.line, 8);
    let set = load(TOOLS, RULE).unwrap();
    let report = set.run_cases("c.toml", (case("allow") + &case("ask")).as_bytes()).unwrap();
    let passed: Vec<bool> = report.outcomes.iter().map(|outcome| outcome.passed).collect();
    assert_eq!((passed, report.passed()), (vec![true, false], false));
    assert!(!set.run_cases("c.toml", b"").unwrap().passed());
    assert_eq!(set.run_cases("c.toml", b"[[rule]]").unwrap_err().location.line, 1);
}

#[test]
fn the_words_of_a_command_tool_are_judged() {
    let rules = r#"
[[rule]]
id = "copy"
verdict = "allow"
reason = "copying is fine"
tool = "local/copy"
command = "cp -- *"
matches = [{ tool = "local/copy", args = { from = ["a", "b"] } }]
"#;
    let set = load(TOOLS, rules).unwrap();
    let verdict = |from: serde_json::Value| {
        let args = json!({ "from": from });
        set.judge(&question("local/copy", args), &LexicalWorkspace::default()).verdict
    };
    assert_eq!(verdict(json!(["a", "b"])), Verdict::Allow);
    assert_eq!(verdict(json!(["a; rm -rf x", "b"])), Verdict::Allow);
    assert_eq!(verdict(json!(["/etc/passwd", "b"])), Verdict::Ask);
    assert_eq!(verdict(json!("-r")), Verdict::Deny);
}

fn local_tool(lines: &str) -> String {
    format!(
        "[server.local]\nconnector = \"command\"\n[server.local.tool.fetch]\nclass = \"read\"\nargv = [\"a\"]\n{lines}\n"
    )
}

#[test]
fn a_tool_lists_the_hosts_that_it_may_reach() {
    let network = |lines: &str| {
        let set = load(&local_tool(lines), "").unwrap();
        let (_, tool) = set.registry().find("local", "fetch").unwrap();
        tool.network.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(network(""), Vec::<String>::new());
    assert_eq!(network("network = []"), Vec::<String>::new());
    assert_eq!(
        network("network = [\"Crates.example:443\", \"*.example.org:8443\"]"),
        ["crates.example:443", "*.example.org:8443"]
    );
}

#[test]
fn a_host_that_is_not_plain_is_refused_where_it_stands() {
    for (host, reason) in [
        ("crates.example", "character 15: the port is missing, as in `host:443`"),
        ("https://crates.example:443", "character 7: write the host without a scheme"),
        ("crates.example:443/index", "character 19: write the host without a path"),
        ("user@crates.example:443", "character 5: a user name is not allowed"),
        ("*:443", "character 1: a `*` may only be the whole first part"),
        ("127.0.0.1:443", "character 1: an IP address is not a host name"),
        ("0x7f.1:443", "character 1: an IP address is not a host name"),
        ("crates.example.:443", "character 15: a host name does not end with a dot"),
    ] {
        let error = load(&local_tool(&format!("network = [\n\"{host}\"]")), "").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("tools.toml:7:"), "{text}");
        assert!(
            text.contains(&format!("tool `local/fetch`: `network` lists `{host}`: {reason}")),
            "{text}"
        );
    }
    let twice = load(&local_tool("network = [\"a.example:1\", \"A.example:1\"]"), "").unwrap_err();
    assert!(twice.to_string().contains("listed twice"), "{twice}");
    for open in ["true", "false", "\"a.example:1\""] {
        let error = load(&local_tool(&format!("network = {open}")), "").unwrap_err();
        assert!(error.to_string().contains("expected a sequence"), "{error}");
    }
}
