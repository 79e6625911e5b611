//! The files that show checkpoints: one for each, and the index of them all.
//!
//! | file, below the folder of checkpoints | shows |
//! |---|---|
//! | `run-<run_id>/PRE_<phase>_v<version>.json`, `POST_…` | a checkpoint in full |
//! | `index.json` | the newest checkpoints of all runs |

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use windlass_engine::EngineError;
use windlass_kernel::run::{CheckpointKind, CheckpointSide};
use windlass_kernel::{CheckpointId, Timestamp};

use super::folder::Folder;
use crate::checkpoints::Document;

const INDEX: &str = "index.json";
/// The largest index that is read.
const INDEX_BYTES_MAX: usize = 16 << 20;
/// The most checkpoints that the index lists: the newest. The journal has all of them.
const LISTED_MAX: usize = 5000;
/// Of a run with more phases than this, checkpoints are only written when they are asked for: each
/// of them names all phases that are complete.
pub(super) const PHASES_MAX: usize = 500;

/// A checkpoint in the index.
// INVARIANT: the fields are declared in the order of their names, which is the order in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    artifact_count: usize,
    created_at: Timestamp,
    id: CheckpointId,
    kind: CheckpointKind,
    parent_checkpoint_id: Option<CheckpointId>,
    passed: bool,
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
    checkpoints: Vec<Listed>,
    omitted: usize,
    schema_id: String,
}

/// Writes checkpoints, and lists them in the index; returns the files.
pub(super) fn write(folder: &Folder, documents: &[Document]) -> Result<Vec<String>, EngineError> {
    let mut paths = Vec::new();
    let mut listed = BTreeMap::new();
    for document in documents {
        let path = path_of(document);
        folder.put(&path, &document.to_bytes())?;
        listed.insert(document.id, entry(document, path.clone()));
        paths.push(path);
    }
    if !listed.is_empty() {
        list(folder, listed)?;
        paths.push(INDEX.to_owned());
    }
    Ok(paths)
}

fn path_of(document: &Document) -> String {
    format!("run-{}/{}.json", document.orchestrator_state.run_id, document.name())
}

fn entry(document: &Document, path: String) -> Listed {
    let kind = document.metadata.get("kind").cloned().unwrap_or_default();
    let kind = serde_json::from_value(kind).unwrap_or(CheckpointKind::Started);
    Listed {
        artifact_count: document.artifacts.len(),
        created_at: document.created_at,
        id: document.id,
        kind,
        parent_checkpoint_id: document.parent_checkpoint_id,
        passed: kind != CheckpointKind::Failed && document.governance_results.passed,
        path,
        phase: document.phase.clone(),
        run_id: document.orchestrator_state.run_id.clone(),
        side: document.side,
        version: document.version,
    }
}

/// Brings the index up to date; one that cannot be read is begun anew.
fn list(folder: &Folder, new: BTreeMap<CheckpointId, Listed>) -> Result<(), EngineError> {
    let locked = folder.lock()?;
    folder.sweep(INDEX, false, &locked)?;
    let found = folder.read(INDEX, INDEX_BYTES_MAX).ok().flatten();
    let index = found.and_then(|bytes| serde_json::from_slice::<Index>(&bytes).ok());
    let mut index = index.unwrap_or_default();
    // Their names rise with time.
    let mut all: BTreeMap<CheckpointId, Listed> =
        index.checkpoints.into_iter().map(|one| (one.id, one)).collect();
    all.extend(new);
    let more = all.len().saturating_sub(LISTED_MAX);
    index.omitted = index.omitted.saturating_add(more);
    index.checkpoints = all.into_values().skip(more).collect();
    index.schema_id = "windlass.checkpoint_index".to_owned();
    let mut bytes = serde_json::to_vec_pretty(&index).unwrap_or_default();
    bytes.push(b'\n');
    folder.replace(INDEX, &bytes, &locked)
}
