//! Tests canonical JSON against its rules and against other encoders.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn canon(text: &str) -> Result<String, Code> {
    let value = parse(text.as_bytes(), 1 << 20).map_err(|error| error.code())?;
    let bytes = to_bytes(&value).map_err(|error| error.code())?;
    Ok(String::from_utf8(bytes).unwrap())
}

#[test]
fn keys_are_sorted_by_utf16_and_numbers_are_ecmascript() {
    assert_eq!(
        canon(r#"{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"ö":7}"#).unwrap(),
        "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\u{fb33}\":3}"
    );
    assert_eq!(
        canon("[333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001, -0, -0.0]")
            .unwrap(),
        "[333333333.3333333,1e+30,4.5,0.002,1e-27,0,0]"
    );
}

#[test]
fn unsafe_numbers_are_refused_never_rounded() {
    assert_eq!(canon("9007199254740991").unwrap(), "9007199254740991");
    assert_eq!(canon("-9007199254740991").unwrap(), "-9007199254740991");
    for text in [
        "9007199254740992",
        "-9007199254740992",
        "[9007199254740993]",
        "18446744073709551615",
        "18446744073709551616",
        "1000000000000000000000000000000",
        "1e20",
        "9007199254740992.0",
        r#"{"a":"\"9","b":99999999999999999}"#,
    ] {
        assert_eq!(canon(text), Err(Code::JsonNumberUnsafe), "{text}");
    }
    assert_eq!(canon("1e400"), Err(Code::JsonInvalid));
}

#[test]
fn digits_inside_strings_are_not_numbers() {
    assert_eq!(
        canon(r#"["99999999999999999999","\\","\"99999999999999999999"]"#).unwrap(),
        r#"["99999999999999999999","\\","\"99999999999999999999"]"#
    );
}

#[test]
fn duplicate_keys_are_refused_even_if_escaped() {
    assert_eq!(canon(r#"{"a":1,"\u0061":2}"#), Err(Code::JsonDuplicateKey));
    assert_eq!(canon(r#"[{"a":{"b":1,"b":1}}]"#), Err(Code::JsonDuplicateKey));
}

#[test]
fn what_may_be_recorded_can_be_read_in_a_document() {
    let nested = |levels: usize| {
        let mut value = Value::Null;
        for level in 0..levels {
            value = if level % 2 == 0 { json!([value]) } else { json!({ "a": value }) };
        }
        value
    };
    for (levels, fits) in [(0, true), (1, true), (64, true), (65, false), (127, false)] {
        let value = nested(levels);
        assert_eq!(check(&value).is_ok(), fits, "{levels}");
        assert_eq!(measure(&value).is_ok(), fits, "{levels}");
        // A document can have it inside.
        let bytes = value_to_bytes(&value).unwrap();
        assert_eq!(parse(&bytes, 1000).unwrap(), value, "{levels}");
    }
    let error = value_to_bytes(&nested(128)).unwrap_err();
    assert_eq!(error.code(), Code::DocSizeExceeded, "{error}");
    // One more level than the reader reads is never written.
    assert!(parse("[".repeat(128).as_bytes(), 1000).is_err());
}

#[test]
fn invalid_json_is_refused() {
    for text in ["", "{", r#""\ud800""#, "01", "[1,]", "NaN", "{} {}", "'a'", "\u{feff}1"] {
        assert_eq!(canon(text), Err(Code::JsonInvalid), "{text}");
    }
    assert_eq!(parse(b"\"\xff\"", 99).unwrap_err().code(), Code::JsonInvalid);
    assert_eq!(parse(b"[1,2]", 4).unwrap_err().code(), Code::DocSizeExceeded);
    let deep = "[".repeat(100_000);
    assert_eq!(canon(&deep), Err(Code::JsonInvalid));
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-INTEGER_MAX..=INTEGER_MAX).prop_map(Value::from),
        any::<f64>().prop_map(|double| if double.is_finite() {
            Value::from(double)
        } else {
            Value::Null
        }),
        any::<String>().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            proptest::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn canonical_bytes_read_back_the_same_and_agree_with_a_second_encoder(value in json()) {
        if let Ok(bytes) = to_bytes(&value) {
            prop_assert_eq!(&bytes, &serde_jcs::to_vec(&value).unwrap());
            prop_assert_eq!(bytes.len(), measure(&value).unwrap());
            prop_assert_eq!(&bytes, &serde_json_canonicalizer::to_vec(&value).unwrap());
            let again = parse(&bytes, usize::MAX).unwrap();
            prop_assert_eq!(to_bytes(&again).unwrap(), bytes);
        }
    }
}
