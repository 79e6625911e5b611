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
}

impl CellLine<'_> {
    /// The line that runs `line` in a cell.
    #[must_use]
    pub fn wrap(&self, line: &str) -> String {
        let Self { binary, project, workspace, session } = self;
        let mut words = vec![*binary, "-C", project, "cell", "--session", session];
        if let Some(workspace) = workspace {
            words.extend(["--workspace", workspace]);
        }
        words.extend(["--", line]);
        words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
    }
}

/// The line that runs in the cell, if `line` is one of [`CellLine::wrap`] with this program.
#[must_use]
pub fn unwrap_cell_line(binary: &str, line: &str) -> Option<String> {
    let words = words(line)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [program, "-C", _, "cell", "--session", _, "--", line]
        | [program, "-C", _, "cell", "--session", _, "--workspace", _, "--", line]
            if *program == binary =>
        {
            Some((*line).to_owned())
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
    };

    #[test]
    fn every_line_comes_back_as_it_was() {
        for line in
            ["ls", "", " ", "a'b", "''", "'", r"\", "echo \"$HOME\" 'x y'\nrm *", "é ∀", "--", "-C"]
        {
            let wrapped = LINE.wrap(line);
            assert_eq!(unwrap_cell_line(LINE.binary, &wrapped).as_deref(), Some(line), "{wrapped}");
            let elsewhere = CellLine { workspace: Some("/a b"), ..LINE }.wrap(line);
            assert_eq!(unwrap_cell_line(LINE.binary, &elsewhere).as_deref(), Some(line));
            let twice = LINE.wrap(&wrapped);
            assert_eq!(unwrap_cell_line(LINE.binary, &twice), Some(wrapped));
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
