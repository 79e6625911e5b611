//! Lines of programs.

use serde_json::json;

use std::sync::mpsc::channel;

use windlass_kernel::run::Usage;

use super::protocol::Spoken;
use super::streams::{LINE_BYTES_MAX, Message, read_lines};

fn lines(bytes: &[u8]) -> Vec<String> {
    let (sender, receiver) = channel();
    read_lines(bytes, &sender);
    drop(sender);
    receiver
        .iter()
        .map(|message| match message {
            Message::Line(line) => String::from_utf8(line).unwrap(),
            Message::LongLine => "too long".to_owned(),
            Message::OutputEnded => "end".to_owned(),
            Message::Called { .. } => "call".to_owned(),
        })
        .collect()
}

#[test]
fn lines_are_bounded() {
    assert_eq!(lines(b"a\nb"), ["a\n", "b", "end"]);
    let most = usize::try_from(LINE_BYTES_MAX).unwrap();
    let mut long = vec![b'x'; most];
    long.push(b'\n');
    assert_eq!(lines(&long).len(), 2);
    long.insert(0, b'x');
    assert_eq!(lines(&long), ["too long"]);
}

#[test]
fn a_line_is_of_the_protocol_or_an_error() {
    let call = json!({ "type": "call", "id": "1", "name": "n", "arguments": { "a": 1 } });
    let expected =
        Spoken::Call { id: "1".to_owned(), name: "n".to_owned(), arguments: json!({ "a": 1 }) };
    assert_eq!(Spoken::read(call.to_string().as_bytes()), Ok(expected));
    let usage = Usage { input_tokens: 3, ..Usage::default() };
    let line = json!({ "type": "usage", "input_tokens": 3 });
    assert_eq!(Spoken::read(line.to_string().as_bytes()), Ok(Spoken::Usage(usage)));
    let line = json!({ "type": "finish", "answer": { "summary": "s" } });
    let finish = Spoken::Finish(json!({ "summary": "s" }));
    assert_eq!(Spoken::read(line.to_string().as_bytes()), Ok(finish));
    for line in [
        "",
        "hello",
        "{}",
        "[]",
        "{\"type\":\"shout\"}",
        "{\"type\":\"call\",\"name\":\"n\"}",
        "{\"type\":\"call\",\"id\":\"\",\"name\":\"n\"}",
        "{\"type\":\"call\",\"id\":1,\"name\":\"n\"}",
        "{\"type\":\"call\",\"id\":\"1\",\"name\":\"n\",\"arguments\":[]}",
        "{\"type\":\"call\",\"id\":\"1\",\"name\":\"n\",\"extra\":1}",
        "{\"type\":\"usage\",\"input_tokens\":-1}",
        "{\"type\":\"finish\"}",
        "{\"type\":\"finish\",\"answer\":{}} {}",
    ] {
        assert!(Spoken::read(line.as_bytes()).is_err(), "{line}");
    }
}
