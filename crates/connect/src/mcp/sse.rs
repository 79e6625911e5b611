//! Server-sent events, read with a limit on the size of one.

/// An event is larger than allowed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EventTooLarge;

/// Reassembles events from chunks of bytes.
pub(crate) struct Events {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// Events of another type are not messages.
    other_type: bool,
    after_return: bool,
    bytes_max: usize,
}

impl Events {
    pub const fn new(bytes_max: usize) -> Self {
        Self {
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            other_type: false,
            after_return: false,
            bytes_max,
        }
    }

    /// Takes more bytes and returns the data of the events that they complete.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<Vec<u8>>, EventTooLarge> {
        let mut events = Vec::new();
        if self.after_return {
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            self.after_return = false;
        }
        loop {
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            if self.line.len() + self.data.len() + part.len() > self.bytes_max {
                return Err(EventTooLarge);
            }
            self.line.extend_from_slice(part);
            let Some((newline, rest)) = rest.split_first() else { return Ok(events) };
            bytes = rest;
            if *newline == b'\r' {
                match rest.split_first() {
                    Some((b'\n', after)) => bytes = after,
                    Some(_) => {}
                    None => self.after_return = true,
                }
            }
            events.extend(self.end_line());
        }
    }

    /// Takes a whole line; an empty one ends the event.
    fn end_line(&mut self) -> Option<Vec<u8>> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let data = std::mem::take(&mut self.data);
            let complete = self.has_data && !self.other_type && !data.trim_ascii().is_empty();
            (self.has_data, self.other_type) = (false, false);
            return complete.then_some(data);
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (field, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => self.other_type = !matches!(value, b"" | b"message"),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, step: usize) -> Vec<String> {
        let mut events = Events::new(1000);
        text.as_bytes()
            .chunks(step)
            .flat_map(|chunk| events.push(chunk).unwrap())
            .map(|data| String::from_utf8(data).unwrap())
            .collect()
    }

    #[test]
    fn events_are_the_same_however_they_are_cut() {
        let text = ": hello\n\nid: 1\ndata: one\n\ndata:two\r\ndata: lines\r\n\r\nevent: message\r\
            data: three\r\revent: other\ndata: no\n\ndata\n\ndata: four\nretry: 1\n\ndata: unfinished\n";
        for step in 1..text.len() {
            assert_eq!(read(text, step), ["one", "two\nlines", "three", "four"], "{step}");
        }
    }

    #[test]
    fn an_event_cannot_outgrow_its_limit() {
        let mut events = Events::new(20);
        assert_eq!(events.push(b"data: 0123456789\n\ndata: 0123456789\n\n").unwrap().len(), 2);
        assert_eq!(events.push(b"data: 0123456789abcdef"), Err(EventTooLarge));
        let mut events = Events::new(20);
        assert_eq!(events.push(b"data: 01234567\ndata: 89\ndata: abcdef\n"), Err(EventTooLarge));
    }
}
