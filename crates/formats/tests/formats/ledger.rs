//! The attempt ledger: pinned bytes, and every way in which it can be damaged.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_formats::{
    Attempt, AttemptResult, FailureClass, LedgerBuildError, LedgerChain, LedgerError,
    LedgerProblem, LedgerRollback, LedgerSummary, NextAction, RunAttempts, TerminalReason,
    build_ledger, check_ledger,
};
use windlass_kernel::{Code, Digest, canon};

const FIRST: &str = "run_20260202_120000_1a2b3c4d";
const SECOND: &str = "run_20260202_120000_aaaaaaaa";

fn attempt(number: u8, result: AttemptResult, next_action: NextAction) -> Attempt {
    Attempt {
        timestamp: format!("2026-02-02T12:0{number}:00Z").parse().unwrap(),
        input_hash: Digest::of(b"input"),
        actions_taken: vec!["build".to_owned(), "review".to_owned()],
        diff_hash: Some(Digest::of(&[number])),
        changed_files: vec!["src/lib.rs".to_owned()],
        evidence_hashes: BTreeMap::from([("tests".to_owned(), Digest::of(b"log"))]),
        result,
        terminal_reason: None,
        next_action,
        rationale: format!("attempt {number}"),
    }
}

fn runs() -> Vec<RunAttempts> {
    let failed = AttemptResult::Failure(FailureClass::TestFailure);
    let run = |name: &str, attempts| RunAttempts {
        run_id: name.parse().unwrap(),
        policy_hash: Digest::of(b"policy"),
        attempts,
    };
    let last = Attempt {
        terminal_reason: Some(TerminalReason::Pass),
        diff_hash: None,
        ..attempt(3, AttemptResult::Success, NextAction::Terminate)
    };
    vec![
        run(
            FIRST,
            vec![
                attempt(1, failed, NextAction::Retry),
                attempt(2, failed, NextAction::Escalate),
                last,
            ],
        ),
        run(SECOND, vec![attempt(4, AttemptResult::Success, NextAction::Retry)]),
    ]
}

fn written() -> String {
    String::from_utf8(build_ledger(&runs()).unwrap()).unwrap()
}

fn lines() -> Vec<String> {
    written().lines().map(|line| format!("{line}\n")).collect()
}

fn refusal(text: &str) -> LedgerError {
    let error = check_ledger(text.as_bytes()).unwrap_err();
    assert_eq!(error.code(), Code::LedgerCorrupt);
    error
}

#[test]
fn the_bytes_are_pinned() {
    let path = "../../vectors/ledger/attempt_ledger.jsonl";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    assert_eq!(written(), std::fs::read_to_string(path).unwrap());
    assert_eq!(build_ledger(&[]).unwrap(), b"");
}

#[test]
fn a_record_has_exactly_its_fields() {
    let record: serde_json::Value = serde_json::from_str(&lines()[1]).unwrap();
    let mut fields: Vec<&str> = record.as_object().unwrap().keys().map(String::as_str).collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            "actions_taken",
            "attempt_id",
            "changed_files",
            "diff_hash",
            "evidence_hashes",
            "failure_class",
            "input_hash",
            "next_action",
            "policy_hash",
            "prev_record_hash",
            "rationale",
            "record_hash",
            "run_id",
            "success",
            "terminal_reason",
            "timestamp",
        ]
    );
}

#[test]
fn a_whole_ledger_is_summed_up() {
    let summary = check_ledger(written().as_bytes()).unwrap();
    let last: Vec<serde_json::Value> =
        lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(summary.attempts(), 4);
    assert_eq!(summary.runs.len(), 2);
    assert_eq!(summary.runs[0].attempts, 3);
    assert_eq!(summary.runs[0].terminal_reason, Some(TerminalReason::Pass));
    assert_eq!(summary.runs[0].tip.to_string(), last[3]["record_hash"]);
    assert_eq!(
        summary.run(&SECOND.parse().unwrap()).unwrap().tip.to_string(),
        last[5]["record_hash"]
    );
    assert_eq!(check_ledger(b""), Ok(LedgerSummary::default()));
}

#[test]
fn more_runs_and_attempts_only_ever_add_lines() {
    let whole = written();
    let mut fewer = runs();
    fewer[1].attempts.clear();
    assert!(whole.starts_with(&String::from_utf8(build_ledger(&fewer).unwrap()).unwrap()));
    fewer.pop();
    assert!(whole.starts_with(&String::from_utf8(build_ledger(&fewer).unwrap()).unwrap()));
}

#[test]
fn a_torn_end_is_named_and_what_is_before_it_is_reported() {
    let whole = written();
    let boundaries: Vec<usize> =
        whole.match_indices('\n').map(|(at, _)| at + 1).chain([0]).collect();
    for end in 0..whole.len() {
        let text = &whole[..end];
        if boundaries.contains(&end) {
            assert!(check_ledger(text.as_bytes()).is_ok(), "{end}");
            continue;
        }
        let error = refusal(text);
        assert_eq!(error.problem, LedgerProblem::Torn, "{end}");
        assert_eq!(error.line, text.lines().count());
        let kept = &text[..text.rfind('\n').map_or(0, |at| at + 1)];
        assert_eq!(error.before, check_ledger(kept.as_bytes()).unwrap());
    }
    let error = refusal(&whole[..whole.len() - 1]);
    assert_eq!(
        error.to_string(),
        "line 6 of the attempt ledger is incomplete; \
         the 3 attempt(s) of 2 run(s) before it are valid"
    );
}

#[test]
fn what_was_changed_is_found() {
    let whole = written();
    for (from, to) in [
        ("\"rationale\":\"attempt 2\"", "\"rationale\":\"attempt 9\""),
        ("\"failure_class\":\"test_failure\"", "\"failure_class\":\"typo\""),
        ("\"success\":true", "\"success\":false"),
        ("src/lib.rs", "src/main.rs"),
    ] {
        let error = refusal(&whole.replacen(from, to, 1));
        assert!(matches!(error.problem, LedgerProblem::Tampered { .. }), "{to}: {error}");
    }
    for (from, to) in [
        ("\"next_action\":\"retry\"", "\"next_action\":\"ignore\""),
        ("\"success\":true", "\"success\":1"),
        ("\"terminal_reason\":null,", ""),
        ("\"rationale\"", "\"rationals\""),
        ("\"type\":\"header\"", "\"type\":7"),
    ] {
        let error = refusal(&whole.replacen(from, to, 1));
        assert!(matches!(error.problem, LedgerProblem::Unreadable(_)), "{to}: {error}");
    }
    let spaced = whole.replacen("\"success\":", "\"success\": ", 1);
    assert_eq!(refusal(&spaced).problem, LedgerProblem::NotCanonical);
    assert!(matches!(refusal("\n").problem, LedgerProblem::Unreadable(_)));
    assert!(matches!(refusal("[]\n").problem, LedgerProblem::Unreadable(_)));
}

#[test]
fn a_record_that_contradicts_itself_or_its_run_is_found_although_its_digest_is_right() {
    let lines = lines();
    let problem = |name: &str, value: Value| {
        let mut line: Value = serde_json::from_str(&lines[1]).unwrap();
        line[name] = value;
        line.as_object_mut().unwrap().remove("record_hash");
        line["record_hash"] = json!(canon::digest(&line).unwrap());
        let line = String::from_utf8(canon::value_to_bytes(&line).unwrap()).unwrap();
        refusal(&format!("{}{line}\n", lines[0])).problem
    };
    let class = LedgerProblem::Contradiction("a failure has a class, and a success has none");
    assert_eq!(problem("success", json!(true)), class);
    assert_eq!(problem("failure_class", Value::Null), class);
    let policy = LedgerProblem::Contradiction("its policy is not that of its header");
    assert_eq!(problem("policy_hash", json!(Digest::of(b"another"))), policy);
    let number = LedgerProblem::Number { expected: 1, found: 2 };
    assert_eq!(problem("attempt_id", json!(2)), number);
}

#[test]
fn lines_that_are_missing_moved_or_repeated_are_found() {
    let lines = lines();
    let joined = |order: &[usize]| order.iter().map(|at| lines[*at].as_str()).collect::<String>();
    let fault = |order: &[usize]| {
        let error = refusal(&joined(order));
        (error.line, error.problem)
    };
    let missing = |run: &str| LedgerProblem::MissingHeader { run: run.parse().unwrap() };
    assert_eq!(fault(&[1, 2]), (1, missing(FIRST)));
    assert_eq!(fault(&[0, 1, 2, 3, 5]), (5, missing(SECOND)));
    assert_eq!(fault(&[0, 1, 4, 2]), (4, missing(FIRST)));
    for order in [&[0, 2][..], &[0, 1, 3], &[0, 2, 1, 3], &[0, 1, 1], &[0, 1, 2, 1]] {
        let (line, found) = fault(order);
        assert!(matches!(found, LedgerProblem::Broken { .. }), "{order:?}: {found:?} at {line}");
    }
    assert_eq!(fault(&[0, 1, 0]), (3, LedgerProblem::HeaderTwice { run: FIRST.parse().unwrap() }));
    assert_eq!(fault(&[0, 4, 0]), (3, LedgerProblem::HeaderTwice { run: FIRST.parse().unwrap() }));
}

#[test]
fn runs_that_cannot_be_are_not_written() {
    let mut twice = runs();
    twice.push(twice[0].clone());
    assert!(matches!(build_ledger(&twice), Err(LedgerBuildError::RunTwice(_))));
    let mut after = runs();
    let more = after[1].attempts[0].clone();
    after[0].attempts.push(more);
    assert!(matches!(build_ledger(&after), Err(LedgerBuildError::AfterTheEnd { attempt: 4, .. })));
    let mut long = runs();
    long[0].attempts[0].rationale = "a".repeat(1 << 20);
    assert!(matches!(build_ledger(&long), Err(LedgerBuildError::LineTooLong { attempt: 1, .. })));
}

#[test]
fn a_run_that_was_rolled_back_goes_on_after_its_end() {
    let runs = runs();
    let (mut chain, header) = LedgerChain::begin(&runs[0].run_id, runs[0].policy_hash).unwrap();
    let mut text = String::from_utf8(header).unwrap();
    for attempt in &runs[0].attempts {
        text.push_str(std::str::from_utf8(&chain.add(attempt).unwrap()).unwrap());
    }
    let next = attempt(4, AttemptResult::Success, NextAction::Retry);
    assert!(matches!(chain.add(&next), Err(LedgerBuildError::AfterTheEnd { attempt: 4, .. })));
    let rollback = LedgerRollback {
        by: "ada".to_owned(),
        checkpoint: "POST_build_v1".to_owned(),
        reason: "once more".to_owned(),
        timestamp: "2026-02-02T12:05:00Z".parse().unwrap(),
    };
    let line = String::from_utf8(chain.roll_back(&rollback).unwrap()).unwrap();
    let before = text.clone();
    text.push_str(&line);
    assert_eq!(check_ledger(text.as_bytes()).unwrap().runs[0].next_action, None);
    let added = String::from_utf8(chain.add(&next).unwrap()).unwrap();
    text.push_str(&added);
    let summary = check_ledger(text.as_bytes()).unwrap();
    assert_eq!((summary.runs[0].attempts, summary.runs[0].tip), (4, chain.tip()));
    assert_eq!(summary.runs[0].terminal_reason, None);
    let path = "../../vectors/ledger/rolled_back.jsonl";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    assert_eq!(text, std::fs::read_to_string(path).unwrap());
    // Neither without the rollback's line, nor with another one.
    assert!(matches!(refusal(&(before.clone() + &added)).problem, LedgerProblem::Broken { .. }));
    let other = line.replace("once more", "something else");
    assert!(matches!(refusal(&(before + &other)).problem, LedgerProblem::Tampered { .. }));
    let alone = refusal(&line).problem;
    assert!(matches!(alone, LedgerProblem::MissingHeader { .. }), "{alone:?}");
}

#[test]
fn the_words_are_those_of_the_reference() {
    let words = |all: Vec<&'static str>| all.join(" ");
    assert_eq!(
        words(FailureClass::ALL.iter().map(|word| word.as_str()).collect()),
        "test_failure syntax_error timeout test_timeout validation_error review_rejection \
         lint_error test_flake typo formatting_error unknown"
    );
    assert_eq!(
        words(TerminalReason::ALL.iter().map(|word| word.as_str()).collect()),
        "pass budget_exhausted diff_budget_exceeded token_accounting_unavailable no_progress \
         oscillation_detected ledger_corrupt policy_changed_mid_run workspace_reset_unavailable \
         max_retries_exceeded critical_failure concurrent_run_detected kill_switch_active \
         checkpoint_rejected mission_failed review_rejected unsupported_verdict unknown_step"
    );
    assert_eq!(
        words(NextAction::ALL.iter().map(|word| word.as_str()).collect()),
        "continue retry terminate escalate waiver"
    );
}

proptest! {
    #[test]
    fn a_changed_byte_is_always_found(at in any::<proptest::sample::Index>(), byte: u8) {
        let mut bytes = written().into_bytes();
        let at = at.index(bytes.len());
        prop_assume!(bytes[at] != byte);
        bytes[at] = byte;
        prop_assert!(check_ledger(&bytes).is_err());
    }

    #[test]
    fn every_ledger_that_is_written_holds(
        texts in proptest::collection::vec((any::<String>(), any::<String>(), any::<bool>()), 0..8),
    ) {
        let mut runs = runs();
        runs[0].attempts.pop();
        for (rationale, name, success) in texts {
            let result = if success {
                AttemptResult::Success
            } else {
                AttemptResult::Failure(FailureClass::Unknown)
            };
            runs[0].attempts.push(Attempt {
                rationale,
                evidence_hashes: BTreeMap::from([(name, Digest::of(b"x"))]),
                ..attempt(5, result, NextAction::Waiver)
            });
        }
        let summary = check_ledger(&build_ledger(&runs).unwrap()).unwrap();
        prop_assert_eq!(summary.runs[0].attempts as usize, runs[0].attempts.len());
    }
}
