//! The people who decide, and the signatures of their decisions.

use serde_json::Value;
use thiserror::Error;
use windlass_kernel::artifact::{Decider, NamedFile};
use windlass_kernel::{Code, Digest, Signed, Statement, TraceId};

/// The people who can decide. Only they can sign: the keys are out of reach of agents.
pub trait People: Send + Sync {
    /// Signs a statement with a person's key.
    ///
    /// # Errors
    /// [`PersonError`] if there is no such person, the key was revoked or it cannot be used.
    fn sign(&self, name: &str, statement: &Statement<'_>) -> Result<Signed, PersonError>;

    /// Whether a signature is of a person who can decide now.
    fn knows(&self, signed: &Signed) -> bool;
}

/// Why a person cannot decide.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{message}")]
pub struct PersonError {
    /// The stable code.
    pub code: Code,
    /// What is wrong.
    pub message: String,
}

/// Who decides on a call.
#[derive(Clone, Copy)]
pub enum Who<'a> {
    /// One person, who signs the decision.
    Person {
        /// The person's name.
        name: &'a str,
        /// Where the keys are.
        people: &'a dyn People,
        /// The run through whose hold the person decides.
        run: Option<TraceId>,
    },
    /// The people who answered the hold of a run; they have signed their answers there.
    Hold {
        /// The run's last entry.
        entry_digest: Digest,
        /// Their names.
        names: &'a [String],
        /// The trace of the run.
        trace_id: TraceId,
    },
}

/// Who decides on a call, why, and what they saw.
#[derive(Clone, Copy)]
pub struct Attribution<'a> {
    /// Who decides.
    pub who: Who<'a>,
    /// The reason.
    pub reason: &'a str,
    /// The arguments that the person puts in place of the requested ones.
    pub edit: Option<&'a Value>,
    /// The files that the call names, as the person saw them, if they had changed since the question.
    pub files: &'a [NamedFile],
}

impl Attribution<'_> {
    /// The people, with the signature of what they decide.
    pub(crate) fn sign(&self, statement: &Statement<'_>) -> Result<Decider, PersonError> {
        match self.who {
            Who::Person { name, people, .. } => {
                Ok(Decider::Person(Box::new(people.sign(name, statement)?)))
            }
            Who::Hold { entry_digest, names, trace_id } => {
                Ok(Decider::Hold { entry_digest, names: names.to_vec(), trace_id })
            }
        }
    }
}
