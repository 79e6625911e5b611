//! The server name in a TLS greeting.

use std::collections::BTreeSet;

use crate::event::Refusal;

/// The largest greeting. One with post-quantum keys and a long ticket has a few thousand bytes.
pub(crate) const HELLO_BYTES_MAX: usize = 64 * 1024;
/// The most records that a greeting may be spread over.
pub(crate) const HELLO_RECORDS_MAX: usize = 32;
/// The largest record, an encrypted one.
const RECORD_BYTES_MAX: usize = 16 * 1024 + 2048;

pub(crate) const RECORD_HEADER_BYTES: usize = 5;
/// A closing alert for the client: access denied.
pub(crate) const ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

/// The `random` by which a ServerHello is a HelloRetryRequest (RFC 8446, 4.1.3).
const RETRY_RANDOM: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// What a record contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    ChangeCipherSpec,
    Alert,
    Handshake,
    Data,
}

/// The kind and the length of a record; `None` if this is not TLS.
pub(crate) fn record(header: [u8; RECORD_HEADER_BYTES]) -> Option<(RecordKind, usize)> {
    let [kind, major, _, high, low] = header;
    let kind = match kind {
        20 => RecordKind::ChangeCipherSpec,
        21 => RecordKind::Alert,
        22 => RecordKind::Handshake,
        23 => RecordKind::Data,
        _ => return None,
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    (major == 3 && (1..=RECORD_BYTES_MAX).contains(&length)).then_some((kind, length))
}

/// Takes bytes from the front, or fails.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Refusal> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Refusal::HelloInvalid)?;
        self.0 = rest;
        Ok(taken)
    }

    /// A number of `width` bytes.
    fn number(&mut self, width: usize) -> Result<usize, Refusal> {
        Ok(self.take(width)?.iter().fold(0, |number, byte| (number << 8) | usize::from(*byte)))
    }

    /// A vector whose length is in front of it, in `width` bytes.
    fn vector(&mut self, width: usize) -> Result<Self, Refusal> {
        let length = self.number(width)?;
        self.take(length).map(Reader)
    }

    const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn ensure(holds: bool) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err(Refusal::HelloInvalid) }
}

/// The server name of the greeting in `message`, the payloads of the records so far; `Ok(None)` if
/// more of it must come.
pub(crate) fn complete(message: &[u8]) -> Result<Option<Option<String>>, Refusal> {
    ensure(message.first().is_none_or(|kind| *kind == 1))?;
    if message.len() < 4 {
        return Ok(None);
    }
    let mut reader = Reader(message);
    reader.take(1)?;
    let length = reader.number(3)?;
    if length > HELLO_BYTES_MAX {
        return Err(Refusal::HelloTooLarge);
    }
    if reader.0.len() < length {
        return Ok(None);
    }
    let body = reader.take(length)?;
    ensure(reader.is_empty())?;
    server_name(body).map(Some)
}

fn server_name(body: &[u8]) -> Result<Option<String>, Refusal> {
    let mut reader = Reader(body);
    ensure(reader.take(2)?.first() == Some(&3))?;
    reader.take(32)?;
    let session = reader.vector(1)?;
    let suites = reader.vector(2)?;
    let compression = reader.vector(1)?;
    ensure(session.0.len() <= 32 && !suites.is_empty() && suites.0.len() % 2 == 0)?;
    ensure(!compression.is_empty())?;
    if reader.is_empty() {
        return Ok(None);
    }
    let mut extensions = reader.vector(2)?;
    ensure(reader.is_empty())?;
    let mut seen = BTreeSet::new();
    let mut name = None;
    while !extensions.is_empty() {
        let kind = extensions.number(2)?;
        let data = extensions.vector(2)?;
        ensure(seen.insert(kind))?;
        if kind == 0 {
            name = Some(only_name(data)?);
        }
    }
    Ok(name)
}

/// The only name of the extension's list.
fn only_name(mut data: Reader<'_>) -> Result<String, Refusal> {
    let mut list = data.vector(2)?;
    ensure(data.is_empty() && list.number(1)? == 0)?;
    let name = list.vector(2)?;
    ensure(list.is_empty() && !name.is_empty())?;
    let name = std::str::from_utf8(name.0).map_err(|_| Refusal::HelloInvalid)?;
    ensure(name.bytes().all(|byte| byte.is_ascii_graphic()))?;
    Ok(name.to_ascii_lowercase())
}

/// Whether the server's first message asks for another greeting. It is not certain from fewer bytes
/// than the fixed part of a ServerHello.
pub(crate) fn asks_again(message: &[u8]) -> Result<bool, Refusal> {
    if message.first() != Some(&2) {
        return Ok(false);
    }
    Ok(message.get(6..38).ok_or(Refusal::HelloInvalid)? == RETRY_RANDOM)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn vector(width: usize, bytes: &[u8]) -> Vec<u8> {
        let length = (bytes.len() as u64).to_be_bytes();
        [&length[8 - width..], bytes].concat()
    }

    fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes(), vector(2, data).as_slice()].concat()
    }

    fn name(name: &[u8]) -> Vec<u8> {
        extension(0, &vector(2, &[&[0], vector(2, name).as_slice()].concat()))
    }

    fn hello(extensions: Option<&[u8]>) -> Vec<u8> {
        let mut body = [&[3, 3][..], &[7; 32], &vector(1, &[1; 32]), &vector(2, &[19, 1])].concat();
        body.extend(vector(1, &[0]));
        body.extend(extensions.map(|bytes| vector(2, bytes)).unwrap_or_default());
        [&[1][..], &vector(3, &body)].concat()
    }

    #[test]
    fn the_name_is_found_once_the_greeting_is_complete() {
        let other = extension(0xfe0d, b"encrypted");
        let message = hello(Some(&[other, name(b"A.Example")].concat()));
        for end in 0..message.len() {
            assert_eq!(complete(&message[..end]), Ok(None), "{end}");
        }
        assert_eq!(complete(&message), Ok(Some(Some("a.example".to_owned()))));
        assert_eq!(complete(&hello(None)), Ok(Some(None)));
        assert_eq!(complete(&hello(Some(&[]))), Ok(Some(None)));
    }

    #[test]
    fn a_greeting_that_can_be_read_in_two_ways_is_refused() {
        let two = [name(b"a.example"), name(b"b.example")].concat();
        let entry = |name: &[u8]| [&[0], vector(2, name).as_slice()].concat();
        let pair = extension(0, &vector(2, &[entry(b"a.example"), entry(b"b.example")].concat()));
        let behind = extension(0, &[vector(2, &entry(b"a.example")), vec![0]].concat());
        let unknown = extension(0, &vector(2, &[&[1], vector(2, b"a").as_slice()].concat()));
        let long = [&[0, 0, 0, 9][..], b"abc"].concat();
        for extensions in [
            two,
            pair,
            behind,
            unknown,
            long,
            name(b""),
            name(b"a\0b"),
            name(b"\xff"),
            vec![0],
            extension(0, &[]),
        ] {
            let refused = complete(&hello(Some(&extensions)));
            assert_eq!(refused, Err(Refusal::HelloInvalid), "{extensions:?}");
        }
        let trailing = [hello(None), vec![0]].concat();
        assert_eq!(complete(&trailing), Err(Refusal::HelloInvalid));
        assert_eq!(complete(&[2, 0, 0, 0]), Err(Refusal::HelloInvalid));
        assert_eq!(complete(&[1, 0, 0, 0]), Err(Refusal::HelloInvalid));
        assert_eq!(complete(&[1, 0xff, 0, 0]), Err(Refusal::HelloTooLarge));
    }

    #[test]
    fn records_of_tls_are_recognised() {
        assert_eq!(record([22, 3, 1, 0, 5]), Some((RecordKind::Handshake, 5)));
        assert_eq!(record([23, 3, 3, 0x48, 0]), Some((RecordKind::Data, 18432)));
        for header in
            [[22, 2, 0, 0, 5], [22, 3, 1, 0, 0], [22, 3, 1, 0x48, 1], *b"GET /", [24, 3, 3, 0, 1]]
        {
            assert_eq!(record(header), None, "{header:?}");
        }
    }

    #[test]
    fn a_retry_is_recognised_by_its_random() {
        let server = |random: [u8; 32]| [&[2, 0, 0, 60, 3, 3][..], &random, &[0; 26]].concat();
        assert_eq!(asks_again(&server(RETRY_RANDOM)), Ok(true));
        assert_eq!(asks_again(&server([1; 32])), Ok(false));
        assert_eq!(asks_again(&[2, 0, 0]), Err(Refusal::HelloInvalid));
        assert_eq!(asks_again(&[21]), Ok(false));
    }

    proptest! {
        #[test]
        fn no_greeting_is_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = complete(&bytes);
            let _ = complete(&[&[1, 0, 1, 0][..], &bytes].concat());
            let _ = asks_again(&bytes);
        }

        #[test]
        fn a_changed_greeting_names_no_other_listed_host(at in 0_usize..200, byte in any::<u8>()) {
            let mut message = hello(Some(&name(b"a.example")));
            let at = at % message.len();
            message[at] = byte;
            if let Ok(Some(Some(found))) = complete(&message) {
                prop_assert_eq!(found.len(), 9);
            }
        }
    }
}
