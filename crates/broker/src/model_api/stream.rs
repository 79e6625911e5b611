//! Server-sent events and whole bodies, with bounded memory.

/// The largest event or body that is read.
pub(super) const BYTES_MAX: usize = 16 * 1024 * 1024;

/// Texts that a response consists of: its only body, or the data of its events.
#[derive(Debug, Default)]
pub struct EventSplitter {
    form: Form,
    line: Vec<u8>,
    data: Vec<u8>,
    after_return: bool,
    /// Whether the event is too large and is being skipped.
    skips: bool,
    /// Whether something was too large to be read.
    pub has_skipped: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    #[default]
    Unknown,
    Body,
    Events,
}

impl EventSplitter {
    /// Takes a piece and returns the events that are complete.
    #[must_use]
    pub fn push(&mut self, mut bytes: &[u8]) -> Vec<Vec<u8>> {
        if self.form == Form::Unknown {
            bytes = bytes.trim_ascii_start();
            self.form = match bytes.first() {
                None => Form::Unknown,
                Some(b'{' | b'[' | b'"') => Form::Body,
                Some(_) => Form::Events,
            };
        }
        match self.form {
            Form::Unknown => Vec::new(),
            Form::Body => {
                self.keep(bytes);
                Vec::new()
            }
            Form::Events => self.events(bytes),
        }
    }

    /// What is left at the end: the body, or an event without the empty line behind it.
    #[must_use]
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        if self.form == Form::Events && !self.line.is_empty() {
            self.end_line();
        }
        let rest = std::mem::take(&mut self.data);
        (!rest.is_empty() && !self.skips).then_some(rest)
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.skips || self.data.len().saturating_add(bytes.len()) > BYTES_MAX {
            self.skip();
        } else {
            self.data.extend_from_slice(bytes);
        }
    }

    fn skip(&mut self) {
        self.skips = true;
        self.has_skipped = true;
        self.data = Vec::new();
        self.line = Vec::new();
    }

    fn events(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut events = Vec::new();
        for byte in bytes {
            let is_second = std::mem::replace(&mut self.after_return, *byte == b'\r');
            match byte {
                b'\n' if is_second => {}
                b'\r' | b'\n' => {
                    if self.line.is_empty() {
                        let event = std::mem::take(&mut self.data);
                        if !std::mem::take(&mut self.skips) && !event.is_empty() {
                            events.push(event);
                        }
                    } else {
                        self.end_line();
                    }
                }
                _ if self.line.len() >= BYTES_MAX => self.skip(),
                // While an event is skipped, a line only must not look empty.
                byte if self.skips => {
                    self.line.clear();
                    self.line.push(*byte);
                }
                byte => self.line.push(*byte),
            }
        }
        events
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if let Some(data) = line.strip_prefix(b"data:") {
            if !self.data.is_empty() {
                self.keep(b"\n");
            }
            self.keep(data.strip_prefix(b" ").unwrap_or(data));
        }
    }
}
