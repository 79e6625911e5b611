//! Every crash at every point, and every crash of the recovery from it.

use super::invariant::{self, Outcome};
use super::scenario::{Client, Life, Scenario, live};
use super::world::{Parts, World};

/// How many violations are described.
const VIOLATIONS_MAX: usize = 8;

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its name.
    pub invariant: &'static str,
    /// What was found, and after which crashes.
    pub message: String,
}

/// What was tried and what was found.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// How many ways of crashing were tried.
    pub scenarios: u64,
    /// The first violations.
    pub violations: Vec<Violation>,
}

impl Tally {
    /// Adds another one's numbers.
    pub fn add(&mut self, other: Self) {
        self.scenarios += other.scenarios;
        self.violations.extend(other.violations);
    }

    pub(super) fn is_full(&self) -> bool {
        self.violations.len() >= VIOLATIONS_MAX
    }

    /// Checks what is left of one way of crashing.
    pub(super) fn judge(&mut self, outcome: &Outcome<'_>, calm: &Outcome<'_>, way: &str) {
        self.scenarios += 1;
        self.violations.extend(invariant::check(outcome, calm).map(|mut violation| {
            violation.message = format!("{}, {way}: {}", outcome.scenario.name, violation.message);
            violation
        }));
    }
}

/// Runs a scenario calmly, then with every sequence of up to `crashes` crashes, each at every point
/// of the life it ends, and checks every invariant after each.
///
/// # Panics
/// When a life throws anything but its planned crash.
#[must_use]
pub fn explore(scenario: &Scenario, parts: &dyn Parts, crashes: usize) -> Tally {
    explore_share(scenario, parts, crashes, WHOLE)
}

/// Which first crashes to try, so that several threads can divide a scenario among them.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// The number of this share, from 0.
    pub number: u32,
    /// How many shares there are.
    pub of: u32,
}

/// As [`explore`], but for one share of the first crashes; the calm run belongs to the first share.
///
/// # Panics
/// As [`explore`].
#[must_use]
pub fn explore_share(
    scenario: &Scenario,
    parts: &dyn Parts,
    crashes: usize,
    share: Share,
) -> Tally {
    let (world, mut client) = (World::default(), Client::default());
    let _ = live(&world, scenario, parts, &mut client, None);
    let calm = Outcome::new(scenario, &world, &client, 0);
    let mut sweep = Sweep { scenario, parts, calm: &calm, share, tally: Tally::default() };
    if share.number == 0 {
        sweep.tally.judge(&calm, &calm, "calm");
    }
    if crashes > 0 {
        sweep.descend(&World::default(), &Client::default(), crashes, &mut Vec::new());
    }
    sweep.tally
}

const WHOLE: Share = Share { number: 0, of: 1 };

struct Sweep<'a> {
    scenario: &'a Scenario,
    parts: &'a dyn Parts,
    calm: &'a Outcome<'a>,
    share: Share,
    tally: Tally,
}

impl Sweep<'_> {
    /// Tries every point of the next life as its end, and everything that can follow.
    fn descend(&mut self, from: &World, known: &Client, crashes: usize, points: &mut Vec<u32>) {
        let Share { number, of } = if points.is_empty() { self.share } else { WHOLE };
        for at in (1 + number..).step_by(of as usize) {
            let (world, mut client) = (from.fork(), known.clone());
            let life = live(&world, self.scenario, self.parts, &mut client, Some(at));
            if life == Life::Done || self.tally.is_full() {
                return;
            }
            points.push(at);
            self.finish(&world.fork(), client.clone(), points);
            if crashes > 1 {
                self.descend(&world, &client, crashes - 1, points);
            }
            points.pop();
        }
    }

    /// Lets a last process live to its end, and checks what is left.
    fn finish(&mut self, world: &World, mut client: Client, points: &[u32]) {
        let _ = live(world, self.scenario, self.parts, &mut client, None);
        let end = Outcome::new(self.scenario, world, &client, points.len());
        self.tally.judge(&end, self.calm, &format!("crashes at {points:?}"));
    }
}
