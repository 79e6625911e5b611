//! Recovery, step by step: lock, checkpoint, replay, re-dispatch, result, release.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use windlass_connect::{Certainty, Reply};
use windlass_kernel::grant::Terms;
use windlass_kernel::recovery::RecoveryPlan;
use windlass_kernel::{Code, State, TraceId};
use windlass_policy::Verdict;
use windlass_runtime::{Answer, Attribution, Gateway, HoldQuestion, ReadDurability, Supervisor};
use windlass_store::{Store as _, TraceState};
use windlass_testkit::gateway::{Crash, Parts, TestSupervisor, World, call, interrupt};
use windlass_testkit::people::{Everybody, by};

fn gateway(world: &World) -> Gateway {
    world.gateway(Arc::new(TestSupervisor::default()))
}

fn interrupted(tool: &str, at: u32) -> (World, TraceId) {
    let world = World::default();
    let trace_id = interrupt(&world, call(tool, Some("key-1"), 1), at);
    (world, trace_id)
}

#[test]
fn a_trace_that_a_live_process_holds_is_left_alone() {
    let (world, trace_id) = interrupted("add", 4);
    let holder = world.store();
    let lease = holder.acquire(trace_id).unwrap();
    let before = world.shared.tables();
    let error = gateway(&world).recover(trace_id).unwrap_err();
    assert_eq!(error.code(), Code::StateLockAcquireFailed);
    let all = gateway(&world).recover_all().unwrap();
    assert_eq!(all[0].result.as_ref().unwrap_err().code(), Code::StateLockAcquireFailed);
    let after = world.shared.tables();
    assert_eq!((after.traces, after.entries), (before.traces, before.entries));
    // A dead holder's is free at once.
    drop((lease, holder));
    assert_eq!(gateway(&world).recover(trace_id).unwrap().plan, RecoveryPlan::Redispatch);
}

#[test]
fn a_call_without_a_recorded_effect_is_handed_over_again_as_the_same() {
    for at in 2..=5 {
        let (world, trace_id) = interrupted("add", at);
        let recovery = gateway(&world).recover(trace_id).unwrap();
        assert_eq!(
            (recovery.plan, recovery.report.state),
            (RecoveryPlan::Redispatch, State::Completed)
        );
        assert_eq!(recovery.report.redispatches[0].attempt, 2);
        let tools = world.tools.lock();
        for dispatch in &tools.dispatches {
            assert_eq!(Some(dispatch.tool_call_id), recovery.report.tool_call_id);
            assert_eq!(dispatch.key.as_deref(), Some("key-1"));
        }
        assert_eq!(tools.dispatches.len(), if at < 4 { 1 } else { 2 });
    }
}

#[test]
fn a_call_with_a_recorded_effect_is_never_handed_over_again() {
    let (world, trace_id) = interrupted("add", 6);
    let gateway = gateway(&world);
    assert!(gateway.recover_all().unwrap().is_empty());
    for _ in 0..3 {
        let recovery = gateway.recover(trace_id).unwrap();
        assert_eq!(
            (recovery.plan, recovery.report.state),
            (RecoveryPlan::Nothing, State::Completed)
        );
        assert_eq!(recovery.report, gateway.show(trace_id).unwrap());
    }
    assert_eq!(world.tools.lock().dispatches.len(), 1);
}

#[test]
fn the_lock_is_given_back_whatever_comes_of_it() {
    for (tool, forgotten) in
        [("add", false), ("burn", false), ("post", false), ("book", false), ("add", true)]
    {
        let (world, trace_id) = interrupted(tool, 4);
        let supervisor = TestSupervisor::default();
        if forgotten {
            supervisor.forget(tool);
        }
        let gateway = world.gateway(Arc::new(supervisor));
        drop(gateway.recover(trace_id));
        assert!(world.store().acquire(trace_id).is_ok(), "{tool}");
    }
    // Also when the trace is corrupt.
    let (world, trace_id) = interrupted("add", 4);
    world.shared.tamper(|tables| drop(tables.entries.get_mut(&trace_id).unwrap().pop()));
    let gateway = gateway(&world);
    assert_eq!(gateway.recover(trace_id).unwrap_err().code(), Code::StateSequenceGap);
    assert!(world.store().acquire(trace_id).is_ok());
}

/// Cuts a trace back to what it was after its `keep`-th entry, as if nothing more had been written.
fn cut_back(world: &World, trace_id: TraceId, keep: usize) {
    world.shared.tamper(|tables| {
        let records = tables.entries.get_mut(&trace_id).unwrap();
        records.truncate(keep);
        let last = &records.last().unwrap().entry;
        let head = &mut tables.traces.get_mut(&trace_id).unwrap().head;
        head.sequence_number = last.sequence_number;
        head.entry_digest = last.entry_digest;
        head.state = Some(last.to_state);
        head.tool_call_id = last.tool_call_id;
        tables.keys.clear();
    });
}

#[test]
fn a_call_that_was_allowed_and_never_handed_over_is_started() {
    let (world, trace_id) = interrupted("add", 2);
    cut_back(&world, trace_id, 2);
    let recovery = gateway(&world).recover(trace_id).unwrap();
    assert_eq!((recovery.plan, recovery.report.state), (RecoveryPlan::Start, State::Completed));
    assert_eq!(world.tools.lock().dispatches.len(), 1);
    assert_eq!(world.shared.tables().keys.len(), 1);
    assert_eq!(recovery.report.redispatches, []);
}

#[test]
fn what_the_policy_of_now_denies_is_not_run_by_recovery() {
    let supervisor = Arc::new(TestSupervisor::default());
    supervisor.say("add", Verdict::Deny);
    // Interrupted after its dispatch.
    let (world, trace_id) = interrupted("add", 5);
    let gateway = world.gateway(Arc::clone(&supervisor) as Arc<_>);
    let recovery = gateway.recover(trace_id).unwrap();
    let hold = recovery.report.hold.unwrap();
    assert_eq!(hold.question, HoldQuestion::DidItRun);
    assert!(hold.reason.contains("denies it now"), "{}", hold.reason);
    let error = gateway.decide(trace_id, Answer::DidNotRun, by("ada", "it did not")).unwrap_err();
    assert_eq!(error.code(), Code::PolicyDenied, "{error}");
    assert_eq!(world.tools.lock().dispatches.len(), 1);
    // A policy that asks about it asks a person, too; it goes on once the policy allows it.
    supervisor.say("add", Verdict::Ask);
    let hold = gateway.recover(trace_id).unwrap().report.hold.unwrap();
    assert_eq!(hold.question, HoldQuestion::DidItRun);
    assert!(hold.reason.contains("asks about it now"), "{}", hold.reason);
    assert_eq!(world.tools.lock().dispatches.len(), 1);
    supervisor.say("add", Verdict::Allow);
    assert_eq!(gateway.recover(trace_id).unwrap().report.state, State::Completed);
    assert_eq!(world.tools.lock().dispatches.len(), 2);
    // Allowed, and never dispatched: it ends without an effect, and its key is free.
    let (world, trace_id) = interrupted("add", 2);
    cut_back(&world, trace_id, 2);
    supervisor.say("add", Verdict::Deny);
    let gateway = world.gateway(Arc::clone(&supervisor) as Arc<_>);
    let report = gateway.recover(trace_id).unwrap().report;
    let error = report.error.unwrap();
    assert_eq!((report.state, error.code), (State::Failed, Code::PolicyDenied));
    assert!(!error.may_have_run);
    assert_eq!(world.tools.lock().dispatches.len(), 0);
    supervisor.say("add", Verdict::Allow);
    let report = gateway.call(call("add", Some("key-1"), 1)).unwrap();
    assert_eq!(report.state, State::Completed);
}

#[test]
fn what_the_policy_of_now_asks_about_is_not_started_by_recovery() {
    let supervisor = Arc::new(TestSupervisor::default());
    supervisor.say("add", Verdict::Ask);
    let (world, trace_id) = interrupted("add", 2);
    cut_back(&world, trace_id, 2);
    let gateway = world.gateway(Arc::clone(&supervisor) as Arc<_>);
    for _ in 0..2 {
        let report = gateway.recover(trace_id).unwrap().report;
        let hold = report.hold.unwrap();
        assert_eq!((report.state, hold.question), (State::Executing, HoldQuestion::DidItRun));
        assert!(hold.reason.contains("asks about it now"), "{}", hold.reason);
    }
    assert_eq!(world.tools.lock().dispatches.len(), 0);
    let report = gateway.decide(trace_id, Answer::DidNotRun, by("ada", "it may")).unwrap();
    assert_eq!((report.state, world.tools.lock().dispatches.len()), (State::Completed, 1));
}

/// The process of a test, with a supervisor that the test talks to.
struct Supervised(Arc<TestSupervisor>);

impl Parts for Supervised {
    fn supervisor(&self) -> Arc<dyn Supervisor> {
        Arc::clone(&self.0) as Arc<_>
    }
}

/// A world with one call of `ask` that was dispatched and whose effect was not recorded. What `act` does with it
/// lets it run; the process dies at some point of that.
fn interrupted_by(supervisor: &Arc<TestSupervisor>, act: impl Fn(&Gateway)) -> (World, TraceId) {
    for at in 1.. {
        let world = World::default();
        let crash = Crash::at(Some(at));
        let parts = Supervised(Arc::clone(supervisor));
        let process = world.start(&parts, ReadDurability::WriteAhead, &crash);
        let gateway = process.gateway.with_people(Arc::new(Everybody));
        let lived = catch_unwind(AssertUnwindSafe(|| act(&gateway)));
        drop(gateway);
        let is_executing = |state: &TraceState| state.head.state == Some(State::Executing);
        let traces = world.shared.tables().traces;
        let dispatches = world.tools.lock().dispatches.len();
        match traces.values().find(|state| is_executing(state)) {
            Some(state) if dispatches == 1 => return (world, state.head.trace_id),
            Some(_) | None => assert!(lived.is_err(), "no point left"),
        }
    }
    panic!("no point left")
}

#[test]
fn a_call_that_a_person_approved_runs_again_only_with_the_files_that_they_saw() {
    let supervisor = Arc::new(TestSupervisor::default());
    for (at_approval, now, runs) in [
        ("good", "good", true),
        ("good", "evil", false),
        // The person saw it later than at the question.
        ("newer", "newer", true),
        ("newer", "good", false),
    ] {
        let (world, trace_id) = interrupted_by(&supervisor, |gateway| {
            supervisor.name_file("deploy.sh", "good");
            let trace_id = gateway.call(call("ask", Some("key-1"), 1)).unwrap().trace_id;
            supervisor.name_file("deploy.sh", at_approval);
            let files = gateway.view(trace_id).unwrap().changed_files;
            let attribution = Attribution { files: &files, ..by("Ada", "I looked") };
            gateway.decide(trace_id, Answer::Approve, attribution).unwrap();
        });
        supervisor.name_file("deploy.sh", now);
        let gateway = world.gateway(Arc::clone(&supervisor) as Arc<_>);
        let report = gateway.recover(trace_id).unwrap().report;
        let expected = if runs { State::Completed } else { State::Executing };
        assert_eq!(report.state, expected, "{at_approval}, {now}");
        assert_eq!(world.tools.lock().dispatches.len(), if runs { 2 } else { 1 });
        if !runs {
            let hold = report.hold.unwrap();
            assert_eq!(hold.question, HoldQuestion::DidItRun);
            assert!(hold.reason.contains("`deploy.sh` has changed"), "{}", hold.reason);
        }
    }
    // Never dispatched: it is not started with another file either.
    let world = World::default();
    let gateway = world.gateway(Arc::clone(&supervisor) as Arc<_>);
    supervisor.name_file("deploy.sh", "good");
    let trace_id = gateway.call(call("ask", Some("key-1"), 1)).unwrap().trace_id;
    gateway.decide(trace_id, Answer::Approve, by("Ada", "I looked")).unwrap();
    cut_back(&world, trace_id, 2);
    world.tools.lock().dispatches.clear();
    supervisor.name_file("deploy.sh", "evil");
    let report = gateway.recover(trace_id).unwrap().report;
    assert!(report.hold.unwrap().reason.contains("`deploy.sh` has changed"));
    assert_eq!(world.tools.lock().dispatches.len(), 0);
}

#[test]
fn a_granted_call_runs_again_only_while_its_grant_holds() {
    let supervisor = Arc::new(TestSupervisor::default());
    for change in ["none", "revoked", "expired", "unknown people"] {
        let (world, trace_id) = interrupted_by(&supervisor, |gateway| {
            let now = i64::try_from(windlass_testkit::plans::START_MS).unwrap();
            let terms = Terms {
                everything: false,
                command: None,
                path: None,
                run: None,
                times: 2,
                tool: "world/ask".to_owned(),
                until: windlass_kernel::Timestamp::from_unix_ms(now + 3_600_000).unwrap(),
            };
            gateway.grant(terms, "Ann", "the release").unwrap();
            gateway.call(call("ask", Some("key-1"), 1)).unwrap();
        });
        let gateway = world.gateway(Arc::clone(&supervisor) as Arc<_>);
        let gateway = match change {
            "unknown people" => gateway,
            _ => gateway.with_people(Arc::new(Everybody)),
        };
        let grant = gateway.grants(true).unwrap().grants.remove(0).head.trace_id;
        match change {
            "revoked" => drop(gateway.revoke_grant(grant, "Bob", "no longer").unwrap()),
            "expired" => world.clock.pass(Duration::from_secs(365 * 86_400)),
            _ => {}
        }
        let report = gateway.recover(trace_id).unwrap().report;
        let expected = if change == "none" { State::Completed } else { State::Executing };
        assert_eq!(report.state, expected, "{change}");
        let dispatches = if change == "none" { 2 } else { 1 };
        assert_eq!(world.tools.lock().dispatches.len(), dispatches, "{change}");
    }
}

#[test]
fn a_second_dispatch_that_did_not_run_says_nothing_of_the_first() {
    let (world, trace_id) = interrupted("add", 5);
    assert_eq!(world.tools.lock().dispatches.len(), 1);
    let unreachable = Reply::Failure {
        code: Code::ToolServerUnavailable,
        message: "it is gone".to_owned(),
        result: None,
        certainty: Certainty::DidNotRun,
    };
    world.tools.lock().scripted.insert("add".to_owned(), unreachable);
    let gateway = gateway(&world);
    let report = gateway.recover(trace_id).unwrap().report;
    assert_eq!(
        (report.state, report.hold.unwrap().question),
        (State::Executing, HoldQuestion::DidItRun)
    );
    world.tools.lock().scripted.clear();
    assert_eq!(gateway.recover(trace_id).unwrap().report.state, State::Completed);
}

#[test]
fn a_call_whose_key_was_used_meanwhile_is_not_started() {
    let (world, trace_id) = interrupted("add", 2);
    cut_back(&world, trace_id, 2);
    let gateway = gateway(&world);
    gateway.call(call("add", Some("key-1"), 1)).unwrap();
    let error = gateway.recover(trace_id).unwrap_err();
    assert_eq!(error.code(), Code::StateRecoveryFailed);
    assert_eq!(gateway.show(trace_id).unwrap().state, State::Authorized);
    assert_eq!(world.tools.lock().dispatches.len(), 1);
}

#[test]
fn a_request_that_was_never_judged_waits_for_a_person() {
    let (world, trace_id) = interrupted("add", 2);
    cut_back(&world, trace_id, 1);
    let recovery = gateway(&world).recover(trace_id).unwrap();
    assert_eq!(recovery.plan, RecoveryPlan::Judge);
    assert_eq!(recovery.report.hold.unwrap().question, HoldQuestion::MayItRun);
    assert_eq!(world.tools.lock().dispatches, []);
}

#[test]
fn a_tool_that_is_gone_leaves_its_call_to_a_person() {
    let (world, trace_id) = interrupted("add", 4);
    let supervisor = Arc::new(TestSupervisor::default());
    supervisor.forget("add");
    let gone = world.gateway(supervisor);
    let recovery = gone.recover(trace_id).unwrap();
    assert_eq!(recovery.plan, RecoveryPlan::Hold);
    let hold = recovery.report.hold.unwrap();
    assert_eq!(hold.question, HoldQuestion::DidItRun);
    assert!(hold.reason.contains(Code::ToolUnclassifiedDenied.as_str()), "{}", hold.reason);
    let attribution = by("Ada", "I looked");
    let error = gone.decide(trace_id, Answer::DidNotRun, attribution).unwrap_err();
    assert_eq!(error.code(), Code::StateRecoveryFailed);
    assert_eq!(gone.decide(trace_id, Answer::Failed, attribution).unwrap().state, State::Failed);
    assert_eq!(world.tools.lock().dispatches.len(), 1);
}

#[test]
fn an_allowed_call_of_a_tool_that_is_gone_cannot_be_started() {
    let (world, trace_id) = interrupted("add", 2);
    cut_back(&world, trace_id, 2);
    let supervisor = Arc::new(TestSupervisor::default());
    supervisor.forget("add");
    let error = world.gateway(supervisor).recover(trace_id).unwrap_err();
    assert_eq!(error.code(), Code::StateRecoveryFailed);
    assert_eq!(gateway(&world).recover(trace_id).unwrap().report.state, State::Completed);
}

#[test]
fn retries_are_counted_and_capped_then_parked() {
    let (world, trace_id) = interrupted("tire", 4);
    // Its one retry dies too: acquire, redispatch and effect have two points each.
    let scenario = windlass_testkit::gateway::scenario("parked, then approved");
    let mut nobody = windlass_testkit::gateway::Client::default();
    let honest = windlass_testkit::gateway::Honest;
    let _ = windlass_testkit::gateway::live(&world, &scenario, &honest, &mut nobody, Some(6));
    assert_eq!(world.tools.lock().dispatches.len(), 2);
    let gateway = gateway(&world);
    for _ in 0..3 {
        let recovery = gateway.recover(trace_id).unwrap();
        assert_eq!((recovery.plan, recovery.report.state), (RecoveryPlan::Hold, State::Executing));
        let hold = recovery.report.hold.unwrap();
        assert_eq!(hold.question, HoldQuestion::DidItRun);
        assert!(hold.reason.contains("2 times"), "{}", hold.reason);
        assert_eq!(recovery.report.redispatches.len(), 1);
    }
    assert_eq!(world.tools.lock().dispatches.len(), 2);
    let attribution = by("Ada", "once more");
    let report = gateway.decide(trace_id, Answer::DidNotRun, attribution).unwrap();
    assert_eq!((report.state, report.redispatches.len()), (State::Completed, 2));
}

#[test]
fn a_probe_is_a_call_of_its_own_and_named_in_the_effect() {
    for (at, dispatched) in [(3, vec!["find", "post"]), (4, vec!["post", "find"])] {
        let (world, trace_id) = interrupted("post", at);
        let recovery = gateway(&world).recover(trace_id).unwrap();
        assert_eq!((recovery.plan, recovery.report.state), (RecoveryPlan::Probe, State::Completed));
        let tools = world.tools.lock();
        let order: Vec<_> = tools.dispatches.iter().map(|one| one.tool.as_str()).collect();
        assert_eq!(order, dispatched);
        assert_eq!(tools.runs.values().map(|run| run.executed).sum::<u32>(), 1);
        let traces = world.shared.tables().entries;
        let effect = traces[&trace_id].last().unwrap().body.clone().unwrap();
        let settled = String::from_utf8(effect).unwrap().contains("\"by\":\"probe\"");
        assert_eq!((traces.len(), settled), (2, at == 4));
    }
}

#[test]
fn a_call_whose_undo_fails_or_is_denied_waits_for_a_person() {
    for denied in [false, true] {
        let (world, trace_id) = interrupted("book", 5);
        let supervisor = Arc::new(TestSupervisor::default());
        if denied {
            supervisor.say("cancel", windlass_policy::Verdict::Deny);
        } else {
            let (code, message) = (Code::ToolFailed, "it cannot be cancelled".to_owned());
            let certainty = windlass_connect::Certainty::Ran;
            let reply = windlass_connect::Reply::Failure { code, message, result: None, certainty };
            world.tools.lock().scripted.insert("cancel".to_owned(), reply);
        }
        let gateway = world.gateway(supervisor);
        let recovery = gateway.recover(trace_id).unwrap();
        assert_eq!(recovery.plan, RecoveryPlan::Compensate);
        assert_eq!(recovery.report.state, State::Executing, "nothing says that it was undone");
        let hold = recovery.report.hold.unwrap();
        assert_eq!(hold.question, HoldQuestion::DidItRun);
        let ended = if denied { "DENIED" } else { "FAILED" };
        assert!(hold.reason.contains(ended), "{}", hold.reason);
        let run = world.tools.lock().runs.get(&("book".to_owned(), "key-1".to_owned())).cloned();
        assert_eq!(run.map(|run| run.executed - run.undone), Some(1));
    }
}

#[test]
fn an_undone_call_ends_as_failed_whether_it_ran_or_not() {
    for at in 2..=5 {
        let (world, trace_id) = interrupted("book", at);
        let gateway = gateway(&world);
        let recovery = gateway.recover(trace_id).unwrap();
        assert_eq!(
            (recovery.plan, recovery.report.state),
            (RecoveryPlan::Compensate, State::Failed)
        );
        assert_eq!(recovery.report.error.as_ref().unwrap().code, Code::ToolCompensated);
        let run = world.tools.lock().runs.get(&("book".to_owned(), "key-1".to_owned())).cloned();
        assert_eq!(run.map_or(0, |run| run.executed - run.undone), 0);
        let again = gateway.call(call("book", Some("key-1"), 1)).unwrap();
        assert!(again.replayed && again.state == State::Failed);
    }
}
