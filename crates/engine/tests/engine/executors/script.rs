//! Files of answers, strictly read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use windlass_engine::executors::Script;

use super::{calm, detail, with_answers};
use crate::plans::{agent, phase, plan};
use crate::world::{World, end};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/answers")
}

fn files(folder: &str) -> BTreeMap<String, Vec<u8>> {
    let folder = corpus().join(folder);
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

#[test]
fn the_corpus_is_read_or_refused_for_its_reason() {
    let expected = std::fs::read(corpus().join("expected.json")).unwrap();
    let expected: BTreeMap<String, BTreeMap<String, Value>> =
        serde_json::from_slice(&expected).unwrap();
    for (name, bytes) in files("good") {
        Script::parse(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(json!(windlass_kernel::Digest::of(&bytes)), expected["good"][&name], "{name}");
    }
    for (name, bytes) in files("bad") {
        let error = Script::parse(&bytes).map(|_| panic!("{name} was taken")).unwrap_err();
        let reason = expected["bad"][&name].as_str().unwrap();
        assert!(error.to_string().contains(reason), "{name}: {error}");
    }
    assert_eq!(files("good").len(), expected["good"].len());
    assert_eq!(files("bad").len(), expected["bad"].len());
}

#[test]
fn what_the_answers_do_not_have_fails_the_phase() {
    let world = World::new();
    let answers = json!({"phases": {"other": [{"answer": {}}], "work": []}});
    let run = calm(&world).start(with_answers(plan(vec![phase("work", &[], agent())]), answers));
    assert!(detail(&run.unwrap()).contains("no entry for attempt 1 of phase `work`"));
}

#[test]
fn answers_of_the_wrong_kind_fail_the_phase_and_are_not_recorded_as_done() {
    let big = "x".repeat((1 << 20) + 1);
    for (answer, why) in [
        (json!({"summary": 7}), "`summary` is not a string"),
        (json!({"verdict": true}), "`verdict` is not a string"),
        (json!({"facts": []}), "`facts` is not an object"),
        (json!({"facts": {"a": 1}}), "`a` is not a string"),
        (json!({"facts": {"a": "x".repeat(300)}}), "`a` is not a string"),
        (json!({"text": big}), "larger than"),
    ] {
        let world = World::new();
        let answers = json!({"phases": {"work": [{ "answer": answer }]}});
        let run = calm(&world)
            .start(with_answers(plan(vec![phase("work", &[], agent())]), answers))
            .unwrap();
        assert!(detail(&run).contains(why), "{}", detail(&run));
    }
}

#[test]
fn a_scripted_failure_fails_and_its_usage_counts() {
    let world = World::new();
    let answers = json!({"phases": {"work": [{
        "fail": {"class": "test_failure", "reason": "two tests are red"},
        "usage": {"input_tokens": 100, "output_tokens": 20},
    }]}});
    let run =
        calm(&world).start(with_answers(plan(vec![phase("work", &[], agent())]), answers)).unwrap();
    assert!(detail(&run).contains("two tests are red"));
    assert_eq!(run.spent.tokens, 120);

    let world = World::new();
    let answers = json!({"phases": {"work": [{"answer": {"facts": {"kind": "web"}},
        "usage": {"output_tokens": 5, "cost_micros": 3}}]}});
    let run =
        calm(&world).start(with_answers(plan(vec![phase("work", &[], agent())]), answers)).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"));
    assert_eq!((run.spent.tokens, run.spent.cost_micros), (5, 3));
    assert_eq!(run.facts.get("kind").map(String::as_str), Some("web"));
}

#[test]
fn an_agent_that_nobody_knows_or_performs_fails_the_phase() {
    let world = World::new();
    let run = calm(&world).start(crate::world::new_run(plan(vec![phase("work", &[], agent())])));
    assert!(detail(&run.unwrap()).contains("nobody is set to run the agent `someone`"));
    let world = World::new();
    let mut plan = plan(vec![phase("work", &[], agent())]);
    plan.phases[0].doer =
        windlass_kernel::run::plan::Doer::Agent { agent: "nobody".to_owned(), prompt: None };
    let run = calm(&world).start(with_answers(plan, json!({"phases": {}}))).unwrap();
    assert!(detail(&run).contains("no agent `nobody`"));
}
