//! Verifying a whole store or one trace: every chain, artifact, link and recorded head.

use serde::Serialize;
use windlass_kernel::artifact::ToolEffect;
use windlass_kernel::grant::{Grant, GrantUse};
use windlass_kernel::run::Resolution;
use windlass_kernel::verify::ChainReport;
use windlass_kernel::{
    ChainError, Digest, Entry, Head, HoldReference, Machine, ReservedKey, State, TraceId, Uuid7,
};
use windlass_store::{KeyMismatch, Slot, Store, StoreError, TraceState, Visitor};

use crate::reader::{Check, Reader};
use crate::verifier::{Signature, TraceVerifier};

/// How many corrupt traces are described; the others are only counted.
const PROBLEMS_MAX: usize = 1000;
/// After how many entries progress is reported.
const PROGRESS_EVERY: u64 = 4096;
/// How many entries of one trace are read at once.
const PAGE: usize = 512;
/// Before the first trace is shown.
const NO_TRACE: TraceId = TraceId(Uuid7::from_parts(0, [0; 10]));

/// The result of verifying a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StoreReport {
    /// How many traces there are.
    pub traces: u64,
    /// How many entries.
    pub entries: u64,
    /// How many artifacts were purged; the chains are intact without them.
    pub missing_artifacts: u64,
    /// How many traces are corrupt.
    pub broken: u64,
    /// The first error of each, up to a thousand traces.
    pub problems: Vec<Problem>,
    /// What is wrong with the store itself.
    pub damage: Vec<String>,
    /// The valid signatures of people: of each key and name the first and the last.
    #[serde(skip)]
    pub signatures: Vec<(Signature, Signature)>,
}

/// A corrupt trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The trace.
    pub trace_id: TraceId,
    /// What was found.
    #[serde(flatten)]
    pub finding: ChainReport,
    /// In words.
    pub message: String,
}

impl StoreReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_intact(&self) -> bool {
        self.broken == 0 && self.damage.is_empty()
    }
}

/// Verifies everything in a store, and calls `progress` with the number of entries now and then.
///
/// # Errors
/// [`StoreError`] when the store itself cannot be read; a corrupt trace is a finding.
pub fn verify_store(
    store: &dyn Store,
    progress: &mut dyn FnMut(u64),
) -> Result<StoreReport, StoreError> {
    let mut verifier = Verifier {
        report: StoreReport::default(),
        trace: TraceVerifier::new(NO_TRACE),
        current: None,
        open: Vec::new(),
        granted: Vec::new(),
        key_mismatches: Vec::new(),
        holds: Vec::new(),
        progress,
    };
    let mut damage = store.check()?;
    match store.scan(&mut verifier) {
        // What a damaged store cannot show is part of the damage.
        Err(StoreError::Corrupt { reason }) if !damage.is_empty() => damage.push(reason),
        scanned => scanned?,
    }
    verifier.finish();
    verifier.report.damage = damage;
    let Verifier { mut report, open, granted, key_mismatches, holds, .. } = verifier;
    let mut last: Option<Grant> = None;
    for (head, used, request_digest) in granted {
        if last.as_ref().is_none_or(|grant| grant.head.trace_id != used.grant) {
            last = read_grant(store, used.grant);
        }
        if let Some(error) = verify_use(last.as_ref(), &head, used, request_digest) {
            report.add_problem(head.trace_id, &head, head.sequence_number, &error);
        }
    }
    for (head, hold) in holds {
        if let Some(error) = verify_hold(store, &head, hold)? {
            report.add_problem(head.trace_id, &head, head.sequence_number, &error);
        }
    }
    for KeyMismatch { trace_id, sequence_number, reason } in key_mismatches {
        // A trace that is corrupt already is reported once.
        if !report.problems.iter().any(|problem| problem.trace_id == trace_id) {
            let head = match store.load_state(trace_id) {
                Ok(state) => state.head,
                Err(_) => Head::empty(trace_id),
            };
            let error = ChainError::Key { sequence_number, reason };
            report.add_problem(trace_id, &head, head.sequence_number, &error);
        }
    }
    for (trace_id, entries) in open {
        if let Some((error, head)) = verify_replay_point(store, trace_id)? {
            report.add_problem(trace_id, &head, entries, &error);
        }
    }
    Ok(report)
}

/// The result of verifying one trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceReport {
    /// What was found.
    pub finding: ChainReport,
    /// The first thing that is wrong.
    pub error: Option<ChainError>,
    /// The signatures of people in it.
    pub signatures: Vec<Signature>,
}

/// Verifies one trace, in constant memory, as strictly as [`verify_store`].
///
/// # Errors
/// [`StoreError`] when there is no such trace or the store cannot be read; a corrupt trace is a finding.
pub fn verify_trace(store: &dyn Store, trace_id: TraceId) -> Result<TraceReport, StoreError> {
    let recorded = store.load_state(trace_id)?;
    let mut verifier = TraceVerifier::new(trace_id);
    let (entries, mut error) = verify_entries(store, &mut verifier)?;
    if error.is_none() {
        error = verifier.agrees_with(&recorded).err();
    }
    if error.is_none() {
        error = verify_key(store, &verifier)?;
    }
    if error.is_none()
        && let Some((used, request_digest)) = verifier.grant_use()
    {
        let grant = read_grant(store, used.grant);
        error = verify_use(grant.as_ref(), verifier.head(), used, request_digest);
    }
    // They are bound by the row of the trace.
    store.list_redispatches(trace_id)?;
    let mut head = *verifier.head();
    if let (None, Some(hold)) = (&error, verifier.hold()) {
        error = verify_hold(store, &head, hold)?;
    }
    if error.is_none() {
        error = verify_replay_point(store, trace_id)?.map(|(error, _)| error);
        if error.is_some() {
            head = recorded.head;
        }
    }
    let finding = ChainReport::new(&head, entries, error.as_ref());
    let signatures = verifier.signatures().to_vec();
    Ok(TraceReport { finding, error, signatures })
}

/// Verifies the entries of a trace; returns how many there are and the first thing that is wrong.
fn verify_entries(
    store: &dyn Store,
    verifier: &mut TraceVerifier,
) -> Result<(u64, Option<ChainError>), StoreError> {
    let trace_id = verifier.head().trace_id;
    let (mut entries, mut broken) = (0, None);
    let (mut after, mut limit) = (0, PAGE);
    loop {
        let page = match store.list_log_entries(trace_id, after, limit) {
            Ok(page) => page,
            // One entry of the page cannot be read: find out which.
            Err(StoreError::CorruptTrace { .. }) if limit > 1 => {
                limit = 1;
                continue;
            }
            Err(StoreError::CorruptTrace { source, .. }) => {
                return Ok((entries + 1, broken.or(Some(source))));
            }
            Err(error) => return Err(error),
        };
        for record in &page {
            after = record.entry.sequence_number;
            entries += 1;
            if broken.is_none() {
                broken = verifier.push(&record.entry, record.body.as_deref()).err();
            }
        }
        if page.len() < limit {
            return Ok((entries, broken));
        }
    }
}

/// Compares the store's record of a call's idempotency key with the entries: without the record the
/// call could run again.
fn verify_key(
    store: &dyn Store,
    verifier: &TraceVerifier,
) -> Result<Option<ChainError>, StoreError> {
    let Some((key, sequence_number, tool_call_id)) = verifier.reserved_key() else {
        return Ok(None);
    };
    let record = match store.load_idempotency(&Slot::from(&key)) {
        // A record that leads to no trace counts as missing.
        Err(StoreError::Corrupt { .. }) => None,
        found => found?,
    };
    let head = verifier.head();
    let matches = match record {
        None => false,
        // A call that did not run leaves its key to others.
        Some(record) if record.trace_id != head.trace_id => says_it_did_not_run(store, head)?,
        Some(record) => {
            Some(record.reservation.tool_call_id) == tool_call_id
                && record.reservation.request_digest == key.request_digest
        }
    };
    let reason = KeyMismatch::MISSING;
    Ok((!matches).then_some(ChainError::Key { sequence_number, reason }))
}

/// Whether the last entry of a call says that it did not run, or says nothing any more.
fn says_it_did_not_run(store: &dyn Store, head: &Head) -> Result<bool, StoreError> {
    let before = head.sequence_number.saturating_sub(1);
    let last = store.list_log_entries(head.trace_id, before, 1)?;
    let body = last.first().and_then(|record| record.body.as_deref());
    Ok(body.is_none_or(ToolEffect::says_it_did_not_run))
}

/// A grant, unless it cannot be read; then it has an error of its own.
fn read_grant(store: &dyn Store, trace_id: TraceId) -> Option<Grant> {
    Reader::<Grant>::state_of(store, trace_id, Check::Prefix).ok()
}

/// Compares a call that ran under a grant with the grant's entry for it.
fn verify_use(
    grant: Option<&Grant>,
    head: &Head,
    used: GrantUse,
    request_digest: Digest,
) -> Option<ChainError> {
    let records = |grant: &Grant| grant.records(head.trace_id, request_digest, used.entry_digest);
    let reason = "the grant that the decision names does not record this call";
    // The decision is the second entry of a call.
    (!grant.is_some_and(records)).then_some(ChainError::Link { sequence_number: 2, reason })
}

/// Verifies that people decided on a call as it says: at the named entry its run waited for this call, and
/// enough of them had answered so.
fn verify_hold(
    store: &dyn Store,
    call: &Head,
    hold: HoldReference,
) -> Result<Option<ChainError>, StoreError> {
    let error = |reason| Ok(Some(ChainError::Link { sequence_number: 2, reason }));
    let mut verifier = TraceVerifier::new(hold.trace_id);
    let mut after = 0;
    loop {
        let page = match store.list_log_entries(hold.trace_id, after, PAGE) {
            Ok(page) => page,
            Err(StoreError::CorruptTrace { .. } | StoreError::NotFound { .. }) => {
                return error("the run whose hold decided on the call cannot be read");
            }
            Err(error) => return Err(error),
        };
        for record in &page {
            after = record.entry.sequence_number;
            if verifier.push(&record.entry, record.body.as_deref()).is_err() {
                return error("the run whose hold decided on the call is corrupt");
            }
            if record.entry.entry_digest == hold.entry_digest {
                // Without its artifacts nothing more can be said.
                let Some(run) = verifier.run() else { return Ok(None) };
                let wanted =
                    if hold.approved { Resolution::Approved } else { Resolution::Rejected };
                let answered = run.hold.as_ref().is_some_and(|hold| {
                    hold.held.call == Some(call.trace_id) && hold.resolution() == wanted
                });
                return if answered {
                    Ok(None)
                } else {
                    error("the hold that it names did not decide on the call")
                };
            }
        }
        if page.len() < PAGE {
            return error("the entry of the hold that decided on the call is missing");
        }
    }
}

/// Verifies the newest replay point of a trace against its entry.
fn verify_replay_point(
    store: &dyn Store,
    trace_id: TraceId,
) -> Result<Option<(ChainError, Head)>, StoreError> {
    let point = match store.load_latest_replay_point(trace_id) {
        Ok(Some(point)) => point,
        Ok(None) => return Ok(None),
        Err(StoreError::CorruptTrace { source, .. }) => {
            return Ok(Some((source, Head::empty(trace_id))));
        }
        Err(error) => return Err(error),
    };
    let before = point.checkpoint_sequence_number.saturating_sub(1);
    let entry = match store.list_log_entries(trace_id, before, 1) {
        Ok(records) => records.into_iter().next().map(|record| record.entry),
        Err(StoreError::CorruptTrace { .. }) => None,
        Err(error) => return Err(error),
    };
    let head = entry.map_or(Head::empty(trace_id), |entry| Head::after(&entry));
    Ok(point.agrees_with(&head).err().map(|error| (error, head)))
}

impl StoreReport {
    fn add_signature(&mut self, new: &Signature) {
        let is_same =
            |(one, _): &&mut (Signature, Signature)| one.key == new.key && one.name == new.name;
        match self.signatures.iter_mut().find(is_same) {
            Some((first, last)) => {
                if new.at < first.at {
                    *first = new.clone();
                }
                if new.at > last.at {
                    *last = new.clone();
                }
            }
            None => self.signatures.push((new.clone(), new.clone())),
        }
    }

    fn add_problem(&mut self, trace_id: TraceId, head: &Head, entries: u64, error: &ChainError) {
        self.broken += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem {
                trace_id,
                finding: ChainReport::new(head, entries, Some(error)),
                message: error.to_string(),
            });
        }
    }
}

/// The trace that is being shown.
struct Current {
    recorded: Option<TraceState>,
    entries: u64,
    error: Option<ChainError>,
}

struct Verifier<'a> {
    report: StoreReport,
    trace: TraceVerifier,
    current: Option<Current>,
    /// Traces whose replay points are still to be verified, with their numbers of entries.
    open: Vec<(TraceId, u64)>,
    /// Calls that ran under a grant, whose use is still to be verified.
    granted: Vec<(Head, GrantUse, Digest)>,
    /// Idempotency records that do not match the entries.
    key_mismatches: Vec<KeyMismatch>,
    /// Calls that were decided by the holds of runs.
    holds: Vec<(Head, HoldReference)>,
    progress: &'a mut dyn FnMut(u64),
}

impl Verifier<'_> {
    /// Reports on the trace whose entries have all been shown.
    fn finish(&mut self) {
        let Some(current) = self.current.take() else { return };
        let head = *self.trace.head();
        self.report.missing_artifacts += self.trace.purged();
        for signature in self.trace.signatures() {
            self.report.add_signature(signature);
        }
        let error = current.error.or_else(|| match &current.recorded {
            Some(recorded) => self.trace.agrees_with(recorded).err(),
            None => Some(ChainError::Truncated { expected: 0, found: head.sequence_number }),
        });
        match (error, current.recorded) {
            (Some(error), _) => {
                self.report.add_problem(head.trace_id, &head, current.entries, &error);
            }
            (None, Some(recorded)) => {
                if let Some((used, request_digest)) = self.trace.grant_use() {
                    self.granted.push((head, used, request_digest));
                }
                self.holds.extend(self.trace.hold().map(|hold| (head, hold)));
                let run = head.state.is_some_and(|state| state.machine() == Machine::Run);
                if run || !head.state.is_some_and(State::is_terminal) {
                    self.open.push((recorded.head.trace_id, recorded.head.sequence_number));
                }
            }
            (None, None) => {}
        }
    }
}

impl Visitor for Verifier<'_> {
    fn trace(&mut self, trace_id: TraceId, recorded: Option<&TraceState>) {
        self.finish();
        self.report.traces += 1;
        self.trace.restart(trace_id);
        self.current = Some(Current { recorded: recorded.copied(), entries: 0, error: None });
    }

    fn entry(
        &mut self,
        entry: Result<Entry, ChainError>,
        body: Option<&[u8]>,
    ) -> Option<ReservedKey<'_>> {
        self.report.entries += 1;
        if self.report.entries.is_multiple_of(PROGRESS_EVERY) {
            (self.progress)(self.report.entries);
        }
        let current = self.current.as_mut()?;
        current.entries += 1;
        if current.error.is_some() {
            return None;
        }
        if let Err(error) = entry.and_then(|entry| self.trace.push(&entry, body)) {
            current.error = Some(error);
            return None;
        }
        let (key, sequence_number, _) = self.trace.reserved_key()?;
        (sequence_number == current.entries).then_some(key)
    }

    fn key_mismatch(&mut self, mismatch: KeyMismatch) {
        if self.key_mismatches.len() < PROBLEMS_MAX {
            self.key_mismatches.push(mismatch);
        } else {
            self.report.broken += 1;
        }
    }
}
