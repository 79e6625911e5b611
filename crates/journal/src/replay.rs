//! Finding the head of a trace from its newest replay point: the cost is that of the entries after the
//! replay point, not of the trace.

use windlass_kernel::{ChainError, Head, TraceId};
use windlass_store::Store;

use crate::error::JournalError;
use crate::fold::admit;

/// How many entries are read at once.
const PAGE: usize = 512;

/// The head of a trace, and how many entries were read to find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// The end of its chain, equal to the recorded head.
    pub head: Head,
    /// How many entries were read.
    pub entries_read: u64,
}

/// Replays a trace from its newest replay point, and verifies the replay point, the chain after it and the head.
///
/// # Errors
/// [`JournalError::Corrupt`] when one of them is wrong.
pub fn replay(store: &dyn Store, trace_id: TraceId) -> Result<Replayed, JournalError> {
    let corrupt = |source| JournalError::Corrupt { trace_id, source };
    let mut recorded = store.load_state(trace_id)?;
    let (mut head, mut entries_read) = match store.load_latest_replay_point(trace_id)? {
        None => (Head::empty(trace_id), 0),
        Some(point) => {
            let at = point.checkpoint_sequence_number;
            // The entry at the replay point ties it to the log, and names the call.
            let records = store.list_log_entries(trace_id, at.saturating_sub(1), 1)?;
            let head = match records.first() {
                Some(record) => Head {
                    entry_digest: record.entry.compute_digest(&mut Vec::new()),
                    ..Head::after(&record.entry)
                },
                None => Head::empty(trace_id),
            };
            point.agrees_with(&head).map_err(corrupt)?;
            if point.checkpoint_state.plan_id != recorded.plan_id {
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
            let body = record.body.as_deref();
            head = admit(&head, &record.entry, body, &mut buffer).map_err(corrupt)?;
            entries_read += 1;
        }
        if page.len() == PAGE {
            continue;
        }
        // Another process may have appended to the trace since its head was loaded.
        let before = recorded.head.sequence_number;
        if head.sequence_number > before {
            recorded = store.load_state(trace_id)?;
        }
        if recorded.head.sequence_number == before {
            break;
        }
    }
    head.matches(&recorded.head).map_err(corrupt)?;
    Ok(Replayed { head, entries_read })
}
