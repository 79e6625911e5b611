//! Words of a shell line: quotes, escapes and expansions.

use super::lexer::Lexer;
use super::word::{UNKNOWN, Word};

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
        self.reading.broken |= inner.reading.broken;
    }

    /// Reads one word, up to a blank or an operator.
    pub(super) fn word(&mut self) -> Word {
        let mut word = Word::default();
        let (mut globs, mut set, mut brace, mut list) = (false, false, false, false);
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
            word.dynamic = true;
            word.text.push(UNKNOWN);
        }
        word.pattern = globs;
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
        word.dynamic = true;
        word.text.push(UNKNOWN);
        self.finding(what);
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
                word.dynamic = true;
            }
            Some('(') => {
                self.at += 1;
                let inner = self.balanced('(', ')');
                if inner.starts_with('(') {
                    self.expanded(word, "arithmetic");
                    self.expansions_in(&inner);
                } else {
                    self.expanded(word, "a command substitution");
                    self.reading.nested.push(inner);
                }
            }
            Some('{') => {
                self.at += 1;
                let inner = self.balanced('{', '}');
                self.expanded(word, "an expansion");
                self.expansions_in(&inner);
            }
            Some('[') => {
                self.at += 1;
                let inner = self.balanced('[', ']');
                self.expanded(word, "arithmetic");
                self.expansions_in(&inner);
            }
            Some(char) if char.is_ascii_alphabetic() || char == '_' => {
                while self.peek().is_some_and(|next| next.is_ascii_alphanumeric() || next == '_') {
                    self.at += 1;
                }
                self.expanded(word, "an expansion");
            }
            Some(char) if char.is_ascii_digit() || "@*#?$!-".contains(char) => {
                self.at += 1;
                self.expanded(word, "an expansion");
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
        self.expanded(word, "a command substitution");
        self.reading.nested.push(inner);
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
