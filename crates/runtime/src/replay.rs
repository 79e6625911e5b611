//! Finding out where a trace stands from its newest checkpoint on: the cost is that of the entries
//! after the checkpoint, not of the trace.

use windlass_kernel::{ChainError, Digest, Head, TraceId};
use windlass_store::Store;

use crate::error::GatewayError;

/// How many entries are read in one go.
const PAGE: usize = 512;

/// Where a trace stands, and how many entries had to be read to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// The end of its chain, which is also the recorded one.
    pub head: Head,
    /// How many entries were read.
    pub entries_read: u64,
}

/// Replays a trace from its newest checkpoint, checking the checkpoint, the chain and the head.
///
/// # Errors
/// [`GatewayError::Corrupt`] when one of them does not hold.
pub fn replay(store: &dyn Store, trace_id: TraceId) -> Result<Replayed, GatewayError> {
    let corrupt = |source| GatewayError::Corrupt { trace_id, source };
    let recorded = store.load_state(trace_id)?;
    let (mut head, mut entries_read) = match store.load_latest_replay_point(trace_id)? {
        None => (Head::empty(trace_id), 0),
        Some(checkpoint) => {
            let at = checkpoint.checkpoint_sequence_number;
            // The entry it was made at ties the checkpoint to the log, and names the call.
            let records = store.list_log_entries(trace_id, at.saturating_sub(1), 1)?;
            let head = match records.first() {
                Some(record) => Head {
                    trace_id: record.entry.trace_id,
                    sequence_number: record.entry.sequence_number,
                    entry_digest: record.entry.compute_digest(&mut Vec::new()),
                    state: Some(record.entry.to_state),
                    tool_call_id: record.entry.tool_call_id,
                },
                None => Head::empty(trace_id),
            };
            checkpoint.agrees_with(&head).map_err(corrupt)?;
            if checkpoint.checkpoint_state.plan_id != recorded.plan_id {
                let what = "its trace's plan";
                return Err(corrupt(ChainError::ReplayPoint { sequence_number: at, what }));
            }
            (head, 1)
        }
    };
    let mut buffer = Vec::with_capacity(1024);
    loop {
        let page = store.list_log_entries(trace_id, head.sequence_number, PAGE)?;
        for record in &page {
            let entry = &record.entry;
            head = head.admit(entry, &mut buffer).map_err(corrupt)?;
            entries_read += 1;
            if record.body.as_deref().is_some_and(|body| Digest::of(body) != entry.artifact_digest)
            {
                return Err(corrupt(ChainError::Artifact {
                    sequence_number: entry.sequence_number,
                    artifact: entry.artifact_type.as_str(),
                }));
            }
        }
        if page.len() < PAGE {
            break;
        }
    }
    head.matches(&recorded.head).map_err(corrupt)?;
    Ok(Replayed { head, entries_read })
}
