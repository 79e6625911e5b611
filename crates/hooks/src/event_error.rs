//! Why an event cannot be read.

use thiserror::Error;

use crate::client::Client;

/// An event that cannot be read; what it asks about must be refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EventError {
    /// It is too long.
    #[error("the hook event has more than {bytes_max} bytes")]
    TooLong {
        /// The longest that is read.
        bytes_max: usize,
    },
    /// It is not JSON, or an object in it has a key twice.
    #[error("the hook event is not strict JSON: {reason}")]
    Malformed {
        /// Where and why.
        reason: String,
    },
    /// It is JSON but not an object.
    #[error("the hook event is not a JSON object")]
    NotAnObject,
    /// A field is missing.
    #[error("the hook event has no `{field}`")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// A field has a value that it cannot have.
    #[error("`{field}` of the hook event must be {expected}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// What it may be.
        expected: String,
    },
    /// More than one client may have sent it, or none that is known.
    #[error("the client of the hook event `{name}` cannot be told: {reason}")]
    ClientUnclear {
        /// The event's name.
        name: String,
        /// Why.
        reason: &'static str,
    },
    /// It is not an event of the client that is said to have sent it.
    #[error("the hook event `{name}` was not sent by {}: {reason}", given.as_str())]
    OtherClient {
        /// The event's name.
        name: String,
        /// The client that is said to have sent it.
        given: Client,
        /// Why not.
        reason: &'static str,
    },
    /// An unknown event is about a tool or a prompt: it may be a question to which silence is consent.
    #[error("the hook event `{name}` is not known but has `{field}`")]
    UnknownQuestion {
        /// The event's name.
        name: String,
        /// The field.
        field: &'static str,
    },
}
