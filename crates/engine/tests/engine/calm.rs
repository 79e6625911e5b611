//! Runs in which nothing dies.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use serde_json::json;
use windlass_engine::{
    Assignment, Completion, EngineError, PhaseExecutor, PhaseRecorder, WorkResult,
};
use windlass_kernel::State;
use windlass_kernel::run::plan::{Budget, CheckTiming, Effect, PhaseCondition, Trigger};
use windlass_kernel::run::{Event, PhaseStatus, Resolution};
use windlass_testkit::eventually;

use crate::crash::Life;
use crate::phase_executor::{Act, FakeExecutor, Piece, except};
use crate::plans::{
    agent, builtin, check, command, diamond, driver, gate, hold, phase, plan, redo, spine,
};
use crate::world::{World, end, new_run};

#[test]
fn a_spine_goes_through() {
    let world = World::new();
    let run = world.engine(&[]).start(new_run(spine())).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"));
    let deeds =
        ["hydrate 1", "policy 1", "design 1", "build 1", "build/scope 1", "review 1", "steward 1"];
    assert_eq!(world.deeds(), deeds);
    let kinds = world.kinds();
    assert_eq!(kinds.first(), Some(&"started"));
    assert_eq!(kinds.last(), Some(&"ended"));
    // Files are shown every event, in order, once each.
    assert_eq!(*world.shown.kinds.lock().unwrap(), kinds);
    world.verify();
}

#[test]
fn a_review_sends_the_run_back_and_its_work_is_done_again() {
    let world = World::new();
    let revise = |n: u32| Act::Answer(json!({"verdict": "needs_revision", "reason": "no", "n": n}));
    let design = |n: u32| Act::Answer(json!({"plan": n}));
    let engine = world.engine(&[
        ("design", 1, design(1)),
        ("design", 2, design(2)),
        ("review", 1, revise(1)),
    ]);
    let run = engine.start(new_run(spine())).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"));
    let again: Vec<String> =
        world.deeds().into_iter().filter(|deed| deed.ends_with(" 2")).collect();
    assert_eq!(again, ["design 2", "build 2", "build/scope 2", "review 2", "steward 1"][..4]);
    world.verify();
}

#[test]
fn a_review_that_is_never_content_comes_before_a_person() {
    let world = World::new();
    let mut list = Vec::new();
    for n in 1..=3 {
        list.push(("design", n, Act::Answer(json!({"plan": n}))));
        list.push(("review", n, Act::Answer(json!({"verdict": "needs_revision"}))));
    }
    let run = world.engine(&list).start(new_run(spine())).unwrap();
    assert_eq!(run.head.state, Some(State::Checkpoint));
    let held = &run.hold.as_ref().unwrap().held;
    assert_eq!((held.trigger, held.phase.as_str()), (Trigger::EscalationRequested, "review"));
    assert_eq!(run.hold.as_ref().unwrap().resolution(), Resolution::Open);
}

#[test]
fn work_that_stays_the_same_ends_the_run_early() {
    let world = World::new();
    let mut list = Vec::new();
    for n in 1..=3 {
        list.push(("design", n, Act::Answer(json!({"plan": "the same"}))));
        list.push(("review", n, Act::Answer(json!({"verdict": "needs_revision"}))));
    }
    let run = world.engine(&list).start(new_run(spine())).unwrap();
    assert_eq!(end(&run), ("BLOCKED", "no_progress"));
}

#[test]
fn a_driver_goes_through_and_intervenes_once() {
    let world = World::new();
    let broken = || Act::Answer(json!({"verdict": "broken"}));
    let engine = world.engine(&[("work", 1, broken())]);
    let run = engine.start(new_run(driver())).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"));
    let deeds = [
        "prepare 1",
        "work/ready 1",
        "work 1",
        "work/sound 1",
        "mend 1",
        "work/ready 2",
        "work 2",
        "work/sound 2",
        "close 1",
    ];
    assert_eq!(world.deeds(), deeds);

    let world = World::new();
    let engine = world.engine(&[("work", 1, broken()), ("work", 2, broken())]);
    let run = engine.start(new_run(driver())).unwrap();
    assert_eq!(end(&run), ("BLOCKED", "work_broken"));

    let world = World::new();
    let run = world.engine(&[]).start(new_run(driver())).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"));
    assert_eq!(run.phases[1].status, PhaseStatus::Skipped);
    world.verify();
}

#[test]
fn what_is_no_verdict_never_passes() {
    for verdict in ["", "APPROVED", "approved ", "ok", "failed"] {
        let world = World::new();
        let act = Act::Answer(json!({ "verdict": verdict }));
        let run = world.engine(&[("review", 1, act)]).start(new_run(spine())).unwrap();
        assert_eq!(end(&run), ("BLOCKED", "unsupported_verdict"), "{verdict}");
    }
    let world = World::new();
    let run = world.engine(&[("build/scope", 1, Act::Say("passed"))]).start(new_run(spine()));
    assert_eq!(end(&run.unwrap()), ("BLOCKED", "unsupported_verdict"));
}

#[test]
fn a_failure_blocks_unless_the_gate_knows_better() {
    let world = World::new();
    let run = world.engine(&[("design", 1, Act::Fail("timeout"))]).start(new_run(spine())).unwrap();
    assert_eq!(end(&run), ("BLOCKED", "mission_failed"));
    assert!(run.ended.unwrap().detail.contains("it went wrong"));

    let world = World::new();
    let mut only = phase("only", &[], agent());
    only.gate =
        gate("only", &[("approved", Effect::Continue), ("failed", redo("only", 1, Effect::Block))]);
    let run = world
        .engine(&[("only", 1, Act::Fail("timeout"))])
        .start(new_run(plan(vec![only])))
        .unwrap();
    assert_eq!(end(&run), ("PASS", "pass"));
    assert_eq!(world.deeds(), ["only 1", "only 2"]);
}

#[test]
fn work_that_panics_has_failed_and_the_run_ends() {
    for name in ["design", "build/scope"] {
        let world = World::new();
        let run = world.engine(&[(name, 1, Act::Panic)]).start(new_run(spine())).unwrap();
        assert_eq!(end(&run).0, "BLOCKED", "{name}");
        world.verify();
    }
}

#[test]
fn a_fact_decides_which_phases_are_done() {
    let world = World::new();
    let mut only_web = phase("web", &["ask"], builtin());
    only_web.when =
        PhaseCondition::Fact { fact: "kind".to_owned(), one_of: vec!["web".to_owned()] };
    let run = world
        .engine(&[])
        .start(new_run(plan(vec![phase("ask", &[], builtin()), only_web])))
        .unwrap();
    assert_eq!(end(&run), ("PASS", "pass"));
    assert_eq!(world.deeds(), ["ask 1"]);
}

#[test]
fn both_branches_of_a_diamond_are_under_way_at_once() {
    let world = World::new();
    // Neither goes on before the other has come as far.
    let meet = Arc::new(Barrier::new(2));
    let order = Arc::new(Mutex::new(Vec::new()));
    let during = {
        let (meet, order) = (Arc::clone(&meet), Arc::clone(&order));
        Arc::new(move |piece: &Piece| {
            order.lock().unwrap().push(piece.0.clone());
            if piece.0 == "left" || piece.0 == "right" {
                meet.wait();
            }
        })
    };
    let engine = world.fake_with(&Life::until(None), except(&[]), during);
    let run = engine.start(new_run(diamond())).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"));
    let order = order.lock().unwrap();
    assert_eq!(order.first().unwrap(), "first");
    assert_eq!(order.last().unwrap(), "last");
    world.verify();
}

#[test]
fn what_one_branch_has_done_is_on_record_though_the_other_could_not_go_on() {
    let world = World::new();
    let (meet, gave_up) = (Barrier::new(2), Arc::new(AtomicBool::new(false)));
    let oracle = {
        let (gave_up, acts) = (Arc::clone(&gave_up), except(&[("left", 1, Act::Halt)]));
        Arc::new(move |piece: &Piece| {
            gave_up.fetch_or(piece.0 == "left", Ordering::SeqCst);
            acts(piece)
        })
    };
    let during = Arc::new(move |piece: &Piece| {
        if piece.0 == "left" || piece.0 == "right" {
            meet.wait();
        }
        if piece.0 == "right" {
            eventually("the left branch gives up", || gave_up.load(Ordering::SeqCst));
        }
    });
    let engine = world.fake_with(&Life::until(None), oracle, during);
    engine.start(new_run(diamond())).unwrap_err();
    let right_is_done =
        |event: &Event| matches!(event, Event::PhaseDone { phase, .. } if phase == "right");
    assert!(world.only_events().iter().any(right_is_done));
    drop(engine);
    let recovered = world.engine(&[]).recover().unwrap();
    assert_eq!(end(recovered[0].result.as_ref().unwrap()), ("PASS", "pass"));
    assert_eq!(world.deeds().iter().filter(|deed| *deed == "right 1").count(), 1);
}

#[test]
fn a_failing_branch_waits_for_the_other_one() {
    let world = World::new();
    let run = world.engine(&[("left", 1, Act::Fail("timeout"))]).start(new_run(diamond())).unwrap();
    assert_eq!(end(&run), ("BLOCKED", "mission_failed"));
    assert_eq!(run.phases[2].status, PhaseStatus::Complete);
    assert!(!world.deeds().contains(&"last 1".to_owned()));
}

#[test]
fn budgets_hold_the_run_and_a_grant_lets_it_go_on() {
    let world = World::new();
    let mut plan = spine();
    plan.budget = Budget { attempts: Some(1), ..Budget::default() };
    let revise = Act::Answer(json!({"verdict": "needs_revision"}));
    let engine = world.engine(&[("review", 1, revise)]);
    let run = engine.start(new_run(plan)).unwrap();
    let held = &run.hold.as_ref().unwrap().held;
    assert_eq!((held.trigger, held.phase.as_str()), (Trigger::BudgetExhausted, "design"));
    crate::holds::approve(&engine, &run, "ann");
    let run = engine.resume(run.head.trace_id).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"));
}

#[test]
fn time_on_hold_is_not_billed() {
    let world = World::new();
    let mut plan = spine();
    plan.budget = Budget { wall_ms: Some(1000), ..Budget::default() };
    let escalate = Act::Answer(json!({"verdict": "escalate"}));
    let engine = world.engine(&[("review", 1, escalate)]);
    let run = engine.start(new_run(plan)).unwrap();
    let before = run.spent.wall_ms;
    world.pass_ms(5000);
    crate::holds::approve(&engine, &run, "ann");
    let run = engine.resume(run.head.trace_id).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"));
    assert!(run.spent.wall_ms < before + 100, "{} after {before}", run.spent.wall_ms);
}

/// The time that each phase was given.
type Given = Arc<Mutex<Vec<(String, Option<Duration>)>>>;

/// An executor that notes how much time each phase is given.
struct Timed {
    inner: FakeExecutor,
    given: Given,
}

impl PhaseExecutor for Timed {
    fn perform(
        &self,
        assignment: &Assignment,
        recorder: &PhaseRecorder<'_>,
    ) -> Result<WorkResult<Completion>, EngineError> {
        self.given.lock().unwrap().push((assignment.phase.id.clone(), assignment.time_left));
        self.inner.perform(assignment, recorder)
    }
}

#[test]
fn a_second_phase_has_the_time_that_the_first_left() {
    let world = World::new();
    let mut plan =
        plan(vec![phase("one", &[], command(false)), phase("two", &["one"], command(false))]);
    plan.budget = Budget { wall_ms: Some(10_000), ..Budget::default() };
    let life = Life::until(None);
    let clock = world.clone();
    let during = Arc::new(move |piece: &Piece| {
        if piece.0 == "one" {
            clock.pass_ms(4000);
        }
    });
    let oracle = except(&[]);
    let inner = FakeExecutor { world: world.clone(), life: Arc::clone(&life), oracle, during };
    let given = Arc::new(Mutex::new(Vec::new()));
    let executor = Arc::new(Timed { inner, given: Arc::clone(&given) });
    let repository = Arc::clone(&world.repository) as Arc<_>;
    let engine = world.engine_of(&world.process(&life), executor, repository);
    assert_eq!(end(&engine.start(new_run(plan)).unwrap()), ("PASS", "pass"));
    let given = given.lock().unwrap();
    let ms = |at: usize| given[at].1.unwrap().as_millis();
    assert_eq!((given[0].0.as_str(), given[1].0.as_str()), ("one", "two"));
    assert!((9000..=10_000).contains(&ms(0)), "{given:?}");
    assert!((5000..=6000).contains(&ms(1)), "{given:?}");
}

#[test]
fn a_check_before_the_work_keeps_it_from_being_done() {
    let world = World::new();
    let mut only = phase("only", &[], command(false));
    only.checks = vec![check(
        "ready",
        CheckTiming::Before,
        builtin(),
        &[
            ("pass", Effect::Continue),
            ("no", Effect::Block),
            ("ask", hold(Trigger::WaiverRequested)),
        ],
    )];
    let run = world
        .engine(&[("only/ready", 1, Act::Say("no"))])
        .start(new_run(plan(vec![only.clone()])))
        .unwrap();
    assert_eq!(end(&run), ("BLOCKED", "ready_no"));
    assert_eq!(world.deeds(), ["only/ready 1"]);

    let world = World::new();
    let engine = world.engine(&[("only/ready", 1, Act::Say("ask"))]);
    let run = engine.start(new_run(plan(vec![only]))).unwrap();
    crate::holds::approve(&engine, &run, "ann");
    let run = engine.resume(run.head.trace_id).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"));
    assert_eq!(world.deeds(), ["only/ready 1", "only 1"]);
}

#[test]
fn a_plan_that_cannot_be_followed_records_nothing() {
    let world = World::new();
    let twice = plan(vec![phase("a", &[], builtin()), phase("a", &[], builtin())]);
    world.engine(&[]).start(new_run(twice)).unwrap_err();
    assert_eq!(world.runs(), Vec::new());
}

#[test]
fn a_file_that_cannot_be_written_halts_the_run_where_it_is() {
    let world = World::new();
    let engine = world.engine(&[]);
    world.shown.unwritable.store(true, std::sync::atomic::Ordering::SeqCst);
    let error = engine.start(new_run(spine())).unwrap_err();
    assert_eq!(error.code().as_str(), "FILE_UNWRITABLE");
    assert_eq!(world.kinds(), ["started"]);
    assert_eq!(world.deeds(), Vec::<String>::new());
}
