//! Making a bundle: read once, checked while it is read, and checked as a whole before it is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufWriter, Seek as _, Write as _};
use std::path::Path;

use windlass_kernel::{Digest, Entry, Head, Timestamp, TraceId};
use windlass_workspace::{BlobStore, HashingStream, encoder};

use super::{
    BUNDLE_FORMAT, ENVELOPE, HEADS, MANIFEST, Manifest, Member, ROTATIONS, SIGNATURE, STATEMENT,
    Seal, Verdict, blob_name, journal_name, key_name, verify_bundle,
};
use crate::archive::Writer;
use crate::document;
use crate::error::{BundleError, SourceError};
use crate::file::{Draft, Replace};
use crate::head::SignedHead;
use crate::journal::{Trace, write_line};
use crate::key::{KeyFile, Signer};
use crate::rotation::Rotation;
use crate::statement::{self, Envelope};
use crate::trust::Trust;

/// How many faults are named when no bundle can be made.
const FAULTS_MAX: usize = 5;

/// An entry as it is kept, with its artifact unless that was purged.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The entry.
    pub entry: Entry,
    /// The artifact's canonical bytes.
    pub body: Option<Vec<u8>>,
}

/// Some entries of a trace, in order; none means that there are no more.
pub type Page = Result<Vec<Recorded>, SourceError>;

/// What goes into a bundle.
pub struct Bundle<'a> {
    /// The run's name.
    pub run_id: &'a str,
    /// The run's trace.
    pub trace_id: TraceId,
    /// The digest of everything that decided.
    pub policy_hash: Option<Digest>,
    /// The ends of the run's trace and of those of all its calls. What a trace has beyond is left out.
    pub heads: Vec<Head>,
    /// Gives the entries of a trace after a sequence number.
    pub entries: &'a mut dyn FnMut(TraceId, u64) -> Page,
    /// Checkpoints: a name of letters, digits, `.`, `_` and `-`, and a JSON document.
    pub checkpoints: BTreeMap<String, Vec<u8>>,
    /// The contents to put in, and where they are kept.
    pub contents: Option<(&'a BlobStore, BTreeSet<Digest>)>,
    /// All public keys of the project, the signer's among them.
    pub keys: Vec<KeyFile>,
    /// All rotations of the project.
    pub rotations: Vec<Rotation>,
    /// When it is made.
    pub made_at: Timestamp,
}

/// Writes a bundle, whole or not at all, and returns what it holds.
///
/// The same input gives the same bytes.
///
/// # Errors
/// [`BundleError`], and then there is no new file: what does not hold together is never signed.
pub fn write_bundle(
    path: &Path,
    replace: Replace,
    signer: &Signer,
    bundle: Bundle<'_>,
) -> Result<Manifest, BundleError> {
    let unwritable = |source| BundleError::Unwritable { path: path.to_owned(), source };
    let exists = || BundleError::Exists { path: path.to_owned() };
    if replace == Replace::Never && path.symlink_metadata().is_ok() {
        return Err(exists());
    }
    let draft = Draft::new(path, 0o600).map_err(unwritable)?;
    let file = draft.file.try_clone().map_err(unwritable)?;
    let writing =
        Writing { archive: Writer::new(BufWriter::new(file)), members: Vec::new(), signer, path };
    let manifest = writing.write(bundle)?;
    let mut file = &draft.file;
    file.rewind().map_err(unwritable)?;
    let report = verify_bundle(&mut io::BufReader::new(file), &Trust::new([signer.public()]))?;
    if report.verdict() != Verdict::Intact {
        let faults: Vec<String> =
            report.faults.iter().take(FAULTS_MAX).map(ToString::to_string).collect();
        return Err(BundleError::Input { what: faults.join("; ") });
    }
    match draft.place(replace) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists()),
        placed => placed.map(|()| manifest).map_err(unwritable),
    }
}

type Target = BufWriter<File>;

struct Writing<'a> {
    archive: Writer<Target>,
    members: Vec<Member>,
    signer: &'a Signer,
    path: &'a Path,
}

/// What filling a member can fail with.
enum Trouble {
    Io(io::Error),
    Bundle(BundleError),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<BundleError> for Trouble {
    fn from(error: BundleError) -> Self {
        Self::Bundle(error)
    }
}

fn input(what: impl Into<String>) -> BundleError {
    BundleError::Input { what: what.into() }
}

impl Writing<'_> {
    /// Writes all members in the order of their names.
    fn write(mut self, mut bundle: Bundle<'_>) -> Result<Manifest, BundleError> {
        bundle.heads.sort_by_key(|head| head.trace_id);
        bundle.keys.sort_by_key(|file| file.key.id());
        if let Some((blobs, digests)) = &bundle.contents {
            for digest in digests {
                self.blob(blobs, digest)?;
            }
        }
        // Two names can sort otherwise once they have their ends.
        let checkpoints: BTreeMap<String, &Vec<u8>> = bundle
            .checkpoints
            .iter()
            .map(|(name, bytes)| (format!("checkpoints/{name}.json"), bytes))
            .collect();
        for (name, bytes) in checkpoints {
            self.plain(&name, bytes)?;
        }
        let heads = self.heads(&bundle)?;
        self.plain(HEADS, &heads)?;
        let mut run = None;
        for head in &bundle.heads {
            let trace = self.journal(head, bundle.entries)?;
            if head.trace_id == bundle.trace_id {
                run = Some(trace);
            }
        }
        let run = run.ok_or_else(|| input("the run's own trace is not given"))?;
        for kept in &bundle.keys {
            self.plain(&key_name(kept.key.id()), kept.to_text().as_bytes())?;
        }
        self.documents(&bundle, &run)
    }

    /// Writes what comes after the journals, the manifest among it.
    fn documents(mut self, bundle: &Bundle<'_>, run: &Trace) -> Result<Manifest, BundleError> {
        let rotations = document::write(&bundle.rotations).map_err(input)?;
        let statement = statement::write(bundle.run_id, bundle.policy_hash, &run.head(), run.run())
            .map_err(input)?;
        let envelope = document::write(&Envelope::sign(self.signer, &statement)).map_err(input)?;
        let later = [(ROTATIONS, &rotations), (ENVELOPE, &envelope), (STATEMENT, &statement)];
        let members = later.map(|(name, bytes)| plain_member(name, bytes));
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
        let bytes = document::write(&manifest).map_err(input)?;
        let seal = Seal::sign(self.signer, Digest::of(&bytes)).map_err(input)?;
        let seal = document::write(&seal).map_err(input)?;
        for (name, bytes) in [
            (MANIFEST, &bytes),
            (ROTATIONS, &rotations),
            (SIGNATURE, &seal),
            (ENVELOPE, &envelope),
            (STATEMENT, &statement),
        ] {
            self.bytes(name, bytes)?;
        }
        let unwritable = |source| BundleError::Unwritable { path: self.path.to_owned(), source };
        self.archive.finish().map_err(unwritable)?;
        Ok(manifest)
    }

    fn heads(&self, bundle: &Bundle<'_>) -> Result<Vec<u8>, BundleError> {
        let sign = |head| {
            let (run_id, hash) = (Some(bundle.run_id), bundle.policy_hash);
            SignedHead::sign(self.signer, head, run_id, hash, bundle.made_at)
        };
        let heads: Result<Vec<SignedHead>, String> = bundle.heads.iter().map(sign).collect();
        heads.and_then(|heads| document::write(&heads)).map_err(input)
    }

    /// Writes a trace up to its head, checking it on the way.
    fn journal(
        &mut self,
        head: &Head,
        entries: &mut dyn FnMut(TraceId, u64) -> Page,
    ) -> Result<Trace, BundleError> {
        let trace_id = head.trace_id;
        self.packed(&journal_name(trace_id), |target| {
            let mut plain = HashingStream::new(encoder(target)?);
            let mut trace = Trace::new(trace_id);
            while trace.head().sequence_number < head.sequence_number {
                let after = trace.head().sequence_number;
                let page = entries(trace_id, after)
                    .map_err(|source| BundleError::Source { trace_id, source })?;
                if page.is_empty() {
                    let expected = head.sequence_number;
                    let source = windlass_kernel::ChainError::Truncated { expected, found: after };
                    return Err(BundleError::Chain { trace_id, source }.into());
                }
                for Recorded { entry, body } in page {
                    if trace.head().sequence_number >= head.sequence_number {
                        break;
                    }
                    trace
                        .push(&entry, body.as_deref())
                        .map_err(|source| BundleError::Chain { trace_id, source })?;
                    plain.write_all(&write_line(&entry, body.as_deref()).map_err(input)?)?;
                }
            }
            trace.head().matches(head).map_err(|source| BundleError::Chain { trace_id, source })?;
            let length = plain.length();
            plain.into_inner().finish()?;
            Ok((trace, length))
        })
    }

    /// Copies a content as it is stored. That it holds is seen when the bundle is checked.
    fn blob(&mut self, blobs: &BlobStore, digest: &Digest) -> Result<(), BundleError> {
        let mut file = blobs.open_stored(digest)?;
        let length = blobs.len(digest)?;
        self.packed(&blob_name(digest), |target| {
            io::copy(&mut file, target)?;
            Ok(((), length))
        })
    }

    fn plain(&mut self, name: &str, bytes: &[u8]) -> Result<(), BundleError> {
        self.members.push(plain_member(name, bytes));
        self.bytes(name, bytes)
    }

    fn bytes(&mut self, name: &str, bytes: &[u8]) -> Result<(), BundleError> {
        let written = self.archive.member(name, |target| target.write_all(bytes));
        written.map_err(|source| self.error(source.into()))
    }

    /// Writes a member whose size and digest are known once it is written.
    fn packed<T>(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut HashingStream<&mut Target>) -> Result<(T, u64), Trouble>,
    ) -> Result<T, BundleError> {
        let filled = self.archive.member(name, |target| {
            let mut hashed = HashingStream::new(target);
            let (value, plain_size) = fill(&mut hashed)?;
            let (sha256, size) = (hashed.digest(), hashed.length());
            let name = name.to_owned();
            Ok((value, Member { name, plain_size, sha256, size }))
        });
        let (value, member) = filled.map_err(|trouble| self.error(trouble))?;
        self.members.push(member);
        Ok(value)
    }

    fn error(&self, trouble: Trouble) -> BundleError {
        match trouble {
            Trouble::Bundle(error) => error,
            Trouble::Io(error) if error.kind() == io::ErrorKind::InvalidInput => {
                input(error.to_string())
            }
            Trouble::Io(source) => BundleError::Unwritable { path: self.path.to_owned(), source },
        }
    }
}

fn plain_member(name: &str, bytes: &[u8]) -> Member {
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    Member { name: name.to_owned(), plain_size: size, sha256: Digest::of(bytes), size }
}
