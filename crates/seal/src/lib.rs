//! Signs journals: keys, signed heads, bundles that can be checked anywhere, anchors of whole stores.
//!
//! Nothing here decides what happens in a run, and nothing reads a clock: times come in as arguments.
//! What is signed is canonical JSON behind a line that names the kind of document, so no signature of
//! one kind can serve as one of another.

mod anchor;
mod archive;
mod bundle;
mod document;
mod error;
mod file;
mod head;
mod journal;
mod key;
mod keys;
mod rotation;
mod statement;
mod trust;

pub use anchor::{
    ANCHOR_FORMAT, AnchorHeader, AnchorOutcome, AnchorReport, Changed, Found, NewAnchor, Written,
    check_anchor, write_anchor,
};
pub use bundle::{
    BUNDLE_FORMAT, Bundle, Fault, Limits, Manifest, Member, Page, Recorded, Report, Verdict,
    verify_bundle, verify_bundle_within, write_bundle,
};
pub use error::{AnchorError, BundleError, KeyError};
pub use file::Replace;
pub use head::SignedHead;
pub use journal::{calls_of, contents_of};
pub use key::{KeyFile, KeyId, PublicKey, Signature, Signer};
pub use keys::{Keys, Rotated};
pub use rotation::Rotation;
pub use statement::{PAYLOAD_TYPE, PREDICATE_TYPE, STATEMENT_TYPE};
pub use trust::Trust;
