//! Crashes a gateway at every point it can crash, and its recovery too, and checks after each way
//! of crashing that nothing was lost, doubled or made up.

use std::sync::{Arc, Mutex};

use windlass_runtime::{
    FileWorkspace, Gateway, GatewayError, PolicySupervisor, RecoveredCall, Supervisor,
};
use windlass_testkit::gateway::{
    Honest, Parts, RacedLease, SECRET, Scenario, Share, Tally, explore, explore_share, race,
    scenario, scenarios, test_set,
};

/// Explores on two threads; what one of them finds does not stop the other.
fn on_two_threads<T: Send>(work: Vec<T>, explore: impl Fn(T) -> Tally + Sync) -> Tally {
    let queue = Mutex::new(work);
    let total = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap().pop();
                    let Some(next) = next else { return };
                    let tally = explore(next);
                    total.lock().unwrap().add(tally);
                }
            });
        }
    });
    total.into_inner().unwrap()
}

fn report(what: &str, tally: &Tally) {
    let (scenarios, violations) = (tally.scenarios, tally.violations.len());
    println!("{what}: {scenarios} scenarios, {violations} violations");
    assert_eq!(tally.violations, []);
}

#[test]
fn every_sequence_of_crashes_ends_as_the_calm_run() {
    let work = scenarios().into_iter();
    let work = work.flat_map(|scenario| [0, 1].map(|number| (scenario.clone(), number)));
    let tally = on_two_threads(work.collect(), |(scenario, number)| {
        explore_share(&scenario, &Honest, scenario.crashes, Share { number, of: 2 })
    });
    report("crash sweep", &tally);
    assert!(tally.scenarios > 20_000, "the sweep has become small");
}

/// Recovers at its start only what was interrupted, and leaves alone what waits for a person.
struct Careful;

impl Parts for Careful {
    fn recover(&self, gateway: &Gateway) -> Result<Vec<RecoveredCall>, GatewayError> {
        gateway.recover_interrupted()
    }
}

#[test]
fn a_process_that_recovers_only_what_was_interrupted_ends_the_same() {
    let tally = on_two_threads(scenarios(), |scenario: Scenario| explore(&scenario, &Careful, 2));
    report("crash sweep, interrupted calls only", &tally);
}

/// The shipped supervisor instead of the scripted one.
struct Shipped(Arc<PolicySupervisor>);

impl Parts for Shipped {
    fn supervisor(&self) -> Arc<dyn Supervisor> {
        Arc::clone(&self.0) as Arc<_>
    }
}

#[test]
fn the_shipped_supervisor_ends_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = FileWorkspace::new(folder.path()).unwrap();
    let environment = [("WORLD_TOKEN".to_owned(), SECRET.to_owned())];
    let supervisor = PolicySupervisor::new(test_set().clone(), workspace, environment);
    let parts = Shipped(Arc::new(supervisor));
    let tally = on_two_threads(scenarios(), |scenario: Scenario| explore(&scenario, &parts, 1));
    report("crash sweep, shipped supervisor", &tally);
}

#[test]
fn two_processes_that_meet_at_any_point_make_one_call() {
    let parts: Arc<dyn Parts> = Arc::new(Honest);
    let names = ["repeated", "repeated, probed", "repeated, compensated", "repeated failure"];
    let mut work: Vec<_> = names.map(|name| (scenario(name), RacedLease::Kept)).into();
    work.push((scenario("repeated"), RacedLease::Lost));
    let tally = on_two_threads(work, |(scenario, lease)| race(&scenario, &parts, lease));
    report("two processes", &tally);
}
