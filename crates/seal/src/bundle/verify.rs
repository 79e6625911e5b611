//! Checking a bundle: offline, in bounded memory, to the end whatever is found on the way.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};

use windlass_kernel::{Digest, TraceId};
use windlass_workspace::HashingStream;

use super::{
    ALWAYS, BUNDLE_FORMAT, DOCUMENT_BYTES_MAX, Fault, KEY_BYTES_MAX, Kind, Limits, MANIFEST,
    Manifest, Member, ROTATIONS, Report, SIGNATURE, Seal, key_name,
};
use crate::archive::{self, Place};
use crate::document;
use crate::error::BundleError;
use crate::journal::Trace;
use crate::key::{KeyFile, KeyId, PublicKey};
use crate::keys::ROTATIONS_MAX;
use crate::rotation::Rotation;
use crate::trust::Trust;

/// Checks a bundle against the keys that are trusted, within the usual limits.
///
/// Every fault is reported; only what follows from one may be reported with it.
///
/// # Errors
/// [`BundleError::Unreadable`] when the file itself cannot be read.
pub fn verify_bundle<R: Read + Seek>(source: &mut R, trust: &Trust) -> Result<Report, BundleError> {
    verify_bundle_within(source, trust, Limits::default())
}

/// Checks a bundle as [`verify_bundle`] does, within other limits.
///
/// # Errors
/// As [`verify_bundle`].
pub fn verify_bundle_within<R: Read + Seek>(
    source: &mut R,
    trust: &Trust,
    limits: Limits,
) -> Result<Report, BundleError> {
    Checker::new(source, limits)
        .and_then(|checker| checker.check(trust))
        .map_err(BundleError::Unreadable)
}

/// A bundle that is being checked.
pub(super) struct Checker<'a, R> {
    source: &'a mut R,
    places: BTreeMap<String, Place>,
    pub(super) report: Report,
    /// The documents that could be read whole.
    pub(super) documents: BTreeMap<String, Vec<u8>>,
    pub(super) traces: BTreeMap<TraceId, Trace>,
    /// How many bytes may still be unpacked.
    pub(super) plain_left: u64,
    pub(super) limits: Limits,
}

impl<'a, R: Read + Seek> Checker<'a, R> {
    fn new(source: &'a mut R, limits: Limits) -> io::Result<Self> {
        let (places, error) = archive::index(source, limits.members_max)?;
        let mut report = Report::default();
        if let Some(error) = error {
            report.faults.push(Fault::Archive { what: error.to_string() });
        }
        let places = places.into_iter().map(|place| (place.name.clone(), place)).collect();
        let (documents, traces) = (BTreeMap::new(), BTreeMap::new());
        let plain_left = limits.plain_bytes_max;
        Ok(Self { source, places, report, documents, traces, plain_left, limits })
    }

    fn check(mut self, trust: &Trust) -> io::Result<Report> {
        for name in ALWAYS {
            self.load(name)?;
        }
        let manifest = self.manifest();
        let listed = manifest.as_ref().map(|manifest| self.listed(manifest)).unwrap_or_default();
        let signer = self.signer(trust)?;
        let places: Vec<Place> = self.places.values().cloned().collect();
        for place in &places {
            self.member(place, listed.get(place.name.as_str()).copied(), manifest.is_some())?;
        }
        if let Some(manifest) = &manifest {
            self.agree(manifest, signer.as_ref());
        }
        self.report.traces = u64::try_from(self.traces.len()).unwrap_or(u64::MAX);
        self.report.entries = self.traces.values().map(|trace| trace.head().sequence_number).sum();
        self.report.purged = self.traces.values().map(|trace| trace.purged()).sum();
        Ok(self.report)
    }

    pub(super) fn fault(&mut self, fault: Fault) {
        self.report.faults.push(fault);
    }

    pub(super) fn unusable(&mut self, name: &str, what: impl Into<String>) {
        self.fault(Fault::Member { name: name.to_owned(), what: what.into() });
    }

    /// Reads a document that must be there.
    fn load(&mut self, name: &str) -> io::Result<()> {
        let Some(place) = self.places.get(name).cloned() else {
            self.fault(Fault::MemberMissing { name: name.to_owned() });
            return Ok(());
        };
        if let Some(bytes) = self.bytes(&place, DOCUMENT_BYTES_MAX)? {
            self.documents.insert(name.to_owned(), bytes);
        }
        Ok(())
    }

    /// Reads a member into memory; `None` when it is too large for that.
    fn bytes(&mut self, place: &Place, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
        if place.size > bytes_max {
            self.fault(Fault::TooMuch { what: format!("{bytes_max} bytes in `{}`", place.name) });
            return Ok(None);
        }
        let mut bytes = Vec::new();
        self.open(place)?.read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// The bytes of a member, as they are in the bundle.
    fn open(&mut self, place: &Place) -> io::Result<io::Take<&mut R>> {
        self.source.seek(SeekFrom::Start(place.offset))?;
        Ok(self.source.by_ref().take(place.size))
    }

    /// A document in its only form.
    pub(super) fn read<T>(&mut self, name: &str) -> Option<T>
    where
        T: serde::de::DeserializeOwned + serde::Serialize,
    {
        let bytes_max = usize::try_from(DOCUMENT_BYTES_MAX).unwrap_or(usize::MAX);
        match document::read(self.documents.get(name)?, bytes_max) {
            Ok(document) => Some(document),
            Err(what) => {
                self.unusable(name, what);
                None
            }
        }
    }

    fn manifest(&mut self) -> Option<Manifest> {
        let manifest: Manifest = self.read(MANIFEST)?;
        if manifest.format != BUNDLE_FORMAT {
            self.unusable(MANIFEST, format!("its format is `{}`", manifest.format));
            return None;
        }
        self.report.run_id.clone_from(&manifest.run_id);
        self.report.trace_id = Some(manifest.trace_id);
        Some(manifest)
    }

    /// The manifest's members by their names. What is listed and not there is missing.
    fn listed<'m>(&mut self, manifest: &'m Manifest) -> BTreeMap<&'m str, &'m Member> {
        let members = &manifest.members;
        if !members.is_sorted_by(|one, next| one.name < next.name) {
            self.unusable(MANIFEST, "its members are not in order");
        }
        for member in members {
            if !self.places.contains_key(&member.name) {
                self.fault(Fault::MemberMissing { name: member.name.clone() });
            }
        }
        members.iter().map(|member| (member.name.as_str(), member)).collect()
    }

    /// The key that has signed the bundle: it must be in it, and the signature must be its.
    fn signer(&mut self, trust: &Trust) -> io::Result<Option<PublicKey>> {
        let Some(seal) = self.read::<Seal>(SIGNATURE) else { return Ok(None) };
        let Some(key) = self.key(seal.key_id)? else { return Ok(None) };
        let manifest = self.documents.get(MANIFEST).map(|bytes| Digest::of(bytes));
        if manifest != Some(seal.manifest) || !seal.verifies(&key) {
            self.fault(Fault::Signature { name: MANIFEST.to_owned(), key: seal.key_id });
            return Ok(Some(key));
        }
        let rotations: Vec<Rotation> = self.read(ROTATIONS).unwrap_or_default();
        if rotations.len() > ROTATIONS_MAX {
            self.fault(Fault::TooMuch { what: format!("{ROTATIONS_MAX} rotations") });
            return Ok(Some(key));
        }
        if !rotations.iter().all(Rotation::holds) {
            self.unusable(ROTATIONS, "a rotation is not signed by both keys");
            return Ok(Some(key));
        }
        self.report.signer = Some(seal.key_id);
        self.report.trusted = trust.reaches(&key, &rotations);
        Ok(Some(key))
    }

    fn key(&mut self, id: KeyId) -> io::Result<Option<PublicKey>> {
        let name = key_name(id);
        let Some(place) = self.places.get(&name).cloned() else {
            self.fault(Fault::MemberMissing { name });
            return Ok(None);
        };
        let bytes = self.bytes(&place, KEY_BYTES_MAX)?;
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        // What is wrong with it is said when all members are gone through.
        Ok(text
            .and_then(|text| KeyFile::from_text(&text).ok())
            .map(|file| file.key)
            .filter(|key| key.id() == id))
    }

    /// Checks one member: what it holds, and that it is the one that was listed.
    fn member(
        &mut self,
        place: &Place,
        listed: Option<&Member>,
        is_listing: bool,
    ) -> io::Result<()> {
        let name = &place.name;
        let kind = Kind::of(name);
        // The manifest cannot list itself, nor what is made of it.
        let unlisted = name == MANIFEST || name == SIGNATURE;
        if kind.is_none() || (is_listing && unlisted == listed.is_some()) {
            self.fault(Fault::MemberExtra { name: name.clone() });
        }
        self.source.seek(SeekFrom::Start(place.offset))?;
        // The source is borrowed by itself, so that faults can be noted while it is read.
        let mut findings = Vec::new();
        let mut hashed = HashingStream::new(self.source.by_ref().take(place.size));
        let plain_max = listed.map_or(self.plain_left, |member| member.plain_size);
        let plain_max = plain_max.min(self.plain_left);
        let plain = match kind {
            Some(kind) => super::contents::check(
                kind,
                place,
                &mut hashed,
                plain_max,
                &mut super::contents::Found { faults: &mut findings, traces: &mut self.traces },
            )?,
            None => None,
        };
        io::copy(&mut hashed, &mut io::sink())?;
        let (digest, size) = (hashed.digest(), hashed.length());
        self.report.faults.extend(findings);
        let plain_size = plain.unwrap_or(size);
        if plain_size > self.plain_left {
            let what = format!("{} bytes", self.limits.plain_bytes_max);
            self.fault(Fault::TooMuch { what });
        }
        self.plain_left = self.plain_left.saturating_sub(plain_size);
        if let Some(listed) = listed {
            let found = Member { name: name.clone(), plain_size, sha256: digest, size };
            if found != *listed {
                self.fault(Fault::MemberChanged { name: name.clone() });
            }
        }
        match kind {
            Some(Kind::Blob(_)) => self.report.blobs += 1,
            Some(Kind::Checkpoint) => self.report.checkpoints += 1,
            Some(Kind::Document | Kind::Journal(_) | Kind::Key(_)) | None => {}
        }
        Ok(())
    }
}
