//! Random histories: two backends must give the same answers.

use windlass_kernel::{Machine, State};

use super::Harness;
pub use super::replay::run_history;
use crate::types::After;

/// How many processes work at once.
pub const PROCESSES: usize = 3;
/// How many traces a history has.
pub const TRACES: usize = 12;
/// How many keys it has.
pub const KEYS: usize = 6;

/// One step. Processes, traces and keys have numbers; a process that ends is replaced by a new one with
/// the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Creates a trace, which may exist already.
    Create {
        /// The process.
        process: usize,
        /// The trace.
        trace: usize,
        /// How many entries it gets.
        count: usize,
        /// What happens to a key.
        key: Key,
        /// What happens to the lease.
        after: After,
    },
    /// Appends to a trace by a lease that was granted before, or that is acquired now.
    Append {
        /// The process.
        process: usize,
        /// The trace.
        trace: usize,
        /// How many entries.
        count: usize,
        /// What is wrong with the last of them.
        fault: Option<Fault>,
        /// Which lease.
        lease: Which,
        /// What happens to a key.
        key: Key,
        /// What happens to the lease.
        after: After,
    },
    /// Acquires a lease.
    Acquire {
        /// The process.
        process: usize,
        /// The trace.
        trace: usize,
    },
    /// Releases a lease.
    Release {
        /// The process.
        process: usize,
        /// The trace.
        trace: usize,
        /// Which lease.
        lease: Which,
    },
    /// Kills a process.
    Kill {
        /// The process.
        process: usize,
    },
    /// Ends a process in order.
    Close {
        /// The process.
        process: usize,
    },
    /// Writes a replay point.
    ReplayPoint {
        /// The process.
        process: usize,
        /// The trace.
        trace: usize,
        /// Which lease.
        lease: Which,
        /// Whether it matches the trace.
        honest: bool,
    },
    /// Records a redispatch.
    Redispatch {
        /// The process.
        process: usize,
        /// The trace.
        trace: usize,
        /// Which lease.
        lease: Which,
        /// The error in its number.
        off: u32,
    },
    /// Lists traces.
    List {
        /// The process.
        process: usize,
        /// Only those that have not ended.
        open_only: bool,
        /// Only those in this state.
        state: Option<State>,
        /// Only those of this kind.
        machine: Option<Machine>,
        /// Only those of this one's plan.
        plan: Option<usize>,
        /// None older than this one.
        not_before: Option<usize>,
        /// Only those older than this one.
        before: Option<usize>,
        /// At most so many.
        limit: usize,
    },
    /// Loads everything of a trace.
    Load {
        /// The process.
        process: usize,
        /// The trace.
        trace: usize,
        /// The entries after this one.
        after: u64,
        /// At most so many.
        limit: usize,
    },
    /// Loads a key.
    LoadKey {
        /// The process.
        process: usize,
        /// The key.
        key: usize,
    },
    /// Scans the store.
    Scan {
        /// The process.
        process: usize,
    },
}

/// What an append does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Nothing.
    None,
    /// Reserves it.
    Reserve(usize),
}

/// Which of the leases of a trace that were granted and not released. The process that owns a lease uses
/// it, whatever process the step names; the named process uses a lost or foreign one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The last one.
    Newest,
    /// The first one, which may be lost.
    Oldest,
    /// The last one of a process that has ended, once its trace was taken over.
    Lost,
    /// The last one of a live process, used by any process.
    Foreign,
}

/// An error in an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its number is too high.
    Gap,
    /// Its number exists already.
    Repeat,
    /// It belongs to another trace.
    Trace,
    /// It does not follow from the entry before.
    Previous,
    /// Its transition is not allowed.
    Transition,
    /// Its own digest is wrong.
    OwnDigest,
    /// Its artifact's digest is wrong.
    Body,
    /// Its schema is not the store's.
    Schema,
    /// There are no entries at all.
    Missing,
}

const FAULTS: [Fault; 9] = [
    Fault::Gap,
    Fault::Repeat,
    Fault::Trace,
    Fault::Previous,
    Fault::Transition,
    Fault::OwnDigest,
    Fault::Body,
    Fault::Schema,
    Fault::Missing,
];

/// A pseudo-random generator (xorshift64*).
struct Random(u64);

impl Random {
    const fn new(seed: u64) -> Self {
        // Zero is a fixed point; and similar seeds should begin differently.
        let mixed = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self(if mixed == 0 { 1 } else { mixed })
    }

    const fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    }

    /// A number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next()).unwrap() % bound
    }

    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        *among.get(self.below(among.len())).unwrap()
    }

    fn key(&mut self) -> Key {
        if self.one_in(4) { Key::Reserve(self.below(KEYS)) } else { Key::None }
    }

    fn lease(&mut self) -> Which {
        self.pick(&[
            Which::Newest,
            Which::Newest,
            Which::Newest,
            Which::Newest,
            Which::Oldest,
            Which::Lost,
            Which::Foreign,
        ])
    }

    fn after(&mut self) -> After {
        if self.one_in(3) { After::Release } else { After::Keep }
    }
}

/// Generates a history of so many steps; the same seed gives the same history.
#[must_use]
pub fn random_history(seed: u64, steps: usize) -> Vec<Op> {
    let mut random = Random::new(seed);
    (0..steps).map(|_| step(&mut random)).collect()
}

fn step(random: &mut Random) -> Op {
    let (process, trace) = (random.below(PROCESSES), random.below(TRACES));
    match random.below(30) {
        0..4 => Op::Create {
            process,
            trace,
            count: random.below(4) + 1,
            key: random.key(),
            after: random.after(),
        },
        4..15 => Op::Append {
            process,
            trace,
            count: random.below(3) + 1,
            fault: random.one_in(4).then(|| random.pick(&FAULTS)),
            lease: random.lease(),
            key: random.key(),
            after: random.after(),
        },
        15..18 => Op::Acquire { process, trace },
        18..20 => Op::Release { process, trace, lease: random.lease() },
        20 if random.one_in(2) => Op::Kill { process },
        20 if random.one_in(2) => Op::Close { process },
        20..22 => Op::LoadKey { process, key: random.below(KEYS) },
        22..24 => {
            Op::ReplayPoint { process, trace, lease: random.lease(), honest: !random.one_in(4) }
        }
        24..26 => {
            let off = u32::from(random.one_in(4));
            Op::Redispatch { process, trace, lease: random.lease(), off }
        }
        26 => Op::List {
            process,
            open_only: random.one_in(2),
            state: random.one_in(3).then(|| random.pick(State::ALL)),
            machine: random.one_in(3).then(|| random.pick(&[Machine::Call, Machine::Run])),
            plan: random.one_in(3).then(|| random.below(TRACES)),
            not_before: random.one_in(3).then(|| random.below(TRACES)),
            before: random.one_in(2).then(|| random.below(TRACES)),
            limit: random.below(TRACES + 2),
        },
        27 | 28 => {
            let after = u64::try_from(random.below(6)).unwrap();
            Op::Load { process, trace, after, limit: random.below(8) }
        }
        _ => Op::Scan { process },
    }
}

/// Applies one history to two backends and compares their answers.
///
/// # Panics
/// At the first answer that differs, with the seed.
pub fn assert_same_history(seed: u64, steps: usize, one: &dyn Harness, two: &dyn Harness) {
    let ops = random_history(seed, steps);
    let transcripts = (run_history(one, &ops), run_history(two, &ops));
    for (left, right) in transcripts.0.iter().zip(&transcripts.1) {
        // Lines are long: show the first difference.
        let same = left.chars().zip(right.chars()).take_while(|(one, two)| one == two).count();
        let shown = |line: &str| line.chars().skip(same.saturating_sub(200)).take(400).collect();
        let (one, two): (String, String) = (shown(left), shown(right));
        let step: String = left.chars().take(120).collect();
        assert!(left == right, "seed {seed}, {steps} steps: at {step}\n one: {one}\n two: {two}");
    }
    assert_eq!(transcripts.0.len(), transcripts.1.len(), "seed {seed}, {steps} steps");
}
