//! Redirections and here-documents of a shell line.

use super::lexer::{HereDocument, Lexer};
use super::word::Word;
use super::{Access, Redirect};

/// Whether the word behind `>&` names a descriptor rather than a file.
pub(super) fn is_descriptor(target: &Word) -> bool {
    let digits = target.text.strip_suffix('-').unwrap_or(&target.text);
    !target.dynamic && digits.chars().all(|char| char.is_ascii_digit())
}

impl Lexer {
    pub(super) fn redirect(&mut self) {
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

    pub(super) fn target(&mut self, access: Access) {
        if let Some(target) = self.argument() {
            self.reading.redirects.push(Redirect { target, access });
        }
    }

    fn duplicate(&mut self, writes: bool) {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.at += 1;
        }
        // A dash closes the descriptor, and what stands behind it is a word of its own.
        if self.take_if('-') {
            return;
        }
        let Some(target) = self.argument() else { return };
        if is_descriptor(&target) {
            return;
        }
        let access = if writes { Access::Write } else { Access::Read };
        self.expand_again(&target, access);
        self.reading.redirects.push(Redirect { target, access });
    }

    /// Bash expands the word behind `>&` twice: quotes do not protect what stands in it.
    fn expand_again(&mut self, target: &Word, access: Access) {
        if !target.text.contains(['$', '`', '\\', '\'', '"', '~', '*', '?', '[']) {
            return;
        }
        self.finding("a redirection whose target is expanded twice");
        let mut inner = Self::new(&target.text);
        let again = inner.word();
        self.reading.nested.append(&mut inner.reading.nested);
        self.reading.uses.append(&mut inner.reading.uses);
        self.reading.redirects.push(Redirect { target: again, access });
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

    pub(super) fn here_bodies(&mut self) {
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
