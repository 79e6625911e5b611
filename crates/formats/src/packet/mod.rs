//! The two kinds of packets: of a hold, and of the end of a run.

mod hold;
mod terminal;

use serde_json::{Map, Value};
use thiserror::Error;
use windlass_kernel::{Code, Digest};

use crate::fields::FieldError;
use crate::keyword::keywords;
use crate::yaml::{self, EmitError, YamlError};

pub use hold::{Approval, Decision, HoldPacket, Resolution, read_hold, read_hold_of};
pub use terminal::{GateResult, Outcome, PhaseStatus, RunStatus, TerminalPacket, read_terminal};

/// The largest packet.
pub const PACKET_BYTES_MAX: usize = 1 << 20;

/// Why a packet cannot be written or read, or was changed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PacketError {
    /// It is not valid YAML.
    #[error("the packet cannot be read")]
    Yaml(#[from] YamlError),
    /// It is empty.
    #[error("the packet is empty")]
    Empty,
    /// A field is unknown, missing or invalid.
    #[error("the packet cannot be used")]
    Field(#[from] FieldError),
    /// It is resolved but has no decision.
    #[error("the packet says `resolved: true` without a decision")]
    ResolvedWithoutDecision,
    /// It has a decision but is not resolved.
    #[error("the packet is not resolved but has the field `{0}`")]
    DecisionWithoutResolved(&'static str),
    /// The decision is unknown.
    #[error("the packet's decision is `{0}`, which is neither `APPROVED` nor `REJECTED`")]
    UnknownDecision(String),
    /// The id belongs to another run.
    #[error(
        "the packet's `checkpoint_id` belongs to the run `{checkpoint_run}`, but its `run_id` is `{run}`"
    )]
    RunMismatch {
        /// The run in the packet's id.
        checkpoint_run: String,
        /// The run in the packet's own field.
        run: String,
    },
    /// The content does not match its digest.
    #[error(
        "the packet was changed after it was written: its content has the digest `{actual}`, but `packet_hash` is `{stated}`"
    )]
    Edited {
        /// The digest in the packet.
        stated: Digest,
        /// The digest of the content.
        actual: Digest,
    },
    /// It is the packet of another hold.
    #[error("this is the packet of `{found}`, not of `{expected}`")]
    Foreign {
        /// The expected hold.
        expected: String,
        /// The actual hold.
        found: String,
    },
    /// The content cannot be written as YAML.
    #[error("the packet cannot be written")]
    Unwritable(#[from] EmitError),
    /// The packet would be too large.
    #[error("the packet would have {bytes} bytes, more than {PACKET_BYTES_MAX}")]
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
}

/// The field with the digest of all others.
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

/// Checks the digest of an otherwise valid packet, and returns it.
fn check_hash(packet: &Value, stated: Digest) -> Result<Digest, PacketError> {
    // The digest of everything in the file, so that an added field is detected too.
    let actual = match packet {
        Value::Object(map) => hash(map)?,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(PacketError::Empty);
        }
    };
    if actual == stated { Ok(actual) } else { Err(PacketError::Edited { stated, actual }) }
}

/// Inserts a field if it is set.
fn put<T: serde::Serialize>(map: &mut Map<String, Value>, field: &str, value: Option<T>) {
    if let Some(value) = value.and_then(|value| serde_json::to_value(value).ok()) {
        map.insert(field.to_owned(), value);
    }
}
