//! The encoding of an entry batch: the entries that one append adds to a trace, in one row.
//!
//! Each entry is its length (four bytes, little-endian) and the fields of [`Field`], in that order. A
//! field is a tag and its bytes. The tag is a number, seven bits to a byte, lowest bits first: 0 if the
//! entry does not have the field, 1 if the field equals that of the entry before in the same batch, else
//! the field's length plus 2. `Previous` is compared with the `Digest` of the entry before. Ids and
//! digests are binary, times are eight bytes, big-endian, `Released` is one byte, and the rest is text.
//!
//! The digest of an entry does not cover the fields of the store's own, from `Plan` to `ReservedCall`. They
//! and the entry's digest are covered by `Checksum`: an entry whose checksum is wrong cannot be read.

use windlass_kernel::{
    ArtifactId, ChainError, Digest, Entry, HolderId, PlanId, ReservedKey, SCHEMA_VERSION, State,
    Timestamp, ToolCallId, TraceId, Uuid7,
};
use windlass_store::{After, Append, Claim, NewEntry, Reservation};

use crate::progress::checksum;
use crate::types::{KeyHash, TraceNumber, Unreadable};

/// The fields of an entry. Those from [`Field::Plan`] to [`Field::ReservedCall`] are not part of the
/// entry and not covered by its digest: the rows in `traces` and `keys` are made of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Trace,
    /// The digest of the entry before.
    Previous,
    Time,
    From,
    To,
    Type,
    Artifact,
    ArtifactDigest,
    Call,
    Key,
    /// The digest of the entry.
    Digest,
    /// The plan of the trace; only in its first entry.
    Plan,
    /// The holder of the trace; only in its first entry.
    Holder,
    /// Present if the append of this entry released the lease.
    Released,
    /// The server of the key that this entry reserves, if it reserves one.
    Server,
    /// The tool of that key.
    Tool,
    /// The digest of the request (server, tool and arguments) that the key is bound to.
    Request,
    /// The reserved key, if it is not [`Field::Key`].
    ReservedKey,
    /// The call that the key is bound to, if it is not [`Field::Call`].
    ReservedCall,
    /// The checksum of the fields from [`Field::Digest`] to [`Field::ReservedCall`].
    Checksum,
    /// The canonical bytes of the artifact.
    Body,
}

const FIELDS: usize = Field::Body as usize + 1;

const RELEASED: &[u8] = &[1];

/// The encoded fields of one entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryFields<'a>([Option<&'a [u8]>; FIELDS]);

impl<'a> EntryFields<'a> {
    pub fn get(&self, field: Field) -> Option<&'a [u8]> {
        self.at(field as usize)
    }

    fn at(&self, at: usize) -> Option<&'a [u8]> {
        self.0.get(at).copied().flatten()
    }

    fn set(&mut self, field: Field, bytes: &'a [u8]) {
        if let Some(place) = self.0.get_mut(field as usize) {
            *place = Some(bytes);
        }
    }

    /// The checksum of the fields that no digest covers, and of the entry's digest.
    fn checksum(&self) -> [u8; 8] {
        let covered = self.0.get(Field::Digest as usize..Field::Checksum as usize);
        let mut bytes = Vec::with_capacity(256);
        for field in covered.unwrap_or_default() {
            bytes.push(u8::from(field.is_some()));
            bytes.extend_from_slice(&(field.map_or(0, <[u8]>::len) as u64).to_be_bytes());
            bytes.extend_from_slice(field.unwrap_or_default());
        }
        checksum(&bytes).to_be_bytes()
    }

    fn text(&self, field: Field) -> Option<&'a str> {
        std::str::from_utf8(self.get(field)?).ok()
    }

    fn uuid(&self, field: Field, name: Unreadable) -> Result<Uuid7, Unreadable> {
        let bytes = self.get(field).and_then(|bytes| bytes.try_into().ok()).ok_or(name)?;
        Uuid7::from_bytes(bytes).map_err(|_| name)
    }

    fn digest(&self, field: Field, name: Unreadable) -> Result<Digest, Unreadable> {
        let bytes = self.get(field).and_then(|bytes| bytes.try_into().ok());
        bytes.map(Digest::from_bytes).ok_or(name)
    }

    fn name<T: std::str::FromStr>(&self, field: Field, name: Unreadable) -> Result<T, Unreadable> {
        self.text(field).and_then(|text| text.parse().ok()).ok_or(name)
    }

    pub fn trace_id(&self) -> Result<TraceId, Unreadable> {
        self.uuid(Field::Trace, "trace_id").map(TraceId)
    }

    /// The plan and the holder of a trace, from its first entry.
    pub fn plan_and_holder(&self) -> Result<(PlanId, HolderId), Unreadable> {
        let plan_id = PlanId(self.uuid(Field::Plan, "plan_id")?);
        Ok((plan_id, HolderId(self.uuid(Field::Holder, "holder")?)))
    }

    pub fn artifact_digest(&self) -> Result<Digest, Unreadable> {
        self.digest(Field::ArtifactDigest, "artifact_digest")
    }

    /// Server, tool and key of the reservation that the entry carries, if it carries one.
    pub fn reserved_names(&self) -> Option<[&'a str; 3]> {
        let key =
            if self.get(Field::ReservedKey).is_some() { Field::ReservedKey } else { Field::Key };
        Some([self.text(Field::Server)?, self.text(Field::Tool)?, self.text(key)?])
    }

    pub fn reserved_hash(&self) -> Option<KeyHash> {
        self.reserved_names().map(KeyHash::of_names)
    }

    /// The digest of the request and the call that the reserved key is bound to.
    pub fn reserved_for(&self) -> Result<(Digest, ToolCallId), Unreadable> {
        let digest = self.digest(Field::Request, "request_digest")?;
        let own = self.get(Field::ReservedCall).is_none();
        let call = if own { Field::Call } else { Field::ReservedCall };
        Ok((digest, ToolCallId(self.uuid(call, "tool_call_id")?)))
    }

    fn entry(&self, sequence_number: u64) -> Result<Entry, Unreadable> {
        let from_state: State = self.name(Field::From, "from_state")?;
        let ts = self.get(Field::Time).and_then(|bytes| bytes.try_into().ok()).ok_or("ts")?;
        Ok(Entry {
            schema_id: from_state.machine().schema_id().into(),
            schema_version: SCHEMA_VERSION.into(),
            trace_id: self.trace_id()?,
            sequence_number,
            prev_entry_digest: self.digest(Field::Previous, "prev_entry_digest")?,
            ts: Timestamp::from_unix_ms(i64::from_be_bytes(ts)).map_err(|_| "ts")?,
            from_state,
            to_state: self.name(Field::To, "to_state")?,
            artifact_type: self.name(Field::Type, "artifact_type")?,
            artifact_id: ArtifactId(self.uuid(Field::Artifact, "artifact_id")?),
            artifact_digest: self.artifact_digest()?,
            tool_call_id: match self.get(Field::Call) {
                None => None,
                Some(_) => Some(ToolCallId(self.uuid(Field::Call, "tool_call_id")?)),
            },
            idempotency_key: match self.get(Field::Key) {
                None => None,
                Some(_) => Some(self.text(Field::Key).ok_or("idempotency_key")?.to_owned()),
            },
            entry_digest: self.digest(Field::Digest, "entry_digest")?,
        })
    }
}

/// An entry as it is stored.
#[derive(Clone, Copy, Debug)]
pub struct StoredEntry<'a> {
    /// The number of its trace, from the id of its row.
    pub number: TraceNumber,
    /// Its sequence number, from the id of its row and its place in the batch.
    pub sequence_number: u64,
    /// Its fields, if they can be decoded.
    pub fields: Result<EntryFields<'a>, Unreadable>,
}

impl<'a> StoredEntry<'a> {
    pub fn entry(&self) -> Result<Entry, ChainError> {
        self.fields
            .and_then(|fields| fields.entry(self.sequence_number))
            .map_err(|field| unreadable(self.sequence_number, field))
    }

    pub fn body(&self) -> Option<&'a [u8]> {
        self.fields.ok()?.get(Field::Body)
    }

    /// The trace that the entry names, if that can be read.
    pub fn trace_id(&self) -> Option<TraceId> {
        self.fields.ok()?.trace_id().ok()
    }

    /// The key that the entry reserves, if it reserves one and all of the reservation can be read.
    pub fn reserved(&self) -> Option<ReservedKey<'a>> {
        let fields = self.fields.ok()?;
        let [server_id, tool_name, idempotency_key] = fields.reserved_names()?;
        let (request_digest, _) = fields.reserved_for().ok()?;
        Some(ReservedKey { server_id, tool_name, idempotency_key, request_digest })
    }
}

/// The error for an entry of which a field cannot be read.
pub fn unreadable(sequence_number: u64, field: Unreadable) -> ChainError {
    ChainError::Malformed { sequence_number, reason: format!("its {field} is unreadable") }
}

/// Decodes the entries of a batch. An entry whose end is unknown is the last one.
pub struct Decoder<'a> {
    number: TraceNumber,
    sequence_number: u64,
    /// `None` after the last entry.
    rest: Option<&'a [u8]>,
    before: Option<EntryFields<'a>>,
}

impl<'a> Decoder<'a> {
    /// Decodes a batch that is stored under `id`.
    pub const fn new(id: i64, batch: &'a [u8]) -> Self {
        let (number, sequence_number) = TraceNumber::of_entry(id);
        Self { number, sequence_number, rest: Some(batch), before: None }
    }
}

impl<'a> Iterator for Decoder<'a> {
    type Item = StoredEntry<'a>;

    fn next(&mut self) -> Option<StoredEntry<'a>> {
        let rest = self.rest.take()?;
        let framed = rest.split_first_chunk().and_then(|(length, rest)| {
            rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)
        });
        let fields = match framed {
            Some((entry, rest)) => {
                self.rest = Some(rest).filter(|rest| !rest.is_empty());
                decode(entry, self.before.as_ref()).ok_or("batch")
            }
            None => Err("batch"),
        };
        self.before = fields.ok();
        let (number, sequence_number) = (self.number, self.sequence_number);
        self.sequence_number += 1;
        Some(StoredEntry { number, sequence_number, fields })
    }
}

/// The tag of a field that is absent.
const ABSENT: usize = 0;
/// The tag of a field that equals that of the entry before.
const SAME: usize = 1;
/// The tag of any other field is its length plus this.
const LENGTH: usize = 2;

/// The field of the entry before that a field is compared with.
const fn compared_with(field: usize) -> usize {
    if field == Field::Previous as usize { Field::Digest as usize } else { field }
}

fn decode<'a>(mut bytes: &'a [u8], before: Option<&EntryFields<'a>>) -> Option<EntryFields<'a>> {
    let mut fields = EntryFields::default();
    for (at, field) in fields.0.iter_mut().enumerate() {
        *field = match decode_tag(&mut bytes)? {
            ABSENT => None,
            SAME => Some(before?.at(compared_with(at))?),
            tag => {
                let (value, rest) = bytes.split_at_checked(tag - LENGTH)?;
                bytes = rest;
                Some(value)
            }
        };
    }
    let intact = fields.get(Field::Checksum) == Some(&fields.checksum());
    (bytes.is_empty() && intact).then_some(fields)
}

fn decode_tag(bytes: &mut &[u8]) -> Option<usize> {
    let mut tag = 0;
    for shift in (0..35).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        tag |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(tag);
        }
    }
    None
}

/// Encodes an entry at the end of a batch.
fn encode(batch: &mut Vec<u8>, fields: EntryFields<'_>, before: Option<&EntryFields<'_>>) {
    let checksum = fields.checksum();
    let mut fields: EntryFields<'_> = fields;
    fields.set(Field::Checksum, &checksum);
    let start = batch.len();
    batch.extend_from_slice(&[0; size_of::<u32>()]);
    for (at, field) in fields.0.iter().enumerate() {
        match *field {
            None => encode_tag(batch, ABSENT),
            field if before.is_some_and(|before| before.at(compared_with(at)) == field) => {
                encode_tag(batch, SAME);
            }
            Some(bytes) => {
                encode_tag(batch, bytes.len() + LENGTH);
                batch.extend_from_slice(bytes);
            }
        }
    }
    let length = batch.len() - start - size_of::<u32>();
    // SQLite refuses a blob that is longer than this by far.
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    if let Some(frame) = batch.get_mut(start..).and_then(<[u8]>::first_chunk_mut) {
        *frame = length.to_le_bytes();
    }
}

fn encode_tag(batch: &mut Vec<u8>, mut tag: usize) {
    while tag >= 0x80 {
        batch.push((tag & 0x7f) as u8 | 0x80);
        tag >>= 7;
    }
    batch.push(tag as u8);
}

/// The encoded entries of one append.
pub struct EntryBatch {
    pub bytes: Vec<u8>,
    pub first: u64,
    /// The hash of the key that the append reserves, if it reserves one.
    pub key: Option<KeyHash>,
}

impl EntryBatch {
    /// Encodes an append that the process `me` makes.
    pub fn new(append: &Append<'_>, me: HolderId) -> Self {
        let entries = &append.entries;
        let genesis = match &append.claim {
            Claim::New { plan_id, .. } => Some((plan_id.0.as_bytes(), me.0.as_bytes())),
            Claim::Held(_) => None,
        };
        let reservation = append.key.reservation();
        let last = entries.len().saturating_sub(1);
        // The entry of the call carries the reservation; if there is no such entry, the last one does.
        let carrier = reservation.map(|key| {
            entries
                .iter()
                .position(|new| is_own_call(new, key) && is_own_key(new, key))
                .unwrap_or(last)
        });
        let times: Vec<[u8; 8]> =
            entries.iter().map(|new| new.entry.ts.unix_ms().to_be_bytes()).collect();
        let size = entries.iter().map(|new| new.body.len() + 256).sum();
        let mut bytes = Vec::with_capacity(size);
        let mut before = None;
        for (place, (new, time)) in entries.iter().zip(&times).enumerate() {
            let mut fields = fields_of(new, time);
            if let Some((plan, holder)) = genesis.filter(|_| place == 0) {
                fields.set(Field::Plan, plan);
                fields.set(Field::Holder, holder);
            }
            if append.after == After::Release && place == last {
                fields.set(Field::Released, RELEASED);
            }
            if let Some(key) = reservation.filter(|_| carrier == Some(place)) {
                set_reservation(&mut fields, new, key);
            }
            encode(&mut bytes, fields, before.as_ref());
            before = Some(fields);
        }
        let first = entries.first().map_or(0, |new| new.entry.sequence_number);
        Self { bytes, first, key: reservation.map(|key| KeyHash::of(&key.slot)) }
    }
}

fn is_own_call(new: &NewEntry, reservation: &Reservation) -> bool {
    new.entry.tool_call_id == Some(reservation.tool_call_id)
}

fn is_own_key(new: &NewEntry, reservation: &Reservation) -> bool {
    new.entry.idempotency_key.as_ref() == Some(&reservation.slot.idempotency_key)
}

fn set_reservation<'a>(fields: &mut EntryFields<'a>, new: &NewEntry, key: &'a Reservation) {
    fields.set(Field::Server, key.slot.server_id.as_bytes());
    fields.set(Field::Tool, key.slot.tool_name.as_bytes());
    fields.set(Field::Request, key.request_digest.as_bytes());
    if !is_own_key(new, key) {
        fields.set(Field::ReservedKey, key.slot.idempotency_key.as_bytes());
    }
    if !is_own_call(new, key) {
        fields.set(Field::ReservedCall, key.tool_call_id.0.as_bytes());
    }
}

/// The fields that are part of the entry itself, and its body.
fn fields_of<'a>(new: &'a NewEntry, time: &'a [u8; 8]) -> EntryFields<'a> {
    let entry = &new.entry;
    let mut fields = EntryFields::default();
    fields.set(Field::Trace, entry.trace_id.0.as_bytes());
    fields.set(Field::Previous, entry.prev_entry_digest.as_bytes());
    fields.set(Field::Time, time);
    fields.set(Field::From, entry.from_state.as_str().as_bytes());
    fields.set(Field::To, entry.to_state.as_str().as_bytes());
    fields.set(Field::Type, entry.artifact_type.as_str().as_bytes());
    fields.set(Field::Artifact, entry.artifact_id.0.as_bytes());
    fields.set(Field::ArtifactDigest, entry.artifact_digest.as_bytes());
    if let Some(call) = &entry.tool_call_id {
        fields.set(Field::Call, call.0.as_bytes());
    }
    if let Some(key) = &entry.idempotency_key {
        fields.set(Field::Key, key.as_bytes());
    }
    fields.set(Field::Digest, entry.entry_digest.as_bytes());
    fields.set(Field::Body, &new.body);
    fields
}

#[cfg(test)]
mod tests;
