//! The first of two readings of a shell line: a lexer that splits words as bash does.
//!
//! It knows simple commands joined by operators, groups, `if` and `while`; everything else becomes a
//! finding. The syntax tree of the second reading must agree, or a person is asked.

use std::collections::BTreeSet;

use super::variables::{assigned_name, may_set};
use super::word::Word;
use super::{Access, Assignment, Reading};

/// Reserved words around commands that change nothing about what runs.
const TRANSPARENT: &[&str] =
    &["if", "then", "elif", "else", "fi", "while", "until", "do", "done", "!", "{", "}"];
/// Reserved words whose commands only the second reading finds.
const COMPOUND: &[&str] = &["case", "select", "function", "coproc", "esac", "in"];

pub(super) struct HereDocument {
    pub(super) delimiter: String,
    pub(super) quoted: bool,
    pub(super) strips_tabs: bool,
}

/// Where in the head of a `for` loop the lexer is.
enum Head {
    None,
    Name,
    In(String),
    Values(String),
}

pub(super) struct Lexer {
    pub(super) chars: Vec<char>,
    pub(super) at: usize,
    words: Vec<Word>,
    /// Assignments in front of the present command.
    assignments: Vec<Word>,
    skipping: bool,
    head: Head,
    /// The variables of the loops around this place; `None` for a loop without one.
    pub(super) loops: Vec<Option<String>>,
    /// The variables that have certainly been set.
    pub(super) certain: BTreeSet<String>,
    /// The same when the present list of commands began, and those around it in braces.
    certain_before: Vec<BTreeSet<String>>,
    /// Whether what follows may be left out, or happens in a shell of its own.
    conditional: bool,
    /// Whether the present command is reached only if those before it end in a certain way.
    chained: bool,
    /// How many `if` and loops surround this place.
    nesting: usize,
    /// Whether a `wait` may not be reached, or is that of another shell.
    wait_is_uncertain: bool,
    pub(super) documents: Vec<HereDocument>,
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
                lexer.end_command(true);
                lexer.begin_list();
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
    lexer.end_command(true);
    if !lexer.documents.is_empty() {
        lexer.broken("a here-document has no body");
    }
    lexer.reading
}

/// Reads text that must be one word; otherwise the word is unknown.
pub(super) fn read_word(text: &str, reading: &mut Reading) -> Word {
    if text.chars().all(is_plain) {
        return Word { text: text.to_owned(), ..Word::default() };
    }
    let mut lexer = Lexer::new(text);
    let word = lexer.word();
    let whole = lexer.at >= lexer.chars.len();
    reading.findings.append(&mut lexer.reading.findings);
    reading.nested.append(&mut lexer.reading.nested);
    reading.uses.append(&mut lexer.reading.uses);
    if whole { word } else { Word::unknown() }
}

/// Whether a character of a word stands for itself wherever it is.
pub(super) const fn is_plain(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '/' | '.' | '_' | '-' | ':' | '=' | '@')
}

impl Lexer {
    pub(super) fn new(text: &str) -> Self {
        Self {
            chars: text.chars().collect(),
            at: 0,
            words: Vec::new(),
            assignments: Vec::new(),
            skipping: false,
            head: Head::None,
            loops: Vec::new(),
            certain: BTreeSet::new(),
            certain_before: vec![BTreeSet::new()],
            conditional: false,
            chained: false,
            nesting: 0,
            wait_is_uncertain: false,
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

    pub(super) fn skip_to_newline(&mut self) {
        while self.peek().is_some_and(|char| char != '\n') {
            self.at += 1;
        }
    }

    /// Ends a command; `waited` tells whether the shell itself has run it when it goes on.
    fn end_command(&mut self, waited: bool) {
        self.skipping = false;
        match std::mem::replace(&mut self.head, Head::None) {
            Head::None => {}
            Head::Name | Head::In(_) => self.finding("a loop over arguments"),
            Head::Values(name) => {
                let values = std::mem::take(&mut self.words);
                let values = values.into_iter().map(Some);
                self.reading.sets.push(Assignment { name: name.clone(), values: values.collect() });
                self.loops.push(Some(name));
                self.conditional = true;
                return;
            }
        }
        let alone = self.words.is_empty();
        for word in std::mem::take(&mut self.assignments) {
            self.assign(&word, alone, waited);
        }
        if !alone {
            self.follow_background(waited);
            self.reading.commands.push(std::mem::take(&mut self.words));
        }
        self.chained = false;
    }

    /// Begins a list of commands.
    fn begin_list(&mut self) {
        if let Some(before) = self.certain_before.last_mut() {
            before.clone_from(&self.certain);
        }
    }

    /// Notices a `wait` for what was started in the background, and what could keep the line from it.
    fn follow_background(&mut self, waited: bool) {
        let name = self.words.first().map(|word| word.text.as_str());
        self.wait_is_uncertain |= matches!(name, Some("exit" | "return" | "exec"));
        let certain = waited && !self.chained && self.nesting == 0 && !self.wait_is_uncertain;
        if name == Some("wait") && self.words.len() == 1 && certain {
            self.reading.background = false;
        }
    }

    /// Takes an assignment that stands alone or in front of a command.
    fn assign(&mut self, word: &Word, alone: bool, waited: bool) {
        let Some((name, value)) = assigned_name(&word.text) else { return };
        let start = word.text.len().saturating_sub(value.len());
        let before = word.text.get(..start).unwrap_or_default();
        if before.contains(['[', '+']) {
            self.finding("an assignment to a part of a variable");
        }
        let value = Word { text: value.to_owned(), ..word.clone() };
        if alone && waited && !self.conditional {
            self.certain.insert(name.to_owned());
        }
        let values = if alone { vec![Some(value)] } else { Vec::new() };
        self.reading.sets.push(Assignment { name: name.to_owned(), values });
    }

    pub(super) fn take_word(&mut self, word: Word) {
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
        match std::mem::replace(&mut self.head, Head::None) {
            Head::Values(name) => {
                self.head = Head::Values(name);
                return self.words.push(word);
            }
            Head::Name => {
                if !may_set(&word.text) {
                    self.finding("a loop that sets a variable of the shell or of programs");
                }
                self.head = Head::In(word.text);
                return;
            }
            Head::In(name) if word.is_bare("in") => {
                self.head = Head::Values(name);
                return;
            }
            Head::In(_) => return self.finding("a loop over arguments"),
            Head::None => {}
        }
        if self.words.is_empty() && self.assignments.is_empty() {
            if TRANSPARENT.iter().any(|reserved| word.is_bare(reserved)) {
                self.conditional |= !matches!(word.text.as_str(), "!" | "{" | "}");
                match word.text.as_str() {
                    "{" => self.certain_before.push(self.certain.clone()),
                    "}" if self.certain_before.len() > 1 => {
                        self.certain_before.pop();
                    }
                    "while" | "until" => {
                        self.nesting += 1;
                        self.loops.push(None);
                    }
                    "done" => {
                        self.nesting = self.nesting.saturating_sub(1);
                        self.loops.pop();
                    }
                    "if" => self.nesting += 1,
                    "fi" => self.nesting = self.nesting.saturating_sub(1),
                    _ => {}
                }
                return;
            }
            if word.is_bare("for") {
                self.nesting += 1;
                self.head = Head::Name;
                return;
            }
            if word.is_bare("[[") {
                return self.test();
            }
            if COMPOUND.iter().any(|reserved| word.is_bare(reserved)) {
                self.finding(&format!("the compound command `{}`", word.text));
                self.skipping = !matches!(word.text.as_str(), "coproc");
                return;
            }
        }
        if self.words.is_empty() && is_assignment(&word) {
            if assigned_name(&word.text).is_some_and(|(name, _)| !may_set(name)) {
                self.finding("a variable of the shell or of programs is set");
            }
            return self.assignments.push(word);
        }
        self.words.push(word);
    }

    /// Reads `[[ … ]]` as one command.
    fn test(&mut self) {
        self.words.push(Word { text: "[[".to_owned(), ..Word::default() });
        loop {
            match self.peek() {
                None => return self.broken("a test is never closed"),
                Some(' ' | '\t' | '\n') => self.at += 1,
                Some(char @ (';' | '&' | '|' | '(' | ')' | '<' | '>')) => {
                    self.at += 1;
                    self.words.push(Word::literal(&char.to_string()));
                }
                Some(_) => {
                    let word = self.word();
                    let ends = word.is_bare("]]");
                    self.words.push(word);
                    if ends {
                        return;
                    }
                }
            }
        }
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
                if !self.words.is_empty() || !self.assignments.is_empty() {
                    self.finding("a function definition or an array");
                }
                self.conditional = true;
                self.wait_is_uncertain = true;
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
        let (mut waited, mut chained, mut background) = (true, false, false);
        if matches!(char, '&' | '|') {
            let doubled = self.take_if(char);
            if char == '|' && !doubled {
                self.take_if('&');
            }
            background = char == '&' && !doubled;
            waited = doubled;
            chained = !background;
        }
        self.end_command(waited);
        self.reading.background |= background;
        self.chained = chained;
        match (self.certain_before.last(), waited) {
            // Another shell has run the list, and set its own variables.
            (Some(before), false) => self.certain.clone_from(before),
            (_, true) if char == ';' => self.begin_list(),
            (_, _) => {}
        }
        self.conditional |= matches!(char, '&' | '|');
    }
}

/// Whether a word in front of a command sets a variable: `NAME=…`, `NAME+=…`, `NAME[…]=…`.
pub(super) fn is_assignment(word: &Word) -> bool {
    assigned_name(&word.text).is_some()
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
