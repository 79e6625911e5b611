//! Limits, slow clients, and the end of a broker.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use windlass_broker::{BrokerEvent, BrokerRules, End, Limits, Refusal};

use crate::support::{Origin, World, private, read_all, read_head, world};

const SHORT: Duration = Duration::from_millis(100);

fn with(hosts: &[&str], change: impl FnOnce(&mut Limits)) -> World {
    let mut rules: BrokerRules = private(hosts);
    change(&mut rules.limits);
    world(rules)
}

/// A host that sends back what it gets.
fn echo() -> Origin {
    Origin::start(|mut stream| {
        let mut back = stream.try_clone().unwrap();
        let _ = std::io::copy(&mut stream, &mut back);
    })
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let world = with(&[], |limits| limits.head_bytes_max = 1000);
    let header = format!("X: {}\r\n", "a".repeat(2000));
    let text = world.talk(format!("GET http://origin.example/ HTTP/1.1\r\n{header}").as_bytes());
    assert!(text.contains(&Refusal::HeadTooLarge.to_string()), "{text}");
    let world = with(&[], |limits| limits.head_bytes_max = 1000);
    assert!(world.talk(&[b'A'; 5000]).contains(&Refusal::HeadTooLarge.to_string()));
    let world = with(&[], |_| ());
    let headers = "X: y\r\n".repeat(200);
    let head = format!("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n{headers}\r\n");
    assert!(world.talk(head.as_bytes()).contains(&Refusal::HeaderInvalid.to_string()));
}

#[test]
fn a_head_that_comes_too_slowly_is_refused() {
    let world = with(&[], |limits| limits.head_timeout = SHORT);
    let mut slow = world.connect();
    slow.write_all(b"GET http://origin.example/ HTTP/1.1\r\nHost: ori").unwrap();
    let text = read_all(&mut slow);
    assert!(text.contains(&Refusal::HeadTimeout.to_string()), "{text}");
    assert_eq!(world.recorder.refusal(), ("GET origin.example".to_owned(), Refusal::HeadTimeout));
    // Byte for byte does not help.
    let mut slow = world.connect();
    let mut text = String::new();
    for byte in b"GET http://origin.example/ HTTP/1.1\r\n".iter().chain(b"X: y\r\n".iter().cycle())
    {
        if slow.write_all(&[*byte]).is_err() {
            break;
        }
        slow.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let mut buffer = [0; 512];
        match slow.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => text += &String::from_utf8_lossy(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(_) => {}
        }
    }
    assert!(text.contains(&Refusal::HeadTimeout.to_string()), "{text}");
}

#[test]
fn a_connection_that_says_nothing_is_closed() {
    let world = with(&[], |limits| limits.idle_timeout = SHORT);
    assert_eq!(read_all(&mut world.connect()), "");
    let origin = echo();
    let to = origin.at("origin.example");
    let world = with(&[&to], |limits| limits.idle_timeout = SHORT);
    let mut stream = world.tunnel(&to);
    assert_eq!(read_all(&mut stream), "");
    assert_eq!(world.recorder.end(), End::Idle);
}

#[test]
fn a_host_that_never_responds_is_given_up() {
    let origin = Origin::start(|mut stream| {
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let to = origin.at("origin.example");
    let world = with(&[&to], |limits| limits.idle_timeout = SHORT);
    let text = world.talk(format!("GET http://{to}/ HTTP/1.1\r\nHost: {to}\r\n\r\n").as_bytes());
    assert!(text.starts_with("HTTP/1.1 504 "), "{text}");
}

#[test]
fn a_client_that_goes_away_ends_its_request() {
    let origin = Origin::start(|mut stream| {
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let to = origin.at("origin.example");
    let world = with(&[&to], |_| ());
    let mut stream = world.connect();
    write!(stream, "GET http://{to}/ HTTP/1.1\r\nHost: {to}\r\n\r\n").unwrap();
    world.recorder.wait(|event| matches!(event, BrokerEvent::Allowed { .. }).then_some(()));
    drop(stream);
    assert_eq!(world.recorder.end(), End::Broken);
}

#[test]
fn a_response_before_the_end_of_the_upload_arrives() {
    let origin = Origin::answering("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
    let to = origin.at("origin.example");
    let world = with(&[&to], |_| ());
    let mut stream = world.connect();
    write!(stream, "POST http://{to}/ HTTP/1.1\r\nHost: {to}\r\nContent-Length: 9000\r\n\r\nab")
        .unwrap();
    let text = read_all(&mut stream);
    assert!(text.starts_with("HTTP/1.1 413 ") && text.ends_with("no"), "{text}");
}

#[test]
fn more_connections_than_allowed_are_turned_away() {
    let origin = echo();
    let to = origin.at("origin.example");
    let world = with(&[&to], |limits| limits.connections_max = 3);
    let mut open: Vec<TcpStream> = (0..3).map(|_| world.tunnel(&to)).collect();
    let text = world.talk(b"");
    assert!(text.contains(&Refusal::ConnectionsMax.to_string()), "{text}");
    // Those that are open go on.
    for stream in &mut open {
        stream.write_all(b"ping").unwrap();
        let mut back = [0; 4];
        stream.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"ping");
    }
    // A place becomes free when one is closed.
    drop(open.pop());
    assert_eq!(world.recorder.end(), End::Done);
    loop {
        let mut stream = world.connect();
        if write!(stream, "CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n").is_ok()
            && read_head(&mut stream).starts_with("HTTP/1.1 200 ")
        {
            break;
        }
    }
}

#[test]
fn many_connections_are_served_at_once() {
    let origin = echo();
    let to = origin.at("origin.example");
    let world = with(&[&to], |_| ());
    let mut open: Vec<TcpStream> = (0..150).map(|_| world.tunnel(&to)).collect();
    for (number, stream) in open.iter_mut().enumerate() {
        write!(stream, "{number:04}").unwrap();
    }
    for (number, stream) in open.iter_mut().enumerate() {
        let mut back = [0; 4];
        stream.read_exact(&mut back).unwrap();
        assert_eq!(back, *format!("{number:04}").as_bytes());
    }
}

#[test]
fn requests_are_counted() {
    let origin = Origin::echoing();
    let to = origin.at("origin.example");
    let world = with(&[&to], |limits| limits.requests_max = Some(2));
    let request = format!("GET http://{to}/ HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n");
    let status = || world.talk(request.as_bytes()).split(' ').nth(1).map(str::to_owned);
    let statuses = [status(), status(), status()].map(Option::unwrap);
    assert_eq!(statuses, ["200", "200", "403"]);
    assert_eq!(world.recorder.refusal().1, Refusal::RequestsMax);
}

#[test]
fn bytes_are_counted_in_each_direction_and_in_all() {
    let origin = echo();
    let to = origin.at("origin.example");
    let world = with(&[&to], |limits| limits.connection_bytes_max = Some(10));
    let mut stream = world.tunnel(&to);
    stream.write_all(b"0123456789").unwrap();
    let mut back = [0; 10];
    stream.read_exact(&mut back).unwrap();
    stream.write_all(b"x").unwrap();
    read_all(&mut stream);
    assert_eq!(world.recorder.end(), End::Refused(Refusal::ConnectionBytesMax));
    assert_eq!(world.recorder.refusal().1, Refusal::ConnectionBytesMax);

    let world = with(&[&to], |limits| limits.broker_bytes_max = Some(10));
    let mut stream = world.tunnel(&to);
    stream.write_all(b"01234").unwrap();
    let mut back = [0; 5];
    stream.read_exact(&mut back).unwrap();
    let text = world.talk(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n").as_bytes());
    assert!(text.contains(&Refusal::BrokerBytesMax.to_string()), "{text}");

    let origin = Origin::echoing();
    let to = origin.at("origin.example");
    let world = with(&[&to], |limits| limits.connection_bytes_max = Some(300));
    let head = format!("POST http://{to}/ HTTP/1.1\r\nHost: {to}\r\nContent-Length: 400\r\n\r\n");
    let text = world.talk(format!("{head}{}", "a".repeat(400)).as_bytes());
    assert!(text.contains(&Refusal::ConnectionBytesMax.to_string()), "{text}");
}

#[test]
fn a_broker_that_is_dropped_closes_everything() {
    let origin = echo();
    let to = origin.at("origin.example");
    let mut world = with(&[&to], |_| ());
    let mut tunnel = world.tunnel(&to);
    tunnel.write_all(b"ping").unwrap();
    tunnel.read_exact(&mut [0; 4]).unwrap();
    let mut waiting = world.connect();
    waiting.write_all(b"GET http://").unwrap();
    drop(world.broker.take());
    assert_eq!(read_all(&mut tunnel), "");
    assert_eq!(read_all(&mut waiting), "");
    assert!(TcpStream::connect(world.address).is_err());
    let events = world.recorder.all();
    let closed = events.iter().filter(|event| {
        matches!(event, BrokerEvent::Closed { end: End::Stopped, bytes_up: 4, bytes_down: 4, .. })
    });
    assert_eq!(closed.count(), 1, "{events:?}");
}
