//! Payloads: bodies and keys of any bytes, text or length read back unchanged.

use windlass_kernel::Digest;
use windlass_kernel::artifact::Decider;

use super::Harness;
use super::fixture::{CallSpec, Ending, Fixture};
use super::keys::{record_of, start};
use super::watch::{assert_reads_back, hold, put};

pub(super) fn bodies_of_any_bytes_read_back(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let bodies = vec![
        (0..=u8::MAX).collect(),
        b"\0".to_vec(),
        b"a\0b\0".to_vec(),
        vec![0xff, 0xfe, 0xc0, 0x80],
        b"\xed\xa0\x80".to_vec(),
        "\u{feff}ünï©ødé 🪢 \u{202e}".into(),
        b"\r\n\t '; --".to_vec(),
        // The same bytes again, in another entry.
        b"\0".to_vec(),
    ];
    let trace = make.run_carrying(bodies);
    put(&*store, &trace);
    assert_reads_back(&*other, &trace, trace.len());
}

pub(super) fn an_empty_body_is_not_a_missing_one(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let trace = make.run_carrying(vec![Vec::new(), b"x".to_vec(), Vec::new()]);
    put(&*store, &trace);
    assert_reads_back(&*other, &trace, 3);
}

pub(super) fn a_body_of_a_megabyte_reads_back(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let result = format!(r#"{{"text":"{}"}}"#, "0123456789abcdef".repeat(1 << 16));
    let trace = make.call_of(&CallSpec { result, ..CallSpec::read(Ending::Completed) });
    assert!(trace.entry(4).body.len() > 1 << 20);
    put(&*store, &trace);
    assert_reads_back(&*other, &trace, 4);
    let noise = (0..1_u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let trace = make.run_carrying(vec![b"{}".to_vec(), noise]);
    put(&*store, &trace);
    assert_reads_back(&*other, &trace, 2);
}

pub(super) fn keys_and_bodies_of_any_text_read_back(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let texts = [
        "ключ-鍵-🔑".to_owned(),
        "a\0b".to_owned(),
        "\0".to_owned(),
        "\u{1}\u{7f}\u{85}\u{2028}\u{e000}\u{10ffff}".to_owned(),
        "'; DROP TABLE entries; --".to_owned(),
        "x".repeat(255),
        "🧶".repeat(255),
        "\0".repeat(255),
    ];
    for text in texts {
        let call = CallSpec {
            key: Some(text.clone()),
            args: r#"{"nul":"\u0000","text":"\u202e…🧵","":null}"#.into(),
            result: r#"["\u0000",{"é":"e\u0301"},-0.5,1e-7]"#.into(),
            ..CallSpec::read(Ending::Completed)
        };
        let trace = make.call_of(&call);
        let lease = start(&*store, &trace);
        let record = other.load_idempotency(&trace.slot()).unwrap();
        assert_eq!(record, Some(record_of(&trace, None)), "{text:?}");
        store.append(trace.append(&lease, 3, 1)).unwrap();
        let digest = trace.entry(4).entry.artifact_digest;
        let record = other.load_idempotency(&trace.slot()).unwrap();
        assert_eq!(record, Some(record_of(&trace, Some(digest))), "{text:?}");
        assert_reads_back(&*other, &trace, 4);
    }
    let trace = make.call(Ending::Completed);
    let lease = hold(&*store, &trace, 3);
    let mut redispatch = make.redispatch(2);
    let (entry_digest, trace_id) = (Digest::GENESIS, trace.trace_id);
    let names = vec!["Zoë\0🧑‍🚀".to_owned()];
    redispatch.by = Some(Decider::Hold { entry_digest, names, trace_id });
    redispatch.reason = "\0\u{202e}".into();
    store.record_redispatch(&lease, &redispatch).unwrap();
    assert_eq!(other.list_redispatches(trace.trace_id).unwrap(), [redispatch]);
}
