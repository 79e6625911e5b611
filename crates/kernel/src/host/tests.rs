use proptest::prelude::*;

use super::*;

fn rule(text: &str) -> HostRule {
    HostRule::parse(text).unwrap()
}

fn authority(text: &str) -> Authority {
    Authority::parse(text, None).unwrap()
}

#[test]
fn a_rule_is_a_host_and_a_port() {
    for text in
        ["crates.example:443", "*.example.org:8443", "localhost:1", "xn--bcher-kva.example:65535"]
    {
        assert_eq!(rule(text).to_string(), text);
    }
    assert_eq!(rule("Crates.EXAMPLE:443"), rule("crates.example:443"));
    assert_eq!(rule("*.Example.Org:443").port(), 443);
}

#[test]
fn whatever_is_not_plain_is_refused_with_place_and_reason() {
    use HostProblem as P;
    let long = format!("{}.example:443", "a".repeat(64));
    let longer = format!("{}example:443", "abcdefgh.".repeat(31));
    for (text, at, problem) in [
        ("", 0, P::Empty),
        (":443", 0, P::Empty),
        ("crates.example", 14, P::PortMissing),
        ("crates.example:", 15, P::Port),
        ("crates.example:0", 15, P::Port),
        ("crates.example:0443", 15, P::Port),
        ("crates.example:+443", 15, P::Character),
        ("crates.example:65536", 15, P::Port),
        ("crates.example:https", 15, P::Port),
        ("crates.example:*", 15, P::Port),
        ("crates.example:443:443", 0, P::Address),
        ("https://crates.example:443", 6, P::Scheme),
        ("//crates.example:443", 0, P::Path),
        ("crates.example:443/index", 18, P::Path),
        ("crates.example:443?a", 18, P::Path),
        ("crates.example:443#a", 18, P::Path),
        ("crates.example\\:443", 14, P::Path),
        ("user@crates.example:443", 4, P::UserInfo),
        ("crates%2eexample:443", 6, P::PercentEncoded),
        ("crates.example.:443", 14, P::TrailingDot),
        ("crates..example:443", 7, P::LabelEmpty),
        (".example:443", 0, P::LabelEmpty),
        (".:443", 0, P::LabelEmpty),
        ("-a.example:443", 0, P::Hyphen),
        ("a-.example:443", 1, P::Hyphen),
        ("ab--c.example:443", 4, P::Hyphen),
        ("xn--.example:443", 3, P::Hyphen),
        ("b\u{fc}cher.example:443", 1, P::NotAscii),
        ("crates\u{3002}example:443", 6, P::NotAscii),
        ("crates .example:443", 6, P::Control),
        ("crates.example:443\n", 18, P::Control),
        ("crates\0.example:443", 6, P::Control),
        ("a_b.example:443", 1, P::Character),
        ("a,b.example:443", 1, P::Character),
        ("*:443", 0, P::Wildcard),
        ("*.example:443", 0, P::Wildcard),
        ("*.*.example:443", 2, P::Wildcard),
        ("a.*.example:443", 2, P::Wildcard),
        ("a*.example.org:443", 1, P::Wildcard),
        ("**.example.org:443", 0, P::Wildcard),
        ("*.:443", 2, P::Empty),
        ("127.0.0.1:443", 0, P::Address),
        ("*.127.0.0.1:443", 2, P::Address),
        ("127.1:443", 0, P::Address),
        ("0177.0.0.1:443", 0, P::Address),
        ("0x7f.0.0.1:443", 0, P::Address),
        ("0x7f000001:443", 0, P::Address),
        ("0x:443", 0, P::Address),
        ("2130706433:443", 0, P::Address),
        ("a.0x7F:443", 0, P::Address),
        ("example.1:443", 0, P::Address),
        ("[::1]:443", 0, P::Address),
        ("[::ffff:127.0.0.1]:443", 0, P::Address),
        ("[::1:443", 0, P::Address),
        ("::1:443", 0, P::Empty),
        ("fe80::1:443", 0, P::Address),
        ("a]b:443", 2, P::Character),
        (long.as_str(), 0, P::LabelTooLong),
        (longer.as_str(), 253, P::NameTooLong),
    ] {
        assert_eq!(HostRule::parse(text), Err(HostError { at, problem }), "{text:?}");
    }
    let error = HostRule::parse("a.example").unwrap_err().to_string();
    assert_eq!(error, "character 10: the port is missing, as in `host:443`");
}

#[test]
fn addresses_need_the_other_parser_and_have_one_spelling() {
    for text in ["127.0.0.1:80", "10.1.2.3:443", "[::1]:80", "[fd00::1]:443"] {
        assert_eq!(HostRule::parse_with_addresses(text).unwrap().to_string(), text);
        assert_eq!(HostRule::parse(text).unwrap_err().problem, HostProblem::Address);
    }
    for text in [
        "127.1:80",
        "0177.0.0.1:80",
        "127.0.0.01:80",
        "[::127.0.0.1]:80",
        "[0:0:0:0:0:0:0:1]:80",
        "[::ffff:10.0.0.1]:80",
        "[::ffff:a00:1]:80",
        "[fe80::1%25eth0]:80",
        "[fd00::01]:80",
        "[::]:80",
    ] {
        assert!(HostRule::parse_with_addresses(text).is_err(), "{text}");
    }
}

#[test]
fn a_wildcard_covers_what_is_below_it_and_nothing_else() {
    let below = rule("*.example.org:443");
    for text in ["a.example.org:443", "a.b.example.org:443", "A.EXAMPLE.ORG:443"] {
        assert!(below.matches(&authority(text)), "{text}");
    }
    for text in [
        "example.org:443",
        "a.example.org:80",
        "aexample.org:443",
        "example.org.evil.example:443",
        "a.example.org.evil.example:443",
        "evil-example.org:443",
        "10.0.0.1:443",
    ] {
        assert!(!below.matches(&authority(text)), "{text}");
    }
}

#[test]
fn a_missing_port_takes_the_default() {
    let with = |text| Authority::parse(text, Some(80)).map(|authority| authority.to_string());
    assert_eq!(with("a.example").as_deref(), Ok("a.example:80"));
    assert_eq!(with("A.example:8080").as_deref(), Ok("a.example:8080"));
    assert_eq!(with("[fd00::1]").as_deref(), Ok("[fd00::1]:80"));
    assert_eq!(with("a.example:").unwrap_err().problem, HostProblem::Port);
    assert_eq!(with("[fd00::1]x").unwrap_err().problem, HostProblem::Character);
}

proptest! {
    #[test]
    fn no_text_is_a_panic_and_what_is_read_is_plain(text in "\\PC{0,40}|[a-zA-Z0-9.*:\\[\\]@%/-]{0,40}") {
        if let Ok(rule) = HostRule::parse_with_addresses(&text) {
            prop_assert_eq!(&rule.to_string(), &text.to_ascii_lowercase());
            prop_assert_eq!(HostRule::parse_with_addresses(&rule.to_string()), Ok(rule));
        }
        if let Ok(authority) = Authority::parse(&text, None) {
            prop_assert_eq!(authority.to_string(), text.to_ascii_lowercase());
        }
    }

    #[test]
    fn only_the_listed_host_matches(listed in "[a-z]{1,4}\\.[a-z]{1,4}", asked in "[a-zA-Z.]{1,12}") {
        let exact = rule(&format!("{listed}:443"));
        let below = rule(&format!("*.{listed}:443"));
        if let Ok(authority) = Authority::parse(&asked, Some(443)) {
            let lower = asked.to_ascii_lowercase();
            prop_assert_eq!(exact.matches(&authority), lower == listed);
            prop_assert_eq!(below.matches(&authority), lower.ends_with(&format!(".{listed}")));
        }
    }
}
