//! The elements of a JSON list, one after the other, from a stream or from a text in memory.

use std::io::{self, BufRead};

/// Where a byte stands in a JSON text: how deep, and whether in a string.
#[derive(Default)]
struct Position {
    depth: usize,
    is_quoted: bool,
    is_escaped: bool,
}

impl Position {
    /// Goes past a byte, and says whether it ends an element: a comma, or a closing bracket of the list itself.
    fn ends_element(&mut self, byte: u8) -> bool {
        match (self.is_quoted, byte) {
            (true, _) if self.is_escaped => self.is_escaped = false,
            (true, b'\\') => self.is_escaped = true,
            (_, b'"') => self.is_quoted = !self.is_quoted,
            (false, b'[' | b'{') => self.depth += 1,
            (false, b']' | b'}') if self.depth == 0 => return true,
            (false, b']' | b'}') => self.depth -= 1,
            (false, b',') => return self.depth == 0,
            _ => {}
        }
        false
    }
}

/// One step through a list.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// An element is in the buffer. Its text is not checked.
    Element,
    /// An element is longer than the limit, and was skipped.
    TooLong,
    /// The list ended as it should, with nothing after it.
    End,
    /// The text ended within the list, or goes on after it.
    Torn,
}

/// Reads the elements of a list of any length in the memory of one element.
pub struct Elements<R> {
    reader: R,
    bytes_max: usize,
    /// Whether an element was read, after which a comma must come before the next one.
    has_element: bool,
    is_closed: bool,
}

impl<R: BufRead> Elements<R> {
    /// Goes through a list whose opening bracket was read already.
    pub const fn new(reader: R, bytes_max: usize) -> Self {
        Self { reader, bytes_max, has_element: false, is_closed: false }
    }

    /// Reads the next element into `buffer`, without the blanks around it.
    pub fn next(&mut self, buffer: &mut Vec<u8>) -> io::Result<Step> {
        buffer.clear();
        if self.is_closed {
            return Ok(if self.is_at_end()? { Step::End } else { Step::Torn });
        }
        let (mut position, mut is_too_long) = (Position::default(), false);
        loop {
            let chunk = self.reader.fill_buf()?;
            if chunk.is_empty() {
                return Ok(Step::Torn);
            }
            let end = chunk.iter().position(|byte| position.ends_element(*byte));
            let part = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
            // Blanks before an element do not count towards its length.
            let part = if buffer.is_empty() { part.trim_ascii_start() } else { part };
            is_too_long |= buffer.len() + part.len() > self.bytes_max;
            if !is_too_long {
                buffer.extend_from_slice(part);
            }
            let closing = end.and_then(|at| chunk.get(at)).copied();
            let used = end.map_or(chunk.len(), |at| at + 1);
            self.reader.consume(used);
            let Some(closing) = closing else { continue };
            self.is_closed = closing != b',';
            buffer.truncate(buffer.trim_ascii_end().len());
            let is_empty_list = self.is_closed && !self.has_element && buffer.is_empty();
            self.has_element = true;
            return match (closing, is_too_long) {
                (b'}', _) => Ok(Step::Torn),
                _ if is_empty_list => self.next(buffer),
                (_, true) => Ok(Step::TooLong),
                (_, false) => Ok(Step::Element),
            };
        }
    }

    /// Whether nothing but blanks follows.
    fn is_at_end(&mut self) -> io::Result<bool> {
        loop {
            let chunk = self.reader.fill_buf()?;
            if chunk.is_empty() {
                return Ok(true);
            }
            if !chunk.trim_ascii().is_empty() {
                return Ok(false);
            }
            let used = chunk.len();
            self.reader.consume(used);
        }
    }
}

/// Splits a valid list or object at its top-level commas. Each part is then parsed strictly by itself, so
/// that an error is reported at its own entry.
pub fn parts(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let inner = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
    let mut position = Position::default();
    let parts = inner.split(move |byte| position.ends_element(*byte));
    parts.map(<[u8]>::trim_ascii).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The elements of a list, read by so many bytes at a time, and how it ended.
    fn read(text: &str, capacity: usize, bytes_max: usize) -> (Vec<String>, Step) {
        let reader = io::BufReader::with_capacity(capacity, text.as_bytes());
        let (mut elements, mut buffer) = (Elements::new(reader, bytes_max), Vec::new());
        let mut found = Vec::new();
        loop {
            match elements.next(&mut buffer).unwrap() {
                Step::Element => found.push(String::from_utf8(buffer.clone()).unwrap()),
                Step::TooLong => found.push("too long".to_owned()),
                end @ (Step::End | Step::Torn) => return (found, end),
            }
        }
    }

    #[test]
    fn lists_are_read_alike_however_few_bytes_come_at_a_time() {
        let cases: [(&str, &[&str], Step); 12] = [
            ("]", &[], Step::End),
            (" \n] \r\n", &[], Step::End),
            ("1]", &["1"], Step::End),
            (" {\"a\":[1,2]} , \"],\\\"\" ]\n", &["{\"a\":[1,2]}", "\"],\\\"\""], Step::End),
            ("1,]", &["1", ""], Step::End),
            (",1]", &["", "1"], Step::End),
            ("1,2", &["1"], Step::Torn),
            ("", &[], Step::Torn),
            ("1] 2", &["1"], Step::Torn),
            ("1]]", &["1"], Step::Torn),
            ("1}", &[], Step::Torn),
            ("   123456789,        1    ]", &["too long", "1"], Step::End),
        ];
        for (text, elements, end) in cases {
            let bytes_max = if text.contains("123456789") { 8 } else { 64 };
            for capacity in [1, 2, 3, 7, 64] {
                let (found, how) = read(text, capacity, bytes_max);
                assert_eq!(found, elements, "{text:?} by {capacity}");
                assert_eq!(how, end, "{text:?} by {capacity}");
            }
        }
    }

    #[test]
    fn parts_of_objects_are_their_members() {
        let text = br#"{ "a" : [1, 2] , "b,": {"c": "}"} }"#;
        let found: Vec<&[u8]> = parts(text).collect();
        assert_eq!(found, [&br#""a" : [1, 2]"#[..], br#""b,": {"c": "}"}"#]);
    }
}
