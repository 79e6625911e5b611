//! Writes bundles: entries are read once and verified on the way, and the finished bundle is verified
//! before it gets its name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufWriter, Seek as _, Write as _};
use std::path::Path;

use windlass_kernel::{Digest, Entry, Head, Timestamp, TraceId};
use windlass_workspace::{BlobStore, HashingStream, SnapshotError, encoder};

use super::{
    BUNDLE_FORMAT, BundleSignature, BundleVerdict, ENVELOPE, FILES, HEADS, MANIFEST, Manifest,
    ManifestMember, ROTATIONS, SIGNATURE, STATEMENT, blob_name, checkpoint_name, journal_name,
    key_name, verify_bundle,
};
use crate::archive::ArchiveWriter;
use crate::attestation::{self, Envelope};
use crate::document;
use crate::error::{BundleError, SourceError};
use crate::file::{IfExists, TemporaryFile};
use crate::head::SignedHead;
use crate::journal::{Trace, write_line};
use crate::key::{KeyFile, Signer};
use crate::rotation::Rotation;
use crate::trust::Trust;

/// The maximum number of faults in an error message.
const FAULTS_MAX: usize = 5;

/// A stored entry with its artifact, unless that was purged.
#[derive(Clone, Debug)]
pub struct StoredEntry {
    /// The entry.
    pub entry: Entry,
    /// The artifact's canonical bytes.
    pub body: Option<Vec<u8>>,
}

/// Consecutive entries of a trace; empty at the end of the trace.
pub type EntryPage = Result<Vec<StoredEntry>, SourceError>;

/// Writes the objects of the snapshots that a bundle is to have.
pub type FilesWriter<'a> = &'a mut dyn FnMut(&mut dyn io::Write) -> Result<(), SnapshotError>;

/// The contents of a new bundle.
pub struct NewBundle<'a> {
    /// The run's name.
    pub run_id: &'a str,
    /// The run's trace.
    pub trace_id: TraceId,
    /// The digest of the policy set.
    pub policy_hash: Option<Digest>,
    /// The heads of the run's trace and of the traces of its calls. Later entries are left out.
    pub heads: Vec<Head>,
    /// Returns the entries of a trace after a sequence number.
    pub entries: &'a mut dyn FnMut(TraceId, u64) -> EntryPage,
    /// Checkpoints: JSON documents by name (letters, digits, `.`, `_` and `-`).
    pub checkpoints: BTreeMap<String, Vec<u8>>,
    /// The digests of the blobs to add, and the store that has them.
    pub blobs: Option<(&'a BlobStore, BTreeSet<Digest>)>,
    /// Writes the files of the workspaces of checkpoints, if the bundle is to have them.
    pub files: Option<FilesWriter<'a>>,
    /// All public keys of the project, including the signer's.
    pub keys: Vec<KeyFile>,
    /// All rotations of the project.
    pub rotations: Vec<Rotation>,
    /// The time of creation.
    pub made_at: Timestamp,
}

/// Writes a bundle atomically and returns its manifest.
///
/// The same input gives the same bytes.
///
/// # Errors
/// [`BundleError`]; no file is written then. A corrupt journal is never signed.
pub fn write_bundle(
    path: &Path,
    if_exists: IfExists,
    signer: &Signer,
    bundle: NewBundle<'_>,
) -> Result<Manifest, BundleError> {
    let unwritable = |source| BundleError::Unwritable { path: path.to_owned(), source };
    let exists = || BundleError::Exists { path: path.to_owned() };
    if if_exists == IfExists::Fail && path.symlink_metadata().is_ok() {
        return Err(exists());
    }
    let temporary = TemporaryFile::new(path, 0o600).map_err(unwritable)?;
    let file = temporary.file.try_clone().map_err(unwritable)?;
    let writer = BundleWriter {
        archive: ArchiveWriter::new(BufWriter::new(file)),
        members: Vec::new(),
        signer,
        path,
    };
    let manifest = writer.write(bundle)?;
    let mut file = &temporary.file;
    file.rewind().map_err(unwritable)?;
    let report = verify_bundle(&mut io::BufReader::new(file), &Trust::new([signer.public()]))?;
    if report.verdict() != BundleVerdict::Intact {
        let faults: Vec<String> =
            report.faults.iter().take(FAULTS_MAX).map(ToString::to_string).collect();
        return Err(BundleError::InvalidInput { reason: faults.join("; ") });
    }
    match temporary.persist(if_exists) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists()),
        persisted => persisted.map(|()| manifest).map_err(unwritable),
    }
}

type Target = BufWriter<File>;

struct BundleWriter<'a> {
    archive: ArchiveWriter<Target>,
    members: Vec<ManifestMember>,
    signer: &'a Signer,
    path: &'a Path,
}

/// The error of writing the contents of a member.
enum WriteError {
    Io(io::Error),
    Bundle(BundleError),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<BundleError> for WriteError {
    fn from(error: BundleError) -> Self {
        Self::Bundle(error)
    }
}

fn invalid_input(reason: impl Into<String>) -> BundleError {
    BundleError::InvalidInput { reason: reason.into() }
}

impl BundleWriter<'_> {
    /// Writes all members in the order of their names.
    fn write(mut self, mut bundle: NewBundle<'_>) -> Result<Manifest, BundleError> {
        bundle.heads.sort_by_key(|head| head.trace_id);
        bundle.keys.sort_by_key(|file| file.key.id());
        if let Some((blobs, digests)) = &bundle.blobs {
            for digest in digests {
                self.write_blob(blobs, digest)?;
            }
        }
        // The suffix can change the order of two names.
        let checkpoints: BTreeMap<String, &Vec<u8>> =
            bundle.checkpoints.iter().map(|(name, bytes)| (checkpoint_name(name), bytes)).collect();
        for (name, bytes) in checkpoints {
            self.write_plain(&name, bytes)?;
        }
        if let Some(files) = bundle.files.take() {
            self.write_files(files)?;
        }
        let heads = self.signed_heads(&bundle)?;
        self.write_plain(HEADS, &heads)?;
        let mut run = None;
        for head in &bundle.heads {
            let trace = self.write_trace(head, bundle.entries)?;
            if head.trace_id == bundle.trace_id {
                run = Some(trace);
            }
        }
        let run = run.ok_or_else(|| invalid_input("the head of the run's own trace is missing"))?;
        for file in &bundle.keys {
            self.write_plain(&key_name(file.key.id()), file.to_text().as_bytes())?;
        }
        self.write_documents(&bundle, &run)
    }

    /// Writes the members after the traces, including the manifest.
    fn write_documents(
        mut self,
        bundle: &NewBundle<'_>,
        run: &Trace,
    ) -> Result<Manifest, BundleError> {
        let rotations = document::write(&bundle.rotations).map_err(invalid_input)?;
        let statement =
            attestation::write(bundle.run_id, bundle.policy_hash, run.head(), run.run())
                .map_err(invalid_input)?;
        let envelope =
            document::write(&Envelope::sign(self.signer, &statement)).map_err(invalid_input)?;
        let listed = [(ROTATIONS, &rotations), (ENVELOPE, &envelope), (STATEMENT, &statement)];
        let members = listed.map(|(name, bytes)| plain_member(name, bytes));
        self.members.extend(members);
        let manifest = Manifest {
            format: BUNDLE_FORMAT.to_owned(),
            made_at: bundle.made_at,
            members: std::mem::take(&mut self.members),
            policy_hash: bundle.policy_hash,
            run_id: bundle.run_id.to_owned(),
            trace_id: bundle.trace_id,
            trace_ids: bundle.heads.iter().map(|head| head.trace_id).collect(),
        };
        let bytes = document::write(&manifest).map_err(invalid_input)?;
        let signature =
            BundleSignature::sign(self.signer, Digest::of(&bytes)).map_err(invalid_input)?;
        let signature = document::write(&signature).map_err(invalid_input)?;
        for (name, bytes) in [
            (MANIFEST, &bytes),
            (ROTATIONS, &rotations),
            (SIGNATURE, &signature),
            (ENVELOPE, &envelope),
            (STATEMENT, &statement),
        ] {
            self.write_bytes(name, bytes)?;
        }
        let unwritable = |source| BundleError::Unwritable { path: self.path.to_owned(), source };
        self.archive.finish().map_err(unwritable)?;
        Ok(manifest)
    }

    fn signed_heads(&self, bundle: &NewBundle<'_>) -> Result<Vec<u8>, BundleError> {
        let sign = |head| {
            let (run_id, hash) = (Some(bundle.run_id), bundle.policy_hash);
            SignedHead::sign(self.signer, head, run_id, hash, bundle.made_at)
        };
        let heads: Result<Vec<SignedHead>, String> = bundle.heads.iter().map(sign).collect();
        heads.and_then(|heads| document::write(&heads)).map_err(invalid_input)
    }

    /// Writes a trace up to its head and verifies it on the way.
    fn write_trace(
        &mut self,
        head: &Head,
        entries: &mut dyn FnMut(TraceId, u64) -> EntryPage,
    ) -> Result<Trace, BundleError> {
        let trace_id = head.trace_id;
        self.write_compressed(&journal_name(trace_id), |target| {
            let mut plain = HashingStream::new(encoder(target)?);
            let mut trace = Trace::new(trace_id);
            while trace.head().sequence_number < head.sequence_number {
                let after = trace.head().sequence_number;
                let page = entries(trace_id, after)
                    .map_err(|source| BundleError::Source { trace_id, source })?;
                if page.is_empty() {
                    let expected = head.sequence_number;
                    let source = windlass_kernel::ChainError::Truncated { expected, found: after };
                    return Err(BundleError::CorruptTrace { trace_id, source }.into());
                }
                for StoredEntry { entry, body } in page {
                    if trace.head().sequence_number >= head.sequence_number {
                        break;
                    }
                    trace
                        .push(&entry, body.as_deref())
                        .map_err(|source| BundleError::CorruptTrace { trace_id, source })?;
                    plain
                        .write_all(&write_line(&entry, body.as_deref()).map_err(invalid_input)?)?;
                }
            }
            trace
                .head()
                .matches(head)
                .map_err(|source| BundleError::CorruptTrace { trace_id, source })?;
            let length = plain.length();
            plain.into_inner().finish()?;
            Ok((trace, length))
        })
    }

    /// Writes the files of workspaces.
    fn write_files(&mut self, files: FilesWriter<'_>) -> Result<(), BundleError> {
        self.write_compressed(FILES, |target| {
            let mut plain = HashingStream::new(encoder(target)?);
            files(&mut plain).map_err(BundleError::Snapshot)?;
            let length = plain.length();
            plain.into_inner().finish()?;
            Ok(((), length))
        })
    }

    /// Copies a blob as it is stored; the check of the finished bundle verifies it.
    fn write_blob(&mut self, blobs: &BlobStore, digest: &Digest) -> Result<(), BundleError> {
        let mut file = blobs.open_stored(digest)?;
        let length = blobs.len(digest)?;
        self.write_compressed(&blob_name(digest), |target| {
            io::copy(&mut file, target)?;
            Ok(((), length))
        })
    }

    fn write_plain(&mut self, name: &str, bytes: &[u8]) -> Result<(), BundleError> {
        self.members.push(plain_member(name, bytes));
        self.write_bytes(name, bytes)
    }

    fn write_bytes(&mut self, name: &str, bytes: &[u8]) -> Result<(), BundleError> {
        let written = self.archive.member(name, |target| target.write_all(bytes));
        written.map_err(|source| self.error(source.into()))
    }

    /// Writes a member whose size and digest are known only after it is written.
    fn write_compressed<T>(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut HashingStream<&mut Target>) -> Result<(T, u64), WriteError>,
    ) -> Result<T, BundleError> {
        let filled = self.archive.member(name, |target| {
            let mut hashed = HashingStream::new(target);
            let (value, plain_size) = fill(&mut hashed)?;
            let (sha256, size) = (hashed.digest(), hashed.length());
            let name = name.to_owned();
            Ok((value, ManifestMember { name, plain_size, sha256, size }))
        });
        let (value, member) = filled.map_err(|error| self.error(error))?;
        self.members.push(member);
        Ok(value)
    }

    fn error(&self, error: WriteError) -> BundleError {
        match error {
            WriteError::Bundle(error) => error,
            WriteError::Io(error) if error.kind() == io::ErrorKind::InvalidInput => {
                invalid_input(error.to_string())
            }
            WriteError::Io(source) => {
                BundleError::Unwritable { path: self.path.to_owned(), source }
            }
        }
    }
}

fn plain_member(name: &str, bytes: &[u8]) -> ManifestMember {
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    ManifestMember { name: name.to_owned(), plain_size: size, sha256: Digest::of(bytes), size }
}
