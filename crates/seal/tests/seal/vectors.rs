//! Pinned bytes of our formats, and test vectors of RFC 8032.

use windlass_kernel::{Digest, Head, State, TraceId, Uuid7, canon};
use windlass_seal::{KeyFile, PublicKey, SignedHead, Signer};

use crate::world::{at, key_file, seed, signer};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn signatures_are_those_of_rfc_8032() {
    let first = Signer::from_seed(&seed(0));
    assert_eq!(
        hex(&first.public().to_bytes()),
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    );
    assert_eq!(
        hex(first.sign(b"").as_bytes()),
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155\
         5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    );
    assert!(first.public().verifies(b"", &first.sign(b"")));
    assert!(!first.public().verifies(b"x", &first.sign(b"")));
}

#[test]
fn the_key_file_is_pinned() {
    let text = "windlass public key\n\
        id: 21fe31dfa154a261\n\
        created: 2026-05-28T20:26:40.000Z\n\
        retired: no\n\
        -----BEGIN PUBLIC KEY-----\n\
        MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n\
        -----END PUBLIC KEY-----\n";
    assert_eq!(key_file(&signer(0)).to_text(), text);
    assert_eq!(KeyFile::from_text(text), Ok(key_file(&signer(0))));
    assert_eq!(PublicKey::from_pem(text), Ok(signer(0).public()));
    let pem = text.split_inclusive('\n').skip(4).collect::<String>();
    assert_eq!(PublicKey::from_pem(&pem), Ok(signer(0).public()));
}

#[test]
fn weak_keys_are_refused() {
    for bytes in [
        [0; 32],
        [
            1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0,
        ],
    ] {
        assert!(PublicKey::from_bytes(&bytes).is_err());
    }
}

fn head() -> Head {
    Head {
        trace_id: TraceId(Uuid7::from_parts(1_780_000_000_000, [1; 10])),
        sequence_number: 7,
        entry_digest: Digest::of(b"entry"),
        state: Some(State::Terminal),
        tool_call_id: None,
    }
}

#[test]
fn the_signed_head_is_pinned() {
    let policy = Some(Digest::of(b"policy"));
    let signed = SignedHead::sign(&signer(0), &head(), Some("run-1"), policy, at(0)).unwrap();
    let text = String::from_utf8(canon::to_bytes(&signed).unwrap()).unwrap();
    assert_eq!(text, include_str!("signed_head.json").trim_end());
    assert!(signed.is_signed_by(&signer(0).public()) && signed.matches(&head()));
    assert!(!signed.is_signed_by(&signer(1).public()));
}

#[test]
fn every_field_of_a_signed_head_is_signed() {
    let good = SignedHead::sign(&signer(0), &head(), None, None, at(0)).unwrap();
    let key = signer(0).public();
    assert!(good.is_signed_by(&key));
    for change in [
        (|head: &mut SignedHead| head.entry_digest = Digest::of(b"x")) as fn(&mut SignedHead),
        |head| head.key_id = signer(1).public().id(),
        |head| head.policy_hash = Some(Digest::of(b"x")),
        |head| head.run_id = Some(String::new()),
        |head| head.sequence_number = 8,
        |head| head.state = State::Running,
        |head| head.trace_id = TraceId(Uuid7::from_parts(1, [1; 10])),
        |head| head.ts = at(1),
    ] {
        let mut bad = good.clone();
        change(&mut bad);
        assert_ne!(bad, good);
        assert!(!bad.is_signed_by(&key), "{bad:?}");
    }
    let empty = Head { state: None, ..head() };
    assert!(SignedHead::sign(&signer(0), &empty, None, None, at(0)).is_err());
}
