//! Large plans: `next` must not search all phases each time, or this takes minutes.

use serde_json::json;
use windlass_kernel::run::plan::{PHASES_MAX, Plan};
use windlass_kernel::run::{Event, Next, Work};

use crate::run::harness::{Lab, done};
use crate::run::plans::{parallel, phase, serial};

/// Drives a run without failures; returns the number of its events.
fn drive(plan: Plan, shape: &str) -> usize {
    let mut lab = Lab::empty();
    lab.record(crate::run::harness::started(plan));
    loop {
        let event = match lab.run.next() {
            Next::Record(event) => *event,
            Next::Perform(works) => {
                let Work::Do { phase, attempt } = works[0] else { panic!() };
                let phase = lab.run.phase(phase).unwrap().0.id.clone();
                Event::PhaseDone { phase, attempt, done: Box::new(done(json!({}))) }
            }
            Next::Wait | Next::Nothing => panic!(),
            Next::Done => break,
        };
        lab.record(event);
    }
    assert_eq!(lab.told().last().unwrap(), "ended PASS pass", "{shape}");
    lab.events.len()
}

#[test]
fn ten_thousand_phases_are_driven_to_the_end() {
    let name = |at: usize| format!("p{at}");
    let chain = (0..PHASES_MAX).map(|at| match at {
        0 => phase("p0", &[]),
        _ => phase(&name(at), &[&name(at - 1)]),
    });
    let events = 2 * PHASES_MAX + 3;
    assert_eq!(drive(serial(chain.collect()), "chain"), events);
    let mut wide: Vec<_> = (1..PHASES_MAX).map(|at| phase(&name(at), &[])).collect();
    let all: Vec<String> = wide.iter().map(|phase| phase.id.clone()).collect();
    wide.push(phase("last", &all.iter().map(String::as_str).collect::<Vec<_>>()));
    assert_eq!(drive(serial(wide.clone()), "wide, serial"), events);
    wide.truncate(2000);
    assert_eq!(drive(parallel(wide), "wide, parallel"), 4003);
}
