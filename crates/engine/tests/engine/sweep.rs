//! Crashes a process at every point, and the process that takes over as well, and holds what is left
//! against the calm run.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_engine::{Engine, NewRun};
use windlass_kernel::State;
use windlass_kernel::run::plan::{
    CheckTiming, Concurrency, Effect, HoldRule, OnRestart, Plan, RunOutcome, Trigger,
};
use windlass_kernel::run::{Event, HoldRequest, Resolution, VoteDecision};
use windlass_testkit::engine::Votes as _;

use crate::crash::Life;
use crate::journal::without_restarts;
use crate::phase_executor::{Act, Oracle, Piece, except};
use crate::plans::{
    agent, builtin, check, command, diamond, driver, gate, hold, person, phase, plan, redo, spine,
};
use crate::world::{World, new_run};

/// What is done, over and over, until the run has ended.
pub struct Scenario {
    pub name: &'static str,
    pub plan: Plan,
    pub oracle: Arc<Oracle>,
    pub decide: Arc<dyn Fn(&HoldRequest) -> VoteDecision + Send + Sync>,
    /// How many crashes in a row are tried.
    pub crashes: u32,
    /// What the run is started with.
    pub options: Value,
    /// Whether a crash leaves no trace but restarts.
    pub same: bool,
    /// Makes an engine with hands other than the fake ones.
    pub engine: fn(&Scenario, &World, &Arc<Life>) -> Engine,
}

pub fn fake_engine(scenario: &Scenario, world: &World, life: &Arc<Life>) -> Engine {
    world.fake(life, Arc::clone(&scenario.oracle))
}

fn yes(_: &HoldRequest) -> VoteDecision {
    VoteDecision::Approved
}

/// Lets one process live; tells whether the run has ended.
pub fn live(scenario: &Scenario, world: &World, life: &Arc<Life>) -> bool {
    let engine = (scenario.engine)(scenario, world, life);
    for _ in 0..300 {
        if life.is_over() {
            return false;
        }
        match world.runs().first().copied() {
            // Whatever these say, the journal is what counts.
            None => drop(engine.start(NewRun {
                options: scenario.options.clone(),
                ..new_run(scenario.plan.clone())
            })),
            Some((_, State::Terminal)) => return true,
            Some((trace_id, State::Checkpoint)) => {
                let Ok(run) = engine.read(trace_id) else { continue };
                let Some(hold) = run.hold else { continue };
                for person in ["ann", "bob", "cat"] {
                    let decision = (scenario.decide)(&hold.held);
                    let shown = Some(hold.shown);
                    let answer = engine.vote(trace_id, decision, person, "as I see it", shown, &[]);
                    if answer.is_ok_and(|answered| answered.resolution != Resolution::Open) {
                        break;
                    }
                }
                drop(engine.resume(trace_id));
            }
            Some(_) => drop(engine.recover()),
        }
    }
    panic!("`{}` does not end: {:?}", scenario.name, world.kinds());
}

/// What a run leaves behind, but for its restarts.
pub fn remains(scenario: &Scenario, world: &World) -> Vec<Value> {
    let mut events = without_restarts(world.only_events());
    if scenario.plan.concurrency == Concurrency::Parallel {
        // Which of two branches is reported first is nobody's business.
        events.sort_by_key(Value::to_string);
    }
    events
}

/// Holds what is left after crashes against the calm run.
pub fn check_invariants(scenario: &Scenario, world: &World, calm: &[Value], points: &[u32]) {
    let way = format!("`{}`, crashes at {points:?}", scenario.name);
    let log = world.log.lock().unwrap();
    assert_eq!(log.faults, Vec::<String>::new(), "{way}");
    let mut done: BTreeMap<&Piece, usize> = BTreeMap::new();
    for deed in &log.deeds {
        if !deed.repeatable {
            *done.entry(&deed.piece).or_default() += 1;
        }
    }
    let events = world.only_events();
    let mut approvals: BTreeMap<&str, usize> = BTreeMap::new();
    let mut held = None;
    for event in &events {
        match event {
            Event::Held(one) if one.trigger == Trigger::UncertainEffect => held = Some(&one.phase),
            Event::Resumed { .. } => {
                if let Some(phase) = held.take() {
                    *approvals.entry(phase).or_default() += 1;
                }
            }
            _ => {}
        }
    }
    for (piece, times) in done {
        let approved = approvals.get(piece.0.as_str()).copied().unwrap_or_default();
        assert!(times <= 1 + approved, "{way}: {piece:?} {times} times, {approved} approvals");
    }
    drop(log);
    world.verify();
    let terminated =
        matches!(events.last(), Some(Event::Ended { reason, .. }) if reason == "TERMINATED");
    if scenario.plan.on_restart == OnRestart::Terminate && terminated {
        // It has ended where it was: what came before is as in the calm run.
        let mut left = remains(scenario, world);
        left.pop();
        if !scenario.same {
            return;
        }
        assert_eq!(left, calm[..left.len()], "{way}");
        return;
    }
    if scenario.same {
        pretty_eq(&remains(scenario, world), calm, &way);
    }
}

fn pretty_eq(left: &[Value], calm: &[Value], way: &str) {
    for (at, (one, other)) in left.iter().zip(calm).enumerate() {
        assert_eq!(one, other, "{way}: event {at}");
    }
    assert_eq!(left.len(), calm.len(), "{way}: {left:#?}");
}

/// Tries every sequence of crashes; returns how many there were.
pub fn explore(scenario: &Scenario, also: &dyn Fn(&World, &str)) -> u32 {
    let world = World::new();
    assert!(live(scenario, &world, &Life::until(None)), "{}", scenario.name);
    let calm = remains(scenario, &world);
    check_invariants(scenario, &world, &calm, &[]);
    also(&world, "calm");
    1 + descend(scenario, &World::new(), &calm, scenario.crashes, &mut Vec::new(), also)
}

fn descend(
    scenario: &Scenario,
    from: &World,
    calm: &[Value],
    crashes: u32,
    points: &mut Vec<u32>,
    also: &dyn Fn(&World, &str),
) -> u32 {
    let mut count = 0;
    for at in 1.. {
        let world = from.fork();
        if live(scenario, &world, &Life::until(Some(at))) {
            return count;
        }
        points.push(at);
        let last = world.fork();
        assert!(live(scenario, &last, &Life::until(None)));
        check_invariants(scenario, &last, calm, points);
        also(&last, &format!("{}, crashes at {points:?}", scenario.name));
        count += 1;
        if crashes > 1 {
            count += descend(scenario, &world, calm, crashes - 1, points, also);
        }
        points.pop();
    }
    count
}

pub fn scenario(
    name: &'static str,
    plan: Plan,
    crashes: u32,
    list: &[(&str, u32, Act)],
) -> Scenario {
    Scenario {
        name,
        plan,
        oracle: except(list),
        decide: Arc::new(yes),
        crashes,
        options: json!({}),
        same: true,
        engine: fake_engine,
    }
}

fn with(mut plan: Plan, on_restart: OnRestart) -> Plan {
    plan.on_restart = on_restart;
    plan
}

/// A person's no sends the run back, a failure is tried again, a check asks.
fn tangled() -> Plan {
    let mut make = phase("make", &[], command(false));
    make.checks = vec![check(
        "look",
        CheckTiming::After,
        command(false),
        &[("pass", Effect::Continue), ("ask", hold(Trigger::WaiverRequested))],
    )];
    make.gate =
        gate("make", &[("approved", Effect::Continue), ("failed", redo("make", 1, Effect::Block))]);
    let mut ask = phase("ask", &["make"], person(2));
    ask.gate = gate(
        "ask",
        &[
            ("approved", Effect::Continue),
            (
                "rejected",
                Effect::Stop { outcome: RunOutcome::WaiverRequested, reason: "no".to_owned() },
            ),
        ],
    );
    let mut plan = plan(vec![make, ask, phase("last", &["ask"], builtin())]);
    plan.hold = HoldRule { approvals: 2, expires_ms: None, retries: 3, starter_counts: false };
    plan
}

fn no_person(held: &HoldRequest) -> VoteDecision {
    if held.trigger == Trigger::PersonRequested {
        VoteDecision::Rejected
    } else {
        VoteDecision::Approved
    }
}

fn scenarios() -> Vec<Scenario> {
    let small = |doer| plan(vec![phase("a", &[], doer), phase("b", &["a"], builtin())]);
    let revise = || Act::Answer(json!({"verdict": "needs_revision"}));
    let escalate = || Act::Answer(json!({"verdict": "escalate"}));
    let tangle = [("make", 1, Act::Fail("timeout")), ("make/look", 2, Act::Say("ask"))];
    let mut wide = diamond();
    wide.phases = wide.phases.split_off(1);
    wide.phases.truncate(2);
    wide.phases.iter_mut().for_each(|phase| phase.needs.clear());
    let mut list = Vec::new();
    for on_restart in [OnRestart::Resume, OnRestart::Hold] {
        let mut one = small(command(false));
        one.phases.truncate(1);
        list.push(scenario("command", with(one, on_restart), 2, &[]));
        let pairs = if on_restart == OnRestart::Resume { 2 } else { 1 };
        list.push(scenario("agent", with(small(agent()), on_restart), pairs, &[]));
        list.push(scenario("tangled", with(tangled(), on_restart), 1, &tangle));
        list.push(scenario("diamond", with(diamond(), on_restart), 1, &[]));
        list.push(scenario(
            "spine",
            with(spine(), on_restart),
            1,
            &[
                ("design", 2, Act::Answer(json!({"plan": 2}))),
                ("review", 1, revise()),
                ("review", 2, escalate()),
            ],
        ));
        list.push(Scenario {
            decide: Arc::new(no_person),
            ..scenario("no", with(tangled(), on_restart), 1, &[])
        });
    }
    list.push(scenario("wide", wide, 2, &[]));
    list.push(scenario(
        "driver",
        driver(),
        1,
        &[("work", 1, Act::Answer(json!({"verdict": "broken"})))],
    ));
    list
}

#[test]
fn whatever_dies_wherever_the_journal_is_the_calm_runs() {
    let queue = std::sync::Mutex::new(scenarios());
    let total = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap().pop();
                    let Some(next) = next else { return };
                    let count = explore(&next, &|_, _| {});
                    let restart = next.plan.on_restart;
                    println!("{} {restart:?}: {count} ways", next.name);
                    total.fetch_add(count, std::sync::atomic::Ordering::SeqCst);
                }
            });
        }
    });
    let total = total.into_inner();
    println!("{total} scenarios");
    assert!(total > 1000, "{total}");
}
