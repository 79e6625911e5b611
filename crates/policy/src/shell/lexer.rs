//! The first of two readings of a shell line: by hand, character by character, as bash splits words.
//!
//! It knows simple commands joined by operators, groups, `if` and `while`; whatever else it meets
//! becomes a finding. The tree of the second reading must agree with it, or the line is asked about.

use super::word::{UNKNOWN, Word};
use super::{Access, Reading, Redirect};

/// Reserved words around commands that change nothing about what runs.
const TRANSPARENT: &[&str] =
    &["if", "then", "elif", "else", "fi", "while", "until", "do", "done", "!", "{", "}"];
/// Reserved words whose commands are read only by the second reading.
const COMPOUND: &[&str] = &["for", "case", "select", "function", "coproc", "[[", "esac", "in"];

/// How deep expansions may stand within expansions.
const EXPANSIONS_DEEP_MAX: usize = 16;

struct HereDocument {
    delimiter: String,
    quoted: bool,
    strips_tabs: bool,
}

pub(super) struct Lexer {
    chars: Vec<char>,
    at: usize,
    words: Vec<Word>,
    skipping: bool,
    documents: Vec<HereDocument>,
    /// How many expansions stand around this text.
    depth: usize,
    reading: Reading,
}

/// Reads a whole line, or several.
pub(super) fn read(line: &str) -> Reading {
    let mut lexer = Lexer::new(line);
    while let Some(char) = lexer.peek() {
        match char {
            ' ' | '\t' => lexer.at += 1,
            '\\' if lexer.peek_at(1) == Some('\n') => lexer.at += 2,
            '\n' => {
                lexer.at += 1;
                lexer.end_command();
                lexer.here_bodies();
            }
            '#' => lexer.skip_to_newline(),
            ';' | '&' | '|' | '(' | ')' | '<' | '>' => lexer.operator(char),
            _ => {
                let word = lexer.word();
                lexer.take_word(word);
            }
        }
    }
    lexer.end_command();
    if !lexer.documents.is_empty() {
        lexer.broken("a here-document has no body");
    }
    lexer.reading
}

/// Reads text that must be one word; anything else is not known.
pub(super) fn read_word(text: &str, reading: &mut Reading) -> Word {
    let mut lexer = Lexer::new(text);
    let word = lexer.word();
    let whole = lexer.at >= lexer.chars.len();
    reading.findings.append(&mut lexer.reading.findings);
    reading.nested.append(&mut lexer.reading.nested);
    if whole { word } else { Word::unknown() }
}

impl Lexer {
    fn new(text: &str) -> Self {
        Self {
            chars: text.chars().collect(),
            at: 0,
            words: Vec::new(),
            skipping: false,
            documents: Vec::new(),
            depth: 0,
            reading: Reading::default(),
        }
    }

    fn peek(&self) -> Option<char> {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn next(&mut self) -> Option<char> {
        let char = self.peek();
        self.at += usize::from(char.is_some());
        char
    }

    fn take_if(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn finding(&mut self, text: &str) {
        self.reading.finding(text);
    }

    fn broken(&mut self, text: &str) {
        self.reading.broken = true;
        self.finding(text);
    }

    fn skip_to_newline(&mut self) {
        while self.peek().is_some_and(|char| char != '\n') {
            self.at += 1;
        }
    }

    fn end_command(&mut self) {
        self.skipping = false;
        if !self.words.is_empty() {
            self.reading.commands.push(std::mem::take(&mut self.words));
        }
    }

    fn take_word(&mut self, word: Word) {
        let redirect_follows = matches!(self.peek(), Some('<' | '>'));
        if redirect_follows && !word.quoted && !word.text.is_empty() {
            if word.text.chars().all(|char| char.is_ascii_digit()) {
                return;
            }
            if word.text.starts_with('{') {
                self.finding("a redirection into a variable");
            }
        }
        if self.skipping {
            return;
        }
        if self.words.is_empty() {
            if TRANSPARENT.iter().any(|reserved| word.is_bare(reserved)) {
                return;
            }
            if COMPOUND.iter().any(|reserved| word.is_bare(reserved)) {
                self.finding(&format!("the compound command `{}`", word.text));
                self.skipping = !matches!(word.text.as_str(), "coproc");
                return;
            }
            if is_assignment(&word) {
                self.finding("an assignment to a variable");
                return;
            }
        }
        self.words.push(word);
    }

    fn operator(&mut self, char: char) {
        match char {
            '<' | '>' => return self.redirect(),
            '&' if self.peek_at(1) == Some('>') => {
                self.at += 2;
                self.take_if('>');
                return self.target(Access::Write);
            }
            '(' => {
                if !self.words.is_empty() {
                    self.finding("a function definition or an array");
                }
                if self.peek_at(1) == Some('(') {
                    self.finding("arithmetic");
                }
            }
            ';' if matches!(self.peek_at(1), Some(';' | '&')) => {
                self.finding("the compound command `case`");
            }
            _ => {}
        }
        self.at += 1;
        if matches!(char, '&' | '|') {
            let doubled = self.take_if(char);
            if char == '|' && !doubled {
                self.take_if('&');
            }
        }
        self.end_command();
    }

    fn redirect(&mut self) {
        let first = self.next();
        if self.peek() == Some('(') {
            self.at += 1;
            self.finding("a process substitution");
            let inner = self.balanced('(', ')');
            self.reading.nested.push(inner);
            return self.take_word(Word::unknown());
        }
        match (first, self.peek()) {
            (Some('<'), Some('<')) => {
                self.at += 1;
                if self.take_if('<') {
                    self.here_string();
                } else {
                    self.here_document();
                }
            }
            (_, Some('&')) => {
                self.at += 1;
                self.duplicate(first == Some('>'));
            }
            (Some('<'), Some('>')) => {
                self.at += 1;
                self.target(Access::Write);
            }
            (Some('<'), _) => self.target(Access::Read),
            (_, Some('>' | '|')) => {
                self.at += 1;
                self.target(Access::Write);
            }
            (_, _) => self.target(Access::Write),
        }
    }

    fn argument(&mut self) -> Option<Word> {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.at += 1;
        }
        match self.peek() {
            None | Some('\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>') => {
                self.broken("a redirection without a target");
                None
            }
            Some(_) => Some(self.word()),
        }
    }

    fn target(&mut self, access: Access) {
        if let Some(target) = self.argument() {
            self.reading.redirects.push(Redirect { target, access });
        }
    }

    fn duplicate(&mut self, writes: bool) {
        let Some(target) = self.argument() else { return };
        let digits = target.text.strip_suffix('-').unwrap_or(&target.text);
        if !target.dynamic && digits.chars().all(|char| char.is_ascii_digit()) {
            return;
        }
        let access = if writes { Access::Write } else { Access::Read };
        self.reading.redirects.push(Redirect { target, access });
    }

    fn here_string(&mut self) {
        self.argument();
    }

    fn here_document(&mut self) {
        let strips_tabs = self.take_if('-');
        if let Some(word) = self.argument() {
            let quoted = word.quoted;
            self.documents.push(HereDocument { delimiter: word.text, quoted, strips_tabs });
        }
    }

    fn here_bodies(&mut self) {
        for document in std::mem::take(&mut self.documents) {
            let mut body = String::new();
            loop {
                if self.at >= self.chars.len() {
                    self.broken("a here-document is never closed");
                    break;
                }
                let start = self.at;
                self.skip_to_newline();
                let line: String =
                    self.chars.get(start..self.at).unwrap_or_default().iter().collect();
                self.take_if('\n');
                let bare = if document.strips_tabs { line.trim_start_matches('\t') } else { &line };
                if bare == document.delimiter {
                    break;
                }
                body.push_str(bare);
                body.push('\n');
            }
            if !document.quoted {
                self.expansions_in(&body);
            }
        }
    }

    /// Finds what the shell would expand in text where quotes mean nothing.
    fn expansions_in(&mut self, text: &str) {
        if self.depth >= EXPANSIONS_DEEP_MAX {
            return self.broken("expansions that are nested too deeply");
        }
        let mut inner = Self { depth: self.depth + 1, ..Self::new(text) };
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

    fn word(&mut self) -> Word {
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
    fn balanced(&mut self, open: char, close: char) -> String {
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

/// Whether a word in front of a command sets a variable: `NAME=…`, `NAME+=…`, `NAME[…]=…`.
pub(super) fn is_assignment(word: &Word) -> bool {
    let Some((name, _)) = word.text.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    let mut chars = name.chars();
    chars.next().is_some_and(|char| char.is_ascii_alphabetic() || char == '_')
        && chars.all(|char| char.is_ascii_alphanumeric() || char == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(line: &str) -> Vec<Vec<String>> {
        read(line)
            .commands
            .into_iter()
            .map(|words| words.into_iter().map(|word| word.text).collect())
            .collect()
    }

    #[test]
    fn words_are_unquoted_as_bash_does() {
        for (line, expected) in [
            (r#"r''m "-rf" \/"#, vec!["rm", "-rf", "/"]),
            (r#"echo "a \" \x $" 'b\'"#, vec!["echo", "a \" \\x $", "b\\"]),
            ("ec\\\nho a#b # c", vec!["echo", "a#b"]),
            ("echo $'\\x72\\155\\t'", vec!["echo", "rm\t"]),
            ("cat 2>&1 3<&- x", vec!["cat", "x"]),
        ] {
            assert_eq!(commands(line), [expected], "{line}");
        }
    }

    #[test]
    fn every_separator_ends_a_command() {
        let line = "a; b & c && d || e | f |& g\nh ( i ) { j; }\nif k; then l; fi; ! m";
        let names: Vec<String> = commands(line).into_iter().map(|words| words.join(" ")).collect();
        assert_eq!(names, ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"]);
    }

    #[test]
    fn here_documents_are_not_commands() {
        let reading = read("cat > a <<'E'\nrm -rf $x\nE\nls");
        assert_eq!(reading.commands.len(), 2);
        assert_eq!(reading.findings, Vec::<String>::new());
        let reading = read("cat <<E\n$(rm x)\nE\n");
        assert_eq!(reading.nested, ["rm x"]);
    }
}
