//! Server-sent events: soon, in order, resumed by the id of the last one.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use crate::served::{Served, own_token, person};
use crate::world::{Repo, id_of, passing};

/// Listens to events.
struct Listener(BufReader<TcpStream>);

impl Listener {
    fn new(served: &Served, token: &str, last: Option<&str>) -> Self {
        let last = last.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        Self::with(served, token, "", &last)
    }

    /// Listens with a query and more headers.
    fn with(served: &Served, token: &str, query: &str, headers: &str) -> Self {
        let mut stream = served.connect();
        let request = format!(
            "GET /api/v1/events{query} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n{headers}\r\n",
            served.address
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.contains(" 200 "), "{line}");
        Self(reader)
    }

    /// The next event: its id, kind and data.
    fn next(&mut self) -> (String, String, String) {
        let (mut id, mut kind, mut data) = (String::new(), String::new(), String::new());
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream ended");
            let line = line.trim_end();
            if let Some(value) = line.strip_prefix("id: ") {
                id = value.to_owned();
            } else if let Some(value) = line.strip_prefix("event: ") {
                kind = value.to_owned();
            } else if let Some(value) = line.strip_prefix("data: ") {
                data = value.to_owned();
            } else if line.is_empty() && !kind.is_empty() {
                return (id, kind, data);
            }
        }
    }
}

#[test]
fn a_call_that_begins_or_ceases_to_wait_is_told() {
    let repo = Repo::new();
    repo.windlass(&["people", "add", "ada"]).exit(0);
    let served = Served::start(&repo.place, &[]);
    let mut listener = Listener::new(&served, &own_token(&repo.place), None);
    assert_eq!(listener.next().1, "ready");
    let call = repo.place.held();
    let mut expect = || {
        let (_, _, data) = listener.next();
        let event: serde_json::Value = serde_json::from_str(&data).unwrap();
        assert_eq!((&event["kind"], &event["call"]), (&"call".into(), &call.as_str().into()));
    };
    expect();
    repo.windlass(&["call", "deny", &call, "--by", "ada", "--reason", "no"]).exit(0);
    expect();
}

#[test]
fn events_come_in_order_and_are_taken_up_where_they_broke_off() {
    let repo = Repo::new();
    let served = Served::start(&repo.place, &[]);
    let token = own_token(&repo.place);
    let mut listener = Listener::new(&served, &token, None);
    let (first, kind, _) = listener.next();
    assert_eq!(kind, "ready");
    repo.run(&passing()).exit(0);
    let mut kinds = Vec::new();
    loop {
        let (_, _, data) = listener.next();
        let event: serde_json::Value = serde_json::from_str(&data).unwrap();
        assert_eq!(event["entry"], kinds.len() + 1);
        kinds.push(event["kind"].as_str().unwrap().to_owned());
        if event["kind"] == "ended" {
            break;
        }
    }
    assert_eq!(kinds.first().map(String::as_str), Some("started"));
    drop(listener);

    let mut again = Listener::new(&served, &token, Some(&first));
    for expected in &kinds {
        let (_, _, data) = again.next();
        assert!(data.contains(&format!("\"kind\":\"{expected}\"")), "{expected}: {data}");
    }
    // Where no header can be sent, the address has the id; of both, the header counts.
    let query = format!("?after={first}");
    let (second, _, data) = Listener::with(&served, &token, &query, "").next();
    assert!(data.contains("\"kind\":\"started\""), "{data}");
    let header = format!("last-event-id: {second}\r\n");
    let (_, _, data) = Listener::with(&served, &token, &query, &header).next();
    assert!(data.contains(&format!("\"kind\":\"{}\"", kinds[1])), "{data}");
    drop(served);
    let served = Served::start(&repo.place, &[]);
    let (_, kind, _) = Listener::new(&served, &token, Some(&first)).next();
    assert_eq!(kind, "reset", "another server does not know the events of the first");
}

#[test]
fn a_journal_that_is_put_in_place_of_another_is_read_and_watched_anew() {
    let repo = Repo::new();
    let first = id_of(&repo.run(&passing()).exit(0));
    let served = Served::start(&repo.place, &[]);
    let token = own_token(&repo.place);
    let runs = || {
        let page = served.call(&token, "GET", "/api/v1/runs", &serde_json::Value::Null);
        let page = page.status(200).json();
        let runs = page["runs"].as_array().unwrap().iter();
        runs.map(|run| run["run"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(runs(), [first.as_str()]);
    let mut listener = Listener::new(&served, &token, None);
    assert_eq!(listener.next().1, "ready");
    let backup = repo.place.base().join("backup.db");
    repo.windlass(&["store", "backup", backup.to_str().unwrap()]).exit(0);
    let journal = repo.place.state().join("windlass.db");
    for name in ["windlass.db-wal", "windlass.db-shm"] {
        drop(std::fs::remove_file(repo.place.state().join(name)));
    }
    std::fs::rename(&backup, &journal).unwrap();
    assert_eq!(listener.next().1, "reset", "pages are told to read anew");
    let second = id_of(&repo.run(&passing()).exit(0));
    assert_eq!(runs(), [second.as_str(), first.as_str()]);
    let (_, kind, data) = listener.next();
    assert_eq!(kind, "entry");
    assert!(data.contains(&second), "{data}");
}

#[test]
fn the_stream_of_somebody_who_is_removed_ends() {
    let repo = Repo::new();
    let token = person(&repo.place, "ann", "viewer");
    let served = Served::start(&repo.place, &[]);
    let mut listener = Listener::new(&served, &token, None);
    let mut other = Listener::new(&served, &own_token(&repo.place), None);
    assert_eq!(listener.next().1, "ready");
    repo.windlass(&["serve", "people", "remove", "ann"]).exit(0);
    // Somebody else of the same name is somebody else.
    person(&repo.place, "ann", "operator");
    id_of(&repo.run(&passing()).exit(0));
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut listener.0, &mut rest).unwrap();
    assert!(!rest.contains("event: entry"), "{rest}");
    assert_eq!((other.next().1.as_str(), other.next().1.as_str()), ("ready", "entry"));
}
