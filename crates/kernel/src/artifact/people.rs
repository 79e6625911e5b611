//! People's part in the artifacts of a call.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Proposal;
use crate::canon::CanonError;
use crate::{Digest, Signed, TraceId};

/// The people behind a decision on a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Decider {
    /// The people who answered the hold of a run. Their signatures are in its trace.
    Hold {
        /// The digest of the run's last entry.
        entry_digest: Digest,
        /// Their names.
        names: Vec<String>,
        /// The trace of the run.
        trace_id: TraceId,
    },
    /// One person, who signed the decision.
    Person(Box<Signed>),
}

impl Decider {
    /// The names of the people.
    #[must_use]
    pub fn names(&self) -> String {
        match self {
            Self::Hold { names, .. } => names.join(", "),
            Self::Person(signed) => signed.name.clone(),
        }
    }
}

/// The arguments that a person put in place of the requested ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The arguments.
    pub args: Value,
    /// The digest of the proposal with these arguments.
    pub proposal_digest: Digest,
}

impl Edit {
    /// Replaces the arguments of a proposal.
    ///
    /// # Errors
    /// [`CanonError`] if the arguments have no canonical form.
    pub fn of(proposal: &Proposal, args: Value) -> Result<Self, CanonError> {
        let edited = Proposal { args, ..proposal.clone() };
        let proposal_digest = edited.digest()?;
        Ok(Self { args: edited.args, proposal_digest })
    }
}

/// A file that a call names, as it was when a person was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedFile {
    /// The digest of its content.
    pub digest: Digest,
    /// The path, relative to the workspace.
    pub path: String,
}
