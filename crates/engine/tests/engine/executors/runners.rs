//! Runners that cannot reach their agents: the next one, a timed hold, a person.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::json;
use windlass_engine::executors::{
    Agent, AgentJob, BUDGET_EXHAUSTED, JobBudget, Runner, RunnerChoice, SpendCap, ToolCaller,
    Transcripts,
};
use windlass_engine::{EngineError, WorkResult};
use windlass_journal::Runs;
use windlass_kernel::Timestamp;
use windlass_kernel::run::plan::{BudgetedResource, Trigger};
use windlass_kernel::run::{Run, Usage};

use windlass_redact::Redactor;

use super::engine_with;
use crate::crash::Life;
use crate::holds::approve;
use crate::plans::{agent, phase, plan};
use crate::world::{World, new_run};

/// A runner that fails with these classes, one after the other, and then answers.
struct Failing {
    name: &'static str,
    classes: Mutex<Vec<(&'static str, Option<Timestamp>)>>,
    started: Mutex<Vec<u32>>,
}

impl Failing {
    fn new(name: &'static str, classes: &[(&'static str, Option<Timestamp>)]) -> Arc<Self> {
        let classes = Mutex::new(classes.iter().rev().copied().collect());
        Arc::new(Self { name, classes, started: Mutex::default() })
    }

    fn starts(&self) -> Vec<u32> {
        self.started.lock().unwrap().clone()
    }
}

impl Runner for Failing {
    fn name(&self) -> &str {
        self.name
    }

    fn model(&self, _: &Agent) -> Option<String> {
        None
    }

    fn run(&self, job: &AgentJob<'_>, _: &ToolCaller<'_>) -> Result<WorkResult, EngineError> {
        self.started.lock().unwrap().push(job.attempt);
        let usage = Usage { input_tokens: 10, ..Usage::default() };
        Ok(match self.classes.lock().unwrap().pop() {
            Some((class, until)) => WorkResult::failed(class, "no").with_until(until),
            None => WorkResult::answer(json!({ "summary": "done" })),
        }
        .with_usage(usage))
    }
}

fn start(runners: &[&Arc<Failing>]) -> (World, windlass_engine::Engine, Run) {
    let world = World::new();
    let names = runners.iter().map(|one| one.name.to_owned()).collect();
    let by_name = |one: &&Arc<Failing>| (one.name.to_owned(), Arc::clone(one) as Arc<dyn Runner>);
    let choice = RunnerChoice {
        runners: runners.iter().map(by_name).collect(),
        by_agent: BTreeMap::from([("default".to_owned(), names)]),
    };
    let life = Life::until(None);
    let engine =
        engine_with(&world, &life, Arc::clone(&world.repository) as Arc<_>, choice, |all, _| all);
    let run = engine.start(new_run(plan(vec![phase("work", &[], agent())]))).unwrap();
    (world, engine, run)
}

fn passed(run: &Run) -> bool {
    run.ended.as_ref().is_some_and(|ended| ended.outcome.as_str() == "PASS")
}

#[test]
fn the_next_runner_does_what_one_cannot() {
    for class in windlass_engine::executors::TROUBLE {
        let (first, second) =
            (Failing::new("first", &[(class, None)]), Failing::new("second", &[]));
        let (_world, _engine, run) = start(&[&first, &second]);
        assert!(passed(&run), "{class}");
        assert_eq!((first.starts(), second.starts()), (vec![1], vec![1]));
        assert_eq!(run.spent.tokens, 20, "the usage of both counts");
    }
}

#[test]
fn a_failure_of_the_work_is_not_given_to_the_next_runner() {
    for class in ["refusal", "no_answer", "validation_error", "unguarded", "timeout"] {
        let (first, second) =
            (Failing::new("first", &[(class, None)]), Failing::new("second", &[]));
        let (_world, _engine, run) = start(&[&first, &second]);
        assert_eq!(run.ended.as_ref().unwrap().outcome.as_str(), "BLOCKED", "{class}");
        assert_eq!(second.starts(), Vec::<u32>::new());
    }
}

#[test]
fn when_no_runner_can_the_same_attempt_goes_on_later() {
    let until = Timestamp::from_unix_ms(1_900_000_000_000).unwrap();
    let later = Timestamp::from_unix_ms(1_900_000_500_000).unwrap();
    let first =
        Failing::new("first", &[("rate_limited", Some(later)), ("rate_limited", Some(later))]);
    let second = Failing::new("second", &[("rate_limited", Some(until)), ("no_credit", None)]);
    let (_world, engine, run) = start(&[&first, &second]);
    let hold = run.hold.clone().expect("a hold");
    assert_eq!(hold.held.trigger, Trigger::AgentUnavailable);
    assert_eq!(run.due(), Some(until), "the first that can be tried again");
    assert_eq!(hold.held.evidence["tried"][0]["runner"], "first");
    assert_eq!(hold.held.evidence["tried"][1]["class"], "rate_limited");
    assert!(hold.held.question.contains("rate_limited: no"), "{}", hold.held.question);
    let run = engine.resume(run.head.trace_id).unwrap();
    assert_eq!(run.due(), Some(later));
    let run = engine.resume(run.head.trace_id).unwrap();
    assert!(passed(&run));
    assert_eq!((first.starts(), second.starts()), (vec![1, 1, 1], vec![1, 1]));
}

#[test]
fn trouble_that_somebody_must_mend_has_no_time() {
    for class in ["authentication", "no_credit", "model_unavailable", "crash", "context_full"] {
        let only = Failing::new("only", &[(class, None)]);
        let (_world, _engine, run) = start(&[&only]);
        assert!(run.hold.is_some(), "{class}");
        assert_eq!(run.due(), None, "{class}");
    }
    for class in ["overloaded", "silence", "unreachable", "rate_limited"] {
        let only = Failing::new("only", &[(class, None)]);
        let (_world, _engine, run) = start(&[&only]);
        assert!(run.due().is_some(), "{class}");
    }
}

#[test]
fn names_that_nobody_has_are_left_out_of_a_list() {
    let known = Failing::new("known", &[]);
    let choice = RunnerChoice {
        runners: BTreeMap::from([("known".to_owned(), Arc::clone(&known) as Arc<dyn Runner>)]),
        by_agent: BTreeMap::from([(
            "default".to_owned(),
            vec!["missing".to_owned(), "known".to_owned()],
        )]),
    };
    let world = World::new();
    let life = Life::until(None);
    let engine =
        engine_with(&world, &life, Arc::clone(&world.repository) as Arc<_>, choice, |all, _| all);
    let run = engine.start(new_run(plan(vec![phase("work", &[], agent())]))).unwrap();
    assert!(passed(&run));
}

/// A runner of one name, as the only one.
fn only(runner: &Arc<Failing>) -> RunnerChoice {
    RunnerChoice {
        runners: BTreeMap::from([(runner.name.to_owned(), Arc::clone(runner) as Arc<dyn Runner>)]),
        by_agent: BTreeMap::from([("default".to_owned(), vec![runner.name.to_owned()])]),
    }
}

#[test]
fn a_budget_that_is_used_up_in_flight_waits_for_a_person_and_the_attempt_goes_on() {
    let world = World::new();
    let runner = Failing::new("only", &[(BUDGET_EXHAUSTED, None)]);
    let repository = Arc::clone(&world.repository) as Arc<_>;
    let engine = engine_with(&world, &Life::until(None), repository, only(&runner), |all, _| all);
    let mut plan = plan(vec![phase("work", &[], agent())]);
    // Each invocation uses 10.
    plan.budget.tokens = Some(8);
    let run = engine.start(new_run(plan)).unwrap();
    let hold = run.hold.clone().expect("a hold");
    assert_eq!(hold.held.trigger, Trigger::BudgetExhausted);
    assert_eq!(hold.held.resource, Some(BudgetedResource::Tokens));
    assert_eq!((run.spent.tokens, run.due()), (10, None));
    approve(&engine, &run, "ann");
    let run = engine.resume(run.head.trace_id).unwrap();
    assert_eq!(runner.starts(), [1, 1], "the same attempt");
    assert_eq!(run.spent.tokens, 20);
}

#[test]
fn the_cap_of_a_day_holds_all_runs_until_the_next() {
    let world = World::new();
    let runner = Failing::new("only", &[]);
    let per_day = JobBudget { tokens: Some(15), cost_micros: None };
    let repository = Arc::clone(&world.repository) as Arc<_>;
    let engine =
        engine_with(&world, &Life::until(None), repository, only(&runner), |all, store| {
            all.with_spend_cap(Some(SpendCap { runs: Runs::new(Arc::clone(store)), per_day }))
        });
    let start = || engine.start(new_run(plan(vec![phase("work", &[], agent())]))).unwrap();
    // Each uses 10: the second begins with 5 left.
    assert!(passed(&start()));
    assert!(passed(&start()));
    let run = start();
    let hold = run.hold.clone().expect("a hold");
    assert_eq!(hold.held.trigger, Trigger::AgentUnavailable);
    assert!(hold.held.question.contains("[spend]"), "{}", hold.held.question);
    assert_eq!(runner.starts().len(), 2);
    let due = run.due().expect("a time");
    assert_eq!(due.unix_ms() % 86_400_000, 0, "midnight");
    // On the next day the run goes on.
    let now = run.last_at.unwrap();
    world.pass_ms(u64::try_from(due.unix_ms() - now.unix_ms()).unwrap() + 1000);
    assert!(passed(&engine.resume(run.head.trace_id).unwrap()));
}

#[test]
fn a_transcript_is_kept_without_secrets_and_recorded_by_its_digest() {
    let world = World::new();
    let folder = tempfile::tempdir().unwrap();
    let transcripts = Transcripts::new(folder.path().to_owned());
    let talking = Arc::new(Talking);
    let choice = RunnerChoice {
        runners: BTreeMap::from([("talking".to_owned(), talking as Arc<dyn Runner>)]),
        by_agent: BTreeMap::from([("default".to_owned(), vec!["talking".to_owned()])]),
    };
    let repository = Arc::clone(&world.repository) as Arc<_>;
    let redactor = Redactor::new([("TOKEN".to_owned(), SECRET.to_owned())]);
    let engine = engine_with(&world, &Life::until(None), repository, choice, |all, _| {
        all.with_transcripts(transcripts.clone()).with_redactor(Arc::new(redactor))
    });
    let run = engine.start(new_run(plan(vec![phase("work", &[], agent())]))).unwrap();
    assert!(passed(&run));
    let note = run.notes.iter().find(|note| note.body.get("transcript").is_some()).unwrap();
    assert_eq!((&note.body["phase"], &note.body["attempt"]), (&json!("work"), &json!(1)));
    let digest = note.body["transcript"].as_str().unwrap().parse().unwrap();
    let mut text = Vec::new();
    transcripts.stored().unwrap().copy_to(&digest, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("I know") && !text.contains(SECRET), "{text}");
    let kinds: Vec<_> = windlass_engine::executors::read_lines(&text)
        .iter()
        .map(|line| line["kind"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["started", "text", "ended"]);
    // The file of the attempt is gone with it.
    let run_id = &run.started.as_ref().unwrap().run_id;
    let live = windlass_engine::executors::live_files(&transcripts.live(run_id)).unwrap();
    assert_eq!(live, Vec::<std::path::PathBuf>::new());
}

const SECRET: &str = "k3y-0f-th3-v4ult-991";

/// A runner that says a secret.
struct Talking;

impl Runner for Talking {
    fn name(&self) -> &str {
        "talking"
    }

    fn model(&self, _: &Agent) -> Option<String> {
        None
    }

    fn run(&self, job: &AgentJob<'_>, _: &ToolCaller<'_>) -> Result<WorkResult, EngineError> {
        job.transcript.add("text", json!({ "text": format!("I know {SECRET}") }));
        Ok(WorkResult::answer(json!({ "summary": "done" })))
    }
}
