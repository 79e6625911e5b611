//! A project's memory: append-only versions, each chained to the previous one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;
use windlass_kernel::canon::{self, CanonError};
use windlass_kernel::{Code, Digest, Timestamp};

use crate::{DriverConfig, IntentId, Outcome};

/// The largest version, in canonical form.
pub const VERSION_BYTES_MAX: usize = 1024 * 1024;
/// The largest memory, in canonical form.
pub const MEMORY_BYTES_MAX: usize = 256 * 1024 * 1024;
const TASK_ID_BYTES_MAX: usize = 200;
const KEY_BYTES_MAX: usize = 200;

/// What a task saved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {
    /// The digest of the canonical form of all other fields.
    pub digest: Digest,
    /// The saved entries; `null` removes a key.
    pub entries: BTreeMap<String, Value>,
    /// The intent of the task.
    pub intent: IntentId,
    /// The digest of the version before; 64 zeros for the first.
    pub parent_digest: Digest,
    /// The task.
    pub task_id: String,
    /// When it was saved.
    pub ts: Timestamp,
    /// Its number, from 1 without gaps.
    pub version: u64,
}

/// A project's memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    versions: Vec<Version>,
}

/// The current entries of a memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryView {
    /// The newest version; 0 when there is none.
    pub version: u64,
    /// Its digest, which a save must give; 64 zeros when there is none.
    pub digest: Digest,
    /// The entries of all versions, newer over older.
    pub entries: BTreeMap<String, Value>,
}

/// A request to save entries.
#[derive(Clone, Debug, PartialEq)]
pub struct SaveRequest {
    /// The digest of the view that the task restored.
    pub restored: Digest,
    /// The intent of the task.
    pub intent: IntentId,
    /// The task.
    pub task_id: String,
    /// Now.
    pub ts: Timestamp,
    /// How its verification ended.
    pub verification: Outcome,
    /// What to save.
    pub entries: BTreeMap<String, Value>,
}

/// Why a save failed; the memory is unchanged.
#[derive(Debug, Error)]
pub enum SaveError {
    /// The task may not save.
    #[error("save memory: {reason}")]
    Refused {
        /// Why.
        reason: String,
    },
    /// Another task saved since the memory was restored: a person decides.
    #[error("save memory: version {version} was saved since the memory was restored")]
    Conflict {
        /// The newest version.
        version: u64,
        /// Its digest.
        head: Digest,
        /// The digest that the task restored.
        restored: Digest,
    },
    /// The version is too large.
    #[error("save memory: the version is {bytes} bytes long, more than the {bytes_max} allowed")]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The version has no canonical form.
    #[error("save memory")]
    Json(#[source] CanonError),
}

impl SaveError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Refused { .. } => Code::DriverSaveRefused,
            Self::Conflict { .. } => Code::DriverMemoryConflict,
            Self::TooLarge { .. } => Code::DocSizeExceeded,
            Self::Json(error) => error.code(),
        }
    }

    /// The outcome of the task: a conflict asks, everything else halts.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::Conflict { .. } => Outcome::AskUser,
            Self::Refused { .. } | Self::TooLarge { .. } | Self::Json(_) => Outcome::Halt,
        }
    }
}

/// Why a memory cannot be used; nothing is repaired.
#[derive(Debug, Error)]
pub enum MemoryError {
    /// The memory is too large.
    #[error("read memory: it is {bytes} bytes long, more than the {MEMORY_BYTES_MAX} allowed")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// A line is not JSON.
    #[error("read memory: line {line} cannot be read")]
    Json {
        /// The line, from 1.
        line: usize,
        /// Why.
        #[source]
        error: CanonError,
    },
    /// The last line is incomplete.
    #[error("read memory: line {line} is incomplete")]
    Torn {
        /// The line, from 1.
        line: usize,
    },
    /// A version is missing, repeated or out of order.
    #[error("read memory: line {line} is version {found}")]
    Gap {
        /// The line, from 1.
        line: usize,
        /// The version in that line.
        found: u64,
    },
    /// A line does not match its digest.
    #[error("read memory: line {line} was changed after it was saved")]
    Changed {
        /// The line, from 1.
        line: usize,
    },
}

impl MemoryError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::TooLarge { .. } => Code::DocSizeExceeded,
            Self::Json { error, .. } => error.code(),
            Self::Torn { .. } => Code::JsonInvalid,
            Self::Gap { .. } => Code::StateSequenceGap,
            Self::Changed { .. } => Code::StateChecksumMismatch,
        }
    }
}

impl Version {
    /// The digest of the other fields.
    fn computed(&self) -> Result<Digest, CanonError> {
        #[derive(Serialize)]
        struct Covered<'a> {
            entries: &'a BTreeMap<String, Value>,
            intent: &'a IntentId,
            parent_digest: &'a Digest,
            task_id: &'a str,
            ts: Timestamp,
            version: u64,
        }
        canon::digest(&Covered {
            entries: &self.entries,
            intent: &self.intent,
            parent_digest: &self.parent_digest,
            task_id: &self.task_id,
            ts: self.ts,
            version: self.version,
        })
    }
}

impl Memory {
    /// All versions, oldest first.
    #[must_use]
    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// The digest of the newest version; 64 zeros when there is none.
    #[must_use]
    pub fn head(&self) -> Digest {
        self.versions.last().map_or(Digest::GENESIS, |version| version.digest)
    }

    /// The entries of all versions, newer over older.
    #[must_use]
    pub fn restore(&self) -> MemoryView {
        let mut entries = BTreeMap::new();
        for (key, value) in self.versions.iter().flat_map(|version| &version.entries) {
            if value.is_null() {
                entries.remove(key);
            } else {
                entries.insert(key.clone(), value.clone());
            }
        }
        let version = self.versions.last().map_or(0, |version| version.version);
        MemoryView { version, digest: self.head(), entries }
    }

    /// Adds a version.
    ///
    /// # Errors
    /// [`SaveError`] when the intent may not save, verification did not pass, there is nothing to
    /// save, or the memory has changed since the task restored it. The memory is unchanged then.
    pub fn save(
        &mut self,
        config: &DriverConfig,
        request: SaveRequest,
    ) -> Result<&Version, SaveError> {
        allowed(config, &request).map_err(|reason| SaveError::Refused { reason })?;
        let head = self.head();
        if request.restored != head {
            let version = self.versions.last().map_or(0, |version| version.version);
            return Err(SaveError::Conflict { version, head, restored: request.restored });
        }
        let mut version = Version {
            digest: Digest::GENESIS,
            entries: request.entries,
            intent: request.intent,
            parent_digest: head,
            task_id: request.task_id,
            ts: request.ts,
            version: self.versions.last().map_or(1, |version| version.version.saturating_add(1)),
        };
        version.digest = version.computed().map_err(SaveError::Json)?;
        let bytes = canon::to_bytes(&version).map_err(SaveError::Json)?;
        if bytes.len() > VERSION_BYTES_MAX {
            let bytes = bytes.len();
            return Err(SaveError::TooLarge { bytes, bytes_max: VERSION_BYTES_MAX });
        }
        // The version is stored as it would be read back, so that it can always be restored.
        let value = canon::parse(&bytes, VERSION_BYTES_MAX).map_err(SaveError::Json)?;
        let version = serde_json::from_value(value)
            .map_err(|error| SaveError::Json(CanonError::Invalid(error.to_string())))?;
        self.versions.push(version);
        self.versions
            .last()
            .ok_or_else(|| SaveError::Refused { reason: "the version was not stored".to_owned() })
    }

    /// The canonical bytes: one line per version.
    ///
    /// # Errors
    /// [`CanonError`] when a version has no canonical form, which [`Memory::save`] does not allow.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CanonError> {
        let mut bytes = Vec::new();
        for version in &self.versions {
            bytes.extend(canon::to_bytes(version)?);
            bytes.push(b'\n');
        }
        Ok(bytes)
    }

    /// Reads a memory as [`Memory::to_bytes`] writes it, and checks its chain.
    ///
    /// A chain does not protect its own end; the entries that recorded the versions do.
    ///
    /// # Errors
    /// [`MemoryError`] at the first invalid line.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, MemoryError> {
        if bytes.len() > MEMORY_BYTES_MAX {
            return Err(MemoryError::TooLarge { bytes: bytes.len() });
        }
        let mut memory = Self::default();
        for (line, text) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
            let Some(text) = text.strip_suffix(b"\n") else {
                return Err(MemoryError::Torn { line });
            };
            let value = canon::parse(text, VERSION_BYTES_MAX)
                .map_err(|error| MemoryError::Json { line, error })?;
            let changed = || MemoryError::Changed { line };
            let version: Version = serde_json::from_value(value).map_err(|_| changed())?;
            let expected = memory.versions.last().map_or(1, |last| last.version.saturating_add(1));
            if version.version != expected {
                return Err(MemoryError::Gap { line, found: version.version });
            }
            let canonical = canon::to_bytes(&version).is_ok_and(|bytes| bytes == text);
            let whole = version.computed().is_ok_and(|digest| digest == version.digest);
            if !canonical || !whole || version.parent_digest != memory.head() {
                return Err(changed());
            }
            memory.versions.push(version);
        }
        Ok(memory)
    }
}

/// Whether the task may save at all.
fn allowed(config: &DriverConfig, request: &SaveRequest) -> Result<(), String> {
    let intent = &request.intent;
    let Some(declared) = config.intent(intent) else {
        return Err(format!("there is no intent `{intent}`"));
    };
    if !declared.save_allowed {
        return Err(format!("intent `{intent}` may not save"));
    }
    if !request.verification.is_success() {
        return Err(format!("verification ended in {}", request.verification));
    }
    let task = &request.task_id;
    if task.trim().is_empty() || task.len() > TASK_ID_BYTES_MAX || task.contains(char::is_control) {
        return Err(format!("the task id is not one line of 1 to {TASK_ID_BYTES_MAX} bytes"));
    }
    if request.entries.is_empty() {
        return Err("there is nothing to save".to_owned());
    }
    let strange = |key: &String| key.trim().is_empty() || key.len() > KEY_BYTES_MAX;
    if request.entries.keys().any(strange) {
        return Err(format!("a key is empty or longer than {KEY_BYTES_MAX} bytes"));
    }
    Ok(())
}
