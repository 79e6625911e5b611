//! Grants before the gateway: what they let run, how often, and what they never do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use windlass_journal::verify_store;
use windlass_kernel::artifact::{DecidedBy, SupervisorDecision};
use windlass_kernel::grant::{Grant, Status, Terms};
use windlass_kernel::{ArtifactType, Code, PlanId, Signed, State, Statement, TraceId};
use windlass_policy::Verdict;
use windlass_runtime::{
    CallReport, CallRequest, Clock as _, Gateway, GatewayError, People, PersonError, ReadDurability,
};
use windlass_store::Store as _;
use windlass_testkit::gateway::{Crash, Honest, SECRET, TestSupervisor, World, call, interrupt};
use windlass_testkit::people::{self, Everybody};

struct Scene {
    world: World,
    supervisor: Arc<TestSupervisor>,
    gateway: Gateway,
}

fn scene() -> Scene {
    let world = World::default();
    let supervisor = Arc::new(TestSupervisor::default());
    let gateway = process(&world, &supervisor);
    Scene { world, supervisor, gateway }
}

fn process(world: &World, supervisor: &Arc<TestSupervisor>) -> Gateway {
    world.gateway(Arc::clone(supervisor) as Arc<_>).with_people(Arc::new(Everybody))
}

impl Scene {
    fn terms(&self, times: u32) -> Terms {
        let now = self.world.clock.now().unix_ms();
        Terms {
            everything: false,
            command: None,
            path: None,
            run: None,
            times,
            tool: "world/ask".to_owned(),
            until: windlass_kernel::Timestamp::from_unix_ms(now + 3_600_000).unwrap(),
        }
    }

    fn give(&self, times: u32) -> TraceId {
        self.gateway.grant(self.terms(times), "Ann", "the release").unwrap().head.trace_id
    }

    fn call(&self, key: &str) -> CallReport {
        self.gateway.call(call("ask", Some(key), 1)).unwrap()
    }

    fn grant(&self, id: TraceId) -> Grant {
        self.gateway.show_grant(id).unwrap()
    }

    fn dispatches(&self) -> usize {
        self.world.tools.lock().dispatches.len()
    }

    fn is_intact(&self) {
        let report = verify_store(&self.world.store(), &mut |_| {}).unwrap();
        assert_eq!(report.problems, [], "the journal is intact");
    }
}

fn decision(world: &World, trace_id: TraceId) -> Option<SupervisorDecision> {
    let records = world.store().list_log_entries(trace_id, 0, 10).unwrap();
    let kind = ArtifactType::SupervisorDecision;
    let record = records.iter().find(|record| record.entry.artifact_type == kind)?;
    Some(serde_json::from_slice(record.body.as_ref().unwrap()).unwrap())
}

#[test]
fn a_granted_call_runs_without_a_question_and_is_counted() {
    let scene = scene();
    let id = scene.give(2);
    let report = scene.call("key-1");
    assert_eq!(report.state, State::Completed);
    let grant = scene.grant(id);
    assert_eq!((grant.used(), grant.uses[0].call), (1, report.trace_id));
    let made = decision(&scene.world, report.trace_id).unwrap();
    let entry_digest = grant.uses[0].entry_digest;
    let expected = DecidedBy::Grant { entry_digest, grant: id, name: "Ann".to_owned() };
    assert_eq!((made.decided_by, made.rationale.as_str()), (expected, "the release"));
    assert_eq!(scene.call("key-2").state, State::Completed);
    // The third one asks again.
    let third = scene.call("key-3");
    assert_eq!((third.state, third.hold.is_some()), (State::Pending, true));
    assert_eq!(scene.dispatches(), 2);
    let grant = scene.grant(id);
    assert_eq!((grant.status(scene.world.clock.now()), grant.used()), (Status::UsedUp, 2));
    assert_eq!(grant.head.state, Some(State::Withdrawn), "the next question closed it");
    // A repeated key needs no further use.
    assert!(scene.call("key-1").replayed);
    scene.is_intact();
}

#[test]
fn no_grant_outranks_a_deny_or_a_precondition() {
    let scene = scene();
    let id = scene.give(5);
    scene.supervisor.say("ask", Verdict::Deny);
    let report = scene.call("key-1");
    assert_eq!(report.refusal.unwrap().code, Code::PolicyDenied);
    scene.supervisor.say("ask", Verdict::Ask);
    // The tool is gone, so that nothing can be dispatched: a person is asked, and no use is taken.
    scene.supervisor.forget("ask");
    assert_eq!(scene.call("key-2").state, State::Pending);
    assert_eq!((scene.grant(id).used(), scene.dispatches()), (0, 0));
    scene.is_intact();
}

#[test]
fn a_grant_covers_only_its_tool_and_its_run() {
    let scene = scene();
    let run = TraceId(scene.world.clock.new_id());
    let terms = Terms { run: Some(run), ..scene.terms(5) };
    let id = scene.gateway.grant(terms, "Ann", "this run").unwrap().head.trace_id;
    assert_eq!(scene.call("key-1").state, State::Pending, "another plan");
    let other = scene.gateway.call(call("ask_burn", Some("key-2"), 1)).unwrap();
    assert_eq!(other.state, State::Pending, "another tool");
    let of_run = CallRequest { plan_id: Some(PlanId(run.0)), ..call("ask", Some("key-3"), 1) };
    assert_eq!(scene.gateway.call(of_run.clone()).unwrap().state, State::Completed);
    assert_eq!(scene.grant(id).used(), 1);
    // The stricter scope is used first, although the other grant is older or newer.
    let project = scene.give(5);
    let of_run = CallRequest { key: Some("key-4".to_owned()), ..of_run };
    scene.gateway.call(of_run).unwrap();
    assert_eq!((scene.grant(id).used(), scene.grant(project).used()), (2, 0));
}

#[test]
fn a_revoked_or_expired_grant_is_not_used() {
    let scene = scene();
    let revoked = scene.give(5);
    scene.gateway.revoke_grant(revoked, "Bob", "no longer").unwrap();
    assert_eq!(scene.call("key-1").state, State::Pending);
    let expired = scene.give(5);
    let given = scene.world.clock.now();
    scene.world.clock.pass(Duration::from_secs(2 * 24 * 3600));
    assert_eq!(scene.call("key-2").state, State::Pending);
    // If that was an error of the clock, the grant is as it was.
    assert_eq!(scene.grant(expired).head.state, Some(State::Granted));
    assert_eq!(scene.grant(expired).status(given), Status::Open);
    scene.world.clock.pass(Duration::from_secs(6 * 24 * 3600));
    assert_eq!(scene.call("key-3").state, State::Pending);
    let now = scene.world.clock.now();
    for (id, status) in [(revoked, Status::Revoked), (expired, Status::Expired)] {
        let grant = scene.grant(id);
        assert_eq!((grant.used(), grant.status(now)), (0, status));
        assert_eq!(grant.head.state, Some(State::Withdrawn));
        let error = scene.gateway.revoke_grant(id, "Ann", "again").unwrap_err();
        assert_eq!(error.code(), Code::GrantEnded, "{error}");
    }
    assert_eq!(scene.gateway.grants(false).unwrap().grants, []);
    assert_eq!(scene.gateway.grants(true).unwrap().grants.len(), 2);
    scene.is_intact();
}

#[test]
fn bad_terms_are_refused_and_recorded() {
    let scene = scene();
    let good = scene.terms(1);
    let calls = || scene.world.shared.tables().entries.len();
    for (terms, reason, code) in [
        (Terms { tool: String::new(), ..good.clone() }, "r", Code::RequestInvalid),
        (Terms { times: 0, ..good.clone() }, "r", Code::RequestInvalid),
        (Terms { times: 1001, ..good.clone() }, "r", Code::RequestInvalid),
        (good.clone(), " ", Code::RequestInvalid),
    ] {
        let before = calls();
        let error = scene.gateway.grant(terms, "Ann", reason).unwrap_err();
        assert_eq!((error.code(), calls()), (code, before), "{error}");
    }
    for (terms, code) in [
        (Terms { tool: "*".to_owned(), ..good.clone() }, Code::GrantTooWide),
        (Terms { tool: "*/*".to_owned(), ..good.clone() }, Code::GrantTooWide),
        (Terms { tool: "world/[".to_owned(), ..good.clone() }, Code::RequestInvalid),
        (Terms { tool: "world/none".to_owned(), ..good.clone() }, Code::RequestInvalid),
        (Terms { tool: "world/deny".to_owned(), ..good.clone() }, Code::PolicyDenied),
        (Terms { command: Some(SECRET.to_owned()), ..good.clone() }, Code::SecretInRequest),
    ] {
        let before = calls();
        let error = scene.gateway.grant(terms, "Ann", "r").unwrap_err();
        assert_eq!((error.code(), calls()), (code, before + 1), "{error}");
    }
    assert_eq!(scene.gateway.grants(true).unwrap().grants, []);
    let missing = TraceId(scene.world.clock.new_id());
    let call = scene.call("key-1").trace_id;
    for id in [missing, call] {
        assert_eq!(scene.gateway.show_grant(id).unwrap_err().code(), Code::GrantNotFound);
        let error = scene.gateway.revoke_grant(id, "Ann", "r").unwrap_err();
        assert_eq!(error.code(), Code::GrantNotFound);
    }
    scene.is_intact();
}

/// Nobody can sign, and nobody is known.
struct Nobody;

impl People for Nobody {
    fn sign(&self, name: &str, _: &Statement<'_>) -> Result<Signed, PersonError> {
        let message = format!("there is no person `{name}`");
        Err(PersonError { code: Code::PersonUnknown, message })
    }

    fn knows(&self, _: &Signed) -> bool {
        false
    }
}

#[test]
fn a_grant_counts_only_while_its_person_can_decide() {
    let scene = scene();
    let id = scene.give(5);
    let others = scene.world.gateway(Arc::clone(&scene.supervisor) as Arc<_>);
    let report = others.call(call("ask", Some("key-1"), 1)).unwrap();
    assert_eq!(report.state, State::Pending, "without people no grant counts");
    let others = others.with_people(Arc::new(Nobody));
    let report = others.call(call("ask", Some("key-2"), 1)).unwrap();
    assert_eq!(report.state, State::Pending, "the key was revoked");
    let error = others.grant(scene.terms(1), "Eve", "r").unwrap_err();
    assert!(matches!(error, GatewayError::Person(_)), "{error:?}");
    let error = others.revoke_grant(id, "Eve", "r").unwrap_err();
    assert_eq!(error.code(), Code::PersonUnknown);
    assert_eq!(scene.grant(id).status(scene.world.clock.now()), Status::Open);
}

#[test]
fn an_interrupted_call_is_not_settled_by_a_grant() {
    let scene = scene();
    // It dies when the tool has answered.
    let id = interrupt(&scene.world, call("burn", Some("key-1"), 1), 4);
    scene.supervisor.say("burn", Verdict::Ask);
    let terms = Terms { tool: "world/burn".to_owned(), ..scene.terms(5) };
    let grant = scene.gateway.grant(terms, "Ann", "burn it").unwrap().head.trace_id;
    let report = scene.gateway.recover(id).unwrap().report;
    assert_eq!((report.state, report.hold.is_some()), (State::Executing, true));
    assert_eq!(scene.grant(grant).used(), 0);
}

#[test]
fn of_two_processes_one_gets_the_last_use() {
    for round in 0..20 {
        let scene = scene();
        let id = scene.give(1);
        let start = Barrier::new(2);
        let states: Vec<State> = std::thread::scope(|scope| {
            let processes: Vec<_> = (0..2)
                .map(|number| {
                    let (scene, start) = (&scene, &start);
                    scope.spawn(move || {
                        let gateway = process(&scene.world, &scene.supervisor);
                        let request = call("ask", Some(&format!("key-{round}-{number}")), 1);
                        start.wait();
                        gateway.call(request).unwrap().state
                    })
                })
                .collect();
            processes.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let ran = states.iter().filter(|state| **state == State::Completed).count();
        assert!(states.iter().all(|one| matches!(one, State::Completed | State::Pending)));
        assert_eq!((ran, scene.grant(id).used(), scene.dispatches()), (1, 1, 1));
        scene.is_intact();
    }
}

#[test]
fn two_processes_with_one_key_run_once() {
    let scene = scene();
    let id = scene.give(5);
    // The other process makes the call while this one has recorded its use.
    let (world, supervisor) = (scene.world.clone(), Arc::clone(&scene.supervisor));
    let mut when = 1;
    loop {
        let scene = Scene { world: world.fork(), ..self::scene() };
        let (other, supervised) = (scene.world.clone(), Arc::clone(&supervisor));
        let crash = Crash::with_interlude(None, when, move |_| {
            match process(&other, &supervised).call(call("ask", Some("same"), 1)) {
                // It asks a person while the grant is in use.
                Ok(report) => assert!(matches!(report.state, State::Completed | State::Pending)),
                Err(error) => assert!(error.is_held(), "{error:?}"),
            }
        });
        let gateway = crashing(&scene.world, &crash);
        let report = gateway.call(call("ask", Some("same"), 1)).unwrap();
        if crash.passed() < when {
            break;
        }
        assert_eq!(report.state, State::Completed, "point {when}");
        assert_eq!(scene.dispatches(), 1, "point {when}");
        assert!(gateway.show_grant(id).unwrap().used() <= 2);
        scene.is_intact();
        when += 1;
    }
    assert!(when > 6);
}

fn crashing(world: &World, crash: &Arc<Crash>) -> Gateway {
    let process = world.start(&Honest, ReadDurability::WriteAhead, crash);
    process.gateway.with_people(Arc::new(Everybody))
}

/// The process dies at every point of a granted call; the next one recovers, and dies at every point too.
#[test]
fn a_crash_uses_up_one_use_and_nothing_else() {
    let mut taken_up = 0;
    for first in 1.. {
        let scene = scene();
        let id = scene.give(1);
        if !life(&scene.world, first, |gateway| {
            gateway.call(call("ask", Some("key-1"), 1)).unwrap();
        }) {
            assert!(first > 10, "the call passes {first} points");
            break;
        }
        for second in 1.. {
            let world = scene.world.fork();
            let died = life(&world, second, |gateway| drop(gateway.recover_all()));
            let last = Scene {
                gateway: process(&world, &scene.supervisor),
                supervisor: Arc::clone(&scene.supervisor),
                world,
            };
            let recovered = last.gateway.recover_all().unwrap();
            let grant = last.grant(id);
            assert!(grant.used() <= 1, "at {first}, {second}");
            let runs = last.world.tools.lock().runs.len();
            assert!(runs == 0 || (runs, grant.used()) == (1, 1), "at {first}, {second}");
            for one in recovered {
                let report = one.result.unwrap();
                let made = decision(&last.world, one.trace_id);
                let used = grant.uses.iter().any(|one_use| one_use.call == one.trace_id);
                assert_eq!(made.is_some(), used, "a recorded use is taken up: {first}, {second}");
                taken_up += u32::from(used && report.report.state == State::Completed);
            }
            last.is_intact();
            // A new call asks a person, since the one use is gone, or gets it, if it is not.
            let next = last.call("key-2");
            let free = grant.used() == 0;
            assert_eq!(next.state == State::Completed, free, "at {first}, {second}");
            last.is_intact();
            if !died {
                break;
            }
        }
    }
    assert!(taken_up > 3, "{taken_up}");
}

/// The process dies at every point of a granted call, and the grant expires before the next one comes.
#[test]
fn a_use_that_a_crash_left_is_not_taken_up_when_the_grant_has_expired() {
    let mut left = 0;
    for at in 1.. {
        let scene = scene();
        let id = scene.give(1);
        if !life(&scene.world, at, |gateway| {
            gateway.call(call("ask", Some("key-1"), 1)).unwrap();
        }) {
            break;
        }
        scene.world.clock.pass(Duration::from_secs(7200));
        let before = scene.world.shared.tables().traces;
        let uses = scene.grant(id).used();
        for one in scene.gateway.recover_all().unwrap() {
            if before.get(&one.trace_id).unwrap().head.state == Some(State::Pending) {
                assert_eq!(one.result.unwrap().report.state, State::Pending, "at {at}");
                left += uses;
            }
        }
        scene.is_intact();
    }
    assert!(left > 0, "a process died between the use and the decision");
}

/// Whether a process that dies at its `at`-th point died.
fn life(world: &World, at: u32, act: impl FnOnce(&Gateway)) -> bool {
    let crash = Crash::at(Some(at));
    let lived = catch_unwind(AssertUnwindSafe(|| act(&crashing(world, &crash))));
    match lived {
        Ok(()) => false,
        Err(thrown) if Crash::is_crash(thrown.as_ref()) => true,
        Err(thrown) => std::panic::resume_unwind(thrown),
    }
}

#[test]
fn a_forged_grant_is_corrupt_and_lets_nothing_run() {
    let scene = scene();
    let id = scene.give(1);
    let forged = |change: &dyn Fn(&mut serde_json::Value)| {
        let world = scene.world.fork();
        world.shared.tamper(|tables| {
            let record = &mut tables.entries.get_mut(&id).unwrap()[0];
            let mut body = serde_json::from_slice(record.body.as_ref().unwrap()).unwrap();
            change(&mut body);
            let bytes = windlass_kernel::canon::to_bytes(&body).unwrap();
            record.entry.artifact_digest = windlass_kernel::Digest::of(&bytes);
            record.entry.entry_digest = record.entry.compute_digest(&mut Vec::new());
            record.body = Some(bytes);
            let head = &mut tables.traces.get_mut(&id).unwrap().head;
            head.entry_digest = record.entry.entry_digest;
        });
        world
    };
    let changes: [&dyn Fn(&mut serde_json::Value); 4] = [
        &|body| body["event"]["terms"]["times"] = 9.into(),
        &|body| body["event"]["terms"]["tool"] = "world/*".into(),
        &|body| body["event"]["reason"] = "another".into(),
        &|body| body["event"]["by"]["key"] = serde_json::json!(people::signer("Eve").public()),
    ];
    for change in changes {
        let world = forged(change);
        let report = verify_store(&world.store(), &mut |_| {}).unwrap();
        assert_eq!((report.broken, report.problems[0].trace_id), (1, id));
        let gateway = process(&world, &scene.supervisor);
        assert_eq!(gateway.call(call("ask", Some("key-1"), 1)).unwrap().state, State::Pending);
        assert_eq!(gateway.show_grant(id).unwrap_err().code(), Code::StateChecksumMismatch);
    }
}

#[test]
fn a_call_that_names_a_use_which_is_not_recorded_is_corrupt() {
    let scene = scene();
    let (id, other) = (scene.give(1), scene.give(1));
    let report = scene.call("key-1");
    scene.is_intact();
    assert_eq!(scene.grant(id).used(), 1);
    // Without the grant's entry the call was allowed by nobody.
    scene.world.shared.tamper(|tables| {
        let records = tables.entries.get_mut(&id).unwrap();
        records.pop();
        let head = windlass_kernel::Head::after(&records[0].entry);
        tables.traces.get_mut(&id).unwrap().head = head;
    });
    let found = verify_store(&scene.world.store(), &mut |_| {}).unwrap();
    assert_eq!((found.broken, found.problems[0].trace_id), (1, report.trace_id));
    assert!(found.problems[0].message.contains("grant"), "{}", found.problems[0].message);
    let one = windlass_journal::verify_trace(&scene.world.store(), report.trace_id).unwrap();
    assert!(one.error.is_some());
    assert_eq!(scene.grant(other).used(), 0);
}
