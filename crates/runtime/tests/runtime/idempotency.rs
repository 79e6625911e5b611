//! One key, one effect: repeats, conflicts, callers at the same time, callers that die.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use windlass_connect::{Certainty, Reply};
use windlass_kernel::recovery::RecoveryPlan;
use windlass_kernel::{Code, Outcome, State, TraceId};
use windlass_policy::Verdict;
use windlass_runtime::{CallReport, CallRequest, Clock as _, ReadDurability};
use windlass_store::{Append, AppendError, Appended, Store};
use windlass_testkit::gateway::{
    Crash, Honest, Meddle, Meddled, TestSupervisor, World, call, interrupt,
};

fn replay_of(report: &CallReport) -> CallReport {
    CallReport { replayed: true, ..report.clone() }
}

#[test]
fn a_repeat_gets_the_recorded_effect_and_the_tool_is_not_touched() {
    let world = World::default();
    let gateway = world.gateway(Arc::new(TestSupervisor::default()));
    for (tool, state, outcome) in
        [("add", State::Completed, Outcome::Success), ("fail", State::Failed, Outcome::Failure)]
    {
        let request = call(tool, Some("key-1"), 1);
        let first = gateway.call(request.clone()).unwrap();
        assert_eq!((first.state, first.outcome, first.replayed), (state, Some(outcome), false));
        let before = (world.tools.lock().clone(), world.shared.tables().entries);
        assert_eq!(gateway.call(request.clone()).unwrap(), replay_of(&first));
        // Another process, another intent: it is the same effect that is wanted.
        let elsewhere = world.gateway(Arc::new(TestSupervisor::default()));
        let other = windlass_runtime::CallRequest { intent: "something else".into(), ..request };
        assert_eq!(elsewhere.call(other).unwrap(), replay_of(&first));
        assert_eq!((world.tools.lock().clone(), world.shared.tables().entries), before);
    }
}

#[test]
fn a_read_with_a_key_is_made_once_even_if_reads_are_recorded_with_their_effect() {
    let world = World::default();
    let crash = Crash::at(None);
    let process = world.start(&Honest, ReadDurability::WithEffect, &crash);
    let request =
        windlass_runtime::CallRequest { key: Some("key-1".to_owned()), ..call("look", None, 1) };
    let first = process.gateway.call(request.clone()).unwrap();
    assert_eq!((first.state, first.replayed), (State::Completed, false));
    assert_eq!(process.gateway.call(request).unwrap(), replay_of(&first));
    assert_eq!(world.tools.lock().dispatches.len(), 1);
}

#[test]
fn the_same_key_for_another_request_is_refused_and_recorded() {
    let world = World::default();
    let gateway = world.gateway(Arc::new(TestSupervisor::default()));
    let first = gateway.call(call("add", Some("key-1"), 1)).unwrap();
    let second = gateway.call(call("add", Some("key-1"), 2)).unwrap();
    assert_eq!(second.state, State::Denied);
    let refused = second.refusal.clone().unwrap();
    assert_eq!(refused.code, Code::IdempotencyConflict);
    assert!(refused.reason.contains(&first.trace_id.to_string()), "{}", refused.reason);
    assert_ne!(second.trace_id, first.trace_id);
    assert_eq!(gateway.show(second.trace_id).unwrap(), second);
    assert_eq!(world.tools.lock().dispatches.len(), 1);
    // A key belongs to its tool: another tool may have the same one.
    assert_eq!(gateway.call(call("fail", Some("key-1"), 1)).unwrap().state, State::Failed);
}

#[test]
fn a_run_is_not_asked_about_a_call_that_did_not_run_before() {
    let (world, supervisor) = (World::default(), Arc::new(TestSupervisor::default()));
    let gateway = world.gateway(Arc::clone(&supervisor) as Arc<_>);
    let (code, certainty) = (Code::ToolServerUnavailable, Certainty::DidNotRun);
    let reply = Reply::Failure { code, message: "gone".to_owned(), result: None, certainty };
    world.tools.lock().scripted.insert("add".to_owned(), reply);
    let run = Some(TraceId(world.clock.new_id()));
    let of_run = CallRequest { run, ..call("add", Some("key-1"), 1) };
    let first = gateway.call(of_run.clone()).unwrap();
    let alone = call("add", Some("key-2"), 1);
    gateway.call(alone.clone()).unwrap();
    // The policy asks meanwhile: the run gets what it got before, a call of nobody's run is a new one.
    supervisor.say("add", Verdict::Ask);
    assert_eq!(gateway.call(of_run).unwrap(), replay_of(&first));
    let asked = gateway.call(alone).unwrap();
    assert_eq!((asked.state, asked.replayed), (State::Pending, false));
}

#[test]
fn a_call_that_did_not_run_stays_whole_when_its_key_is_taken_again() {
    let world = World::default();
    let gateway = world.gateway(Arc::new(TestSupervisor::default()));
    let (code, certainty) = (Code::ToolServerUnavailable, Certainty::DidNotRun);
    let reply = Reply::Failure { code, message: "gone".to_owned(), result: None, certainty };
    world.tools.lock().scripted.insert("add".to_owned(), reply);
    let first = gateway.call(call("add", Some("key-1"), 1)).unwrap();
    world.tools.lock().scripted.clear();
    let second = gateway.call(call("add", Some("key-1"), 1)).unwrap();
    assert_eq!((first.state, second.state), (State::Failed, State::Completed));
    assert_ne!(first.trace_id, second.trace_id);
    let store = world.store();
    for one in [&first, &second] {
        let report = windlass_journal::verify_trace(&store, one.trace_id).unwrap();
        assert_eq!(report.error, None);
    }
    assert_eq!(windlass_journal::verify_store(&store, &mut |_| {}).unwrap().broken, 0);
}

#[test]
fn eight_callers_at_once_make_one_call() {
    for own_process in [true, false] {
        let world = World::default();
        let patient = || Arc::new(TestSupervisor::default().with_timeout(Duration::from_secs(60)));
        let shared = Arc::new(world.gateway(patient()));
        let start = std::sync::Barrier::new(8);
        let answers: Vec<CallReport> = std::thread::scope(|scope| {
            let callers: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let own = world.gateway(patient());
                        let gateway = if own_process { &own } else { shared.as_ref() };
                        start.wait();
                        gateway.call(call("post", Some("key-1"), 1)).unwrap()
                    })
                })
                .collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).collect()
        });
        assert_eq!(world.tools.lock().dispatches.len(), 1);
        let first = answers.iter().find(|answer| !answer.replayed).unwrap();
        assert_eq!(first.state, State::Completed);
        assert_eq!(answers.iter().filter(|answer| **answer == replay_of(first)).count(), 7);
    }
}

#[test]
fn a_caller_that_comes_while_the_effect_is_made_waits_no_longer_than_it_may() {
    let world = World::default();
    let code = Arc::new(std::sync::Mutex::new(None));
    let crash = {
        let (world, code) = (world.clone(), Arc::clone(&code));
        // The third point is the one before the effect.
        Crash::with_interlude(None, 3, move |_| {
            let impatient = world.gateway(Arc::new(TestSupervisor::default()));
            let error = impatient.call(call("add", Some("key-1"), 1)).unwrap_err();
            *code.lock().unwrap() = Some(error.code());
        })
    };
    let process = world.start(&Honest, ReadDurability::WriteAhead, &crash);
    let report = process.gateway.call(call("add", Some("key-1"), 1)).unwrap();
    assert_eq!(*code.lock().unwrap(), Some(Code::StateLockAcquireFailed));
    assert_eq!(
        (report.state, report.result),
        (State::Completed, json!({ "wrote": { "value": 1 } }))
    );
    assert_eq!(world.tools.lock().dispatches.len(), 1);
}

#[test]
fn a_caller_takes_over_from_one_that_died() {
    for (at, dispatches) in [(2, 1), (3, 1), (4, 2), (5, 2)] {
        let world = World::default();
        let dead = interrupt(&world, call("add", Some("key-1"), 1), at);
        let gateway = world.gateway(Arc::new(TestSupervisor::default()));
        let report = gateway.call(call("add", Some("key-1"), 1)).unwrap();
        assert_eq!((report.trace_id, report.state), (dead, State::Completed), "died at {at}");
        assert_eq!((report.redispatches.len(), report.replayed), (1, false));
        assert_eq!(world.tools.lock().dispatches.len(), dispatches);
        assert_eq!(gateway.recover(dead).unwrap().plan, RecoveryPlan::Nothing);
    }
}

#[test]
fn a_caller_that_waits_takes_over_when_the_holder_dies() {
    let world = World::default();
    let waiter = Arc::new(std::sync::Mutex::new(None));
    let crash = {
        let (world, waiter) = (world.clone(), Arc::clone(&waiter));
        // The other caller comes before the effect, and its holder dies right after it.
        Crash::with_interlude(Some(4), 3, move |_| {
            let thread = std::thread::spawn(move || {
                let patient = TestSupervisor::default().with_timeout(Duration::from_secs(60));
                world.gateway(Arc::new(patient)).call(call("add", Some("key-1"), 1)).unwrap()
            });
            *waiter.lock().unwrap() = Some(thread);
        })
    };
    let process = world.start(&Honest, ReadDurability::WriteAhead, &crash);
    let holder =
        std::panic::AssertUnwindSafe(|| process.gateway.call(call("add", Some("key-1"), 1)));
    assert!(Crash::is_crash(std::panic::catch_unwind(holder).unwrap_err().as_ref()));
    drop(process);
    let report = waiter.lock().unwrap().take().unwrap().join().unwrap();
    assert_eq!((report.state, report.redispatches.len()), (State::Completed, 1));
    assert_eq!(world.tools.lock().dispatches.len(), 2);
    assert_eq!(world.shared.tables().traces.len(), 1);
}

/// Answers that a key is taken as one did who looked just before the call under it ended.
struct JustBefore;

impl Meddle for JustBefore {
    fn append(&self, inner: &dyn Store, append: Append<'_>) -> Result<Appended, AppendError> {
        inner.append(append).map_err(|error| match error {
            AppendError::KeyTaken(mut record) => {
                record.effect_digest = None;
                AppendError::KeyTaken(record)
            }
            other @ (AppendError::Fenced { .. }
            | AppendError::Chain { .. }
            | AppendError::Store(_)) => other,
        })
    }
}

#[test]
fn a_call_that_ends_while_another_caller_asks_is_a_replay_for_that_one() {
    let world = World::default();
    let request = call("add", Some("key-1"), 1);
    let first = world.gateway(Arc::new(TestSupervisor::default())).call(request.clone()).unwrap();
    let store = Meddled::new(Arc::new(world.store()), JustBefore);
    let late = world.gateway_on(Arc::new(store), Arc::new(TestSupervisor::default()));
    assert_eq!(late.call(request).unwrap(), replay_of(&first));
    assert_eq!(world.tools.lock().dispatches.len(), 1);
}
