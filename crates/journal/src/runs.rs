//! Finding runs by name, and listing them.

use std::sync::Arc;

use windlass_kernel::run::{Run, RunName};
use windlass_kernel::{Machine, State, TraceId, Uuid7};
use windlass_store::{Store, StoreError, TraceFilter, TraceState};

use crate::error::JournalError;
use crate::reader::{Check, Reader};

/// What stands for the run that was started last.
pub const LAST: &str = "last";
/// How the id of a hold begins; the run's name follows.
const HOLD_PREFIX: &str = "CP_";
/// The length of a run's name.
const NAME_CHARS: usize = "run_20260202_120000_1a2b3c4d".len();
/// How the name of a run begins.
const NAME_PREFIX: &str = "run_";
/// So many characters of the name of a run say when it was started.
const NAME_TIME_CHARS: usize = "run_20260202_120000".len();
/// So many characters of an id say when it was made.
const ID_TIME_CHARS: usize = "01890a5d-ac96".len();
/// The first time, in milliseconds since 1970, for which an id has no room.
const ID_MS_END: u64 = 1 << 48;
/// The shortest beginning of a name or trace that stands for a run, without what all names begin with.
const BEGINNING_CHARS_MIN: usize = 4;

/// Which runs to list.
#[derive(Clone, Copy, Debug)]
pub struct RunFilter {
    /// Only those that have not ended.
    pub open_only: bool,
    /// Only those in this state.
    pub state: Option<State>,
    /// At most so many.
    pub limit: usize,
}

/// A run in a list: its head, without its history.
#[derive(Clone, Copy, Debug)]
pub struct RunListing {
    /// Its name.
    pub name: RunName,
    /// Its trace.
    pub trace: TraceState,
    /// Whether a live process is at work on it.
    pub live: bool,
}

/// The runs of a store.
#[derive(Clone)]
pub struct Runs {
    store: Arc<dyn Store>,
}

impl Runs {
    /// Reads from a store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// The store that they are in.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// Finds a run by its name, the id of its trace, the id of one of its holds, the unique beginning of its name
    /// or trace, or as `last`.
    ///
    /// # Errors
    /// [`JournalError::NoSuchRun`] when there is none, [`JournalError::SeveralRuns`] when a beginning is not unique.
    pub fn find(&self, name: &str) -> Result<TraceId, JournalError> {
        let run = name.strip_prefix(HOLD_PREFIX).and_then(|hold| hold.get(..NAME_CHARS));
        let name = run.unwrap_or(name);
        let found = match (name.parse::<TraceId>(), name.parse()) {
            (Ok(trace_id), _) => match self.store.load_state(trace_id) {
                Ok(state) => is_run(&state).then_some(trace_id),
                Err(StoreError::NotFound { .. }) => None,
                Err(error) => return Err(error.into()),
            },
            (Err(_), Ok(name)) => self.find_named(&name)?,
            (Err(_), Err(_)) if name == LAST => self.newest()?,
            (Err(_), Err(_)) => self.find_beginning(name)?,
        };
        found.ok_or_else(|| JournalError::NoSuchRun { name: name.chars().take(80).collect() })
    }

    /// The run that was started last.
    fn newest(&self) -> Result<Option<TraceId>, JournalError> {
        let filter = RunFilter { open_only: false, state: None, limit: 1 };
        Ok(self.list(&filter)?.first().map(|run| run.trace.head.trace_id))
    }

    /// The only run whose name or trace begins like this.
    fn find_beginning(&self, start: &str) -> Result<Option<TraceId>, JournalError> {
        if start.strip_prefix(NAME_PREFIX).unwrap_or(start).len() < BEGINNING_CHARS_MIN {
            return Ok(None);
        }
        let (oldest, before) = bounds(start);
        let filter = TraceFilter {
            machine: Some(Machine::Run),
            not_before: Some(oldest),
            before,
            ..TraceFilter::all(usize::MAX)
        };
        let found = self.store.list_traces(&filter)?.into_iter().map(|run| run.head.trace_id);
        let begins = |id: &TraceId| {
            RunName::of(*id).to_string().starts_with(start) || id.to_string().starts_with(start)
        };
        let found: Vec<TraceId> = found.filter(begins).collect();
        match found.as_slice() {
            [] => Ok(None),
            [run] => Ok(Some(*run)),
            [first, second, ..] => Err(JournalError::SeveralRuns {
                start: start.to_owned(),
                count: found.len(),
                two: [RunName::of(*first), RunName::of(*second)],
            }),
        }
    }

    /// Lists runs, newest first.
    ///
    /// # Errors
    /// [`JournalError`] when the store cannot be read.
    pub fn list(&self, filter: &RunFilter) -> Result<Vec<RunListing>, JournalError> {
        let RunFilter { open_only, state, limit } = *filter;
        let machine = Some(Machine::Run);
        let filter = TraceFilter { open_only, state, machine, ..TraceFilter::all(limit) };
        let found = |trace: TraceState| {
            let live = self.store.is_held(&trace)?;
            Ok(RunListing { name: RunName::of(trace.head.trace_id), trace, live })
        };
        self.store.list_traces(&filter)?.into_iter().map(found).collect()
    }

    /// Reads a run and verifies it.
    ///
    /// # Errors
    /// [`JournalError`] when there is none, or it fails verification.
    pub fn read(&self, trace_id: TraceId) -> Result<Run, JournalError> {
        Reader::state_of(self.store(), trace_id, Check::Verified)
    }

    /// The trace of the run with this name.
    ///
    /// # Errors
    /// [`JournalError`] when the store cannot be read.
    pub fn find_named(&self, name: &RunName) -> Result<Option<TraceId>, JournalError> {
        let filter = TraceFilter {
            machine: Some(Machine::Run),
            not_before: Some(name.lower_bound()),
            before: Some(name.upper_bound()),
            ..TraceFilter::all(usize::MAX)
        };
        let mut runs = self.store.list_traces(&filter)?.into_iter();
        let run = runs.find(|run| name.names(run.head.trace_id));
        Ok(run.map(|run| run.head.trace_id))
    }
}

/// The oldest trace that can have a name or id that begins like this, and the first one that is too young.
fn bounds(start: &str) -> (TraceId, Option<TraceId>) {
    let id = |unix_ms| TraceId(Uuid7::from_parts(unix_ms, [0; 10]));
    let is_name = start.starts_with(NAME_PREFIX);
    let time_chars = if is_name { NAME_TIME_CHARS } else { ID_TIME_CHARS };
    let start = start.as_bytes();
    let start = start.get(..time_chars).unwrap_or(start);
    // What later traces begin with is greater, so that both bounds can be searched.
    let first = |is_beyond: &dyn Fn(&[u8]) -> bool| {
        let (mut low, mut high) = (0_u64, ID_MS_END);
        while low < high {
            let middle = low.midpoint(high);
            let trace_id = id(middle);
            let text =
                if is_name { RunName::of(trace_id).to_string() } else { trace_id.to_string() };
            let begins = text.as_bytes().get(..start.len()).unwrap_or_default();
            if is_beyond(begins) { high = middle } else { low = middle + 1 }
        }
        low
    };
    let oldest = first(&|begins| begins >= start).min(ID_MS_END - 1);
    let end = first(&|begins| begins > start);
    (id(oldest), (end < ID_MS_END).then(|| id(end)))
}

/// Whether a trace is a run.
#[must_use]
pub fn is_run(state: &TraceState) -> bool {
    state.head.state.is_some_and(|state| state.machine() == Machine::Run)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids of many times, also at both ends of what an id has room for.
    #[test]
    fn a_name_or_id_lies_within_the_bounds_of_each_of_its_beginnings() {
        let times = [0, 999, 1_000, 951_782_399_999, 1_770_033_600_000, 1_770_033_600_001];
        let late = [253_402_300_799_999, 253_402_300_800_000, ID_MS_END - 1];
        for unix_ms in times.into_iter().chain(late) {
            for random in [[0; 10], [0xff; 10]] {
                let id = TraceId(Uuid7::from_parts(unix_ms, random));
                for text in [RunName::of(id).to_string(), id.to_string()] {
                    for chars in BEGINNING_CHARS_MIN..=text.len() {
                        let (oldest, before) = bounds(&text[..chars]);
                        let is_within = oldest <= id && before.is_none_or(|before| id < before);
                        assert!(is_within, "{text} and {chars} characters");
                    }
                }
            }
        }
    }

    #[test]
    fn bounds_are_as_close_as_the_beginning_says() {
        let at = |unix_ms| TraceId(Uuid7::from_parts(unix_ms, [0; 10]));
        let day = 24 * 3600 * 1000;
        let second_of_february = 1_769_990_400_000;
        let whole_day = (at(second_of_february), Some(at(second_of_february + day)));
        assert_eq!(bounds("run_20260202"), whole_day);
        assert_eq!(bounds("run_20260202_"), whole_day);
        let noon = second_of_february + day / 2;
        let second = (at(noon), Some(at(noon + 1_000)));
        assert_eq!(bounds("run_20260202_120000"), second);
        assert_eq!(bounds("run_20260202_120000_1a2b"), second);
        assert_eq!(bounds("01890a5d-ac96"), (at(0x0189_0a5d_ac96), Some(at(0x0189_0a5d_ac97))));
        assert_eq!(bounds("01890a5d-"), (at(0x0189_0a5d_0000), Some(at(0x0189_0a5e_0000))));
        assert_eq!(bounds("ffff").1, None);
        // Nothing begins like this.
        for none in ["run_2026x", "zzzz", "0189/"] {
            let (oldest, before) = bounds(none);
            assert!(before.is_none_or(|before| before <= oldest), "{none}");
        }
    }
}
