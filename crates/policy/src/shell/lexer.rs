//! The first of two readings of a shell line: a lexer that splits words as bash does.
//!
//! It knows simple commands joined by operators, groups, `if` and `while`; everything else becomes a
//! finding. The syntax tree of the second reading must agree, or a person is asked.

use super::word::Word;
use super::{Access, Reading, Redirect};

/// Reserved words around commands that change nothing about what runs.
const TRANSPARENT: &[&str] =
    &["if", "then", "elif", "else", "fi", "while", "until", "do", "done", "!", "{", "}"];
/// Reserved words whose commands only the second reading finds.
const COMPOUND: &[&str] = &["for", "case", "select", "function", "coproc", "[[", "esac", "in"];

struct HereDocument {
    delimiter: String,
    quoted: bool,
    strips_tabs: bool,
}

pub(super) struct Lexer {
    pub(super) chars: Vec<char>,
    pub(super) at: usize,
    words: Vec<Word>,
    skipping: bool,
    documents: Vec<HereDocument>,
    /// How many expansions surround this text.
    pub(super) depth: usize,
    pub(super) reading: Reading,
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

/// Reads text that must be one word; otherwise the word is unknown.
pub(super) fn read_word(text: &str, reading: &mut Reading) -> Word {
    let mut lexer = Lexer::new(text);
    let word = lexer.word();
    let whole = lexer.at >= lexer.chars.len();
    reading.findings.append(&mut lexer.reading.findings);
    reading.nested.append(&mut lexer.reading.nested);
    if whole { word } else { Word::unknown() }
}

impl Lexer {
    pub(super) fn new(text: &str) -> Self {
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

    pub(super) fn peek(&self) -> Option<char> {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let char = self.peek();
        self.at += usize::from(char.is_some());
        char
    }

    pub(super) fn take_if(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    pub(super) fn finding(&mut self, text: &str) {
        self.reading.finding(text);
    }

    pub(super) fn broken(&mut self, text: &str) {
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
