//! Two processes at work on one key: the second one comes in at every point of the first one's life,
//! and each of them may die at every point of its own.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use windlass_kernel::Code;

use super::crash::Crash;
use super::explore::Tally;
use super::invariant::Outcome;
use super::scenario::{Client, Life, Scenario, live};
use super::world::{Parts, World};

/// What becomes of the first process's lease when the second one comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// It keeps it: a live holder is never robbed.
    Kept,
    /// It is lost once the tool has answered, as when a machine sleeps for too long: what it still
    /// wants to write must be refused.
    Lost,
}

/// One way in which the two can meet.
#[derive(Clone, Copy, Debug)]
struct Meeting {
    /// At which point of the first life the second one happens.
    when: u32,
    /// Where the first life ends, if it does.
    first_dies: Option<u32>,
    /// Where the second life ends, if it does.
    second_dies: Option<u32>,
    lease: Lease,
}

/// Lets two clients make the call of `scenario`, whose steps are the same call twice, from two
/// processes that meet in every way.
///
/// # Panics
/// When a life throws anything but its planned crash.
#[must_use]
pub fn race(scenario: &Scenario, parts: &Arc<dyn Parts>, lease: Lease) -> Tally {
    let (world, mut client) = (World::default(), Client::default());
    let _ = live(&world, scenario, parts.as_ref(), &mut client, None);
    let calm = Outcome::new(scenario, &world, &client, 0);
    let mut tally = Tally::default();
    let none_or_from = |start: u32| std::iter::once(None).chain((start..).map(Some));
    for when in 1.. {
        'second: for second_dies in none_or_from(1) {
            for first_dies in none_or_from(when) {
                let meeting = Meeting { when, first_dies, second_dies, lease };
                let met = meet(scenario, parts, meeting);
                let Some(second) = met.second else { return tally };
                if second_dies.is_some() && second == Life::Done {
                    break 'second;
                }
                if first_dies.is_some() && met.first == Life::Done {
                    break;
                }
                let crashed = |life| usize::from(life == Life::Crashed);
                let crashes = crashed(met.first) + crashed(second);
                let end = Outcome::new(scenario, &met.world, &met.client, crashes);
                tally.judge(&end, &calm, &format!("{meeting:?}"));
                if tally.is_full() {
                    return tally;
                }
            }
        }
    }
    tally
}

/// What is left of a meeting.
struct Met {
    world: World,
    client: Client,
    first: Life,
    /// `None` when the first life was over before the second one came in.
    second: Option<Life>,
}

fn meet(scenario: &Scenario, parts: &Arc<dyn Parts>, meeting: Meeting) -> Met {
    let world = World::default();
    let once =
        Scenario { steps: scenario.steps.iter().take(1).cloned().collect(), ..scenario.clone() };
    let second = Arc::new(Mutex::new((Client::default(), None)));
    let crash = {
        let (world, once, parts) = (world.clone(), once.clone(), Arc::clone(parts));
        let second = Arc::clone(&second);
        Crash::with_interlude(meeting.first_dies, meeting.when, move |point| {
            if meeting.lease == Lease::Lost && point == "effect.after" {
                world.shared.tamper(|tables| {
                    tables.traces.values_mut().for_each(|trace| trace.holder = None);
                });
            }
            let mut second = second.lock().unwrap_or_else(PoisonError::into_inner);
            let (client, life) = &mut *second;
            *life = Some(live(&world, &once, parts.as_ref(), client, meeting.second_dies));
        })
    };
    let mut client = Client::default();
    let process = world.start(parts.as_ref(), scenario.reads, &crash);
    let served = catch_unwind(AssertUnwindSafe(|| {
        client.serve(&process.gateway, parts.as_ref(), &once.steps)
    }));
    drop(process);
    let first = match served {
        Ok(()) => Life::Done,
        Err(thrown) if Crash::is_crash(thrown.as_ref()) => Life::Crashed,
        Err(thrown) => resume_unwind(thrown),
    };
    if first == Life::Crashed {
        parts.after_death(&world);
    }
    let (mut other, life) = second.lock().unwrap_or_else(PoisonError::into_inner).clone();
    // Whoever got no answer asks again, now that the other one is gone.
    for client in [&mut client, &mut other] {
        let expected = [Code::StateLockAcquireFailed, Code::StateConcurrentExecution];
        client.errors.retain(|(_, code)| !expected.contains(code));
        let _ = live(&world, &once, parts.as_ref(), client, None);
    }
    client.answers.append(&mut other.answers);
    client.errors.append(&mut other.errors);
    Met { world, client, first, second: life }
}
