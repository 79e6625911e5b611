use proptest::prelude::*;
use windlass_kernel::{HostProblem, HostRule};

use super::*;

fn parse(text: &str) -> Result<Request, Refusal> {
    Request::parse(text.as_bytes())
}

fn get(headers: &str) -> Result<Request, Refusal> {
    parse(&format!("POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\n{headers}\r\n"))
}

#[test]
fn targets_have_three_forms() {
    let target = |line: &str| RequestLine::parse(line.as_bytes()).map(|line| line.target);
    let at = |text: &str| Authority::parse(text, None).unwrap();
    for (line, expected) in [
        ("CONNECT A.example:443 HTTP/1.1", Target::Tunnel(at("a.example:443"))),
        ("GET http://a.example HTTP/1.1", Target::Plain(at("a.example:80"), "/".into())),
        ("GET HTTP://A.Example/x?y HTTP/1.0", Target::Plain(at("a.example:80"), "/x?y".into())),
        ("GET http://a.example?y HTTP/1.1", Target::Plain(at("a.example:80"), "/?y".into())),
        ("GET http://a.example:81/ HTTP/1.1", Target::Plain(at("a.example:81"), "/".into())),
        ("POST /model/v1?x=.. HTTP/1.1", Target::Own("/model/v1?x=..".into())),
    ] {
        assert_eq!(target(line), Ok(expected), "{line}");
    }
}

#[test]
fn a_path_of_a_route_does_not_climb_in_any_spelling() {
    for path in [
        "/model/..",
        "/model/../x",
        "/model/%2e%2E/x",
        "/model/..;a/x",
        "/model/..%3ba/x",
        "/model/%2e.%3B/x",
        "/model/./x",
        "/model%2fx",
        "/model/%5cx",
        "/model/%252e",
    ] {
        let line = format!("POST {path} HTTP/1.1");
        let refused = RequestLine::parse(line.as_bytes()).map(|line| line.target);
        assert_eq!(refused, Err(Refusal::PathInvalid), "{path}");
    }
}

#[test]
fn the_end_of_a_body_is_certain_or_the_request_is_refused() {
    assert_eq!(get("").unwrap().framing, Framing::None);
    assert_eq!(get("Content-Length: 12\r\n").unwrap().framing, Framing::Length(12));
    assert_eq!(get("Transfer-Encoding: Chunked\r\n").unwrap().framing, Framing::Chunked);
    for length in
        ["", "-1", "+1", "01", "1,1", "1 1", "0x1", "1e3", "99999999999999999999", "\u{b9}"]
    {
        let refused = get(&format!("Content-Length: {length}\r\n"));
        assert_eq!(refused, Err(Refusal::Length), "{length}");
    }
    for encoding in ["", "identity", "gzip, chunked", "chunked, chunked", "xchunked", "chunked;q=1"]
    {
        let refused = get(&format!("Transfer-Encoding: {encoding}\r\n"));
        assert_eq!(refused, Err(Refusal::TransferEncoding), "{encoding}");
    }
}

#[test]
fn headers_of_the_connection_are_not_passed_on() {
    let request = get("Connection: close, X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\nUpgrade: h2c\r\n\
                       Proxy-Authorization: Basic eA==\r\nKeep-Alive: 5\r\nAccept: */*\r\n")
    .unwrap();
    let names: Vec<&str> = request.headers.end_to_end().map(|(name, _)| name).collect();
    assert_eq!(names, ["host", "accept"]);
    assert!(!request.keeps_alive());
    assert!(get("").unwrap().keeps_alive());
}

#[test]
fn responses_are_read_as_strictly() {
    let read = |text: &str, method: &str| Response::parse(text.as_bytes(), method);
    let framing = |text: &str, method: &str| read(text, method).map(|response| response.framing);
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
    assert_eq!(framing(ok, "GET"), Some(Framing::Length(3)));
    assert_eq!(framing(ok, "HEAD"), Some(Framing::None));
    assert_eq!(framing("HTTP/1.1 200\r\n\r\n", "GET"), Some(Framing::UntilClose));
    assert_eq!(framing("HTTP/1.0 204 \r\n\r\n", "GET"), Some(Framing::None));
    assert_eq!(framing("HTTP/1.1 304 x\r\nContent-Length: 3\r\n\r\n", "GET"), Some(Framing::None));
    for text in [
        "",
        "HTTP/1.1 200 OK\n\n",
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 +20 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n",
        "HTTP/1.1 2000\r\n\r\n",
        "HTTP/1.1 200 a\rb\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA b: c\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n",
    ] {
        assert_eq!(read(text, "GET"), None, "{text:?}");
    }
}

#[test]
fn a_refused_name_says_why() {
    let line = RequestLine::parse(b"CONNECT user@a.example:443 HTTP/1.1");
    assert_eq!(line, Err(Refusal::NameInvalid(HostProblem::UserInfo)));
}

/// Pieces that requests are made of, so that random requests come near to valid ones.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "GET",
            "CONNECT",
            "POST",
            " ",
            "  ",
            "http://",
            "https://",
            "a.example",
            "b.example",
            "A.EXAMPLE",
            ":80",
            ":443",
            "@",
            "/",
            "//",
            "?",
            "#",
            "%2e",
            ".",
            "..",
            " HTTP/1.1",
            " HTTP/1.0",
            "\r\n",
            "\n",
            "\r",
            "Host: ",
            "Host:a.example",
            "Content-Length: 1",
            "Transfer-Encoding: chunked",
            "127.0.0.1",
            "[::1]",
            "0x7f.1",
            "\0",
            "\t",
            "\u{e9}",
            ":",
            "*",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,6}",
    ]
}

proptest! {
    #[test]
    fn no_head_is_a_panic_and_only_the_written_host_is_asked_for(
        pieces in prop::collection::vec(piece(), 0..14),
        end in prop::bool::ANY,
    ) {
        let text = pieces.concat() + if end { "\r\n\r\n" } else { "" };
        let _ = Response::parse(text.as_bytes(), "GET");
        if let Ok(request) = Request::parse(text.as_bytes()) {
            let rule = HostRule::parse("a.example:443").unwrap();
            if let Target::Tunnel(authority) | Target::Plain(authority, _) = &request.target
                && rule.matches(authority)
            {
                prop_assert!(text.to_ascii_lowercase().contains("a.example:443"));
            }
        }
    }

    #[test]
    fn near_requests_are_read_or_refused(
        host in "[aA]\\.example|b\\.example|a\\.example\\.|[a-z.@%]{1,12}",
        port in "|:80|:443|:0|:080|:",
        named in "a\\.example|b\\.example|A\\.EXAMPLE:80|[a-z.:]{0,12}",
    ) {
        let text = format!("GET http://{host}{port}/ HTTP/1.1\r\nHost: {named}\r\n\r\n");
        if let Ok(request) = Request::parse(text.as_bytes()) {
            let Target::Plain(authority, path) = request.target else { panic!("{text}") };
            prop_assert_eq!(&path, "/");
            let written = Authority::parse(&format!("{host}{port}"), Some(80));
            prop_assert_eq!(Ok(&authority), written.as_ref());
            prop_assert_eq!(Authority::parse(&named, Some(80)), written);
        }
    }

    #[test]
    fn random_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Request::parse(&bytes).is_err());
    }
}
