//! The set of secrets that are taken out of text.

use std::fmt;
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use serde_json::Value;

use crate::decode::{Decoded, has_escapes};
use crate::encodings::{digits, forms};
use crate::matcher::{LOOK_BYTES, Matcher};
use crate::shapes::SHAPES;
use crate::stream::{Span, Stream};
use crate::triggers::triggers_in;

/// The minimum length of a known secret; shorter values occur too often by chance.
pub const SECRET_BYTES_MIN: usize = 6;

/// How many bytes each byte of a value can be written with that is found: `&#x00000073;`.
const ESCAPE_BYTES_MAX: usize = 12;
/// The same for a digit, with blanks.
const DIGIT_BYTES_MAX: usize = 2;

/// What a text contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding<'a> {
    /// The value of the known secret of this name.
    Value(&'a str),
    /// A secret of a well-known shape of this name.
    Shape(&'static str),
}

/// Finds and replaces known secrets and well-known shapes.
#[derive(Default)]
pub struct Redactor {
    names: Vec<String>,
    /// All forms of all values.
    forms: Search,
    /// Those in digits.
    digits: Search,
    longest: usize,
}

/// A search for forms of values.
#[derive(Default)]
struct Search {
    /// For each form, the index of its name.
    of: Vec<usize>,
    /// `None` if there are no forms.
    automaton: Option<AhoCorasick>,
}

impl Search {
    fn new(forms: Vec<(usize, Vec<u8>)>) -> Self {
        let (of, texts): (Vec<usize>, Vec<Vec<u8>>) = forms.into_iter().unzip();
        let build = || {
            AhoCorasick::builder()
                .match_kind(MatchKind::Standard)
                .kind(Some(AhoCorasickKind::ContiguousNFA))
                .build(&texts)
        };
        // Only more than 2^31 bytes of values cannot be built.
        let automaton = if texts.is_empty() { None } else { build().ok() };
        Self { of, automaton }
    }

    /// The forms in a text, each with the index of its name.
    fn find<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = (Range<usize>, usize)> + 'a {
        let found =
            self.automaton.iter().flat_map(move |search| search.find_overlapping_iter(text));
        found.filter_map(|found| Some((found.range(), *self.of.get(found.pattern().as_usize())?)))
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Redactor").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Redactor {
    /// Creates a redactor of the well-known shapes and of these names and values. Values of fewer than
    /// [`SECRET_BYTES_MIN`] bytes are left out.
    #[must_use]
    pub fn new(known: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut redactor = Self::default();
        let (mut all, mut in_digits) = (Vec::new(), Vec::new());
        for (name, value) in known {
            if value.len() < SECRET_BYTES_MIN {
                continue;
            }
            let at = redactor.names.len();
            redactor.longest = redactor.longest.max(value.len().saturating_mul(ESCAPE_BYTES_MAX));
            for form in forms(&value) {
                redactor.longest = redactor.longest.max(form.len());
                all.push((at, form));
            }
            for form in digits(&value) {
                redactor.longest = redactor.longest.max(form.len().saturating_mul(DIGIT_BYTES_MAX));
                in_digits.push((at, form));
            }
            redactor.names.push(name);
        }
        redactor.forms = Search::new(all);
        redactor.digits = Search::new(in_digits);
        redactor
    }

    /// How many bytes decide whether a secret begins.
    pub(crate) fn held_bytes(&self) -> usize {
        self.longest.max(LOOK_BYTES)
    }

    /// The values in a text: as it is, without escapes, and in digits without what stands between them.
    fn values_in(&self, text: &[u8]) -> Vec<(Range<usize>, usize)> {
        let mut found: Vec<_> = self.forms.find(text).collect();
        if self.names.is_empty() {
            return found;
        }
        let decoded = Decoded::new(text);
        let place = |decoded: &Decoded, (range, at)| Some((decoded.source(text, range)?, at));
        if has_escapes(text) {
            found.extend(self.forms.find(&decoded.bytes).filter_map(|one| place(&decoded, one)));
        }
        let compact = decoded.compact();
        found.extend(self.digits.find(&compact.bytes).filter_map(|one| place(&compact, one)));
        found
    }

    /// The secrets that begin in `within`, by their beginning, longest first. What is the value of a
    /// known secret comes before what only looks like one.
    pub(crate) fn spans(&self, text: &[u8], within: Range<usize>) -> Vec<Span<'_>> {
        let mut spans: Vec<Span<'_>> = Vec::new();
        for (place, at) in self.values_in(text) {
            let Range { start, end } = place;
            // What is longer than what is held back would be found in some chunks only.
            let fits = end.saturating_sub(start) <= self.held_bytes();
            if let Some(name) = self.names.get(at).filter(|_| fits && within.contains(&start)) {
                spans.push(Span { start, end, tail: None, name, is_value: true });
            }
        }
        let mut matcher = Matcher::default();
        for (place, shape) in triggers_in(text) {
            if let Some((start, end, tail)) = matcher.find(shape, text, place)
                && within.contains(&start)
            {
                spans.push(Span { start, end, tail, name: shape.name, is_value: false });
            }
        }
        spans.sort_by_key(|span| (span.start, !span.is_value, std::cmp::Reverse(span.end)));
        spans
    }

    /// Returns what `text` contains, a known value first.
    #[must_use]
    pub fn find_text(&self, text: &str) -> Option<Finding<'_>> {
        let spans = self.spans(text.as_bytes(), 0..text.len());
        let value = spans.iter().find(|span| span.is_value).map(|span| Finding::Value(span.name));
        value.or_else(|| {
            let span = spans.first()?;
            SHAPES
                .iter()
                .find(|shape| shape.name == span.name)
                .map(|shape| Finding::Shape(shape.name))
        })
    }

    /// Returns what `value` contains, including its keys.
    #[must_use]
    pub fn find(&self, value: &Value) -> Option<Finding<'_>> {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
            Value::String(text) => self.find_text(text),
            Value::Array(items) => items.iter().find_map(|item| self.find(item)),
            Value::Object(map) => {
                map.iter().find_map(|(key, value)| self.find_text(key).or_else(|| self.find(value)))
            }
        }
    }

    /// Replaces each secret in `value`, including keys, by its name.
    pub fn redact(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => self.redact_text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact(item)),
            Value::Object(map) => {
                if map.keys().any(|key| self.find_text(key).is_some()) {
                    for (mut key, value) in std::mem::take(map) {
                        self.redact_text(&mut key);
                        map.insert(key, value);
                    }
                }
                map.values_mut().for_each(|value| self.redact(value));
            }
        }
    }

    /// Replaces each secret in `text` by its name, as `[redacted:NAME]`.
    pub fn redact_text(&self, text: &mut String) {
        let spans = self.spans(text.as_bytes(), 0..text.len());
        if spans.is_empty() {
            return;
        }
        let redacted = Stream::whole(self, std::mem::take(text).into_bytes()).finish_with(spans);
        *text = match String::from_utf8(redacted) {
            Ok(redacted) => redacted,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
    }

    /// Returns `text` without its secrets.
    #[must_use]
    pub fn redacted(&self, text: &str) -> String {
        let mut text = text.to_owned();
        self.redact_text(&mut text);
        text
    }

    /// Starts the redaction of a text that comes in chunks.
    #[must_use]
    pub const fn stream(&self) -> Stream<'_> {
        Stream::new(self)
    }
}
