//! A broker, hosts that it may reach, and what it told its observer.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use windlass_broker::{
    Broker, BrokerEvent, BrokerHandle, BrokerObserver, BrokerRules, End, Refusal, Resolver,
};
use windlass_kernel::HostRule;

/// A test that waits this long has failed.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Keeps all events.
#[derive(Default)]
pub struct Recorder {
    events: Mutex<Vec<BrokerEvent>>,
    changed: Condvar,
}

impl BrokerObserver for Recorder {
    fn event(&self, event: BrokerEvent) {
        self.events.lock().unwrap().push(event);
        self.changed.notify_all();
    }
}

impl Recorder {
    pub fn all(&self) -> Vec<BrokerEvent> {
        self.events.lock().unwrap().clone()
    }

    /// Waits until there is an event from which `find` makes something.
    pub fn wait<T>(&self, find: impl Fn(&BrokerEvent) -> Option<T>) -> T {
        let mut events = self.events.lock().unwrap();
        loop {
            if let Some(found) = events.iter().find_map(&find) {
                return found;
            }
            let (next, waited) = self.changed.wait_timeout(events, PATIENCE).unwrap();
            assert!(!waited.timed_out(), "{next:?}");
            events = next;
        }
    }

    pub fn refusal(&self) -> (String, Refusal) {
        self.wait(|event| {
            if let BrokerEvent::Refused { asked, refusal, .. } = event {
                Some((asked.clone(), *refusal))
            } else {
                None
            }
        })
    }

    pub fn end(&self) -> End {
        self.wait(
            |event| if let BrokerEvent::Closed { end, .. } = event { Some(*end) } else { None },
        )
    }
}

/// Answers each lookup of a name with the next of its answers; the last is repeated.
#[derive(Default)]
pub struct FixedResolver {
    names: Mutex<BTreeMap<String, Vec<Vec<IpAddr>>>>,
    pub lookups: AtomicUsize,
}

impl FixedResolver {
    pub fn set(&self, name: &str, answers: &[&[&str]]) {
        let parse = |answer: &&[&str]| answer.iter().map(|text| text.parse().unwrap()).collect();
        let answers = answers.iter().map(parse).collect();
        self.names.lock().unwrap().insert(name.to_owned(), answers);
    }
}

impl Resolver for FixedResolver {
    fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        let mut names = self.names.lock().unwrap();
        let answers = names.get_mut(host).ok_or(io::ErrorKind::NotFound)?;
        Ok(if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() })
    }
}

/// A broker under test. `origin.example` and `other.example` are this machine.
pub struct World {
    pub address: SocketAddr,
    pub recorder: Arc<Recorder>,
    pub resolver: Arc<FixedResolver>,
    pub broker: Option<BrokerHandle>,
}

pub fn rule(text: &str) -> HostRule {
    HostRule::parse_with_addresses(text).unwrap()
}

/// Rules that allow these hosts, private ones included.
pub fn private(hosts: &[&str]) -> BrokerRules {
    let hosts: Vec<HostRule> = hosts.iter().map(|host| rule(host)).collect();
    BrokerRules { private_hosts: hosts.clone(), hosts, ..BrokerRules::default() }
}

pub fn world(rules: BrokerRules) -> World {
    let listener = TcpListener::bind((LOOPBACK, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let recorder = Arc::new(Recorder::default());
    let resolver = Arc::new(FixedResolver::default());
    for name in ["origin.example", "other.example"] {
        resolver.set(name, &[&["127.0.0.1"]]);
    }
    let (observer, lookups) = (Arc::clone(&recorder), Arc::clone(&resolver));
    let broker = Broker::start_with_resolver(listener, rules, observer, lookups).unwrap();
    World { address, recorder, resolver, broker: Some(broker) }
}

impl World {
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes and reads until the broker closes the connection.
    pub fn talk(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // The broker may refuse and close before all is sent.
        let _ = stream.write_all(bytes);
        read_all(&mut stream)
    }

    /// Opens a tunnel and returns the connection behind it.
    pub fn tunnel(&self, to: &str) -> TcpStream {
        let mut stream = self.connect();
        write!(stream, "CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n").unwrap();
        let head = read_head(&mut stream);
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        stream
    }
}

/// Reads to the end. A connection that is reset ends, too.
pub fn read_all(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    match stream.read_to_end(&mut text) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}"),
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Reads a head to its empty line, byte by byte.
pub fn read_head(stream: &mut impl io::Read) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).unwrap() == 0 {
            break;
        }
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// A host: `serve` gets each connection. Its thread ends with the test's process.
pub struct Origin {
    pub port: u16,
    pub connections: Arc<AtomicUsize>,
}

impl Origin {
    pub fn start(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((LOOPBACK, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let (count, serve) = (Arc::clone(&connections), Arc::new(serve));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let serve = Arc::clone(&serve);
                std::thread::spawn(move || serve(stream));
            }
        });
        Self { port, connections }
    }

    /// A host that reads one head and sends `answer`, then closes.
    pub fn answering(answer: &str) -> Self {
        let answer = answer.to_owned();
        Self::start(move |mut stream| {
            read_head(&mut stream);
            let _ = stream.write_all(answer.as_bytes());
        })
    }

    /// A host that answers with the request's head and body, as text.
    pub fn echoing() -> Self {
        Self::start(|mut stream| {
            let head = read_head(&mut stream);
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
            stream.read_exact(&mut body).unwrap();
            let text = format!("{head}{}", String::from_utf8_lossy(&body));
            let length = text.len();
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{text}");
        })
    }

    pub fn count(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub fn at(&self, name: &str) -> String {
        format!("{name}:{}", self.port)
    }
}
