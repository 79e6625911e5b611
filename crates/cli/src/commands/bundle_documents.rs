//! Compares the documents of checkpoints in a bundle with its journal: each is built again and must be the same.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek};

use windlass_kernel::artifact::{ActionRequest, ToolEffect};
use windlass_kernel::run::{Event, RunEvent};
use windlass_kernel::{Artifact, ArtifactType, Digest, TraceId};
use windlass_seal::{BundleError, BundleFault, BundleReader};
use windlass_views::checkpoints::{ToolInvocation, build_document};

/// What is shown of each call, and the agent that made it.
type Calls = BTreeMap<TraceId, (ToolInvocation, Option<String>)>;

/// Returns a fault for each document that is missing or does not follow from the journal.
pub fn compare(
    source: &mut (impl Read + Seek),
    run: TraceId,
) -> Result<Vec<BundleFault>, BundleError> {
    let mut bundle = BundleReader::open(source)?;
    let mut faults = Vec::new();
    let mut unknown: BTreeSet<String> = bundle.checkpoints().into_iter().collect();
    if unknown.is_empty() {
        return Ok(faults);
    }
    let calls = read_calls(&mut bundle, run)?;
    let find = |call| calls.get(&call).cloned().unwrap_or_else(|| ToolInvocation::of(None, None));
    // Digests, so that one document at a time is in memory.
    let mut expected = BTreeMap::new();
    bundle.visit(run, &mut |entry, body, run| {
        let event = body.map(RunEvent::read);
        let Some((run, Ok(RunEvent { event: Event::Checkpointed(checkpoint), .. }))) =
            run.zip(event)
        else {
            return;
        };
        let document = build_document(run, &checkpoint, entry.ts, &find);
        expected.insert(document.name(), Digest::of(&document.to_bytes()));
    })?;
    for (name, digest) in expected {
        unknown.remove(&name);
        let member = format!("checkpoints/{name}.json");
        match bundle.checkpoint(&name)? {
            None => faults.push(BundleFault::MissingMember { name: member }),
            Some(bytes) if Digest::of(&bytes) != digest => {
                faults.push(BundleFault::JournalMismatch { name: member });
            }
            Some(_) => {}
        }
    }
    let unknown = unknown.into_iter().map(|name| format!("checkpoints/{name}.json"));
    faults.extend(unknown.map(|name| BundleFault::JournalMismatch { name }));
    Ok(faults)
}

/// Reads what documents show of the calls. A trace is read up to its first purged artifact, as where documents are
/// made.
fn read_calls<R: Read + Seek>(
    bundle: &mut BundleReader<R>,
    run: TraceId,
) -> Result<Calls, BundleError> {
    let mut calls = BTreeMap::new();
    for trace_id in bundle.trace_ids().into_iter().filter(|trace_id| *trace_id != run) {
        let mut request: Option<ActionRequest> = None;
        let mut effect: Option<ToolEffect> = None;
        let mut purged = false;
        bundle.visit(trace_id, &mut |entry, body, _| {
            purged |= body.is_none();
            let is_shown = matches!(
                entry.artifact_type,
                ArtifactType::ActionRequest | ArtifactType::ToolEffect
            );
            let Some(body) = body.filter(|_| is_shown && !purged) else { return };
            match Artifact::read(entry.artifact_type, body) {
                Ok(Artifact::Request(read)) => request = Some(read),
                Ok(Artifact::Effect(read)) => effect = Some(read),
                Ok(Artifact::Decision(_) | Artifact::Call(_)) | Err(_) => {}
            }
        })?;
        calls.insert(trace_id, ToolInvocation::of(request, effect));
    }
    Ok(calls)
}
