//! Visitors that change what a scan shows.

use windlass_kernel::{ChainError, Entry, ReservedKey, TraceId};
use windlass_store::{KeyMismatch, TraceState, Visitor};

/// Visits traces without their heads, which could disagree with the entries.
pub struct HeadFromEntries<'a>(pub &'a mut dyn Visitor);

impl Visitor for HeadFromEntries<'_> {
    fn trace(&mut self, trace_id: TraceId, _: Option<&TraceState>) {
        self.0.trace(trace_id, None);
    }

    fn entry(
        &mut self,
        entry: Result<Entry, ChainError>,
        body: Option<&[u8]>,
    ) -> Option<ReservedKey<'_>> {
        self.0.entry(entry, body)
    }

    fn key_mismatch(&mut self, mismatch: KeyMismatch) {
        self.0.key_mismatch(mismatch);
    }
}
