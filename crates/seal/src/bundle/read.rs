//! Reads the contents of a bundle that was verified.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use windlass_kernel::run::Run;
use windlass_kernel::{Entry, TraceId};
use windlass_workspace::{ObjectIndex, ObjectStreamError, SnapshotFiles, decoder, unpack_files};

use super::{BundleLimits, DOCUMENT_BYTES_MAX, FILES, MemberKind, checkpoint_name, journal_name};
use crate::archive::{self, ArchiveMember};
use crate::error::BundleError;
use crate::journal::{LINE_BYTES_MAX, Trace, read_line};

/// Takes an entry with its artifact, and the run after it if the trace is one.
pub type EntryVisitor<'a> = dyn FnMut(&Entry, Option<&[u8]>, Option<&Run>) + 'a;

/// The contents of a bundle that [`crate::verify_bundle`] found to be without a fault.
pub struct BundleReader<R> {
    source: R,
    members: BTreeMap<String, ArchiveMember>,
    limits: BundleLimits,
}

fn damaged(reason: impl Into<String>) -> BundleError {
    BundleError::Damaged { reason: reason.into() }
}

fn stream_error(error: ObjectStreamError) -> BundleError {
    match error {
        ObjectStreamError::Io(error) => BundleError::Unreadable(error),
        ObjectStreamError::Invalid(reason) => damaged(format!("`{FILES}` is not valid: {reason}")),
        ObjectStreamError::Sink(error) => damaged(format!("`{FILES}` cannot be used: {error}")),
    }
}

impl<R: Read + Seek> BundleReader<R> {
    /// Opens a bundle.
    ///
    /// # Errors
    /// [`BundleError`] if it is not an archive or cannot be read.
    pub fn open(mut source: R) -> Result<Self, BundleError> {
        let bytes = source.seek(SeekFrom::End(0)).map_err(BundleError::Unreadable)?;
        let limits = BundleLimits::of_size(bytes);
        let (members, error) =
            archive::index(&mut source, limits.members_max).map_err(BundleError::Unreadable)?;
        if let Some(error) = error {
            return Err(damaged(error.to_string()));
        }
        let members = members.into_iter().map(|member| (member.name.clone(), member)).collect();
        Ok(Self { source, members, limits })
    }

    fn member(&mut self, name: &str) -> Result<Option<io::Take<&mut R>>, BundleError> {
        let Some(member) = self.members.get(name) else { return Ok(None) };
        self.source.seek(SeekFrom::Start(member.offset)).map_err(BundleError::Unreadable)?;
        Ok(Some(self.source.by_ref().take(member.size)))
    }

    /// The traces of the bundle.
    #[must_use]
    pub fn trace_ids(&self) -> Vec<TraceId> {
        let kinds = self.members.keys().filter_map(|name| MemberKind::from_name(name));
        let trace_id = |kind| match kind {
            MemberKind::Journal(trace_id) => Some(trace_id),
            MemberKind::Blob(_)
            | MemberKind::Checkpoint
            | MemberKind::Document
            | MemberKind::Files
            | MemberKind::Key(_) => None,
        };
        kinds.filter_map(trace_id).collect()
    }

    /// The names of the checkpoints.
    #[must_use]
    pub fn checkpoints(&self) -> Vec<String> {
        let names = self.members.keys().filter_map(|name| {
            Some(name.strip_prefix("checkpoints/")?.strip_suffix(".json")?.to_owned())
        });
        names.collect()
    }

    /// The document of a checkpoint.
    ///
    /// # Errors
    /// [`BundleError::Unreadable`].
    pub fn checkpoint(&mut self, name: &str) -> Result<Option<Vec<u8>>, BundleError> {
        let Some(member) = self.member(&checkpoint_name(name))? else { return Ok(None) };
        let mut bytes = Vec::new();
        let read = member.take(DOCUMENT_BYTES_MAX).read_to_end(&mut bytes);
        read.map_err(BundleError::Unreadable)?;
        Ok(Some(bytes))
    }

    /// Visits the entries of a trace in order.
    ///
    /// # Errors
    /// [`BundleError`] if the trace is missing or corrupt.
    pub fn visit(
        &mut self,
        trace_id: TraceId,
        visit: &mut EntryVisitor<'_>,
    ) -> Result<(), BundleError> {
        let plain_max = self.limits.plain_bytes_max;
        let name = journal_name(trace_id);
        let missing = || damaged(format!("`{name}` is missing"));
        let member = self.member(&name)?.ok_or_else(missing)?;
        let decoder = decoder(member).map_err(BundleError::Unreadable)?;
        let mut plain = BufReader::new(decoder.take(plain_max));
        let mut trace = Trace::new(trace_id);
        let mut line = Vec::new();
        let line_max = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX);
        loop {
            line.clear();
            let read = plain.by_ref().take(line_max).read_until(b'\n', &mut line);
            if read.map_err(BundleError::Unreadable)? == 0 {
                return Ok(());
            }
            let (entry, body) = read_line(&line).map_err(damaged)?;
            let pushed = trace.push(&entry, body);
            pushed.map_err(|source| BundleError::CorruptTrace { trace_id, source })?;
            visit(&entry, body, trace.run());
        }
    }

    /// The files of workspaces; `None` if the bundle has none.
    ///
    /// # Errors
    /// [`BundleError`].
    pub fn objects(&mut self) -> Result<Option<ObjectIndex>, BundleError> {
        let plain_max = self.limits.plain_bytes_max;
        let Some(member) = self.member(FILES)? else { return Ok(None) };
        let plain = decoder(member).map_err(BundleError::Unreadable)?.take(plain_max);
        ObjectIndex::read(BufReader::new(plain)).map(Some).map_err(stream_error)
    }

    /// Writes the files of a workspace into an empty folder.
    ///
    /// # Errors
    /// [`BundleError`]; then the folder has a part of them.
    pub fn unpack(&mut self, files: &SnapshotFiles, folder: &Path) -> Result<(), BundleError> {
        let plain_max = self.limits.plain_bytes_max;
        let Some(member) = self.member(FILES)? else {
            return Err(damaged(format!("`{FILES}` is missing")));
        };
        let plain = decoder(member).map_err(BundleError::Unreadable)?.take(plain_max);
        match unpack_files(BufReader::new(plain), files, folder) {
            Err(ObjectStreamError::Sink(source)) => {
                Err(BundleError::Unwritable { path: folder.to_owned(), source })
            }
            other => other.map_err(stream_error),
        }
    }
}
