//! A receiver of notifications: a small HTTP server whose answers a test chooses.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::Value;

use crate::world::Repo;

/// The key that requests are signed with.
pub const KEY: &str = "the key of the receiver";

/// A request that came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub head: String,
    pub body: String,
}

impl Asked {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> String {
        let found = self.head.lines().filter_map(|line| line.split_once(": "));
        let found = found.filter(|(one, _)| one.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.to_owned()).next().unwrap_or_default()
    }
}

#[derive(Default)]
struct State {
    asked: Vec<Asked>,
    answers: VecDeque<String>,
    hangs: bool,
}

/// A receiver that runs as long as the test.
#[derive(Clone)]
pub struct Receiver {
    pub address: String,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Receiver {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let receiver = Self { address, state: Arc::default() };
        let serving = receiver.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serving = serving.clone();
                std::thread::spawn(move || serving.serve(stream));
            }
        });
        receiver
    }

    /// Answers the next requests with these statuses (and headers); all others with 200.
    pub fn answers(&self, answers: &[&str]) {
        let mut state = self.state.0.lock().expect("the state");
        state.answers.extend(answers.iter().map(|one| (*one).to_owned()));
    }

    /// Answers nothing until it is let go.
    pub fn hang(&self, hangs: bool) {
        self.state.0.lock().expect("the state").hangs = hangs;
        self.state.1.notify_all();
    }

    /// What came so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.state.0.lock().expect("the state").asked.clone()
    }

    /// The kinds of what came so far.
    pub fn kinds(&self) -> Vec<String> {
        let kind = |asked: &Asked| asked.json()["kind"].as_str().expect("a kind").to_owned();
        self.asked().iter().map(kind).collect()
    }

    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or_default() == 0 {
                return;
            }
        }
        let mut asked = Asked { head: head.replace("\r\n", "\n"), body: String::new() };
        let length = asked.header("content-length").parse().expect("a length");
        reader.take(length).read_to_string(&mut asked.body).expect("a body");
        let mut state = self.state.0.lock().expect("the state");
        state.asked.push(asked);
        let answer = state.answers.pop_front().unwrap_or_else(|| "200 OK".to_owned());
        let waits = |state: &mut State| state.hangs;
        let time = Duration::from_secs(60);
        drop(self.state.1.wait_timeout_while(state, time, waits).expect("the state"));
        let answer = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        // Whoever asked may have gone.
        drop((&stream).write_all(answer.as_bytes()));
    }
}

/// Adds receivers to the settings of a project, and the secret to those of the user.
pub fn settings(repo: &Repo, text: &str) {
    let old = repo.read(".windlass/config.toml");
    repo.write(".windlass/config.toml", format!("{old}\n{text}\n"));
    let key = repo.place.base().join("key");
    std::fs::write(&key, KEY).expect("a file");
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&key, private).expect("its mode");
    repo.place.settings(&format!("[secrets]\nKEY = {{ file = \"{}\" }}\n", key.display()));
    repo.commit("receivers");
}

/// A repository whose runs are told to a receiver.
pub fn told(receiver: &Receiver, more: &str) -> Repo {
    let repo = Repo::new();
    let url = format!("http://{}/in", receiver.address);
    settings(&repo, &format!("[notify.phone]\nurl = \"{url}\"\nsecret = \"KEY\"\n{more}"));
    repo
}
