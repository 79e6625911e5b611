//! What a receiver gets.

use schemars::JsonSchema;
use serde::Serialize;
use windlass_kernel::notification::{Created, Kind};
use windlass_kernel::{Digest, Timestamp, TraceId};

/// The version of this form. Fields may be added to it; none changes its meaning.
const VERSION: u32 = 1;

/// A project.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProjectName {
    /// The id in addresses of the dashboard.
    pub id: String,
    /// The name.
    pub name: String,
}

/// The body of a request, and the standard input of a command.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Body<'a> {
    /// The page of the dashboard, if its address is known.
    pub address: Option<String>,
    /// When it happened.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// Until when the hold can be answered.
    #[schemars(with = "Option<String>")]
    pub expires_at: Option<Timestamp>,
    /// The id, the same for every attempt.
    #[schemars(with = "String")]
    pub id: TraceId,
    /// What it tells.
    pub kind: Kind,
    /// A link by which one person looks at this hold and decides it, once. It is a secret.
    pub link: Option<&'a str>,
    /// The project.
    pub project: &'a ProjectName,
    /// The name of the receiver.
    pub receiver: &'a str,
    /// The name of the run.
    pub run: Option<&'a str>,
    /// The digest of what the hold shows, which a decision must name.
    #[schemars(with = "Option<String>")]
    pub shown: Option<Digest>,
    /// The whole message.
    pub text: &'a str,
    /// The message in one line.
    pub title: &'a str,
    /// The version of this form.
    pub version: u32,
}

impl<'a> Body<'a> {
    /// The body of an attempt.
    #[must_use]
    pub fn of(
        id: TraceId,
        attempt: u32,
        created: &'a Created,
        project: &'a ProjectName,
        address: Option<String>,
        link: Option<&'a str>,
    ) -> Self {
        let message = &created.message;
        Self {
            address,
            at: created.about.at,
            attempt,
            expires_at: message.expires_at,
            id,
            kind: message.kind,
            link,
            project,
            receiver: &created.receiver,
            run: message.run.as_deref(),
            shown: message.shown,
            text: &message.text,
            title: &message.title,
            version: VERSION,
        }
    }
}
