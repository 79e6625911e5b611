//! The forms in which a secret can be written.

/// A value in many forms, by their names. A form is looked for as it is, so those that depend on their neighbours are cut
/// to what does not.
pub fn forms(value: &str) -> Vec<(&'static str, Vec<u8>)> {
    let each =
        |form: &dyn Fn(u8) -> String| value.bytes().map(form).collect::<String>().into_bytes();
    let chars =
        |form: &dyn Fn(char) -> String| value.chars().map(form).collect::<String>().into_bytes();
    let every_other = |form: &dyn Fn(char) -> String| {
        let all = value.chars().enumerate();
        all.map(|(at, one)| if at % 2 == 0 { form(one) } else { one.to_string() })
            .collect::<String>()
            .into_bytes()
    };
    let unit = |one: char| -> String {
        one.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
    };
    let entity = |one: char| format!("&#{};", u32::from(one));
    let utf16: Vec<u16> = value.encode_utf16().collect();
    let json = serde_json::Value::from(value).to_string();
    let json = json[1..json.len() - 1].to_owned();
    let twice = serde_json::Value::from(json.as_str()).to_string();
    let html = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let html = html.replace('"', "&quot;");
    let mut all = vec![
        ("plain", value.as_bytes().to_vec()),
        ("UTF-16, low bytes first", utf16.iter().flat_map(|unit| unit.to_le_bytes()).collect()),
        ("UTF-16, high bytes first", utf16.iter().flat_map(|unit| unit.to_be_bytes()).collect()),
        ("hexadecimal", each(&|byte| format!("{byte:02x}"))),
        ("hexadecimal, upper case", each(&|byte| format!("{byte:02X}"))),
        ("hexadecimal with colons", each(&|byte| format!("{byte:02x}:"))),
        ("percent-encoded", each(&|byte| format!("%{byte:02X}"))),
        (
            "percent-encoded in part",
            every_other(&|one| {
                one.to_string().bytes().map(|byte| format!("%{byte:02x}")).collect()
            }),
        ),
        ("JSON", json.clone().into_bytes()),
        ("JSON within JSON", twice.as_bytes()[1..twice.len() - 1].to_vec()),
        ("JSON, all escaped", chars(&unit)),
        ("JSON, escaped in part", every_other(&unit)),
        ("C, hexadecimal", each(&|byte| format!("\\x{byte:02x}"))),
        ("C, octal", each(&|byte| format!("\\{byte:03o}"))),
        ("HTML", html.into_bytes()),
        ("HTML, decimal", chars(&entity)),
        ("HTML, decimal in part", every_other(&entity)),
        ("HTML, hexadecimal", chars(&|one| format!("&#x{:x};", u32::from(one)))),
        (
            "HTML, hexadecimal, upper case, long",
            chars(&|one| format!("&#X{:06X};", u32::from(one))),
        ),
    ];
    let base64 = [("base64", 0), ("base64, one byte later", 1), ("base64, two bytes later", 2)];
    all.extend(base64.map(|(name, shift)| (name, base64_of(value, shift))));
    all
}

/// The base64 of a value after so many other bytes, without the digits that depend on what is before and after it.
fn base64_of(value: &str, shift: usize) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes = [&b"##"[..shift], value.as_bytes()].concat();
    let bits: Vec<u8> =
        bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    let digits = bits.chunks_exact(6).map(|six| six.iter().fold(0, |all, bit| all << 1 | bit));
    let first = if shift == 0 { 0 } else { shift + 1 };
    digits.skip(first).map(|digit: u8| DIGITS[usize::from(digit)]).collect()
}

#[test]
fn base64_at_any_place() {
    let text = |shift| String::from_utf8(base64_of("hunter2-and-more", shift)).unwrap();
    assert_eq!(text(0), "aHVudGVyMi1hbmQtbW9yZ");
    assert_eq!(text(1), "h1bnRlcjItYW5kLW1vcm");
    assert_eq!(text(2), "odW50ZXIyLWFuZC1tb3Jl");
}
