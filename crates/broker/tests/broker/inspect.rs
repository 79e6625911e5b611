//! Routes with an inspector: what it sees, what it refuses, and what never reaches the host.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use windlass_broker::{
    BrokerEvent, BrokerRules, Credential, End, Refusal, Route, RouteInspector, Unreachable,
};

use crate::notes::{Note, Notes};
use crate::support::{Origin, World, read_all, read_head, world};

const KEY: &str = "sk-live-0123456789abcdef";

/// A broker with an inspected route to a plain host.
fn inspected(origin: &Origin, change: impl FnOnce(&mut BrokerRules)) -> (World, Arc<Notes>) {
    let notes = Arc::new(Notes::default());
    let upstream = format!("http://{}/base", origin.at("127.0.0.1"));
    let route = Route::new("/model", &upstream, None).unwrap();
    let route = route.with_inspector(Arc::clone(&notes) as Arc<dyn RouteInspector>);
    let mut rules = BrokerRules { routes: vec![route], ..BrokerRules::default() };
    change(&mut rules);
    (world(rules), notes)
}

fn request(path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
}

fn last(path: &str, headers: &str, body: &str) -> String {
    request(path, &format!("Connection: close\r\n{headers}"), body)
}

fn read_length(stream: &mut TcpStream) -> String {
    let head = read_head(stream);
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.unwrap().parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    head + &String::from_utf8_lossy(&body)
}

#[test]
fn an_inspector_sees_the_whole_exchange() {
    let answer = "HTTP/1.1 429 Slow down\r\nRetry-After: 7\r\nX-Key: sk-live-0123456789abcdef\r\n\
                  Transfer-Encoding: chunked\r\n\r\n5;x=y\r\nno sk\r\n16\r\n-live-0123456789abcdef\r\n0\r\nT: u\r\n\r\n";
    let (sender, heads) = mpsc::channel();
    let sender = Mutex::new(sender);
    let origin = Origin::start(move |mut stream| {
        let head = read_head(&mut stream);
        let mut body = [0; 7];
        stream.read_exact(&mut body).unwrap();
        sender.lock().unwrap().send(head + std::str::from_utf8(&body).unwrap()).unwrap();
        let _ = stream.write_all(answer.as_bytes());
    });
    let notes = Arc::new(Notes::default());
    let credential = Credential::new(&[("x-api-key", KEY)]).unwrap();
    let upstream = format!("http://{}/base", origin.at("127.0.0.1"));
    let route = Route::new("/model", &upstream, Some(credential)).unwrap();
    let route = route.with_inspector(Arc::clone(&notes) as Arc<dyn RouteInspector>);
    let world =
        crate::support::world(BrokerRules { routes: vec![route], ..BrokerRules::default() });
    let text = world.talk(
        b"POST /model/v1/messages?beta=1&key=mine HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\
          X-Api-Key: windlass\r\nAuthorization: Bearer windlass\r\nX-Goog-Api-Key: windlass\r\nCookie: a=b\r\n\
          Accept-Encoding: gzip\r\nX-Beta: 1\r\nConnection: close\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n",
    );
    let head = "HTTP/1.1 429 Slow down\r\nretry-after: 7\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    assert!(text.starts_with(head), "{text}");
    assert!(!text.contains(KEY) && text.ends_with("0\r\n\r\n"), "{text}");
    let to = origin.at("127.0.0.1");
    assert_eq!(
        heads.recv().unwrap(),
        format!(
            "POST /base/v1/messages?beta=1 HTTP/1.1\r\nHost: {to}\r\ncookie: a=b\r\nx-beta: 1\r\nx-api-key: {KEY}\r\n\
             accept-encoding: identity\r\ncontent-length: 7\r\nconnection: close\r\n\r\nabcdefg"
        )
    );
    let (all, end) = notes.until_end(0);
    assert_eq!(end, End::Done);
    assert_eq!(
        all[0],
        Note::Request {
            id: 0,
            line: "POST /v1/messages".to_owned(),
            headers: ["host: localhost", "accept-encoding: gzip", "x-beta: 1"]
                .map(str::to_owned)
                .to_vec(),
            body: "abcdefg".to_owned(),
        }
    );
    let headers = vec!["retry-after: 7".to_owned()];
    assert_eq!(all[1], Note::Started { id: 0, status: 429, headers });
    assert_eq!(notes.text(0), format!("no {}", "*".repeat(KEY.len())));
    assert_eq!(all.iter().filter(|note| matches!(note, Note::Ended { .. })).count(), 1);
}

#[test]
fn a_refused_request_never_reaches_the_host() {
    let origin = Origin::echoing();
    let (world, notes) = inspected(&origin, |_| ());
    let text = world.talk(request("/model/v1/messages", "", "refuse me").as_bytes());
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\n"));
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    let message =
        "NETWORK_REFUSED: the contents of the request are refused: tool `Bash` is not \"allowed\"";
    assert_eq!(
        body,
        serde_json::json!({"type": "error", "error": {"type": "permission_error", "message": message}})
    );
    assert_eq!(
        world.recorder.all(),
        [BrokerEvent::Refused {
            asked: "POST".to_owned(),
            refusal: Refusal::Inspected,
            detail: Some("tool `Bash` is not \"allowed\"".to_owned()),
        }]
    );
    assert_eq!((origin.count(), notes.all().len()), (0, 1));
}

#[test]
fn each_request_of_a_connection_is_inspected() {
    let origin = Origin::echoing();
    let (world, notes) = inspected(&origin, |_| ());
    let mut stream = world.connect();
    // All at once: the third must not be sent after the second is refused.
    let all = [
        request("/model/a", "", "first"),
        request("/model/b", "", "refuse"),
        request("/model/c", "", "third"),
    ];
    stream.write_all(all.concat().as_bytes()).unwrap();
    assert!(read_length(&mut stream).ends_with("first"));
    let text = read_all(&mut stream);
    assert!(text.starts_with("HTTP/1.1 403 ") && !text.contains("third"), "{text}");
    assert_eq!(origin.count(), 1);
    // One after another, on one connection.
    let mut stream = world.connect();
    for body in ["one", "two"] {
        stream.write_all(request("/model/d", "", body).as_bytes()).unwrap();
        assert!(read_length(&mut stream).ends_with(body));
    }
    stream.write_all(request("/model/e", "", "refuse").as_bytes()).unwrap();
    assert!(read_all(&mut stream).starts_with("HTTP/1.1 403 "));
    assert_eq!(origin.count(), 3);
    let ids: Vec<u64> = notes
        .all()
        .iter()
        .filter_map(|note| if let Note::Request { id, .. } = note { Some(*id) } else { None })
        .collect();
    assert_eq!(ids, [0, 1, 2, 3, 4]);
}

#[test]
fn a_hidden_request_stays_in_the_body() {
    let origin = Origin::echoing();
    let (world, notes) = inspected(&origin, |_| ());
    let hidden = request("/model/hidden", "", "x");
    let text = world.talk(last("/model/a", "", &hidden).as_bytes());
    assert!(text.ends_with(&hidden), "{text}");
    assert_eq!(origin.count(), 1);
    let requests = notes.all();
    assert_eq!(requests.iter().filter(|note| matches!(note, Note::Request { .. })).count(), 1);
}

#[test]
fn malformed_bodies_are_neither_inspected_nor_sent() {
    let origin = Origin::echoing();
    for body in [
        "3\nabc\r\n0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "3;x=y\r\nabc\r\n0\r\n\r\n",
        "0x3\r\nabc\r\n0\r\n\r\n",
        "ffffffffffffffff\r\nabc",
        "-1\r\n\r\n",
    ] {
        let (world, notes) = inspected(&origin, |_| ());
        let head = "POST /model HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
        let text = world.talk(format!("{head}{body}").as_bytes());
        assert!(text.starts_with("HTTP/1.1 403 ") && text.contains("permission_error"), "{text}");
        assert_eq!(world.recorder.refusal().1, Refusal::Chunk, "{body:?}");
        assert_eq!(notes.all(), []);
    }
    let (world, notes) = inspected(&origin, |_| ());
    let both = "Transfer-Encoding: chunked\r\n";
    assert!(world.talk(request("/model", both, "0\r\n\r\n").as_bytes()).contains(" 403 "));
    for encoding in ["Content-Encoding: gzip\r\n", "Content_Encoding: zstd\r\n"] {
        let text = world.talk(request("/model", encoding, "{}").as_bytes());
        assert!(text.contains(&Refusal::RequestEncoded.to_string()), "{text}");
    }
    assert_eq!((origin.count(), notes.all()), (0, vec![]));
}

#[test]
fn huge_bodies_are_refused() {
    let origin = Origin::echoing();
    let (world, notes) = inspected(&origin, |rules| rules.limits.inspected_bytes_max = 1000);
    // Without reading any of it.
    let text = world.talk(
        b"POST /model HTTP/1.1\r\nHost: localhost\r\nContent-Length: 18446744073709551615\r\n\r\n",
    );
    assert!(text.contains(&Refusal::InspectedBytesMax.to_string()), "{text}");
    let chunks = "100\r\n".to_owned() + &"a".repeat(256) + "\r\n";
    let head = "POST /model HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    let text = world.talk(format!("{head}{}", chunks.repeat(10)).as_bytes());
    assert!(text.contains(&Refusal::InspectedBytesMax.to_string()), "{text}");
    assert!(
        world.talk(last("/model", "", &"a".repeat(1000)).as_bytes()).ends_with(&"a".repeat(1000))
    );

    // Four bodies are held while their ends are missing; a fifth finds no room until one is gone.
    let begun = |world: &World| {
        let mut stream = world.connect();
        let head = request("/model", "", &"a".repeat(1000));
        stream.write_all(&head.as_bytes()[..head.len() - 1]).unwrap();
        stream
    };
    let held: Vec<TcpStream> = (0..4).map(|_| begun(&world)).collect();
    loop {
        let text = world.talk(last("/model", "", &"b".repeat(500)).as_bytes());
        if text.contains(&Refusal::HeldBytesMax.to_string()) {
            break;
        }
    }
    drop(held);
    loop {
        let text = world.talk(last("/model", "", &"b".repeat(500)).as_bytes());
        if text.ends_with(&"b".repeat(500)) {
            break;
        }
    }
    assert!(!format!("{:?}", notes.all()).contains(&"a".repeat(1001)));
}

#[test]
fn a_body_that_stops_coming_is_refused() {
    let origin = Origin::echoing();
    let (world, notes) =
        inspected(&origin, |rules| rules.limits.idle_timeout = Duration::from_millis(100));
    let head = "POST /model HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc";
    let text = world.talk(head.as_bytes());
    assert!(text.contains(&Refusal::BodyTimeout.to_string()), "{text}");
    assert_eq!((origin.count(), notes.all()), (0, vec![]));
}

#[test]
fn half_closed_clients_leave_nothing_behind() {
    // In the middle of the body: nothing is inspected or sent.
    let origin = Origin::start(|mut stream| {
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let (world, notes) = inspected(&origin, |_| ());
    let mut stream = world.connect();
    stream
        .write_all(b"POST /model HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc")
        .unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut stream), "");
    assert_eq!((origin.count(), notes.all()), (0, vec![]));
    // After the request: a client that is going away gets no response.
    let mut stream = world.connect();
    stream.write_all(request("/model", "", "abc").as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut stream), "");
    assert_eq!(notes.until_end(1).1, End::Broken);
    assert!(matches!(&notes.all()[0], Note::Request { id: 1, line, .. } if line == "POST /"));
    assert_eq!(world.recorder.end(), End::Broken);
}

#[test]
fn a_client_that_waits_for_the_go_ahead_gets_it() {
    let origin = Origin::echoing();
    let (world, _) = inspected(&origin, |_| ());
    let mut stream = world.connect();
    let head = request("/model", "Expect: 100-continue\r\nConnection: close\r\n", "body");
    let (head, body) = head.split_at(head.len() - 4);
    stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(read_head(&mut stream), "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(body.as_bytes()).unwrap();
    let text = read_all(&mut stream);
    assert!(text.starts_with("HTTP/1.1 200 ") && text.ends_with("body"), "{text}");
    assert!(!text.contains("100 Continue") && !text.contains("expect"), "{text}");
}

#[test]
fn a_host_that_compresses_nevertheless_is_not_read() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\u{1f}x\u{8}",
    );
    let (world, notes) = inspected(&origin, |_| ());
    let text = world.talk(last("/model", "Accept-Encoding: br\r\n", "").as_bytes());
    assert!(text.starts_with("HTTP/1.1 502 ") && text.contains("\"api_error\""), "{text}");
    let (all, end) = notes.until_end(0);
    assert_eq!(end, End::Failed(Unreachable::ResponseEncoded));
    assert!(!all.iter().any(|note| matches!(note, Note::Started { .. })), "{all:?}");
}

#[test]
fn an_exchange_without_a_response_ends_too() {
    let origin = Origin::answering("");
    let (world, notes) = inspected(&origin, |_| ());
    assert!(world.talk(last("/model", "", "").as_bytes()).starts_with("HTTP/1.1 502 "));
    assert_eq!(notes.until_end(0).1, End::Failed(Unreachable::Response));
    // Nobody listens.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (world, notes) = inspected(&Origin { port: closed.port(), ..origin }, |_| ());
    assert!(world.talk(last("/model", "", "").as_bytes()).starts_with("HTTP/1.1 502 "));
    assert_eq!(notes.until_end(0).1, End::Failed(Unreachable::Connect));
    // The broker is stopped in the middle.
    let silent = Origin::start(|mut stream| {
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let (mut world, notes) = inspected(&silent, |_| ());
    let mut stream = world.connect();
    stream.write_all(request("/model", "", "abc").as_bytes()).unwrap();
    world.recorder.wait(|event| matches!(event, BrokerEvent::Allowed { .. }).then_some(()));
    drop(world.broker.take());
    assert_eq!(notes.until_end(0).1, End::Stopped);
}

#[test]
fn paths_below_the_prefix_stay_below_the_base() {
    let origin = Origin::echoing();
    let (world, notes) = inspected(&origin, |_| ());
    for path in [
        "/model/../x",
        "/model/..",
        "/model/%2e%2e/x",
        "/model/.%2E/x",
        "/model/..;/x",
        "/model/..;a=b/x",
        "/model/%2e%2e%3b/x",
        "/model/a%2fb",
        "/model/a%252fb",
        "/model/%252e%252e/x",
        "/model/a\\..\\b",
        "/model/a%5cb",
        "/model/a%00",
        "/model/a#b",
        "/modelx/a",
        "/Model/a",
        "//model/a",
        "/model%2fa",
        "/%6dodel/a",
        "/",
    ] {
        let text = world.talk(last(path, "", "").as_bytes());
        assert!(text.starts_with("HTTP/1.1 403 "), "{path}: {text}");
    }
    let absolute = format!("http://{}/model/a", origin.at("127.0.0.1"));
    assert!(world.talk(last(&absolute, "", "").as_bytes()).starts_with("HTTP/1.1 403 "));
    assert_eq!((origin.count(), notes.all()), (0, vec![]));
    assert!(world.talk(last("/model/a..b/...;c?d=../e", "", "").as_bytes()).contains(" 200 "));
}
