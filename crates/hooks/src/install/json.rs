//! JSON with the place of every value, so that a text can be edited without being rewritten.

use std::ops::Range;

use super::error::{InstallError, Position};

/// The most containers inside each other.
const DEPTH_MAX: usize = 100;

/// Whether comments are allowed between values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comments {
    Allowed,
    Refused,
}

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub span: Range<usize>,
    pub value: Value,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// As it is written.
    Number(String),
    String(String),
    Array(Vec<Node>),
    Object(Vec<Member>),
}

/// A member of an object.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub key: String,
    pub key_span: Range<usize>,
    pub node: Node,
}

/// Compares what is said, not where.
impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// Compares what is said, not where.
impl PartialEq for Member {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key && self.node == other.node
    }
}

impl Node {
    /// The member of this name, if this is an object that has one.
    pub fn member(&self, key: &str) -> Option<&Member> {
        self.members().iter().find(|member| member.key == key)
    }

    /// The value of this name, if this is an object that has one.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.member(key).map(|member| &member.node)
    }

    /// The members, of an object.
    pub fn members(&self) -> &[Member] {
        match &self.value {
            Value::Object(members) => members,
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => &[],
        }
    }

    /// The elements, of an array.
    pub fn elements(&self) -> Option<&[Self]> {
        match &self.value {
            Value::Array(elements) => Some(elements),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_) => None,
        }
    }

    /// The text, of a string.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => None,
        }
    }

    /// Whether this is an object.
    pub const fn is_object(&self) -> bool {
        matches!(self.value, Value::Object(_))
    }

    /// Leaves out empty arrays in the member `hooks`, and that member if it is then empty.
    pub fn drop_empty_hooks(&mut self) {
        let Value::Object(members) = &mut self.value else { return };
        for member in members.iter_mut().filter(|member| member.key == "hooks") {
            if let Value::Object(events) = &mut member.node.value {
                events.retain(|event| event.node.elements() != Some(&[]));
            }
        }
        let empty = Value::Object(Vec::new());
        members.retain(|member| member.key != "hooks" || member.node.value != empty);
    }

    /// The places of the items of a container: of elements, or of members with their keys.
    pub fn items(&self) -> Vec<Range<usize>> {
        match &self.value {
            Value::Array(elements) => elements.iter().map(|node| node.span.clone()).collect(),
            Value::Object(members) => {
                members.iter().map(|member| member.key_span.start..member.node.span.end).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
        }
    }
}

/// Reads a text that is one value.
pub(crate) fn parse(text: &str, comments: Comments) -> Result<Node, InstallError> {
    let mut parser = Parser { text, at: 0, comments };
    parser.skip_gap()?;
    let node = parser.value(0)?;
    parser.skip_gap()?;
    if parser.at < text.len() {
        Err(parser.wrong("the text goes on after its end"))
    } else {
        Ok(node)
    }
}

/// A part of the text between values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub kind: PieceKind,
    pub span: Range<usize>,
}

/// What can be between values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PieceKind {
    Space,
    Comma,
    /// Up to the end of its line, with that end.
    LineComment,
    BlockComment,
}

impl PieceKind {
    /// Whether this is a comment.
    pub const fn is_comment(self) -> bool {
        match self {
            Self::Space | Self::Comma => false,
            Self::LineComment | Self::BlockComment => true,
        }
    }
}

/// The parts of the text between two values of a parsed text.
pub(crate) fn pieces(text: &str, gap: Range<usize>) -> Vec<Piece> {
    let bytes = text.as_bytes();
    let mut pieces: Vec<Piece> = Vec::new();
    let mut at = gap.start;
    while let Some(byte) = bytes.get(at).filter(|_| at < gap.end) {
        let (kind, end) = match byte {
            b',' => (PieceKind::Comma, at + 1),
            b'/' => match comment_end(bytes, at) {
                Some((kind, end)) => (kind, end),
                None => break,
            },
            b' ' | b'\t' | b'\r' | b'\n' => {
                let space = bytes.iter().skip(at).take_while(|byte| is_space(**byte)).count();
                (PieceKind::Space, at + space)
            }
            _ => break,
        };
        let end = end.min(gap.end);
        pieces.push(Piece { kind, span: at..end });
        at = end;
    }
    pieces
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Where the comment that begins here ends; none, if it does not, or if none begins.
fn comment_end(bytes: &[u8], at: usize) -> Option<(PieceKind, usize)> {
    let rest = bytes.get(at + 2..)?;
    match bytes.get(at..at + 2)? {
        b"//" => {
            let line =
                rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1);
            Some((PieceKind::LineComment, at + 2 + line))
        }
        b"/*" => {
            let end = rest.windows(2).position(|pair| pair == b"*/")?;
            Some((PieceKind::BlockComment, at + 2 + end + 2))
        }
        _ => None,
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    comments: Comments,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let taken = self.peek() == Some(byte);
        self.at += usize::from(taken);
        taken
    }

    fn wrong(&self, message: &str) -> InstallError {
        let message = format!("not JSON: {message}");
        InstallError::Syntax { at: Position::at(self.text, self.at), message }
    }

    /// Goes on to the next byte that is neither space nor comment.
    fn skip_gap(&mut self) -> Result<(), InstallError> {
        while let Some(byte) = self.peek() {
            if is_space(byte) {
                self.at += 1;
            } else if byte == b'/' {
                let end = comment_end(self.text.as_bytes(), self.at);
                let Some((_, end)) = end else { return Err(self.wrong("a comment has no end")) };
                if self.comments == Comments::Refused {
                    let at = Position::at(self.text, self.at);
                    return Err(InstallError::Comment { at });
                }
                self.at = end;
            } else {
                break;
            }
        }
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<Node, InstallError> {
        if depth > DEPTH_MAX {
            return Err(self.wrong("too many values inside each other"));
        }
        let start = self.at;
        let value = match self.peek() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.array(depth)?,
            Some(b'"') => Value::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.word("true", Value::Bool(true))?,
            Some(b'f') => self.word("false", Value::Bool(false))?,
            Some(b'n') => self.word("null", Value::Null)?,
            Some(_) => return Err(self.wrong("a value is expected")),
            None => return Err(self.wrong("a value is expected, but the text ends")),
        };
        Ok(Node { span: start..self.at, value })
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, InstallError> {
        if !self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            return Err(self.wrong("a value is expected"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn object(&mut self, depth: usize) -> Result<Value, InstallError> {
        self.at += 1;
        let mut members: Vec<Member> = Vec::new();
        // Sorted, so that an object of many keys is read quickly.
        let mut keys = std::collections::BTreeSet::new();
        self.skip_gap()?;
        if self.take(b'}') {
            return Ok(Value::Object(members));
        }
        loop {
            self.skip_gap()?;
            let start = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.wrong("a key in quotes is expected"));
            }
            let key = self.string()?;
            if !keys.insert(key.clone()) {
                let at = Position::at(self.text, start);
                return Err(InstallError::DuplicateKey { key, at });
            }
            let key_span = start..self.at;
            self.skip_gap()?;
            if !self.take(b':') {
                return Err(self.wrong("a colon is expected"));
            }
            self.skip_gap()?;
            let node = self.value(depth + 1)?;
            members.push(Member { key, key_span, node });
            self.skip_gap()?;
            if self.take(b'}') {
                return Ok(Value::Object(members));
            }
            if !self.take(b',') {
                return Err(self.wrong("a comma or `}` is expected"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, InstallError> {
        self.at += 1;
        let mut elements = Vec::new();
        self.skip_gap()?;
        if self.take(b']') {
            return Ok(Value::Array(elements));
        }
        loop {
            self.skip_gap()?;
            elements.push(self.value(depth + 1)?);
            self.skip_gap()?;
            if self.take(b']') {
                return Ok(Value::Array(elements));
            }
            if !self.take(b',') {
                return Err(self.wrong("a comma or `]` is expected"));
            }
        }
    }

    fn number(&mut self) -> Result<Value, InstallError> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        Ok(Value::Number(self.text.get(start..self.at).unwrap_or("").to_owned()))
    }

    fn digits(&mut self) -> Result<(), InstallError> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { Err(self.wrong("a digit is expected")) } else { Ok(()) }
    }

    fn string(&mut self) -> Result<String, InstallError> {
        self.at += 1;
        let mut string = String::new();
        loop {
            let rest = self.text.get(self.at..).unwrap_or("");
            let plain = rest.find(|char: char| matches!(char, '"' | '\\' | '\0'..='\u{1f}'));
            let Some(plain) = plain else { return Err(self.wrong("a string has no end")) };
            string.push_str(rest.get(..plain).unwrap_or(""));
            self.at += plain;
            if self.take(b'"') {
                return Ok(string);
            }
            if !self.take(b'\\') {
                return Err(self.wrong("a control character is in a string"));
            }
            string.push(self.escape()?);
        }
    }

    /// The character that an escape stands for; the replacement character for half of a pair.
    fn escape(&mut self) -> Result<char, InstallError> {
        let char = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let first = self.hex(self.at + 1);
                let Some(first) = first else { return Err(self.wrong("an escape is not right")) };
                self.at += 5;
                return Ok(self.paired(first));
            }
            Some(_) | None => return Err(self.wrong("an escape is not right")),
        };
        self.at += 1;
        Ok(char)
    }

    /// The character of this code, together with the escape that follows if both are a pair.
    fn paired(&mut self, first: u32) -> char {
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER);
        }
        let escaped = self.text.get(self.at..).is_some_and(|rest| rest.starts_with("\\u"));
        let second = if escaped { self.hex(self.at + 2) } else { None };
        match second.filter(|second| (0xdc00..0xe000).contains(second)) {
            Some(second) => {
                self.at += 6;
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            None => char::REPLACEMENT_CHARACTER,
        }
    }

    fn hex(&self, at: usize) -> Option<u32> {
        let digits = self.text.get(at..at + 4)?;
        let all = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        if all { u32::from_str_radix(digits, 16).ok() } else { None }
    }
}
