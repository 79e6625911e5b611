//! Retention: deletes the snapshots and files of old checkpoints. The journal stays as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use serde::Serialize;
use windlass_journal::{Check, Reader, RunFilter};
use windlass_kernel::run::{CheckpointKind, Event, Run, checkpoint_name};
use windlass_kernel::{CheckpointId, Digest, State, Timestamp, TraceId};
use windlass_workspace::{TextDiff, TreeId};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::resume::name;
use crate::snapshot_store::SnapshotStore;

/// A day, in milliseconds.
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Which checkpoints are purged.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Only those that are older than this many days.
    pub days: u32,
    /// This many of each run, the newest, are kept whatever their age.
    pub keep: usize,
    /// Whether approved ones are purged too.
    pub approved: bool,
    /// Only those of this run.
    pub run: Option<TraceId>,
    /// Whether nothing is deleted: the result says what would be.
    pub dry_run: bool,
}

/// What was purged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Purged {
    /// The checkpoints.
    pub checkpoints: Vec<PurgedOne>,
    /// The packets of answered holds.
    pub holds: Vec<String>,
    /// The number of files that no checkpoint uses any more.
    pub files: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// Corrupt runs, which were skipped, with the reason.
    pub left: Vec<(String, String)>,
}

/// A purged checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PurgedOne {
    /// Its run.
    pub run_id: String,
    /// Its name in the run.
    pub name: String,
    /// Its id.
    pub id: CheckpointId,
    /// When it was made.
    pub created_at: Timestamp,
}

/// The facts of a checkpoint that retention needs.
struct Candidate {
    id: CheckpointId,
    name: String,
    kind: CheckpointKind,
    at: Timestamp,
    files: BTreeSet<Digest>,
}

impl Engine {
    /// Deletes the snapshots and files of old checkpoints of runs that have ended. The journal stays as it
    /// is and still names them; a run can no longer be rolled back to them.
    ///
    /// # Errors
    /// [`EngineError`] when the journal or the storage of checkpoints cannot be read.
    pub fn purge(&self, retention: &Retention) -> Result<Purged, EngineError> {
        let store = self.checkpointer()?.store();
        let kept: BTreeSet<String> = store.references()?.into_iter().collect();
        let filter = RunFilter { open_only: false, state: None, limit: usize::MAX };
        let before = self.recording.clock.now().unix_ms() - i64::from(retention.days) * DAY_MS;
        let mut purged = Purged::default();
        let mut used: BTreeSet<Digest> = BTreeSet::new();
        let mut keep_files = false;
        let mut deleted: Vec<String> = Vec::new();
        for found in self.list(&filter)? {
            let trace_id = found.trace.head.trace_id;
            let (run, candidates) = match self.purge_candidates(trace_id) {
                Ok(both) => both,
                Err(error) => {
                    // Which files it uses is not known, so no file is deleted.
                    keep_files = true;
                    purged.left.push((found.name.to_string(), error.to_string()));
                    continue;
                }
            };
            let ended = found.trace.head.state == Some(State::Terminal) && !found.live;
            let wanted = retention.run.is_none_or(|only| only == trace_id);
            let newest = candidates.len().saturating_sub(retention.keep);
            for (at, one) in candidates.into_iter().enumerate() {
                let prefix = format!("{}/{}/", name(&run), one.id);
                let mine: Vec<&String> = kept
                    .range(prefix.clone()..)
                    .take_while(|name| name.starts_with(&prefix))
                    .collect();
                let old = ended
                    && wanted
                    && at < newest
                    && one.at.unix_ms() < before
                    && (retention.approved || one.kind != CheckpointKind::Approved)
                    && !mine.is_empty();
                if !old {
                    if !mine.is_empty() {
                        used.extend(one.files);
                    }
                    continue;
                }
                deleted.extend(mine.into_iter().cloned());
                let (run_id, created_at) = (name(&run), one.at);
                purged.checkpoints.push(PurgedOne {
                    run_id,
                    name: one.name,
                    id: one.id,
                    created_at,
                });
            }
            if ended && wanted && run.last_at.is_some_and(|at| at.unix_ms() < before) {
                purged.holds.extend(self.packets.remove(&run, retention.dry_run)?);
            }
        }
        if !retention.dry_run {
            deleted.iter().try_for_each(|reference| store.delete_reference(reference))?;
        }
        if !keep_files {
            for digest in store.files()?.iter().filter(|digest| !used.contains(digest)) {
                purged.files += 1;
                purged.bytes += if retention.dry_run { 0 } else { store.delete_file(digest)? };
            }
        }
        Ok(purged)
    }

    /// The checkpoints of a run, oldest first.
    fn purge_candidates(&self, trace_id: TraceId) -> Result<(Run, Vec<Candidate>), EngineError> {
        let mut candidates = Vec::new();
        let mut reader = Reader::<Run>::new(trace_id, Check::Verified);
        reader.for_each(self.store(), &mut |step| {
            if let Event::Checkpointed(checkpoint) = &step.artifact.event {
                candidates.push(Candidate {
                    id: checkpoint.id,
                    name: checkpoint_name(checkpoint.at, &checkpoint.phase, checkpoint.version),
                    kind: checkpoint.kind,
                    at: step.entry.ts,
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
    /// [`EngineError`] when one is damaged.
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
    /// [`EngineError`] when this engine makes no checkpoints.
    pub fn snapshots(&self) -> Result<&dyn SnapshotStore, EngineError> {
        Ok(self.checkpointer()?.store())
    }

    /// Checks the storage of all checkpoints, and describes each snapshot and file that is damaged.
    ///
    /// # Errors
    /// [`EngineError`] when it cannot be read.
    pub fn check_checkpoints(&self) -> Result<Vec<String>, EngineError> {
        self.checkpointer()?.store().check()
    }

    /// Whether the snapshots of a run's checkpoints still exist, by checkpoint.
    ///
    /// # Errors
    /// [`EngineError`] when the references cannot be read.
    pub fn kept(&self, run: &Run) -> Result<BTreeMap<CheckpointId, bool>, EngineError> {
        let kept: BTreeSet<String> =
            self.checkpointer()?.store().references()?.into_iter().collect();
        let there = |id: CheckpointId| {
            let prefix = format!("{}/{id}/", name(run));
            kept.range(prefix.clone()..).next().is_some_and(|one| one.starts_with(&prefix))
        };
        Ok(run.checkpoints.iter().map(|checkpoint| (checkpoint.id, there(checkpoint.id))).collect())
    }
}
