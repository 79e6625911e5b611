//! The two packets of a run: the hold's and the terminal one.

mod hold;
mod terminal;

use serde_json::{Map, Value};
use thiserror::Error;
use windlass_kernel::{Code, Digest};

use crate::fields::FieldError;
use crate::word::words;
use crate::yaml::{self, EmitError, YamlError};

pub use hold::{Approval, Decision, HoldPacket, Resolution, read_hold, read_hold_of};
pub use terminal::{GateResult, Outcome, PhaseStatus, RunStatus, TerminalPacket, read_terminal};

/// The largest packet.
pub const PACKET_BYTES_MAX: usize = 1 << 20;

/// A packet that cannot be written or read, or that is not as it was written.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PacketError {
    /// It is no YAML that a packet could be.
    #[error("the packet cannot be read")]
    Yaml(#[from] YamlError),
    /// There is nothing in it.
    #[error("the packet is empty")]
    Empty,
    /// A field is unknown, missing or wrong.
    #[error("the packet cannot be used")]
    Field(#[from] FieldError),
    /// It says that it is resolved, and not how.
    #[error("the packet says `resolved: true` without a decision")]
    ResolvedWithoutDecision,
    /// It says how it is resolved, and not that it is.
    #[error("the packet is not resolved and has the field `{0}`")]
    DecisionWithoutResolved(&'static str),
    /// The decision is none.
    #[error("the packet's decision is `{0}`, which is neither `APPROVED` nor `REJECTED`")]
    UnknownDecision(String),
    /// The id names another run than the packet.
    #[error(
        "the packet's `checkpoint_id` is of the run `{checkpoint_run}`, its `run_id` is `{run}`"
    )]
    RunMismatch {
        /// The run in the packet's id.
        checkpoint_run: String,
        /// The run in the packet's own field.
        run: String,
    },
    /// The content does not have the digest that it states.
    #[error(
        "the packet was changed after it was written: its content has the digest `{actual}`, and `packet_hash` is `{stated}`"
    )]
    Edited {
        /// What it states.
        stated: Digest,
        /// What it is.
        actual: Digest,
    },
    /// The packet of something else stands in this one's place.
    #[error("this is the packet of `{found}`, not of `{expected}`")]
    Foreign {
        /// Whose packet it should be.
        expected: String,
        /// Whose packet it is.
        found: String,
    },
    /// What should be written has no such form.
    #[error("the packet cannot be written")]
    Unwritable(#[from] EmitError),
    /// What should be written is too large.
    #[error("the packet would be {bytes} bytes long, more than the {PACKET_BYTES_MAX} allowed")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
}

impl PacketError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Edited { .. } | Self::Foreign { .. } => Code::PacketEdited,
            Self::Yaml(_)
            | Self::Empty
            | Self::Field(_)
            | Self::ResolvedWithoutDecision
            | Self::DecisionWithoutResolved(_)
            | Self::UnknownDecision(_)
            | Self::RunMismatch { .. }
            | Self::Unwritable(_)
            | Self::TooLarge { .. } => Code::PacketInvalid,
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Edited { .. }
            | Self::ResolvedWithoutDecision
            | Self::DecisionWithoutResolved(_)
            | Self::UnknownDecision(_) => {
                "a hold is answered through the queue, never by editing its packet"
            }
            Self::Foreign { .. } | Self::RunMismatch { .. } => {
                "do not copy packets from one run to another"
            }
            Self::Yaml(_) | Self::Empty | Self::Field(_) => {
                "do not repair the file; it is written anew from the journal"
            }
            Self::Unwritable(_) | Self::TooLarge { .. } => {
                "make the task smaller: long texts belong in files that it names"
            }
        }
    }
}

/// The field that holds the digest of all others.
const HASH: &str = "packet_hash";

/// The digest of a packet: of its own YAML with `packet_hash` null.
fn hash(packet: &Map<String, Value>) -> Result<Digest, EmitError> {
    let mut packet = packet.clone();
    packet.insert(HASH.to_owned(), Value::Null);
    Ok(Digest::of(yaml::emit(&Value::Object(packet))?.as_bytes()))
}

/// Writes a packet with its digest.
fn seal(mut packet: Map<String, Value>) -> Result<Vec<u8>, PacketError> {
    let digest = hash(&packet)?;
    packet.insert(HASH.to_owned(), digest.to_string().into());
    let bytes = yaml::emit(&Value::Object(packet))?.into_bytes();
    if bytes.len() > PACKET_BYTES_MAX {
        return Err(PacketError::TooLarge { bytes: bytes.len() });
    }
    Ok(bytes)
}

/// Reads the YAML of a packet.
fn open(bytes: &[u8]) -> Result<Value, PacketError> {
    if bytes.iter().all(u8::is_ascii_whitespace) && bytes.len() <= PACKET_BYTES_MAX {
        return Err(PacketError::Empty);
    }
    Ok(yaml::read(bytes, PACKET_BYTES_MAX)?)
}

/// Checks the digest of a packet that is otherwise in order, and returns it.
fn check_hash(packet: &Value, stated: Digest) -> Result<Digest, PacketError> {
    // Taken of all that is in the file, so that a field which is merely added shows too.
    let actual = match packet {
        Value::Object(map) => hash(map)?,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(PacketError::Empty);
        }
    };
    if actual == stated { Ok(actual) } else { Err(PacketError::Edited { stated, actual }) }
}

/// Puts a field in, unless there is none.
fn put<T: serde::Serialize>(map: &mut Map<String, Value>, field: &str, value: Option<T>) {
    if let Some(value) = value.and_then(|value| serde_json::to_value(value).ok()) {
        map.insert(field.to_owned(), value);
    }
}
