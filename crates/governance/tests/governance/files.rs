//! Governance files: what they say is read, and everything else is refused at its place.

use windlass_governance::{FILE_BYTES_MAX, GovernanceFile, RuleKind};
use windlass_kernel::Code;
use windlass_kernel::run::plan::{Compare, Evidence, OnFailure, RuleLevel};

const GOOD: &str = r#"
level = "organisation"

[[gate]]
id = "coverage"
phases = ["qa", "development"]
on_failure = "block"
remediation = "write the missing tests"
metric = { command = ["cov", "--json"], pointer = "/total", at_least = 80.0, timeout_seconds = 1.5 }

[[gate]]
id = "lint"
on_failure = "warn"
remediation = "run the linter"
tool = { command = ["lint"] }

[[compliance]]
id = "licence"
on_failure = "block"
remediation = "add the header"
[compliance.validator]
files = ["src/**/*.rs"]
require = '^// Licence'
forbid = 'later'
json = false
bytes_max = 100000
"#;

#[test]
fn a_good_file_is_read_in_its_order() {
    let file = GovernanceFile::parse("policy/governance/o.toml", GOOD.as_bytes()).unwrap();
    assert_eq!(file.level, RuleLevel::Organisation);
    let rules: Vec<_> =
        file.rules.iter().map(|one| (one.kind, one.rule.id.as_str(), one.location.line)).collect();
    let expected = vec![
        (RuleKind::Gate, "coverage", 5),
        (RuleKind::Gate, "lint", 12),
        (RuleKind::Compliance, "licence", 18),
    ];
    assert_eq!(rules, expected);
    let first = &file.rules.first().unwrap().rule;
    assert_eq!(first.phases, ["qa", "development"]);
    assert_eq!((first.level, first.on_failure), (RuleLevel::Organisation, OnFailure::Block));
    // Whole numbers are recorded without decimals: the journal writes them so.
    let expected = Evidence::Metric {
        argv: vec!["cov".to_owned(), "--json".to_owned()],
        compare: Compare::AtLeast,
        pinned: None,
        pointer: "/total".to_owned(),
        threshold: 80.into(),
        timeout_ms: 1500,
    };
    assert_eq!(first.evidence, expected);
    let second = &file.rules.get(1).unwrap().rule.evidence;
    assert_eq!(
        *second,
        Evidence::Tool { argv: vec!["lint".to_owned()], pinned: None, timeout_ms: 600_000 }
    );
}

/// A file with one gate of which a part is replaced.
fn with(from: &str, to: &str) -> String {
    let text = "level = \"project\"\n[[gate]]\nid = \"g\"\nphases = [\"a\"]\non_failure = \"block\"\n\
                remediation = \"mend it\"\nmetric = { command = [\"m\"], pointer = \"/n\", at_least = 1 }\n";
    assert!(text.contains(from), "{from}");
    text.replace(from, to)
}

const METRIC: &str = "metric = { command = [\"m\"], pointer = \"/n\", at_least = 1 }";

#[test]
fn whatever_is_not_said_rightly_is_refused_at_its_place() {
    let validator = |inside: &str| with(METRIC, &format!("validator = {{ {inside} }}"));
    let long = format!("files = [\"a\"], forbid = '{}'", "x".repeat(1001));
    let cases = [
        ("level = 1".to_owned(), 1, "wanted string"),
        (with("level = \"project\"", ""), 1, "missing field `level`"),
        (with("\"project\"", "\"loop\""), 1, "unknown variant `loop`"),
        (with("\"project\"", "\"planet\""), 1, "unknown variant `planet`"),
        (with("id = \"g\"", "id = \"G 1\""), 3, "cannot be the id of a rule"),
        (with("id = \"g\"", "id = \"g\"\nidd = 1"), 4, "unknown field `idd`"),
        (with("[\"a\"]", "[\"a\", \"a\"]"), 4, "twice"),
        (with("[\"a\"]", "[\"A\"]"), 4, "cannot be the id of a phase"),
        (with("\"block\"", "\"ignore\""), 5, "unknown variant `ignore`"),
        (with("on_failure = \"block\"", ""), 2, "missing field `on_failure`"),
        (with("mend it", " "), 6, "`remediation` must be one line"),
        (with("mend it", "a\\nb"), 6, "`remediation` must be one line"),
        (with(METRIC, ""), 2, "exactly one of `metric`"),
        (with(METRIC, &format!("{METRIC}\ntool = {{ command = [\"t\"] }}")), 2, "exactly one of"),
        (with("at_least = 1", ""), 7, ""),
        (with(", at_least = 1", ""), 7, "exactly one of `at_least`"),
        (with("at_least = 1", "at_least = 1, at_most = 2"), 7, "exactly one of `at_least`"),
        (with("at_least = 1", "at_least = nan"), 7, "cannot be recorded exactly"),
        (with("at_least = 1", "at_least = inf"), 7, "cannot be recorded exactly"),
        (with("at_least = 1", "at_least = 1e300"), 7, "cannot be recorded exactly"),
        (with("at_least = 1", "at_least = 9007199254740992"), 7, "cannot be recorded exactly"),
        (with("at_least = 1", "at_least = \"1\""), 7, ""),
        (with("at_least = 1", "at_least = 1, timeout_seconds = 0"), 7, "`timeout_seconds`"),
        (with("at_least = 1", "at_least = 1, timeout_seconds = -1"), 7, "`timeout_seconds`"),
        (with("at_least = 1", "at_least = 1, timeout_seconds = 0.0001"), 7, "`timeout_seconds`"),
        (with("at_least = 1", "at_least = 1, timeout_seconds = 86401"), 7, "`timeout_seconds`"),
        (with("[\"m\"]", "[]"), 7, "the command is empty"),
        (with("[\"m\"]", "[\" \"]"), 7, "the command is empty"),
        (with("[\"m\"]", "[\"a\\u0000\"]"), 7, "NUL"),
        (with("\"/n\"", "\"n\""), 7, "is not a JSON pointer"),
        (with("\"/n\"", "\"/~2\""), 7, "is not a JSON pointer"),
        (validator("files = [], json = true"), 7, "1 to 100 patterns"),
        (validator("files = [\"a\"]"), 7, "does not check anything"),
        (validator("files = [\"../a\"], json = true"), 7, "does not stay inside"),
        (validator("files = [\"/a\"], json = true"), 7, "does not stay inside"),
        (validator("files = [\"a\", \"[\"], json = true"), 7, "a `[` is never closed"),
        (validator("files = [\"a\"], bytes_max = 0"), 7, "`bytes_max` must be"),
        (validator("files = [\"a\"], forbid = '('"), 7, "unclosed group"),
        (validator("files = [\"a\"], forbid = ''"), 7, "1 to 1000 characters"),
        (validator("files = [\"a\"], forbid = '(?=x)'"), 7, "look-around"),
        (validator("files = [\"a\"], forbid = '((a{200}){200}){200}'"), 7, "it is too large"),
        (validator(&long), 7, "1 to 1000 characters"),
        (validator("files = [\"a\"], require = 'x*'"), 7, "matches even an empty file"),
        (
            with(
                METRIC,
                &format!(
                    "{METRIC}\n[[gate]]\nid = \"g\"\non_failure = \"warn\"\nremediation = \"m\"\ntool = {{ command = [\"t\"] }}"
                ),
            ),
            9,
            "appears twice, first in line 3",
        ),
        ("not toml".to_owned(), 1, ""),
    ];
    for (text, line, message) in cases {
        let Err(error) = GovernanceFile::parse("g.toml", text.as_bytes()) else {
            panic!("this is read: {text}");
        };
        assert_eq!(error.code(), Code::GovernanceInvalid, "{text}");
        assert_eq!(error.location.line, line, "{error}\n{text}");
        assert!(error.message.contains(message), "{error}\n{text}");
        assert!(
            !error.message.contains('\n') && !error.hint.as_ref().is_none_or(String::is_empty),
            "{error}"
        );
        assert!(error.to_string().starts_with("g.toml:"), "{error}");
    }
    assert!(GovernanceFile::parse("g.toml", with("id", "id").as_bytes()).is_ok());
}

#[test]
fn bytes_that_are_no_file_are_refused() {
    let error = GovernanceFile::parse("g.toml", b"level = \"project\"\n#\xff").unwrap_err();
    assert_eq!((error.location.line, error.location.column), (2, 2));
    let error = GovernanceFile::parse("g.toml", &vec![b'\n'; FILE_BYTES_MAX + 1]).unwrap_err();
    assert_eq!(error.code(), Code::DocSizeExceeded);
    // An empty level has no rules, which is no fault.
    let file = GovernanceFile::parse("g.toml", b"level = \"universal\"").unwrap();
    assert_eq!(file.rules, []);
}
