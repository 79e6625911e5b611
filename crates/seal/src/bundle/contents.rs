//! What one member of a bundle holds.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};

use windlass_kernel::{ChainError, Digest, TraceId, canon};
use windlass_workspace::{BlobDecoder, FormatError, decoder};

use super::{DOCUMENT_BYTES_MAX, Fault, KEY_BYTES_MAX, Kind};
use crate::archive::Place;
use crate::journal::{LINE_BYTES_MAX, Trace, read_line};
use crate::key::{KeyFile, KeyId};

/// What members are checked into.
pub(super) struct Found<'a> {
    pub(super) faults: &'a mut Vec<Fault>,
    pub(super) traces: &'a mut BTreeMap<TraceId, Trace>,
}

impl Found<'_> {
    fn unusable(&mut self, place: &Place, what: impl Into<String>) {
        self.faults.push(Fault::Member { name: place.name.clone(), what: what.into() });
    }
}

/// Reads a member and checks what it holds; says how large it is unpacked, if it is packed.
pub(super) fn check(
    kind: Kind,
    place: &Place,
    source: &mut impl Read,
    plain_max: u64,
    found: &mut Found<'_>,
) -> io::Result<Option<u64>> {
    match kind {
        Kind::Blob(digest) => blob(digest, source, plain_max, found).map(Some),
        Kind::Journal(trace_id) => journal(trace_id, place, source, plain_max, found).map(Some),
        Kind::Checkpoint => checkpoint(place, source, found).map(|()| None),
        Kind::Key(id) => key(id, place, source, found).map(|()| None),
        // These are read apart.
        Kind::Document => Ok(None),
    }
}

fn blob(
    digest: Digest,
    source: &mut impl Read,
    plain_max: u64,
    found: &mut Found<'_>,
) -> io::Result<u64> {
    let read = || -> Result<u64, FormatError> {
        let mut unpacked = BlobDecoder::new(source, digest)?;
        if unpacked.length() > plain_max {
            return Err(FormatError::Length { expected: plain_max });
        }
        let mut chunk = vec![0; 64 << 10];
        while unpacked.next(&mut chunk)? > 0 {}
        Ok(unpacked.length())
    };
    match read() {
        Ok(length) => Ok(length),
        Err(FormatError::Io(error)) => Err(error),
        Err(fault) => {
            found.faults.push(Fault::Blob { digest, what: fault.to_string() });
            Ok(0)
        }
    }
}

/// Reads a trace line by line, never more of it than it may have.
fn journal(
    trace_id: TraceId,
    place: &Place,
    source: &mut impl Read,
    plain_max: u64,
    found: &mut Found<'_>,
) -> io::Result<u64> {
    let unpacked = decoder(source)?;
    let mut plain = BufReader::new(unpacked.take(plain_max.saturating_add(1)));
    let mut trace = Trace::new(trace_id);
    let (mut total, mut line) = (0_u64, Vec::new());
    loop {
        line.clear();
        let line_max = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX);
        match plain.by_ref().take(line_max).read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(count) => total = total.saturating_add(u64::try_from(count).unwrap_or(u64::MAX)),
            // A failing disk has an error number; bad input has none.
            Err(error) if error.raw_os_error().is_some() => return Err(error),
            Err(_) => {
                found.unusable(place, "it cannot be unpacked");
                break;
            }
        }
        if total > plain_max {
            found.unusable(place, "it unpacks to more than was signed");
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
            // What follows a broken link proves nothing.
            found.faults.push(Fault::Chain { trace_id, error });
            total = total.saturating_add(drain(&mut plain)?);
            break;
        }
    }
    found.traces.insert(trace_id, trace);
    Ok(total)
}

/// Goes through the rest, so that the size is known; what cannot be unpacked ends it.
fn drain(plain: &mut impl Read) -> io::Result<u64> {
    match io::copy(plain, &mut io::sink()) {
        Err(error) if error.raw_os_error().is_some() => Err(error),
        copied => Ok(copied.unwrap_or_default()),
    }
}

fn checkpoint(place: &Place, source: &mut impl Read, found: &mut Found<'_>) -> io::Result<()> {
    if place.size > DOCUMENT_BYTES_MAX {
        let what = format!("{DOCUMENT_BYTES_MAX} bytes in `{}`", place.name);
        found.faults.push(Fault::TooMuch { what });
        return Ok(());
    }
    let mut bytes = Vec::new();
    source.read_to_end(&mut bytes)?;
    if let Err(error) = canon::parse(&bytes, bytes.len()) {
        found.unusable(place, error.to_string());
    }
    Ok(())
}

fn key(id: KeyId, place: &Place, source: &mut impl Read, found: &mut Found<'_>) -> io::Result<()> {
    let mut bytes = Vec::new();
    source.take(KEY_BYTES_MAX.saturating_add(1)).read_to_end(&mut bytes)?;
    let text = String::from_utf8(bytes).unwrap_or_default();
    match KeyFile::from_text(&text) {
        Ok(file) if file.key.id() == id => {}
        Ok(file) => found.unusable(place, format!("it is the key `{}`", file.key.id())),
        Err(what) => found.unusable(place, what),
    }
    Ok(())
}
