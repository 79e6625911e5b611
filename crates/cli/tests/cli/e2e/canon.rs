//! `windlass canon`.

use serde_json::Value;

use crate::harness::{Place, vectors};

fn bytes_of(case: &Value) -> Vec<u8> {
    match case["text_hex"].as_str() {
        Some(hex) => decode(hex),
        None => case["text"].as_str().unwrap().as_bytes().to_vec(),
    }
}

fn decode(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn every_accepted_text_has_its_bytes_and_its_digest() {
    let place = Place::new();
    let vectors = vectors("canon/canonical_json.json");
    let cases = vectors["accepted"].as_array().unwrap();
    assert!(cases.len() >= 20);
    for case in cases {
        let canonical = place.feed(&["canon"], &bytes_of(case)).exit(0).quiet();
        assert_eq!(canonical.stdout, decode(case["canonical_hex"].as_str().unwrap()), "{case}");
        let digest = place.feed(&["canon", "--digest"], &bytes_of(case)).exit(0).quiet();
        assert_eq!(digest.text(), format!("{}\n", case["sha256"].as_str().unwrap()), "{case}");
    }
}

#[test]
fn every_refused_text_has_its_code() {
    let place = Place::new();
    let vectors = vectors("canon/canonical_json.json");
    let cases = vectors["refused"].as_array().unwrap();
    assert!(cases.len() >= 43);
    // The command's own limit is larger than that of some cases.
    for case in cases.iter().filter(|case| case["bytes_max"].is_null()) {
        let code = case["code"].as_str().unwrap();
        place.feed(&["canon"], &bytes_of(case)).fails_with(2, code).warns("hint: ");
        let error = place.feed(&["canon", "--digest", "--json"], &bytes_of(case)).exit(2).error();
        assert_eq!(error["code"], code, "{case}");
    }
}

#[test]
fn the_limit_is_ten_megabytes() {
    let place = Place::new();
    let mut text = vec![b' '; (10 << 20) - 1];
    text.push(b'1');
    assert_eq!(place.feed(&["canon"], &text).exit(0).stdout, b"1");
    text.push(b' ');
    place.feed(&["canon"], &text).fails_with(2, "DOC_SIZE_EXCEEDED");
}
