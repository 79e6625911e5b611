//! Canonical bytes: of entries and documents, and of texts that are parsed first.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use windlass_kernel::{Digest, SCHEMA_VERSION, canon};

use super::fixture::Call;

/// Values with their canonical bytes and digest.
pub fn values(calls: &[Call]) -> Result<Value> {
    let mut rows = Vec::new();
    for call in calls {
        let entry = call.entries.last().context("a call has an entry")?;
        let mut value = serde_json::to_value(entry)?;
        value.as_object_mut().context("an entry is an object")?.remove("entry_digest");
        rows.push(row(&format!("entry-{}", call.name), &value)?);
    }
    for (name, value) in documents() {
        rows.push(row(name, &value)?);
    }
    Ok(Value::Array(rows))
}

fn row(name: &str, value: &Value) -> Result<Value> {
    let bytes = canon::to_bytes(value)?;
    Ok(json!({
        "name": name,
        "value": value,
        "canonical_hex": hex(&bytes),
        "sha256": Digest::of(&bytes),
    }))
}

/// Formats bytes as lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn documents() -> Vec<(&'static str, Value)> {
    vec![
        ("null", Value::Null),
        ("empty-object", json!({})),
        ("empty-array", json!([])),
        ("nulls-are-kept", json!({ "b": null, "a": [null, { "c": null }] })),
        (
            "keys-are-sorted",
            json!({ "b": 1, "a": 2, "aa": 3, "A": 4, "": 5, "1": 6, "10": 7, "2": 8 }),
        ),
        (
            "keys-are-sorted-by-utf16-units",
            json!({ "\u{20ac}": 1, "\r": 2, "\u{fb33}": 3, "\u{1f600}": 4, "\u{80}": 5, "ö": 6 }),
        ),
        (
            "escapes",
            json!("\u{0}\u{1}\u{7}\u{8}\t\n\u{b}\u{c}\r\u{1f} \"\\/\u{7f}\u{80}\u{2028}\u{2029}"),
        ),
        ("no-normalisation", json!({ "é": "composed", "e\u{301}": "decomposed" })),
        ("integers", json!([0, 1, -1, 9_007_199_254_740_991_i64, -9_007_199_254_740_991_i64])),
        ("fractions", json!([0.5, -0.25, 0.1, 1.1, 333_333_333.333_333_3, 0.000_001, 1e-7])),
        ("exponents", json!([1e21, 1e-27, 1.5e300, 5e-324, 1.797_693_134_862_315_7e308])),
        ("integral-doubles", json!([1.0, -0.0, 100.0, 9_007_199_254_740_991.0])),
        ("nested", json!({ "z": [{ "y": [[], {}, [true, false]] }], "a": { "b": { "c": "d" } } })),
    ]
}

/// The file of texts that are parsed strictly and written canonically.
pub fn texts() -> Result<Value> {
    Ok(json!({
        "comment": "JSON texts as they are read. `accepted` have these canonical bytes (RFC 8785, \
            hex) and SHA-256; `refused` have this error code. A text that is not UTF-8 is given \
            as `text_hex`. `bytes_max` is the reader's limit, 1048576 where it is absent. Nesting \
            deeper than 127 levels is refused.",
        "schema_version": SCHEMA_VERSION,
        "accepted": accepted()?,
        "refused": refused(),
    }))
}

fn accepted() -> Result<Vec<Value>> {
    let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
    let rows: Vec<(&str, &str)> = vec![
        ("null", "null"),
        ("white-space", " \t\r\n{ \"b\" : [ 1 , 2 ] ,\n\"a\" : null } \n"),
        ("sorted-keys", r#"{"b":1,"a":2,"B":3,"":4}"#),
        (
            "utf16-order",
            r#"{"\ufb33":1,"\ud83d\ude00":2,"\u20ac":3,"\r":4,"1":5,"\u0080":6,"ö":7}"#,
        ),
        ("escapes-become-characters", r#"["\u0041\u00e9\u65e5\/","\ud83d\ude00"]"#),
        ("escapes-that-stay", r#""\u0000\u001f\b\t\n\f\r\"\\""#),
        ("delete-is-not-escaped", "\"\\u007f\u{7f}\""),
        ("line-separators-are-not-escaped", r#""\u2028\u2029""#),
        ("no-normalisation", r#"["\u00e9","e\u0301"]"#),
        ("same-letters-other-form-are-two-keys", r#"{"\u00e9":1,"e\u0301":2}"#),
        ("same-key-in-two-objects", r#"[{"a":1},{"a":2},{"a":{"a":3}}]"#),
        ("digits-in-text", r#"["99999999999999999999","\"99999999999999999999","\\"]"#),
        ("largest-integers", "[9007199254740991,-9007199254740991]"),
        ("zeros", "[0,-0,0.0,-0.0,0e5]"),
        ("integral-doubles", "[1.0,10e1,1E2,1e0,9007199254740991.0]"),
        ("fractions", "[333333333.33333329,4.50,2e-3,0.1,0.000001,0.0000001]"),
        ("exponents", "[1E30,1e21,1e-27,5e-324,1.7976931348623157e308]"),
        ("underflow-is-zero", "1e-400"),
        ("true-false", "[true,false]"),
        ("deep", &deep),
    ];
    rows.into_iter()
        .map(|(name, text)| {
            let value = canon::parse(text.as_bytes(), 1 << 20).context(name.to_owned())?;
            let bytes = canon::to_bytes(&value).context(name.to_owned())?;
            Ok(json!({
                "name": name,
                "text": text,
                "canonical_hex": hex(&bytes),
                "sha256": Digest::of(&bytes),
            }))
        })
        .collect()
}

/// The expected codes are written by hand, never computed.
fn refused() -> Vec<Value> {
    let deep = format!("{}{}", "[".repeat(128), "]".repeat(128));
    let text = [
        ("empty", "", "JSON_INVALID"),
        ("only-white-space", " \n", "JSON_INVALID"),
        ("cut-off", r#"{"a":"#, "JSON_INVALID"),
        ("two-values", "{} {}", "JSON_INVALID"),
        ("trailing-comma", "[1,]", "JSON_INVALID"),
        ("leading-zero", "01", "JSON_INVALID"),
        ("plus-sign", "+1", "JSON_INVALID"),
        ("bare-point", "[.5]", "JSON_INVALID"),
        ("point-at-the-end", "[1.]", "JSON_INVALID"),
        ("hexadecimal", "0x10", "JSON_INVALID"),
        ("not-a-number", "NaN", "JSON_INVALID"),
        ("infinity", "[-Infinity]", "JSON_INVALID"),
        ("overflow", "1e400", "JSON_INVALID"),
        ("single-quotes", "'a'", "JSON_INVALID"),
        ("key-without-quotes", "{a:1}", "JSON_INVALID"),
        ("comment", "[1] // one", "JSON_INVALID"),
        ("byte-order-mark", "\u{feff}1", "JSON_INVALID"),
        ("control-character-in-text", "\"\n\"", "JSON_INVALID"),
        ("unknown-escape", r#""\x41""#, "JSON_INVALID"),
        ("lone-high-surrogate", r#""\ud800""#, "JSON_INVALID"),
        ("lone-low-surrogate", r#""\udc00""#, "JSON_INVALID"),
        ("lone-surrogate-in-a-key", r#"{"\ud800":1}"#, "JSON_INVALID"),
        ("swapped-surrogates", r#""\ude00\ud83d""#, "JSON_INVALID"),
        ("too-deep", &deep, "JSON_INVALID"),
        ("duplicate-key", r#"{"a":1,"a":1}"#, "JSON_DUPLICATE_KEY"),
        ("duplicate-key-escaped", r#"{"a":1,"\u0061":2}"#, "JSON_DUPLICATE_KEY"),
        ("duplicate-key-deep-down", r#"[{"a":{"b":1,"c":2,"b":3}}]"#, "JSON_DUPLICATE_KEY"),
        ("duplicate-empty-key", r#"{"":1,"":2}"#, "JSON_DUPLICATE_KEY"),
        ("first-unsafe-integer", "9007199254740992", "JSON_NUMBER_UNSAFE"),
        ("first-unsafe-negative", "[-9007199254740992]", "JSON_NUMBER_UNSAFE"),
        ("rounds-down", r#"{"a":9007199254740993}"#, "JSON_NUMBER_UNSAFE"),
        ("largest-u64", "18446744073709551615", "JSON_NUMBER_UNSAFE"),
        ("beyond-u64", "18446744073709551616", "JSON_NUMBER_UNSAFE"),
        ("thirty-digits", "100000000000000000000000000000", "JSON_NUMBER_UNSAFE"),
        ("integral-double-unsafe", "9007199254740992.0", "JSON_NUMBER_UNSAFE"),
        ("exponent-that-writes-as-integer", "1e20", "JSON_NUMBER_UNSAFE"),
        ("unsafe-after-text", r#"{"a":"\"9","b":99999999999999999}"#, "JSON_NUMBER_UNSAFE"),
    ];
    let mut rows: Vec<Value> = text
        .iter()
        .map(|(name, text, code)| json!({ "name": name, "text": text, "code": code }))
        .collect();
    for (name, bytes) in [
        ("not-utf-8", "22ff22"),
        ("overlong-utf-8", "22c0af22"),
        ("surrogate-in-utf-8", "22eda08022"),
        ("utf-16", "fffe3100"),
    ] {
        rows.push(json!({ "name": name, "text_hex": bytes, "code": "JSON_INVALID" }));
    }
    for (name, text, bytes_max) in
        [("too-long", "[1,2]", 4), ("too-long-by-white-space", "1    ", 4)]
    {
        rows.push(json!({
            "name": name, "text": text, "bytes_max": bytes_max, "code": "DOC_SIZE_EXCEEDED",
        }));
    }
    rows
}
