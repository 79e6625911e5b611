//! Words of a shell line: quotes, escapes and expansions.

use super::lexer::{Lexer, is_plain};
use super::variables;
use super::word::{NUMBER, UNKNOWN, Word};

/// How deep expansions may be nested.
const EXPANSIONS_DEEP_MAX: usize = 16;

impl Lexer {
    /// Finds expansions in text where quotes have no meaning.
    pub(super) fn expansions_in(&mut self, text: &str) {
        if self.depth >= EXPANSIONS_DEEP_MAX {
            return self.broken("expansions that are nested too deeply");
        }
        let mut inner = Self::new(text);
        inner.depth = self.depth + 1;
        inner.loops.clone_from(&self.loops);
        let mut word = Word::default();
        while let Some(char) = inner.next() {
            match char {
                '\\' => inner.at += 1,
                '$' => inner.dollar(&mut word, true),
                '`' => inner.backticks(&mut word),
                _ => {}
            }
        }
        self.reading.findings.append(&mut inner.reading.findings);
        self.reading.nested.append(&mut inner.reading.nested);
        self.reading.uses.append(&mut inner.reading.uses);
        self.reading.expansions += inner.reading.expansions;
        self.reading.broken |= inner.reading.broken;
    }

    /// Reads one word, up to a blank or an operator.
    pub(super) fn word(&mut self) -> Word {
        let mut word = Word::default();
        let (mut globs, mut set, mut brace, mut list) = (false, false, false, false);
        // Most words begin with characters that stand for themselves, or are nothing else.
        let rest = self.chars.get(self.at..).unwrap_or_default();
        let plain = rest.iter().position(|char| !is_plain(*char)).unwrap_or(rest.len());
        word.text.extend(rest.get(..plain).unwrap_or_default());
        self.at += plain;
        while let Some(char) = self.peek() {
            match char {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                _ => self.at += 1,
            }
            match char {
                '\'' => self.single_quotes(&mut word),
                '"' => self.double_quotes(&mut word),
                '\\' => self.escape(&mut word),
                '$' => self.dollar(&mut word, false),
                '`' => self.backticks(&mut word),
                other => {
                    globs |= matches!(other, '*' | '?') || set && other == ']';
                    set |= other == '[';
                    brace |= other == '{';
                    list |= brace && (other == ',' || other == '.' && word.text.ends_with('.'));
                    word.text.push(other);
                }
            }
        }
        if brace && list {
            self.finding("a brace expansion");
            word.push_unknown(None, false, false);
        }
        word.pattern |= globs;
        word
    }

    fn single_quotes(&mut self, word: &mut Word) {
        word.quoted = true;
        loop {
            match self.next() {
                Some('\'') => return,
                Some(char) => word.text.push(char),
                None => return self.broken("a quote is never closed"),
            }
        }
    }

    fn double_quotes(&mut self, word: &mut Word) {
        word.quoted = true;
        loop {
            match self.next() {
                Some('"') => return,
                Some('\\') => match self.peek() {
                    Some('\n') => self.at += 1,
                    Some(char @ ('$' | '`' | '"' | '\\')) => {
                        self.at += 1;
                        word.text.push(char);
                    }
                    Some(_) | None => word.text.push('\\'),
                },
                Some('$') => self.dollar(word, true),
                Some('`') => self.backticks(word),
                Some(char) => word.text.push(char),
                None => return self.broken("a quote is never closed"),
            }
        }
    }

    fn escape(&mut self, word: &mut Word) {
        match self.next() {
            Some('\n') => {}
            Some(char) => {
                word.quoted = true;
                word.text.push(char);
            }
            None => self.broken("the line ends in a backslash"),
        }
    }

    fn expanded(&mut self, word: &mut Word, what: &str) {
        word.push_unknown(None, true, false);
        self.finding(what);
    }

    /// Adds the value of a variable.
    fn variable(&mut self, word: &mut Word, name: &str, exact: bool, in_quotes: bool) {
        self.reading.expansions += 1;
        let continues =
            self.peek().is_some_and(|next| next != '/' && !" \t\n\";&|)<>".contains(next));
        if exact && word.text.is_empty() && !continues && variables::is_place(name) {
            word.text.push_str(if name == "HOME" { "~" } else { "." });
            word.quoted = true;
            return;
        }
        if exact && variables::is_number(name) {
            return number(word);
        }
        self.reading.uses.push(name.to_owned());
        let is_set =
            self.loops.iter().flatten().any(|known| known == name) || self.certain.contains(name);
        word.push_unknown(exact.then(|| name.to_owned()), in_quotes, is_set);
    }

    /// Adds `${…}`.
    fn braced(&mut self, word: &mut Word, inner: &str, in_quotes: bool) {
        let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
        if let Some(name) =
            inner.strip_prefix('#').filter(|name| !name.is_empty() && name.chars().all(is_name))
        {
            self.reading.expansions += 1;
            self.reading.uses.push(name.to_owned());
            return number(word);
        }
        let end = inner.find(|char| !is_name(char)).unwrap_or(inner.len());
        let (name, rest) = inner.split_at_checked(end).unwrap_or((inner, ""));
        if rest.is_empty() && matches!(name, "" | "?" | "!" | "$") {
            self.reading.expansions += 1;
            return self.expanded(word, "an expansion");
        }
        let kept = ["%", "#", "/", "^", ",", ":-", "-", ":+", "+", ":?", "?"];
        let plain = rest.is_empty() || kept.iter().any(|operator| rest.starts_with(operator));
        if name.is_empty() || !plain {
            self.reading.expansions += 1;
            self.expanded(word, "an expansion");
            return self.expansions_in(inner);
        }
        self.variable(word, name, rest.is_empty(), in_quotes);
        self.expansions_in(rest);
    }

    /// Adds the output of a command.
    fn substitution(&mut self, word: &mut Word, inner: String, in_quotes: bool) {
        let continues =
            self.peek().is_some_and(|next| next != '/' && !" \t\n\";&|)<>".contains(next));
        match inner.trim() {
            "pwd" | "git rev-parse --show-toplevel" if word.text.is_empty() && !continues => {
                word.text.push('.');
                word.quoted = true;
            }
            line if variables::prints_number(line) => number(word),
            _ => word.push_unknown(None, in_quotes, false),
        }
        self.reading.nested.push(inner);
    }

    fn dollar(&mut self, word: &mut Word, in_quotes: bool) {
        match self.peek() {
            Some('\'') if !in_quotes => {
                self.at += 1;
                self.finding("a `$'…'` string");
                word.quoted = true;
                self.ansi_string(word);
            }
            Some('"') if !in_quotes => {
                self.finding("a translated string");
                word.push_unknown(None, true, false);
            }
            Some('(') => {
                self.at += 1;
                let inner = self.balanced('(', ')');
                if !inner.starts_with('(') {
                    self.substitution(word, inner, in_quotes);
                } else if variables::is_plain_arithmetic(&inner) {
                    number(word);
                } else {
                    self.expanded(word, "arithmetic");
                    self.expansions_in(&inner);
                }
            }
            Some('{') => {
                self.at += 1;
                let inner = self.balanced('{', '}');
                self.braced(word, &inner, in_quotes);
            }
            Some('[') => {
                self.at += 1;
                let inner = self.balanced('[', ']');
                self.expanded(word, "arithmetic");
                self.expansions_in(&inner);
            }
            Some(char) if char.is_ascii_alphabetic() || char == '_' => {
                let start = self.at;
                while self.peek().is_some_and(|next| next.is_ascii_alphanumeric() || next == '_') {
                    self.at += 1;
                }
                let name: String =
                    self.chars.get(start..self.at).unwrap_or_default().iter().collect();
                self.variable(word, &name, true, in_quotes);
            }
            Some('?' | '#' | '$' | '!') => {
                self.at += 1;
                self.reading.expansions += 1;
                number(word);
            }
            Some(char) if char.is_ascii_digit() || "@*-".contains(char) => {
                self.at += 1;
                self.reading.expansions += 1;
                word.push_unknown(None, in_quotes, false);
            }
            Some(_) | None => word.text.push('$'),
        }
    }

    fn backticks(&mut self, word: &mut Word) {
        let mut inner = String::new();
        loop {
            match self.next() {
                Some('`') => break,
                Some('\\') => match self.next() {
                    Some(char @ ('`' | '$' | '\\')) => inner.push(char),
                    Some(char) => inner.extend(['\\', char]),
                    None => break self.broken("a backtick is never closed"),
                },
                Some(char) => inner.push(char),
                None => break self.broken("a backtick is never closed"),
            }
        }
        self.substitution(word, inner, true);
    }

    /// The text up to the closing bracket; quotes inside are respected.
    pub(super) fn balanced(&mut self, open: char, close: char) -> String {
        let start = self.at;
        let mut depth = 1_usize;
        let mut quote: Option<char> = None;
        while let Some(char) = self.next() {
            match (quote, char) {
                (Some('\''), '\'') | (Some('"'), '"') => quote = None,
                (Some('\''), _) => {}
                (_, '\\') => self.at += 1,
                (None, '\'' | '"') => quote = Some(char),
                (None, _) if char == open => depth += 1,
                (None, _) if char == close => {
                    depth -= 1;
                    if depth == 0 {
                        let inner = self.chars.get(start..self.at - 1).unwrap_or_default();
                        return inner.iter().collect();
                    }
                }
                (Some(_) | None, _) => {}
            }
        }
        self.at = self.at.min(self.chars.len());
        self.broken("an expansion is never closed");
        self.chars.get(start..).unwrap_or_default().iter().collect()
    }

    fn ansi_string(&mut self, word: &mut Word) {
        loop {
            match self.next() {
                Some('\'') => return,
                Some('\\') => {
                    let char = self.ansi_escape();
                    word.text.push(char);
                }
                Some(char) => word.text.push(char),
                None => return self.broken("a quote is never closed"),
            }
        }
    }

    fn ansi_escape(&mut self) -> char {
        match self.next() {
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('e' | 'E') => '\u{1b}',
            Some('f') => '\u{c}',
            Some('v') => '\u{b}',
            Some('x') => self.number(16, 2, 0),
            Some('u') => self.number(16, 4, 0),
            Some('U') => self.number(16, 8, 0),
            Some('c') => self.next().map_or(UNKNOWN, |char| char::from(char as u8 & 0x1f)),
            Some(char @ '0'..='7') => self.number(8, 2, char.to_digit(8).unwrap_or(0)),
            Some(char) => char,
            None => UNKNOWN,
        }
    }

    fn number(&mut self, radix: u32, digits_max: usize, first: u32) -> char {
        let mut value = first;
        for _ in 0..digits_max {
            let Some(digit) = self.peek().and_then(|char| char.to_digit(radix)) else { break };
            value = value.wrapping_mul(radix).wrapping_add(digit);
            self.at += 1;
        }
        // A byte beyond ASCII is a part of a character that is not put together here.
        char::from_u32(value).filter(|char| char.is_ascii() || radix == 16).unwrap_or(UNKNOWN)
    }
}

/// Adds an expansion that is certainly a number.
fn number(word: &mut Word) {
    word.text.push(NUMBER);
    word.pattern = true;
}
