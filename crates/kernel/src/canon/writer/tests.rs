//! The writer against a general one.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Serialize)]
struct Unit;

#[derive(Serialize)]
struct Pair(u8, Option<bool>);

#[derive(Serialize)]
enum Shape {
    Unit,
    One(i32),
    Two(u16, char),
    Fields {
        first: f64,
        #[serde(rename = "another name, é")]
        second: Vec<Shape>,
    },
}

fn written(value: &impl Serialize) -> Result<String, String> {
    let mut out = Vec::new();
    value.serialize(&mut Writer::new(&mut out)).map_err(|error| error.to_string())?;
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn every_kind_of_value_is_written_as_by_a_general_writer() {
    let shapes = vec![
        Shape::Unit,
        Shape::One(-7),
        Shape::Two(9, '"'),
        Shape::Fields { first: 0.5, second: vec![Shape::Unit, Shape::One(i32::MIN)] },
        Shape::Fields { first: -1e-9, second: Vec::new() },
    ];
    assert_eq!(written(&shapes), Ok(serde_json::to_string(&shapes).unwrap()));
    let mixed = (Unit, Pair(0, None), Pair(255, Some(true)), "\u{7f}é😀", [(); 2], b"\x01\xff");
    assert_eq!(written(&mixed), Ok(serde_json::to_string(&mixed).unwrap()));
    let map = BTreeMap::from([('b', 1), ('a', 2)]);
    assert_eq!(written(&map), Ok(serde_json::to_string(&map).unwrap()));
}

#[test]
fn a_key_is_a_string_and_nothing_else() {
    assert!(written(&BTreeMap::from([(1, 2)])).is_err());
    assert!(written(&BTreeMap::from([([1], 2)])).is_err());
}

#[test]
fn numbers_are_written_as_digits() {
    for number in [0, 1, 9, 10, 99, 100, 16_777_215, u64::MAX] {
        assert_eq!(written(&number), Ok(number.to_string()));
    }
    for number in [0, -1, i64::MIN, i64::MAX] {
        assert_eq!(written(&number), Ok(number.to_string()));
    }
}

#[test]
fn every_letter_that_may_need_an_escape_is_written_as_by_a_general_writer() {
    for byte in 0..=0x80_u8 {
        for text in [format!("{}", char::from(byte)), format!("a{0}b{0}{0}c", char::from(byte))] {
            assert_eq!(written(&text), Ok(serde_json::to_string(&text).unwrap()));
        }
    }
}

proptest! {
    #[test]
    fn texts_are_written_as_by_a_general_writer(text: String, plain in "[ -~]{0,80}") {
        prop_assert_eq!(written(&text), Ok(serde_json::to_string(&text).unwrap()));
        prop_assert_eq!(written(&plain), Ok(serde_json::to_string(&plain).unwrap()));
    }
}
