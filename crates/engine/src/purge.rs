//! Retention: deletes the snapshots and files of old checkpoints. The journal is not changed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use serde::Serialize;
use serde_json::Value;
use windlass_journal::{Check, Reader, RunFilter};
use windlass_kernel::run::{CheckpointKind, Event, Run, checkpoint_name};
use windlass_kernel::{CheckpointId, Digest, State, Timestamp, TraceId};
use windlass_workspace::{TextDiff, TreeId};

use crate::engine::{Engine, run_name};
use crate::error::EngineError;
use crate::rollback::ROLLBACK_PREFIX;
use crate::snapshot_store::SnapshotStore;

/// A day, in milliseconds.
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Which checkpoints are purged.
#[derive(Clone, Debug)]
pub struct Retention {
    /// Only those that are older than this many days.
    pub days: u32,
    /// The number of newest checkpoints of each run that are never purged.
    pub keep: usize,
    /// Whether approved ones are purged too.
    pub approved: bool,
    /// Only those of this run.
    pub run: Option<TraceId>,
    /// What differs for the checkpoints of phases with a gate, by the gate's id.
    pub gates: BTreeMap<String, GateRetention>,
    /// Whether to delete nothing and only report.
    pub dry_run: bool,
}

/// How long the checkpoints of a gate's phase are kept; what is not given is as for all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateRetention {
    /// Only those that are older than this many days are purged.
    pub days: Option<u32>,
    /// The number of newest checkpoints of this gate, in each run, that are never purged.
    pub keep: Option<usize>,
    /// Whether approved ones are purged too.
    pub approved: Option<bool>,
}

impl Retention {
    /// Which checkpoints of a run may be purged, in the order of the checkpoints.
    fn selects(&self, run: &Run, candidates: &[Candidate], now_ms: i64) -> Vec<bool> {
        let gate_of = |one: &Candidate| {
            let (phase, _) = run.all_phases().find(|(phase, _)| phase.id == one.phase)?;
            let id = &phase.gate.as_ref()?.id;
            self.gates.get(id).map(|own| (id.clone(), *own))
        };
        let mut newer_of_gate: BTreeMap<String, usize> = BTreeMap::new();
        let mut selected = Vec::new();
        for (newer, one) in candidates.iter().rev().enumerate() {
            let gate = gate_of(one);
            let own = gate.as_ref().map(|(_, own)| *own).unwrap_or_default();
            let newer_in_gate = gate.map_or(0, |(id, _)| {
                let count = newer_of_gate.entry(id).or_default();
                *count += 1;
                *count - 1
            });
            let is_kept = match own.keep {
                Some(keep) => newer_in_gate < keep,
                None => newer < self.keep,
            };
            let before = now_ms - i64::from(own.days.unwrap_or(self.days)) * DAY_MS;
            let approved = own.approved.unwrap_or(self.approved);
            selected.push(
                !is_kept
                    && one.at.unix_ms() < before
                    && (approved || one.kind != CheckpointKind::Approved),
            );
        }
        selected.reverse();
        selected
    }
}

/// The result of a purge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PurgeReport {
    /// The checkpoints.
    pub checkpoints: Vec<PurgedCheckpoint>,
    /// The number of files in the project that showed purged checkpoints, also those of earlier purges.
    pub documents: u64,
    /// The packets of answered holds.
    pub holds: Vec<String>,
    /// The references to other snapshots: those of rollbacks and merges.
    pub references: Vec<String>,
    /// The number of files that no checkpoint uses any more.
    pub files: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// Corrupt runs, which were skipped, with the reason.
    pub left: Vec<(String, String)>,
}

/// A purged checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PurgedCheckpoint {
    /// Its run.
    pub run_id: String,
    /// Its name in the run.
    pub name: String,
    /// Its id.
    pub id: CheckpointId,
    /// The time of its creation.
    pub created_at: Timestamp,
}

/// The data of a checkpoint that retention needs.
struct Candidate {
    id: CheckpointId,
    name: String,
    phase: String,
    kind: CheckpointKind,
    at: Timestamp,
    sequence_number: u64,
    files: BTreeSet<Digest>,
}

/// A run and what is purged of it.
struct RunPurge<'a> {
    run: &'a Run,
    candidates: &'a [Candidate],
    /// The checkpoints whose snapshots are still stored afterwards.
    stored: BTreeSet<CheckpointId>,
    /// Whether the run's checkpoints may be purged.
    open_to_purge: bool,
    /// Whether its last entry is old enough, too.
    is_old: bool,
}

impl RunPurge<'_> {
    /// Whether a reference of the run that belongs to no checkpoint is purged; `group` is its part after the
    /// name of the run.
    fn includes(&self, group: &str) -> bool {
        let number = group.strip_prefix(ROLLBACK_PREFIX).and_then(|number| number.parse().ok());
        let number: Option<u64> = number;
        let rollback = number.and_then(|number| {
            self.candidates
                .iter()
                .find(|one| one.kind == CheckpointKind::Rollback && one.sequence_number > number)
        });
        match rollback {
            // What a rollback has saved is kept as long as the checkpoint that names it.
            Some(rollback) => self.open_to_purge && !self.stored.contains(&rollback.id),
            // Of a rollback that did not begin, or of a merge: of use only while the run goes on.
            None => self.is_old,
        }
    }

    /// The references that belong to no checkpoint and are purged.
    fn other_references(&self, references: &BTreeSet<String>) -> Vec<String> {
        let prefix = format!("{}/", run_name(self.run));
        let ids: BTreeSet<String> = self.candidates.iter().map(|one| one.id.to_string()).collect();
        let all = references.range(prefix.clone()..).take_while(|name| name.starts_with(&prefix));
        let group = |name: &str| -> String {
            let inner = name.strip_prefix(&prefix).unwrap_or_default();
            inner.split('/').next().unwrap_or_default().to_owned()
        };
        all.filter(|name| {
            let group = group(name);
            !ids.contains(&group) && self.includes(&group)
        })
        .cloned()
        .collect()
    }
}

impl Engine {
    /// Deletes the snapshots and files of old checkpoints of runs that have ended, and the files that show them. The
    /// journal still lists the checkpoints, but a run can no longer be rolled back to them. No checkpoint is created
    /// meanwhile.
    ///
    /// # Errors
    /// [`EngineError`] if the journal or the storage of checkpoints cannot be read.
    pub fn purge(&self, retention: &Retention) -> Result<PurgeReport, EngineError> {
        let store = self.checkpointer()?.store();
        let _lock = store.lock_for_deletion()?;
        let references = store.references()?;
        let filter = RunFilter { open_only: false, state: None, limit: usize::MAX };
        let now_ms = self.recording.clock.now().unix_ms();
        let before = now_ms - i64::from(retention.days) * DAY_MS;
        let mut purged = PurgeReport::default();
        let mut used: BTreeSet<Digest> = BTreeSet::new();
        let mut keep_files = false;
        let mut deleted: Vec<String> = Vec::new();
        let mut shown: Vec<PurgedCheckpoint> = Vec::new();
        for found in self.list(&filter)? {
            let trace_id = found.trace.head.trace_id;
            let (run, candidates) = match self.candidates(trace_id) {
                Ok(both) => both,
                Err(error) => {
                    // Its files are not known, so no file is deleted.
                    keep_files = true;
                    purged.left.push((found.name.to_string(), error.to_string()));
                    continue;
                }
            };
            let ended = found.trace.head.state == Some(State::Terminal) && !found.live;
            let wanted = retention.run.is_none_or(|only| only == trace_id);
            let selected = retention.selects(&run, &candidates, now_ms);
            let mut stored = BTreeSet::new();
            for (one, is_selected) in candidates.iter().zip(selected) {
                let own = references_of(&references, &run, one.id);
                let is_purged = ended && wanted && is_selected;
                let checkpoint = || PurgedCheckpoint {
                    run_id: run_name(&run),
                    name: one.name.clone(),
                    id: one.id,
                    created_at: one.at,
                };
                if is_purged {
                    // Also what an earlier purge has not removed.
                    shown.push(checkpoint());
                }
                if !is_purged || own.is_empty() {
                    if !own.is_empty() {
                        used.extend(&one.files);
                        stored.insert(one.id);
                    }
                    continue;
                }
                deleted.extend(own.into_iter().cloned());
                purged.checkpoints.push(checkpoint());
            }
            let open_to_purge = ended && wanted;
            let is_old = open_to_purge && run.last_at.is_some_and(|at| at.unix_ms() < before);
            if !is_old {
                used.extend(imported_files(&run));
            }
            let candidates = candidates.as_slice();
            let of_run = RunPurge { run: &run, candidates, stored, open_to_purge, is_old };
            purged.references.extend(of_run.other_references(&references));
            if is_old {
                purged.holds.extend(self.packets.remove(&run, retention.dry_run)?);
            }
        }
        if !retention.dry_run {
            deleted.extend(purged.references.iter().cloned());
            store.delete_references(&deleted)?;
        }
        if !keep_files {
            for digest in store.files()?.iter().filter(|digest| !used.contains(digest)) {
                purged.files += 1;
                purged.bytes += if retention.dry_run { 0 } else { store.delete_file(digest)? };
            }
        }
        purged.documents = self.packets.remove_checkpoints(&shown, retention.dry_run)?;
        if !retention.dry_run {
            // What is deleted is deleted all the same.
            if let Err(error) = store.free_space() {
                purged.left.push(("objects of deleted snapshots".to_owned(), error.to_string()));
            }
            if let Err(error) = store.sweep_workspaces() {
                purged.left.push(("removed work trees".to_owned(), error.to_string()));
            }
        }
        Ok(purged)
    }

    /// The checkpoints of a run, oldest first.
    fn candidates(&self, trace_id: TraceId) -> Result<(Run, Vec<Candidate>), EngineError> {
        let mut candidates = Vec::new();
        let mut reader = Reader::<Run>::new(trace_id, Check::Verified);
        reader.for_each(self.store(), &mut |step| {
            if let Event::Checkpointed(checkpoint) = &step.artifact.event {
                candidates.push(Candidate {
                    id: checkpoint.id,
                    name: checkpoint_name(checkpoint.at, &checkpoint.phase, checkpoint.version),
                    phase: checkpoint.phase.clone(),
                    kind: checkpoint.kind,
                    at: step.entry.ts,
                    sequence_number: step.entry.sequence_number,
                    files: checkpoint.artifacts.values().map(|one| one.digest).collect(),
                });
            }
            ControlFlow::Continue(())
        })?;
        Ok((reader.into_state(), candidates))
    }

    /// Returns the difference between two snapshots as a unified diff.
    ///
    /// # Errors
    /// [`EngineError`] if one is corrupt.
    pub fn text_diff(
        &self,
        from: &TreeId,
        to: &TreeId,
        bytes_max: usize,
    ) -> Result<TextDiff, EngineError> {
        self.checkpointer()?.store().text_diff(from, to, bytes_max)
    }

    /// The storage of checkpoints.
    ///
    /// # Errors
    /// [`EngineError`] if this engine creates no checkpoints.
    pub fn snapshots(&self) -> Result<&dyn SnapshotStore, EngineError> {
        Ok(self.checkpointer()?.store())
    }

    /// Checks the storage of all checkpoints and describes each corrupt snapshot and file.
    ///
    /// # Errors
    /// [`EngineError`] if it cannot be read.
    pub fn check_checkpoints(&self) -> Result<Vec<String>, EngineError> {
        self.checkpointer()?.store().check()
    }

    /// For each checkpoint of a run, whether its snapshots are stored; otherwise they were purged.
    ///
    /// # Errors
    /// [`EngineError`] if the references cannot be read.
    pub fn has_snapshots(&self, run: &Run) -> Result<BTreeMap<CheckpointId, bool>, EngineError> {
        if run.checkpoints.is_empty() {
            return Ok(BTreeMap::new());
        }
        let references = self.checkpointer()?.store().references_in(&run_name(run))?;
        let is_stored = |id: CheckpointId| !references_of(&references, run, id).is_empty();
        let ids = run.checkpoints.iter().map(|checkpoint| checkpoint.id);
        Ok(ids.map(|id| (id, is_stored(id))).collect())
    }

    /// Fails if a checkpoint of a run was purged.
    ///
    /// # Errors
    /// [`EngineError::NoCheckpoint`].
    pub fn require_stored(&self, run: &Run, id: CheckpointId) -> Result<(), EngineError> {
        if self.has_snapshots(run)?.get(&id) != Some(&false) {
            return Ok(());
        }
        let name = run.checkpoint(id).and_then(|checkpoint| {
            let (phase, _) = run.phase(checkpoint.phase)?;
            Some(checkpoint_name(checkpoint.at, &phase.id, checkpoint.version))
        });
        let what =
            format!("checkpoint `{}/{}` was purged", run_name(run), name.unwrap_or_default());
        Err(EngineError::NoCheckpoint { what })
    }
}

/// The files of a state that the run was imported from: those of complete phases, and those that its options name.
fn imported_files(run: &Run) -> BTreeSet<Digest> {
    let Some(started) = &run.started else { return BTreeSet::new() };
    let outputs = started.inherited.values().flat_map(|done| done.outputs.values().copied());
    let artifacts = started.options.pointer("/imported/artifacts").and_then(Value::as_object);
    let artifacts = artifacts.into_iter().flat_map(|map| map.values());
    let hashes = artifacts.filter_map(|one| one.get("hash")?.as_str()?.parse().ok());
    outputs.chain(hashes).collect()
}

/// The references of a checkpoint's snapshots.
fn references_of<'a>(
    references: &'a BTreeSet<String>,
    run: &Run,
    id: CheckpointId,
) -> Vec<&'a String> {
    let prefix = format!("{}/{id}/", run_name(run));
    references.range(prefix.clone()..).take_while(|name| name.starts_with(&prefix)).collect()
}
