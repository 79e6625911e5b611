//! The YAML that is written reads back the same, by two readers, and its bytes are pinned.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use windlass_formats::yaml::{DEPTH_MAX, EmitError, YamlProblem, emit, read};
use windlass_text::{DecodeProblem, Position};
use yaml_rust2::{Yaml, YamlLoader};

fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/packets")
}

/// What the second reader makes of a text.
fn second(text: &str) -> Value {
    let documents = YamlLoader::load_from_str(text).unwrap_or_else(|e| panic!("{e}:\n{text}"));
    match documents.as_slice() {
        [document] => converted(document),
        other => panic!("{} documents:\n{text}", other.len()),
    }
}

fn converted(yaml: &Yaml) -> Value {
    match yaml {
        Yaml::Null => Value::Null,
        Yaml::Boolean(value) => (*value).into(),
        Yaml::Integer(value) => (*value).into(),
        Yaml::Real(text) => text.parse::<f64>().unwrap().into(),
        Yaml::String(text) => text.as_str().into(),
        Yaml::Array(items) => items.iter().map(converted).collect(),
        Yaml::Hash(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| {
                let key = key.as_str().unwrap_or_else(|| panic!("the key {key:?} is no string"));
                (key.to_owned(), converted(value))
            });
            Value::Object(pairs.collect::<Map<String, Value>>())
        }
        Yaml::Alias(_) | Yaml::BadValue => panic!("{yaml:?}"),
    }
}

fn both_read(value: &Value) -> String {
    let text = emit(value).unwrap();
    assert_eq!(&read(text.as_bytes(), usize::MAX).unwrap(), value, "{text}");
    assert_eq!(&second(&text), value, "{text}");
    text
}

const TRICKY: &[&str] = &[
    "",
    " ",
    "no",
    "No",
    "yes",
    "on",
    "off",
    "y",
    "N",
    "~",
    "null",
    "Null",
    "NULL",
    "true",
    "False",
    "1_000",
    "0x1F",
    "0o17",
    "017",
    "0b11",
    "1e3",
    "1E-3",
    "1.",
    ".5",
    "+1",
    "-1",
    "-",
    "--",
    "---",
    "...",
    "12:30:45",
    "2026-02-02",
    "2026-02-02T12:00:00Z",
    " leading",
    "trailing ",
    "a: b",
    "a:b",
    "a:",
    ":a",
    ":",
    "# c",
    "a # c",
    "a#c",
    "&a",
    "*a",
    "!a",
    "!!str a",
    "%a",
    "@a",
    "`a",
    "'",
    "''",
    "\"",
    "\"a\"",
    "'a'",
    "a'b",
    "{",
    "}",
    "{}",
    "[",
    "]",
    "[]",
    ",",
    "?",
    "? a",
    "- a",
    "<<",
    "=",
    "|",
    ">",
    "a\\b",
    "\\n",
    "a\nb",
    "a\n",
    "\na",
    "a\r\nb",
    "\r",
    "\t",
    "a\tb",
    "\0",
    "\u{7}",
    "\u{1b}[31m",
    "\u{7f}",
    "\u{85}",
    "\u{a0}",
    "\u{ad}",
    "\u{2028}",
    "\u{2029}",
    "\u{feff}",
    "\u{feff}a",
    "\u{202e}evil",
    "\u{200b}",
    "\u{ffff}",
    "\u{10ffff}",
    "é",
    "über",
    "日本語",
    "🙂",
    "a 🙂 b",
    ".inf",
    "-.inf",
    ".nan",
    ".NaN",
    "inf",
    "nan",
    "NaN",
    "Infinity",
    "infinity",
    "e5",
    "_1",
    "_",
    "/",
    "/a/b",
    "http://x.test/?a=b",
    "key: [1, 2]",
    "a, b",
    "a; b",
    "(a)",
    "a  b",
    "0",
    "00",
    "0.0",
    "1e999",
    "9007199254740993",
    "99999999999999999999",
    "None",
    "none",
];

#[test]
fn strings_that_look_like_something_else_stay_strings() {
    for text in TRICKY {
        both_read(&json!(text));
        both_read(&json!([text, [text], { *text: text }]));
        both_read(&json!({ *text: [text, { *text: [] }], "z": { *text: text } }));
    }
    both_read(&TRICKY.iter().map(|text| ((*text).to_owned(), json!(text))).collect::<Value>());
}

#[test]
fn the_form_is_that_of_the_packets() {
    let value = json!({
        "b": ["x", ["y", ["z"], []], { "k": 1, "a": { "deep": [true] } }, {}],
        "a": { "list": [1.5, -2, null], "empty": {}, "quoted": "12", "plain": "Implement feature X" },
        "time": "2026-02-02T12:00:00Z",
        "lines": "one\ntwo",
        "10": "it's",
    });
    let expected = "\
'10': 'it''s'
a:
  empty: {}
  list:
  - 1.5
  - -2
  - null
  plain: Implement feature X
  quoted: '12'
b:
- x
- - 'y'
  - - z
  - []
- a:
    deep:
    - true
  k: 1
- {}
lines: \"one\\ntwo\"
time: '2026-02-02T12:00:00Z'
";
    assert_eq!(both_read(&value), expected);
}

#[test]
fn every_vector_is_written_and_read_as_pinned() {
    let mut count = 0;
    for entry in std::fs::read_dir(vectors()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let pinned = std::fs::read_to_string(&path).unwrap();
        let input = std::fs::read(path.with_extension("json")).unwrap();
        let value: Value = serde_json::from_slice(&input).unwrap();
        assert_eq!(both_read(&value), pinned, "{}", path.display());
        count += 1;
    }
    assert!(count >= 6, "{count} vectors");
}

#[test]
fn what_readers_would_not_keep_is_refused() {
    let unsafe_numbers = [json!(9_007_199_254_740_992_i64), json!(u64::MAX), json!(i64::MIN)];
    for number in unsafe_numbers {
        assert_eq!(emit(&number), Err(EmitError::UnsafeNumber(number.to_string())));
    }
    assert_eq!(emit(&json!({ "k".repeat(1001): 1 })), Err(EmitError::KeyTooLong("k".repeat(40))));
    both_read(&json!({ "k".repeat(1000): { "\u{1}".repeat(200): 1 } }));
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    assert_eq!(emit(&nested(DEPTH_MAX + 1)), Err(EmitError::TooDeep));
    both_read(&nested(DEPTH_MAX));
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({ "a": inner }));
    assert_eq!(emit(&nested(DEPTH_MAX + 1)), Err(EmitError::TooDeep));
    both_read(&nested(DEPTH_MAX));
}

fn refusal(text: &str) -> YamlProblem {
    match read(text.as_bytes(), 1 << 20) {
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "{error}");
            error.problem
        }
        Ok(value) => panic!("read as {value}: {text}"),
    }
}

#[test]
fn only_the_plain_part_of_yaml_is_read() {
    for text in [
        "!!str a",
        "a: !!str b",
        "- !x y",
        "!!map {a: 1}",
        "a: !!binary aGk=",
        "!!str a: 1",
        "[!!int '5']",
        "a: ! b",
        "{a: {b: !local c}}",
    ] {
        let error = refusal(text);
        assert!(matches!(error, YamlProblem::Tag), "{text}: {error:?}");
    }
    for text in ["a: &x 1", "a: &x 1\nb: *x", "b: *x", "&x [1]", "&k a: 1"] {
        let error = refusal(text);
        assert!(matches!(error, YamlProblem::Anchor | YamlProblem::Alias), "{text}: {error:?}");
    }
    for text in ["<<: {a: 1}", "a:\n  <<: {b: 1}"] {
        let error = refusal(text);
        assert!(matches!(error, YamlProblem::MergeKey), "{text}: {error:?}");
    }
    for text in ["a: 1\na: 2", "{a: 1, 'a': 2}", "- b: 1\n  \"b\": 2", "a: 1\n\"\\x61\": 2"] {
        let error = refusal(text);
        assert!(matches!(error, YamlProblem::DuplicateKey { .. }), "{text}: {error:?}");
    }
    for text in ["a: 1\n---\nb: 2", "1\n---\n2", "--- a\n...\n--- b"] {
        let error = refusal(text);
        assert!(matches!(error, YamlProblem::SecondDocument), "{text}: {error:?}");
    }
    let deep = format!("{}1{}", "[".repeat(DEPTH_MAX + 1), "]".repeat(DEPTH_MAX + 1));
    assert!(matches!(refusal(&deep), YamlProblem::TooDeep));
    for part in ["[", "{a: ", "- "] {
        let error = refusal(&part.repeat(100_000));
        assert!(matches!(error, YamlProblem::TooDeep), "{part}: {error:?}");
    }
    for text in ["? ".repeat(100_000).as_str(), "[1]: 2", "{a: 1}: 2", "1: 2"] {
        assert_eq!(refusal(text), YamlProblem::KeyNotText);
    }
    for text in ["a: [1", "a: 'b", "a:\n- 1\n b: 2"] {
        let error = refusal(text);
        assert!(matches!(error, YamlProblem::Syntax(_)), "{text}: {error:?}");
    }
    for text in ["a: 1e999", "a: 99999999999999999999"] {
        let error = refusal(text);
        assert!(matches!(error, YamlProblem::NumberOutOfRange(_)), "{text}: {error:?}");
    }
    for text in ["a: .nan", "a: 0x1F", "a: 1_000", "a: 12:30"] {
        let error = refusal(text);
        assert!(matches!(error, YamlProblem::Ambiguous { .. }), "{text}: {error:?}");
    }
    let not_text =
        |problem, column| Err(YamlProblem::NotText(problem).at(Position { line: 1, column }));
    assert_eq!(read(b"a: \xff", 99), not_text(DecodeProblem::NotUtf8, 4));
    assert_eq!(read(b"a: \0", 99), not_text(DecodeProblem::Nul, 4));
    let too_large = DecodeProblem::TooLarge { bytes: 5, bytes_max: 4 };
    assert_eq!(read(b"12345", 4), not_text(too_large, 1));
}

#[test]
fn much_of_the_same_reads_back() {
    let many = json!({ "list": vec![1; 60_000] });
    let text = emit(&many).unwrap();
    assert_eq!(read(text.as_bytes(), text.len()), Ok(many));
}

#[test]
fn words_of_yaml_1_1_are_no_booleans() {
    assert_eq!(
        read(b"[no, yes, on, off, y, ~]", 99),
        Ok(json!(["no", "yes", "on", "off", "y", null]))
    );
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => any::<String>(),
        2 => proptest::sample::select(TRICKY).prop_map(str::to_owned),
        2 => "[-+.0-9eExob_:T]{1,12}",
        2 => "[ a-z'\":#{}\\[\\],&*!|>%@`?\\\\~\n\t-]{0,12}",
        1 => "[\\x00-\\x{2100}]{0,6}",
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-9_007_199_254_740_991_i64..=9_007_199_254_740_991).prop_map(Value::from),
        any::<i16>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |double| double.is_finite()).prop_map(Value::from),
        text().prop_map(Value::String),
        text().prop_map(Value::String),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            proptest::collection::btree_map(text(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 6))]

    #[test]
    fn two_readers_give_back_what_was_written(value in value()) {
        let text = emit(&value).unwrap();
        prop_assert_eq!(&read(text.as_bytes(), usize::MAX).unwrap(), &value, "{}", text);
        prop_assert_eq!(&second(&text), &value, "{}", text);
        prop_assert!(text.ends_with('\n'));
    }

    #[test]
    fn no_text_makes_the_reader_fail_in_another_way(text in "[ a-z0-9'\":#{}\\[\\],&*!|>%@`?\\\\~\n\t<=-]{0,60}") {
        if let Ok(value) = read(text.as_bytes(), 99) {
            let again = emit(&value);
            prop_assume!(again.is_ok());
            prop_assert_eq!(read(again.unwrap().as_bytes(), 1 << 16).unwrap(), value);
        }
    }
}
