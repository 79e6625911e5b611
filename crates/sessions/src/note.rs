//! What is recorded of a session besides its calls.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_journal::{Check, JournalError, Reader};
use windlass_kernel::run::{Event, NoteKind, Run};
use windlass_kernel::{Digest, Timestamp, TraceId};
use windlass_store::Store;

/// Something that happened in a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case", deny_unknown_fields)]
pub enum SessionNote {
    /// An event of the client.
    Event {
        /// Its name.
        event: String,
        /// The id of the subagent that it happened in.
        subagent: Option<String>,
        /// What it says.
        details: Value,
    },
    /// The person entered a prompt.
    Prompt {
        /// Its number in the session, from 1.
        number: u32,
        /// Its text without secrets, shortened.
        text: String,
        /// The files as they were then, if they could be kept.
        tree: Option<String>,
        /// Why they could not be kept.
        not_kept: Option<String>,
    },
    /// A use of a tool that was not asked about.
    Unguarded(Unguarded),
    /// An approved call was let through for this use of a tool.
    LetThrough {
        /// The call.
        call: TraceId,
        /// The client's id of the use.
        id: String,
    },
    /// The policy changed.
    PolicyChanged {
        /// The digest before.
        from: Digest,
        /// The digest since.
        to: Digest,
    },
    /// Something of the core loop.
    Core(crate::core::CoreNote),
    /// The files were brought back.
    Rewound {
        /// The prompt whose files they are.
        number: u32,
        /// The files that are brought back.
        tree: String,
        /// The files before that.
        before: String,
        /// Who did it.
        by: String,
        /// Why.
        reason: String,
    },
}

/// A use of a tool that a client made without asking.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unguarded {
    /// The client's session.
    pub session: String,
    /// The tool as the client names it.
    pub tool: String,
    /// The client's id of the use, if it has one.
    pub id: Option<String>,
}

/// A note, and when it was recorded.
pub type DatedNote = (Timestamp, SessionNote);

/// Reads the notes of a session, oldest first. Notes of other kinds are left out.
///
/// # Errors
/// [`JournalError`] if the run cannot be read.
pub fn notes(store: &dyn Store, run: TraceId) -> Result<Vec<DatedNote>, JournalError> {
    let mut found = Vec::new();
    let mut reader = Reader::<Run>::new(run, Check::Prefix);
    reader.for_each(store, &mut |step| {
        if let Event::Noted { what: NoteKind::Agent, body } = &step.artifact.event
            && let Ok(note) = serde_json::from_value(body.clone())
        {
            found.push((step.entry.ts, note));
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}
