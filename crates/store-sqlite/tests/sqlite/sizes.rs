//! Long traces and large bodies.

use windlass_store::conformance::fixture::{CallSpec, Ending, holding};
use windlass_store::{After, Append, Store};

use crate::support::{Place, assert_reads_back, fixture, put, verify};

const LONG: usize = 20_000;

#[test]
fn a_trace_of_20_000_entries_pages_and_scans() {
    let place = Place::new();
    let store = place.open();
    let make = fixture(0);
    let long = make.run_long(LONG);
    put(&store, &make.run_long(3));
    let lease = store.append(long.create(1, After::Keep)).unwrap().lease.unwrap();
    for (number, part) in long.entries[1..].chunks(2_000).enumerate() {
        store.append(holding(&lease, part.to_vec())).unwrap();
        // Other traces come in between.
        put(&store, &make.run_long(1 + number % 3));
    }
    let mut after = 0;
    loop {
        let page = store.list_log_entries(long.trace_id, after as u64, 777).unwrap();
        let expected = &long.entries[after..LONG.min(after + 777)];
        assert_eq!(page.len(), expected.len());
        for (record, new) in page.iter().zip(expected) {
            assert_eq!((&record.entry, record.body.as_ref()), (&new.entry, Some(&new.body)));
        }
        if page.is_empty() {
            break;
        }
        after += page.len();
    }
    assert_eq!(after, LONG);
    let (traces, entries) = verify(&store);
    assert_eq!((traces, entries > LONG), (12, true));
    assert_eq!(store.load_state(long.trace_id).unwrap().head, long.head_after(LONG));
}

#[test]
fn a_body_of_100_megabytes_is_stored_and_others_go_on() {
    let place = Place::new();
    let store = place.open();
    let make = fixture(0);
    let huge: Vec<u8> =
        (0..100_u32 << 18).flat_map(|n| n.wrapping_mul(0x9e37_79b1).to_le_bytes()).collect();
    let trace = make.run_carrying(vec![b"{}".to_vec(), huge, b"{}".to_vec()]);
    put(&store, &trace);
    let other = make.call(Ending::Completed);
    put(&store, &other);
    drop(store);
    let store = place.open();
    assert_eq!(verify(&store), (2, 7));
    let page = store.list_log_entries(trace.trace_id, 1, 1).unwrap();
    assert!(page[0].body.as_ref() == Some(&trace.entries[1].body));
    assert_reads_back(&store, &other, 4);
}

#[test]
fn keys_with_nul_and_any_letters_are_kept_as_they_are() {
    let place = Place::new();
    let make = fixture(0);
    let keys = ["\0", "a\0b", "a\0", "ключ-鍵-🔑", "e\u{301}", "\u{e9}", "\u{10ffff}\u{feff}"];
    let calls = keys.map(|key| {
        make.call_of(&CallSpec { key: Some(key.into()), ..CallSpec::read(Ending::Completed) })
    });
    let store = place.open();
    for call in &calls {
        let whole = call.create(4, After::Release);
        store.append(Append { key: call.reserve(), ..whole }).unwrap();
    }
    drop(store);
    let store = place.open();
    for call in &calls {
        let record = store.load_idempotency(&call.slot()).unwrap().unwrap();
        assert_eq!(Some(&record.reservation), call.reservation.as_ref());
        assert_eq!(record.trace_id, call.trace_id);
        assert_eq!(record.effect_digest, Some(call.entry(4).entry.artifact_digest));
        assert_reads_back(&store, call, 4);
    }
}
