//! Making an anchor.

use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use windlass_kernel::{Digest, Head, Timestamp, TraceId};
use windlass_workspace::HashingStream;

use super::{ANCHOR_FORMAT, AnchorHeader, Anchored, Seal};
use crate::document;
use crate::error::{AnchorError, SourceError};
use crate::file::{Draft, Replace};
use crate::key::{KeyFile, Signer};
use crate::rotation::Rotation;

/// What goes into an anchor, beside the traces.
#[derive(Clone, Debug)]
pub struct NewAnchor {
    /// All public keys of the project, the signer's among them.
    pub keys: Vec<KeyFile>,
    /// All rotations of the project.
    pub rotations: Vec<Rotation>,
    /// Which store it is of, where stores have names.
    pub store: Option<String>,
    /// When it is made.
    pub made_at: Timestamp,
}

/// What an anchor holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// How many traces.
    pub traces: u64,
    /// The digest that is signed: it stands for all of them.
    pub digest: Digest,
}

/// Writes an anchor of the traces that `heads` gives, newest first as stores list them; whole or not
/// at all. Traces without entries are left out.
///
/// # Errors
/// [`AnchorError`], and then there is no new file.
pub fn write_anchor(
    path: &Path,
    replace: Replace,
    signer: &Signer,
    anchor: &NewAnchor,
    heads: impl IntoIterator<Item = Result<Head, SourceError>>,
) -> Result<Written, AnchorError> {
    let unwritable = |source| AnchorError::Unwritable { path: path.to_owned(), source };
    let draft = Draft::new(path, 0o600).map_err(unwritable)?;
    let header = AnchorHeader {
        format: ANCHOR_FORMAT.to_owned(),
        keys: anchor.keys.iter().map(|file| file.key).collect(),
        made_at: anchor.made_at,
        rotations: anchor.rotations.clone(),
        store: anchor.store.clone(),
    };
    let unfit = |what| AnchorError::Invalid { line: 1, what };
    if !header.keys.contains(&signer.public()) {
        return Err(unfit("the signer's public key is not given".to_owned()));
    }
    let mut target = HashingStream::new(BufWriter::new(&draft.file));
    target.write_all(&document::write(&header).map_err(unfit)?).map_err(unwritable)?;
    target.write_all(b"\n").map_err(unwritable)?;
    let (mut traces, mut last): (u64, Option<TraceId>) = (0, None);
    for head in heads {
        let head = head.map_err(AnchorError::Source)?;
        let Some(anchored) = Anchored::of(&head) else { continue };
        if last.is_some_and(|last| anchored.trace_id >= last) {
            return Err(AnchorError::Order { trace_id: anchored.trace_id });
        }
        last = Some(anchored.trace_id);
        target.write_all(anchored.to_line().as_bytes()).map_err(unwritable)?;
        traces += 1;
    }
    let digest = target.digest();
    let seal = Seal::sign(signer, digest, traces).and_then(|seal| document::write(&seal));
    target.write_all(&seal.map_err(unfit)?).map_err(unwritable)?;
    target.write_all(b"\n").and_then(|()| target.flush()).map_err(unwritable)?;
    drop(target);
    match draft.place(replace) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(AnchorError::Exists { path: path.to_owned() })
        }
        placed => placed.map(|()| Written { traces, digest }).map_err(unwritable),
    }
}
