//! Judging: only what was looked at and is as it should be is met.

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_governance::{
    Content, FileValidator, Observation, governed, judge_compliance, judge_gate,
};
use windlass_kernel::run::GateStatus;
use windlass_kernel::run::plan::{Compare, Evidence, OnFailure, Rule, RuleLevel};

fn rule(evidence: Evidence, on_failure: OnFailure) -> Rule {
    Rule {
        evidence,
        id: "r".to_owned(),
        level: RuleLevel::Project,
        on_failure,
        phases: Vec::new(),
        remediation: "mend it".to_owned(),
    }
}

fn metric(compare: Compare, threshold: impl Into<serde_json::Number>) -> Evidence {
    Evidence::Metric {
        argv: vec!["m".to_owned()],
        compare,
        pinned: None,
        pointer: "/a/0".to_owned(),
        threshold: threshold.into(),
        timeout_ms: 1,
    }
}

fn tool() -> Evidence {
    Evidence::Tool { argv: vec!["t".to_owned()], pinned: None, timeout_ms: 1 }
}

fn ended(exit_code: Option<i64>, stdout: &str) -> Observation {
    Observation::Exited { exit_code, stdout: stdout.to_owned(), output_tail: "said so".to_owned() }
}

/// Whether both kinds say that it is met; they never differ.
fn is_met(evidence: &Evidence, found: &Observation) -> bool {
    let mut met = None;
    for (on_failure, not_met) in
        [(OnFailure::Block, GateStatus::Blocked), (OnFailure::Warn, GateStatus::Warned)]
    {
        let rule = rule(evidence.clone(), on_failure);
        let (gate, check) = (judge_gate(&rule, found), judge_compliance(&rule, found));
        let passed = gate.status == GateStatus::Passed;
        assert!(passed || gate.status == not_met);
        assert_eq!((check.status, check.passed), (gate.status, passed));
        assert_eq!(check.violations.is_empty(), passed);
        assert!(!gate.message.is_empty() && gate.remediation == "mend it");
        let blocks = gate.status == GateStatus::Blocked;
        assert_eq!(governed(vec![gate], Vec::new()).passed, !blocks);
        assert_eq!(governed(Vec::new(), vec![check]).passed, !blocks);
        assert!(met.is_none_or(|met| met == passed));
        met = Some(passed);
    }
    met.unwrap()
}

#[test]
fn a_metric_is_met_only_by_its_number() {
    let at_least = metric(Compare::AtLeast, 80);
    for (stdout, met) in [
        (r#"{"a": [80]}"#, true),
        (r#"{"a": [80.0]}"#, true),
        (r#" {"a": [80.5]} "#, true),
        (r#"{"a": [79.999]}"#, false),
        (r#"{"a": [-80]}"#, false),
        (r#"{"a": ["80"]}"#, false),
        (r#"{"a": [true]}"#, false),
        (r#"{"a": [null]}"#, false),
        (r#"{"a": [NaN]}"#, false),
        (r#"{"a": [1e999]}"#, false),
        (r#"{"a": [99999999999999999999]}"#, false),
        (r#"{"a": []}"#, false),
        (r#"{"b": [80]}"#, false),
        (r#"{"a": [80], "a": [90]}"#, false),
        (r#"{"a": [80]} {"a": [80]}"#, false),
        (r#"{"a": [80]"#, false),
        ("80", false),
        ("", false),
    ] {
        assert_eq!(is_met(&at_least, &ended(Some(0), stdout)), met, "{stdout}");
        // Whatever it printed: it failed.
        assert!(!is_met(&at_least, &ended(Some(1), stdout)));
        assert!(!is_met(&at_least, &ended(None, stdout)));
    }
    assert!(!is_met(&at_least, &Observation::Unavailable("it took too long".to_owned())));
    assert!(!is_met(&at_least, &Observation::Files(windlass_governance::FileFindings::default())));
    let big = format!(r#"{{"a": [80], "b": "{}"}}"#, "x".repeat(1 << 20));
    assert!(!is_met(&at_least, &ended(Some(0), &big)));

    let result = judge_gate(&rule(at_least, OnFailure::Block), &ended(Some(0), r#"{"a": [12]}"#));
    assert_eq!((result.actual, result.threshold), (json!(12), json!(80)));
    assert_eq!(result.message, "12, expected at least 80");
}

#[test]
fn a_tool_is_met_only_by_its_exit() {
    assert!(is_met(&tool(), &ended(Some(0), "")));
    for found in [
        ended(Some(1), ""),
        ended(Some(-1), ""),
        ended(None, ""),
        Observation::Unavailable("it cannot be started".to_owned()),
        Observation::Files(windlass_governance::FileFindings::default()),
    ] {
        assert!(!is_met(&tool(), &found), "{found:?}");
    }
    let result = judge_gate(&rule(tool(), OnFailure::Warn), &ended(Some(3), ""));
    assert_eq!((result.actual, result.threshold), (json!(3), json!(0)));
    assert_eq!(result.message, "the program exited with 3: said so");
}

/// A validator of `*.txt` with what is given.
fn validator(
    require: Option<&str>,
    forbid: Option<&str>,
    json: bool,
    most: Option<u64>,
) -> Evidence {
    Evidence::Validator {
        bytes_max: most,
        files: vec!["*.txt".to_owned()],
        forbid: forbid.map(str::to_owned),
        json,
        require: require.map(str::to_owned),
    }
}

/// Files by their paths.
type Files<'a> = &'a [(&'a str, &'a [u8])];

fn looked(evidence: &Evidence, files: Files<'_>) -> Observation {
    let mut inspector = FileValidator::new(evidence).unwrap().unwrap();
    for (path, bytes) in
        files.iter().filter(|(path, _)| inspector.matches(path)).collect::<Vec<_>>()
    {
        inspector.check(path, bytes.len() as u64, Content::Bytes(bytes));
    }
    inspector.finish()
}

#[test]
fn a_validator_is_met_by_files_that_are_as_it_says() {
    let (require, forbid) =
        (validator(Some("^ok$"), None, false, None), validator(None, Some("bad"), false, None));
    let (json, small) = (validator(None, None, true, None), validator(None, None, false, Some(3)));
    let all: [(&Evidence, Files<'_>, bool); 20] = [
        (&require, &[("a.txt", b"x\r\nok\r\ny")], true),
        (&require, &[("a.txt", b"ok"), ("b.txt", b"no")], false),
        (&require, &[("a.txt", b"ok"), ("b.md", b"no")], true),
        (&require, &[], false),
        (&require, &[("b.md", b"ok")], false),
        (&require, &[("sub/a.txt", b"ok")], false),
        (&require, &[("a.txt", b"")], false),
        (&forbid, &[], true),
        (&forbid, &[("a.txt", b"")], true),
        (&forbid, &[("a.txt", b"good")], true),
        (&forbid, &[("a.txt", b"good"), ("b.txt", b"\xff\n bad")], false),
        (&json, &[("a.txt", b"{\"a\": 1}")], true),
        (&json, &[("a.txt", b"{\"a\": 1")], false),
        (&json, &[("a.txt", b"")], false),
        (&json, &[], false),
        (&small, &[("a.txt", b"123")], true),
        (&small, &[("a.txt", b"1234")], false),
        (&small, &[("a.txt", b"")], false),
        (&small, &[], false),
        (&small, &[("a.txt", b"1"), ("b.txt", b"12345")], false),
    ];
    for (evidence, files, met) in all {
        assert_eq!(is_met(evidence, &looked(evidence, files)), met, "{evidence:?} {files:?}");
    }
    for evidence in [&require, &forbid, &json, &small] {
        assert!(!is_met(evidence, &Observation::Unavailable("no".to_owned())));
        assert!(!is_met(evidence, &ended(Some(0), "")));
    }
}

#[test]
fn what_could_not_be_read_is_not_met() {
    for evidence in [
        validator(Some("ok"), None, false, None),
        validator(None, Some("bad"), false, None),
        validator(None, None, true, None),
        validator(None, None, false, Some(9)),
    ] {
        let mut inspector = FileValidator::new(&evidence).unwrap().unwrap();
        inspector.check("a.txt", 3, Content::Unreadable("it leads outside"));
        let found = inspector.finish();
        assert!(!is_met(&evidence, &found));
        let told = judge_compliance(&rule(evidence, OnFailure::Block), &found).violations;
        assert_eq!(told.first().unwrap(), "`a.txt` could not be checked: it leads outside");
    }
    let forbid = validator(None, Some("bad"), false, None);
    let mut inspector = FileValidator::new(&forbid).unwrap().unwrap();
    inspector.add_violation("a folder cannot be read");
    assert!(!is_met(&forbid, &inspector.finish()));
}

#[test]
fn violations_name_their_line_and_are_limited() {
    let forbid = validator(None, Some("^<{7} "), false, None);
    let text: &[u8] = b"a\n<<<<<<< ours\n";
    let told = judge_compliance(
        &rule(forbid.clone(), OnFailure::Block),
        &looked(&forbid, &[("a.txt", text)]),
    );
    assert_eq!(told.violations, ["`a.txt` has forbidden text in line 2"]);
    let mut inspector = FileValidator::new(&forbid).unwrap().unwrap();
    for at in 0..1000 {
        inspector.check(&format!("{at}{}\u{1b}.txt", "x".repeat(1000)), 14, Content::Bytes(text));
    }
    let found = inspector.finish();
    let told = judge_compliance(&rule(forbid.clone(), OnFailure::Block), &found).violations;
    assert_eq!((told.len(), told.last().unwrap().as_str()), (51, "and 950 more"));
    assert!(told.iter().all(|line| line.chars().count() < 400 && !line.contains('\u{1b}')));
    assert_eq!(judge_gate(&rule(forbid, OnFailure::Block), &found).actual, json!(1000));
}

fn number() -> impl Strategy<Value = serde_json::Number> {
    prop_oneof![
        (-1000i64..1000).prop_map(Into::into),
        (-8000i32..8000).prop_map(|n| serde_json::Number::from_f64(f64::from(n) / 8.0).unwrap()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_metric_compares_as_numbers_do(actual in number(), threshold in number()) {
        let (a, t) = (actual.as_f64().unwrap(), threshold.as_f64().unwrap());
        let printed = ended(Some(0), &json!({"a": [Value::Number(actual)]}).to_string());
        for (compare, met) in [(Compare::AtLeast, a >= t), (Compare::AtMost, a <= t), (Compare::Equal, a == t)] {
            prop_assert_eq!(is_met(&metric(compare, threshold.clone()), &printed), met);
        }
    }

    #[test]
    fn nothing_that_is_printed_at_random_passes(text in "[-{}\\[\\]\":a0-9., ]{0,40}") {
        let found = ended(Some(0), &text);
        let met = is_met(&metric(Compare::AtLeast, -1_000_000), &found);
        let there = serde_json::from_str::<Value>(&text).ok();
        let there = there.and_then(|value| value.pointer("/a/0").cloned());
        prop_assert!(!met || there.is_some_and(|value| value.is_number()));
    }
}
