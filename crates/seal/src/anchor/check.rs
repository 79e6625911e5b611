//! Compares a store with an anchor of its earlier state.

use std::io::{BufRead, Read as _, Seek, SeekFrom};

use sha2::{Digest as _, Sha256};
use windlass_kernel::{Code, Digest, Entry, Timestamp, TraceId};

use super::{ANCHOR_FORMAT, AnchorHeader, AnchorSignature, AnchoredHead, SIGNATURE_PREFIX};
use crate::document;
use crate::error::{AnchorError, SourceError};
use crate::key::{KeyId, PublicKey};
use crate::keys::{ROTATIONS_BYTES_MAX, ROTATIONS_MAX};
use crate::rotation::Rotation;
use crate::trust::Trust;

/// The maximum length of the first line.
const HEADER_BYTES_MAX: usize = ROTATIONS_BYTES_MAX * 2;
/// The maximum length of every other line.
const LINE_BYTES_MAX: usize = 1024;

/// The stored state of a trace at the sequence number of its anchored head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredTrace {
    /// The store has no such trace.
    Missing,
    /// The trace ends before that sequence number.
    Shorter {
        /// The number of its entries.
        entries: u64,
    },
    /// The trace has an entry with that sequence number.
    Entry {
        /// The digest of the entry.
        digest: Digest,
        /// The number of entries of the trace.
        entries: u64,
    },
}

impl StoredTrace {
    /// Describes an entry; its digest is recomputed, not read from the entry.
    #[must_use]
    pub fn entry(entry: &Entry, entries: u64) -> Self {
        Self::Entry { digest: entry.compute_digest(&mut Vec::new()), entries }
    }
}

/// How a trace differs from its anchored head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceChange {
    /// The trace no longer exists.
    Missing {
        /// The trace.
        trace_id: TraceId,
    },
    /// The trace has fewer entries than were anchored.
    Shortened {
        /// The trace.
        trace_id: TraceId,
        /// The anchored number of entries.
        had: u64,
        /// The stored number of entries.
        has: u64,
    },
    /// The trace has another entry at the sequence number of the anchored head.
    Rewritten {
        /// The trace.
        trace_id: TraceId,
        /// The sequence number of that entry.
        sequence_number: u64,
    },
}

impl std::fmt::Display for TraceChange {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing { trace_id } => write!(formatter, "trace `{trace_id}` is missing"),
            Self::Shortened { trace_id, had, has } => {
                write!(formatter, "trace `{trace_id}` has {has} entries, but had {had}")
            }
            Self::Rewritten { trace_id, sequence_number } => {
                write!(formatter, "entry {sequence_number} of trace `{trace_id}` was rewritten")
            }
        }
    }
}

/// The result of comparing a store with an anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnchorOutcome {
    /// Every trace still contains its anchored head.
    Intact,
    /// At least one trace is missing, shortened or rewritten.
    Changed,
    /// The anchor is not signed by the key that it names; nothing was compared.
    BadSignature,
    /// The anchor is not signed by a trusted key; nothing was compared.
    UnknownKey,
}

/// The report of comparing a store with an anchor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnchorReport {
    /// The overall result.
    pub outcome: AnchorOutcome,
    /// The key that the anchor names.
    pub signer: KeyId,
    /// The time the anchor was created.
    pub made_at: Timestamp,
    /// The name of the store, if it has one.
    pub store: Option<String>,
    /// The number of anchored traces.
    pub traces: u64,
    /// The number of traces that are unchanged.
    pub intact: u64,
    /// The number of traces with entries appended since.
    pub grown: u64,
    /// The number of missing traces.
    pub missing: u64,
    /// The number of traces with fewer entries.
    pub shortened: u64,
    /// The number of traces with another entry at the anchored head.
    pub rewritten: u64,
}

impl AnchorReport {
    /// The stable error code; `None` if the store is intact.
    #[must_use]
    pub const fn code(&self) -> Option<Code> {
        match self.outcome {
            AnchorOutcome::Intact => None,
            AnchorOutcome::Changed | AnchorOutcome::BadSignature => Some(Code::AnchorInvalid),
            AnchorOutcome::UnknownKey => Some(Code::BundleUntrusted),
        }
    }

    fn count(&mut self, anchored: &AnchoredHead, stored: StoredTrace) -> Option<TraceChange> {
        let AnchoredHead { trace_id, sequence_number, entry_digest, .. } = *anchored;
        match stored {
            StoredTrace::Missing => {
                self.missing += 1;
                Some(TraceChange::Missing { trace_id })
            }
            StoredTrace::Shorter { entries } => {
                self.shortened += 1;
                Some(TraceChange::Shortened { trace_id, had: sequence_number, has: entries })
            }
            StoredTrace::Entry { digest, .. } if digest != entry_digest => {
                self.rewritten += 1;
                Some(TraceChange::Rewritten { trace_id, sequence_number })
            }
            StoredTrace::Entry { entries, .. } => {
                let counted =
                    if entries > sequence_number { &mut self.grown } else { &mut self.intact };
                *counted += 1;
                None
            }
        }
    }
}

/// Verifies an anchor, then compares a store with it: `lookup` returns the stored state of a trace at a
/// sequence number, and `on_change` is called for every trace that differs.
///
/// Entries before the anchored head are not verified here: verify the store as well.
///
/// # Errors
/// [`AnchorError`] if the file is not an anchor, or the anchor or the store cannot be read.
pub fn check_anchor<R: BufRead + Seek>(
    source: &mut R,
    trust: &Trust,
    mut lookup: impl FnMut(TraceId, u64) -> Result<StoredTrace, SourceError>,
    mut on_change: impl FnMut(TraceChange),
) -> Result<AnchorReport, AnchorError> {
    // The first pass only verifies: the signature is on the last line.
    let (header, signature, digest) = read(source, &mut |_| Ok(()))?;
    let outcome = check_signature(&header, &signature, digest, trust);
    let mut report = AnchorReport {
        outcome,
        signer: signature.key_id,
        made_at: header.made_at,
        store: header.store,
        traces: signature.traces,
        intact: 0,
        grown: 0,
        missing: 0,
        shortened: 0,
        rewritten: 0,
    };
    if outcome != AnchorOutcome::Intact {
        return Ok(report);
    }
    let (_, _, second_digest) = read(source, &mut |anchored| {
        let stored = lookup(anchored.trace_id, anchored.sequence_number);
        if let Some(change) = report.count(anchored, stored.map_err(AnchorError::Source)?) {
            on_change(change);
        }
        Ok(())
    })?;
    if second_digest != digest {
        let reason = "the file changed while it was being read".to_owned();
        return Err(AnchorError::Invalid { line: 1, reason });
    }
    if report.missing + report.shortened + report.rewritten > 0 {
        report.outcome = AnchorOutcome::Changed;
    }
    Ok(report)
}

fn check_signature(
    header: &AnchorHeader,
    signature: &AnchorSignature,
    digest: Digest,
    trust: &Trust,
) -> AnchorOutcome {
    let key: Option<&PublicKey> = header.keys.iter().find(|key| key.id() == signature.key_id);
    let Some(key) = key.filter(|key| signature.digest == digest && signature.is_signed_by(key))
    else {
        return AnchorOutcome::BadSignature;
    };
    if trust.trusts(key, &header.rotations) {
        AnchorOutcome::Intact
    } else {
        AnchorOutcome::UnknownKey
    }
}

/// Reads an anchor line by line; returns its first and last lines, and the digest of all lines but the
/// last.
fn read<R: BufRead + Seek>(
    source: &mut R,
    on_head: &mut dyn FnMut(&AnchoredHead) -> Result<(), AnchorError>,
) -> Result<(AnchorHeader, AnchorSignature, Digest), AnchorError> {
    source.seek(SeekFrom::Start(0)).map_err(AnchorError::Unreadable)?;
    let mut hasher = Sha256::new();
    let mut line = Vec::new();
    next_line(source, &mut line, 1, HEADER_BYTES_MAX)?;
    let header = read_header(&line).map_err(|reason| AnchorError::Invalid { line: 1, reason })?;
    hasher.update(&line);
    let (mut number, mut last): (u64, Option<TraceId>) = (1, None);
    loop {
        number += 1;
        let invalid = |reason| AnchorError::Invalid { line: number, reason };
        next_line(source, &mut line, number, LINE_BYTES_MAX)?;
        if line.starts_with(SIGNATURE_PREFIX) {
            let signature: AnchorSignature =
                read_document(&line, LINE_BYTES_MAX).map_err(invalid)?;
            if signature.traces != number - 2 || signature.format != ANCHOR_FORMAT {
                return Err(invalid("it does not match the lines before it".to_owned()));
            }
            if !source.fill_buf().map_err(AnchorError::Unreadable)?.is_empty() {
                return Err(invalid("more data follows the last line".to_owned()));
            }
            return Ok((header, signature, Digest::from_bytes(hasher.finalize().into())));
        }
        let anchored = AnchoredHead::from_line(&line).map_err(invalid)?;
        if last.is_some_and(|last| anchored.trace_id >= last) {
            return Err(invalid("its trace is not older than the trace before it".to_owned()));
        }
        last = Some(anchored.trace_id);
        hasher.update(&line);
        on_head(&anchored)?;
    }
}

fn next_line(
    source: &mut impl BufRead,
    line: &mut Vec<u8>,
    number: u64,
    bytes_max: usize,
) -> Result<(), AnchorError> {
    line.clear();
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    source.take(limit).read_until(b'\n', line).map_err(AnchorError::Unreadable)?;
    if line.ends_with(b"\n") {
        return Ok(());
    }
    let too_long = line.len() >= bytes_max;
    let reason = if too_long { "it is too long" } else { "the file ends inside it" };
    Err(AnchorError::Invalid { line: number, reason: reason.to_owned() })
}

fn read_document<T>(line: &[u8], bytes_max: usize) -> Result<T, String>
where
    T: serde::de::DeserializeOwned + serde::Serialize,
{
    document::read(line.strip_suffix(b"\n").unwrap_or(line), bytes_max)
}

fn read_header(line: &[u8]) -> Result<AnchorHeader, String> {
    let header: AnchorHeader = read_document(line, HEADER_BYTES_MAX)?;
    if header.format != ANCHOR_FORMAT {
        return Err(format!("its format is `{}`", header.format));
    }
    if header.rotations.len() > ROTATIONS_MAX || header.keys.len() > ROTATIONS_MAX + 1 {
        return Err("it has too many keys".to_owned());
    }
    if !header.rotations.iter().all(Rotation::is_valid) {
        return Err("a rotation is not signed by both keys".to_owned());
    }
    Ok(header)
}
