//! Lines of shell that run in a cell: what a client's own line is turned into, and back.

/// How a client's line is started in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellLine<'a> {
    /// The path of our program.
    pub binary: &'a str,
    /// The root of the project in whose name the client works.
    pub project: &'a str,
    /// The folder that is worked in, if it is not the project's.
    pub workspace: Option<&'a str>,
    /// The name of the session's run.
    pub session: &'a str,
    /// Whether it may only read.
    pub reading: bool,
}

/// The option of lines that may only read.
const READING: &str = "--reading";
/// How agents call our program.
const OWN_NAME: &str = "windlass";

impl CellLine<'_> {
    /// The line that runs `line` in a cell.
    #[must_use]
    pub fn wrap(&self, line: &str) -> String {
        let Self { binary, project, workspace, session, reading } = self;
        let mut words = vec![*binary, "-C", project, "cell", "--session", session];
        if *reading {
            words.push(READING);
        }
        if let Some(workspace) = workspace {
            words.extend(["--workspace", workspace]);
        }
        words.extend(["--", line]);
        words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
    }

    /// The line for one command of ours that agents may use, which a cell would keep from its files.
    #[must_use]
    pub fn wrap_own(&self, line: &str) -> Option<String> {
        let own = own_words(line)?;
        let mut words = vec![self.binary, "-C", self.project];
        words.extend(own.iter().map(String::as_str));
        if is_step(&words) {
            words.extend(["--session", self.session]);
        }
        Some(words.into_iter().map(quoted).collect::<Vec<_>>().join(" "))
    }
}

/// Whether a line is one command of ours that agents may use.
#[must_use]
pub fn is_own_line(line: &str) -> bool {
    own_words(line).is_some()
}

/// Whether a line is one command of ours that only asks.
#[must_use]
pub fn is_own_question(line: &str) -> bool {
    let words = own_words(line).unwrap_or_default();
    let names: Vec<&str> = words.iter().take(2).map(String::as_str).collect();
    matches!(
        names.as_slice(),
        ["work", "list" | "show"] | ["memory", "search"] | ["workflow", "list" | "show" | "check"]
    )
}

/// The arguments of one command of ours that agents may use.
fn own_words(line: &str) -> Option<Vec<String>> {
    let words = plain_words(line)?;
    let (program, rest) = words.split_first()?;
    // Another project, or another session, is not theirs.
    let is_other = |word: &String| match word.strip_prefix("--") {
        Some(name) => ["project", "session"].iter().any(|other| name.starts_with(other)),
        // It may stand behind other letters.
        None => word.starts_with('-') && word.contains('C'),
    };
    if program != OWN_NAME || rest.iter().any(is_other) {
        return None;
    }
    let names: Vec<&str> = rest.iter().take(2).map(String::as_str).collect();
    let is_own = match names.as_slice() {
        ["work", sub] => {
            matches!(*sub, "list" | "show" | "create" | "update" | "close" | "link" | "sync")
        }
        ["memory", sub] => matches!(*sub, "search" | "add"),
        ["workflow", sub] => matches!(*sub, "list" | "show" | "check"),
        ["session", sub] => matches!(*sub, "step" | "insights"),
        _ => false,
    };
    is_own.then(|| rest.to_vec())
}

/// Whether words of [`CellLine::wrap_own`] say how far a step is.
fn is_step(words: &[&str]) -> bool {
    matches!(words, [_, _, _, "session", "step", ..])
}

/// The words of a line in which nothing has a meaning but blanks and quotes.
fn plain_words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for char in line.trim().chars() {
        match (quote, char) {
            (Some(open), close) if open == close => quote = None,
            (Some('"'), '$' | '`' | '\\' | '!') | (_, '\0' | '\n' | '\r') => return None,
            (Some(_), other) => word.get_or_insert_default().push(other),
            (None, '\'' | '"') => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (None, ' ' | '\t') => words.extend(word.take()),
            (None, other) if other.is_alphanumeric() || "/._-+:,=@%".contains(other) => {
                word.get_or_insert_default().push(other);
            }
            (None, _) => return None,
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// The line that runs in the cell, if `line` is one of [`CellLine::wrap`] with this program.
#[must_use]
pub fn unwrap_cell_line(binary: &str, line: &str) -> Option<String> {
    let words = words(line)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [program, "-C", _, "cell", "--session", _, "--", line]
        | [program, "-C", _, "cell", "--session", _, READING, "--", line]
        | [program, "-C", _, "cell", "--session", _, "--workspace", _, "--", line]
        | [program, "-C", _, "cell", "--session", _, READING, "--workspace", _, "--", line]
            if *program == binary =>
        {
            Some((*line).to_owned())
        }
        [program, "-C", _, rest @ ..] if *program == binary => {
            let own = match rest {
                ["session", "step", own @ .., "--session", _] => {
                    [&["session", "step"], own].concat()
                }
                own => own.to_vec(),
            };
            let line = std::iter::once(OWN_NAME).chain(own).map(quoted);
            Some(line.collect::<Vec<_>>().join(" ")).filter(|line| is_own_line(line))
        }
        _ => None,
    }
}

/// A word as `sh` reads it back.
fn quoted(word: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "/._-+".contains(char);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The words of a line that [`quoted`] words make up, and no other line.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        let (word, left) = word(rest)?;
        // Only one form of a word is ours.
        let form = rest.get(..rest.len() - left.len())?;
        if quoted(&word) != form {
            return None;
        }
        words.push(word);
        if left.is_empty() {
            return Some(words);
        }
        rest = left.strip_prefix(' ')?;
    }
}

/// The first word, and what follows it.
fn word(text: &str) -> Option<(String, &str)> {
    let Some(mut rest) = text.strip_prefix('\'') else {
        let end = text.find(' ').unwrap_or(text.len());
        return text.split_at_checked(end).map(|(word, rest)| (word.to_owned(), rest));
    };
    let mut word = String::new();
    loop {
        let (part, after) = rest.split_once('\'')?;
        word.push_str(part);
        match after.strip_prefix(r"\''") {
            Some(after) => {
                word.push('\'');
                rest = after;
            }
            None => return Some((word, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: CellLine<'_> = CellLine {
        binary: "/opt/my tools/windlass",
        project: "/srv/pro'ject",
        workspace: None,
        session: "run_1",
        reading: false,
    };

    #[test]
    fn every_line_comes_back_as_it_was() {
        for line in
            ["ls", "", " ", "a'b", "''", "'", r"\", "echo \"$HOME\" 'x y'\nrm *", "é ∀", "--", "-C"]
        {
            let wrapped = LINE.wrap(line);
            assert_eq!(unwrap_cell_line(LINE.binary, &wrapped).as_deref(), Some(line), "{wrapped}");
            let reading = CellLine { reading: true, ..LINE }.wrap(line);
            assert_eq!(unwrap_cell_line(LINE.binary, &reading).as_deref(), Some(line));
            let elsewhere = CellLine { workspace: Some("/a b"), ..LINE }.wrap(line);
            assert_eq!(unwrap_cell_line(LINE.binary, &elsewhere).as_deref(), Some(line));
            let twice = LINE.wrap(&wrapped);
            assert_eq!(unwrap_cell_line(LINE.binary, &twice), Some(wrapped));
        }
    }

    #[test]
    fn own_commands_need_no_cell_and_come_back() {
        for (line, back) in [
            ("windlass work list", "windlass work list"),
            ("windlass work create \"a b\" --type bug", "windlass work create 'a b' --type bug"),
            (
                "windlass session step review/1 completed",
                "windlass session step review/1 completed",
            ),
            ("  windlass memory search 'it''s'", "windlass memory search its"),
        ] {
            let wrapped = LINE.wrap_own(line).unwrap();
            assert!(!wrapped.contains(" cell "), "{wrapped}");
            assert_eq!(unwrap_cell_line(LINE.binary, &wrapped).as_deref(), Some(back));
        }
        for other in [
            "windlass queue approve 1",
            "windlass work session clear-block",
            "windlass session clear-block",
            "windlass session step a completed --session run_2",
            "windlass -C /other work list",
            "windlass work list -C /other",
            "windlass work list -C/other",
            "windlass work list --project /other",
            "windlass work list --project=/other",
            "windlass --project /other work list",
            "windlass work create --json -xC /other a",
            "windlass work list; rm x",
            "windlass work list && ls",
            "windlass work create $(id)",
            "windlass work create \"$HOME\"",
            "windlass work create `id`",
            "windlass work create 'a",
            "windlass work list > x",
            "windlass work list\nrm x",
            "/usr/bin/windlass work list",
            "windlass",
            "windlass work",
            "",
        ] {
            assert_eq!(LINE.wrap_own(other), None, "{other}");
        }
    }

    #[test]
    fn other_lines_are_left_alone() {
        let wrapped = LINE.wrap("ls");
        for other in [
            format!("{wrapped}; rm -rf x"),
            format!("{wrapped} x"),
            format!(" {wrapped}"),
            wrapped.replace("cell", "call"),
            wrapped.replace(" ls", " $(ls)"),
            wrapped.replace(" ls", " \"ls\""),
            "ls".to_owned(),
            String::new(),
        ] {
            assert_eq!(unwrap_cell_line(LINE.binary, &other), None, "{other}");
        }
        assert_eq!(unwrap_cell_line("/elsewhere/windlass", &wrapped), None);
    }
}
