//! Verifies a bundle offline and in bounded memory; continues after a fault to report all of them.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};

use windlass_kernel::{Digest, TraceId};
use windlass_workspace::{HashingStream, ObjectIndex};

use super::{
    BUNDLE_FORMAT, BundleFault, BundleLimits, BundleReport, BundleSignature, DOCUMENT_BYTES_MAX,
    KEY_BYTES_MAX, MANIFEST, Manifest, ManifestMember, MemberKind, REQUIRED, ROTATIONS, SIGNATURE,
    key_name,
};
use crate::archive::{self, ArchiveMember};
use crate::document;
use crate::error::BundleError;
use crate::journal::Trace;
use crate::key::{KeyFile, KeyId, PublicKey};
use crate::keys::ROTATIONS_MAX;
use crate::rotation::Rotation;
use crate::trust::Trust;

/// Verifies a bundle against the trusted keys, with the limits of its size.
///
/// Every fault is reported, possibly together with further faults that follow from it.
///
/// # Errors
/// [`BundleError::Unreadable`] if the file itself cannot be read.
pub fn verify_bundle<R: Read + Seek>(
    source: &mut R,
    trust: &Trust,
) -> Result<BundleReport, BundleError> {
    let bytes = source.seek(SeekFrom::End(0)).map_err(BundleError::Unreadable)?;
    verify_bundle_within(source, trust, BundleLimits::of_size(bytes))
}

/// Verifies a bundle as [`verify_bundle`] does, with other limits.
///
/// # Errors
/// As [`verify_bundle`].
pub fn verify_bundle_within<R: Read + Seek>(
    source: &mut R,
    trust: &Trust,
    limits: BundleLimits,
) -> Result<BundleReport, BundleError> {
    BundleVerifier::new(source, limits)
        .and_then(|verifier| verifier.verify(trust))
        .map_err(BundleError::Unreadable)
}

/// A bundle that is being verified.
pub(super) struct BundleVerifier<'a, R> {
    source: &'a mut R,
    members: BTreeMap<String, ArchiveMember>,
    pub(super) report: BundleReport,
    /// The documents that could be read.
    pub(super) documents: BTreeMap<String, Vec<u8>>,
    pub(super) traces: BTreeMap<TraceId, Trace>,
    /// The files of workspaces.
    pub(super) files: Option<ObjectIndex>,
    /// The number of bytes that may still be decompressed.
    pub(super) plain_left: u64,
    pub(super) limits: BundleLimits,
}

impl<'a, R: Read + Seek> BundleVerifier<'a, R> {
    fn new(source: &'a mut R, limits: BundleLimits) -> io::Result<Self> {
        let (members, error) = archive::index(source, limits.members_max)?;
        let mut report = BundleReport::default();
        if let Some(error) = error {
            report.faults.push(BundleFault::NotAnArchive { reason: error.to_string() });
        }
        let members = members.into_iter().map(|member| (member.name.clone(), member)).collect();
        let (documents, traces) = (BTreeMap::new(), BTreeMap::new());
        let plain_left = limits.plain_bytes_max;
        let files = None;
        Ok(Self { source, members, report, documents, traces, files, plain_left, limits })
    }

    fn verify(mut self, trust: &Trust) -> io::Result<BundleReport> {
        for name in REQUIRED {
            self.load_document(name)?;
        }
        let manifest = self.manifest();
        let listed =
            manifest.as_ref().map(|manifest| self.listed_members(manifest)).unwrap_or_default();
        let signer = self.signer(trust)?;
        let members: Vec<ArchiveMember> = self.members.values().cloned().collect();
        for member in &members {
            let listed = listed.get(member.name.as_str()).copied();
            self.check_member(member, listed, manifest.is_some())?;
        }
        if let Some(manifest) = &manifest {
            self.check_consistency(manifest, signer.as_ref());
        }
        self.report.traces = u64::try_from(self.traces.len()).unwrap_or(u64::MAX);
        self.report.entries = self.traces.values().map(|trace| trace.head().sequence_number).sum();
        self.report.purged = self.traces.values().map(|trace| trace.purged()).sum();
        Ok(self.report)
    }

    pub(super) fn fault(&mut self, fault: BundleFault) {
        self.report.faults.push(fault);
    }

    pub(super) fn invalid(&mut self, name: &str, reason: impl Into<String>) {
        self.fault(BundleFault::InvalidMember { name: name.to_owned(), reason: reason.into() });
    }

    /// Reads a required document.
    fn load_document(&mut self, name: &str) -> io::Result<()> {
        let Some(member) = self.members.get(name).cloned() else {
            self.fault(BundleFault::MissingMember { name: name.to_owned() });
            return Ok(());
        };
        if let Some(bytes) = self.read_member(&member, DOCUMENT_BYTES_MAX)? {
            self.documents.insert(name.to_owned(), bytes);
        }
        Ok(())
    }

    /// Reads a member into memory; `None` if it is larger than `bytes_max`.
    fn read_member(
        &mut self,
        member: &ArchiveMember,
        bytes_max: u64,
    ) -> io::Result<Option<Vec<u8>>> {
        if member.size > bytes_max {
            let limit = format!("{bytes_max} bytes in `{}`", member.name);
            self.fault(BundleFault::LimitExceeded { limit });
            return Ok(None);
        }
        let mut bytes = Vec::new();
        self.source.seek(SeekFrom::Start(member.offset))?;
        self.source.by_ref().take(member.size).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Parses a document, which must be canonical.
    pub(super) fn read<T>(&mut self, name: &str) -> Option<T>
    where
        T: serde::de::DeserializeOwned + serde::Serialize,
    {
        let bytes_max = usize::try_from(DOCUMENT_BYTES_MAX).unwrap_or(usize::MAX);
        match document::read(self.documents.get(name)?, bytes_max) {
            Ok(document) => Some(document),
            Err(reason) => {
                self.invalid(name, reason);
                None
            }
        }
    }

    fn manifest(&mut self) -> Option<Manifest> {
        let manifest: Manifest = self.read(MANIFEST)?;
        if manifest.format != BUNDLE_FORMAT {
            self.invalid(
                MANIFEST,
                format!("its format is `{}`, which is not supported", manifest.format),
            );
            return None;
        }
        self.report.run_id.clone_from(&manifest.run_id);
        self.report.trace_id = Some(manifest.trace_id);
        Some(manifest)
    }

    /// Returns the members of the manifest by name; reports those that are missing in the archive.
    fn listed_members<'m>(
        &mut self,
        manifest: &'m Manifest,
    ) -> BTreeMap<&'m str, &'m ManifestMember> {
        let members = &manifest.members;
        if !members.is_sorted_by(|one, next| one.name < next.name) {
            self.invalid(MANIFEST, "its members are not sorted");
        }
        for member in members {
            if !self.members.contains_key(&member.name) {
                self.fault(BundleFault::MissingMember { name: member.name.clone() });
            }
        }
        members.iter().map(|member| (member.name.as_str(), member)).collect()
    }

    /// Returns the key that the signature names, which must be in the bundle, and checks the signature.
    fn signer(&mut self, trust: &Trust) -> io::Result<Option<PublicKey>> {
        let Some(signature) = self.read::<BundleSignature>(SIGNATURE) else { return Ok(None) };
        let Some(key) = self.key(signature.key_id)? else { return Ok(None) };
        let manifest = self.documents.get(MANIFEST).map(|bytes| Digest::of(bytes));
        if manifest != Some(signature.manifest) || !signature.is_signed_by(&key) {
            let fault = BundleFault::BadSignature { name: MANIFEST.to_owned(), key: key.id() };
            self.fault(fault);
            return Ok(Some(key));
        }
        let rotations: Vec<Rotation> = self.read(ROTATIONS).unwrap_or_default();
        if rotations.len() > ROTATIONS_MAX {
            self.fault(BundleFault::LimitExceeded { limit: format!("{ROTATIONS_MAX} rotations") });
            return Ok(Some(key));
        }
        if !rotations.iter().all(Rotation::is_valid) {
            self.invalid(ROTATIONS, "a rotation is not signed by both keys");
            return Ok(Some(key));
        }
        self.report.signer = Some(signature.key_id);
        self.report.trusted = trust.trusts(&key, &rotations);
        Ok(Some(key))
    }

    fn key(&mut self, id: KeyId) -> io::Result<Option<PublicKey>> {
        let name = key_name(id);
        let Some(member) = self.members.get(&name).cloned() else {
            self.fault(BundleFault::MissingMember { name });
            return Ok(None);
        };
        let bytes = self.read_member(&member, KEY_BYTES_MAX)?;
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        // The check of all members reports why a key file is not valid.
        Ok(text
            .and_then(|text| KeyFile::from_text(&text).ok())
            .map(|file| file.key)
            .filter(|key| key.id() == id))
    }

    /// Checks the contents of one member, and that it is the listed one.
    fn check_member(
        &mut self,
        member: &ArchiveMember,
        listed: Option<&ManifestMember>,
        has_manifest: bool,
    ) -> io::Result<()> {
        let name = &member.name;
        let kind = MemberKind::from_name(name);
        // The manifest cannot list itself or its signature.
        let unlisted = name == MANIFEST || name == SIGNATURE;
        if kind.is_none() || (has_manifest && unlisted == listed.is_some()) {
            self.fault(BundleFault::UnexpectedMember { name: name.clone() });
        }
        self.source.seek(SeekFrom::Start(member.offset))?;
        // `hashed` borrows the source, so faults are collected separately.
        let mut faults = Vec::new();
        let mut hashed = HashingStream::new(self.source.by_ref().take(member.size));
        let plain_max = listed.map_or(self.plain_left, |member| member.plain_size);
        let plain_max = plain_max.min(self.plain_left);
        let plain = match kind {
            Some(kind) => super::members::check(
                kind,
                member,
                &mut hashed,
                plain_max,
                &mut super::members::Findings {
                    faults: &mut faults,
                    traces: &mut self.traces,
                    files: &mut self.files,
                },
            )?,
            None => None,
        };
        io::copy(&mut hashed, &mut io::sink())?;
        let (digest, size) = (hashed.digest(), hashed.length());
        self.report.faults.extend(faults);
        let plain_size = plain.unwrap_or(size);
        if plain_size > self.plain_left {
            let limit = format!("{} bytes", self.limits.plain_bytes_max);
            self.fault(BundleFault::LimitExceeded { limit });
        }
        self.plain_left = self.plain_left.saturating_sub(plain_size);
        if let Some(listed) = listed {
            let found = ManifestMember { name: name.clone(), plain_size, sha256: digest, size };
            if found != *listed {
                self.fault(BundleFault::ChangedMember { name: name.clone() });
            }
        }
        match kind {
            Some(MemberKind::Blob(_)) => self.report.blobs += 1,
            Some(MemberKind::Checkpoint) => self.report.checkpoints += 1,
            Some(
                MemberKind::Document
                | MemberKind::Files
                | MemberKind::Journal(_)
                | MemberKind::Key(_),
            )
            | None => {}
        }
        Ok(())
    }
}
