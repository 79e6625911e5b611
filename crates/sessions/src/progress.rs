//! What is counted during a session, so that each event need not read the whole of it. Nothing but speed is lost with it.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::Path;

use serde::{Deserialize, Serialize};
use windlass_journal::{Check, JournalError, Reader};
use windlass_kernel::run::{Event, NoteKind, Run};
use windlass_kernel::{Digest, TraceId};
use windlass_runtime::CallStreak;
use windlass_store::Store;

use crate::core::CoreProgress;
use crate::error::SessionError;
use crate::note::{SessionNote, Unguarded};

/// The progress of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Progress {
    /// The digest of the policy at the last event.
    pub policy: Option<Digest>,
    /// The number of prompts.
    pub prompts: u32,
    /// The calls in a row that lead nowhere.
    pub streak: CallStreak,
    /// The uses of tools that were not asked about.
    pub unguarded: BTreeSet<Unguarded>,
    /// What the agent is told at the next prompt.
    pub tell: Vec<String>,
    /// The state of the core loop.
    pub core: Option<CoreProgress>,
}

/// The progress as it lies in its file. The digest is that of the progress alone.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored<P> {
    digest: Digest,
    progress: P,
}

impl Progress {
    /// Reads the bytes of a file; `None` if they are not what was written: a gate must not open because a bit has flipped.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let Stored { digest, progress }: Stored<Self> = serde_json::from_slice(bytes).ok()?;
        let own = serde_json::to_vec(&progress).ok()?;
        (Digest::of(&own) == digest).then_some(progress)
    }

    fn to_bytes(&self) -> serde_json::Result<Vec<u8>> {
        let digest = Digest::of(&serde_json::to_vec(self)?);
        serde_json::to_vec(&Stored { digest, progress: self })
    }

    /// Writes it to its file. It can be lost, so that it need not reach the disk at once; replacing the file would make
    /// some file systems wait for that.
    pub(crate) fn write(&self, path: &Path) -> Result<(), SessionError> {
        let written = || {
            let mut bytes = self.to_bytes()?;
            let mut file =
                OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
            // One write, so that nothing of what was longer before stays behind a process that dies.
            let before = usize::try_from(file.metadata()?.len()).unwrap_or_default();
            bytes.resize(bytes.len().max(before), b' ');
            file.write_all(&bytes)
        };
        written().map_err(|source| SessionError::File { path: path.to_owned(), source })
    }

    /// What the journal has of it. Calls in a row are counted anew, and what was to be told is on record.
    ///
    /// # Errors
    /// [`JournalError`] if the run cannot be read.
    pub(crate) fn fold(store: &dyn Store, run: TraceId) -> Result<Self, JournalError> {
        let mut folded = Self::default();
        let mut reader = Reader::<Run>::new(run, Check::Prefix);
        reader.for_each(store, &mut |step| {
            match &step.artifact.event {
                Event::Started(started) => folded.policy = Some(started.policy_hash),
                Event::Noted { what: NoteKind::Agent, body } => {
                    folded.add(serde_json::from_value(body.clone()).ok());
                }
                Event::Begun {}
                | Event::Setup(_)
                | Event::Integration(_)
                | Event::PhaseStarted { .. }
                | Event::PhaseSkipped { .. }
                | Event::Checked { .. }
                | Event::InvocationStarted { .. }
                | Event::InvocationEnded { .. }
                | Event::PhaseDone { .. }
                | Event::Reviewed { .. }
                | Event::Checkpointed(_)
                | Event::MergePrepared { .. }
                | Event::Merged { .. }
                | Event::Conflicted { .. }
                | Event::RollbackBegun(_)
                | Event::RolledBack { .. }
                | Event::Waiting { .. }
                | Event::SentBack { .. }
                | Event::Warned { .. }
                | Event::Restarted { .. }
                | Event::CommitPrepared { .. }
                | Event::Held(_)
                | Event::Voted(_)
                | Event::Revoked(_)
                | Event::Resumed { .. }
                | Event::Continued {}
                | Event::Noted { .. }
                | Event::Ended { .. } => {}
            }
            ControlFlow::Continue(())
        })?;
        Ok(folded)
    }

    fn add(&mut self, note: Option<SessionNote>) {
        match note {
            Some(SessionNote::Prompt { number, .. }) => self.prompts = self.prompts.max(number),
            Some(SessionNote::Unguarded(one)) => {
                self.unguarded.insert(one);
            }
            Some(SessionNote::PolicyChanged { to, .. }) => self.policy = Some(to),
            Some(
                SessionNote::Event { .. }
                | SessionNote::LetThrough { .. }
                | SessionNote::Core(_)
                | SessionNote::Rewound { .. },
            )
            | None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_bytes_are_not_read() {
        let progress =
            Progress { prompts: 3, tell: vec!["this".to_owned()], ..Progress::default() };
        let bytes = progress.to_bytes().unwrap();
        assert_eq!(Progress::from_bytes(&bytes), Some(progress.clone()));
        let padded = [bytes.as_slice(), b"   "].concat();
        assert_eq!(Progress::from_bytes(&padded), Some(progress));
        let text = String::from_utf8(bytes.clone()).unwrap();
        let changed = text.replace("\"prompts\":3", "\"prompts\":4");
        assert_ne!(changed, text);
        assert_eq!(Progress::from_bytes(changed.as_bytes()), None);
        assert_eq!(Progress::from_bytes(&bytes[..bytes.len() - 1]), None);
        assert_eq!(Progress::from_bytes(b""), None);
    }
}
