//! Composing: the order of files means nothing, and no level is ever loosened.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use windlass_governance::{
    Composed, Content, FileError, FileValidator, LocatedRule, Observation, RuleKind, compose,
    judge_gate,
};
use windlass_kernel::Code;
use windlass_kernel::run::GateStatus;
use windlass_kernel::run::plan::{Compare, Evidence, OnFailure, Rule, RuleLevel};
use windlass_text::Location;

const LEVELS: [RuleLevel; 4] =
    [RuleLevel::Universal, RuleLevel::Organisation, RuleLevel::Project, RuleLevel::Loop];

fn stated(
    level: RuleLevel,
    on_failure: OnFailure,
    phases: &[&str],
    evidence: Evidence,
) -> LocatedRule {
    LocatedRule {
        kind: RuleKind::Gate,
        location: Location { file: format!("{level:?}.toml"), line: 3, column: 6 },
        rule: Rule {
            evidence,
            id: "r".to_owned(),
            level,
            on_failure,
            phases: phases.iter().map(|phase| (*phase).to_owned()).collect(),
            remediation: format!("{level:?}"),
        },
    }
}

fn metric(compare: Compare, threshold: i64) -> Evidence {
    let (argv, pointer) = (vec!["m".to_owned()], "/n".to_owned());
    let threshold = threshold.into();
    Evidence::Metric { argv, compare, pinned: None, pointer, threshold, timeout_ms: 1000 }
}

fn pinning(program: &str, paths: Option<&[&str]>) -> Evidence {
    let pinned = paths.map(|paths| paths.iter().map(|path| (*path).to_owned()).collect());
    Evidence::Tool { argv: vec![program.to_owned()], pinned, timeout_ms: 5 }
}

fn timed(paths: Option<&[&str]>, timeout_ms: u64) -> Evidence {
    let pinned = paths.map(|paths| paths.iter().map(|path| (*path).to_owned()).collect());
    Evidence::Tool { argv: vec!["t".to_owned()], pinned, timeout_ms }
}

fn files(
    names: &[&str],
    require: Option<&str>,
    forbid: Option<&str>,
    most: Option<u64>,
) -> Evidence {
    Evidence::Validator {
        bytes_max: most,
        files: names.iter().map(|name| (*name).to_owned()).collect(),
        forbid: forbid.map(str::to_owned),
        json: false,
        require: require.map(str::to_owned),
    }
}

fn two(first: Evidence, second: Evidence) -> Result<Composed, FileError> {
    let block = OnFailure::Block;
    compose([
        stated(RuleLevel::Project, block, &["b"], second),
        stated(RuleLevel::Universal, block, &["a"], first),
    ])
}

#[test]
fn the_stricter_wins() {
    let composed = compose([
        stated(RuleLevel::Loop, OnFailure::Block, &["a", "c"], metric(Compare::AtLeast, 90)),
        stated(RuleLevel::Universal, OnFailure::Warn, &["b", "a"], metric(Compare::AtLeast, 70)),
        stated(RuleLevel::Project, OnFailure::Block, &["a"], metric(Compare::AtLeast, 80)),
    ])
    .unwrap();
    let rule = composed.governance.gates.first().unwrap();
    assert_eq!(rule.evidence, metric(Compare::AtLeast, 90));
    assert_eq!((rule.level, rule.on_failure), (RuleLevel::Universal, OnFailure::Block));
    assert_eq!((rule.phases.join(" "), rule.remediation.as_str()), ("a b c".to_owned(), "Loop"));
    let origins = composed.origins.get(&(RuleKind::Gate, "r".to_owned())).unwrap();
    let levels: Vec<RuleLevel> = origins.iter().map(|one| one.rule.level).collect();
    assert_eq!(levels, [RuleLevel::Universal, RuleLevel::Project, RuleLevel::Loop]);
    // All phases, once one level says so.
    let composed = compose([
        stated(RuleLevel::Universal, OnFailure::Warn, &[], metric(Compare::AtMost, 7)),
        stated(RuleLevel::Loop, OnFailure::Warn, &["a"], metric(Compare::AtMost, 7)),
    ])
    .unwrap();
    assert_eq!(composed.governance.gates.first().unwrap().phases, [""; 0]);
    // What an earlier level says stays where a later one is silent.
    let composed = two(
        files(&["a", "b"], Some("x"), None, Some(9)),
        files(&["b", "a"], None, Some("y"), None),
    );
    let expected = files(&["a", "b"], Some("x"), Some("y"), Some(9));
    assert_eq!(composed.unwrap().governance.gates.first().unwrap().evidence, expected);
}

#[test]
fn the_shorter_time_counts_and_pinned_files_stay_pinned() {
    for (first, second) in [(5, 9), (9, 5)] {
        let composed = two(timed(Some(&["a"]), first), timed(None, second)).unwrap();
        let rule = composed.governance.gates.first().unwrap();
        assert_eq!(rule.evidence, timed(Some(&["a"]), 5));
    }
}

#[test]
fn looser_and_contradicting_rules_are_refused_with_both_places() {
    let tool = |name: &str| pinning(name, None);
    let pin = |paths: &[&str]| pinning("t", Some(paths));
    let other_pointer = |evidence: Evidence| match evidence {
        Evidence::Metric { argv, compare, pinned, threshold, timeout_ms, .. } => {
            let pointer = "/m".to_owned();
            Evidence::Metric { argv, compare, pinned, pointer, threshold, timeout_ms }
        }
        other @ (Evidence::Tool { .. } | Evidence::Validator { .. }) => other,
    };
    for (first, second, what) in [
        (metric(Compare::AtLeast, 80), metric(Compare::AtLeast, 79), "looser: 79 instead of 80"),
        (metric(Compare::AtMost, 80), metric(Compare::AtMost, 81), "looser: 81 instead of 80"),
        (metric(Compare::Equal, 1), metric(Compare::Equal, 2), "the threshold differs"),
        (pin(&["a", "b"]), pin(&["b"]), "looser: `a` is no longer pinned"),
        (tool("t"), pin(&["a"]), "looser: the earlier level pins the files that the command names"),
        (metric(Compare::AtLeast, 1), metric(Compare::AtMost, 1), "the comparison differs"),
        (
            metric(Compare::AtLeast, 1),
            other_pointer(metric(Compare::AtLeast, 1)),
            "the pointer differs",
        ),
        (metric(Compare::AtLeast, 1), tool("m"), "the kind of evidence differs"),
        (tool("m"), tool("n"), "the command differs"),
        (
            files(&["a"], Some("x"), None, None),
            files(&["a", "b"], Some("x"), None, None),
            "the files differ",
        ),
        (
            files(&["a"], Some("x"), None, None),
            files(&["a"], Some("y"), None, None),
            "`require` differs",
        ),
        (
            files(&["a"], None, Some("x"), None),
            files(&["a"], None, Some("y"), None),
            "`forbid` differs",
        ),
        (files(&["a"], None, None, Some(5)), files(&["a"], None, None, Some(6)), "looser: 6 bytes"),
    ] {
        let error = two(first, second).unwrap_err();
        assert!(error.message.contains(what), "{error}");
        assert_eq!(error.code(), Code::GovernanceInvalid);
        assert!(error.to_string().starts_with("Project.toml:3:6: the gate rule `r` "), "{error}");
        assert!(error.message.ends_with("; the other is at Universal.toml:3:6"), "{error}");
    }
    let warns = compose([
        stated(RuleLevel::Universal, OnFailure::Block, &[], metric(Compare::AtLeast, 1)),
        stated(RuleLevel::Loop, OnFailure::Warn, &[], metric(Compare::AtLeast, 2)),
    ]);
    assert!(warns.unwrap_err().message.contains("only warns where an earlier level blocks"));
    let twice = compose([
        stated(RuleLevel::Project, OnFailure::Block, &[], metric(Compare::AtLeast, 1)),
        stated(RuleLevel::Project, OnFailure::Block, &[], metric(Compare::AtLeast, 1)),
    ]);
    assert!(twice.unwrap_err().message.contains("defined twice at the level `project`"));
    // Gates and compliance checks have names of their own.
    let mut other = stated(RuleLevel::Project, OnFailure::Warn, &[], tool("t"));
    other.kind = RuleKind::Compliance;
    let both =
        compose([stated(RuleLevel::Project, OnFailure::Warn, &[], tool("u")), other]).unwrap();
    assert_eq!((both.governance.gates.len(), both.governance.compliance.len()), (1, 1));
}

fn evidence() -> impl Strategy<Value = Evidence> {
    let compare = select(vec![Compare::AtLeast, Compare::AtLeast, Compare::AtMost, Compare::Equal]);
    prop_oneof![
        4 => (compare, 0..6i64).prop_map(|(compare, threshold)| metric(compare, threshold)),
        1 => (1..5u64, option::of(subsequence(vec!["a", "b"], 0..=2))).prop_map(|(timeout_ms, paths)| {
            let pinned = paths.map(|paths| paths.into_iter().map(str::to_owned).collect());
            Evidence::Tool { argv: vec!["t".to_owned()], pinned, timeout_ms }
        }),
        4 => (
            option::of(Just("x")), option::of(select(vec!["y", "z"])), any::<bool>(), option::of(1..6u64),
        )
            .prop_filter("says nothing", |(r, f, j, b)| r.is_some() || f.is_some() || *j || b.is_some())
            .prop_map(|(require, forbid, json, bytes_max)| Evidence::Validator {
                bytes_max,
                files: vec!["*".to_owned()],
                forbid: forbid.map(str::to_owned),
                json,
                require: require.map(str::to_owned),
            }),
    ]
}

fn levels() -> impl Strategy<Value = Vec<LocatedRule>> {
    let one = (
        select(vec![OnFailure::Warn, OnFailure::Block]),
        subsequence(vec!["a", "b", "c"], 0..=3),
        evidence(),
    );
    (subsequence(LEVELS.to_vec(), 1..=4), vec(one, 4)).prop_map(|(levels, rules)| {
        let rules = levels.into_iter().zip(rules);
        rules
            .map(|(level, (on_failure, phases, evidence))| {
                stated(level, on_failure, &phases, evidence)
            })
            .collect()
    })
}

/// Everything that one of these rules could find, as small as it can be.
fn findings(evidence: &Evidence) -> Vec<Observation> {
    let ended = |stdout: String| Observation::Exited {
        exit_code: Some(0),
        stdout,
        output_tail: String::new(),
    };
    let mut all: Vec<Observation> = (-1..8).map(|n| ended(format!("{{\"n\": {n}}}"))).collect();
    for texts in [
        &[][..],
        &[""],
        &["x"],
        &["xy"],
        &["xz", "x"],
        &["\"x\""],
        &["7"],
        &["xxxxxxx"],
        &["\"xy\"", "x"],
    ] {
        if let Some(mut validator) = FileValidator::new(evidence).unwrap() {
            for text in texts {
                validator.check("f", text.len() as u64, Content::Bytes(text.as_bytes()));
            }
            all.push(validator.finish());
        }
    }
    all
}

fn is_met(rule: &Rule, found: &Observation) -> bool {
    judge_gate(rule, found).status == GateStatus::Passed
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases * 2, failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_level_is_loosened_and_order_means_nothing(all in levels(), turn in 0..4usize) {
        let composed = compose(all.clone());
        let mut turned = all.clone();
        turned.rotate_left(turn % all.len());
        turned.reverse();
        prop_assert_eq!(&compose(turned), &composed);
        let Ok(composed) = composed else { return Ok(()) };
        let rule = composed.governance.gates.first().unwrap();
        for one in &all {
            prop_assert!(rule.on_failure >= one.rule.on_failure);
            for phase in ["a", "b", "c", "d"] {
                let applies = |rule: &Rule| rule.phases.is_empty() || rule.phases.iter().any(|p| p == phase);
                prop_assert!(applies(rule) || !applies(&one.rule));
            }
            // What a validator finds depends on the rule that it is for.
            let mine = findings(&rule.evidence);
            let theirs = findings(&one.rule.evidence);
            for (mine, theirs) in mine.iter().zip(&theirs) {
                prop_assert!(!is_met(rule, mine) || is_met(&one.rule, theirs), "{:?} {:?}", rule, one.rule);
            }
        }
    }

    #[test]
    fn restating_the_composed_rule_changes_nothing(all in levels()) {
        let Ok(composed) = compose(all.clone()) else { return Ok(()) };
        let rule = composed.governance.gates.first().unwrap().clone();
        let below: Vec<LocatedRule> = all.into_iter().filter(|one| one.rule.level != RuleLevel::Loop).collect();
        let top = LocatedRule { rule: Rule { level: RuleLevel::Loop, ..rule.clone() }, ..stated(RuleLevel::Loop, OnFailure::Warn, &[], rule.evidence.clone()) };
        let again = compose(below.into_iter().chain([top])).unwrap();
        prop_assert_eq!(&again.governance.gates.first().unwrap().evidence, &rule.evidence);
    }
}
