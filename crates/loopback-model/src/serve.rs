//! Serving connections: each has a thread, one request, and one answer.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use serde_json::{Value, json};

use crate::SeenRequest;
use crate::http::{self, Request, RequestError};
use crate::progress::{AnsweredBy, Next, Progress, call_id_end};
use crate::script::{DropAt, Script, Step, pause};
use crate::tools::{self, OfferedTool};
use crate::transcript::Transcript;
use crate::wire::{self, Answer, Part, Protocol, Route};

/// The connections that are served at once.
const CONNECTIONS_MAX: usize = 256;
/// How long a client has to read what was sent before the connection is reset.
const BEFORE_RESET: Duration = Duration::from_millis(800);
/// The headers in which clients send credentials.
const CREDENTIALS: [&str; 3] = ["authorization", "x-api-key", "x-goog-api-key"];
/// What is said where a step has no text of its own.
const CUT_TEXT: &str = "this will be cut";
/// One piece of an endless text.
const ENDLESS_PIECE: &str = "this text goes on until the client has had enough of it. ";

/// A script and how far it got.
#[derive(Debug)]
pub struct Server {
    script: Script,
    /// Part of all ids, so that no two servers give the same one to a client that talks to both.
    nonce: String,
    state: Mutex<State>,
    /// Notified at every request and at the stop.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stopped: bool,
    progress: Progress,
    requests: Vec<SeenRequest>,
    others: Vec<String>,
    connections: BTreeMap<u64, TcpStream>,
    next_connection: u64,
}

/// The form of the answer that a request asks for.
struct Wanted {
    protocol: Protocol,
    model: String,
    stream: bool,
}

/// A request for an answer, understood.
struct Asked {
    wanted: Wanted,
    step: Step,
    answer: Answer,
}

impl Server {
    pub fn new(script: Script) -> Self {
        let nonce = format!("{:08x}", RandomState::new().hash_one(0_u8) >> 32);
        Self { script, nonce, state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn requests(&self) -> Vec<SeenRequest> {
        self.lock().requests.clone()
    }

    pub fn other_requests(&self) -> Vec<String> {
        self.lock().others.clone()
    }

    pub fn wait_for(&self, count: usize, timeout: Duration) -> bool {
        let missing = |state: &mut State| state.requests.len() < count;
        let waited = self.changed.wait_timeout_while(self.lock(), timeout, missing);
        waited.unwrap_or_else(PoisonError::into_inner).0.requests.len() >= count
    }

    /// Ends all connections and refuses new ones.
    pub fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        for connection in state.connections.values() {
            let _ = connection.shutdown(Shutdown::Both);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits, but not beyond the stop.
    fn pause(&self, time: Duration) {
        let go_on = |state: &mut State| !state.stopped;
        drop(self.changed.wait_timeout_while(self.lock(), time, go_on));
    }

    /// Serves connections until the stop, then waits for their threads.
    pub fn listen(self: &Arc<Self>, listener: &TcpListener) {
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        for connection in listener.incoming() {
            threads.retain(|thread| !thread.is_finished());
            if self.lock().stopped {
                break;
            }
            let Ok(stream) = connection else {
                // Out of descriptors: the connections that are open have to end first.
                self.pause(Duration::from_millis(50));
                continue;
            };
            let Some(number) = self.register(&stream) else { continue };
            let server = Arc::clone(self);
            let name = format!("loopback-model-{number}");
            let started = thread::Builder::new().name(name).spawn(move || {
                let mut stream = stream;
                // A client that went away is none of the server's business.
                let _ = server.serve(&mut stream);
                server.lock().connections.remove(&number);
            });
            match started {
                Ok(thread) => threads.push(thread),
                Err(_) => drop(self.lock().connections.remove(&number)),
            }
        }
        for thread in threads {
            let _ = thread.join();
        }
    }

    fn register(&self, stream: &TcpStream) -> Option<u64> {
        let copy = stream.try_clone().ok()?;
        let mut state = self.lock();
        if state.stopped || state.connections.len() >= CONNECTIONS_MAX {
            return None;
        }
        let number = state.next_connection;
        state.next_connection += 1;
        state.connections.insert(number, copy);
        Some(number)
    }

    fn serve(&self, stream: &mut TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let request = match http::read(stream) {
            Ok(Some(request)) => request,
            Ok(None) => return Ok(()),
            Err(RequestError::Refused { status, reason }) => {
                refuse(stream, status, reason)?;
                return http::discard(stream);
            }
            Err(RequestError::Truncated | RequestError::Io(_)) => return Ok(()),
        };
        let route = match request.method.as_str() {
            "POST" => wire::route(&request.path),
            "GET" | "HEAD" => Route::Unknown,
            _ => return refuse(stream, 405, "there is no such method"),
        };
        let Route::Generate { protocol, model, stream: streams } = route else {
            return self.serve_other(stream, &request, &route);
        };
        let Ok(body) = serde_json::from_slice::<Value>(&request.body) else {
            return refuse(stream, 400, "the body is not JSON");
        };
        let wanted = Wanted {
            protocol,
            model: model.or_else(|| wire::model_of(&body)).unwrap_or_default(),
            stream: streams || body.get("stream") == Some(&Value::Bool(true)),
        };
        let asked = self.ask(wanted, &request, &body);
        self.answer(stream, &asked)
    }

    fn serve_other(
        &self,
        stream: &mut TcpStream,
        request: &Request,
        route: &Route,
    ) -> io::Result<()> {
        self.lock().others.push(format!("{} {}", request.method, request.path));
        match (request.method.as_str(), route) {
            ("HEAD", _) => http::reply(stream, 200, &[], &[]),
            ("GET", _) if request.path.ends_with("/models") => {
                http::reply_json(stream, 200, &wire::models())
            }
            (_, Route::CountTokens { key }) => http::reply_json(stream, 200, &json!({ *key: 10 })),
            (_, Route::Generate { .. } | Route::Unknown) => {
                refuse(stream, 404, "there is nothing at this path")
            }
        }
    }

    /// Finds and records the answer of a request.
    fn ask(&self, wanted: Wanted, request: &Request, body: &Value) -> Asked {
        let tools = tools::offered(body);
        let transcript = wanted.protocol.transcript(body);
        let mut state = self.lock();
        let Next { turns, answered_by, mut step } = if tools.is_empty() {
            Next { turns: 0, answered_by: AnsweredBy::Side, step: Step::say("side") }
        } else {
            state.progress.next(&self.script, &transcript)
        };
        for call in &mut step.calls {
            call.input = tools::with_numbers(call, &transcript.results);
        }
        let id = format!("{}_{}", self.nonce, state.requests.len());
        let (answer, not_offered) = prepare(&wanted, &step, &tools, turns, id);
        let Transcript { system, user, results, .. } = transcript;
        state.requests.push(SeenRequest {
            protocol: wanted.protocol,
            path: request.path.clone(),
            model: wanted.model.clone(),
            stream: wanted.stream,
            tools,
            results,
            system,
            user,
            turns,
            credentials: CREDENTIALS.iter().any(|name| request.header(name).is_some()),
            answered_by,
            not_offered,
        });
        drop(state);
        self.changed.notify_all();
        Asked { wanted, step, answer }
    }

    fn answer(&self, stream: &mut TcpStream, asked: &Asked) -> io::Result<()> {
        let step = &asked.step;
        for seconds in [step.delay, step.hang].into_iter().flatten() {
            self.pause(pause(seconds).unwrap_or_default());
        }
        if let Some(error) = &step.error {
            let message = format!("scripted {}", error.status);
            let usual = json!({ "type": "error", "error": {
                "type": "api_error", "code": error.status, "message": message } });
            let body = error.body.as_ref().unwrap_or(&usual).to_string();
            let headers = error.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            let headers: Vec<_> =
                [("content-type", "application/json")].into_iter().chain(headers).collect();
            return http::reply(stream, error.status, &headers, body.as_bytes());
        }
        if let Some(garbage) = &step.garbage {
            let kind = if asked.wanted.stream { "text/event-stream" } else { "application/json" };
            return http::reply(stream, 200, &[("content-type", kind)], garbage.as_bytes());
        }
        if asked.wanted.stream && step.drop != Some(DropAt::Start) {
            http::start_events(stream)?;
            self.send_events(stream, asked)
        } else {
            self.send_document(stream, asked)
        }
    }

    fn send_document(&self, stream: &mut TcpStream, asked: &Asked) -> io::Result<()> {
        let step = &asked.step;
        if step.drop.is_some() {
            return self.reset(stream);
        }
        if let Some(error) = &step.sse_error {
            return http::reply_json(stream, 500, &json!({ "type": "error", "error": error }));
        }
        http::reply_json(stream, 200, &asked.wanted.protocol.document(&asked.answer))
    }

    fn send_events(&self, stream: &mut TcpStream, asked: &Asked) -> io::Result<()> {
        let Asked { wanted: Wanted { protocol, .. }, step, answer } = asked;
        let mut endless = step.endless.unwrap_or_default();
        for event in protocol.events(answer) {
            if event.part != Part::Head
                && let Some(error) = &step.sse_error
            {
                return stream.write_all(&protocol.error_event(answer, error).bytes());
            }
            if event.part == Part::End && step.drop == Some(DropAt::Late) {
                return self.reset(stream);
            }
            stream.write_all(&event.bytes())?;
            if event.part != Part::Content {
                continue;
            }
            match step.drop {
                Some(DropAt::Mid) => return self.reset(stream),
                Some(DropAt::Eof) => return Ok(()),
                Some(DropAt::Start | DropAt::Late) | None => {}
            }
            while endless > 0 {
                stream.write_all(&event.bytes())?;
                endless = endless.saturating_sub(ENDLESS_PIECE.len() as u64);
            }
        }
        Ok(())
    }

    /// Ends the connection as a broken line would.
    fn reset(&self, stream: &TcpStream) -> io::Result<()> {
        // A reset discards what the client has not read.
        self.pause(BEFORE_RESET);
        set_socket_linger(stream, Some(Duration::ZERO))?;
        Ok(())
    }
}

/// The answer of a step, and the tools that it calls and that are not offered.
fn prepare(
    wanted: &Wanted,
    step: &Step,
    offered: &[OfferedTool],
    turns: u64,
    id: String,
) -> (Answer, Vec<String>) {
    let mut text = step.spoken().unwrap_or_default().to_owned();
    let (mut calls, mut not_offered) = (Vec::new(), Vec::new());
    for (index, call) in step.calls.iter().enumerate() {
        let prefix = wanted.protocol.call_prefix();
        let id = format!("{prefix}{id}_{}", call_id_end(turns, index));
        match tools::resolve(call, offered, id) {
            Some(call) => calls.push(call),
            None => not_offered.push(call.name.clone()),
        }
    }
    if !not_offered.is_empty() {
        // Some of the calls without the others would be another script.
        calls.clear();
        text = format!("the script calls tools that are not offered: {}", not_offered.join(", "));
    }
    if step.drop.is_some() && text.is_empty() && calls.is_empty() {
        text = CUT_TEXT.to_owned();
    }
    if let Some(bytes) = step.endless {
        // A stream repeats one piece; a document has them all at once.
        let pieces = if wanted.stream { 1 } else { bytes.div_ceil(ENDLESS_PIECE.len() as u64) };
        text = ENDLESS_PIECE.repeat(usize::try_from(pieces).unwrap_or(1));
    }
    let model = wanted.model.clone();
    (Answer { id, model, text, calls, usage: step.usage }, not_offered)
}

fn refuse(stream: &mut TcpStream, status: u16, reason: &str) -> io::Result<()> {
    let error = json!({ "type": "invalid_request_error", "code": status, "message": reason });
    http::reply_json(stream, status, &json!({ "type": "error", "error": error }))
}
