//! The answers of the core loop's agents are read strictly: nothing else is ever a verdict.

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_formats::FieldError;
use windlass_formats::core::{
    ANSWER_BYTES_MAX, ANSWER_ITEMS_MAX, ANSWER_TEXT_CHARS_MAX, AnswerError, CheckResult,
    Complexity, CriticAnswer, CriticCheck, CriticVerdict, CustodietAnswer, CustodietVerdict,
    FrameworkAnswer, HydratorAnswer, HydratorPath, IssueDimension, IssueSeverity, QaAnswer,
    QaVerdict, Scope, SessionOutcome,
};
use windlass_kernel::Code;

fn proceed() -> Value {
    json!({ "verdict": "PROCEED", "reason": "The plan is sound.", "findings": [],
            "acceptance_criteria": ["The tests pass"] })
}

fn halt() -> Value {
    json!({ "verdict": "HALT", "reason": "It cannot work.",
            "findings": [{ "check": "feasibility", "problem": "There is no such API." }] })
}

fn hydrated() -> Value {
    json!({
        "intent": "Add a flag", "scope": "single-session", "path": "EXECUTE",
        "complexity": "multi-step", "workflow": "feature-dev",
        "acceptance_criteria": ["The flag works"],
        "plan": [{ "step": "review-plan/draft", "text": "Write the plan" }],
        "context": ["The flag is in `args.rs`"], "summary": "A flag",
    })
}

fn verified() -> Value {
    let passed = json!({ "result": "passed", "evidence": "I ran it." });
    let none = json!({ "result": "not_applicable", "evidence": "Nothing is documented." });
    json!({
        "verdict": "VERIFIED", "reason": "All of it works.", "issues": [],
        "checks": { "intent": passed, "criteria": passed, "tests": passed,
                    "documentation": none, "errors": passed },
    })
}

fn framework() -> Value {
    json!({
        "reflection": "## Framework Reflection\n\n**Request**: a\n**Guidance received**: b\n\
                       **Followed**: Yes\n**Outcome**: Success\n**Accomplishment**: c\n\
                       **Proposed change**: none needed\n",
        "learnings": ["Tests first"],
        "improvements": [{ "title": "Shorter plans", "description": "Plans were too long." }],
    })
}

fn with(mut value: Value, path: &str, new: Value) -> Value {
    let (parent, key) = path.rsplit_once('/').unwrap();
    let parent = value.pointer_mut(parent).unwrap();
    match parent.as_object_mut() {
        Some(map) => drop(map.insert(key.to_owned(), new)),
        None => *parent.pointer_mut(&format!("/{key}")).unwrap() = new,
    }
    value
}

fn without(mut value: Value, key: &str) -> Value {
    value.as_object_mut().unwrap().remove(key).unwrap();
    value
}

/// The field that an answer is refused for.
fn wrong<T: std::fmt::Debug>(answer: Result<T, FieldError>) -> String {
    match answer.unwrap_err() {
        FieldError::NotObject { .. } => "the answer".to_owned(),
        FieldError::Unknown { field, .. }
        | FieldError::Missing { field }
        | FieldError::Type { field, .. }
        | FieldError::Value { field, .. } => field,
    }
}

#[test]
fn an_answer_is_one_object_alone_or_in_one_code_block() {
    let text = proceed().to_string();
    let pretty = serde_json::to_string_pretty(&proceed()).unwrap();
    for text in [
        text.clone(),
        format!("\n \t{text}\r\n"),
        format!("```json\n{text}\n```"),
        format!("\n```json\n{pretty}\n```\n"),
        format!("```json\r\n{pretty}\r\n```\r\n"),
    ] {
        assert_eq!(CriticAnswer::read(&text).unwrap().verdict, CriticVerdict::Proceed, "{text}");
    }
}

#[test]
fn no_other_text_is_a_verdict() {
    let (yes, no) = (proceed().to_string(), halt().to_string());
    let deep = "[".repeat(100_000);
    for (text, expected) in [
        (String::new(), "the answer is empty"),
        (" \n".to_owned(), "the answer is empty"),
        ("PROCEED".to_owned(), "it begins with `PROCEED`"),
        ("I would not say PROCEED here. HALT".to_owned(), "it begins with `I would not"),
        (format!("HALT, not PROCEED: {yes}"), "it begins with `HALT"),
        (format!("{yes} HALT"), "trailing characters"),
        (format!("{yes}\n{no}"), "trailing characters"),
        (format!("{no}{yes}"), "trailing characters"),
        (format!("[{yes}]"), "it begins with `["),
        (format!("\"{yes}\""), "it begins with `\""),
        (format!("Here it is:\n```json\n{yes}\n```"), "it begins with `Here"),
        (format!("```json\n{yes}\n```\nHALT"), "must begin with the line"),
        (format!("```json\n{yes}\n```\n```json\n{no}\n```"), "nothing else"),
        (format!("```\n{yes}\n```"), "must begin with the line"),
        (format!("```JSON\n{yes}\n```"), "must begin with the line"),
        (format!("```yaml\n{yes}\n```"), "must begin with the line"),
        (format!("```json {yes} ```"), "must begin with the line"),
        (format!("```json\n{yes}"), "must begin with the line"),
        (format!("```json\n```json\n{yes}\n```\n```"), "it begins with ````json"),
        ("```json\n```".to_owned(), "must begin with the line"),
        ("```json\n\n```".to_owned(), "it begins with ``"),
        (yes[..yes.len() - 1].to_owned(), "EOF"),
        (yes[..yes.len() / 2].to_owned(), "EOF"),
        (yes.replace('"', "'"), "not valid JSON"),
        (yes.replacen('{', "{\"verdict\":\"HALT\",", 1), "duplicate key"),
        (yes.replace("The plan", "\u{0}"), "not valid JSON"),
        (format!("{{\"verdict\":{deep}"), "not valid JSON"),
        (format!("{{\"verdict\":\"{}\"}}", "a".repeat(ANSWER_BYTES_MAX)), "more than 262144"),
    ] {
        let error = CriticAnswer::read(&text).unwrap_err();
        let short: String = text.chars().take(200).collect();
        assert!(error.to_string().contains(expected), "{short}: {error}");
        let code = error.code();
        assert!(matches!(code, Code::JsonInvalid | Code::DocSizeExceeded), "{short}: {error}");
    }
    let nested = yes.replacen(
        "\"findings\":[]",
        "\"findings\":[{\"check\":\"feasibility\",\
                              \"problem\":\"a\",\"problem\":\"b\"}]",
        1,
    );
    assert!(CriticAnswer::read(&nested).unwrap_err().to_string().contains("duplicate key"));
    let field = CriticAnswer::read("{}").unwrap_err();
    assert!(matches!(field, AnswerError::Field(FieldError::Missing { .. })), "{field}");
    assert_eq!(field.code(), Code::RequestInvalid);
}

#[test]
fn verdicts_are_exact_words() {
    for word in ["proceed", "Proceed", "PROCEED ", "PROCEED.", "OK", "", "PROCEED|HALT"] {
        let answer = with(proceed(), "/verdict", word.into());
        assert_eq!(wrong(CriticAnswer::from_value(&answer)), "verdict", "{word}");
    }
    for value in [Value::Null, true.into(), 1.into(), json!(["PROCEED"]), json!({})] {
        let answer = with(proceed(), "/verdict", value);
        assert_eq!(wrong(CriticAnswer::from_value(&answer)), "verdict");
    }
    let wrong_verdicts = [("custodiet", "ok"), ("custodiet", "BLOCKED"), ("qa", "verified")];
    for (agent, word) in wrong_verdicts {
        let answer = json!({ "verdict": word, "reason": "r" });
        let field = match agent {
            "qa" => wrong(QaAnswer::from_value(&answer)),
            _ => wrong(CustodietAnswer::from_value(&answer)),
        };
        assert_eq!(field, "verdict", "{word}");
    }
}

#[test]
fn the_critic_needs_criteria_to_proceed_and_findings_otherwise() {
    let answer = CriticAnswer::from_value(&halt()).unwrap();
    assert_eq!(answer.verdict, CriticVerdict::Halt);
    assert_eq!(answer.findings[0].check, CriticCheck::Feasibility);
    assert_eq!(answer.acceptance_criteria, Vec::<String>::new());
    let finding = halt()["findings"][0].clone();
    for (answer, field) in [
        (without(proceed(), "reason"), "reason"),
        (with(proceed(), "/reason", " ".into()), "reason"),
        (without(proceed(), "acceptance_criteria"), "acceptance_criteria"),
        (with(proceed(), "/acceptance_criteria", json!([])), "acceptance_criteria"),
        (with(proceed(), "/acceptance_criteria", json!(["a", ""])), "acceptance_criteria[1]"),
        (with(proceed(), "/acceptance_criteria", json!([1])), "acceptance_criteria[0]"),
        (without(halt(), "findings"), "findings"),
        (with(halt(), "/findings", json!([])), "findings"),
        (with(with(halt(), "/findings", json!([])), "/verdict", "REVISE".into()), "findings"),
        (with(halt(), "/findings/0/check", "style".into()), "findings[0].check"),
        (
            with(halt(), "/findings", json!([finding, { "check": "feasibility" }])),
            "findings[1].problem",
        ),
        (with(halt(), "/findings/0/line", 1.into()), "findings[0].line"),
        (with(halt(), "/findings", json!({})), "findings"),
        (with(proceed(), "/confidence", 1.into()), "confidence"),
    ] {
        assert_eq!(wrong(CriticAnswer::from_value(&answer)), field, "{answer}");
    }
}

#[test]
fn custodiet_names_what_is_wrong_and_only_then() {
    for ok in [
        json!({ "verdict": "OK", "reason": "Within scope." }),
        json!({ "verdict": "OK", "reason": "Within scope.", "issue": null, "principle": "",
                "correction": "" }),
    ] {
        let answer = CustodietAnswer::from_value(&ok).unwrap();
        assert_eq!((answer.verdict, answer.violation), (CustodietVerdict::Ok, None));
    }
    let violation = |verdict: &str| {
        json!({ "verdict": verdict, "reason": "r", "issue": "i", "principle": "p",
                "correction": "c" })
    };
    for (word, verdict) in [("WARN", CustodietVerdict::Warn), ("BLOCK", CustodietVerdict::Block)] {
        let answer = CustodietAnswer::from_value(&violation(word)).unwrap();
        let found = answer.violation.unwrap();
        assert_eq!(
            (answer.verdict, found.issue.as_str(), found.principle.as_str()),
            (verdict, "i", "p")
        );
        assert_eq!(found.correction, "c");
        for key in ["issue", "principle", "correction"] {
            let answer = without(violation(word), key);
            assert_eq!(wrong(CustodietAnswer::from_value(&answer)), key);
            let answer = with(violation(word), &format!("/{key}"), "".into());
            assert_eq!(wrong(CustodietAnswer::from_value(&answer)), key);
        }
    }
    assert_eq!(wrong(CustodietAnswer::from_value(&violation("OK"))), "issue");
    // An agent that cannot judge has not judged.
    let cannot = json!({ "verdict": "CANNOT_ASSESS", "reason": "No transcript." });
    assert_eq!(wrong(CustodietAnswer::from_value(&cannot)), "verdict");
}

#[test]
fn the_hydrator_answers_with_all_of_its_fields() {
    let answer = HydratorAnswer::from_value(&hydrated()).unwrap();
    assert_eq!(
        (answer.scope, answer.path, answer.complexity, answer.workflow.as_str()),
        (Scope::SingleSession, HydratorPath::Execute, Complexity::MultiStep, "feature-dev")
    );
    assert_eq!(answer.plan[0].step, "review-plan/draft");
    assert_eq!(answer.context.len(), 1);
    let short = without(without(hydrated(), "context"), "summary");
    let answer = HydratorAnswer::from_value(&short).unwrap();
    assert_eq!((answer.context, answer.summary), (Vec::new(), None));
    for key in ["intent", "scope", "path", "complexity", "workflow", "acceptance_criteria", "plan"]
    {
        let answer = without(hydrated(), key);
        assert_eq!(wrong(HydratorAnswer::from_value(&answer)), key);
    }
    for (path, value, field) in [
        ("/scope", json!("single"), "scope"),
        ("/path", json!("execute"), "path"),
        ("/complexity", json!("easy"), "complexity"),
        ("/workflow", json!("../secret"), "workflow"),
        ("/workflow", json!("[[tdd-cycle]]"), "workflow"),
        ("/plan/0", json!("Write the plan"), "plan[0]"),
        ("/plan/0/text", json!(""), "plan[0].text"),
        ("/context", json!("text"), "context"),
        ("/intent", json!("a\u{1b}[2J"), "intent"),
    ] {
        let answer = with(hydrated(), path, value);
        assert_eq!(wrong(HydratorAnswer::from_value(&answer)), field, "{answer}");
    }
}

#[test]
fn verified_work_has_no_failed_check_and_no_issue() {
    let answer = QaAnswer::from_value(&verified()).unwrap();
    assert_eq!(answer.verdict, QaVerdict::Verified);
    assert_eq!(answer.checks.documentation.result, CheckResult::NotApplicable);
    let issue = json!({ "dimension": "semantic_correctness", "severity": "major",
                        "problem": "It counts twice." });
    let issues = with(with(verified(), "/verdict", "ISSUES".into()), "/issues", json!([issue]));
    let failed = with(issues.clone(), "/checks/tests/result", "failed".into());
    let answer = QaAnswer::from_value(&failed).unwrap();
    assert_eq!(answer.checks.tests.result, CheckResult::Failed);
    let [issue] = &answer.issues[..] else { unreachable!("one issue") };
    assert_eq!(
        (issue.dimension, issue.severity),
        (IssueDimension::SemanticCorrectness, IssueSeverity::Major)
    );
    for name in ["intent", "criteria", "tests", "documentation", "errors"] {
        let path = format!("/checks/{name}/result");
        let answer = with(verified(), &path, "failed".into());
        let field = format!("checks.{name}.result");
        assert_eq!(wrong(QaAnswer::from_value(&answer)), field);
        let mut missing = verified();
        missing["checks"].as_object_mut().unwrap().remove(name).unwrap();
        assert_eq!(wrong(QaAnswer::from_value(&missing)), format!("checks.{name}"));
        let evidence = format!("/checks/{name}/evidence");
        let answer = with(verified(), &evidence, "".into());
        assert_eq!(wrong(QaAnswer::from_value(&answer)), format!("checks.{name}.evidence"));
    }
    for (answer, field) in [
        (
            with(verified(), "/checks/intent/result", "not_applicable".into()),
            "checks.intent.result",
        ),
        (with(verified(), "/issues", issues["issues"].clone()), "issues"),
        (with(issues.clone(), "/issues", json!([])), "issues"),
        (without(issues.clone(), "issues"), "issues"),
        (with(issues.clone(), "/issues/0/severity", "high".into()), "issues[0].severity"),
        (with(issues.clone(), "/issues/0/dimension", "style".into()), "issues[0].dimension"),
        (without(verified(), "checks"), "checks"),
        (with(verified(), "/checks", json!([])), "checks"),
        (with(verified(), "/checks/style", json!({})), "checks.style"),
    ] {
        assert_eq!(wrong(QaAnswer::from_value(&answer)), field, "{answer}");
    }
}

#[test]
fn the_framework_agent_answers_with_a_reflection() {
    let answer = FrameworkAnswer::from_value(&framework()).unwrap();
    assert_eq!(answer.reflection.outcome, SessionOutcome::Success);
    assert_eq!((answer.learnings.len(), answer.improvements.len()), (1, 1));
    for key in ["reflection", "learnings", "improvements"] {
        assert_eq!(wrong(FrameworkAnswer::from_value(&without(framework(), key))), key);
    }
    for (path, value, field) in [
        ("/reflection", json!("It went well."), "reflection"),
        ("/reflection", json!({}), "reflection"),
        ("/learnings/0", json!(1), "learnings[0]"),
        ("/improvements/0/title", json!("two\nlines"), "improvements[0].title"),
        ("/improvements/0/priority", json!(1), "improvements[0].priority"),
    ] {
        let answer = with(framework(), path, value);
        assert_eq!(wrong(FrameworkAnswer::from_value(&answer)), field, "{answer}");
    }
}

#[test]
fn texts_and_lists_are_limited() {
    let text = |chars: usize| Value::from("ä".repeat(chars));
    let list = |items: usize| Value::from(vec!["a"; items]);
    CriticAnswer::from_value(&with(proceed(), "/reason", text(ANSWER_TEXT_CHARS_MAX))).unwrap();
    let criteria = "/acceptance_criteria";
    CriticAnswer::from_value(&with(proceed(), criteria, list(ANSWER_ITEMS_MAX))).unwrap();
    let long = with(proceed(), "/reason", text(ANSWER_TEXT_CHARS_MAX + 1));
    assert_eq!(wrong(CriticAnswer::from_value(&long)), "reason");
    let many = with(proceed(), criteria, list(ANSWER_ITEMS_MAX + 1));
    assert_eq!(wrong(CriticAnswer::from_value(&many)), "acceptance_criteria");
    let finding = halt()["findings"][0].clone();
    let many = with(halt(), "/findings", vec![finding; ANSWER_ITEMS_MAX + 1].into());
    assert_eq!(wrong(CriticAnswer::from_value(&many)), "findings");
}

proptest! {
    #[test]
    fn text_around_an_answer_makes_it_none(before in "\\PC{0,20}", after in "\\PC{0,20}") {
        let is_blank = before.trim().is_empty() && after.trim().is_empty();
        let text = format!("{before}{}{after}", proceed());
        prop_assert_eq!(CriticAnswer::read(&text).is_ok(), is_blank);
    }

    #[test]
    fn a_part_of_an_answer_is_none(end in 0_usize..10_000) {
        let text = serde_json::to_string_pretty(&verified()).unwrap();
        let end = end % text.len();
        prop_assert!(QaAnswer::read(&text[..end]).is_err());
        let fenced = format!("```json\n{}\n```", &text[..end]);
        prop_assert!(QaAnswer::read(&fenced).is_err());
    }
}
