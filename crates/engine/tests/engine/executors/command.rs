//! Programs as executors and as checks.

use serde_json::json;
use windlass_kernel::run::plan::{Budget, CheckTiming, Effect};

use super::{calm, detail, sh};
use crate::plans::{check, phase, plan};
use crate::world::{World, end, new_run};

fn run_of(script: &str) -> windlass_kernel::run::Run {
    let world = World::new();
    let run = calm(&world).start(new_run(plan(vec![phase("p", &[], sh(script))]))).unwrap();
    world.verify();
    run
}

#[test]
fn a_program_reads_json_and_prints_one_object() {
    let run = run_of("cat");
    assert_eq!(end(&run), ("PASS", "pass"));
    let answer = &run.phases[0].done.as_ref().unwrap().answer;
    // It was told what is to be done, and that is what it printed.
    assert_eq!(answer["task"], json!({"task": "change something"}));
    assert_eq!((&answer["phase"], &answer["attempt"]), (&json!("p"), &json!(1)));

    let run = run_of(r#"echo '{"summary":"s","usage":{"input_tokens":4,"output_tokens":5}}'"#);
    assert_eq!(end(&run), ("PASS", "pass"));
    assert_eq!(run.spent.tokens, 9);
    assert_eq!(run.phases[0].done.as_ref().unwrap().summary, "s");
}

#[test]
fn whatever_else_a_program_does_fails_the_phase() {
    for (script, why) in [
        ("echo hello", "printed no JSON object"),
        ("true", "printed no JSON object"),
        ("echo '[1]'", "printed no JSON object"),
        ("echo '{} {}'", "printed no JSON object"),
        (r#"echo '{"a":1,"a":2}'"#, "printed no JSON object"),
        (r#"echo '{"a":12345678901234567890}'"#, "printed no JSON object"),
        ("echo '{}'; echo broken >&2; exit 3", "broken"),
        (r#"echo '{"usage":{"input_tokens":-1}}'"#, "is not a whole number"),
        (r#"echo '{"usage":{"input_tokens":"many"}}'"#, "is not a whole number"),
        ("kill -9 $$", "command"),
        ("head -c 3000000 /dev/zero", "printed 3000000 bytes, which are too many"),
        // A valid beginning and a valid end make no answer.
        (r#"echo "{\"a\":[0"; yes ,0 | head -c 3000000; echo "]}""#, "bytes, which are too many"),
    ] {
        let run = run_of(script);
        assert!(detail(&run).contains(why), "{script}: {}", detail(&run));
    }
    let world = World::new();
    let mut missing = phase("p", &[], sh(""));
    missing.doer = windlass_kernel::run::plan::Doer::Command {
        argv: vec!["/no/such/program".to_owned()],
        repeatable: true,
        timeout_ms: 1000,
    };
    let run = calm(&world).start(new_run(plan(vec![missing]))).unwrap();
    assert!(!detail(&run).is_empty());
}

#[test]
fn a_program_that_takes_too_long_is_ended() {
    let world = World::new();
    let mut slow = phase("p", &[], sh("sleep 86400; echo '{}'"));
    if let windlass_kernel::run::plan::Doer::Command { timeout_ms, .. } = &mut slow.doer {
        *timeout_ms = 100;
    }
    let run = calm(&world).start(new_run(plan(vec![slow.clone()]))).unwrap();
    let failure = run.phases[0].done.as_ref().unwrap().failure.clone().unwrap();
    assert_eq!(failure.class, "timeout");
    // The run's own time limits it too, and a person can grant more of it.
    if let windlass_kernel::run::plan::Doer::Command { timeout_ms, .. } = &mut slow.doer {
        *timeout_ms = 60_000;
    }
    let mut plan = plan(vec![slow]);
    plan.budget = Budget { wall_ms: Some(300), ..Budget::default() };
    let run = calm(&World::new()).start(new_run(plan)).unwrap();
    let held = &run.hold.as_ref().unwrap().held;
    assert_eq!(held.trigger, windlass_kernel::run::plan::Trigger::BudgetExhausted);
    assert!(held.question.contains("`sh` was interrupted"), "{}", held.question);
}

/// The verdict of a program that checks, and how the run ended.
fn checked(script: &str) -> (String, &'static str) {
    let world = World::new();
    let mut work = phase("p", &[], sh("echo '{}'"));
    work.checks = vec![check(
        "c",
        CheckTiming::After,
        sh(script),
        &[
            ("pass", Effect::Continue),
            ("fine", Effect::Continue),
            ("fail", Effect::Block),
            ("odd", Effect::Block),
        ],
    )];
    let run = calm(&world).start(new_run(plan(vec![work]))).unwrap();
    let verdict = world.only_events().into_iter().find_map(|event| match event {
        windlass_kernel::run::Event::Checked { verdict, .. } => Some(verdict),
        _ => None,
    });
    (verdict.unwrap(), run.ended.unwrap().outcome.as_str())
}

#[test]
fn a_check_says_what_it_prints_or_what_its_exit_says() {
    for (script, verdict, outcome) in [
        ("true", "pass", "PASS"),
        ("echo all is well", "pass", "PASS"),
        (r#"echo '{"errors":0}'"#, "pass", "PASS"),
        ("echo broken; exit 1", "fail", "BLOCKED"),
        (r#"echo '{"verdict":"pass"}'"#, "pass", "PASS"),
        (r#"echo '{"verdict":"fine"}'"#, "fine", "PASS"),
        (r#"echo '{"verdict":"odd"}'"#, "odd", "BLOCKED"),
        (r#"echo '{"verdict":"odd"}'; exit 1"#, "odd", "BLOCKED"),
        // Nobody gave these a meaning.
        (r#"echo '{"verdict":"great"}'"#, "great", "BLOCKED"),
        (r#"echo '{"verdict":true}'"#, "", "BLOCKED"),
        // What failed cannot have passed, under whatever name.
        (r#"echo '{"verdict":"pass"}'; exit 1"#, "", "BLOCKED"),
        (r#"echo '{"verdict":"fine"}'; exit 1"#, "", "BLOCKED"),
        // What was meant as a verdict does not become a pass by being malformed.
        (r#"echo '{"verdict":"fail","verdict":"fail"}'"#, "", "BLOCKED"),
        (r#"echo log; echo '{"verdict":"fail"}'"#, "", "BLOCKED"),
        (r#"echo '{"verdict":"fail"'"#, "", "BLOCKED"),
        ("kill -9 $$", "fail", "BLOCKED"),
    ] {
        assert_eq!(checked(script), (verdict.to_owned(), outcome), "{script}");
    }
}

#[test]
fn a_check_that_prints_much_is_judged_by_all_of_it() {
    let noise = "seq 1000000";
    for (script, verdict, outcome) in [
        (format!("{noise}; {noise} >&2"), "pass", "PASS"),
        (format!("{noise}; exit 1"), "fail", "BLOCKED"),
        // What was meant as a verdict is found where it is left out of the record.
        (format!(r#"{noise}; echo '{{"verdict":"fail"}}'; {noise}"#), "", "BLOCKED"),
        // Nobody has all of it, so it has not passed.
        ("yes | head -c 80000000".to_owned(), "fail", "BLOCKED"),
    ] {
        assert_eq!(checked(&script), (verdict.to_owned(), outcome), "{script}");
    }
}
