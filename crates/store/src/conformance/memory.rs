//! The harness of the store in memory, also for tests that compare another backend with it.

use std::sync::atomic::{AtomicU64, Ordering};

use windlass_kernel::{HolderId, Uuid7};

use super::{Harness, Tamper};
use crate::memory::{MemoryStore, Shared, Tables};
use crate::store::Store;
use crate::types::Record;

/// A database in memory and the processes on it.
#[derive(Debug, Default)]
pub struct MemoryHarness {
    /// The database.
    pub shared: Shared,
    processes: AtomicU64,
}

impl MemoryHarness {
    /// Opens a handle under an id that no other handle of this harness has.
    pub fn open_memory(&self) -> MemoryStore {
        let [a, b, c, d, e, f, g, h] = self.processes.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let me = HolderId(Uuid7::from_parts(0, [0, 0, a, b, c, d, e, f, g, h]));
        MemoryStore::open(&self.shared, me)
    }
}

impl Harness for MemoryHarness {
    fn open(&self) -> Box<dyn Store> {
        Box::new(self.open_memory())
    }

    fn kill(&self, store: Box<dyn Store>) {
        // A process in memory does nothing at its end.
        drop(store);
    }

    fn tamper(&self, what: &Tamper) -> Option<()> {
        let mut done = None;
        self.shared.tamper(|tables| done = change(tables, what));
        done
    }
}

/// Makes a change; `None` if there is nothing to change.
fn change(tables: &mut Tables, what: &Tamper) -> Option<()> {
    match what {
        Tamper::DeleteLastEntry(trace_id) => {
            tables.entries.get_mut(trace_id)?.pop()?;
        }
        Tamper::DeleteEntry(trace_id, number) => {
            let entries = tables.entries.get_mut(trace_id)?;
            entries.retain(|record| record.entry.sequence_number != *number);
        }
        Tamper::ChangeEntry(entry) => {
            let entries = tables.entries.get_mut(&entry.trace_id)?;
            find(entries, entry.sequence_number)?.entry = (**entry).clone();
        }
        Tamper::InsertEntry(new) => {
            let record = Record { entry: new.entry.clone(), body: Some(new.body.clone()) };
            tables.entries.entry(new.entry.trace_id).or_default().push(record);
        }
        // Entries in memory are always readable.
        Tamper::GarbleEntry(..) => return None,
        Tamper::ChangeBody(trace_id, number, body) => {
            find(tables.entries.get_mut(trace_id)?, *number)?.body = Some(body.clone());
        }
        Tamper::DeleteBody(trace_id, number) => {
            find(tables.entries.get_mut(trace_id)?, *number)?.body = None;
        }
        Tamper::ChangeHead(head) => tables.traces.get_mut(&head.trace_id)?.head = **head,
        Tamper::ChangeReplayPoint(trace_id, point) => {
            *tables.replay_points.get_mut(trace_id)?.last_mut()? = (**point).clone();
        }
        Tamper::DeleteTraceRow(trace_id) => {
            tables.traces.remove(trace_id)?;
        }
    }
    Some(())
}

fn find(entries: &mut [Record], number: u64) -> Option<&mut Record> {
    entries.iter_mut().find(|record| record.entry.sequence_number == number)
}
