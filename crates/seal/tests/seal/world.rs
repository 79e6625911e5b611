//! A run with its calls, blobs and checkpoints, and helpers that take a bundle of it apart.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Read as _};
use std::path::PathBuf;
use std::sync::LazyLock;

use serde_json::{Value, json};
use windlass_kernel::run::plan::{Doer, Plan, RunOutcome};
use windlass_kernel::run::{Base, CallRecord, Event, PhaseResult, RunEvent, Started};
use windlass_kernel::{
    ArtifactId, ArtifactType, Digest, Draft, Head, State, Timestamp, TraceId, Transition, Uuid7,
    canon,
};
use windlass_seal::{
    BundleError, BundleFault, BundleReport, IfExists, KeyFile, Manifest, NewBundle, Rotation,
    Signer, StoredEntry, Trust, verify_bundle, write_bundle,
};
use windlass_store::conformance::fixture::{Ending, Fixture, Trace};
use windlass_testkit::plans::{self, phase, plan};
use windlass_workspace::BlobStore;

pub const BASE: &str = "1111111111111111111111111111111111111111";
pub const COMMIT: &str = "2222222222222222222222222222222222222222";

/// The first secret key of RFC 8032's test vectors, and others that differ in one byte.
pub fn seed(number: u8) -> [u8; 32] {
    let mut seed = [
        0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c,
        0xc4, 0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae,
        0x7f, 0x60,
    ];
    seed[31] ^= number;
    seed
}

pub fn signer(number: u8) -> Signer {
    Signer::from_seed(&seed(number))
}

pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_ms(1_780_000_000_000 + seconds * 1000).unwrap()
}

pub fn key_file(signer: &Signer) -> KeyFile {
    KeyFile { key: signer.public(), created_at: at(0), retired_at: None }
}

pub fn trusting(signers: &[&Signer]) -> Trust {
    Trust::new(signers.iter().map(|signer| signer.public()))
}

/// The parts of a bundle, which tests modify.
pub struct World {
    pub folder: tempfile::TempDir,
    pub run: TraceId,
    pub run_id: String,
    pub policy_hash: Option<Digest>,
    pub heads: Vec<Head>,
    pub records: BTreeMap<TraceId, Vec<StoredEntry>>,
    pub checkpoints: BTreeMap<String, Vec<u8>>,
    pub blob_digests: BTreeSet<Digest>,
    pub keys: Vec<KeyFile>,
    pub rotations: Vec<Rotation>,
}

/// A call as an event names it.
pub fn call_of(trace: &Trace) -> CallRecord {
    let head = trace.head_after(trace.len());
    let (entry_digest, state) = (head.entry_digest, head.state.unwrap());
    CallRecord { entry_digest, state, tool: "files/write_file".into(), trace_id: trace.trace_id }
}

pub fn started() -> Started {
    let build = phase("build", &[], Doer::Agent { agent: "a".into(), prompt: None });
    let plan = Plan { id: "small".into(), title: "Small".into(), ..plan(vec![build]) };
    Started {
        base: Some(Base { branch: Some("main".into()), commit: BASE.into(), tree: None }),
        run_id: "run-1".into(),
        task: json!({ "task": "write it" }),
        ..plans::started(plan)
    }
}

pub fn done(calls: Vec<CallRecord>, outputs: BTreeMap<String, Digest>) -> Event {
    let summary = "written".into();
    let done = PhaseResult { calls, duration_ms: 1, outputs, summary, ..plans::done(json!({})) };
    Event::PhaseDone { phase: "build".into(), attempt: 1, done: Box::new(done) }
}

pub fn committed() -> Event {
    Event::CommitPrepared {
        branch: "main".into(),
        commit: COMMIT.into(),
        parent: BASE.into(),
        tree: "3".repeat(40),
    }
}

pub fn ended() -> Event {
    Event::Ended { outcome: RunOutcome::Pass, reason: "pass".into(), detail: String::new() }
}

/// The entries of a run with these events.
pub fn run_of(trace_id: TraceId, events: Vec<Event>) -> (Head, Vec<StoredEntry>) {
    let mut head = Head::empty(trace_id);
    let mut records = Vec::new();
    for (number, event) in (0_i64..).zip(events) {
        let [.., last] = number.to_be_bytes();
        let artifact_id =
            ArtifactId(Uuid7::from_parts(1_780_000_000_000, [9, 9, 9, 9, 9, 9, 9, 9, 9, last]));
        let (ts, to) = (at(number), event.to_state());
        let body = RunEvent::new(trace_id, artifact_id, ts, event).to_bytes().unwrap();
        let from = head.state.unwrap_or(State::Init);
        let draft = Draft {
            ts,
            transition: Transition { from, to, artifact: ArtifactType::RunEvent },
            artifact_id,
            artifact_digest: Digest::of(&body),
            tool_call_id: None,
            idempotency_key: None,
        };
        let (entry, next) = head.append(draft).unwrap();
        records.push(StoredEntry { entry, body: Some(body) });
        head = next;
    }
    (head, records)
}

impl World {
    /// A run with three calls, one output and a commit.
    pub fn new() -> Self {
        let fixture = Fixture::new();
        let calls: Vec<Trace> = [Ending::Completed, Ending::Denied, Ending::Failed]
            .into_iter()
            .map(|ending| fixture.call(ending))
            .collect();
        let run = TraceId(fixture.uuid());
        let outputs = [("notes/plan.md".to_owned(), Digest::of(CONTENT))].into();
        let events = vec![
            Event::Started(Box::new(started())),
            Event::Begun {},
            Event::PhaseStarted { phase: "build".into(), attempt: 1 },
            done(calls.iter().map(call_of).collect(), outputs),
            committed(),
            ended(),
        ];
        Self::of(run, events, &calls)
    }

    /// A run with these events and calls.
    pub fn of(run: TraceId, events: Vec<Event>, calls: &[Trace]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (head, records) = run_of(run, events);
        let mut world = Self {
            folder,
            run,
            run_id: "run-1".into(),
            policy_hash: Some(Digest::of(b"policy")),
            heads: vec![head],
            records: [(run, records)].into(),
            checkpoints: [("0001-build-post".to_owned(), b"{\"phase\":\"build\"}".to_vec())].into(),
            blob_digests: BTreeSet::new(),
            keys: vec![key_file(&signer(0))],
            rotations: Vec::new(),
        };
        for call in calls {
            world.add(call);
        }
        let stored = world.blobs().put(&mut &CONTENT[..], u64::MAX).unwrap();
        world.blob_digests.insert(stored.digest);
        world
    }

    /// Adds a call's trace.
    pub fn add(&mut self, call: &Trace) {
        self.heads.push(call.head_after(call.len()));
        let recorded = call.records(call.len()).into_iter();
        let recorded =
            recorded.map(|record| StoredEntry { entry: record.entry, body: record.body }).collect();
        self.records.insert(call.trace_id, recorded);
    }

    pub fn blobs(&self) -> BlobStore {
        BlobStore::open(self.folder.path().join("blobs")).unwrap()
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("run.bundle")
    }

    pub fn write(&self, signer: &Signer, replace: IfExists) -> Result<Manifest, BundleError> {
        let blobs = self.blobs();
        let bundle = NewBundle {
            run_id: &self.run_id,
            trace_id: self.run,
            policy_hash: self.policy_hash,
            heads: self.heads.clone(),
            // Pages of two entries, as a store would return them.
            entries: &mut |trace_id, after| {
                let all = self.records.get(&trace_id).into_iter().flatten();
                Ok(all.skip(usize::try_from(after).unwrap()).take(2).cloned().collect())
            },
            checkpoints: self.checkpoints.clone(),
            blobs: Some((&blobs, self.blob_digests.clone())),
            files: None,
            keys: self.keys.clone(),
            rotations: self.rotations.clone(),
            made_at: at(100),
        };
        write_bundle(&self.path(), replace, signer, bundle)
    }

    /// The bytes of a bundle signed by the first key.
    pub fn bytes(&self) -> Vec<u8> {
        self.write(&signer(0), IfExists::Replace).unwrap();
        std::fs::read(self.path()).unwrap()
    }

    /// The error of writing the bundle; checks that no file is left.
    pub fn refusal(&self) -> BundleError {
        let error = self.write(&signer(0), IfExists::Fail).unwrap_err();
        assert!(!self.path().exists());
        let left = std::fs::read_dir(self.folder.path()).unwrap().count();
        assert_eq!(left, 1, "only the folder of blobs remains");
        error
    }
}

/// The bytes of a bundle of the default run, written once.
pub static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| World::new().bytes());

pub const CONTENT: &[u8] = b"# Plan\n\nWrite it, then stop.\n";

pub fn check(bytes: &[u8], trust: &Trust) -> BundleReport {
    verify_bundle(&mut Cursor::new(bytes), trust).unwrap()
}

pub fn faults(bytes: &[u8]) -> Vec<BundleFault> {
    check(bytes, &trusting(&[&signer(0)])).faults
}

/// The members of a bundle, read by another tar library.
pub fn members(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut archive = tar::Archive::new(bytes);
    archive
        .entries()
        .unwrap()
        .map(|entry| {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().to_str().unwrap().to_owned();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            (name, bytes)
        })
        .collect()
}

pub fn header(name: &str, size: u64) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_path(name).unwrap();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_device_major(0).unwrap();
    header.set_device_minor(0).unwrap();
    header.set_cksum();
    // The library writes the checksum as seven digits and a NUL; the standard and GNU tar write six
    // digits, a NUL and a space.
    let sum = header.cksum().unwrap();
    header.as_mut_bytes()[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

/// Writes members into an archive with another tar library.
pub fn archive(members: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in members {
        let size = u64::try_from(bytes.len()).unwrap();
        builder.append(&header(name, size), &**bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

pub fn member<'a>(members: &'a mut [(String, Vec<u8>)], start: &str) -> &'a mut Vec<u8> {
    let found = members.iter_mut().find(|(name, _)| name.starts_with(start));
    &mut found.unwrap_or_else(|| panic!("no member {start}")).1
}

/// Signs members again, whatever they contain: a second, independent implementation of the format.
pub fn resign(members: &mut [(String, Vec<u8>)], signer: &Signer) -> Vec<u8> {
    members.sort();
    let listed: Vec<Value> = members
        .iter()
        .filter(|(name, _)| name != "manifest.json" && name != "signature.json")
        .map(|(name, bytes)| {
            let plain = match name.ends_with(".zst") {
                true => zstd::stream::decode_all(&**bytes).map_or(0, |plain| plain.len()),
                false => bytes.len(),
            };
            json!({ "name": name, "plain_size": plain, "sha256": Digest::of(bytes),
                "size": bytes.len() })
        })
        .collect();
    let manifest = member(members, "manifest.json");
    let mut value: Value = serde_json::from_slice(manifest).unwrap();
    value["members"] = listed.into();
    *manifest = canon::to_bytes(&value).unwrap();
    let mut signature = json!({ "format": "windlass.bundle/v1", "key_id": signer.public().id(),
        "manifest": Digest::of(manifest) });
    let signed = [b"windlass.bundle/v1\n", &*canon::to_bytes(&signature).unwrap()].concat();
    signature["signature"] = serde_json::to_value(signer.sign(&signed)).unwrap();
    *member(members, "signature.json") = canon::to_bytes(&signature).unwrap();
    archive(members)
}
