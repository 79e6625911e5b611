//! Splits a shell line into its simple commands.
//!
//! The line is read twice, by a lexer and by a syntax tree. If the two differ, or either cannot tell
//! what would run, the line gets findings, and a person is asked about a line with findings at
//! least. INVARIANT: a line without findings is exactly its commands and redirections.

mod braces;
mod inner;
mod lexer;
pub(crate) mod options;
mod programs;
mod quote;
mod redirect;
mod searches;
mod suspect;
mod text;
mod tree;
mod variables;
pub(crate) mod word;
mod wrappers;

use std::collections::BTreeSet;

pub(crate) use inner::{starts_others, takes_files};
pub(crate) use searches::chosen;
use variables::Variables;
pub(crate) use word::{NUMBER, UNKNOWN, Word};

/// The longest line.
pub(crate) const LINE_BYTES_MAX: usize = 64 * 1024;
/// The most commands in one line.
pub(crate) const COMMANDS_MAX: usize = 256;
/// The most words of all commands in one line.
pub(crate) const WORDS_MAX: usize = 2048;
/// The longest line with broken syntax that is analysed.
const BROKEN_BYTES_MAX: usize = 8 * 1024;
/// How deep lines may be nested in lines.
const NESTING_MAX: usize = 8;

/// How a path is used.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// It is read.
    Read,
    /// It is written, created or removed.
    Write,
}

/// A file that the shell itself opens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Redirect {
    pub target: Word,
    pub access: Access,
}

/// A variable that a line sets, and the values that it may get; none if it is set for one command.
#[derive(Debug)]
struct Assignment {
    name: String,
    values: Vec<Option<Word>>,
}

/// The result of one reading.
#[derive(Debug, Default)]
struct Reading {
    commands: Vec<Vec<Word>>,
    redirects: Vec<Redirect>,
    findings: Vec<String>,
    /// Lines nested in the line.
    nested: Vec<String>,
    /// Whether the syntax was not understood.
    broken: bool,
    /// How much was read again for words within words.
    bytes_read: usize,
    /// Whether a function calls itself.
    recursive: bool,
    /// The variables that are set.
    sets: Vec<Assignment>,
    /// The variables whose values are used.
    uses: Vec<String>,
    /// How many values of variables are used.
    expansions: usize,
    /// Whether a command is started in the background and the line does not wait for it.
    background: bool,
}

impl Reading {
    fn set(&mut self, name: &str) {
        self.sets.push(Assignment { name: name.to_owned(), values: Vec::new() });
    }

    fn finding(&mut self, text: &str) {
        self.findings.push(text.to_owned());
    }
}

/// One simple command of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Simple {
    pub words: Vec<Word>,
    /// Whether exactly this command would certainly run.
    pub certain: bool,
}

/// The commands and redirections of a line.
#[derive(Debug, Default)]
pub(crate) struct Shell {
    pub commands: Vec<Simple>,
    pub redirects: Vec<Redirect>,
    /// Findings: why the line may do more than its commands show.
    pub opaque: BTreeSet<String>,
    /// Why the line is refused without analysis.
    pub refused: Option<String>,
    /// Whether it sets variables, for itself or for one command.
    pub sets_variables: bool,
    known: BTreeSet<Vec<Word>>,
    known_lines: BTreeSet<String>,
    variables: Variables,
    background: bool,
}

/// Analyses a line.
pub(crate) fn analyse(line: &str) -> Shell {
    let mut shell = Shell::default();
    // Only the line itself is certainly read by bash.
    shell.take_line(&braces::expanded(line), 0);
    if shell.known_lines.len() == 1 {
        text::mark_printed(&mut shell.commands);
    }
    if shell.background {
        // The cell ends with the call, and all its processes with it.
        shell.opaque.insert("a command in the background, which ends with the call".to_owned());
    }
    if shell.commands.is_empty() && !shell.redirects.is_empty() {
        shell.commands.push(Simple { words: vec![Word::literal(":")], certain: true });
    }
    shell
}

/// Analyses a command whose words are already known.
pub(crate) fn analyse_words(argv: &[String]) -> Shell {
    let mut shell = Shell::default();
    shell.take_words(argv.iter().map(|text| Word::literal(text)).collect(), true, 0);
    shell
}

impl Shell {
    fn take_line(&mut self, line: &str, depth: usize) {
        if line.len() > LINE_BYTES_MAX {
            self.refused =
                Some(format!("the line is {} bytes long, over {LINE_BYTES_MAX}", line.len()));
            return;
        }
        if depth > NESTING_MAX {
            self.refused = Some(format!("lines stand within lines more than {NESTING_MAX} deep"));
            return;
        }
        // Both readings report the same nested lines: each is analysed once.
        if self.refused.is_some() || !self.known_lines.insert(line.to_owned()) {
            return;
        }
        if let Some(char) = line.chars().find(|char| is_deceptive(*char)) {
            self.opaque.insert(format!("the character U+{:04X}", u32::from(char)));
        }
        let by_hand = lexer::read(line);
        if by_hand.broken && line.len() > BROKEN_BYTES_MAX {
            // The parser can take minutes for a long line with unfinished syntax.
            self.refused = Some(format!("a line over {BROKEN_BYTES_MAX} bytes is not understood"));
            return;
        }
        let words: usize = by_hand.commands.iter().map(Vec::len).sum();
        if by_hand.commands.len() > COMMANDS_MAX || words > WORDS_MAX {
            self.refused = Some(format!(
                "the line has more than {COMMANDS_MAX} commands or {WORDS_MAX} words"
            ));
            return;
        }
        let mut by_tree = tree::read(line);
        if by_tree.recursive {
            self.refused = Some("a function that calls itself".to_owned());
        }
        self.background |= by_hand.background;
        let sets = |words: &Vec<Word>| words.first().is_some_and(|name| name.text == "set");
        if by_hand.commands.iter().any(sets) && inner::has_background(line) {
            self.opaque.insert("`set` with a command in the background".to_owned());
        }
        let silent = by_hand.findings.is_empty() && by_tree.findings.is_empty();
        if silent && !agree(&by_hand, &by_tree) {
            by_tree.finding("the line can be read in two ways");
        }
        self.sets_variables |= !by_hand.sets.is_empty() || !by_tree.sets.is_empty();
        let certain = !by_hand.broken && !by_tree.broken;
        self.learn(&by_hand);
        // Both readings agree on a line without findings; only the lexer's words know their variables.
        let readings = if by_hand.findings.is_empty() && by_tree.findings.is_empty() {
            vec![(by_hand, certain)]
        } else {
            // A command that only the lexer found is possible, not certain.
            vec![(by_tree, certain), (by_hand, false)]
        };
        for (reading, certain) in readings {
            self.opaque.extend(reading.findings);
            for redirect in reading.redirects {
                self.take_redirect(redirect);
            }
            for words in reading.commands {
                self.take_resolved(words, certain, depth);
            }
            for nested in reading.nested {
                self.take_line(&nested, depth + 1);
            }
        }
    }

    /// Takes over what a line says about variables.
    fn learn(&mut self, reading: &Reading) {
        for assignment in &reading.sets {
            for value in &assignment.values {
                if value.as_ref().is_some_and(|word| variables::could_run(&word.text)) {
                    self.opaque.insert("a value that could be run".to_owned());
                }
                self.variables.set(&assignment.name, value.clone());
            }
        }
        for words in &reading.commands {
            let Some((name, rest)) = words.split_first() else { continue };
            for word in rest {
                match name.text.as_str() {
                    "export" => {
                        if let Some((name, value)) = variables::assigned_name(&word.text) {
                            let value = Word { text: value.to_owned(), ..word.clone() };
                            self.variables.set(name, Some(value));
                        }
                    }
                    "read" => self.variables.set(&word.text, None),
                    _ => {}
                }
            }
        }
        for name in &reading.uses {
            if !self.variables.may_show(name) {
                self.opaque.insert("an expansion".to_owned());
            }
        }
    }

    fn take_redirect(&mut self, redirect: Redirect) {
        let target = std::slice::from_ref(&redirect.target);
        let resolved = if redirect.target.dynamic { self.variables.resolve(target) } else { None };
        let targets = match resolved {
            Some(alternatives) if alternatives.iter().all(|words| words.len() == 1) => {
                alternatives.concat()
            }
            Some(_) | None => {
                if redirect.target.dynamic {
                    self.opaque.insert("a redirection to a file that is not known".to_owned());
                }
                vec![redirect.target]
            }
        };
        for target in targets {
            let redirect = Redirect { target, access: redirect.access };
            if !self.redirects.contains(&redirect) {
                self.redirects.push(redirect);
            }
        }
    }

    /// Takes a command with every value that its variables can have.
    fn take_resolved(&mut self, mut words: Vec<Word>, certain: bool, depth: usize) {
        if !words.iter().any(|word| word.dynamic) {
            return self.take_words(words, certain, depth);
        }
        if variables::is_text_only(&words) {
            words.iter_mut().for_each(|word| word.inert = word.dynamic);
            return self.take_words(words, certain, depth);
        }
        match self.variables.resolve(&words) {
            Some(alternatives) => {
                for words in alternatives {
                    self.take_words(words, certain, depth);
                }
            }
            None => {
                let mut expansions = words.iter().flat_map(|word| &word.expansions);
                let substituted = expansions.any(|expansion| expansion.name.is_none());
                let what = if substituted { "a command substitution" } else { "an expansion" };
                self.opaque.insert(what.to_owned());
                self.take_words(words, certain, depth);
            }
        }
    }

    fn take_words(&mut self, mut words: Vec<Word>, certain: bool, depth: usize) {
        if self.refused.is_some() {
            return;
        }
        text::mark(&mut words);
        if self.commands.len() >= COMMANDS_MAX {
            self.refused = Some(format!("the line has more than {COMMANDS_MAX} commands"));
            return;
        }
        // A repeated `cd` counts each time: the second one leads further.
        let leads_further = certain && words.first().is_some_and(|name| name.text == "cd");
        if words.is_empty() || !self.known.insert(words.clone()) && !leads_further {
            return;
        }
        let name_is_known = words.first().is_some_and(|name| !name.dynamic && !name.is_pattern());
        if !name_is_known {
            self.opaque.insert("a command whose name is not known".to_owned());
        }
        self.opaque.extend(suspect::findings(&words));
        let inner = inner::of(&words);
        self.commands.push(Simple { words, certain: certain && name_is_known });
        self.opaque.extend(inner.findings);
        let is_last =
            inner.commands.is_empty() && inner.looked_up.is_empty() && inner.lines.is_empty();
        if depth >= NESTING_MAX && !is_last {
            self.refused =
                Some(format!("commands stand within commands more than {NESTING_MAX} deep"));
            return;
        }
        for words in inner.commands {
            self.take_words(words, certain, depth + 1);
        }
        for words in inner.looked_up {
            self.take_words(words, false, depth + 1);
        }
        for line in inner.lines {
            self.take_line(&line, depth + 1);
        }
    }
}

/// Whether both readings have the same commands and redirections.
fn agree(left: &Reading, right: &Reading) -> bool {
    fn commands(reading: &Reading) -> Vec<Vec<&str>> {
        let mut commands: Vec<Vec<&str>> = reading
            .commands
            .iter()
            .map(|words| words.iter().map(|word| word.text.as_str()).collect())
            .collect();
        commands.sort();
        commands
    }
    fn redirects(reading: &Reading) -> Vec<(&str, Access)> {
        let mut redirects: Vec<_> =
            reading.redirects.iter().map(|one| (one.target.text.as_str(), one.access)).collect();
        redirects.sort();
        redirects
    }
    fn sets(reading: &Reading) -> Vec<&str> {
        let mut names: Vec<&str> = reading.sets.iter().map(|set| set.name.as_str()).collect();
        names.sort_unstable();
        names
    }
    let nested = |reading: &Reading| reading.nested.iter().cloned().collect::<BTreeSet<_>>();
    commands(left) == commands(right)
        && redirects(left) == redirects(right)
        && sets(left) == sets(right)
        && nested(left) == nested(right)
        && left.expansions == right.expansions
}

/// Whether a character could make a line look like another one: control characters but tab and
/// newline, spaces that are no blank to the shell, invisible and direction-changing ones, and
/// letters that look like Latin ones.
fn is_deceptive(char: char) -> bool {
    if char.is_ascii() {
        return char.is_ascii_control() && !matches!(char, '\t' | '\n');
    }
    char.is_control()
        || char.is_whitespace()
        || matches!(char,
            '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{2800}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}'
            | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFF}' | '\u{E0000}'..='\u{E0FFF}'
            | '\u{E000}'..='\u{F8FF}' | '\u{F0000}'..='\u{10FFFF}')
        // Greek, Cyrillic, Armenian, Cherokee, Lisu; full-width, mathematical and enclosed letters.
        || matches!(char,
            '\u{370}'..='\u{3FF}' | '\u{400}'..='\u{52F}' | '\u{530}'..='\u{58F}'
            | '\u{13A0}'..='\u{13FF}' | '\u{AB70}'..='\u{ABBF}' | '\u{A4D0}'..='\u{A4FF}'
            | '\u{FF00}'..='\u{FF5E}' | '\u{1D400}'..='\u{1D7FF}' | '\u{2010}'..='\u{2012}' | '\u{2044}'
            | '\u{2212}' | '\u{2215}' | '\u{29F8}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(line: &str) -> Vec<String> {
        analyse(line).commands.iter().map(|simple| word::join(&simple.words)).collect()
    }

    #[test]
    fn a_plain_line_has_no_findings() {
        for line in [
            "ls -la",
            "git status && git diff | head -20",
            "echo hello >> notes.txt",
            "cat > a.txt <<'EOF'\n$x `y`\nEOF\n",
            "cat <<'EOF' > a.txt\nhi\nEOF\n",
            "cargo test 2>&1 | tail -5",
            "(ls; pwd) && { echo a; }",
            "if test -f a; then cat a; fi",
            "grep -n 'a b' *.rs",
            "[ -f a ] && cat a",
            "git commit -m \"a; b && c | d > e\"",
            "cat <<'EOF' | wc -l\nhi\nEOF\n",
            "git show stash@{0}",
        ] {
            assert_eq!(analyse(line).opaque, BTreeSet::new(), "{line}");
        }
    }

    #[test]
    fn wrapped_commands_are_seen() {
        for line in [
            "sudo -u root rm x",
            "env -i A=b rm x",
            "nohup nice -n 5 timeout 10 rm x",
            "bash -lc 'rm x'",
            "eval rm x",
            "xargs -n 1 rm x",
            "find . -exec rm x \\;",
            "bash -c \"bash -c 'rm x'\"",
            "command rm x",
            "time -p rm x",
            "trap 'rm x' EXIT",
            "echo $(rm x)",
            "busybox rm x",
        ] {
            assert!(names(line).iter().any(|name| name == "rm x"), "{line}: {:?}", names(line));
        }
    }

    #[test]
    fn limits_refuse() {
        assert!(analyse(&"a".repeat(LINE_BYTES_MAX + 1)).refused.is_some());
        let many: String = (0..=COMMANDS_MAX).map(|at| format!("echo {at};")).collect();
        assert!(analyse(&many).refused.is_some());
        let deep = format!("{}x{}", "echo $(".repeat(20), ")".repeat(20));
        assert!(analyse(&deep).refused.is_some());
    }
}
