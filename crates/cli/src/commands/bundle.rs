//! `windlass export --bundle`: exports a run as one signed file.

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
use windlass_workspace::{
    BlobStore, HashingStream, PackedObjects, SnapshotError, SnapshotLock, TreeId,
};

use crate::args::Export;
use crate::commands::keys;
use crate::commands::verify::count;
use crate::failure::{CommandResult, Failure};
use crate::input::unreadable;
use crate::output::Output;
use crate::project::Project;
use crate::setup::RunSetup;

/// The page size for entries and traces.
const PAGE: usize = 1024;
/// The maximum number of traces in a bundle.
const TRACES_MAX: usize = 40_000;
/// The maximum total size of the checkpoint documents.
const CHECKPOINT_BYTES_MAX: usize = 256 << 20;
/// The maximum total size of the files of workspaces. What any bundle may unpack to is twice as much.
const FILES_BYTES_MAX: u64 = 512 << 20;

/// Refuses an existing file before any work is done, unless `force` is set; then it refuses what is no
/// regular file.
pub fn replace(path: &Path, force: bool) -> Result<IfExists, Failure> {
    match (force, path.symlink_metadata()) {
        (true, Ok(found)) if !found.is_file() => {
            let message =
                format!("`{}` is not a regular file, so it is not replaced", path.display());
            Err(Failure::new(Code::FileUnwritable, message).hint("choose another file name"))
        }
        (true, _) => Ok(IfExists::Replace),
        (false, Err(_)) => Ok(IfExists::Fail),
        (false, Ok(_)) => {
            let message = format!("`{}` already exists", path.display());
            Err(Failure::new(Code::FileUnwritable, message).hint(FORCE_HINT))
        }
    }
}

/// The hint for an existing file.
pub const FORCE_HINT: &str = "choose another file name, or use --force to overwrite the file";

/// Writes the bundle of a run and reports its contents.
pub fn write(
    project: &Project,
    setup: &RunSetup,
    trace_id: TraceId,
    file: &Path,
    options: &Export,
    output: &Output,
) -> CommandResult {
    let replace = replace(file, options.force)?;
    let store = setup.store.as_ref();
    let collected = RunContents::of(store, trace_id)?;
    let (checkpoints, checkpoints_left_out) = collected.documents(setup, trace_id)?;
    let files = FilesOfRun::of(setup, &collected, options.without_files)?;
    let blobs = open_blobs(project)?;
    let (contents, contents_left_out) = collected.contents(blobs.as_ref())?;
    let keys = keys::open(project)?;
    let (signer, public) = keys::signer(&keys, output)?;
    let traces = collected.heads.len();
    let entries: u64 = collected.heads.iter().map(|head| head.sequence_number).sum();
    let counts = (checkpoints.len(), contents.len());
    let mut write_files = |target: &mut dyn std::io::Write| files.write(setup, target);
    let bundle = NewBundle {
        run_id: &collected.run_id,
        trace_id,
        policy_hash: collected.policy_hash,
        heads: collected.heads,
        entries: &mut |trace_id, after| match store.list_log_entries(trace_id, after, PAGE) {
            Ok(page) => Ok(page.into_iter().map(recorded).collect()),
            Err(error) => Err(error.into()),
        },
        checkpoints,
        blobs: blobs.as_ref().map(|blobs| (blobs, contents)),
        files: (!files.packed.trees.is_empty()).then_some(&mut write_files),
        keys: keys.all()?,
        rotations: keys.rotations()?,
        made_at: SystemClock.now(),
    };
    write_bundle(file, replace, &signer, bundle).map_err(failed)?;
    let (bytes, digest) = measure(file)?;
    let key_id = signer.public().id();
    let run_id = collected.run_id;
    if output.json {
        output.value(&json!({
            "bytes": bytes, "checkpoints": counts.0, "checkpoints_left_out": checkpoints_left_out,
            "contents": counts.1, "contents_left_out": contents_left_out, "digest": digest,
            "entries": entries, "file": file, "key_id": key_id, "public_key_file": public,
            "purged": collected.purged, "run_id": run_id, "trace_id": trace_id, "traces": traces,
            "workspaces": files.packed.trees.len(), "workspaces_left_out": files.left_out(),
        }))?;
        return Ok(0);
    }
    let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    output.line(&format!(
        "{}: {run_id}, {}, {}, {}, {}, {}",
        file.display(),
        count(number(traces), "trace", "traces"),
        count(entries, "entry", "entries"),
        count(number(counts.0), "checkpoint", "checkpoints"),
        count(number(counts.1), "content", "contents"),
        count(number(files.packed.trees.len()), "workspace", "workspaces"),
    ));
    output.line(&format!("{bytes} bytes, SHA-256 {digest}, signed by {key_id}"));
    for (left_out, one, many) in [
        (checkpoints_left_out, "checkpoint", "checkpoints"),
        (contents_left_out, "content", "contents"),
        (files.packed.missing.len(), "workspace", "workspaces"),
    ] {
        if left_out > 0 {
            let what = count(number(left_out), one, many);
            output.note(&format!("not included because purged or missing: {what}"));
        }
    }
    if !files.packed.too_large.is_empty() {
        let what = count(number(files.packed.too_large.len()), "workspace", "workspaces");
        output.note(&format!(
            "not included because the files have more than {FILES_BYTES_MAX} bytes: {what}"
        ));
    }
    Ok(0)
}

fn recorded(record: Record) -> StoredEntry {
    StoredEntry { entry: record.entry, body: record.body }
}

/// The blob store, if there is one.
fn open_blobs(project: &Project) -> Result<Option<BlobStore>, Failure> {
    let folder = project.state()?.join("blobs");
    Ok(if folder.exists() { Some(BlobStore::open(folder)?) } else { None })
}

/// The size and digest of a file.
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
        BundleError::Exists { .. } => failure.hint(FORCE_HINT),
        BundleError::CorruptTrace { .. } | BundleError::InvalidInput { .. } => failure.hint(
            "nothing was signed or written; `windlass verify` and `windlass checkpoint check` list \
             what is corrupt",
        ),
        BundleError::Source { .. }
        | BundleError::Blob(_)
        | BundleError::Snapshot(_)
        | BundleError::Damaged { .. }
        | BundleError::Unreadable(_)
        | BundleError::Unwritable { .. } => failure,
    }
}

/// The files of the workspaces of a run's checkpoints.
struct FilesOfRun {
    packed: PackedObjects,
    /// No purge deletes them while they are read.
    _lock: Option<SnapshotLock>,
}

impl FilesOfRun {
    /// Lists them; an empty list if they are not wanted, or cannot be tied to a checkpoint any more.
    fn of(setup: &RunSetup, run: &RunContents, without: bool) -> Result<Self, Failure> {
        if without || run.purged > 0 || run.trees.is_empty() {
            return Ok(Self { packed: PackedObjects::default(), _lock: None });
        }
        let snapshots = setup.engine.snapshots()?;
        let lock = snapshots.lock_for_storing()?;
        let packed = snapshots.list_objects(&run.trees, FILES_BYTES_MAX)?;
        Ok(Self { packed, _lock: Some(lock) })
    }

    fn write(
        &self,
        setup: &RunSetup,
        target: &mut dyn std::io::Write,
    ) -> Result<(), SnapshotError> {
        match setup.engine.snapshots() {
            Ok(snapshots) => snapshots.write_objects(&self.packed, target),
            Err(_) => Ok(()),
        }
    }

    fn left_out(&self) -> usize {
        self.packed.missing.len() + self.packed.too_large.len()
    }
}

/// Everything that belongs to a run.
struct RunContents {
    run_id: String,
    policy_hash: Option<Digest>,
    /// The heads of the run's trace and of all its calls, as read.
    heads: Vec<Head>,
    checkpoints: Vec<CheckpointId>,
    /// The digests of the files that its checkpoints store.
    stored: BTreeSet<Digest>,
    /// The snapshots of its checkpoints, oldest first.
    trees: Vec<TreeId>,
    /// The digests of its phases' outputs, which may be stored.
    outputs: BTreeSet<Digest>,
    /// How many of the run's artifacts are purged.
    purged: u64,
}

impl RunContents {
    /// Reads the run and its calls once. They are verified when the bundle is written.
    fn of(store: &dyn Store, trace_id: TraceId) -> Result<Self, Failure> {
        let mut collected = Self {
            run_id: RunName::of(trace_id).to_string(),
            policy_hash: None,
            heads: Vec::new(),
            checkpoints: Vec::new(),
            stored: BTreeSet::new(),
            trees: Vec::new(),
            outputs: BTreeSet::new(),
            purged: 0,
        };
        let mut seen = BTreeSet::from([trace_id]);
        let mut left = vec![trace_id];
        let mut unnamed = Some(PlanId(trace_id.0));
        loop {
            let Some(next) = left.pop() else {
                // No event names the calls that were open when a process died, but they name the run.
                let Some(plan_id) = unnamed.take() else { return Ok(collected) };
                let more = calls_for(store, plan_id)?;
                left.extend(more.into_iter().filter(|call| seen.insert(*call)));
                continue;
            };
            let head = match store.load_state(next) {
                Ok(state) => state.head,
                // Reported as missing when the bundle is verified.
                Err(StoreError::NotFound { .. }) if next != trace_id => continue,
                Err(error) => return Err(error.into()),
            };
            collected.heads.push(head);
            if collected.heads.len() > TRACES_MAX {
                let message = format!("the run has more than {TRACES_MAX} calls");
                return Err(Failure::new(Code::DocSizeExceeded, message)
                    .hint("a bundle cannot hold that many; `windlass anchor` signs the heads of all traces"));
            }
            read_trace(store, &head, |record| {
                let Some(body) = &record.body else {
                    collected.purged += u64::from(next == trace_id);
                    return;
                };
                if next == trace_id {
                    collected.scan_event(body);
                }
                // An invalid artifact is reported when the bundle is written.
                let calls = referenced_calls(record.entry.artifact_type, body).unwrap_or_default();
                left.extend(calls.into_iter().filter(|call| seen.insert(*call)));
            })?;
        }
    }

    /// Collects the digests and ids in an event of the run.
    fn scan_event(&mut self, body: &[u8]) {
        let Ok(RunEvent { event, .. }) = RunEvent::read(body) else { return };
        if let Event::Started(started) = event {
            self.run_id.clone_from(&started.run_id);
            self.policy_hash = Some(started.policy_hash);
        } else if let Event::Checkpointed(checkpoint) = event {
            self.checkpoints.push(checkpoint.id);
            self.stored.extend(checkpoint.artifacts.values().map(|file| file.digest));
            let workspace = checkpoint.workspace.iter();
            let trees = workspace.flat_map(|found| [Some(&found.tree), found.branch.as_ref()]);
            for tree in trees.flatten().filter_map(|tree| tree.parse().ok()) {
                if !self.trees.contains(&tree) {
                    self.trees.push(tree);
                }
            }
        } else if let Event::PhaseDone { done, .. } = event {
            self.outputs.extend(done.outputs.into_values());
        }
    }

    /// The documents of the run's checkpoints, and how many can no longer be built.
    fn documents(
        &self,
        setup: &RunSetup,
        trace_id: TraceId,
    ) -> Result<(BTreeMap<String, Vec<u8>>, usize), Failure> {
        let mut documents = BTreeMap::new();
        if self.purged > 0 {
            return Ok((documents, self.checkpoints.len()));
        }
        let mut bytes = 0;
        for id in &self.checkpoints {
            let document = setup.checkpoints().load(trace_id, *id)?;
            let text = document.to_bytes();
            bytes += text.len();
            if bytes > CHECKPOINT_BYTES_MAX {
                let message =
                    format!("the run's checkpoints have more than {CHECKPOINT_BYTES_MAX} bytes");
                return Err(Failure::new(Code::DocSizeExceeded, message)
                    .hint("a bundle cannot hold that much; `windlass checkpoint show` prints single checkpoints"));
            }
            documents.insert(document.name(), text);
        }
        Ok((documents, 0))
    }

    /// The stored contents, and how many contents of checkpoints are missing.
    fn contents(&self, blobs: Option<&BlobStore>) -> Result<(BTreeSet<Digest>, usize), Failure> {
        let Some(blobs) = blobs else { return Ok((BTreeSet::new(), self.stored.len())) };
        let mut there = BTreeSet::new();
        for digest in self.stored.union(&self.outputs) {
            if blobs.exists(digest)? {
                there.insert(*digest);
            }
        }
        let left_out = self.stored.difference(&there).count();
        Ok((there, left_out))
    }
}

/// Visits a trace's entries up to its head, page by page.
fn read_trace(
    store: &dyn Store,
    head: &Head,
    mut visit: impl FnMut(&Record),
) -> Result<(), Failure> {
    let mut after = 0;
    while after < head.sequence_number {
        let page = store.list_log_entries(head.trace_id, after, PAGE)?;
        let Some(last) = page.last() else { return Ok(()) };
        let next = last.entry.sequence_number;
        page.iter()
            .filter(|record| record.entry.sequence_number <= head.sequence_number)
            .for_each(&mut visit);
        after = next.max(after.saturating_add(1));
    }
    Ok(())
}

/// The calls whose plan id is the run's.
fn calls_for(store: &dyn Store, plan_id: PlanId) -> Result<Vec<TraceId>, Failure> {
    let filter = TraceFilter {
        machine: Some(Machine::Call),
        plan_id: Some(plan_id),
        ..TraceFilter::all(usize::MAX)
    };
    let calls = store.list_traces(&filter)?;
    Ok(calls.iter().map(|state| state.head.trace_id).collect())
}
