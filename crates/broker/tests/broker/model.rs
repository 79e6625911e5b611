//! The forwarder and the readers of model protocols together: tools refused, usage counted, the route closed.

use std::io::Write as _;
use std::sync::{Arc, Mutex};

use windlass_broker::{
    BrokerRules, End, InspectedRequest, ModelProtocol, ModelRequest, ModelResponse, OfferedTool,
    ResponseReader, Route, RouteInspector, RouteSwitch,
};

use crate::support::{Origin, read_all, read_head, world};

/// Lets one tool through and allows so many tokens of output.
struct Guard {
    output_max: u64,
    switch: Mutex<Option<RouteSwitch>>,
    reader: Mutex<Option<ResponseReader>>,
    responses: Mutex<Vec<ModelResponse>>,
}

impl RouteInspector for Guard {
    fn request(&self, request: &InspectedRequest<'_>) -> Result<(), String> {
        let read = ModelRequest::read(request).map_err(|error| error.to_string())?;
        let allowed = OfferedTool::Function("mcp__w__read".to_owned());
        match read.tools.iter().find(|tool| **tool != allowed) {
            Some(tool) => Err(format!("the tool `{tool}` is not allowed")),
            None => Ok(()),
        }
    }

    fn response_started(&self, _: u64, status: u16, headers: &[(&str, &[u8])]) {
        let reader = ResponseReader::new(ModelProtocol::AnthropicMessages, status, headers, 0);
        *self.reader.lock().unwrap() = Some(reader);
    }

    fn response_bytes(&self, _: u64, bytes: &[u8]) {
        let mut reader = self.reader.lock().unwrap();
        let reader = reader.as_mut().unwrap();
        reader.push(bytes);
        if reader.usage().output > self.output_max {
            self.switch.lock().unwrap().as_ref().unwrap().close("the budget is used up");
        }
    }

    fn response_ended(&self, _: u64, end: End) {
        let reader = self.reader.lock().unwrap().take().unwrap();
        self.responses.lock().unwrap().push(reader.finish(end));
    }
}

fn ask(tool: &str) -> String {
    let body = format!(r#"{{"model":"m","stream":true,"tools":[{{"name":"{tool}"}}]}}"#);
    let length = body.len();
    format!(
        "POST /model/v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

#[test]
fn a_budget_ends_an_invocation_in_flight() {
    let origin = Origin::start(|mut stream| {
        read_head(&mut stream);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        // It never stops by itself.
        for count in 1_u64.. {
            let event =
                format!(r#"{{"type":"message_delta","usage":{{"output_tokens":{count}}}}}"#);
            if stream.write_all(format!("data: {event}\n\n").as_bytes()).is_err() {
                break;
            }
        }
    });
    let guard = Arc::new(Guard {
        output_max: 1000,
        switch: Mutex::new(None),
        reader: Mutex::new(None),
        responses: Mutex::new(Vec::new()),
    });
    let route = Route::new("/model", &format!("http://{}", origin.at("127.0.0.1")), None).unwrap();
    *guard.switch.lock().unwrap() = Some(route.switch());
    let route = route.with_inspector(Arc::clone(&guard) as Arc<dyn RouteInspector>);
    let world = world(BrokerRules { routes: vec![route], ..BrokerRules::default() });

    let refused = world.talk(ask("Bash").as_bytes());
    assert!(refused.contains("the tool `Bash` is not allowed"), "{refused}");
    assert_eq!(origin.count(), 0);

    let mut stream = world.connect();
    stream.write_all(ask("mcp__w__read").as_bytes()).unwrap();
    assert!(!read_all(&mut stream).ends_with("0\r\n\r\n"));
    let refused = world.talk(ask("mcp__w__read").as_bytes());
    assert!(refused.contains("the route is closed: the budget is used up"), "{refused}");
    let responses = guard.responses.lock().unwrap();
    assert_eq!(responses.len(), 1);
    assert!(responses[0].usage.output > 1000);
    assert_eq!(responses[0].trouble.map(|trouble| trouble.name()), Some("cut"));
    assert_eq!(origin.count(), 1);
}
