//! Who may look and decide: people with roles, their tokens and logins, and links that are valid once.

mod file;
mod guard;
mod secret;

use serde::{Deserialize, Serialize};
use windlass_kernel::{Digest, Timestamp};

pub use file::{Access, AccessError, Entered};
pub use guard::{Hosts, Visit};
pub(crate) use guard::{cookie_name, cookies_of, only};
pub use secret::Secret;

use crate::pages::encode;

/// What a person may do. Each role includes those before it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Looks.
    Viewer,
    /// Decides about holds and answers questions.
    Approver,
    /// Starts, stops and cancels runs, gives grants, and rolls back.
    Operator,
}

impl Role {
    /// The name in files and options.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Approver => "approver",
            Self::Operator => "operator",
        }
    }
}

/// What somebody may see and do who came by a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// All that the role allows.
    All,
    /// One hold, as it was when the link was made.
    Hold {
        /// The project.
        project: String,
        /// The run.
        run: String,
        /// The digest of what the hold shows.
        shown: Digest,
    },
}

impl Scope {
    /// Whether the same browser needs this one no more, once it has the other.
    fn is_replaced_by(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, Self::All) => true,
            (Self::Hold { project, run, .. }, Self::Hold { project: other, run: later, .. }) => {
                project == other && run == later
            }
            (Self::All, Self::Hold { .. }) | (Self::Hold { .. }, Self::All) => false,
        }
    }
}

/// A person who may use the dashboard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Person {
    /// The name, by which decisions are signed.
    pub name: String,
    /// The role.
    pub role: Role,
    /// The digest of the token; the token itself is stored nowhere.
    pub token: Digest,
    /// Since when.
    pub created_at: Timestamp,
}

/// Somebody whose request was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visitor {
    /// The name.
    pub name: String,
    /// The role.
    pub role: Role,
    /// What may be seen and done.
    pub scope: Scope,
}

impl Visitor {
    /// Whether this visitor came for the hold of this path.
    fn is_here_for(&self, path: &str) -> bool {
        let Scope::Hold { project, run, .. } = &self.scope else { return false };
        let (project, run) = (encode(project), encode(run));
        let holds =
            [format!("/holds/{project}/{run}"), format!("/api/v1/projects/{project}/holds/{run}")];
        let is_below = |hold: &String| {
            path.strip_prefix(hold.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        holds.iter().any(is_below)
    }

    /// Whether this visitor may see and decide this hold.
    #[must_use]
    pub fn covers(&self, project: &str, run: &str) -> bool {
        match &self.scope {
            Scope::All => true,
            Scope::Hold { project: one, run: other, .. } => one == project && other == run,
        }
    }
}
