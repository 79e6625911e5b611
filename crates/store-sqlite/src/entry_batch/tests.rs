//! Tests of the encoding.

use super::*;

const ID: i64 = (7 << 24) + 3;
/// The length of the second entry.
const SECOND: usize = 40;

/// Two entries; the second one refers to the first where it can.
fn batch() -> Vec<u8> {
    let mut first = EntryFields::default();
    let long = [b'x'; 300];
    first.set(Field::Trace, b"trace");
    first.set(Field::Digest, b"digest");
    first.set(Field::Key, b"");
    first.set(Field::Body, &long);
    let mut second = first;
    second.set(Field::Previous, b"digest");
    second.0[Field::Key as usize] = None;
    second.set(Field::Digest, b"other");
    second.set(Field::Body, b"{}");
    let mut batch = Vec::new();
    encode(&mut batch, first, None);
    encode(&mut batch, second, Some(&first));
    batch
}

#[test]
fn a_decoded_batch_equals_the_encoded_one() {
    let batch = batch();
    let entries: Vec<StoredEntry<'_>> = Decoder::new(ID, &batch).collect();
    let [first, second] = entries.as_slice() else { panic!("{entries:?}") };
    assert_eq!((first.number, first.sequence_number), (TraceNumber(7), 3));
    assert_eq!((second.number, second.sequence_number), (TraceNumber(7), 4));
    let get = |entry: &StoredEntry<'_>, field| entry.fields.unwrap().get(field).map(<[u8]>::to_vec);
    assert_eq!(get(first, Field::Previous), None);
    assert_eq!(get(first, Field::Key), Some(Vec::new()));
    assert_eq!(get(first, Field::Body), Some(vec![b'x'; 300]));
    assert_eq!(get(second, Field::Trace), Some(b"trace".to_vec()));
    assert_eq!(get(second, Field::Previous), Some(b"digest".to_vec()));
    assert_eq!(get(second, Field::Key), None);
    assert_eq!(get(second, Field::Digest), Some(b"other".to_vec()));
    assert_eq!(get(second, Field::Body), Some(b"{}".to_vec()));
}

/// Later versions read these bytes.
#[test]
fn the_encoding_is_pinned() {
    let batch = batch();
    let (first, second) = batch.split_at(batch.len() - SECOND);
    let sum = |digest: &[u8]| {
        let length = (digest.len() as u64).to_be_bytes();
        checksum(&[&[1][..], &length, digest, &[0; 8 * 9]].concat()).to_be_bytes()
    };
    let head = [&[0x55, 0x01, 0, 0][..], &[7], b"trace", &[0; 8], &[2, 8], b"digest", &[0; 8]];
    let head = [&head.concat()[..], &[10], &sum(b"digest"), &[0xae, 0x02]].concat();
    assert_eq!(first[..head.len()], head);
    let tail = [&[36, 0, 0, 0][..], &[1, 1], &[0; 8], &[7], b"other", &[0; 8]].concat();
    assert_eq!(second, [&tail[..], &[10], &sum(b"other"), &[4], b"{}"].concat());
}

/// Decoding ends whatever the bytes are, and reports bytes that are missing or added.
#[test]
fn damage_is_reported_and_decoding_ends() {
    let whole = batch();
    let good = |batch: &[u8]| {
        Decoder::new(ID, batch).take(9).map(|entry| entry.fields.is_ok()).collect::<Vec<_>>()
    };
    assert_eq!(good(&whole), [true, true]);
    assert_eq!(good(&[]), [false]);
    for length in 0..whole.len() {
        let read = good(&whole[..length]);
        // A batch may end after its first entry.
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
    // An entry that cannot be decoded does not hide the next one.
    let mut damaged = whole.clone();
    damaged[4] = 0x80;
    assert_eq!(good(&damaged), [false, false], "the second refers to the first");
    let second = whole.len() - SECOND;
    let mut damaged = [whole.as_slice(), &whole[second..]].concat();
    assert_eq!(good(&damaged), [true; 3]);
    damaged[second + 4] = 0x80;
    assert_eq!(good(&damaged), [true, false, false], "the third refers to the second");
}
