//! Flipped bits anywhere in the database: they are reported, or change no answer.

use std::fs;

use windlass_kernel::artifact::Redispatch;
use windlass_kernel::{
    ArtifactChain, ArtifactHeader, ChainError, Digest, Entry, Head, Machine, ReplayPoint,
    ReservedKey, State, TraceId,
};
use windlass_store::conformance::fixture::{Ending, Trace};
use windlass_store::{
    After, Append, Counts, IdempotencyRecord, KeyMismatch, Record, Store, StoreError, TraceFilter,
    TraceState, Visitor,
};
use windlass_testkit::soak;

use crate::support::{Place, fixture, open};

/// Verifies every chain, head, artifact and key that a scan shows.
#[derive(Default)]
struct Verifier {
    current: Option<(Head, Option<TraceState>)>,
    links: ArtifactChain,
    damaged: bool,
}

impl Verifier {
    fn finish(&mut self) {
        if let Some((head, recorded)) = self.current.take() {
            self.damaged |= recorded.is_none_or(|recorded| head.matches(&recorded.head).is_err());
        }
    }
}

impl Visitor for Verifier {
    fn trace(&mut self, trace_id: TraceId, recorded: Option<&TraceState>) {
        self.finish();
        self.links = ArtifactChain::default();
        self.current = Some((Head::empty(trace_id), recorded.copied()));
    }

    fn entry(
        &mut self,
        entry: Result<Entry, ChainError>,
        body: Option<&[u8]>,
    ) -> Option<ReservedKey<'_>> {
        let (Ok(entry), Some(body), Some((head, _))) = (entry, body, &mut self.current) else {
            self.damaged = true;
            return None;
        };
        self.damaged |= Digest::of(body) != entry.artifact_digest;
        match head.admit(&entry, &mut Vec::new()) {
            Ok(after) => *head = after,
            Err(_) => self.damaged = true,
        }
        if entry.from_state.machine() != Machine::Call {
            return None;
        }
        match ArtifactHeader::read(entry.artifact_type, body) {
            Ok(link) => self.damaged |= self.links.follow(&entry, link).is_err(),
            Err(_) => self.damaged = true,
        }
        self.links.reserved().filter(|_| entry.to_state == State::Executing)
    }

    fn key_mismatch(&mut self, _: KeyMismatch) {
        self.damaged = true;
    }
}

/// Whether verification finds something.
fn is_damaged(store: &dyn Store) -> bool {
    let mut verifier = Verifier::default();
    let scanned = store.scan(&mut verifier);
    verifier.finish();
    verifier.damaged || scanned.is_err() || store.check().map_or(true, |found| !found.is_empty())
}

/// What a store answers about one trace.
type TraceAnswers = (TraceState, Vec<Record>, Vec<Redispatch>, Option<ReplayPoint>);

/// Everything that a store answers.
#[derive(Debug, PartialEq)]
struct Answers {
    open: Vec<TraceState>,
    all: Vec<TraceState>,
    counts: Counts,
    traces: Vec<TraceAnswers>,
    keys: Vec<Option<IdempotencyRecord>>,
}

fn answers(store: &dyn Store, traces: &[Trace]) -> Result<Answers, StoreError> {
    let all = TraceFilter::all(999);
    let trace = |trace: &Trace| {
        let id = trace.trace_id;
        Ok((
            store.load_state(id)?,
            store.list_log_entries(id, 0, usize::MAX)?,
            store.list_redispatches(id)?,
            store.load_latest_replay_point(id)?,
        ))
    };
    let keyed = traces.iter().filter(|trace| trace.reservation.is_some());
    Ok(Answers {
        open: store.list_traces(&TraceFilter::open(999))?,
        all: store.list_traces(&all)?,
        counts: store.count()?,
        traces: traces.iter().map(trace).collect::<Result<_, StoreError>>()?,
        keys: keyed.map(|trace| store.load_idempotency(&trace.slot())).collect::<Result<_, _>>()?,
    })
}

/// How many entries a call has when it ends so.
fn length(ending: Ending) -> usize {
    match ending {
        Ending::Pending => 1,
        Ending::Authorized | Ending::Denied => 2,
        Ending::Executing => 3,
        Ending::Completed | Ending::Failed => 4,
    }
}

/// Calls in every state, runs, dispatches, keys, leases and replay points; some traces are not indexed.
fn fill(place: &Place) -> Vec<Trace> {
    let make = fixture(0);
    let mut traces = Vec::new();
    for indexed in [true, false] {
        let store = place.open();
        for (round, ending) in
            (0..3).flat_map(|round| Ending::ALL.iter().map(move |end| (round, *end)))
        {
            let call = make.call(ending);
            let count = length(ending);
            let key = if count >= 3 { call.reserve() } else { windlass_store::KeyAction::None };
            let kept = if round == 0 { After::Keep } else { After::Release };
            let appended = store.append(Append { key, ..call.create(count, kept) }).unwrap();
            if let (Some(lease), Ending::Executing, true) = (&appended.lease, ending, indexed) {
                for attempt in 2..5 {
                    store.record_redispatch(lease, &make.redispatch(attempt)).unwrap();
                }
            }
            traces.push(call);
        }
        let run = make.run_long(5);
        let lease = store.append(run.create(3, After::Keep)).unwrap().lease.unwrap();
        if indexed {
            store.write_replay_point(&lease, &make.replay_point(&run, 3)).unwrap();
            store.append(run.append(&lease, 3, 2)).unwrap();
            store.release(lease).unwrap();
        }
        traces.push(run);
        if !indexed {
            // Copied as a killed process would leave it, and folded into one file.
            let copy = Place::new();
            for ending in ["", "-wal"] {
                fs::copy(place.beside(ending), copy.beside(ending)).unwrap();
            }
            let connection = copy.connect();
            connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
            drop(connection);
            drop(store);
            for ending in ["-wal", "-shm"] {
                drop(fs::remove_file(place.beside(ending)));
            }
            fs::copy(copy.path(), place.path()).unwrap();
        }
    }
    traces
}

#[test]
fn a_flipped_bit_is_reported_or_changes_no_answer() {
    let place = Place::new();
    let traces = fill(&place);
    let store = place.open();
    assert!(!is_damaged(&store), "{:?}", store.check());
    let expected = answers(&store, &traces).unwrap();
    drop(store);
    let connection = place.connect();
    let sql = "SELECT rootpage FROM sqlite_schema WHERE rootpage > 0";
    let roots: Vec<u64> = {
        let mut statement = connection.prepare(sql).unwrap();
        statement
            .query_map([], |row| row.get::<_, u32>(0))
            .unwrap()
            .map(|root| u64::from(root.unwrap()))
            .collect()
    };
    connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    drop(connection);
    let whole = fs::read(place.path()).unwrap();
    let head = fs::read(place.beside(".head")).unwrap();
    let seed = soak::seed(1);
    let mut random = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let mut found = 0;
    for round in 0..soak::rounds(240) {
        // Half of them anywhere, half of them in the pages at the top of tables and indexes.
        let byte = if round % 2 == 0 {
            next(whole.len() as u64)
        } else {
            let root = roots[usize::try_from(next(roots.len() as u64)).unwrap()];
            (root - 1) * 4096 + next(4096)
        };
        let (byte, bit) = (usize::try_from(byte).unwrap(), next(8));
        let copy = Place::new();
        let mut flipped = whole.clone();
        flipped[byte] ^= 1 << bit;
        fs::write(copy.path(), &flipped).unwrap();
        fs::write(copy.beside(".head"), &head).unwrap();
        let Ok(store) = open(&copy.path()) else {
            found += 1;
            continue;
        };
        if is_damaged(&store) {
            found += 1;
            continue;
        }
        let answered = answers(&store, &traces);
        assert!(
            answered.as_ref().is_ok_and(|answered| *answered == expected),
            "seed {seed}: bit {bit} of byte {byte} (page {}) is silent: {:?}",
            byte / 4096 + 1,
            answered.err()
        );
    }
    assert!(found > 20, "seed {seed}: only {found} were found");
}
