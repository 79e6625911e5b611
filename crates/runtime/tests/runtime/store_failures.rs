//! A store that fails at any one call: the error surfaces with its code, and later all ends right.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use windlass_kernel::artifact::Redispatch;
use windlass_kernel::{Code, ReplayPoint, State, TraceId};
use windlass_runtime::{Answer, CallReport, Gateway, GatewayError};
use windlass_store::{
    AcquireError, Append, AppendError, Appended, IdempotencyRecord, Lease, Record, Slot, Store,
    StoreError, TraceFilter, TraceState,
};
use windlass_testkit::gateway::{Meddle, Meddled, TestSupervisor, World, call, interrupt};
use windlass_testkit::people::by;

/// How the store fails.
#[derive(Clone, Copy, Debug)]
enum Failure {
    Full,
    Unavailable,
}

impl Failure {
    fn error(self, operation: &'static str) -> StoreError {
        match self {
            Self::Full => StoreError::Full { operation },
            Self::Unavailable => {
                StoreError::Unavailable { operation, source: "a test pulled the plug".into() }
            }
        }
    }

    const fn code(self) -> Code {
        match self {
            Self::Full => Code::StoreFull,
            Self::Unavailable => Code::StoreUnavailable,
        }
    }
}

/// Fails at its `at`-th call, whichever that is.
struct Failing {
    failure: Failure,
    at: u32,
    calls: Arc<AtomicU32>,
}

impl Failing {
    fn step(&self, operation: &'static str) -> Result<(), StoreError> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        if call == self.at { Err(self.failure.error(operation)) } else { Ok(()) }
    }
}

macro_rules! failing {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        impl Meddle for Failing {
            $(fn $name(&self, inner: &dyn Store, $($arg: $type),*) -> $result {
                self.step(stringify!($name))?;
                inner.$name($($arg),*)
            })*
        }
    };
}

failing! {
    load_state(trace_id: TraceId) -> Result<TraceState, StoreError>;
    append(append: Append<'_>) -> Result<Appended, AppendError>;
    list_log_entries(trace_id: TraceId, after: u64, limit: usize)
        -> Result<Vec<Record>, StoreError>;
    write_replay_point(lease: &Lease, point: &ReplayPoint) -> Result<(), AppendError>;
    load_latest_replay_point(trace_id: TraceId) -> Result<Option<ReplayPoint>, StoreError>;
    acquire(trace_id: TraceId) -> Result<Lease, AcquireError>;
    release(lease: Lease) -> Result<(), StoreError>;
    load_idempotency(slot: &Slot) -> Result<Option<IdempotencyRecord>, StoreError>;
    record_redispatch(lease: &Lease, redispatch: &Redispatch) -> Result<(), AppendError>;
    list_redispatches(trace_id: TraceId) -> Result<Vec<Redispatch>, StoreError>;
    list_traces(filter: &TraceFilter) -> Result<Vec<TraceState>, StoreError>;
}

/// Does something with a gateway whose store fails at each call in turn. Each time the error must
/// surface, or the result be the right one, and another process must bring all to its right end.
fn fail_at_each_call(
    set_up: impl Fn(&World),
    act: impl Fn(&Gateway) -> Result<CallReport, GatewayError>,
    finish: impl Fn(&Gateway) -> CallReport,
) -> u32 {
    let mut tried = 0;
    for failure in [Failure::Full, Failure::Unavailable] {
        for at in 1.. {
            let world = World::default();
            set_up(&world);
            let calls = Arc::new(AtomicU32::new(0));
            let failing = Failing { failure, at, calls: Arc::clone(&calls) };
            let store = Meddled::new(Arc::new(world.store()), failing);
            let gateway = world.gateway_on(Arc::new(store), Arc::new(TestSupervisor::default()));
            let told = act(&gateway);
            let reached = calls.load(Ordering::SeqCst) >= at;
            drop(gateway);
            if let Err(error) = &told {
                assert_eq!(error.code(), failure.code(), "{at}: {error:?}");
            }
            let after = world.gateway(Arc::new(TestSupervisor::default()));
            for one in after.recover_all().unwrap() {
                one.result.unwrap();
            }
            let end = finish(&after);
            if let Ok(told) = told {
                assert_eq!((told.state, &told.result), (end.state, &end.result), "{at}");
            }
            let verified = windlass_journal::verify_store(&world.store(), &mut |_| {}).unwrap();
            assert_eq!(verified.broken, 0);
            let tools = world.tools.lock();
            assert!(tools.runs.values().all(|run| run.executed - run.undone <= 1), "{tools:?}");
            if !reached {
                break;
            }
            tried += 1;
        }
    }
    tried
}

#[test]
fn a_call_survives_a_store_that_fails_once() {
    for (tool, state) in [
        ("add", State::Completed),
        ("post", State::Completed),
        ("fail", State::Failed),
        ("deny", State::Denied),
    ] {
        let request = || call(tool, Some("key-1"), 1);
        let tried = fail_at_each_call(
            |_| {},
            |gateway| gateway.call(request()),
            |gateway| {
                let report = gateway.call(request()).unwrap();
                assert_eq!(report.state, state, "{tool}");
                report
            },
        );
        println!("{tool}: {tried} failures");
    }
}

#[test]
fn a_repeat_survives_a_store_that_fails_once() {
    let request = || call("add", Some("key-1"), 1);
    let tried = fail_at_each_call(
        |world| {
            world.gateway(Arc::new(TestSupervisor::default())).call(request()).unwrap();
        },
        |gateway| gateway.call(request()),
        |gateway| gateway.call(request()).unwrap(),
    );
    assert!(tried >= 8, "{tried}");
}

#[test]
fn a_recovery_survives_a_store_that_fails_once() {
    for (tool, state) in
        [("add", State::Completed), ("post", State::Completed), ("book", State::Failed)]
    {
        let request = || call(tool, Some("key-1"), 1);
        let tried = fail_at_each_call(
            |world| {
                let _ = interrupt(world, request(), 4);
            },
            |gateway| {
                let mut all = gateway.recover_all()?;
                all.remove(0).result.map(|recovery| recovery.report)
            },
            |gateway| {
                let report = gateway.call(request()).unwrap();
                assert_eq!(report.state, state, "{tool}");
                report
            },
        );
        assert!(tried >= 16, "{tool}: {tried}");
    }
}

#[test]
fn a_decision_survives_a_store_that_fails_once() {
    let newest =
        |gateway: &Gateway| gateway.store().list_traces(&every()).map(|all| all[0].head.trace_id);
    let decide = |gateway: &Gateway| {
        let attribution = by("Ada", "I looked");
        gateway.decide(newest(gateway)?, Answer::Approve, attribution)
    };
    let tried = fail_at_each_call(
        |world| {
            let gateway = world.gateway(Arc::new(TestSupervisor::default()));
            gateway.call(call("ask", Some("key-1"), 1)).unwrap();
        },
        decide,
        |gateway| {
            let shown = gateway.show(newest(gateway).unwrap()).unwrap();
            let report = if shown.hold.is_some() { decide(gateway).unwrap() } else { shown };
            assert_eq!(report.state, State::Completed);
            report
        },
    );
    assert!(tried >= 12, "{tried}");
}

const fn every() -> TraceFilter {
    TraceFilter::all(10)
}

/// Never gives a lease back.
struct NeverReleases;

impl Meddle for NeverReleases {
    fn release(&self, _: &dyn Store, _: Lease) -> Result<(), StoreError> {
        Err(StoreError::Full { operation: "release" })
    }
}

#[test]
fn a_lease_that_cannot_be_given_back_does_not_cost_the_answer() {
    let world = World::default();
    let trace_id = interrupt(&world, call("add", Some("key-1"), 1), 6);
    let store = Meddled::new(Arc::new(world.store()), NeverReleases);
    let gateway = world.gateway_on(Arc::new(store), Arc::new(TestSupervisor::default()));
    assert_eq!(gateway.call(call("post", Some("key-2"), 2)).unwrap().state, State::Completed);
    assert_eq!(gateway.recover(trace_id).unwrap().report.state, State::Completed);
    let asked = gateway.call(call("ask", Some("key-3"), 3)).unwrap();
    assert!(asked.hold.is_some());
    // The process still holds it; once it is gone, a person can decide.
    drop(gateway);
    let gateway = world.gateway(Arc::new(TestSupervisor::default()));
    let attribution = by("Ada", "I looked");
    let report = gateway.decide(asked.trace_id, Answer::Approve, attribution).unwrap();
    assert_eq!(report.state, State::Completed);
}
