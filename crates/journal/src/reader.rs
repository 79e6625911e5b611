//! Folding a trace from a store.

use std::ops::ControlFlow;

use windlass_kernel::{ChainError, Head, ReplayPoint, TraceId};
use windlass_store::{Record, Store, TraceState};

use crate::error::JournalError;
use crate::fold::{Fold, admit, agree, mismatch};
use crate::observer::{Observer, Origin, Step};

/// How many entries are read at once.
const PAGE: usize = 512;

/// What is verified while a trace is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Every entry and artifact; the newest replay point; and at the end the recorded head and plan.
    /// For everything that is decided or written.
    Verified,
    /// Every entry and artifact, but not the end: the trace may grow while it is read.
    Prefix,
    /// Nothing: artifacts are parsed and folded. For counts and lists.
    Skim,
}

/// Folds a trace, from its beginning or from a state folded before.
#[derive(Clone, Debug)]
pub struct Reader<F: Fold> {
    state: F,
    check: Check,
    /// What a trace read with [`Check::Verified`] was compared with.
    recorded: Option<TraceState>,
    replay_point: Option<ReplayPoint>,
}

impl<F: Fold> Reader<F> {
    /// A reader at the beginning of a trace.
    #[must_use]
    pub fn new(trace_id: TraceId, check: Check) -> Self {
        Self::from(F::empty(trace_id), check)
    }

    /// A reader that continues after `state`.
    #[must_use]
    pub const fn from(state: F, check: Check) -> Self {
        Self { state, check, recorded: None, replay_point: None }
    }

    /// Reads a whole trace and returns its state.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn state_of(store: &dyn Store, trace_id: TraceId, check: Check) -> Result<F, JournalError> {
        let mut reader = Self::new(trace_id, check);
        reader.read(store, &mut [])?;
        Ok(reader.state)
    }

    /// The state as far as it was read.
    #[must_use]
    pub const fn state(&self) -> &F {
        &self.state
    }

    /// The trace as the store recorded it apart from its entries; `None` unless it was verified.
    pub(crate) const fn recorded(&self) -> Option<&TraceState> {
        self.recorded.as_ref()
    }

    /// The entry of the newest replay point; 0 without one.
    pub(crate) fn replay_point(&self) -> u64 {
        self.replay_point.as_ref().map_or(0, |point| point.checkpoint_sequence_number)
    }

    /// The state as far as it was read.
    #[must_use]
    pub fn into_state(self) -> F {
        self.state
    }

    /// Reads to the end of the trace, or until `each` breaks, calling it for every entry.
    ///
    /// # Errors
    /// As [`Reader::read`]; what comes after a break is not read and not verified.
    pub fn for_each(
        &mut self,
        store: &dyn Store,
        each: &mut dyn FnMut(&Step<'_, F>) -> ControlFlow<()>,
    ) -> Result<(), JournalError> {
        self.read_with(store, &mut [], each)
    }

    /// Reads to the end of the trace, showing every entry to the observers.
    ///
    /// # Errors
    /// [`JournalError`] when the trace cannot be read, is of the other machine, or fails what is
    /// verified.
    pub fn read(
        &mut self,
        store: &dyn Store,
        observers: &mut [Box<dyn Observer<F> + '_>],
    ) -> Result<(), JournalError> {
        self.read_with(store, observers, &mut |_| ControlFlow::Continue(()))
    }

    fn read_with(
        &mut self,
        store: &dyn Store,
        observers: &mut [Box<dyn Observer<F> + '_>],
        each: &mut dyn FnMut(&Step<'_, F>) -> ControlFlow<()>,
    ) -> Result<(), JournalError> {
        if self.check == Check::Verified {
            self.load_recorded(store)?;
        }
        let trace_id = self.state.head().trace_id;
        let mut buffer = Vec::with_capacity(1024);
        loop {
            let after = self.state.head().sequence_number;
            let page = store.list_log_entries(trace_id, after, PAGE)?;
            for record in &page {
                if self.fold(record, &mut buffer, observers, each)?.is_break() {
                    return Ok(());
                }
            }
            if page.len() < PAGE && !self.has_grown(store)? {
                return self.compare_end();
            }
        }
    }

    /// Whether another process has appended to the trace since its head was loaded; the head is then loaded again.
    fn has_grown(&mut self, store: &dyn Store) -> Result<bool, JournalError> {
        let before = self.recorded.as_ref().map(|recorded| recorded.head.sequence_number);
        let Some(before) = before.filter(|at| self.state.head().sequence_number > *at) else {
            return Ok(false);
        };
        self.load_recorded(store)?;
        Ok(self.recorded.as_ref().is_some_and(|now| now.head.sequence_number > before))
    }

    /// Loads what a verified trace is compared with.
    fn load_recorded(&mut self, store: &dyn Store) -> Result<(), JournalError> {
        let trace_id = self.state.head().trace_id;
        let recorded = store.load_state(trace_id)?;
        if let Some(point) = store.load_latest_replay_point(trace_id)? {
            let corrupt = |source| JournalError::Corrupt { trace_id, source };
            point.validate().map_err(corrupt)?;
            let (expected, found) =
                (point.checkpoint_sequence_number, recorded.head.sequence_number);
            if expected > found {
                return Err(corrupt(ChainError::Truncated { expected, found }));
            }
            self.replay_point = Some(point);
        }
        if recorded.head.state.is_some_and(|state| state.machine() != F::MACHINE) {
            return Err(JournalError::WrongMachine { trace_id, expected: F::MACHINE });
        }
        self.recorded = Some(recorded);
        Ok(())
    }

    fn fold(
        &mut self,
        record: &Record,
        buffer: &mut Vec<u8>,
        observers: &mut [Box<dyn Observer<F> + '_>],
        each: &mut dyn FnMut(&Step<'_, F>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, JournalError> {
        let Record { entry, body } = record;
        let trace_id = self.state.head().trace_id;
        let corrupt = |source| JournalError::Corrupt { trace_id, source };
        if entry.to_state.machine() != F::MACHINE {
            return Err(JournalError::WrongMachine { trace_id, expected: F::MACHINE });
        }
        let head = match self.check {
            Check::Verified | Check::Prefix => {
                admit(self.state.head(), entry, body.as_deref(), buffer).map_err(corrupt)?
            }
            Check::Skim => Head::after(entry),
        };
        let Some(body) = body else {
            return Err(JournalError::Purged {
                trace_id,
                sequence_number: entry.sequence_number,
                artifact: entry.artifact_type,
            });
        };
        let artifact = match self.check {
            Check::Verified | Check::Prefix => F::read(entry, body),
            Check::Skim => F::skim(entry, body),
        };
        let artifact = artifact.map_err(corrupt)?;
        for observer in observers.iter_mut() {
            observer.before(&self.state, &artifact);
        }
        self.state.apply(entry, &artifact, head).map_err(corrupt)?;
        if let Some(point) = &self.replay_point
            && point.checkpoint_sequence_number == head.sequence_number
        {
            point.agrees_with(&head).map_err(corrupt)?;
        }
        let (artifact, state) = (&artifact, &self.state);
        let step = Step { entry, artifact, state, origin: Origin::Read };
        for observer in observers.iter_mut() {
            observer.after(&step);
        }
        Ok(each(&step))
    }

    /// Compares the end of a verified trace with what was recorded apart from its entries.
    fn compare_end(&self) -> Result<(), JournalError> {
        let Some(recorded) = &self.recorded else { return Ok(()) };
        let trace_id = recorded.head.trace_id;
        let corrupt = |source| JournalError::Corrupt { trace_id, source };
        agree(self.state.head(), self.state.plan_id(), recorded).map_err(corrupt)
    }
}

/// Reads one entry and verifies it by itself: its position, its own digest and its artifact's digest.
/// What comes before and after it is not looked at.
///
/// # Errors
/// [`JournalError::Corrupt`] when one of them is wrong.
pub fn read_entry(
    store: &dyn Store,
    trace_id: TraceId,
    sequence_number: u64,
) -> Result<Option<Record>, JournalError> {
    let page = store.list_log_entries(trace_id, sequence_number.saturating_sub(1), 1)?;
    let Some(record) = page.into_iter().next() else { return Ok(None) };
    let entry = &record.entry;
    let corrupt = |source| JournalError::Corrupt { trace_id, source };
    if entry.trace_id != trace_id {
        let found = entry.trace_id;
        return Err(corrupt(ChainError::ForeignTrace { sequence_number, found }));
    }
    if entry.sequence_number != sequence_number {
        let found = entry.sequence_number;
        return Err(corrupt(ChainError::SequenceGap { expected: sequence_number, found }));
    }
    if entry.compute_digest(&mut Vec::with_capacity(1024)) != entry.entry_digest {
        return Err(corrupt(ChainError::OwnDigest { sequence_number }));
    }
    let body = record.body.as_deref();
    if body.is_some_and(|body| windlass_kernel::Digest::of(body) != entry.artifact_digest) {
        return Err(corrupt(mismatch(entry)));
    }
    Ok(Some(record))
}
