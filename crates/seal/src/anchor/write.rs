//! Writes anchors.

use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use windlass_kernel::{Digest, Head, Timestamp, TraceId};
use windlass_workspace::HashingStream;

use super::{ANCHOR_FORMAT, AnchorHeader, AnchorSignature, AnchoredHead};
use crate::document;
use crate::error::{AnchorError, SourceError};
use crate::file::{IfExists, TemporaryFile};
use crate::key::{KeyFile, Signer};
use crate::rotation::Rotation;

/// The contents of a new anchor, except the traces.
#[derive(Clone, Debug)]
pub struct NewAnchor {
    /// All public keys of the project, including the signer's.
    pub keys: Vec<KeyFile>,
    /// All rotations of the project.
    pub rotations: Vec<Rotation>,
    /// The name of the store, if it has one.
    pub store: Option<String>,
    /// The time of creation.
    pub made_at: Timestamp,
}

/// The summary of a written anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnchorSummary {
    /// The number of anchored traces.
    pub traces: u64,
    /// The signed digest, which covers all of them.
    pub digest: Digest,
}

/// Writes an anchor of the traces in `heads`, which must come newest first, as stores list them. The
/// file is written atomically. Traces without entries are skipped.
///
/// # Errors
/// [`AnchorError`]; no file is written then.
pub fn write_anchor(
    path: &Path,
    if_exists: IfExists,
    signer: &Signer,
    anchor: &NewAnchor,
    heads: impl IntoIterator<Item = Result<Head, SourceError>>,
) -> Result<AnchorSummary, AnchorError> {
    let unwritable = |source| AnchorError::Unwritable { path: path.to_owned(), source };
    let temporary = TemporaryFile::new(path, 0o600).map_err(unwritable)?;
    let header = AnchorHeader {
        format: ANCHOR_FORMAT.to_owned(),
        keys: anchor.keys.iter().map(|file| file.key).collect(),
        made_at: anchor.made_at,
        rotations: anchor.rotations.clone(),
        store: anchor.store.clone(),
    };
    let invalid = |reason| AnchorError::Invalid { line: 1, reason };
    if !header.keys.contains(&signer.public()) {
        return Err(invalid("the signer's public key is not among the keys".to_owned()));
    }
    let mut target = HashingStream::new(BufWriter::new(&temporary.file));
    target.write_all(&document::write(&header).map_err(invalid)?).map_err(unwritable)?;
    target.write_all(b"\n").map_err(unwritable)?;
    let (mut traces, mut last): (u64, Option<TraceId>) = (0, None);
    for head in heads {
        let head = head.map_err(AnchorError::Source)?;
        let Some(anchored) = AnchoredHead::new(&head) else { continue };
        if last.is_some_and(|last| anchored.trace_id >= last) {
            return Err(AnchorError::Order { trace_id: anchored.trace_id });
        }
        last = Some(anchored.trace_id);
        target.write_all(anchored.to_line().as_bytes()).map_err(unwritable)?;
        traces += 1;
    }
    let digest = target.digest();
    let signature = AnchorSignature::sign(signer, digest, traces);
    let signature = signature.and_then(|signature| document::write(&signature));
    target.write_all(&signature.map_err(invalid)?).map_err(unwritable)?;
    target.write_all(b"\n").and_then(|()| target.flush()).map_err(unwritable)?;
    drop(target);
    match temporary.persist(if_exists) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(AnchorError::Exists { path: path.to_owned() })
        }
        persisted => persisted.map(|()| AnchorSummary { traces, digest }).map_err(unwritable),
    }
}
