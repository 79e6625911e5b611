//! Streams of events without delay, and routes that are closed in the middle.

use std::io::{Read as _, Write as _};
use std::sync::{Arc, Mutex, mpsc};

use windlass_broker::{
    BrokerEvent, BrokerRules, Credential, End, InspectedRequest, Refusal, Route, RouteInspector,
    RouteSwitch,
};

use crate::notes::Notes;
use crate::support::{Origin, World, read_all, read_head, world};

const KEY: &str = "data-0123456789";
const STREAM: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const ASK: &[u8] = b"POST /model/stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";

/// A route with credential and inspector.
fn route(origin: &Origin, inspector: Arc<dyn RouteInspector>) -> Route {
    let upstream = format!("http://{}", origin.at("127.0.0.1"));
    let credential =
        Credential::new(&[("authorization", format!("Bearer {KEY}").as_str())]).unwrap();
    Route::new("/model", &upstream, Some(credential)).unwrap().with_inspector(inspector)
}

fn serve(route: Route) -> World {
    world(BrokerRules { routes: vec![route], ..BrokerRules::default() })
}

/// A host that sends one event, then waits for the end of the connection.
fn endless() -> Origin {
    Origin::start(|mut stream| {
        read_head(&mut stream);
        let _ = stream.write_all(STREAM.as_bytes());
        let _ = stream.write_all(b"9\r\ndata: 1\n\n\r\n");
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    })
}

#[test]
fn an_event_reaches_the_client_before_the_next_is_made() {
    let (next, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    // Beginnings of the key inside of events and at the ends of chunks.
    let events =
        ["data: data-012\n\n", ": Bearer data-0123\n\n", "data: data-0123456789\n\n", "d\n\n"];
    let origin = Origin::start(move |mut stream| {
        read_head(&mut stream);
        // A connection that is closed with something unread in it is reset.
        stream.read_exact(&mut [0; 2]).unwrap();
        stream.write_all(STREAM.as_bytes()).unwrap();
        for event in events {
            let (first, second) = event.split_at(event.len() / 2);
            for part in [first, second] {
                write!(stream, "{:x}\r\n{part}\r\n", part.len()).unwrap();
            }
            // The host goes on only after the client has seen the whole event.
            wait.lock().unwrap().recv().unwrap();
        }
        stream.write_all(b"0\r\n\r\n").unwrap();
    });
    let notes = Arc::new(Notes::default());
    let world = serve(route(&origin, Arc::clone(&notes) as Arc<dyn RouteInspector>));
    let mut stream = world.connect();
    stream.write_all(ASK).unwrap();
    read_head(&mut stream);
    for event in
        ["data: data-012\n\n", ": Bearer data-0123\n\n", "data: ***************\n\n", "d\n\n"]
    {
        let mut text = String::new();
        while text != event {
            let length = {
                let mut line = String::new();
                while !line.ends_with("\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    line.push(char::from(byte[0]));
                }
                usize::from_str_radix(line.trim(), 16).unwrap()
            };
            let mut piece = vec![0; length + 2];
            stream.read_exact(&mut piece).unwrap();
            text += std::str::from_utf8(&piece[..length]).unwrap();
            assert!(event.starts_with(&text), "{text:?}");
        }
        // The inspector has seen no less than the client.
        assert!(notes.text(0).ends_with(event));
        next.send(()).unwrap();
    }
    assert_eq!(notes.until_end(0).1, End::Done);
    assert!(!format!("{:?}", notes.all()).contains(KEY));
}

#[test]
fn a_closed_route_cuts_what_runs_and_refuses_what_comes() {
    let origin = endless();
    let notes = Arc::new(Notes::default());
    let route = route(&origin, Arc::clone(&notes) as Arc<dyn RouteInspector>);
    let switch = route.switch();
    let world = serve(route);
    let mut stream = world.connect();
    stream.write_all(ASK).unwrap();
    read_head(&mut stream);
    let mut event = [0; 14];
    stream.read_exact(&mut event).unwrap();
    switch.close("the budget of 1000 tokens is used up");
    // The end of the chunked body is missing, so that the client knows that it was cut.
    assert_eq!(read_all(&mut stream), "");
    let end = End::Refused(Refusal::RouteClosed);
    assert_eq!((notes.until_end(0).1, world.recorder.end()), (end, end));
    let detail = || {
        world.recorder.wait(|event| {
            if let BrokerEvent::Refused { detail, .. } = event { detail.clone() } else { None }
        })
    };
    assert_eq!(detail(), "the budget of 1000 tokens is used up");
    // Not even the body is read any more.
    let text = world
        .talk(b"POST /model HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nabc");
    assert!(text.starts_with("HTTP/1.1 403 "), "{text}");
    let message = "NETWORK_REFUSED: the route is closed: the budget of 1000 tokens is used up";
    assert!(text.contains(&format!("\"message\":\"{message}\"")), "{text}");
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_request_without_a_response_is_answered_when_its_route_is_closed() {
    let origin = Origin::start(|mut stream| {
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let notes = Arc::new(Notes::default());
    let route = route(&origin, Arc::clone(&notes) as Arc<dyn RouteInspector>);
    let switch = route.switch();
    let world = serve(route);
    // One waits for the response, another is still sending its body.
    let mut waiting = world.connect();
    waiting.write_all(ASK).unwrap();
    world.recorder.wait(|event| matches!(event, BrokerEvent::Allowed { .. }).then_some(()));
    let mut sending = world.connect();
    sending.write_all(&ASK[..ASK.len() - 1]).unwrap();
    switch.close("enough");
    for stream in [&mut waiting, &mut sending] {
        let text = read_all(stream);
        assert!(text.starts_with("HTTP/1.1 403 ") && text.contains("closed: enough"), "{text}");
    }
    assert_eq!(notes.until_end(0).1, End::Refused(Refusal::RouteClosed));
    // The host may not have noticed the first connection yet.
    assert!(origin.count() <= 1);
}

/// Closes its route when it sees an event.
struct Budget {
    switch: Mutex<Option<RouteSwitch>>,
    notes: Notes,
}

impl RouteInspector for Budget {
    fn request(&self, request: &InspectedRequest<'_>) -> Result<(), String> {
        self.notes.request(request)
    }

    fn response_started(&self, id: u64, status: u16, headers: &[(&str, &[u8])]) {
        self.notes.response_started(id, status, headers);
    }

    fn response_bytes(&self, id: u64, bytes: &[u8]) {
        self.notes.response_bytes(id, bytes);
        if let Some(switch) = &*self.switch.lock().unwrap() {
            switch.close("used up");
        }
    }

    fn response_ended(&self, id: u64, end: End) {
        self.notes.response_ended(id, end);
    }
}

#[test]
fn an_inspector_can_close_its_own_route() {
    let origin = endless();
    let budget = Arc::new(Budget { switch: Mutex::new(None), notes: Notes::default() });
    let route = route(&origin, Arc::clone(&budget) as Arc<dyn RouteInspector>);
    *budget.switch.lock().unwrap() = Some(route.switch());
    let world = serve(route);
    let mut stream = world.connect();
    stream.write_all(ASK).unwrap();
    assert!(!read_all(&mut stream).contains("\r\n0\r\n"));
    assert_eq!(budget.notes.until_end(0).1, End::Refused(Refusal::RouteClosed));
}
