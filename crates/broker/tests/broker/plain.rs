//! Plain HTTP: what passes, how it is changed, and that each request is checked.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Command;

use windlass_broker::{BrokerEvent, End};

use crate::support::{Origin, private, read_all, read_head, world};

#[test]
fn a_request_is_passed_on_without_what_concerns_the_connection() {
    let origin = Origin::echoing();
    let to = origin.at("origin.example");
    let mut world = world(private(&[&to]));
    let answer = world.talk(
        format!(
            "POST HTTP://ORIGIN.example:{}/a%20b?c=d HTTP/1.1\r\nhost: {to}\r\nProxy-Connection: x\r\nX-Hop: 1\r\n\
             Connection: close, x-hop\r\nProxy-Authorization: Basic eDp5\r\nTE: trailers\r\nX-End: 2\r\n\
             Content-Length: 5\r\n\r\nhello",
            origin.port
        )
        .as_bytes(),
    );
    let seen = format!(
        "POST /a%20b?c=d HTTP/1.1\r\nHost: {to}\r\nx-end: 2\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello"
    );
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", seen.len());
    assert_eq!(answer, format!("{head}{seen}"));
    drop(world.broker.take());
    let events = world.recorder.all();
    let [
        BrokerEvent::Allowed { passage, .. },
        BrokerEvent::Closed { bytes_up, bytes_down, end, .. },
    ] = events.as_slice()
    else {
        panic!("{events:?}")
    };
    assert_eq!((passage.method.as_str(), passage.host.as_str()), ("POST", "origin.example"));
    assert_eq!((passage.port, passage.address.port()), (origin.port, origin.port));
    assert_eq!((*bytes_up, *bytes_down), (seen.len() as u64, answer.len() as u64));
    assert_eq!(*end, End::Done);
}

#[test]
fn a_connection_that_stays_open_is_checked_for_each_request() {
    let origin = Origin::echoing();
    let to = origin.at("origin.example");
    let world = world(private(&[&to]));
    let mut stream = world.connect();
    let mut text = String::new();
    for path in ["/one", "/two"] {
        write!(stream, "GET http://{to}{path} HTTP/1.1\r\nHost: {to}\r\n\r\n").unwrap();
        let head = read_head(&mut stream);
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        stream.read_exact(&mut body).unwrap();
        text += &String::from_utf8(body).unwrap();
    }
    assert!(text.contains("GET /one ") && text.contains("GET /two "), "{text}");
    let other = origin.at("other.example");
    write!(stream, "GET http://{other}/ HTTP/1.1\r\nHost: {other}\r\n\r\n").unwrap();
    let answer = read_all(&mut stream);
    assert!(answer.contains("NETWORK_REFUSED: the host is not listed"), "{answer}");
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_request_hidden_in_a_body_stays_in_the_body() {
    let origin = Origin::echoing();
    let to = origin.at("origin.example");
    let world = world(private(&[&to]));
    let hidden = "GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    let length = hidden.len();
    let answer = world.talk(
        format!(
            "POST http://{to}/ HTTP/1.1\r\nHost: {to}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{hidden}"
        )
        .as_bytes(),
    );
    assert!(answer.ends_with(hidden), "{answer}");
    assert_eq!(origin.count(), 1);
}

#[test]
fn redirects_go_back_to_the_client_and_are_checked_when_it_follows_them() {
    let target = Origin::echoing();
    let elsewhere = target.at("other.example");
    let location = format!("http://{elsewhere}/");
    let origin = Origin::answering(&format!(
        "HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
    ));
    let to = origin.at("origin.example");
    let world = world(private(&[&to]));
    let mut stream = world.connect();
    write!(stream, "GET http://{to}/ HTTP/1.1\r\nHost: {to}\r\n\r\n").unwrap();
    let head = read_head(&mut stream);
    assert!(head.contains(&format!("location: {location}\r\n")), "{head}");
    write!(stream, "GET {location} HTTP/1.1\r\nHost: {elsewhere}\r\n\r\n").unwrap();
    assert!(read_all(&mut stream).contains("NETWORK_REFUSED"));
    assert_eq!(target.count(), 0);
}

#[test]
fn bodies_are_framed_anew() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nX: y\r\n\r\n";
    let closed = "HTTP/1.0 200 OK\r\n\r\nabcde";
    for answer in [chunked, closed] {
        let origin = Origin::answering(answer);
        let to = origin.at("origin.example");
        let world = world(private(&[&to]));
        let text = world.talk(
            format!("GET http://{to}/ HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        );
        assert!(text.contains("transfer-encoding: chunked\r\n"), "{text}");
        assert!(
            text.ends_with("0\r\n\r\n") && !text.contains("X: y") && !text.contains("a=b"),
            "{text}"
        );
        // A client of HTTP/1.0 knows no chunks.
        let text = world.talk(format!("GET http://{to}/ HTTP/1.0\r\n\r\n").as_bytes());
        assert!(text.ends_with("connection: close\r\n\r\nabcde"), "{text}");
    }
}

#[test]
fn responses_that_can_be_read_in_two_ways_do_not_pass() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 1\n\na",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
        "SSH-2.0-server\r\n",
        "",
    ] {
        let origin = Origin::answering(answer);
        let to = origin.at("origin.example");
        let world = world(private(&[&to]));
        let text =
            world.talk(format!("GET http://{to}/ HTTP/1.1\r\nHost: {to}\r\n\r\n").as_bytes());
        assert!(text.starts_with("HTTP/1.1 502 "), "{answer:?}: {text}");
        assert!(text.contains("NETWORK_UNREACHABLE: "), "{text}");
    }
}

#[test]
fn a_body_that_is_cut_off_is_seen_to_be_cut_off() {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab");
    let to = origin.at("origin.example");
    let world = world(private(&[&to]));
    let text = world.talk(format!("GET http://{to}/ HTTP/1.1\r\nHost: {to}\r\n\r\n").as_bytes());
    assert!(text.ends_with("2\r\nab\r\n"), "{text}");
}

#[test]
fn a_client_that_waits_for_permission_gets_it() {
    let origin = Origin::echoing();
    let to = origin.at("origin.example");
    let world = world(private(&[&to]));
    let mut stream = world.connect();
    write!(
        stream,
        "POST http://{to}/ HTTP/1.1\r\nHost: {to}\r\nContent-Length: 3\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    assert_eq!(read_head(&mut stream), "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"abc").unwrap();
    let text = read_all(&mut stream);
    assert!(text.ends_with("\r\n\r\nabc") && !text.contains("expect"), "{text}");
}

#[test]
fn a_malformed_body_reaches_the_host_no_further() {
    let origin = Origin::start(|mut stream| {
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let to = origin.at("origin.example");
    let world = world(private(&[&to]));
    let text = world.talk(
        format!("POST http://{to}/ HTTP/1.1\r\nHost: {to}\r\nTransfer-Encoding: chunked\r\n\r\n1;x\r\nhidden")
            .as_bytes(),
    );
    assert!(text.contains("NETWORK_REFUSED: the chunked body is malformed"), "{text}");
    let closed = world.recorder.wait(|event| {
        if let BrokerEvent::Closed { bytes_up, end, .. } = event {
            Some((*bytes_up, *end))
        } else {
            None
        }
    });
    let head = format!(
        "POST / HTTP/1.1\r\nHost: {to}\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    );
    assert_eq!(closed, (head.len() as u64, End::Refused(windlass_broker::Refusal::Chunk)));
}

#[test]
fn hosts_that_do_not_answer_are_unreachable() {
    // A port on which nobody listens.
    let closed = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    let world = world(private(&[&format!("origin.example:{port}"), "unknown.example:80"]));
    for (to, reason) in [
        (format!("origin.example:{port}"), "the host refused the connection"),
        ("unknown.example:80".to_owned(), "the host name could not be resolved"),
    ] {
        let text = world.talk(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n").as_bytes());
        assert!(text.starts_with("HTTP/1.1 502 "), "{text}");
        assert!(text.ends_with(&format!("NETWORK_UNREACHABLE: {reason}\n")), "{text}");
    }
    assert_eq!(world.recorder.all().len(), 2);
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("HOME", folder)
        .env_remove("no_proxy")
        .env_remove("NO_PROXY")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn git_reads_a_repository_through_the_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    git(&path, &["init", "--quiet", "--initial-branch=main", "work"]);
    let author = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
    let commit = [&author[..], &["commit", "--quiet", "--allow-empty", "-m", "first"]].concat();
    git(&path.join("work"), &commit);
    git(&path, &["clone", "--quiet", "--bare", "work", "served.git"]);
    git(&path.join("served.git"), &["update-server-info"]);
    let served = path.clone();
    let origin = Origin::start(move |mut stream| {
        let head = read_head(&mut stream);
        let file =
            head.split(' ').nth(1).unwrap().split('?').next().unwrap().trim_start_matches('/');
        let (status, body) = match std::fs::read(served.join(file)) {
            Ok(body) => ("200 OK", body),
            Err(_) => ("404 Not Found", Vec::new()),
        };
        write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len()).unwrap();
        stream.write_all(&body).unwrap();
    });
    let world = world(private(&[&origin.at("origin.example")]));
    let proxy = format!("http.proxy=http://{}", world.address);
    let url = |host: &str| format!("http://{}/served.git", origin.at(host));
    let listed = git(&path, &["-c", &proxy, "ls-remote", &url("origin.example")]);
    assert!(listed.ends_with("\trefs/heads/main\n"), "{listed}");
    git(&path, &["-c", &proxy, "clone", "--quiet", &url("origin.example"), "copy"]);
    assert_eq!(git(&path.join("copy"), &["log", "--format=%s"]), "first\n");

    let refused = Command::new("git")
        .args(["-c", &proxy, "ls-remote", &url("other.example")])
        .env("HOME", &path)
        .env("GIT_TERMINAL_PROMPT", "0")
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("403"), "{refused:?}");
}
