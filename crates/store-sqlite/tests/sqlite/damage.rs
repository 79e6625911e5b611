//! Damage that only a database can have: unreadable rows.

use rusqlite::Connection;
use windlass_kernel::{ChainError, Entry, ReservedKey, TraceId};
use windlass_store::conformance::fixture::{Ending, Trace};
use windlass_store::{KeyMismatch, Store, TraceState, Visitor};

use crate::support::{Place, assert_reads_back, fixture, meddle, put};

/// What a scan visits: each trace, whether its head is readable, and which entries are.
#[derive(Default)]
struct Seen(Vec<(TraceId, bool, Vec<bool>)>);

impl Visitor for Seen {
    fn trace(&mut self, trace_id: TraceId, recorded: Option<&TraceState>) {
        self.0.push((trace_id, recorded.is_some(), Vec::new()));
    }

    fn entry(
        &mut self,
        entry: Result<Entry, ChainError>,
        _: Option<&[u8]>,
    ) -> Option<ReservedKey<'_>> {
        self.0.last_mut().unwrap().2.push(entry.is_ok());
        None
    }

    fn key_mismatch(&mut self, _: KeyMismatch) {}
}

/// Damages the middle one of three calls, and returns what a scan shows of it.
fn scanned_after(damage: impl FnOnce(&Connection)) -> (Place, Trace, (TraceId, bool, Vec<bool>)) {
    let place = Place::new();
    let make = fixture(0);
    let traces = [(); 3].map(|()| make.call(Ending::Completed));
    let store = place.open();
    traces.iter().for_each(|trace| put(&store, trace));
    drop(store);
    let connection = place.tamper();
    damage(&connection);
    drop(connection);
    let store = place.open();
    let mut seen = Seen::default();
    store.scan(&mut seen).unwrap();
    let [first, middle, last] = traces;
    for trace in [&first, &last] {
        assert_reads_back(&store, trace, 4);
        assert!(seen.0.contains(&(trace.trace_id, true, vec![true; 4])), "{:?}", seen.0);
    }
    seen.0.retain(|(trace_id, ..)| *trace_id != first.trace_id && *trace_id != last.trace_id);
    assert_eq!(seen.0.len(), 1, "{:?}", seen.0);
    (place, middle, seen.0.remove(0))
}

/// The entries of the middle call.
const MIDDLE: &str = "id BETWEEN 2 << 24 AND (3 << 24) - 1";

#[test]
fn an_entry_that_names_no_trace_is_shown_under_the_trace_of_its_id() {
    for (which, readable) in
        [("id = (2 << 24) + 1", [false, true, true, true]), (MIDDLE, [false; 4])]
    {
        let sql = format!("UPDATE entries SET trace_id = x'00' WHERE {which}");
        let (place, trace, shown) =
            scanned_after(|connection| assert!(meddle(connection, &sql) > 0));
        assert_eq!(shown, (trace.trace_id, true, readable.to_vec()));
        let error = place.open().list_log_entries(trace.trace_id, 0, 9).unwrap_err();
        assert!(error.to_string().contains("is corrupt"), "{error}");
    }
}

#[test]
fn every_unreadable_column_of_an_entry_is_reported() {
    let columns = [
        "prev_entry_digest = x'00'",
        "ts = 9223372036854775807",
        "from_state = 'DREAMING'",
        "to_state = ''",
        "artifact_type = 'song'",
        "artifact_id = x'00'",
        "artifact_digest = x'00'",
        "tool_call_id = x'00'",
        "entry_digest = x'00'",
    ];
    for column in columns {
        let sql = format!("UPDATE entries SET {column} WHERE id = (2 << 24) + 2");
        let (_, trace, shown) = scanned_after(|connection| assert_eq!(meddle(connection, &sql), 1));
        assert_eq!(shown, (trace.trace_id, true, vec![true, false, true, true]), "{column}");
    }
}

#[test]
fn a_head_that_cannot_be_read_is_shown_as_none() {
    let columns = [
        "state = 'DREAMING'",
        "last_sequence_number = -1",
        "plan_id = zeroblob(16)",
        "holder = x'00'",
        "fence = -1",
    ];
    for column in columns {
        let sql = format!("UPDATE traces SET {column} WHERE trace_number = 2");
        let (place, trace, shown) =
            scanned_after(|connection| assert!(meddle(connection, &sql) > 0));
        assert_eq!(shown, (trace.trace_id, false, vec![true; 4]), "{column}");
        let error = place.open().load_state(trace.trace_id).unwrap_err();
        assert_eq!(error.code(), windlass_kernel::Code::StoreCorrupt, "{column}");
    }
}
