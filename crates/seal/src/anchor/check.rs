//! Comparing a store with what an anchor says it was.

use std::io::{BufRead, Read as _, Seek, SeekFrom};

use sha2::{Digest as _, Sha256};
use windlass_kernel::{Code, Digest, Entry, Timestamp, TraceId};

use super::{ANCHOR_FORMAT, AnchorHeader, Anchored, LAST, Seal};
use crate::document;
use crate::error::{AnchorError, SourceError};
use crate::key::{KeyId, PublicKey};
use crate::keys::{ROTATIONS_BYTES_MAX, ROTATIONS_MAX};
use crate::rotation::Rotation;
use crate::trust::Trust;

/// The longest first line.
const HEADER_BYTES_MAX: usize = ROTATIONS_BYTES_MAX * 2;
/// The longest of the other lines.
const LINE_BYTES_MAX: usize = 1024;

/// What a store has where an anchor saw the end of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// There is no such trace.
    Nothing,
    /// The trace ends before.
    Shorter {
        /// How many entries it has.
        entries: u64,
    },
    /// An entry.
    Entry {
        /// Its digest.
        digest: Digest,
        /// How many entries the trace has.
        entries: u64,
    },
}

impl Found {
    /// An entry whose digest is computed from what it says, not taken from it.
    #[must_use]
    pub fn entry(entry: &Entry, entries: u64) -> Self {
        Self::Entry { digest: entry.compute_digest(&mut Vec::new()), entries }
    }
}

/// A trace that is not what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// It is gone.
    Missing {
        /// The trace.
        trace_id: TraceId,
    },
    /// It has fewer entries than it had.
    Shortened {
        /// The trace.
        trace_id: TraceId,
        /// How many it had.
        had: u64,
        /// How many it has.
        has: u64,
    },
    /// It has another entry where it had been seen to end.
    Rewritten {
        /// The trace.
        trace_id: TraceId,
        /// The number of that entry.
        sequence_number: u64,
    },
}

impl std::fmt::Display for Changed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing { trace_id } => write!(formatter, "trace `{trace_id}` is gone"),
            Self::Shortened { trace_id, had, has } => {
                write!(formatter, "trace `{trace_id}` has {has} entries, it had {had}")
            }
            Self::Rewritten { trace_id, sequence_number } => {
                write!(formatter, "entry {sequence_number} of trace `{trace_id}` was rewritten")
            }
        }
    }
}

/// What an anchor says of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnchorOutcome {
    /// Every trace still begins with what was anchored.
    Holds,
    /// Some do not.
    Changed,
    /// Nothing was compared: the anchor is not signed by the key that it names.
    BadSignature,
    /// Nothing was compared: nobody who is trusted has signed the anchor.
    UnknownKey,
}

/// What comparing a store with an anchor has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnchorReport {
    /// In a word.
    pub outcome: AnchorOutcome,
    /// The key that the anchor names.
    pub signer: KeyId,
    /// When it was made.
    pub made_at: Timestamp,
    /// Which store it is of.
    pub store: Option<String>,
    /// How many traces it has.
    pub traces: u64,
    /// How many of these are as they were.
    pub intact: u64,
    /// How many have more entries than they had, after those they had.
    pub grown: u64,
    /// How many are gone.
    pub missing: u64,
    /// How many have fewer entries.
    pub shortened: u64,
    /// How many have other entries.
    pub rewritten: u64,
}

impl AnchorReport {
    /// The stable code of what was found; `None` when all holds.
    #[must_use]
    pub const fn code(&self) -> Option<Code> {
        match self.outcome {
            AnchorOutcome::Holds => None,
            AnchorOutcome::Changed | AnchorOutcome::BadSignature => Some(Code::AnchorInvalid),
            AnchorOutcome::UnknownKey => Some(Code::BundleUntrusted),
        }
    }

    fn count(&mut self, anchored: &Anchored, found: Found) -> Option<Changed> {
        let Anchored { trace_id, sequence_number, entry_digest, .. } = *anchored;
        match found {
            Found::Nothing => {
                self.missing += 1;
                Some(Changed::Missing { trace_id })
            }
            Found::Shorter { entries } => {
                self.shortened += 1;
                Some(Changed::Shortened { trace_id, had: sequence_number, has: entries })
            }
            Found::Entry { digest, .. } if digest != entry_digest => {
                self.rewritten += 1;
                Some(Changed::Rewritten { trace_id, sequence_number })
            }
            Found::Entry { entries, .. } => {
                let counted =
                    if entries > sequence_number { &mut self.grown } else { &mut self.intact };
                *counted += 1;
                None
            }
        }
    }
}

/// Checks an anchor, then compares a store with it: `lookup` says what the store has at a place, and
/// `each` is told of every trace that is not what it was.
///
/// That the entries up to that place hold together is not seen here: verify the store too.
///
/// # Errors
/// [`AnchorError`] when the file is not an anchor, or the anchor or the store cannot be read.
pub fn check_anchor<R: BufRead + Seek>(
    source: &mut R,
    trust: &Trust,
    mut lookup: impl FnMut(TraceId, u64) -> Result<Found, SourceError>,
    mut each: impl FnMut(Changed),
) -> Result<AnchorReport, AnchorError> {
    // Once through without believing anything: only the last line says whose it is.
    let (header, seal, digest) = read(source, &mut |_| Ok(()))?;
    let outcome = judge(&header, &seal, digest, trust);
    let mut report = AnchorReport {
        outcome,
        signer: seal.key_id,
        made_at: header.made_at,
        store: header.store,
        traces: seal.traces,
        intact: 0,
        grown: 0,
        missing: 0,
        shortened: 0,
        rewritten: 0,
    };
    if outcome != AnchorOutcome::Holds {
        return Ok(report);
    }
    let again = read(source, &mut |anchored| {
        let found = lookup(anchored.trace_id, anchored.sequence_number);
        if let Some(changed) = report.count(anchored, found.map_err(AnchorError::Source)?) {
            each(changed);
        }
        Ok(())
    })?;
    if again.2 != digest {
        let what = "the file was changed while it was read".to_owned();
        return Err(AnchorError::Invalid { line: 1, what });
    }
    if report.missing + report.shortened + report.rewritten > 0 {
        report.outcome = AnchorOutcome::Changed;
    }
    Ok(report)
}

fn judge(header: &AnchorHeader, seal: &Seal, digest: Digest, trust: &Trust) -> AnchorOutcome {
    let key: Option<&PublicKey> = header.keys.iter().find(|key| key.id() == seal.key_id);
    let Some(key) = key.filter(|key| seal.digest == digest && seal.verifies(key)) else {
        return AnchorOutcome::BadSignature;
    };
    if trust.reaches(key, &header.rotations) {
        AnchorOutcome::Holds
    } else {
        AnchorOutcome::UnknownKey
    }
}

/// Goes through an anchor line by line; returns its first and its last line, and the digest of all but
/// the last.
fn read<R: BufRead + Seek>(
    source: &mut R,
    each: &mut dyn FnMut(&Anchored) -> Result<(), AnchorError>,
) -> Result<(AnchorHeader, Seal, Digest), AnchorError> {
    source.seek(SeekFrom::Start(0)).map_err(AnchorError::Unreadable)?;
    let mut hasher = Sha256::new();
    let mut line = Vec::new();
    next_line(source, &mut line, 1, HEADER_BYTES_MAX)?;
    let header = read_header(&line).map_err(|what| AnchorError::Invalid { line: 1, what })?;
    hasher.update(&line);
    let (mut number, mut last): (u64, Option<TraceId>) = (1, None);
    loop {
        number += 1;
        let invalid = |what| AnchorError::Invalid { line: number, what };
        next_line(source, &mut line, number, LINE_BYTES_MAX)?;
        if line.starts_with(LAST) {
            let seal: Seal = read_document(&line, LINE_BYTES_MAX).map_err(invalid)?;
            if seal.traces != number - 2 || seal.format != ANCHOR_FORMAT {
                return Err(invalid("it does not end what stands before it".to_owned()));
            }
            if !source.fill_buf().map_err(AnchorError::Unreadable)?.is_empty() {
                return Err(invalid("something follows it".to_owned()));
            }
            return Ok((header, seal, Digest::from_bytes(hasher.finalize().into())));
        }
        let anchored = Anchored::from_line(&line).map_err(invalid)?;
        if last.is_some_and(|last| anchored.trace_id >= last) {
            return Err(invalid("its trace is not older than the one before it".to_owned()));
        }
        last = Some(anchored.trace_id);
        hasher.update(&line);
        each(&anchored)?;
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
    let what = if line.len() >= bytes_max { "it is too long" } else { "the file ends in it" };
    Err(AnchorError::Invalid { line: number, what: what.to_owned() })
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
    if !header.rotations.iter().all(Rotation::holds) {
        return Err("a rotation is not signed by both keys".to_owned());
    }
    Ok(header)
}
