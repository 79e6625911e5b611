//! `windlass export --bundle`: all of a run in one signed file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

use serde_json::json;
use windlass_kernel::run::{Event, RunEvent, RunName};
use windlass_kernel::{CheckpointId, Code, Digest, Head, Machine, PlanId, TraceId};
use windlass_runtime::{Clock as _, SystemClock};
use windlass_seal::{
    BundleError, IfExists, NewBundle, StoredEntry, referenced_calls, write_bundle,
};
use windlass_store::{Record, Store, StoreError, TraceFilter};
use windlass_workspace::{BlobStore, HashingStream};

use crate::commands::keys;
use crate::commands::verify::count;
use crate::failure::{Done, Failure};
use crate::output::Output;
use crate::project::{Project, unreadable};
use crate::setup::RunSetup;

/// How many entries or traces are read in one go.
const PAGE: usize = 1024;
/// The most traces that one bundle takes.
const TRACES_MAX: usize = 40_000;
/// The most that the checkpoints' documents may have together.
const CHECKPOINT_BYTES_MAX: usize = 256 << 20;

/// Refuses a file that is in the way, before anything is made.
pub fn replace(path: &Path, force: bool) -> Result<IfExists, Failure> {
    match (force, path.symlink_metadata().is_ok()) {
        (true, _) => Ok(IfExists::Replace),
        (false, false) => Ok(IfExists::Fail),
        (false, true) => {
            let message = format!("`{}` exists already", path.display());
            Err(Failure::new(Code::FileUnwritable, message).hint(FORCE))
        }
    }
}

/// What to do about a file that is in the way.
pub const FORCE: &str = "name another file; --force replaces the one that is there";

/// Writes the bundle of a run, and says what it holds.
pub fn write(
    project: &Project,
    setup: &RunSetup,
    trace_id: TraceId,
    file: &Path,
    force: bool,
    output: &Output,
) -> Done {
    let replace = replace(file, force)?;
    let store = setup.store.as_ref();
    let gathered = Gathered::of(store, trace_id)?;
    let (checkpoints, checkpoints_left_out) = gathered.documents(setup, trace_id)?;
    let blobs = open_blobs(project)?;
    let (contents, contents_left_out) = gathered.contents(blobs.as_ref())?;
    let keys = keys::open(project)?;
    let (signer, public) = keys::signer(project, &keys, output)?;
    let traces = gathered.heads.len();
    let entries: u64 = gathered.heads.iter().map(|head| head.sequence_number).sum();
    let counts = (checkpoints.len(), contents.len());
    let bundle = NewBundle {
        run_id: &gathered.run_id,
        trace_id,
        policy_hash: gathered.policy_hash,
        heads: gathered.heads,
        entries: &mut |trace_id, after| match store.list_log_entries(trace_id, after, PAGE) {
            Ok(page) => Ok(page.into_iter().map(recorded).collect()),
            Err(error) => Err(error.into()),
        },
        checkpoints,
        blobs: blobs.as_ref().map(|blobs| (blobs, contents)),
        keys: keys.all()?,
        rotations: keys.rotations()?,
        made_at: SystemClock.now(),
    };
    write_bundle(file, replace, &signer, bundle).map_err(failed)?;
    let (bytes, digest) = measure(file)?;
    let key_id = signer.public().id();
    let run_id = gathered.run_id;
    if output.json {
        output.value(&json!({
            "bytes": bytes, "checkpoints": counts.0, "checkpoints_left_out": checkpoints_left_out,
            "contents": counts.1, "contents_left_out": contents_left_out, "digest": digest,
            "entries": entries, "file": file, "key_id": key_id, "public_key_file": public,
            "purged": gathered.purged, "run_id": run_id, "trace_id": trace_id, "traces": traces,
        }))?;
        return Ok(0);
    }
    let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    output.line(&format!(
        "{}: {run_id}, {}, {}, {}, {}",
        file.display(),
        count(number(traces), "trace", "traces"),
        count(entries, "entry", "entries"),
        count(number(counts.0), "checkpoint", "checkpoints"),
        count(number(counts.1), "content", "contents"),
    ));
    output.line(&format!("{bytes} bytes, SHA-256 {digest}, signed by {key_id}"));
    for (left_out, one, many) in [
        (checkpoints_left_out, "checkpoint", "checkpoints"),
        (contents_left_out, "content", "contents"),
    ] {
        if left_out > 0 {
            let what = count(number(left_out), one, many);
            output.note(&format!("left out, since purged or missing: {what}"));
        }
    }
    Ok(0)
}

fn recorded(record: Record) -> StoredEntry {
    StoredEntry { entry: record.entry, body: record.body }
}

/// The folder of contents, if there is one.
fn open_blobs(project: &Project) -> Result<Option<BlobStore>, Failure> {
    let folder = project.folder.join("blobs");
    Ok(if folder.exists() { Some(BlobStore::open(folder)?) } else { None })
}

/// How large a file is, and its digest.
pub fn measure(path: &Path) -> Result<(u64, Digest), Failure> {
    let read = || -> std::io::Result<(u64, Digest)> {
        let mut hashed = HashingStream::new(File::open(path)?);
        std::io::copy(&mut hashed, &mut std::io::sink())?;
        Ok((hashed.length(), hashed.digest()))
    };
    read().map_err(|error| unreadable(path, &error))
}

fn failed(error: BundleError) -> Failure {
    let failure = Failure::of(error.code(), &error);
    match error {
        BundleError::Exists { .. } => failure.hint(FORCE),
        BundleError::CorruptTrace { .. } | BundleError::InvalidInput { .. } => failure.hint(
            "nothing was signed or written; `windlass verify` and `windlass checkpoint check` name \
             what is damaged",
        ),
        BundleError::Source { .. }
        | BundleError::Blob(_)
        | BundleError::Unreadable(_)
        | BundleError::Unwritable { .. } => failure,
    }
}

/// What belongs to a run.
struct Gathered {
    run_id: String,
    policy_hash: Option<Digest>,
    /// The ends of the run's trace and of all its calls', as they were when they were looked at.
    heads: Vec<Head>,
    cuts: Vec<CheckpointId>,
    /// What its checkpoints keep.
    kept: BTreeSet<Digest>,
    /// What its phases left behind, which may be kept.
    outputs: BTreeSet<Digest>,
    /// How many events of the run are gone.
    purged: u64,
}

impl Gathered {
    /// Reads the run and its calls once. Whether they hold together is seen when they are written.
    fn of(store: &dyn Store, trace_id: TraceId) -> Result<Self, Failure> {
        let mut gathered = Self {
            run_id: RunName::of(trace_id).to_string(),
            policy_hash: None,
            heads: Vec::new(),
            cuts: Vec::new(),
            kept: BTreeSet::new(),
            outputs: BTreeSet::new(),
            purged: 0,
        };
        let mut seen = BTreeSet::from([trace_id]);
        let mut left = vec![trace_id];
        let mut unnamed = Some(PlanId(trace_id.0));
        loop {
            let Some(next) = left.pop() else {
                // Calls that were under way when a process died are named by nobody, but name the run.
                let Some(plan_id) = unnamed.take() else { return Ok(gathered) };
                let more = calls_for(store, trace_id, plan_id)?;
                left.extend(more.into_iter().filter(|call| seen.insert(*call)));
                continue;
            };
            let head = match store.load_state(next) {
                Ok(state) => state.head,
                // Found to be missing when the bundle is checked, and named then.
                Err(StoreError::NotFound { .. }) if next != trace_id => continue,
                Err(error) => return Err(error.into()),
            };
            gathered.heads.push(head);
            if gathered.heads.len() > TRACES_MAX {
                let message = format!("the run has more than {TRACES_MAX} calls");
                return Err(Failure::new(Code::DocSizeExceeded, message)
                    .hint("no bundle takes so many; `windlass anchor` signs the ends of all"));
            }
            read_trace(store, &head, |record| {
                let Some(body) = &record.body else {
                    gathered.purged += u64::from(next == trace_id);
                    return;
                };
                if next == trace_id {
                    gathered.note(body);
                }
                // What is not an artifact at all is named when it is written.
                let calls = referenced_calls(record.entry.artifact_type, body).unwrap_or_default();
                left.extend(calls.into_iter().filter(|call| seen.insert(*call)));
            })?;
        }
    }

    /// Notes what an event of the run says.
    fn note(&mut self, body: &[u8]) {
        let Ok(RunEvent { event, .. }) = RunEvent::read(body) else { return };
        if let Event::Started(started) = event {
            self.run_id.clone_from(&started.run_id);
            self.policy_hash = Some(started.policy_hash);
        } else if let Event::Checkpointed(cut) = event {
            self.cuts.push(cut.id);
            self.kept.extend(cut.artifacts.values().map(|kept| kept.digest));
        } else if let Event::PhaseDone { done, .. } = event {
            self.outputs.extend(done.outputs.into_values());
        }
    }

    /// The documents of the run's checkpoints, and how many cannot be told any more.
    fn documents(
        &self,
        setup: &RunSetup,
        trace_id: TraceId,
    ) -> Result<(BTreeMap<String, Vec<u8>>, usize), Failure> {
        let mut documents = BTreeMap::new();
        if self.purged > 0 {
            return Ok((documents, self.cuts.len()));
        }
        let mut bytes = 0;
        for id in &self.cuts {
            let document = setup.checkpoints().load(trace_id, *id)?;
            let text = document.to_bytes();
            bytes += text.len();
            if bytes > CHECKPOINT_BYTES_MAX {
                let message =
                    format!("the run's checkpoints have more than {CHECKPOINT_BYTES_MAX} bytes");
                return Err(Failure::new(Code::DocSizeExceeded, message)
                    .hint("no bundle takes so much; `windlass checkpoint show` prints each"));
            }
            documents.insert(document.name(), text);
        }
        Ok((documents, 0))
    }

    /// The contents that are there, and how many of those that checkpoints keep are not.
    fn contents(&self, blobs: Option<&BlobStore>) -> Result<(BTreeSet<Digest>, usize), Failure> {
        let Some(blobs) = blobs else { return Ok((BTreeSet::new(), self.kept.len())) };
        let mut there = BTreeSet::new();
        for digest in self.kept.union(&self.outputs) {
            if blobs.exists(digest)? {
                there.insert(*digest);
            }
        }
        let left_out = self.kept.difference(&there).count();
        Ok((there, left_out))
    }
}

/// Shows a trace up to its head, page by page.
fn read_trace(store: &dyn Store, head: &Head, mut see: impl FnMut(&Record)) -> Result<(), Failure> {
    let mut after = 0;
    while after < head.sequence_number {
        let page = store.list_log_entries(head.trace_id, after, PAGE)?;
        let Some(last) = page.last() else { return Ok(()) };
        let next = last.entry.sequence_number;
        page.iter()
            .filter(|record| record.entry.sequence_number <= head.sequence_number)
            .for_each(&mut see);
        after = next.max(after.saturating_add(1));
    }
    Ok(())
}

/// The calls that say they belong to a run: none is older than it.
fn calls_for(
    store: &dyn Store,
    trace_id: TraceId,
    plan_id: PlanId,
) -> Result<Vec<TraceId>, Failure> {
    let mut calls = Vec::new();
    let mut before = None;
    loop {
        let filter = TraceFilter { open_only: false, state: None, before, limit: PAGE };
        let page = store.list_traces(&filter)?;
        for state in &page {
            let is_call = state.head.state.is_some_and(|state| state.machine() == Machine::Call);
            if state.plan_id == plan_id && is_call {
                calls.push(state.head.trace_id);
            }
        }
        match page.last().map(|state| state.head.trace_id) {
            Some(last) if page.len() == PAGE && last > trace_id => before = Some(last),
            Some(_) | None => return Ok(calls),
        }
    }
}
