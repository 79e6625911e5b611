//! The shipped policy: it loads, and it says what the vectors say.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::json;
use windlass_policy::{LexicalWorkspace, PolicySet, Question, Verdict};

pub fn shipped() -> PolicySet {
    let files = BTreeMap::from([
        ("tools.toml".to_owned(), include_bytes!("../../../../policies/tools.toml").to_vec()),
        (
            "policy/default.toml".to_owned(),
            include_bytes!("../../../../policies/default.toml").to_vec(),
        ),
    ]);
    PolicySet::load(&files).expect("the shipped policy loads")
}

const SHELL_TRICKS: &str = include_str!("../../../../vectors/policy/shell_tricks.json");
const PATH_TRICKS: &str = include_str!("../../../../vectors/policy/path_tricks.json");
const BYPASSES: &str = include_str!("../../../../vectors/policy/bypasses.json");
const FACTS: &str = include_str!("../../../../vectors/policy/facts.json");
const FUZZ: &str = include_str!("../../../../vectors/policy/fuzz.json");
const ORDINARY: &str = include_str!("../../../../vectors/policy/ordinary.json");

#[derive(Deserialize)]
struct Trick {
    line: String,
    #[serde(default = "run")]
    tool: String,
    verdict: Verdict,
    #[serde(default)]
    why: String,
    #[serde(default)]
    workspace: Told,
}

/// What the workspace of a vector is like.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Told {
    files: Vec<String>,
    ignored: Vec<String>,
    caches: Vec<String>,
    repositories: Vec<String>,
    links: BTreeMap<String, String>,
    revisions: BTreeMap<String, Vec<String>>,
    changed: Vec<String>,
    untracked: Vec<String>,
}

impl Told {
    fn workspace(&self) -> LexicalWorkspace {
        let mut workspace = LexicalWorkspace::default();
        for file in &self.files {
            workspace = workspace.with_file(file);
        }
        for (paths, is_cache) in [(&self.ignored, false), (&self.caches, true)] {
            for path in paths {
                workspace = workspace.with_ignored(path, is_cache);
            }
        }
        for (paths, is_tracked) in [(&self.changed, true), (&self.untracked, false)] {
            for path in paths {
                workspace = workspace.with_uncommitted(path, is_tracked);
            }
        }
        for folder in &self.repositories {
            workspace = workspace.with_repository(folder);
        }
        for (link, target) in &self.links {
            workspace = workspace.with_link(link, target);
        }
        for (revision, files) in &self.revisions {
            let files: Vec<&str> = files.iter().map(String::as_str).collect();
            workspace = workspace.with_revision(revision, &files);
        }
        workspace
    }
}

fn run() -> String {
    "run".to_owned()
}

fn question(tool: &str, line: &str) -> Question {
    Question {
        server: "shell".to_owned(),
        tool: tool.to_owned(),
        declared_class: None,
        args: json!({ "line": line }),
        has_key: true,
        phase: None,
        agent: None,
    }
}

fn check(tricks: &str, at_least: usize) {
    let tricks: Vec<Trick> = serde_json::from_str(tricks).unwrap();
    assert!(tricks.len() >= at_least, "only {} tricks", tricks.len());
    let mut wrong = Vec::new();
    for trick in &tricks {
        let (question, workspace) =
            (question(&trick.tool, &trick.line), trick.workspace.workspace());
        let judgement = SET.judge(&question, &workspace);
        assert_eq!(KEPT.judge(&question, &workspace), judgement, "kept and read again");
        if judgement.verdict != trick.verdict {
            wrong.push(format!(
                "{:?} ({}): wants {}, gets {}: {}",
                trick.line,
                trick.why,
                trick.verdict.as_str(),
                judgement.verdict.as_str(),
                judgement.reason
            ));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn shell_tricks_do_not_work() {
    check(SHELL_TRICKS, 120);
}

#[test]
fn path_tricks_do_not_work() {
    check(PATH_TRICKS, 30);
}

#[test]
fn bypasses_do_not_work() {
    check(BYPASSES, 500);
}

#[test]
fn facts_about_the_workspace_count() {
    check(FACTS, 80);
}

/// What `crates/cell/tests/judged` found: lines that were allowed and did more than was judged.
#[test]
fn findings_of_the_fuzz_do_not_work() {
    check(FUZZ, 110);
}

#[test]
fn ordinary_work_is_hardly_asked_about() {
    check(ORDINARY, 700);
    let lines: Vec<Trick> = serde_json::from_str(ORDINARY).unwrap();
    let stopped: Vec<&Trick> = lines.iter().filter(|line| line.verdict != Verdict::Allow).collect();
    assert!(stopped.len() * 20 <= lines.len(), "{} of {}", stopped.len(), lines.len());
    assert!(stopped.iter().all(|line| !line.why.is_empty()), "each has a reason");
}

/// Every vector that is not allowed is a spelling of something that policy forbids or leaves to people.
#[test]
fn the_corpus_is_large() {
    let forbidden = |vectors: &str| {
        let vectors: Vec<Trick> = serde_json::from_str(vectors).unwrap();
        let lines = vectors.into_iter().filter(|one| one.verdict != Verdict::Allow);
        lines.map(|one| one.line).collect::<BTreeSet<_>>()
    };
    let files = [SHELL_TRICKS, PATH_TRICKS, BYPASSES, FACTS, FUZZ];
    let all: BTreeSet<String> = files.into_iter().flat_map(forbidden).collect();
    assert!(all.len() >= 700, "{}", all.len());
}

#[test]
fn a_line_over_its_limits_is_denied() {
    let set = shipped();
    let many: String = (0..300).map(|at| format!("echo {at};")).collect();
    let deep = format!("{}ls{}", "echo $(".repeat(20), ")".repeat(20));
    for line in [format!("echo {}", "a".repeat(70_000)), many, deep] {
        let judgement = set.judge(&question("run", &line), &LexicalWorkspace::default());
        assert_eq!(judgement.verdict, Verdict::Deny, "{}", judgement.reason);
    }
}

#[test]
fn many_braces_do_not_take_the_stack_of_a_thread() {
    for (word, times) in [("{a,b}", 7000), ("{a,", 15_000), ("{1..2}{a,b}", 3000)] {
        let line = format!("echo {}", word.repeat(times));
        let judgement = SET.judge(&question("run", &line), &LexicalWorkspace::default());
        assert_ne!(judgement.verdict, Verdict::Allow, "{word}");
    }
}

#[test]
fn a_line_that_is_missing_or_no_text_or_has_a_nul_is_refused_as_such() {
    for (args, reason) in [
        (json!({}), "the argument `line`, the shell line, is missing"),
        (json!({ "line": ["ls"] }), "the argument `line`, the shell line, is not text"),
        (json!({ "line": "ls \0" }), "a command cannot contain a NUL character"),
    ] {
        let question = Question { args, ..question("run", "") };
        let judgement = SET.judge(&question, &LexicalWorkspace::default());
        assert_eq!(judgement.verdict, Verdict::Deny);
        assert_eq!(judgement.code, Some(windlass_kernel::Code::RequestInvalid));
        assert_eq!(judgement.reason, reason);
    }
}

#[test]
fn a_reason_is_one_line() {
    let set = shipped();
    for line in ["cat '.env\n\u{1b}[2J'", "cat '/etc\nx'", "'a\nb'", "echo x > '/a\nb'"] {
        let judgement = set.judge(&question("run", line), &LexicalWorkspace::default());
        assert_ne!(judgement.verdict, Verdict::Allow);
        let shown = serde_json::to_string(&judgement).unwrap();
        assert!(!judgement.reason.chars().any(char::is_control), "{}", judgement.reason);
        assert!(!shown.contains("\\n"), "{shown}");
    }
}

#[test]
fn hostile_lines_neither_overflow_nor_pass() {
    let set = shipped();
    for piece in [
        "(",
        "$(",
        "${",
        "$[",
        "$((",
        "`",
        "\"",
        "'",
        "{",
        "{ ",
        "[[ ",
        "<(",
        "<<E ",
        "a|",
        "a&&",
        "! ",
        "a>",
        "if ",
        "case a in ",
        "f(){ ",
        "bash -c ",
        "env ",
        "eval ",
        "*",
        "\\\n",
        "$(a|",
        "x=",
        "a[",
    ] {
        for count in [1, 40, 3000] {
            let line = piece.repeat(count);
            let judgement = set.judge(&question("run", &line), &LexicalWorkspace::default());
            let plain = piece == "env " && count == 1;
            assert!(plain || judgement.verdict != Verdict::Allow, "{piece} x {count}");
        }
    }
}

/// The grammar's scanner looks characters up in a table of 256 entries: what stands behind a `{`
/// once took the process down, with everything that it guarded.
#[test]
fn no_character_takes_the_parser_down() {
    let set = shipped();
    let planes = (0x80..=0x10_FFFF).step_by(0x3F1).filter_map(char::from_u32);
    for char in planes.chain(['\u{80}', '\u{FF}', '\u{3A9C6}', '\u{10FFFF}']) {
        for line in [
            format!("{{{char}"),
            format!("{{1{char}..3}}"),
            format!("{{1..2{char}}}"),
            format!("{{ls {char},{char}<<{char}"),
        ] {
            let judgement = set.judge(&question("run", &line), &LexicalWorkspace::default());
            assert_ne!(judgement.verdict, Verdict::Allow, "{line}");
        }
    }
}

/// Ways to put a command into a line.
const FRAMES: &[&str] = &[
    "@",
    "ls; @",
    "@; ls",
    "ls && @",
    "ls || @",
    "ls | @",
    "ls |& @",
    "ls & @",
    "ls\n@",
    "(@)",
    "{ @; }",
    "echo $(@)",
    "echo `@`",
    "cat <(@)",
    "if ls; then @; fi",
    "while @; do ls; done",
    "! @",
    "command @",
    "env @",
    "env A=b @",
    "nohup @",
    "nice -n 3 @",
    "timeout 5 @",
    "time @",
    "exec @",
    "stdbuf -o0 @",
    "setsid @",
    "eval @",
    "A=b @",
    "f() { @; }; f",
    "for i in a; do @; done",
    "case a in a) @;; esac",
    "cat <<E\n$(@)\nE\n",
    "@ # ls",
    "ls \\\n; @",
    "@ > /dev/null 2>&1",
    "@ >> out.txt",
    "\t @ ",
    "[[ -f a ]] && @",
    "coproc @",
];
const SPELLINGS: &[&str] = &[
    "rm -rf /",
    "r''m -rf /",
    "\\rm -rf /",
    "/bin/rm -rf /",
    "rm -fr -- /",
    "rm / -r -f",
    "\"rm\" '-rf' /",
    "rm -rf ~",
    "r\\m -rf /*",
];

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(
        proptest::prelude::ProptestConfig::default().cases * 8 / 5
    ))]

    #[test]
    fn removing_everything_is_denied_in_every_frame(
        spelling in proptest::sample::select(SPELLINGS),
        frames in proptest::collection::vec(proptest::sample::select(FRAMES), 1..4),
    ) {
        let line = frames.iter().fold(spelling.to_owned(), |line, frame| frame.replace('@', &line));
        for tool in ["run", "read"] {
            let judgement = SET.judge(&question(tool, &line), &LexicalWorkspace::default());
            proptest::prop_assert_ne!(judgement.verdict, Verdict::Allow, "{}: {}", line, judgement.reason);
        }
    }

    #[test]
    fn whatever_is_allowed_is_allowed_command_by_command(
        pieces in proptest::collection::vec(proptest::sample::select(PIECES), 1..9),
    ) {
        let line = pieces.concat();
        let workspace = LexicalWorkspace::default();
        let judgement = SET.judge(&question("run", &line), &workspace);
        if judgement.verdict == Verdict::Allow {
            proptest::prop_assert!(judgement.findings.is_empty(), "{line}");
            for command in &judgement.commands {
                let name = command.split(' ').next().unwrap_or_default();
                let known = ["ls", "cat", "echo", "a", "git", ":", "["];
                proptest::prop_assert!(known.contains(&name) && name != "a", "{line}: {command}");
            }
        }
    }

    #[test]
    fn random_text_never_panics_and_is_hardly_allowed(line in "\\PC{0,60}|[ -~\\n\\t]{0,60}") {
        let judgement = SET.judge(&question("run", &line), &LexicalWorkspace::default());
        if judgement.verdict == Verdict::Allow {
            proptest::prop_assert!(!judgement.rules.is_empty() && judgement.findings.is_empty());
        }
    }
}

const PIECES: &[&str] = &[
    "ls",
    "cat",
    "echo",
    "a",
    " ",
    " ",
    "\n",
    ";",
    "&&",
    "|",
    "&",
    "(",
    ")",
    "{",
    "}",
    "'",
    "\"",
    "\\",
    "$",
    "`",
    "<",
    ">",
    "<<",
    "#",
    "=",
    "-x",
    "sudo",
    "rm -rf /",
    "E\n",
    "!",
    "[",
    "]",
    "*",
    "~",
    "git status",
    "$(",
    "2>&1",
    "if ",
    "then ",
    "fi",
    "\r",
];

static SET: std::sync::LazyLock<PolicySet> = std::sync::LazyLock::new(shipped);

/// The same set, kept as JSON and read again.
static KEPT: std::sync::LazyLock<PolicySet> = std::sync::LazyLock::new(|| {
    let kept = serde_json::to_vec(&*SET).expect("it can be kept");
    serde_json::from_slice(&kept).expect("it can be read again")
});
