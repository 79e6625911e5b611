//! Verification of a whole store: every chain, every artifact, every link, every recorded head.

use serde::Serialize;
use windlass_kernel::recovery::Finding;
use windlass_kernel::run::Run;
use windlass_kernel::{
    ArtifactType, Call, ChainError, Digest, Entry, Head, Link, Links, Machine, Reserved, State,
    TraceId, is_call_artifact,
};
use windlass_store::{KeyMismatch, Store, StoreError, TraceState, Visitor};

use crate::gateway::slot_of;

/// How many broken traces are described; the others are only counted.
const PROBLEMS_MAX: usize = 1000;
/// After how many entries progress is told.
const PROGRESS_EVERY: u64 = 4096;

/// What verification of a store found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// How many traces there are.
    pub traces: u64,
    /// How many entries.
    pub entries: u64,
    /// How many artifacts are gone; their chains still hold.
    pub missing_artifacts: u64,
    /// How many traces do not hold together.
    pub broken: u64,
    /// What is wrong with them, up to a thousand.
    pub problems: Vec<Problem>,
}

/// A trace that does not hold together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The trace.
    pub trace_id: TraceId,
    /// What was found.
    #[serde(flatten)]
    pub finding: Finding,
    /// In words.
    pub message: String,
}

/// Verifies everything in a store, telling `progress` the number of entries now and then.
///
/// # Errors
/// [`StoreError`] when the store itself cannot be read; a broken trace is a finding.
pub fn verify(
    store: &dyn Store,
    progress: &mut dyn FnMut(u64),
) -> Result<Verification, StoreError> {
    let mut verifier = Verifier {
        report: Verification::default(),
        current: None,
        open: Vec::new(),
        key_mismatches: Vec::new(),
        buffer: Vec::with_capacity(1024),
        progress,
    };
    store.scan(&mut verifier)?;
    verifier.finish();
    let Verifier { mut report, open, key_mismatches, .. } = verifier;
    for KeyMismatch { trace_id, sequence_number, reason } in key_mismatches {
        // What is broken already is not more so.
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
        if let Some((error, head)) = verify_checkpoint(store, trace_id)? {
            report.add_problem(trace_id, &head, entries, &error);
        }
    }
    Ok(report)
}

/// What is wrong with the record of a call's key, if anything: without it the call could run again.
///
/// # Errors
/// [`StoreError`] when the store cannot be read.
pub fn verify_key(store: &dyn Store, call: &Call) -> Result<Option<ChainError>, StoreError> {
    let (Some((request, _)), Some((tool_call, _))) = (&call.request, &call.tool_call) else {
        return Ok(None);
    };
    let Some(key) = request.idempotency_key.clone() else { return Ok(None) };
    let record = match store.load_idempotency(&slot_of(request, key)) {
        // A record that leads to nothing is none.
        Err(StoreError::Corrupt { .. }) => None,
        found => found?,
    };
    let holds = record.is_some_and(|record| {
        record.trace_id == call.head.trace_id
            && record.reservation.tool_call_id == tool_call.tool_call_id
            && record.reservation.request_digest == tool_call.proposal_digest
    });
    // The call is the last entry, or its effect is.
    let sequence_number =
        call.head.sequence_number.saturating_sub(u64::from(call.effect.is_some()));
    let reason = KeyMismatch::MISSING;
    Ok((!holds).then_some(ChainError::Key { sequence_number, reason }))
}

/// Checks the newest checkpoint of a trace against its entry.
fn verify_checkpoint(
    store: &dyn Store,
    trace_id: TraceId,
) -> Result<Option<(ChainError, Head)>, StoreError> {
    let Some(checkpoint) = store.load_latest_replay_point(trace_id)? else { return Ok(None) };
    let sequence_number = checkpoint.checkpoint_sequence_number;
    let before = sequence_number.saturating_sub(1);
    let entry = match store.list_log_entries(trace_id, before, 1) {
        Ok(records) => records.into_iter().next().map(|record| record.entry),
        Err(StoreError::CorruptTrace { .. }) => None,
        Err(error) => return Err(error),
    };
    let head = entry.map_or(Head::empty(trace_id), |entry| Head {
        trace_id,
        sequence_number: entry.sequence_number,
        entry_digest: entry.entry_digest,
        state: Some(entry.to_state),
        tool_call_id: entry.tool_call_id,
    });
    Ok(checkpoint.agrees_with(&head).err().map(|error| (error, head)))
}

impl Verification {
    fn add_problem(&mut self, trace_id: TraceId, head: &Head, entries: u64, error: &ChainError) {
        self.broken += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem {
                trace_id,
                finding: Finding::new(head, entries, Some(error)),
                message: error.to_string(),
            });
        }
    }
}

struct Current {
    recorded: Option<TraceState>,
    head: Head,
    links: Links,
    /// The run, if the trace is one; it lives no longer than its trace is read.
    run: Option<Box<Run>>,
    entries: u64,
    bodies_missing: bool,
    /// Whether the entry just seen reserves a key, if the call has one.
    reserves: bool,
    error: Option<ChainError>,
}

struct Verifier<'a> {
    report: Verification,
    current: Option<Current>,
    /// Traces whose checkpoints are still to be checked, with their numbers of entries.
    open: Vec<(TraceId, u64)>,
    /// Idempotency records that do not match the entries.
    key_mismatches: Vec<KeyMismatch>,
    buffer: Vec<u8>,
    progress: &'a mut dyn FnMut(u64),
}

impl Verifier<'_> {
    /// Closes the books of the trace that has just been seen.
    fn finish(&mut self) {
        let Some(current) = self.current.take() else { return };
        let head = current.head;
        let error = current.error.or_else(|| match &current.recorded {
            Some(recorded) => head.matches(&recorded.head).err(),
            None => Some(ChainError::Truncated { expected: 0, found: head.sequence_number }),
        });
        match (error, current.recorded) {
            (Some(error), _) => {
                self.report.add_problem(head.trace_id, &head, current.entries, &error);
            }
            (None, Some(recorded)) => {
                let run = head.state.is_some_and(|state| state.machine() == Machine::Run);
                if run || !head.state.is_some_and(State::is_terminal) {
                    self.open.push((recorded.head.trace_id, recorded.head.sequence_number));
                }
            }
            (None, None) => {}
        }
    }
}

impl Current {
    fn check(
        &mut self,
        entry: Result<Entry, ChainError>,
        body: Option<&[u8]>,
        buffer: &mut Vec<u8>,
    ) -> Result<bool, ChainError> {
        let entry = entry?;
        let head = self.head.admit(&entry, buffer)?;
        let Some(body) = body else {
            // The chain holds without its artifacts; what follows cannot be linked to them.
            self.bodies_missing = true;
            self.head = head;
            return Ok(false);
        };
        let mismatch = ChainError::Artifact {
            sequence_number: entry.sequence_number,
            artifact: entry.artifact_type.as_str(),
        };
        if Digest::of(body) != entry.artifact_digest {
            return Err(mismatch);
        }
        if self.bodies_missing {
            // The digest is all that can be said of it.
        } else if is_call_artifact(entry.artifact_type) {
            let link = Link::read(entry.artifact_type, body).map_err(|_| mismatch)?;
            self.links.follow(&entry, link)?;
            self.reserves = entry.artifact_type == ArtifactType::ToolCall;
        } else {
            let run = self.run.get_or_insert_with(|| Box::new(Run::empty(entry.trace_id)));
            run.follow(&entry, body, head)?;
        }
        self.head = head;
        Ok(true)
    }
}

impl Visitor for Verifier<'_> {
    fn trace(&mut self, trace_id: TraceId, recorded: Option<&TraceState>) {
        self.finish();
        self.report.traces += 1;
        self.current = Some(Current {
            recorded: recorded.copied(),
            head: Head::empty(trace_id),
            links: Links::default(),
            run: None,
            entries: 0,
            bodies_missing: false,
            reserves: false,
            error: None,
        });
    }

    fn entry(
        &mut self,
        entry: Result<Entry, ChainError>,
        body: Option<&[u8]>,
    ) -> Option<Reserved<'_>> {
        self.report.entries += 1;
        if self.report.entries.is_multiple_of(PROGRESS_EVERY) {
            (self.progress)(self.report.entries);
        }
        let current = self.current.as_mut()?;
        current.entries += 1;
        current.reserves = false;
        if current.error.is_some() {
            return None;
        }
        match current.check(entry, body, &mut self.buffer) {
            Ok(true) => {}
            Ok(false) => self.report.missing_artifacts += 1,
            Err(error) => current.error = Some(error),
        }
        if current.reserves { current.links.reserved() } else { None }
    }

    fn key_mismatch(&mut self, mismatch: KeyMismatch) {
        if self.key_mismatches.len() < PROBLEMS_MAX {
            self.key_mismatches.push(mismatch);
        } else {
            self.report.broken += 1;
        }
    }
}
