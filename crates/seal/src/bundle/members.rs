//! Checks the contents of the members of a bundle.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};

use windlass_kernel::{ChainError, Digest, TraceId, canon};
use windlass_workspace::{
    BlobDecoder, FormatError, HashingStream, ObjectIndex, ObjectStreamError, decoder,
};

use super::{BundleFault, DOCUMENT_BYTES_MAX, KEY_BYTES_MAX, MemberKind};
use crate::archive::ArchiveMember;
use crate::journal::{LINE_BYTES_MAX, Trace, read_line};
use crate::key::{KeyFile, KeyId};

/// The results of checking members: faults, and the traces and files that were read.
pub(super) struct Findings<'a> {
    pub(super) faults: &'a mut Vec<BundleFault>,
    pub(super) traces: &'a mut BTreeMap<TraceId, Trace>,
    pub(super) files: &'a mut Option<ObjectIndex>,
}

impl Findings<'_> {
    fn invalid(&mut self, member: &ArchiveMember, reason: impl Into<String>) {
        self.faults
            .push(BundleFault::InvalidMember { name: member.name.clone(), reason: reason.into() });
    }
}

/// Reads a member and checks its contents; returns the decompressed size if it is compressed.
pub(super) fn check(
    kind: MemberKind,
    member: &ArchiveMember,
    source: &mut impl Read,
    plain_max: u64,
    findings: &mut Findings<'_>,
) -> io::Result<Option<u64>> {
    match kind {
        MemberKind::Blob(digest) => blob(digest, source, plain_max, findings).map(Some),
        MemberKind::Journal(trace_id) => {
            journal(trace_id, member, source, plain_max, findings).map(Some)
        }
        MemberKind::Files => files(member, source, plain_max, findings).map(Some),
        MemberKind::Checkpoint => checkpoint(member, source, findings).map(|()| None),
        MemberKind::Key(id) => key(id, member, source, findings).map(|()| None),
        // Documents are checked by the verifier itself.
        MemberKind::Document => Ok(None),
    }
}

fn blob(
    digest: Digest,
    source: &mut impl Read,
    plain_max: u64,
    findings: &mut Findings<'_>,
) -> io::Result<u64> {
    let read = || -> Result<u64, FormatError> {
        let mut decoder = BlobDecoder::new(source, digest)?;
        if decoder.length() > plain_max {
            return Err(FormatError::Length { expected: plain_max });
        }
        let mut chunk = vec![0; 64 << 10];
        while decoder.next(&mut chunk)? > 0 {}
        Ok(decoder.length())
    };
    match read() {
        Ok(length) => Ok(length),
        Err(FormatError::Io(error)) => Err(error),
        Err(error) => {
            findings.faults.push(BundleFault::CorruptBlob { digest, reason: error.to_string() });
            Ok(0)
        }
    }
}

/// Reads a trace line by line; reads at most `plain_max` decompressed bytes.
fn journal(
    trace_id: TraceId,
    member: &ArchiveMember,
    source: &mut impl Read,
    plain_max: u64,
    findings: &mut Findings<'_>,
) -> io::Result<u64> {
    let mut plain = BufReader::new(decoder(source)?.take(plain_max.saturating_add(1)));
    let mut trace = Trace::new(trace_id);
    let (mut total, mut line) = (0_u64, Vec::new());
    loop {
        line.clear();
        let line_max = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX);
        match plain.by_ref().take(line_max).read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(count) => total = total.saturating_add(u64::try_from(count).unwrap_or(u64::MAX)),
            // An error of the disk has an OS error number; an error of the decoder has none.
            Err(error) if error.raw_os_error().is_some() => return Err(error),
            Err(_) => {
                findings.invalid(member, "it cannot be decompressed");
                break;
            }
        }
        if total > plain_max {
            findings.invalid(member, "it decompresses to more than was signed");
            break;
        }
        let pushed = match read_line(&line) {
            Ok((entry, body)) => trace.push(&entry, body),
            Err(reason) => {
                let sequence_number = trace.head().sequence_number.saturating_add(1);
                Err(ChainError::Malformed { sequence_number, reason })
            }
        };
        if let Err(error) = pushed {
            // The entries after a chain error prove nothing.
            findings.faults.push(BundleFault::CorruptTrace { trace_id, error });
            total = total.saturating_add(drain(&mut plain)?);
            break;
        }
    }
    findings.traces.insert(trace_id, trace);
    Ok(total)
}

/// Reads the objects of snapshots; reads at most `plain_max` decompressed bytes.
fn files(
    member: &ArchiveMember,
    source: &mut impl Read,
    plain_max: u64,
    findings: &mut Findings<'_>,
) -> io::Result<u64> {
    let plain = HashingStream::new(decoder(source)?.take(plain_max.saturating_add(1)));
    let mut plain = BufReader::new(plain);
    match ObjectIndex::read(&mut plain) {
        Ok(index) => *findings.files = Some(index),
        Err(ObjectStreamError::Io(error)) => return Err(error),
        Err(error @ (ObjectStreamError::Invalid(_) | ObjectStreamError::Sink(_))) => {
            findings.invalid(member, error.to_string());
        }
    }
    drain(&mut plain)?;
    Ok(plain.get_ref().length())
}

/// Reads the rest to learn its size; stops where it cannot be decompressed.
fn drain(plain: &mut impl Read) -> io::Result<u64> {
    match io::copy(plain, &mut io::sink()) {
        Err(error) if error.raw_os_error().is_some() => Err(error),
        copied => Ok(copied.unwrap_or_default()),
    }
}

fn checkpoint(
    member: &ArchiveMember,
    source: &mut impl Read,
    findings: &mut Findings<'_>,
) -> io::Result<()> {
    if member.size > DOCUMENT_BYTES_MAX {
        let limit = format!("{DOCUMENT_BYTES_MAX} bytes in `{}`", member.name);
        findings.faults.push(BundleFault::LimitExceeded { limit });
        return Ok(());
    }
    let mut bytes = Vec::new();
    source.read_to_end(&mut bytes)?;
    if let Err(error) = canon::parse(&bytes, bytes.len()) {
        findings.invalid(member, error.to_string());
    }
    Ok(())
}

fn key(
    id: KeyId,
    member: &ArchiveMember,
    source: &mut impl Read,
    findings: &mut Findings<'_>,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    source.take(KEY_BYTES_MAX.saturating_add(1)).read_to_end(&mut bytes)?;
    let text = String::from_utf8(bytes).unwrap_or_default();
    match KeyFile::from_text(&text) {
        Ok(file) if file.key.id() == id => {}
        Ok(file) => findings.invalid(member, format!("it is the key `{}`", file.key.id())),
        Err(reason) => findings.invalid(member, reason),
    }
    Ok(())
}
