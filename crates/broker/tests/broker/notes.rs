//! An inspector that writes down what it is told.

use std::sync::{Condvar, Mutex};

use windlass_broker::{End, InspectedRequest, RouteInspector};

use crate::support::PATIENCE;

/// What an inspector was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    Request { id: u64, line: String, headers: Vec<String>, body: String },
    Started { id: u64, status: u16, headers: Vec<String> },
    Bytes { id: u64, text: String },
    Ended { id: u64, end: End },
}

/// Writes everything down; refuses bodies that contain `refuse`.
#[derive(Default)]
pub struct Notes {
    notes: Mutex<Vec<Note>>,
    changed: Condvar,
}

fn lines(headers: &[(&str, &[u8])]) -> Vec<String> {
    let line =
        |(name, value): &(&str, &[u8])| format!("{name}: {}", String::from_utf8_lossy(value));
    headers.iter().map(line).collect()
}

impl Notes {
    fn add(&self, note: Note) {
        self.notes.lock().unwrap().push(note);
        self.changed.notify_all();
    }

    pub fn all(&self) -> Vec<Note> {
        self.notes.lock().unwrap().clone()
    }

    /// Waits for the end of an exchange and returns everything until then.
    pub fn until_end(&self, id: u64) -> (Vec<Note>, End) {
        let mut notes = self.notes.lock().unwrap();
        loop {
            let ended = notes.iter().find_map(|note| match note {
                Note::Ended { id: found, end } if *found == id => Some(*end),
                Note::Ended { .. }
                | Note::Request { .. }
                | Note::Started { .. }
                | Note::Bytes { .. } => None,
            });
            if let Some(end) = ended {
                return (notes.clone(), end);
            }
            let (next, waited) = self.changed.wait_timeout(notes, PATIENCE).unwrap();
            assert!(!waited.timed_out(), "{next:?}");
            notes = next;
        }
    }

    /// The body of a response, as the inspector saw it.
    pub fn text(&self, id: u64) -> String {
        let all = self.all().into_iter();
        all.filter_map(|note| match note {
            Note::Bytes { id: found, text } if found == id => Some(text),
            Note::Bytes { .. }
            | Note::Request { .. }
            | Note::Started { .. }
            | Note::Ended { .. } => None,
        })
        .collect()
    }
}

impl RouteInspector for Notes {
    fn request(&self, request: &InspectedRequest<'_>) -> Result<(), String> {
        let body = String::from_utf8_lossy(request.body).into_owned();
        let refused = body.contains("refuse");
        self.add(Note::Request {
            id: request.id,
            line: format!("{} {}", request.method, request.path),
            headers: lines(request.headers),
            body,
        });
        if refused { Err("tool `Bash` is not \"allowed\"".to_owned()) } else { Ok(()) }
    }

    fn response_started(&self, id: u64, status: u16, headers: &[(&str, &[u8])]) {
        self.add(Note::Started { id, status, headers: lines(headers) });
    }

    fn response_bytes(&self, id: u64, bytes: &[u8]) {
        self.add(Note::Bytes { id, text: String::from_utf8_lossy(bytes).into_owned() });
    }

    fn response_ended(&self, id: u64, end: End) {
        self.add(Note::Ended { id, end });
    }
}
