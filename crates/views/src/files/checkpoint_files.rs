//! The checkpoint files: one for each checkpoint, and an index.
//!
//! | file, below the folder of checkpoints | shows |
//! |---|---|
//! | `run-<run_id>/PRE_<phase>_v<version>.json`, `POST_…` | a checkpoint in full |
//! | `index.json` | the newest checkpoints of all runs |

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use windlass_engine::{EngineError, PurgedCheckpoint};
use windlass_kernel::run::{CheckpointKind, CheckpointSide};
use windlass_kernel::{CheckpointId, Timestamp};

use super::folder::Folder;
use crate::checkpoints::CheckpointDocument;

const INDEX: &str = "index.json";
/// The maximum size of the index.
const INDEX_BYTES_MAX: usize = 16 << 20;
/// The maximum number of checkpoints in the index; the newest are listed.
const INDEXED_MAX: usize = 200;
/// The checkpoint files of a run with more phases are written only on request: each of them lists all
/// complete phases.
pub(super) const PHASES_MAX: usize = 500;

/// A checkpoint in the index.
// INVARIANT: the fields are declared in the order of their names, which is the order in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IndexedCheckpoint {
    artifact_count: usize,
    created_at: Timestamp,
    id: CheckpointId,
    kind: CheckpointKind,
    parent_checkpoint_id: Option<CheckpointId>,
    passed: Option<bool>,
    path: String,
    phase: String,
    run_id: String,
    #[serde(rename = "type")]
    side: CheckpointSide,
    version: u32,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    checkpoints: Vec<IndexedCheckpoint>,
    omitted: usize,
    schema_id: String,
}

/// Writes checkpoints and adds them to the index; returns the paths.
pub(super) fn write(
    folder: &Folder,
    documents: &[CheckpointDocument],
) -> Result<Vec<String>, EngineError> {
    let mut paths = Vec::new();
    let mut listed = BTreeMap::new();
    for document in documents {
        let path = path_of(document);
        folder.write(&path, &document.to_bytes())?;
        listed.insert(document.id, indexed(document, path.clone()));
        paths.push(path);
    }
    if !listed.is_empty() {
        update_index(folder, listed)?;
        paths.push(INDEX.to_owned());
    }
    Ok(paths)
}

/// Removes the files of checkpoints, and takes these out of the index; returns how many files there were.
pub(super) fn remove(
    folder: &Folder,
    purged: &[PurgedCheckpoint],
    dry_run: bool,
) -> Result<u64, EngineError> {
    let paths: Vec<String> = purged.iter().map(|one| path(&one.run_id, &one.name)).collect();
    let removed = match dry_run {
        true => return Ok(folder.count(&paths)),
        false => folder.remove_all(&paths)?,
    };
    let removed_ids: BTreeSet<CheckpointId> = purged.iter().map(|one| one.id).collect();
    change_index(folder, |index| {
        let before = index.checkpoints.len();
        index.checkpoints.retain(|one| !removed_ids.contains(&one.id));
        let listed = before.saturating_sub(index.checkpoints.len());
        let left_out = usize::try_from(removed).unwrap_or(usize::MAX).saturating_sub(listed);
        index.omitted = index.omitted.saturating_sub(left_out);
    })?;
    Ok(removed)
}

fn path_of(document: &CheckpointDocument) -> String {
    path(&document.orchestrator_state.run_id, &document.name())
}

fn path(run_id: &str, name: &str) -> String {
    format!("run-{run_id}/{name}.json")
}

fn indexed(document: &CheckpointDocument, path: String) -> IndexedCheckpoint {
    let kind = document.metadata.get("kind").cloned().unwrap_or_default();
    let kind = serde_json::from_value(kind).unwrap_or(CheckpointKind::Started);
    IndexedCheckpoint {
        artifact_count: document.artifacts.len(),
        created_at: document.created_at,
        id: document.id,
        kind,
        parent_checkpoint_id: document.parent_checkpoint_id,
        passed: document.governance_results.passed,
        path,
        phase: document.phase.clone(),
        run_id: document.orchestrator_state.run_id.clone(),
        side: document.side,
        version: document.version,
    }
}

/// Adds checkpoints to the index.
fn update_index(
    folder: &Folder,
    new: BTreeMap<CheckpointId, IndexedCheckpoint>,
) -> Result<(), EngineError> {
    change_index(folder, |index| {
        // Ids are ordered by time.
        let mut all: BTreeMap<CheckpointId, IndexedCheckpoint> =
            std::mem::take(&mut index.checkpoints).into_iter().map(|one| (one.id, one)).collect();
        // What is older than all that are listed was left out before, and is counted already.
        let oldest = all.keys().next().copied().filter(|_| index.omitted > 0);
        all.extend(new.into_iter().filter(|(id, _)| oldest.is_none_or(|oldest| *id >= oldest)));
        let more = all.len().saturating_sub(INDEXED_MAX);
        index.omitted = index.omitted.saturating_add(more);
        index.checkpoints = all.into_values().skip(more).collect();
    })
}

/// Changes the index; one that cannot be read is replaced.
fn change_index(folder: &Folder, change: impl FnOnce(&mut Index)) -> Result<(), EngineError> {
    let locked = folder.lock()?;
    let found = folder.read(INDEX, INDEX_BYTES_MAX).ok().flatten();
    let index = found.as_deref().and_then(|bytes| serde_json::from_slice::<Index>(bytes).ok());
    let mut index = index.unwrap_or_default();
    change(&mut index);
    index.schema_id = "windlass.checkpoint_index".to_owned();
    let mut bytes = serde_json::to_vec_pretty(&index).unwrap_or_default();
    bytes.push(b'\n');
    if found.is_some_and(|found| found == bytes) {
        return Ok(());
    }
    folder.replace(INDEX, &bytes, &locked)
}
