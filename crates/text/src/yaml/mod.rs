//! A strict YAML reader: one document as a tree of values, each with its position.
//!
//! Refuses every feature that makes a file mean something else than it shows: tags, anchors,
//! aliases, merge keys, duplicate keys, keys that are not text, tabs as indentation, deep nesting.

mod error;
mod scalar;

use std::collections::BTreeMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span};
use serde_json::{Map, Number, Value as Json};

pub use error::{DEPTH_MAX, YamlError, YamlProblem};

use crate::{DecodeProblem, Position, decode, printable};

/// Which unquoted scalars are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalars {
    /// In files that people write: what YAML 1.1 and 1.2 read differently is refused.
    Unambiguous,
    /// In data: the numbers of JSON, exponents included; words such as `yes` are text.
    Json,
}

/// A value and its position.
#[derive(Debug)]
pub struct Node {
    /// Where it starts.
    pub position: Position,
    /// The value.
    pub value: Value,
}

/// A key and its position.
#[derive(Debug)]
pub struct Key {
    /// Where it starts.
    pub position: Position,
    /// The key.
    pub name: String,
}

/// A value.
#[derive(Debug)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A number, as it stands in the file.
    Number(String),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A mapping, in the file's order.
    Map(Vec<(Key, Node)>),
}

impl Value {
    /// The type's name in messages.
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }
}

impl Node {
    /// The value as JSON; `number` converts a number from its text.
    ///
    /// # Errors
    /// What `number` returns.
    pub fn to_json<E>(
        &self,
        number: &impl Fn(&str, Position) -> Result<Number, E>,
    ) -> Result<Json, E> {
        Ok(match &self.value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Text(text) => Json::String(text.clone()),
            Value::Number(text) => Json::Number(number(text, self.position)?),
            Value::List(items) => Json::Array(
                items.iter().map(|item| item.to_json(number)).collect::<Result<_, _>>()?,
            ),
            Value::Map(entries) => {
                let pairs = entries.iter().map(|(key, value)| {
                    value.to_json(number).map(|value| (key.name.clone(), value))
                });
                Json::Object(pairs.collect::<Result<Map<_, _>, _>>()?)
            }
        })
    }
}

/// Reads one document of at most `bytes_max` bytes as a JSON value.
///
/// # Errors
/// [`YamlError`] with the first problem.
pub fn read_json(bytes: &[u8], bytes_max: usize) -> Result<Json, YamlError> {
    let text = decode(bytes, bytes_max).map_err(|error| YamlError {
        position: error.position,
        problem: YamlProblem::NotText(error.problem),
    })?;
    parse(text, Position::START, Scalars::Json)?.to_json(&|text, position| {
        let integer = || text.parse::<i64>().map(Number::from).ok();
        let unsigned = || text.parse::<u64>().map(Number::from).ok();
        let is_float = text.contains(['.', 'e', 'E']);
        let float = || text.parse().ok().filter(|_| is_float).and_then(Number::from_f64);
        integer().or_else(unsigned).or_else(float).ok_or_else(|| {
            YamlProblem::NumberOutOfRange(printable(text, SHOWN_CHARS_MAX)).at(position)
        })
    })
}

/// How much of a scalar a message shows.
const SHOWN_CHARS_MAX: usize = 80;

/// Parses one document whose first character is at `start` of its file.
///
/// # Errors
/// [`YamlError`] with the first problem.
pub fn parse(text: &str, start: Position, scalars: Scalars) -> Result<Node, YamlError> {
    let mut reader = Reader { start, scalars, open: Vec::new(), root: None, blocks: Vec::new() };
    let mut parser = Parser::new_from_str(text);
    let outcome = loop {
        match parser.next_event() {
            None => break Ok(()),
            Some(Ok((event, span))) => {
                if let Err(error) = reader.take(event, span) {
                    break Err(error);
                }
            }
            Some(Err(error)) => break Err(reader.syntax_error(&error, text)),
        }
    };
    // A tab explains an error below it, and is refused even where the parser accepts it.
    let limit = match &outcome {
        Ok(()) => usize::MAX,
        // The parser reports the line before the one that it could not read.
        Err(error) => error.position.line + 1,
    };
    if let Some(position) = reader.tab(text).filter(|position| position.line <= limit) {
        return Err(YamlProblem::Tab.at(position));
    }
    outcome?;
    Ok(reader.root.unwrap_or(Node { position: start, value: Value::Null }))
}

/// A list or mapping whose end has not been read.
enum Open {
    List {
        position: Position,
        items: Vec<Node>,
    },
    Map {
        position: Position,
        entries: Vec<(Key, Node)>,
        /// The line of each key.
        lines: BTreeMap<String, usize>,
        /// The key whose value comes next.
        key: Option<Key>,
    },
}

struct Reader {
    start: Position,
    scalars: Scalars,
    open: Vec<Open>,
    root: Option<Node>,
    /// First and last line of each block scalar, in which a tab is text.
    blocks: Vec<(usize, usize)>,
}

impl Reader {
    fn position(&self, marker: Marker) -> Position {
        Position { line: marker.line() + self.start.line - 1, column: marker.col() + 1 }
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), YamlError> {
        let position = self.position(span.start);
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) if self.root.is_some() => {
                Err(YamlProblem::SecondDocument.at(position))
            }
            Event::DocumentStart(_) => Ok(()),
            Event::Alias(_) => Err(YamlProblem::Alias.at(position)),
            Event::Scalar(_, _, anchor, _)
            | Event::SequenceStart(anchor, _)
            | Event::MappingStart(anchor, _)
                if anchor != 0 =>
            {
                Err(YamlProblem::Anchor.at(position))
            }
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => Err(YamlProblem::Tag.at(position)),
            Event::Scalar(text, style, _, None) => self.scalar(&text, style, position, span),
            Event::SequenceStart(_, None) => self.begin(Open::List { position, items: Vec::new() }),
            Event::MappingStart(_, None) => {
                let (entries, lines) = (Vec::new(), BTreeMap::new());
                self.begin(Open::Map { position, entries, lines, key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::List { position, items }) => {
                    self.attach(Node { position, value: Value::List(items) })
                }
                Some(Open::Map { position, entries, .. }) => {
                    self.attach(Node { position, value: Value::Map(entries) })
                }
                None => Ok(()),
            },
        }
    }

    fn begin(&mut self, open: Open) -> Result<(), YamlError> {
        let (Open::List { position, .. } | Open::Map { position, .. }) = &open;
        if let Some(Open::Map { key: None, .. }) = self.open.last() {
            return Err(YamlProblem::KeyNotText.at(*position));
        }
        if self.open.len() >= DEPTH_MAX {
            return Err(YamlProblem::TooDeep.at(*position));
        }
        self.open.push(open);
        Ok(())
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        position: Position,
        span: Span,
    ) -> Result<(), YamlError> {
        if self.scalars == Scalars::Unambiguous && text.contains('\0') {
            return Err(YamlProblem::NotText(DecodeProblem::Nul).at(position));
        }
        let value = match style {
            ScalarStyle::Plain => scalar::resolve(text, self.scalars).map_err(|other_type| {
                let text = printable(text, SHOWN_CHARS_MAX);
                YamlProblem::Ambiguous { text, other_type }.at(position)
            })?,
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Value::Text(text.to_owned()),
            ScalarStyle::Literal | ScalarStyle::Folded => {
                let last = span.end.line() - usize::from(span.end.col() == 0);
                self.blocks.push((span.start.line(), last));
                Value::Text(text.to_owned())
            }
        };
        let Some(Open::Map { lines, key: key @ None, .. }) = self.open.last_mut() else {
            return self.attach(Node { position, value });
        };
        let Value::Text(name) = value else {
            return Err(YamlProblem::KeyNotText.at(position));
        };
        if name == "<<" && style == ScalarStyle::Plain {
            return Err(YamlProblem::MergeKey.at(position));
        }
        if let Some(first_line) = lines.insert(name.clone(), position.line) {
            let key = printable(&name, SHOWN_CHARS_MAX);
            return Err(YamlProblem::DuplicateKey { key, first_line }.at(position));
        }
        *key = Some(Key { position, name });
        Ok(())
    }

    fn attach(&mut self, node: Node) -> Result<(), YamlError> {
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { entries, key, .. }) => {
                let key = key.take().ok_or_else(|| YamlProblem::KeyNotText.at(node.position))?;
                entries.push((key, node));
            }
        }
        Ok(())
    }

    /// The parser's error, at a position that exists in the file.
    fn syntax_error(&self, error: &ScanError, text: &str) -> YamlError {
        let marker = error.marker();
        let mut position = self.position(*marker);
        let lines = text.lines().count().max(1);
        if marker.line() > lines {
            // The line after the text: in frontmatter, its closing fence.
            position = Position { line: self.start.line + lines, column: 1 };
            if text.is_empty() {
                position = self.start;
            }
        }
        let problem = if error.info().contains("anchor") {
            YamlProblem::Alias
        } else if error.info().contains("recursion limit") {
            YamlProblem::TooDeep
        } else {
            YamlProblem::Syntax(printable(error.info(), SHOWN_CHARS_MAX))
        };
        problem.at(position)
    }

    /// The first tab in the indentation of a line outside block scalars.
    fn tab(&self, text: &str) -> Option<Position> {
        let mut blocks = self.blocks.iter().peekable();
        for (number, line) in (1..).zip(text.lines()) {
            while blocks.next_if(|(_, last)| *last < number).is_some() {}
            let is_text = blocks.peek().is_some_and(|(first, _)| *first <= number);
            let rest = line.trim_start_matches([' ', '\t']);
            let indentation = line.get(..line.len() - rest.len()).unwrap_or_default();
            if !is_text
                && !rest.is_empty()
                && let Some(at) = indentation.find('\t')
            {
                return Some(Position { line: number + self.start.line - 1, column: at + 1 });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Node, YamlError> {
        parse(text, Position::START, Scalars::Unambiguous)
    }

    fn refusal(text: &str) -> (usize, usize, YamlProblem) {
        let error = read(text).expect_err(text);
        (error.position.line, error.position.column, error.problem)
    }

    #[test]
    fn features_that_hide_meaning_are_refused() {
        assert_eq!(refusal("a: &x 1\nb: *x\n"), (1, 4, YamlProblem::Anchor));
        assert_eq!(refusal("a: *x\n"), (1, 4, YamlProblem::Alias));
        assert_eq!(refusal("a: !!str 1\n"), (1, 4, YamlProblem::Tag));
        assert_eq!(refusal("a: !x {b: c}\n"), (1, 4, YamlProblem::Tag));
        assert_eq!(refusal("a: {<<: b}\n"), (1, 5, YamlProblem::MergeKey));
        assert_eq!(refusal("? [a]\n: b\n"), (1, 3, YamlProblem::KeyNotText));
        assert_eq!(refusal("1: b\n"), (1, 1, YamlProblem::KeyNotText));
        assert_eq!(refusal("a: 1\n...\nb: 2\n").2, YamlProblem::SecondDocument);
        let duplicate = YamlProblem::DuplicateKey { key: "a".into(), first_line: 1 };
        assert_eq!(refusal("a: 1\nb: 2\na: 3\n"), (3, 1, duplicate));
    }

    #[test]
    fn a_tab_is_text_in_a_block_scalar_and_refused_as_indentation() {
        for text in ["a: |\n  x\n  \ty\n\nb: c\n", "a: >\n  \tx\n", "a: b\n\t\nc: d\n"] {
            assert!(read(text).is_ok(), "{text:?}");
        }
        for (text, line, column) in [
            ("a:\n\tb: 1\n", 2, 1),
            ("a:\n  - x\n\t- y\n", 3, 1),
            ("a: [\n \tb]\n", 2, 2),
            ("a: |\n  x\n  \ty\nb:\n\t- c\n", 5, 1),
        ] {
            assert_eq!(refusal(text), (line, column, YamlProblem::Tab), "{text:?}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(read(&deep(DEPTH_MAX)).is_ok());
        assert_eq!(refusal(&deep(DEPTH_MAX + 1)).2, YamlProblem::TooDeep);
        assert_eq!(refusal(&"- ".repeat(100_000)).2, YamlProblem::TooDeep);
    }
}
