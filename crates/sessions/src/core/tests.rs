//! Tests of the core loop's state.

use serde_json::json;
use windlass_kernel::{Digest, Timestamp, TraceId};

use super::*;
use crate::note::SessionNote;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_ms(seconds * 1000).unwrap()
}

fn progress() -> CoreProgress {
    CoreProgress {
        head: Digest::of(b""),
        state: CoreState::default(),
        counters: Counters::default(),
    }
}

fn prompt(number: u32, skipped: Option<&str>) -> CoreNote {
    let (text, skipped) = ("do it".to_owned(), skipped.map(str::to_owned));
    CoreNote::PromptTaken { number, text, context: None, skipped }
}

fn planned(gates: &[&str]) -> CoreNote {
    CoreNote::Planned {
        id: "h".to_owned(),
        intent: "it".to_owned(),
        workflow: "minor-edit".to_owned(),
        gates: gates.iter().map(|gate| (*gate).to_owned()).collect(),
        criteria: vec!["done".to_owned()],
        steps: vec![PlanStep { id: "one".to_owned(), text: "first".to_owned() }],
        details: json!({}),
    }
}

fn criticised(verdict: &str) -> CoreNote {
    CoreNote::Criticised {
        id: "c".to_owned(),
        verdict: verdict.to_owned(),
        reason: "r".to_owned(),
        findings: Vec::new(),
        criteria: vec!["approved".to_owned()],
    }
}

fn audited(verdict: &str) -> CoreNote {
    let text = "t".to_owned();
    let (issue, principle, correction) = (text.clone(), text.clone(), text.clone());
    let verdict = verdict.to_owned();
    CoreNote::Audited { id: "a".to_owned(), verdict, reason: text, issue, principle, correction }
}

fn verified(verdict: &str) -> CoreNote {
    let (id, reason) = ("q".to_owned(), "r".to_owned());
    CoreNote::Verified { id, verdict: verdict.to_owned(), reason, issues: Vec::new(), tree: None }
}

#[test]
fn notes_come_back_from_the_journal() {
    let step = CloseStep { step: "push".to_owned(), ok: false, detail: "no".to_owned() };
    let started = CoreNote::JudgeStarted {
        judge: Judge::QaVerifier,
        id: "q".to_owned(),
        file: Digest::of(b"f"),
        prompt: Digest::of(b"p"),
        tree: Some("t".to_owned()),
    };
    for note in [
        prompt(1, Some("why")),
        planned(&["tdd"]),
        criticised("HALT"),
        audited("BLOCK"),
        verified("ISSUES"),
        started,
        CoreNote::Closing(step),
        CoreNote::Step { step: "one".to_owned(), status: StepStatus::InProgress },
        CoreNote::Unclosed { missing: vec!["qa".to_owned()] },
        CoreNote::BlockCleared { by: "a".to_owned(), reason: "b".to_owned() },
    ] {
        let recorded = serde_json::to_value(SessionNote::Core(note.clone())).unwrap();
        assert_eq!(recorded["note"], "core", "{recorded}");
        let read: SessionNote = serde_json::from_value(recorded).unwrap();
        assert_eq!(read, SessionNote::Core(note));
    }
}

#[test]
fn gates_open_in_their_order() {
    let settings = CoreSettings::default();
    let mut now = progress();
    let gate = |now: &CoreProgress| now.refuses_writing().map(|missing| missing.gate);
    assert_eq!(gate(&now), Some("hydration"));
    now.apply(at(1), &prompt(1, None), &settings);
    assert_eq!(gate(&now), Some("hydration"));
    now.apply(at(2), &planned(&[]), &settings);
    assert_eq!(gate(&now), Some("critic"));
    now.apply(at(3), &criticised("PROCEED"), &settings);
    assert_eq!(gate(&now), None);
    assert_eq!(now.state.plan().unwrap().criteria, ["approved"]);
    // Work makes verification and reflection due, in this order.
    assert_eq!(now.refuses_stopping(), None);
    now.count_write();
    assert_eq!(now.refuses_stopping().unwrap().gate, "qa");
    now.apply(at(4), &verified("ISSUES"), &settings);
    assert_eq!(now.refuses_stopping().unwrap().gate, "qa");
    now.apply(at(5), &verified("VERIFIED"), &settings);
    assert_eq!(now.refuses_stopping().unwrap().gate, "reflection");
    // A new prompt closes the gates again.
    now.apply(at(6), &prompt(2, None), &settings);
    assert_eq!(gate(&now), Some("hydration"));
    now.apply(at(7), &prompt(3, Some("escape")), &settings);
    assert_eq!(gate(&now), None);
    assert_eq!(now.refuses_stopping().unwrap().gate, "reflection");
}

#[test]
fn words_that_are_no_verdict_never_open_a_gate() {
    let settings = CoreSettings::default();
    for odd in ["proceed", "PROCEED ", "", "OK", "VERIFIED"] {
        let mut now = progress();
        now.apply(at(1), &prompt(1, None), &settings);
        now.apply(at(2), &planned(&[]), &settings);
        now.apply(at(3), &criticised(odd), &settings);
        assert!(now.refuses_writing().is_some(), "{odd}");
        now.apply(at(4), &audited(odd), &settings);
        assert_eq!(now.state.blocked.is_some(), odd != "OK", "{odd}");
    }
    let mut now = progress();
    now.count_write();
    now.apply(at(1), &prompt(1, Some("escape")), &settings);
    for odd in ["verified", "PASS", ""] {
        now.apply(at(2), &verified(odd), &settings);
        assert_eq!(now.refuses_stopping().unwrap().gate, "qa", "{odd}");
    }
}

#[test]
fn audits_fall_due_by_count_and_by_chance() {
    let run: TraceId = "01890000-0000-7000-8000-000000000007".parse().unwrap();
    let counted =
        CoreSettings { audit_every: 3, audit_chance_percent: 0, ..CoreSettings::default() };
    let mut now = progress();
    for number in 1..=3 {
        now.counters.uses = number;
        now.count_use(&counted, run);
        assert_eq!(now.counters.audit_due, number == 3);
    }
    let chance =
        CoreSettings { audit_every: 0, audit_chance_percent: 20, ..CoreSettings::default() };
    let drawn = |seed: &str| -> Vec<u64> {
        let settings = CoreSettings { audit_seed: seed.to_owned(), ..chance.clone() };
        (1..=1000)
            .filter(|number| {
                let mut now = progress();
                now.counters.uses = *number;
                now.count_use(&settings, run);
                now.counters.audit_due
            })
            .collect()
    };
    let first = drawn("a");
    assert!((150..250).contains(&first.len()), "{}", first.len());
    assert_eq!(first, drawn("a"), "the same seed draws the same");
    assert_ne!(first, drawn("b"));
}

#[test]
fn prompts_that_need_no_plan_are_known() {
    for prompt in ["/help", "# /help", ".do it", "  /x"] {
        assert!(is_skipped(prompt).is_some(), "{prompt}");
    }
    for prompt in ["do it", "a / b", "# title", "<b>do it</b>", ""] {
        assert!(is_skipped(prompt).is_none(), "{prompt}");
        assert!(!is_notice(prompt, None) && !is_notice(prompt, Some("user")), "{prompt}");
        assert!(is_notice(prompt, Some("schedule_wakeup")), "{prompt}");
    }
    for notice in ["<task-notification>done", "  <system-reminder>\nx", "<agent-notification a>"] {
        assert!(is_notice(notice, Some("user")), "{notice}");
    }
}

#[test]
fn what_waits_for_the_tracker_is_written_once() {
    let settings = CoreSettings::default();
    let mut now = progress();
    now.apply(at(1), &prompt(1, None), &settings);
    now.apply(at(2), &planned(&[]), &settings);
    now.apply(at(3), &criticised("PROCEED"), &settings);
    now.apply(at(4), &audited("BLOCK"), &settings);
    let keys: Vec<&str> = now.state.undelivered.iter().map(|one| one.key.as_str()).collect();
    assert_eq!(keys, ["work/1", "block/a"]);
    let delivered = CoreNote::Delivered { key: "work/1".to_owned(), item: "ws-1".to_owned() };
    now.apply(at(5), &delivered, &settings);
    now.apply(at(6), &criticised("PROCEED"), &settings);
    assert_eq!(now.state.undelivered.len(), 1);
    assert_eq!(now.state.items["work/1"], "ws-1");
}

#[test]
fn an_answer_about_another_prompt_or_plan_is_outdated() {
    let mut now = progress();
    let settings = CoreSettings::default();
    now.apply(at(1), &prompt(1, None), &settings);
    now.apply(at(2), &planned(&[]), &settings);
    let running = |judge: Judge, prompt: u32, plans: u32| Running {
        judge,
        prompt_digest: Digest::of(b""),
        prompt,
        plans,
        tree: None,
        agent: None,
    };
    for (judge, prompt, plans, is_outdated) in [
        (Judge::Critic, 1, 1, false),
        (Judge::Critic, 1, 0, true),
        (Judge::Critic, 0, 1, true),
        (Judge::PromptHydrator, 1, 0, false),
        (Judge::PromptHydrator, 0, 0, true),
        (Judge::QaVerifier, 0, 0, false),
    ] {
        let outdated = now.state.outdates(&running(judge, prompt, plans)).is_some();
        assert_eq!(outdated, is_outdated, "{judge:?} {prompt} {plans}");
        // What is recorded is decided by the state under the lock, whatever was read before.
        let asked = running(judge, prompt, plans);
        let note = now.state.unless_outdated(&asked, "x".to_owned(), planned(&[]));
        assert_eq!(matches!(note, CoreNote::AnswerRefused { .. }), is_outdated);
    }
}
