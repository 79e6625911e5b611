//! Retention: what old checkpoints keep is given up; the journal that names them stays whole.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use serde::Serialize;
use windlass_journal::{Check, Reader, RunFilter};
use windlass_kernel::run::{CheckpointKind, Event, Run, checkpoint_name};
use windlass_kernel::{CheckpointId, Digest, State, Timestamp, TraceId};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::resume::name;

/// A day, in milliseconds.
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// What is given up.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Only what is older than so many days.
    pub days: u32,
    /// The newest so many of each run are kept whatever their age.
    pub keep: usize,
    /// Whether approved ones are given up too.
    pub approved: bool,
    /// Only of this run.
    pub run: Option<TraceId>,
    /// Only say what would be given up.
    pub dry_run: bool,
}

/// What was given up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Purged {
    /// The checkpoints.
    pub checkpoints: Vec<PurgedOne>,
    /// Packets of holds that were answered.
    pub holds: Vec<String>,
    /// How many files nothing refers to any more, and how large they were.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Runs that do not hold together and were left alone, with the reason.
    pub left: Vec<(String, String)>,
}

/// One checkpoint that was given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PurgedOne {
    /// Its run.
    pub run_id: String,
    /// Its name in the run.
    pub name: String,
    /// Its name.
    pub id: CheckpointId,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A checkpoint as retention sees it.
struct Seen {
    id: CheckpointId,
    name: String,
    kind: CheckpointKind,
    at: Timestamp,
    files: BTreeSet<Digest>,
}

impl Engine {
    /// Gives up what old checkpoints of runs that have ended keep: their workspaces and files. The
    /// journal stays as it is and still names them; only going back to them is over.
    ///
    /// # Errors
    /// [`EngineError`] when the store or what is kept cannot be read.
    pub fn purge(&self, retention: &Retention) -> Result<Purged, EngineError> {
        let vault = self.keeper()?.vault();
        let kept: BTreeSet<String> = vault.references()?.into_iter().collect();
        let filter = RunFilter { open_only: false, state: None, limit: usize::MAX };
        let before = self.recording.source.now().unix_ms() - i64::from(retention.days) * DAY_MS;
        let mut purged = Purged::default();
        let mut used: BTreeSet<Digest> = BTreeSet::new();
        let mut spared = false;
        let mut gone: Vec<String> = Vec::new();
        for found in self.list(&filter)? {
            let trace_id = found.trace.head.trace_id;
            let (run, seen) = match self.seen(trace_id) {
                Ok(both) => both,
                Err(error) => {
                    // Whatever it keeps is not known, so nothing of the files is given up.
                    spared = true;
                    purged.left.push((found.name.to_string(), error.to_string()));
                    continue;
                }
            };
            let ended = found.trace.head.state == Some(State::Terminal) && !found.live;
            let wanted = retention.run.is_none_or(|only| only == trace_id);
            let newest = seen.len().saturating_sub(retention.keep);
            for (at, one) in seen.into_iter().enumerate() {
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
                gone.extend(mine.into_iter().cloned());
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
            gone.iter().try_for_each(|reference| vault.forget(reference))?;
        }
        if !spared {
            for digest in vault.files()?.iter().filter(|digest| !used.contains(digest)) {
                purged.files += 1;
                purged.bytes += if retention.dry_run { 0 } else { vault.drop_file(digest)? };
            }
        }
        Ok(purged)
    }

    /// The checkpoints of a run, oldest first.
    fn seen(&self, trace_id: TraceId) -> Result<(Run, Vec<Seen>), EngineError> {
        let mut seen = Vec::new();
        let mut reader = Reader::<Run>::new(trace_id, Check::Verified);
        reader.for_each(self.store(), &mut |step| {
            if let Event::Checkpointed(checkpoint) = &step.artifact.event {
                seen.push(Seen {
                    id: checkpoint.id,
                    name: checkpoint_name(checkpoint.at, &checkpoint.phase, checkpoint.version),
                    kind: checkpoint.kind,
                    at: step.entry.ts,
                    files: checkpoint.artifacts.values().map(|one| one.digest).collect(),
                });
            }
            ControlFlow::Continue(())
        })?;
        Ok((reader.into_state(), seen))
    }

    /// The difference between two workspaces as a unified diff, and whether it was cut off.
    ///
    /// # Errors
    /// [`EngineError`] when a snapshot is damaged.
    pub fn difference(
        &self,
        from: &str,
        to: &str,
        bytes_max: usize,
    ) -> Result<(Vec<u8>, bool), EngineError> {
        self.keeper()?.vault().difference(from, to, bytes_max)
    }

    /// What of the snapshots and files of checkpoints is damaged, by name.
    ///
    /// # Errors
    /// [`EngineError`] when they cannot be read.
    pub fn faults(&self) -> Result<Vec<String>, EngineError> {
        self.keeper()?.vault().faults()
    }

    /// Whether what a run's checkpoints keep is still there, by their names.
    ///
    /// # Errors
    /// [`EngineError`] when that cannot be told.
    pub fn kept(&self, run: &Run) -> Result<BTreeMap<CheckpointId, bool>, EngineError> {
        let kept: BTreeSet<String> = self.keeper()?.vault().references()?.into_iter().collect();
        let there = |id: CheckpointId| {
            let prefix = format!("{}/{id}/", name(run));
            kept.range(prefix.clone()..).next().is_some_and(|one| one.starts_with(&prefix))
        };
        Ok(run.checkpoints.iter().map(|checkpoint| (checkpoint.id, there(checkpoint.id))).collect())
    }
}
