//! How entries lie in a row: a sheet has what one append has added to a trace.
//!
//! Each entry is a length (four bytes, little-endian) and so many bytes: the fields of [`Field`], in
//! that order. A field is a number, seven bits to a byte and the lowest first: 0 if there is none, 1
//! if it is as in the entry before it in the sheet, or its length plus two; then its bytes. The
//! digest of the entry before is "as in the entry before" if it is that entry's own. Ids and digests
//! are binary, times are eight bytes, big-endian, the mark of a lease that is given back is a byte, and
//! all else is text.

use windlass_kernel::{
    ArtifactId, ChainError, Digest, Entry, HolderId, PlanId, SCHEMA_VERSION, State, Timestamp,
    ToolCallId, TraceId, Uuid7,
};
use windlass_store::{After, Append, Claim, KeyAction, NewEntry, Reservation};

use crate::keys::KeyHash;
use crate::rows::TraceNumber;

/// What is kept of an entry. From [`Field::Plan`] to [`Field::Request`] nothing is part of it: it is
/// what its row in `traces` is made of when the trace is filed, and the record of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The trace.
    Trace,
    /// The digest of the entry before.
    Previous,
    /// When it was made.
    Time,
    /// The state before.
    From,
    /// The state after.
    To,
    /// What its artifact is.
    Type,
    /// Which artifact it is.
    Artifact,
    /// The digest of the artifact.
    ArtifactDigest,
    /// The call, once there is one.
    Call,
    /// The call's key, if it has one.
    Key,
    /// The entry's own digest.
    Digest,
    /// The plan of a trace, with its first entry.
    Plan,
    /// The holder of a trace, with its first entry.
    Holder,
    /// With this entry the lease is given back.
    Released,
    /// With this entry the key is reserved: of which server.
    Server,
    /// Of which tool.
    Tool,
    /// The digest of server, tool and arguments.
    Request,
    /// The artifact's canonical bytes.
    Body,
}

/// How many fields there are.
pub const FIELDS: usize = Field::Body as usize + 1;

/// How it is marked that a lease is given back.
pub const RELEASED: &[u8] = &[1];

/// A field that does not hold what it must.
type Unreadable = &'static str;

/// The fields of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields<'a>([Option<&'a [u8]>; FIELDS]);

impl<'a> Fields<'a> {
    /// The fields in their order.
    pub const fn new(fields: [Option<&'a [u8]>; FIELDS]) -> Self {
        Self(fields)
    }

    /// One of them.
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

    /// One of them that is text; `None` also where it is not.
    pub fn text(&self, field: Field) -> Option<&'a str> {
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

    /// The trace that the entry names.
    pub fn trace_id(&self) -> Result<TraceId, Unreadable> {
        self.uuid(Field::Trace, "trace_id").map(TraceId)
    }

    /// The plan and the holder of its trace.
    pub fn genesis(&self) -> Result<(PlanId, HolderId), Unreadable> {
        let plan_id = PlanId(self.uuid(Field::Plan, "plan_id")?);
        Ok((plan_id, HolderId(self.uuid(Field::Holder, "holder")?)))
    }

    /// The digest of its artifact.
    pub fn artifact_digest(&self) -> Result<Digest, Unreadable> {
        self.digest(Field::ArtifactDigest, "artifact_digest")
    }

    /// What a key is reserved for with it: the request's digest and the call.
    pub fn bound(&self) -> Result<(Digest, ToolCallId), Unreadable> {
        let digest = self.digest(Field::Request, "request_digest")?;
        Ok((digest, ToolCallId(self.uuid(Field::Call, "tool_call_id")?)))
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

/// An entry as it stands in a sheet.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// The number of its trace.
    pub number: TraceNumber,
    /// Its place in the trace.
    pub sequence_number: u64,
    /// Its fields, if they can be told apart.
    pub fields: Result<Fields<'a>, Unreadable>,
}

impl<'a> Line<'a> {
    /// The entry.
    pub fn entry(&self) -> Result<Entry, ChainError> {
        self.fields
            .and_then(|fields| fields.entry(self.sequence_number))
            .map_err(|what| malformed(self.sequence_number, what))
    }

    /// The artifact's bytes.
    pub fn body(&self) -> Option<&'a [u8]> {
        self.fields.ok()?.get(Field::Body)
    }
}

/// What is said about an entry that cannot be read.
pub fn malformed(sequence_number: u64, what: Unreadable) -> ChainError {
    ChainError::Malformed { sequence_number, reason: format!("its {what} is unreadable") }
}

/// The entries of a sheet that is filed under a key. Where an entry's end is unknown, it is the last.
pub struct Lines<'a> {
    number: TraceNumber,
    sequence_number: u64,
    /// `None` after the last.
    rest: Option<&'a [u8]>,
    before: Option<Fields<'a>>,
}

impl<'a> Lines<'a> {
    /// Opens a sheet.
    pub const fn of(id: i64, sheet: &'a [u8]) -> Self {
        let (number, sequence_number) = TraceNumber::of_entry(id);
        Self { number, sequence_number, rest: Some(sheet), before: None }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        let rest = self.rest.take()?;
        let framed = rest.split_first_chunk().and_then(|(length, rest)| {
            rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)
        });
        let fields = match framed {
            Some((entry, rest)) => {
                self.rest = Some(rest).filter(|rest| !rest.is_empty());
                parse(entry, self.before.as_ref()).ok_or("sheet")
            }
            None => Err("sheet"),
        };
        self.before = fields.ok();
        let line = Line { number: self.number, sequence_number: self.sequence_number, fields };
        self.sequence_number += 1;
        Some(line)
    }
}

/// There is none.
const NONE: usize = 0;
/// It is as in the entry before.
const SAME: usize = 1;
/// What is added to a length.
const LENGTH: usize = 2;

/// Which field of the entry before a field is compared with.
const fn before_of(field: usize) -> usize {
    if field == Field::Previous as usize { Field::Digest as usize } else { field }
}

/// Tells the fields of an entry apart.
fn parse<'a>(mut entry: &'a [u8], before: Option<&Fields<'a>>) -> Option<Fields<'a>> {
    let mut fields = [None; FIELDS];
    for (at, field) in fields.iter_mut().enumerate() {
        *field = match take_number(&mut entry)? {
            NONE => None,
            SAME => Some(before?.at(before_of(at))?),
            number => {
                let (bytes, rest) = entry.split_at_checked(number - LENGTH)?;
                entry = rest;
                Some(bytes)
            }
        };
    }
    entry.is_empty().then_some(Fields::new(fields))
}

fn take_number(bytes: &mut &[u8]) -> Option<usize> {
    let mut number = 0;
    for shift in (0..35).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Puts an entry's fields down at the end of a sheet.
pub fn put(sheet: &mut Vec<u8>, fields: &Fields<'_>, before: Option<&Fields<'_>>) {
    let start = sheet.len();
    sheet.extend_from_slice(&[0; size_of::<u32>()]);
    for (at, field) in fields.0.iter().enumerate() {
        match *field {
            None => put_number(sheet, NONE),
            field if before.is_some_and(|before| before.at(before_of(at)) == field) => {
                put_number(sheet, SAME);
            }
            Some(bytes) => {
                put_number(sheet, bytes.len() + LENGTH);
                sheet.extend_from_slice(bytes);
            }
        }
    }
    let length = sheet.len() - start - size_of::<u32>();
    // One that is longer is far beyond what SQLite takes.
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    if let Some(frame) = sheet.get_mut(start..).and_then(<[u8]>::first_chunk_mut) {
        *frame = length.to_le_bytes();
    }
}

fn put_number(sheet: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        sheet.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    sheet.push(number as u8);
}

/// What an append adds to a trace.
pub struct Sheet {
    /// How it is written.
    pub bytes: Vec<u8>,
    /// The place of its first entry in the trace.
    pub first: u64,
    /// Whether one of its entries has what the record of the key is made of, if one is reserved.
    pub reserves: bool,
    /// The number of that key.
    pub key: Option<KeyHash>,
}

impl Sheet {
    /// Puts down what this holder appends.
    pub fn of(append: &Append<'_>, me: HolderId) -> Self {
        let entries = &append.entries;
        let genesis = match &append.claim {
            Claim::New { plan_id, .. } => Some((plan_id.0.as_bytes(), me.0.as_bytes())),
            Claim::Held(_) => None,
        };
        let reserved = match &append.key {
            KeyAction::Reserve(reservation) => Some(reservation),
            KeyAction::None => None,
        };
        let carrier = reserved.and_then(|key| entries.iter().position(|new| carries(new, key)));
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
            if append.after == After::Release && place + 1 == entries.len() {
                fields.set(Field::Released, RELEASED);
            }
            if let Some(key) = reserved.filter(|_| carrier == Some(place)) {
                fields.set(Field::Server, key.slot.server_id.as_bytes());
                fields.set(Field::Tool, key.slot.tool_name.as_bytes());
                fields.set(Field::Request, key.request_digest.as_bytes());
            }
            put(&mut bytes, &fields, before.as_ref());
            before = Some(fields);
        }
        let first = entries.first().map_or(0, |new| new.entry.sequence_number);
        let key = reserved.map(|key| KeyHash::of(&key.slot));
        Self { bytes, first, reserves: carrier.is_some(), key }
    }
}

/// Whether an entry has what its fields must say for a key's record.
fn carries(new: &NewEntry, reservation: &Reservation) -> bool {
    new.entry.tool_call_id == Some(reservation.tool_call_id)
        && new.entry.idempotency_key.as_ref() == Some(&reservation.slot.idempotency_key)
}

/// The fields of an entry itself.
fn fields_of<'a>(new: &'a NewEntry, time: &'a [u8; 8]) -> Fields<'a> {
    let entry = &new.entry;
    Fields::new([
        Some(entry.trace_id.0.as_bytes()),
        Some(entry.prev_entry_digest.as_bytes()),
        Some(time),
        Some(entry.from_state.as_str().as_bytes()),
        Some(entry.to_state.as_str().as_bytes()),
        Some(entry.artifact_type.as_str().as_bytes()),
        Some(entry.artifact_id.0.as_bytes()),
        Some(entry.artifact_digest.as_bytes()),
        entry.tool_call_id.as_ref().map(|id| id.0.as_bytes().as_slice()),
        entry.idempotency_key.as_ref().map(String::as_bytes),
        Some(entry.entry_digest.as_bytes()),
        None,
        None,
        None,
        None,
        None,
        None,
        Some(&new.body),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: i64 = (7 << 24) + 3;
    /// How long the second entry of the sheet is.
    const SECOND: usize = 29;

    /// Two entries; the second one names as much as it can by the first.
    fn sheet() -> Vec<u8> {
        let mut first = [None; FIELDS];
        let long = [b'x'; 300];
        first[Field::Trace as usize] = Some(b"trace".as_slice());
        first[Field::Digest as usize] = Some(b"digest");
        first[Field::Key as usize] = Some(b"");
        first[Field::Body as usize] = Some(&long);
        let mut second = first;
        second[Field::Previous as usize] = Some(b"digest");
        second[Field::Key as usize] = None;
        second[Field::Digest as usize] = Some(b"other");
        second[Field::Body as usize] = Some(b"{}");
        let mut sheet = Vec::new();
        put(&mut sheet, &Fields::new(first), None);
        put(&mut sheet, &Fields::new(second), Some(&Fields::new(first)));
        sheet
    }

    #[test]
    fn what_is_put_down_is_read_back() {
        let sheet = sheet();
        let lines: Vec<Line<'_>> = Lines::of(ID, &sheet).collect();
        let [first, second] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!((first.number, first.sequence_number), (TraceNumber(7), 3));
        assert_eq!((second.number, second.sequence_number), (TraceNumber(7), 4));
        let get = |line: &Line<'_>, field| line.fields.unwrap().get(field).map(<[u8]>::to_vec);
        assert_eq!(get(first, Field::Previous), None);
        assert_eq!(get(first, Field::Key), Some(Vec::new()));
        assert_eq!(get(first, Field::Body), Some(vec![b'x'; 300]));
        assert_eq!(get(second, Field::Trace), Some(b"trace".to_vec()));
        assert_eq!(get(second, Field::Previous), Some(b"digest".to_vec()));
        assert_eq!(get(second, Field::Key), None);
        assert_eq!(get(second, Field::Digest), Some(b"other".to_vec()));
        assert_eq!(get(second, Field::Body), Some(b"{}".to_vec()));
    }

    /// The bytes themselves: a database is read by versions that come later.
    #[test]
    fn the_format_is_pinned() {
        let sheet = sheet();
        let (first, second) = sheet.split_at(sheet.len() - SECOND);
        let head = [&[0x4a, 0x01, 0, 0][..], &[7], b"trace", &[0; 8], &[2, 8], b"digest", &[0; 6]];
        assert_eq!(first[..head.concat().len()], head.concat());
        assert_eq!(first[head.concat().len()..][..2], [0xae, 0x02]);
        let tail =
            [&[25, 0, 0, 0][..], &[1, 1], &[0; 8], &[7], b"other", &[0; 6], &[4], b"{}"].concat();
        assert_eq!(second, tail);
    }

    /// Whatever the bytes are, they are read to an end, and what is cut off or added is missed.
    #[test]
    fn damage_is_told_and_ends() {
        let whole = sheet();
        let good = |sheet: &[u8]| {
            Lines::of(ID, sheet).take(9).map(|line| line.fields.is_ok()).collect::<Vec<_>>()
        };
        assert_eq!(good(&whole), [true, true]);
        assert_eq!(good(&[]), [false]);
        for length in 0..whole.len() {
            let read = good(&whole[..length]);
            // After the first entry a sheet may end.
            let cut = length == whole.len() - SECOND;
            assert_eq!(read.last(), Some(&cut), "cut to {length}: {read:?}");
        }
        let more = [whole.as_slice(), &[0]].concat();
        assert_eq!(good(&more), [true, true, false]);
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                assert!((1..9).contains(&good(&damaged).len()), "bit {bit} of byte {at}");
            }
        }
        // An entry whose fields cannot be told apart does not hide the next one's.
        let mut damaged = whole.clone();
        damaged[4] = 0x80;
        assert_eq!(good(&damaged), [false, false], "the second refers to the first");
        let second = whole.len() - SECOND;
        let mut damaged = [whole.as_slice(), &whole[second..]].concat();
        assert_eq!(good(&damaged), [true; 3]);
        damaged[second + 4] = 0x80;
        assert_eq!(good(&damaged), [true, false, false], "the third refers to the second");
    }
}
