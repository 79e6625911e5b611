//! Values of known secrets are found in all their forms, and wherever a text is cut into chunks.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use proptest::prelude::*;
use windlass_redact::Redactor;

const VALUE: &str = "p@ss/w\"ö~?>rd 1";

fn redactor() -> Redactor {
    Redactor::new([("TOKEN".to_owned(), VALUE.to_owned())])
}

#[test]
fn base64_is_found_at_every_alignment() {
    // Bytes of which every second group has characters in which the two alphabets differ.
    for value in [VALUE, "hunter22", "??>>??>>~~", "123456"] {
        let redactor = Redactor::new([("T".to_owned(), value.to_owned())]);
        for before in 0..6 {
            for after in 0..4 {
                let text = [&vec![b'<'; before][..], value.as_bytes(), &vec![b'>'; after]].concat();
                for engine in [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD] {
                    let encoded = engine.encode(&text);
                    let found = redactor.redacted(&encoded);
                    assert!(found.contains("[redacted:T]"), "{value} {before} {after} {encoded}");
                    // At most the characters that the neighbours share with it are left.
                    let left = found.replace("[redacted:T]", "").len();
                    let shared = 4 * (before + after).div_ceil(3) + 4;
                    assert!(left <= shared, "{value} {before} {after} {encoded} {found}");
                }
            }
        }
        for engine in [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD] {
            assert_eq!(redactor.redacted(&engine.encode(value)), "[redacted:T]", "{value}");
        }
    }
}

#[test]
fn a_secret_that_begins_with_another_is_taken_out_as_a_whole() {
    for names in [["SHORT", "LONG"], ["LONG", "SHORT"]] {
        let value = |name: &str| if name == "SHORT" { "hunter22" } else { "hunter22-and-more" };
        let all = names.map(|name| (name.to_owned(), value(name).to_owned()));
        let redactor = Redactor::new(all);
        let text = redactor.redacted("a hunter22-and-more b hunter22 c");
        assert_eq!(text, "a [redacted:LONG] b [redacted:SHORT] c");
        let encoded = redactor.redacted(&STANDARD.encode("hunter22-and-more"));
        assert!(!encoded.contains(&STANDARD.encode("-and-more")[2..8]), "{encoded}");
    }
}

#[test]
fn other_encodings_are_found() {
    let hex: String = VALUE.bytes().map(|byte| format!("{byte:02x}")).collect();
    let json = serde_json::to_string(VALUE).unwrap();
    let forms = [
        VALUE.to_owned(),
        hex.clone(),
        hex.to_uppercase(),
        "p%40ss%2Fw%22%C3%B6~%3F%3Erd%201".to_owned(),
        "p%40ss%2fw%22%c3%b6~%3f%3erd%201".to_owned(),
        "p%40ss%2Fw%22%C3%B6~%3F%3Erd+1".to_owned(),
        json.trim_matches('"').to_owned(),
        "p@ss\\/w\\\"ö~?>rd 1".to_owned(),
        "p@ss/w\\\"\\u00f6~?>rd 1".to_owned(),
    ];
    for form in forms {
        let text = format!("a {form} b");
        assert_eq!(redactor().redacted(&text), "a [redacted:TOKEN] b", "{form}");
    }
}

/// Ways to write a value, each with every byte escaped.
fn escaped_forms(value: &str) -> Vec<String> {
    let bytes = |write: fn(u8) -> String| value.bytes().map(write).collect::<String>();
    let chars = |write: fn(char) -> String| value.chars().map(write).collect::<String>();
    let units = |write: fn(u16) -> String| value.encode_utf16().map(write).collect::<String>();
    vec![
        bytes(|byte| format!("%{byte:02X}")),
        bytes(|byte| format!("%{byte:02x}")),
        bytes(|byte| format!("\\x{byte:02x}")),
        bytes(|byte| format!("\\x{byte:02X}")),
        bytes(|byte| format!("\\{byte:03o}")),
        units(|unit| format!("\\u{unit:04x}")),
        units(|unit| format!("\\u{unit:04X}")),
        units(|unit| format!("\\\\u{unit:04x}")),
        bytes(|byte| if byte % 2 == 0 { format!("%{byte:02x}") } else { format!("%{byte:02X}") }),
        chars(|char| format!("&#{};", u32::from(char))),
        chars(|char| format!("&#x{:x};", u32::from(char))),
        chars(|char| format!("&#X{:08X};", u32::from(char))),
        bytes(|byte| format!("{byte:02x} ")).trim_end().to_owned(),
        bytes(|byte| format!("{byte:02X}:")).trim_end_matches(':').to_owned(),
        bytes(|byte| format!("{byte:02x}\n")).trim_end().to_owned(),
    ]
}

#[test]
fn escapes_of_every_byte_are_found() {
    for value in [VALUE, "s3cr3tvalue", "back\\slash\\es", "ann 🦀 crab"] {
        let redactor = Redactor::new([("T".to_owned(), value.to_owned())]);
        for form in escaped_forms(value) {
            let text = format!("a={form};b");
            let found = redactor.redacted(&text);
            assert!(found.contains("[redacted:T];b"), "{value} {form} {found}");
            assert!(
                found.trim_start_matches("a=").trim_start_matches('\\').starts_with('['),
                "{found}"
            );
        }
    }
    // Half of it escaped, as a person would write it.
    let redactor = Redactor::new([("T".to_owned(), "s3cr3tvalue".to_owned())]);
    for text in [
        "s%33cr%33tvalue",
        "s&#51;cr&#x33;tvalue",
        "\\u0073\\u0033cr3tvalue",
        "s3cr\\x33tv%61lue",
        "s3cr3t\\valu\\u0065",
    ] {
        assert_eq!(redactor.redacted(text), "[redacted:T]", "{text}");
        assert!(redactor.find_text(text).is_some(), "{text}");
    }
    for text in
        ["s&#51cr&#;tvalue", "s%33cr%3tvalue", "s3cr 3tvalue", "s3cr3t:value", "%73%33%63%72%33"]
    {
        assert_eq!(redactor.redacted(text), text, "{text}");
    }
}

#[test]
fn utf_16_is_found() {
    let units: Vec<u16> = VALUE.encode_utf16().collect();
    for bytes in [
        units.iter().flat_map(|unit| unit.to_le_bytes()).collect::<Vec<u8>>(),
        units.iter().flat_map(|unit| unit.to_be_bytes()).collect(),
    ] {
        let redactor = redactor();
        let mut stream = redactor.stream();
        stream.push(&bytes);
        assert_eq!(stream.finish(), b"[redacted:TOKEN]");
    }
}

#[test]
fn wrapped_base64_is_found() {
    let value = "0123456789abcdefghijklmnopqrstuvwxyz".repeat(4);
    let redactor = Redactor::new([("T".to_owned(), value.clone())]);
    for width in [19, 60, 64, 76] {
        for (end, before) in [("\n", ""), ("\r\n", "x: "), ("\\n", "{"), ("\n  ", "")] {
            let encoded = STANDARD.encode(&value);
            let lines: Vec<&str> = encoded
                .as_bytes()
                .chunks(width)
                .map(|line| std::str::from_utf8(line).unwrap())
                .collect();
            let text = format!("{before}{}", lines.join(end));
            assert_eq!(
                redactor.redacted(&text),
                format!("{before}[redacted:T]"),
                "{width} {end:?}"
            );
        }
    }
}

#[test]
fn lines_of_a_value_are_found_by_themselves() {
    let redactor =
        Redactor::new([("KEY".to_owned(), "first line of it all\nsecond line of it".into())]);
    assert_eq!(redactor.redacted("+ second line of it\n"), "+ [redacted:KEY]\n");
}

#[test]
fn a_secret_that_is_part_of_another_is_replaced_with_it() {
    let known =
        [("SHORT", "abcdef"), ("LONG", "abcdefghij"), ("INNER", "cdefgh"), ("END", "ghijkl")];
    let redactor = Redactor::new(known.map(|(name, value)| (name.to_owned(), value.to_owned())));
    for (text, expected) in [
        ("abcdef", "[redacted:SHORT]"),
        ("abcdefghij", "[redacted:LONG]"),
        ("abcdefghi", "[redacted:SHORT]i"),
        ("abcdefghijkl", "[redacted:LONG]"),
        ("xcdefghijkl", "x[redacted:INNER]"),
        ("abcdefabcdef", "[redacted:SHORT][redacted:SHORT]"),
    ] {
        assert_eq!(redactor.redacted(text), expected, "{text}");
    }
}

#[test]
fn values_that_are_too_short_are_left_out() {
    let redactor = Redactor::new([("T".to_owned(), "abcde".to_owned())]);
    assert_eq!(redactor.redacted("abcde"), "abcde");
}

/// A text with something of every kind, near to each other.
fn text() -> String {
    let token = format!("gh{}{}", "p_", "aB3".repeat(13));
    let jwt = format!("{}.{}.sig", "eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiIxMjM0NTY3ODkwIn0");
    let key = format!("-----BEGIN {0} KEY-----\nMIIE\n-----END {0} KEY-----", "PRIVATE");
    format!(
        "é {VALUE}{token} {jwt}\npostgres://app:hunter2@db {key}{}Authorization: Bearer {token}",
        STANDARD.encode(VALUE)
    )
}

fn in_chunks(redactor: &Redactor, chunks: &[&[u8]]) -> String {
    let mut stream = redactor.stream();
    let mut redacted: Vec<u8> = chunks.iter().flat_map(|chunk| stream.push(chunk)).collect();
    redacted.extend(stream.finish());
    String::from_utf8(redacted).unwrap()
}

#[test]
fn every_cut_into_two_and_three_gives_the_same_as_the_whole() {
    let redactor = redactor();
    let whole = redactor.redacted(&text());
    for left in ["hunter2", "aB3", "MIIE"] {
        assert!(!whole.contains(left), "{whole}");
    }
    let begin = format!("-----BEGIN {} KEY-----\n", "PRIVATE");
    let short = format!("{VALUE}a://b:cdefgh@i {}{begin}MII", STANDARD.encode(VALUE));
    for (text, cuts) in [(text(), 2), (short, 3)] {
        let whole = redactor.redacted(&text);
        for first in 0..=text.len() {
            let (start, rest) = text.as_bytes().split_at(first);
            assert_eq!(in_chunks(&redactor, &[start, rest]), whole, "{first}");
            for second in (0..=rest.len()).filter(|_| cuts == 3) {
                let (middle, end) = rest.split_at(second);
                assert_eq!(in_chunks(&redactor, &[start, middle, end]), whole, "{first} {second}");
            }
        }
    }
}

#[test]
fn cuts_of_a_text_longer_than_what_is_held_back_give_the_same() {
    let redactor = redactor();
    let long_key = format!(
        "-----BEGIN {0} KEY-----\n{1}\n-----END {0} KEY-----\n",
        "PRIVATE",
        "MIIE".repeat(900)
    );
    let long_token = format!("gh{}{}", "p_", "aB3".repeat(1500));
    let text =
        [&"ordinary words\n".repeat(90), &text(), &long_key, &text(), &long_token, " x ", &text()]
            .concat();
    let whole = redactor.redacted(&text);
    assert!(!whole.contains("MIIE") && !whole.contains("aB3"), "{whole}");
    for size in [1, 2, 3, 7, 64, 200, 999, 1535, 1536, 1537, 4096] {
        let chunks: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
        assert_eq!(in_chunks(&redactor, &chunks), whole, "{size}");
    }
}

#[test]
fn a_stream_passes_on_what_cannot_be_a_secret() {
    let redactor = redactor();
    let mut stream = redactor.stream();
    let chunk = "ordinary words\n".repeat(1000);
    let passed = stream.push(chunk.as_bytes());
    assert_eq!(chunk.len() - passed.len(), 1536);
}

proptest! {
    #[test]
    fn random_texts_and_cuts_give_the_same(
        parts in proptest::collection::vec(prop_oneof![
            Just(VALUE.to_owned()),
            Just(STANDARD.encode(VALUE)),
            proptest::sample::select(escaped_forms(VALUE)),
            Just(STANDARD.encode(VALUE).replace('h', "h\n")),
            "[%\\\\u0-9 :]{0,12}",
            Just(format!("gh{}{}", "p_", "aB3".repeat(13))),
            Just(format!("-----BEGIN {} KEY-----\n", "PRIVATE")),
            Just(format!("-----END {} KEY-----\n", "PRIVATE")),
            Just("://a:bcdefg@h".to_owned()),
            Just("Authorization: Bearer ".to_owned()),
            Just("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0".to_owned()),
            Just("words ".repeat(200)),
            "[a-zA-Z0-9 =:_./-]{0,12}",
        ], 0..12),
        sizes in proptest::collection::vec(1_usize..2500, 1..20),
    ) {
        let redactor = redactor();
        let text = parts.concat();
        let whole = redactor.redacted(&text);
        prop_assert!(!whole.contains(VALUE));
        let mut rest = text.as_bytes();
        let mut chunks: Vec<&[u8]> = Vec::new();
        for size in sizes.iter().cycle() {
            if rest.is_empty() { break; }
            let (chunk, more) = rest.split_at((*size).min(rest.len()));
            chunks.push(chunk);
            rest = more;
        }
        prop_assert_eq!(in_chunks(&redactor, &chunks), whole);
    }
}
