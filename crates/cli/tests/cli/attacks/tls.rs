//! The dashboard with a certificate: what is sent instead of a handshake, within one, and by clients that do not go on.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ProtocolVersion};
use serde_json::Value;
use windlass_testkit::{eventually, soak};

use super::tls_client::{
    certificate, client, dial, hello, raw, rest, serve, shake, version, within,
};
use super::tls_hellos::instead;
use super::tls_requests::{SMUGGLED, STRANGE};
use crate::served::{Served, own_token, project_of};
use crate::world::{Repo, escalating, id_of};

/// How many requests of strangers a server answers before they have to wait.
const STRANGERS: usize = 24;
/// How much more memory the server may hold after an attack.
const GROWTH_KIB: u64 = 96 << 10;

/// What the project holds and nobody may be told.
const TASK: &str = "raise the price";

struct World {
    repo: Repo,
    served: Served,
    config: Arc<ClientConfig>,
    token: String,
    id: String,
}

impl World {
    fn new() -> Option<Self> {
        let repo = Repo::new();
        let files = certificate(&repo.place)?;
        let id = id_of(&repo.run(&escalating()).exit(4));
        let served = serve(&repo.place, &files);
        let token = own_token(&repo.place);
        let config = Arc::new(client(&[&TLS12, &TLS13]));
        Some(Self { repo, served, config, token, id })
    }

    /// Starts the server anew: it has forgotten how often strangers came.
    fn again(&mut self) {
        let files = ["tls.pem", "tls.key"].map(|name| self.repo.place.base().join(name));
        self.served = serve(&self.repo.place, &files);
    }

    fn status(&self, name: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.served.pid())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_start_matches(':').split_whitespace().next().unwrap().parse().unwrap()
    }

    /// How many descriptors the server has open.
    fn open(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.served.pid())).unwrap().count()
    }

    /// A request with our token, which is answered.
    #[track_caller]
    fn answers(&self) {
        let (host, token) = (&self.served.address, &self.token);
        let request = format!(
            "GET /api/v1/runs HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
        );
        let reply = within(&self.served, &self.config, request.as_bytes(), "a good client");
        assert!(reply.starts_with("HTTP/1.1 200") && reply.contains(TASK), "{reply}");
    }

    /// Fails if a stranger was told something.
    #[track_caller]
    fn is_silent(&self, name: &str, reply: &str) {
        let project = project_of(&self.repo.place);
        for word in [TASK, &self.id, &project, &self.token, "set-cookie"] {
            assert!(!reply.contains(word), "{name}: {word} in {reply}");
        }
    }

    /// The rows with what stands for this world.
    fn filled(&self, text: &str) -> String {
        let pairs = [
            ("{host}", self.served.address.clone()),
            (
                "{auth}",
                format!("host: {}\r\nauthorization: Bearer {}", self.served.address, self.token),
            ),
            ("{token}", self.token.clone()),
            ("{project}", project_of(&self.repo.place)),
            ("{id}", self.id.clone()),
            ("{long}", "a".repeat(300 << 10)),
            ("{many}", (0..10_000).map(|one| format!("x-{one}: y\r\n")).collect()),
            ("{some}", (0..200).map(|one| format!("x-{one}: y\r\n")).collect()),
        ];
        pairs.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }
}

#[test]
fn whatever_comes_instead_of_a_handshake_is_told_nothing() {
    let Some(world) = World::new() else { return };
    world.answers();
    let (before, memory) = (world.open(), world.status("VmRSS"));
    let rows = instead(&world.config);
    assert!(rows.len() >= 50);
    for (name, bytes) in &rows {
        let reply = raw(&world.served, bytes, name);
        world.is_silent(name, &reply);
        assert!(!reply.contains("HTTP/"), "{name}: {reply}");
    }
    eventually("no connection is left", || world.open() <= before);
    let grown = world.status("VmRSS").saturating_sub(memory);
    assert!(grown < GROWTH_KIB, "{grown} KiB more");
    world.answers();
}

/// Answers in a text: their statuses.
fn statuses(reply: &str) -> Vec<u16> {
    let parts = reply.split("HTTP/1.").skip(1);
    parts.filter_map(|part| part.get(2..5)?.parse().ok()).collect()
}

#[test]
fn strangers_are_told_nothing_within_tls() {
    let Some(mut world) = World::new() else { return };
    assert!(STRANGE.len() + SMUGGLED.len() >= 50);
    for rows in STRANGE.chunks(STRANGERS) {
        world.again();
        for (name, text) in rows {
            let reply = within(&world.served, &world.config, world.filled(text).as_bytes(), name);
            world.is_silent(name, &reply);
            let all = statuses(&reply);
            let refused = all.iter().all(|status| (400..500).contains(status));
            assert!(refused && all.len() <= 1 && !all.contains(&429), "{name}: {reply}");
        }
        world.answers();
    }
}

#[test]
fn nothing_is_smuggled_within_tls() {
    let Some(world) = World::new() else { return };
    let memory = world.status("VmRSS");
    let cancel =
        format!("/api/v1/projects/{}/runs/{}/cancel", project_of(&world.repo.place), world.id);
    let second = "POST {cancel} HTTP/1.1\r\n{json}\r\ncontent-length: 15\r\nconnection: close\r\n\r\n{\"reason\":\"x\"}\n";
    for (name, text) in SMUGGLED {
        let text = text.replace("{second}", second).replace("{cancel}", &cancel);
        let text = text.replace("{runs}", "/api/v1/projects/{project}/runs");
        let text = text.replace("{json}", "{auth}\r\ncontent-type: application/json");
        let reply = within(&world.served, &world.config, world.filled(&text).as_bytes(), name);
        let all = statuses(&reply);
        assert!(all.len() <= 1 && all.iter().all(|status| *status >= 400), "{name}: {reply}");
        assert_eq!(world.repo.stands(&world.id)["outcome"], Value::Null, "{name}");
    }
    // What is asked one after the other without waiting is answered in order, each by who asks for it.
    let one = |who: &str| format!("GET /api/v1/runs HTTP/1.1\r\n{who}\r\n\r\n");
    let (ours, theirs) = (one("{auth}"), one("host: {host}"));
    let last = "GET /api/v1/runs HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n";
    let text = world.filled(&format!("{ours}{theirs}{ours}{last}"));
    let reply = within(&world.served, &world.config, text.as_bytes(), "a queue");
    assert_eq!(statuses(&reply), [200, 401, 200, 401], "{reply}");
    let grown = world.status("VmRSS").saturating_sub(memory);
    assert!(grown < GROWTH_KIB, "{grown} KiB more");
    world.answers();
}

/// Connections in every state in which a client can leave them.
fn left_open(world: &World) -> Vec<(&'static str, TcpStream)> {
    let mut all = Vec::new();
    let good = hello(&world.config);
    let mut raw = |name, bytes: &[u8]| {
        let mut stream = dial(&world.served);
        let _ = stream.write_all(bytes);
        all.push((name, stream));
    };
    raw("nothing", b"");
    raw("one byte", &good[..1]);
    raw("a header of a record", &good[..5]);
    raw("half a beginning", &good[..good.len() / 2]);
    raw("a beginning", &good);
    raw("HTTP that does not end", b"GET / HTTP/1.1\r\n");
    for (name, text) in [
        ("a handshake", String::new()),
        ("half a line", "GET / HT".to_owned()),
        ("half a head", "GET / HTTP/1.1\r\nhost: {host}\r\n".to_owned()),
        ("half a long head", format!("GET / HTTP/1.1\r\nx: {}", "a".repeat(30 << 10))),
        ("no body", "POST /api/v1/projects/{project}/runs HTTP/1.1\r\n{auth}\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n".to_owned()),
        ("half a body", "POST /api/v1/projects/{project}/runs HTTP/1.1\r\n{auth}\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{".to_owned()),
        ("half a chunk", "POST /api/v1/projects/{project}/runs HTTP/1.1\r\n{auth}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nff\r\n{".to_owned()),
        ("no body of a stranger", "POST /api/v1/runs HTTP/1.1\r\nhost: {host}\r\ncontent-length: 99\r\n\r\n".to_owned()),
        ("a promise", "POST /api/v1/projects/{project}/runs HTTP/1.1\r\n{auth}\r\ncontent-type: application/json\r\nexpect: 100-continue\r\ncontent-length: 99\r\n\r\n".to_owned()),
        ("a request, then nothing", "GET /assets/live.js HTTP/1.1\r\nhost: {host}\r\n\r\n".to_owned()),
    ] {
        let mut stream = shake(&world.served, &world.config).unwrap();
        let _ = stream.write_all(world.filled(&text).as_bytes()).and_then(|()| stream.flush());
        all.push((name, stream.sock));
    }
    all.push(("answers that nobody reads", unread(world)));
    all
}

/// Asks again and again, and reads nothing.
fn unread(world: &World) -> TcpStream {
    let mut stream = shake(&world.served, &world.config).unwrap();
    stream.sock.set_write_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
    let text = world.filled("GET /assets/live.js HTTP/1.1\r\nhost: {host}\r\n\r\n").repeat(100);
    for _ in 0..400 {
        if stream.write_all(text.as_bytes()).is_err() {
            break;
        }
    }
    stream.sock
}

#[test]
fn clients_that_go_away_leave_nothing_behind() {
    let Some(world) = World::new() else { return };
    world.answers();
    let (before, memory) = (world.open(), world.status("VmRSS"));
    for round in 0..3 {
        for (number, (_, stream)) in left_open(&world).into_iter().enumerate() {
            // One way or another.
            if (number + round) % 3 == 0 {
                let _ = stream.shutdown(Shutdown::Write);
            }
        }
    }
    eventually("no connection is left", || world.open() <= before);
    let grown = world.status("VmRSS").saturating_sub(memory);
    assert!(grown < GROWTH_KIB, "{grown} KiB more");
    world.answers();
}

/// Takes as long as the server is patient, so only a soak does it.
#[test]
fn clients_that_stay_and_do_nothing_are_sent_away() {
    if !soak::is_on() {
        return;
    }
    let Some(world) = World::new() else { return };
    world.answers();
    let before = world.open();
    let all: BTreeMap<&str, TcpStream> = left_open(&world).into_iter().collect();
    world.answers();
    eventually("no connection is left", || world.open() <= before);
    drop(all);
    world.answers();
}

#[test]
fn many_handshakes_at_once_keep_nobody_out() {
    let Some(world) = World::new() else { return };
    world.answers();
    let (before, memory) = (world.open(), world.status("VmRSS"));
    let good = hello(&world.config);
    let waiting: Vec<TcpStream> = (0..300)
        .map(|number| {
            let mut stream = dial(&world.served);
            let _ = stream.write_all(&good[..number % good.len()]);
            stream
        })
        .collect();
    world.answers();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..10 {
                    drop(shake(&world.served, &world.config).unwrap());
                }
            });
        }
    });
    world.answers();
    drop(waiting);
    eventually("no connection is left", || world.open() <= before);
    let grown = world.status("VmRSS").saturating_sub(memory);
    assert!(grown < GROWTH_KIB, "{grown} KiB more");
}

#[test]
fn long_heads_of_many_do_not_fill_the_memory() {
    let Some(world) = World::new() else { return };
    world.answers();
    let memory = world.status("VmRSS");
    let count = if soak::is_on() { 450 } else { 100 };
    let head = format!("GET / HTTP/1.1\r\nx: {}", "a".repeat(400 << 10));
    let all: Vec<_> = (0..count)
        .map(|_| {
            let mut stream = shake(&world.served, &world.config).unwrap();
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.flush());
            stream
        })
        .collect();
    let grown = world.status("VmHWM").saturating_sub(memory);
    // Half a megabyte each would be 200 MiB and more for all connections of one address.
    assert!(grown < 16 * 1024 + count * 200, "{grown} KiB more for {count}");
    drop(all);
    world.answers();
}

#[test]
fn only_new_versions_are_spoken_and_updates_of_keys_end_nothing() {
    let Some(world) = World::new() else { return };
    for (config, expected) in [
        (client(&[&TLS12]), ProtocolVersion::TLSv1_2),
        (client(&[&TLS13]), ProtocolVersion::TLSv1_3),
    ] {
        let stream = shake(&world.served, &Arc::new(config)).unwrap();
        assert_eq!(version(&stream), Some(expected));
    }
    // Another protocol, which the server does not speak, is not agreed on.
    let mut config = client(&[&TLS12, &TLS13]);
    config.alpn_protocols = vec![b"h2".to_vec()];
    if let Ok(stream) = shake(&world.served, &Arc::new(config)) {
        assert_eq!(stream.conn.alpn_protocol(), None);
    }
    let mut stream = shake(&world.served, &world.config).unwrap();
    for _ in 0..2000 {
        if stream.conn.refresh_traffic_keys().is_err() || stream.flush().is_err() {
            break;
        }
    }
    drop(stream);
    // What comes after the end of a session is nobody's.
    let mut stream = shake(&world.served, &world.config).unwrap();
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    let _ = stream.sock.write_all(b"GET /api/v1/runs HTTP/1.1\r\n\r\n");
    let mut bytes = String::new();
    let _ = stream.sock.read_to_string(&mut bytes);
    assert!(!bytes.contains("HTTP/"), "{bytes}");
    world.answers();
}

#[test]
fn cookies_and_links_stay_encrypted() {
    let Some(world) = World::new() else { return };
    let ask = |text: &str| {
        within(&world.served, &world.config, world.filled(text).as_bytes(), text)
            .to_ascii_lowercase()
    };
    let link = world.repo.windlass(&["serve", "link", "--by", "ada", "--json"]).exit(0).json();
    assert!(link["url"].as_str().unwrap().starts_with("https://"), "{link}");
    // A program that looks at the page of a link takes it nowhere.
    let page = format!(
        "GET {} HTTP/1.1\r\nhost: {{host}}\r\nconnection: close\r\n\r\n",
        world.served.link
    );
    let page = ask(&page);
    assert!(
        page.contains("referrer-policy: ") && page.contains("cache-control: no-store"),
        "{page}"
    );
    assert!(
        !page.contains(&world.served.link.to_ascii_lowercase()) && !page.contains("http://"),
        "{page}"
    );
    let post = format!(
        "POST {} HTTP/1.1\r\nhost: {{host}}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        world.served.link
    );
    let reply = ask(&post);
    assert_eq!(statuses(&reply.to_ascii_uppercase()), [303], "{reply}");
    let line = |reply: &str, name: &str| {
        reply.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned()
    };
    let set = line(&reply, "set-cookie: ");
    for part in ["; secure", "; httponly", "; samesite=strict", "path=/"] {
        assert!(set.contains(part), "{set}");
    }
    assert!(!set.contains("domain"), "{set}");
    assert_eq!(line(&reply, "location: "), "/", "a place of the same server");
    // It is a cookie of encrypted connections only, also where it ends; pages without encryption cannot use it.
    let cookie = login(&world);
    let leave = |origin: &str| {
        format!(
            "POST /leave HTTP/1.1\r\nhost: {{host}}\r\ncookie: {cookie}\r\norigin: {origin}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        )
    };
    for origin in ["http://{host}", "null", "https://evil.example", "https://localhost"] {
        let reply = ask(&leave(origin));
        assert_eq!(statuses(&reply.to_ascii_uppercase()), [403], "{origin}: {reply}");
    }
    let reply = ask(&leave("https://{host}"));
    assert!(line(&reply, "set-cookie: ").contains("; secure"), "{reply}");
    world.answers();
}

/// The cookie of a new login, as it is written.
fn login(world: &World) -> String {
    let made = world.repo.windlass(&["serve", "link", "--by", "ada", "--json"]).exit(0).json();
    let text = format!(
        "POST {} HTTP/1.1\r\nhost: {{host}}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        made["path"].as_str().unwrap()
    );
    let mut stream = shake(&world.served, &world.config).unwrap();
    stream.write_all(world.filled(&text).as_bytes()).unwrap();
    let reply = rest(&mut stream, "a login");
    let cookie = reply.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    cookie.split(';').next().unwrap().to_owned()
}
