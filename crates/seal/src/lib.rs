//! Signs journals: keys, signed heads, bundles that anyone can verify, and anchors of whole stores.
//!
//! This crate makes no decision about a run and reads no clock: times are arguments. The signed bytes
//! are a line that names the kind of document followed by its canonical JSON, so a signature of one
//! kind of document is never valid for another kind.

mod anchor;
mod archive;
mod attestation;
mod bundle;
mod document;
mod error;
mod file;
mod head;
mod journal;
mod key;
mod keys;
mod people;
mod rotation;
mod trust;

pub use anchor::{
    ANCHOR_FORMAT, AnchorHeader, AnchorOutcome, AnchorReport, AnchorSummary, NewAnchor,
    StoredTrace, TraceChange, check_anchor, write_anchor,
};
pub use attestation::{PAYLOAD_TYPE, PREDICATE_TYPE, STATEMENT_TYPE};
pub use bundle::{
    BUNDLE_FORMAT, BundleFault, BundleLimits, BundleReader, BundleReport, BundleVerdict, EntryPage,
    EntryVisitor, FilesWriter, Manifest, ManifestMember, NewBundle, StoredEntry, verify_bundle,
    verify_bundle_within, write_bundle,
};
pub use error::{AnchorError, BundleError, KeyError, PeopleError};
pub use file::IfExists;
pub use head::SignedHead;
pub use journal::referenced_calls;
pub use key::{KeyFile, KeyId, PublicKey, Signature, Signer};
pub use keys::{KeyStore, RotatedKeys};
pub use people::{NewKey, PeopleStore, Person, Protection, SshPublicKey, Unlock};
pub use rotation::Rotation;
pub use trust::Trust;
