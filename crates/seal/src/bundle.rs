//! A run in one file that can be checked anywhere, with nothing but a public key.

mod agree;
mod contents;
mod report;
mod verify;
mod write;

use serde::{Deserialize, Serialize};
use windlass_kernel::{Digest, Timestamp, TraceId};

use crate::document;
use crate::key::{KeyId, PublicKey, Signature, Signer};

pub use report::{Fault, Report, Verdict};
pub use verify::{verify_bundle, verify_bundle_within};
pub use write::{Bundle, Page, Recorded, write_bundle};

/// The version of bundles.
pub const BUNDLE_FORMAT: &str = "windlass.bundle/v1";

const MANIFEST: &str = "manifest.json";
const SIGNATURE: &str = "signature.json";
const HEADS: &str = "heads.json";
const ROTATIONS: &str = "rotations.json";
const STATEMENT: &str = "statement.json";
const ENVELOPE: &str = "statement.dsse.json";
/// The members that every bundle has.
const ALWAYS: [&str; 6] = [ENVELOPE, HEADS, MANIFEST, ROTATIONS, SIGNATURE, STATEMENT];

/// The largest document in a bundle, and the largest checkpoint.
const DOCUMENT_BYTES_MAX: u64 = 32 << 20;
/// The largest key file.
const KEY_BYTES_MAX: u64 = 4096;

/// How much a bundle may hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Members.
    pub members_max: usize,
    /// Bytes of all members together, once unpacked.
    pub plain_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { members_max: 50_000, plain_bytes_max: 64 << 30 }
    }
}

/// What a bundle holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The version of the bundle.
    pub format: String,
    /// When it was made.
    pub made_at: Timestamp,
    /// Every member but this one and its signature, in order of their names.
    pub members: Vec<Member>,
    /// The digest of everything that decided.
    pub policy_hash: Option<Digest>,
    /// The run's name.
    pub run_id: String,
    /// The run's trace.
    pub trace_id: TraceId,
    /// All traces: the run's and its calls', in order.
    pub trace_ids: Vec<TraceId>,
}

/// One member of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its size once unpacked; the same as `size` where it is not packed.
    pub plain_size: u64,
    /// The digest of its bytes as they are in the bundle.
    pub sha256: Digest,
    /// How many these are.
    pub size: u64,
}

/// The signature of a bundle: it covers the manifest, which covers all else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seal {
    format: String,
    key_id: KeyId,
    manifest: Digest,
    signature: Signature,
}

#[derive(Serialize)]
struct Unsigned<'a> {
    format: &'a str,
    key_id: KeyId,
    manifest: Digest,
}

impl Seal {
    fn sign(signer: &Signer, manifest: Digest) -> Result<Self, String> {
        let key_id = signer.public().id();
        let unsigned = Unsigned { format: BUNDLE_FORMAT, key_id, manifest };
        let signature = signer.sign(&document::to_sign(BUNDLE_FORMAT, &unsigned)?);
        Ok(Self { format: BUNDLE_FORMAT.to_owned(), key_id, manifest, signature })
    }

    fn verifies(&self, key: &PublicKey) -> bool {
        let unsigned =
            Unsigned { format: &self.format, key_id: self.key_id, manifest: self.manifest };
        self.format == BUNDLE_FORMAT
            && self.key_id == key.id()
            && document::to_sign(BUNDLE_FORMAT, &unsigned)
                .is_ok_and(|bytes| key.verifies(&bytes, &self.signature))
    }
}

/// What a member is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Blob(Digest),
    Checkpoint,
    Document,
    Journal(TraceId),
    Key(KeyId),
}

impl Kind {
    /// `None` when no member has such a name.
    fn of(name: &str) -> Option<Self> {
        if ALWAYS.contains(&name) {
            return Some(Self::Document);
        }
        let (folder, file) = name.split_once('/')?;
        match folder {
            "blobs" => file.strip_suffix(".zst")?.parse().ok().map(Self::Blob),
            "checkpoints" => file.strip_suffix(".json").map(|_| Self::Checkpoint),
            "journal" => file.strip_suffix(".jsonl.zst")?.parse().ok().map(Self::Journal),
            "keys" => file.strip_suffix(".pub")?.parse().ok().map(Self::Key),
            _ => None,
        }
    }
}

fn blob_name(digest: &Digest) -> String {
    format!("blobs/{digest}.zst")
}

fn journal_name(trace_id: TraceId) -> String {
    format!("journal/{trace_id}.jsonl.zst")
}

fn key_name(id: KeyId) -> String {
    format!("keys/{id}.pub")
}
