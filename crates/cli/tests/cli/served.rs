//! A server as a process, and requests to it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use windlass_testkit::eventually;

use crate::harness::Place;

/// A running server.
pub struct Served {
    child: Child,
    /// Its address, such as `127.0.0.1:40000`.
    pub address: String,
    /// The link that it printed, without the address.
    pub link: String,
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: Vec<(String, String)>,
    pub body: String,
}

impl Reply {
    /// The value of a header; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        let found = self.head.iter().find(|(one, _)| one == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Fails unless the status is this one.
    #[track_caller]
    pub fn status(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// Fails unless this is a problem with this status and code.
    #[track_caller]
    pub fn refused(self, status: u16, code: &str) -> Self {
        let reply = self.status(status);
        assert_eq!(reply.header("content-type"), "application/problem+json");
        assert_eq!(reply.json()["code"], code, "{reply:?}");
        assert_eq!(reply.json()["status"], status);
        reply
    }
}

impl Served {
    /// Serves the project of a place at a free port.
    pub fn start(place: &Place, more: &[&str]) -> Self {
        Self::start_at(place, "127.0.0.1:0", more)
    }

    /// Serves the project of a place at an address.
    pub fn start_at(place: &Place, address: &str, more: &[&str]) -> Self {
        let arguments = [&["serve", "--listen", address, "--json"], more].concat();
        Self::of(place.command(&arguments))
    }

    /// Starts a command that serves, and reads what it prints first.
    pub fn of(mut command: Command) -> Self {
        command.env("USER", "ada").stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("a server");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut text = String::new();
        // One document, over several lines.
        let printed: Value = loop {
            text.push_str(&lines.next().expect("a line").expect("a line"));
            if let Ok(value) = serde_json::from_str(&text) {
                break value;
            }
        };
        let url = printed["url"].as_str().expect("an address");
        let link = printed["link"].as_str().expect("a link").strip_prefix(url).expect("its path");
        let (_, address) = url.split_once("://").expect("a scheme");
        Self { child, address: address.to_owned(), link: link.to_owned() }
    }

    /// Sends a request as it is.
    pub fn send(&self, method: &str, path: &str, head: &[(&str, &str)], body: &str) -> Reply {
        let mut stream = self.connect();
        let mut request = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !head.iter().any(|(name, _)| *name == "host") {
            request.push_str(&format!("host: {}\r\n", self.address));
        }
        for (name, value) in head {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
        stream.write_all(request.as_bytes()).expect("sent");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status");
        let head = lines.filter_map(|line| line.split_once(": "));
        Reply {
            status: status.parse().expect("a number"),
            head: head.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            body: body.to_owned(),
        }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a timeout");
        stream
    }

    /// Follows a link and returns the cookie.
    pub fn enter(&self, link: &str) -> String {
        self.enter_with(link, "")
    }

    /// Follows a link as a browser does that has these cookies, and returns the one that it gets.
    pub fn enter_with(&self, link: &str, cookies: &str) -> String {
        let origin = format!("http://{}", self.address);
        let head = [("origin", origin.as_str()), ("cookie", cookies)];
        let head = if cookies.is_empty() { &head[..1] } else { &head[..] };
        let reply = self.send("POST", link, head, "").status(303);
        let cookie = reply.header("set-cookie").split(';').next().expect("a cookie");
        cookie.to_owned()
    }

    /// Sends what a browser sends that is logged in.
    pub fn browse(&self, cookie: &str, method: &str, path: &str, form: &str) -> Reply {
        let origin = format!("http://{}", self.address);
        let kind = ("content-type", "application/x-www-form-urlencoded");
        let head = [("cookie", cookie), ("origin", origin.as_str()), kind];
        let head = if method == "GET" { &head[..1] } else { &head[..] };
        self.send(method, path, head, form)
    }

    /// Sends what a program sends that has a token.
    pub fn call(&self, token: &str, method: &str, path: &str, body: &Value) -> Reply {
        let token = format!("Bearer {token}");
        let head = [("authorization", token.as_str()), ("content-type", "application/json")];
        let body = if method == "GET" { String::new() } else { body.to_string() };
        self.send(method, path, &head, &body)
    }

    /// Asks for something to be started that ends at once with this error. On a slow machine the server may have taken it
    /// for something that goes on: then it is asked again, since nothing came of it.
    #[track_caller]
    pub fn refuses(&self, token: &str, path: &str, body: &Value, status: u16, code: &str) -> Reply {
        let mut found = None;
        eventually(&format!("{path} is refused with {code}"), || {
            let reply = self.call(token, "POST", path, body);
            let is_over = reply.status != 200;
            found = Some(reply);
            is_over
        });
        found.expect("an answer").refused(status, code)
    }

    /// The id of the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The standard input of the process.
    pub fn told(&mut self) -> std::process::ChildStdin {
        self.child.stdin.take().expect("its input")
    }

    /// Waits for the end of the process; returns its exit code.
    pub fn wait(mut self) -> Option<i32> {
        self.child.wait().expect("its end").code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The id of the project of a place, as it is in addresses.
pub fn project_of(place: &Place) -> String {
    place.state().file_name().expect("a name").to_string_lossy().into_owned()
}

/// Adds somebody to the dashboard and returns the token.
pub fn person(place: &Place, name: &str, role: &str) -> String {
    let added = place.run(&["serve", "people", "add", name, "--role", role, "--json"]).exit(0);
    added.json()["token"].as_str().expect("a token").to_owned()
}

/// The token of whoever has started the server.
pub fn own_token(place: &Place) -> String {
    let path = place.state_root().join(".dashboard/token");
    std::fs::read_to_string(path).expect("a token").trim().to_owned()
}
