//! YAML as a tree of values, each with its place, without anything that can be read in two ways.

mod plain;

use std::collections::BTreeMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span};

use crate::error::{Fault, Place, Problem, shown};

/// How deep values may be nested.
const DEPTH_MAX: usize = 32;

/// A value at its place.
#[derive(Debug)]
pub struct Node {
    pub at: Place,
    pub value: Value,
}

/// A key at its place.
#[derive(Debug)]
pub struct Key {
    pub at: Place,
    pub name: String,
}

#[derive(Debug)]
pub enum Value {
    Null,
    Bool(bool),
    /// Digits as they stand in the file, with an optional sign and decimals.
    Number(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

impl Value {
    /// What it is called in messages.
    pub const fn named(&self) -> &'static str {
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

/// A list or mapping that is not finished.
enum Open {
    List { at: Place, items: Vec<Node> },
    Map { at: Place, entries: Vec<(Key, Node)>, seen: BTreeMap<String, usize>, key: Option<Key> },
}

/// Reads one document whose first character stands at `start`.
pub fn read(text: &str, start: Place) -> Result<Node, Fault> {
    let mut reader = Reader { start, open: Vec::new(), root: None, blocks: Vec::new() };
    let mut parser = Parser::new_from_str(text);
    let outcome = loop {
        match parser.next_event() {
            None => break Ok(()),
            Some(Ok((event, span))) => {
                if let Err(fault) = reader.take(event, span) {
                    break Err(fault);
                }
            }
            Some(Err(error)) => break Err(reader.refused(&error, text)),
        }
    };
    // A tab explains a fault below it, and is refused where the parser lets it pass.
    let limit = match &outcome {
        Ok(()) => usize::MAX,
        // The parser names the line before the one that it could not read.
        Err(fault) => fault.place().line + 1,
    };
    if let Some(place) = reader.tab(text).filter(|place| place.line <= limit) {
        return Err(Problem::Tab.at(place));
    }
    outcome?;
    Ok(reader.root.unwrap_or(Node { at: start, value: Value::Null }))
}

struct Reader {
    start: Place,
    open: Vec<Open>,
    root: Option<Node>,
    /// First and last line of each block of text, in which a tab is text.
    blocks: Vec<(usize, usize)>,
}

impl Reader {
    fn place(&self, marker: Marker) -> Place {
        Place { line: marker.line() + self.start.line - 1, column: marker.col() + 1 }
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Fault> {
        let at = self.place(span.start);
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) if self.root.is_some() => Err(Problem::SecondDocument.at(at)),
            Event::DocumentStart(_) => Ok(()),
            Event::Alias(_) => Err(Problem::Alias.at(at)),
            Event::Scalar(_, _, anchor, _)
            | Event::SequenceStart(anchor, _)
            | Event::MappingStart(anchor, _)
                if anchor != 0 =>
            {
                Err(Problem::Anchor.at(at))
            }
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => Err(Problem::Tag.at(at)),
            Event::Scalar(text, style, _, None) => self.scalar(&text, style, at, span),
            Event::SequenceStart(_, None) => self.begin(at, Open::List { at, items: Vec::new() }),
            Event::MappingStart(_, None) => {
                let (entries, seen) = (Vec::new(), BTreeMap::new());
                self.begin(at, Open::Map { at, entries, seen, key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::List { at, items }) => {
                    self.attach(Node { at, value: Value::List(items) })
                }
                Some(Open::Map { at, entries, .. }) => {
                    self.attach(Node { at, value: Value::Map(entries) })
                }
                None => Ok(()),
            },
        }
    }

    fn begin(&mut self, at: Place, open: Open) -> Result<(), Fault> {
        if let Some(Open::Map { key: None, .. }) = self.open.last() {
            return Err(Problem::KeyNotText.at(at));
        }
        if self.open.len() >= DEPTH_MAX {
            return Err(Problem::TooDeep(DEPTH_MAX).at(at));
        }
        self.open.push(open);
        Ok(())
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        at: Place,
        span: Span,
    ) -> Result<(), Fault> {
        if text.contains('\0') {
            return Err(Problem::Nul.at(at));
        }
        let value = match style {
            ScalarStyle::Plain => {
                plain::value(text).map_err(|like| Problem::Doubtful(shown(text), like).at(at))?
            }
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Value::Text(text.to_owned()),
            ScalarStyle::Literal | ScalarStyle::Folded => {
                let last = span.end.line() - usize::from(span.end.col() == 0);
                self.blocks.push((span.start.line(), last));
                Value::Text(text.to_owned())
            }
        };
        let Some(Open::Map { seen, key: key @ None, .. }) = self.open.last_mut() else {
            return self.attach(Node { at, value });
        };
        let Value::Text(name) = value else {
            return Err(Problem::KeyNotText.at(at));
        };
        if name == "<<" && style == ScalarStyle::Plain {
            return Err(Problem::MergeKey.at(at));
        }
        if let Some(first) = seen.insert(name.clone(), at.line) {
            return Err(Problem::DuplicateKey { key: shown(&name), first }.at(at));
        }
        *key = Some(Key { at, name });
        Ok(())
    }

    fn attach(&mut self, node: Node) -> Result<(), Fault> {
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { entries, key, .. }) => {
                let key = key.take().ok_or_else(|| Problem::KeyNotText.at(node.at))?;
                entries.push((key, node));
            }
        }
        Ok(())
    }

    /// The parser's refusal, at a place that is inside the frontmatter.
    fn refused(&self, error: &ScanError, text: &str) -> Fault {
        let marker = error.marker();
        let mut place = self.place(*marker);
        let lines = text.lines().count().max(1);
        if marker.line() > lines {
            // What is missing at the end is missing in the closing line.
            place = Place { line: self.start.line + lines, column: 1 };
            if text.is_empty() {
                place = self.start;
            }
        }
        let problem = if error.info().contains("anchor") {
            Problem::Alias
        } else {
            Problem::NotYaml(shown(error.info()))
        };
        problem.at(place)
    }

    /// The first tab in the indentation of a line that is not text.
    fn tab(&self, text: &str) -> Option<Place> {
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
                return Some(Place { line: number + self.start.line - 1, column: at + 1 });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Place = Place { line: 1, column: 1 };

    fn fault(text: &str) -> (usize, usize, Problem) {
        let (place, problem) = read(text, START).expect_err(text).into_parts();
        (place.line, place.column, problem)
    }

    #[test]
    fn what_reads_differently_than_it_looks_is_refused() {
        assert_eq!(fault("a: &x 1\nb: *x\n"), (1, 4, Problem::Anchor));
        assert_eq!(fault("a: *x\n"), (1, 4, Problem::Alias));
        assert_eq!(fault("a: !!str 1\n"), (1, 4, Problem::Tag));
        assert_eq!(fault("a: !x {b: c}\n"), (1, 4, Problem::Tag));
        assert_eq!(fault("a: {<<: b}\n"), (1, 5, Problem::MergeKey));
        assert_eq!(fault("? [a]\n: b\n"), (1, 3, Problem::KeyNotText));
        assert_eq!(fault("1: b\n"), (1, 1, Problem::KeyNotText));
        assert_eq!(fault("a: 1\n...\nb: 2\n").2, Problem::SecondDocument);
        assert_eq!(fault("a: \"\\0\"\n"), (1, 4, Problem::Nul));
        let duplicate = Problem::DuplicateKey { key: "a".into(), first: 1 };
        assert_eq!(fault("a: 1\nb: 2\na: 3\n"), (3, 1, duplicate));
    }

    #[test]
    fn a_tab_is_text_in_text_and_refused_elsewhere() {
        for text in ["a: |\n  x\n  \ty\n\nb: c\n", "a: >\n  \tx\n", "a: b\n\t\nc: d\n"] {
            assert!(read(text, START).is_ok(), "{text:?}");
        }
        for (text, line, column) in [
            ("a:\n\tb: 1\n", 2, 1),
            ("a:\n  - x\n\t- y\n", 3, 1),
            ("a: [\n \tb]\n", 2, 2),
            ("a: |\n  x\n  \ty\nb:\n\t- c\n", 5, 1),
        ] {
            assert_eq!(fault(text), (line, column, Problem::Tab), "{text:?}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(read(&deep(DEPTH_MAX), START).is_ok());
        assert_eq!(fault(&deep(DEPTH_MAX + 1)).2, Problem::TooDeep(DEPTH_MAX));
        assert_eq!(fault(&"- ".repeat(100_000)).2, Problem::TooDeep(DEPTH_MAX));
    }
}
