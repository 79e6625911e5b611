//! Crashes a gateway at every point it can crash, and its recovery too, and checks after each way
//! of crashing that nothing was lost, doubled or made up.

#![expect(clippy::print_stdout, reason = "the number of scenarios is part of the result")]

use std::sync::Mutex;

use windlass_testkit::gateway::{Honest, Scenario, Tally, explore, scenarios};

/// Explores scenarios on two threads; what one of them finds does not stop the others.
fn sweep(all: Vec<Scenario>) -> Tally {
    let queue = Mutex::new(all);
    let total = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap().pop();
                    let Some(scenario) = next else { return };
                    let tally = explore(&scenario, &Honest, std::env::var("D").map_or(scenario.crashes, |d| d.parse().unwrap()));
                    println!("  {}: {}", scenario.name, tally.scenarios);
                    total.lock().unwrap().add(tally);
                }
            });
        }
    });
    total.into_inner().unwrap()
}

#[test]
fn every_sequence_of_crashes_ends_as_the_calm_run() {
    let started = std::time::Instant::now();
    let tally = sweep(scenarios());
    let (scenarios, violations) = (tally.scenarios, tally.violations.len());
    println!("crash sweep: {scenarios} scenarios, {violations} violations");
    println!("{:?}", started.elapsed());
    for violation in &tally.violations {
        println!("{}: {}", violation.invariant, violation.message);
    }
    assert_eq!(tally.violations, []);
}
