//! Traces that are longer than one page of the reader.

use std::ops::ControlFlow;

use windlass_journal::{Check, Reader, Recorder, replay, verify_store, verify_trace};
use windlass_kernel::run::Run;

use crate::world::World;

#[test]
fn every_entry_of_a_long_trace_is_read_once() {
    // One page, its end, two pages, and one entry more.
    for entries in [511, 512, 513, 1024, 1025] {
        let world = World::new();
        let (trace_id, store) = (world.run(entries), world.store.as_ref());
        let length = u64::try_from(entries).unwrap();
        for check in [Check::Verified, Check::Prefix, Check::Skim] {
            let mut seen = Vec::new();
            let mut reader = Reader::<Run>::new(trace_id, check);
            reader
                .for_each(store, &mut |step| {
                    seen.push(step.entry.sequence_number);
                    ControlFlow::Continue(())
                })
                .unwrap();
            assert!(seen.into_iter().eq(1..=length), "{entries} {check:?}");
            assert_eq!(reader.state().notes.len(), entries - 2);
        }
        assert_eq!(replay(store, trace_id).unwrap().entries_read, length);
        let report = verify_trace(store, trace_id).unwrap();
        assert_eq!((report.error, report.finding.entry_count), (None, length));
        let report = verify_store(store, &mut |_| {}).unwrap();
        assert_eq!((report.traces, report.entries, report.broken), (1, length, 0));
        // Damage in the last page is found too.
        world.shared.tamper(|tables| {
            let last = tables.entries.get_mut(&trace_id).unwrap().last_mut().unwrap();
            last.body.as_mut().unwrap().push(b' ');
        });
        assert!(
            replay(store, trace_id).is_err()
                && verify_trace(store, trace_id).unwrap().error.is_some()
        );
        assert!(Reader::<Run>::state_of(store, trace_id, Check::Prefix).is_err());
    }
}

#[test]
fn a_reader_stops_where_it_is_told_and_goes_on_from_there() {
    let world = World::new();
    let (trace_id, store) = (world.run(600), world.store.as_ref());
    let mut reader = Reader::<Run>::new(trace_id, Check::Prefix);
    let read_until = |reader: &mut Reader<Run>, last: u64| {
        let mut seen = Vec::new();
        reader
            .for_each(store, &mut |step| {
                seen.push(step.entry.sequence_number);
                if step.entry.sequence_number == last {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .unwrap();
        seen
    };
    assert!(read_until(&mut reader, 550).into_iter().eq(1..=550));
    let mut recorder = Recorder::<Run>::open(&world.store, trace_id, Vec::new()).unwrap();
    world.add_notes(&mut recorder, 1).unwrap();
    let mut rest = Reader::from(reader.into_state(), Check::Prefix);
    assert!(read_until(&mut rest, 0).into_iter().eq(551..=601));
    assert_eq!(rest.state().head, recorder.state().head);
    assert_eq!(read_until(&mut rest, 0), Vec::<u64>::new());
}
