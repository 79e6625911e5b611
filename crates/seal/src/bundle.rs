//! Bundles: a run in one signed file that can be verified offline with only a public key.

mod consistency;
mod members;
mod read;
mod report;
mod verify;
mod write;

use serde::{Deserialize, Serialize};
use windlass_kernel::{Digest, Timestamp, TraceId};

use crate::document;
use crate::key::{KeyId, PublicKey, Signature, Signer};

pub use read::{BundleReader, EntryVisitor};
pub use report::{BundleFault, BundleReport, BundleVerdict};
pub use verify::{verify_bundle, verify_bundle_within};
pub use write::{EntryPage, FilesWriter, NewBundle, StoredEntry, write_bundle};

/// The format version of bundles.
pub const BUNDLE_FORMAT: &str = "windlass.bundle/v1";

const MANIFEST: &str = "manifest.json";
const SIGNATURE: &str = "signature.json";
/// The files of workspaces: the objects of the snapshots of checkpoints.
const FILES: &str = "files.zst";
const HEADS: &str = "heads.json";
const ROTATIONS: &str = "rotations.json";
const STATEMENT: &str = "statement.json";
const ENVELOPE: &str = "statement.dsse.json";
/// The members that every bundle has.
const REQUIRED: [&str; 6] = [ENVELOPE, HEADS, MANIFEST, ROTATIONS, SIGNATURE, STATEMENT];

/// The maximum size of a document or a checkpoint in a bundle.
const DOCUMENT_BYTES_MAX: u64 = 32 << 20;
/// The maximum size of a key file.
const KEY_BYTES_MAX: u64 = 4096;

/// Limits on the size of a bundle.
#[derive(Clone, Copy, Debug)]
pub struct BundleLimits {
    /// The maximum number of members.
    pub members_max: usize,
    /// The maximum size of all decompressed members together.
    pub plain_bytes_max: u64,
}

/// What a bundle of any size may decompress to.
const PLAIN_BYTES_MIN: u64 = 1 << 30;
/// To how many times its size a bundle may decompress beyond that.
const PLAIN_RATIO_MAX: u64 = 64;

impl BundleLimits {
    /// The limits of a bundle of this size: a small file declares no huge contents, which would be decompressed to
    /// verify them.
    #[must_use]
    pub const fn of_size(bytes: u64) -> Self {
        let plain_bytes_max = PLAIN_BYTES_MIN.saturating_add(bytes.saturating_mul(PLAIN_RATIO_MAX));
        Self { members_max: 50_000, plain_bytes_max }
    }
}

/// The list of the contents of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The format version of the bundle.
    pub format: String,
    /// The time of creation.
    pub made_at: Timestamp,
    /// Every member except the manifest and its signature, sorted by name.
    pub members: Vec<ManifestMember>,
    /// The digest of the policy set.
    pub policy_hash: Option<Digest>,
    /// The run's name.
    pub run_id: String,
    /// The run's trace.
    pub trace_id: TraceId,
    /// All traces, sorted: the run's and those of its calls.
    pub trace_ids: Vec<TraceId>,
}

/// One member of a bundle as the manifest lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestMember {
    /// The name in the archive.
    pub name: String,
    /// The decompressed size; equal to `size` if the member is not compressed.
    pub plain_size: u64,
    /// The digest of the bytes in the bundle.
    pub sha256: Digest,
    /// The number of bytes in the bundle.
    pub size: u64,
}

/// The signature of a bundle. It covers the manifest, which covers every other member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BundleSignature {
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

impl BundleSignature {
    fn sign(signer: &Signer, manifest: Digest) -> Result<Self, String> {
        let key_id = signer.public().id();
        let unsigned = Unsigned { format: BUNDLE_FORMAT, key_id, manifest };
        let signature = signer.sign(&document::to_sign(BUNDLE_FORMAT, &unsigned)?);
        Ok(Self { format: BUNDLE_FORMAT.to_owned(), key_id, manifest, signature })
    }

    fn is_signed_by(&self, key: &PublicKey) -> bool {
        let unsigned =
            Unsigned { format: &self.format, key_id: self.key_id, manifest: self.manifest };
        self.format == BUNDLE_FORMAT
            && self.key_id == key.id()
            && document::to_sign(BUNDLE_FORMAT, &unsigned)
                .is_ok_and(|bytes| key.verifies(&bytes, &self.signature))
    }
}

/// The kind of a member, derived from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberKind {
    Blob(Digest),
    Checkpoint,
    Document,
    Files,
    Journal(TraceId),
    Key(KeyId),
}

impl MemberKind {
    /// `None` if no member may have this name.
    fn from_name(name: &str) -> Option<Self> {
        if REQUIRED.contains(&name) {
            return Some(Self::Document);
        }
        if name == FILES {
            return Some(Self::Files);
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

fn checkpoint_name(name: &str) -> String {
    format!("checkpoints/{name}.json")
}

fn journal_name(trace_id: TraceId) -> String {
    format!("journal/{trace_id}.jsonl.zst")
}

fn key_name(id: KeyId) -> String {
    format!("keys/{id}.pub")
}
