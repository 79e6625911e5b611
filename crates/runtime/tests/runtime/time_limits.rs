//! The working time that a caller has left, as a limit of its calls.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_connect::{Connect, Job, Reply, Target};
use windlass_kernel::State;
use windlass_kernel::artifact::FileChange;
use windlass_kernel::grant::Terms;
use windlass_runtime::{Answer, Clock as _, Gateway, ReadDurability, Settings};
use windlass_testkit::gateway::{TestSupervisor, ToolWorld, World, call, interrupt};
use windlass_testkit::people::{Everybody, by};

/// Tools that tell how much time they were given.
struct Timed {
    tools: Arc<ToolWorld>,
    given: Mutex<Vec<Duration>>,
}

impl Connect for Timed {
    fn perform(&self, job: &Job<'_>) -> Reply {
        self.given.lock().unwrap().push(job.limits.timeout);
        self.tools.perform(job)
    }

    fn foresee(&self, _: &Target, _: &str, _: &serde_json::Value) -> Option<FileChange> {
        None
    }
}

#[test]
fn the_time_that_is_left_limits_a_call_however_it_is_decided() {
    let world = World::default();
    let connect = Arc::new(Timed { tools: Arc::clone(&world.tools), given: Mutex::default() });
    let supervisor = TestSupervisor::default().with_timeout(Duration::from_secs(90));
    let supervisor = Arc::new(supervisor);
    let settings = Settings { reads: ReadDurability::WriteAhead, key_wait: Duration::ZERO };
    let (store, clock) = (Arc::new(world.store()), Arc::clone(&world.clock) as Arc<_>);
    let judge = Arc::clone(&supervisor) as Arc<_>;
    let gateway = Gateway::new(store, judge, Arc::clone(&connect) as Arc<_>, clock, settings, ".")
        .with_people(Arc::new(Everybody));
    let left = Some(Duration::from_secs(1));
    // Allowed.
    gateway.call_within(call("add", Some("key-1"), 1), left).unwrap();
    // Approved.
    let asked = gateway.call_within(call("ask", Some("key-2"), 1), left).unwrap();
    let by = by("Ann", "it may");
    gateway.decide_within(asked.trace_id, Answer::Approve, by, left).unwrap();
    // Granted.
    let until = world.clock.now().unix_ms() + 3_600_000;
    let terms = Terms {
        everything: false,
        command: None,
        path: None,
        run: None,
        times: 1,
        tool: "world/ask".to_owned(),
        until: windlass_kernel::Timestamp::from_unix_ms(until).unwrap(),
    };
    gateway.grant(terms, "Ann", "the release").unwrap();
    let report = gateway.call_within(call("ask", Some("key-3"), 1), left).unwrap();
    assert_eq!(report.state, State::Completed);
    // Interrupted, and repeated with its key.
    let trace_id = interrupt(&world, call("add", Some("key-4"), 1), 4);
    let again = gateway.call_within(call("add", Some("key-4"), 1), left).unwrap();
    assert_eq!((again.trace_id, again.state), (trace_id, State::Completed));
    let given = connect.given.lock().unwrap();
    assert_eq!(given.len(), 4);
    assert!(given.iter().all(|one| *one <= Duration::from_secs(1)), "{given:?}");
    // Without time it is not made at all, and does not use up its key.
    drop(given);
    let none = Some(Duration::ZERO);
    let report = gateway.call_within(call("add", Some("key-5"), 1), none).unwrap();
    assert!(!report.error.unwrap().may_have_run);
    assert_eq!(connect.given.lock().unwrap().len(), 4);
}
