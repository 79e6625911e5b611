//! Commands that run other commands, which are judged in addition.

use super::lexer::is_assignment;
use super::variables::{assigned_name, may_set};
use super::word::{Word, join};
use super::wrappers::{Options, wrapper};

/// The commands and lines that a command would run.
#[derive(Debug, Default)]
pub(super) struct Inner {
    pub commands: Vec<Vec<Word>>,
    /// Commands that a tool looks up in an environment of its own, so that their names are not certain.
    pub looked_up: Vec<Vec<Word>>,
    pub lines: Vec<String>,
    pub findings: Vec<String>,
}

impl Inner {
    fn command(&mut self, words: &[Word]) {
        if !words.is_empty() {
            self.commands.push(words.to_vec());
        }
    }

    fn finding(&mut self, text: String) {
        self.findings.push(text);
    }

    /// Adds a word that is a line.
    fn line(&mut self, word: &Word) {
        if word.dynamic {
            self.finding("a line that is not known".to_owned());
        }
        self.lines.push(word.text.clone());
    }
}

/// A command's name without its folder, in lower case.
pub(super) fn base_name(word: &Word) -> String {
    word.text.rsplit('/').next().unwrap_or_default().to_lowercase()
}

/// The options of programs that run a command of an environment: those that take the next word, and those that take none.
const RUN_VALUES: &[&str] = &[
    "-p",
    "--python",
    "--extra",
    "--group",
    "--only-group",
    "--no-group",
    "--package",
    "--project",
    "--directory",
    "-C",
];
const RUN_FLAGS: &[&str] = &[
    "--frozen",
    "--locked",
    "--offline",
    "--no-sync",
    "--no-project",
    "--isolated",
    "--all-extras",
    "--all-groups",
    "--dev",
    "--no-dev",
    "-q",
    "--quiet",
    "-v",
    "--verbose",
];

/// The command behind `run` or `exec`, which is looked up in an environment of its own.
fn looked_up(name: &str, rest: &[Word], inner: &mut Inner) {
    let mut ran = false;
    let mut at = 0;
    while let Some(word) = rest.get(at) {
        let text = word.text.as_str();
        if text.starts_with('-') {
            let option = text.split('=').next().unwrap_or_default();
            let takes = RUN_VALUES.contains(&option) && !text.contains('=');
            if ran && !RUN_VALUES.contains(&option) && !RUN_FLAGS.contains(&option) {
                inner.finding(format!("the option `{option}` of `{name}` is not known"));
            }
            at += if takes && (ran || rest.len() > at + 1) { 2 } else { 1 };
        } else if !ran && matches!(text, "run" | "exec" | "x") {
            ran = true;
            at += 1;
        } else {
            break;
        }
    }
    if ran {
        inner.looked_up.push(rest.get(at..).unwrap_or_default().to_vec());
    }
}

/// The commands and lines that a command would run.
pub(super) fn of(words: &[Word]) -> Inner {
    let mut inner = Inner::default();
    let Some((name, rest)) = words.split_first() else { return inner };
    let name = base_name(name);
    if let Some(options) = wrapper(&name) {
        unwrap(&name, rest, &options, &mut inner);
    }
    match name.as_str() {
        "bash" | "sh" | "zsh" | "dash" | "ksh" | "ash" | "fish" | "mksh" | "rbash" => {
            shell(&name, rest, &mut inner);
        }
        "su" | "script" | "runuser" | "flock" | "watch" => {
            for pair in rest.windows(2) {
                if let [option, line] = pair
                    && matches!(option.text.as_str(), "-c" | "--command")
                {
                    inner.line(line);
                }
            }
            inner.finding(format!("`{name}` runs other commands"));
        }
        "eval" => {
            inner.finding("`eval`".to_owned());
            inner.lines.push(join(rest));
        }
        "trap" => {
            inner.finding("`trap`".to_owned());
            if let Some(line) = rest.iter().find(|word| !word.text.starts_with('-')) {
                inner.line(line);
            }
        }
        "alias" => {
            inner.finding("`alias`".to_owned());
            inner.lines.extend(
                rest.iter().filter_map(|word| Some(word.text.split_once('=')?.1.to_owned())),
            );
        }
        "find" | "gfind" => find(rest, &mut inner),
        "uv" | "poetry" | "pdm" | "pipenv" | "hatch" | "rye" | "bundle" => {
            looked_up(&name, rest, &mut inner);
        }
        "fd" | "fdfind" => {
            if let Some(at) = rest.iter().position(|word| {
                matches!(word.text.as_str(), "-x" | "-X" | "--exec" | "--exec-batch")
            }) {
                inner.finding(format!("`{name}` runs other commands"));
                inner.command(rest.get(at + 1..).unwrap_or_default());
            }
        }
        _ => {}
    }
    inner
}

fn unwrap(name: &str, rest: &[Word], options: &Options, inner: &mut Inner) {
    let transparent = matches!(
        name,
        "nohup"
            | "setsid"
            | "builtin"
            | "command"
            | "time"
            | "nice"
            | "ionice"
            | "stdbuf"
            | "timeout"
            | "env"
            | "sudo"
            | "doas"
            | "xargs"
    );
    if !transparent {
        inner.finding(format!("`{name}` runs other commands"));
    }
    let mut at = 0;
    let mut operands = options.operands;
    while let Some(word) = rest.get(at) {
        let text = word.text.as_str();
        at += 1;
        if word.dynamic {
            inner.finding(format!("the options of `{name}` are not known"));
        }
        if text == "--" {
            break;
        }
        if name == "command" && matches!(text, "-v" | "-V" | "-pv" | "-pV") {
            return;
        }
        if name == "env"
            && (text.starts_with("-S")
                || text.starts_with("--s")
                || text.contains('S') && is_cluster(text))
        {
            inner.finding("`env -S`".to_owned());
            let attached = text.strip_prefix("-S").filter(|line| !line.is_empty());
            let attached = attached.or_else(|| text.split_once('=').map(|(_, line)| line));
            let mut line = attached.map_or_else(String::new, str::to_owned);
            for more in rest.get(at..).unwrap_or_default() {
                line.push(' ');
                line.push_str(&more.text);
            }
            inner.lines.push(line);
            return;
        }
        if text.starts_with("--") || is_cluster(text) {
            match options.taken(text) {
                Some(taken) => at += taken,
                None => inner.finding(format!("the option `{text}` of `{name}` is not known")),
            }
        } else if matches!(name, "env" | "sudo" | "doas") && is_assignment(word) {
            if assigned_name(text).is_some_and(|(name, _)| !may_set(name)) {
                inner.finding("a variable of the shell or of programs is set".to_owned());
            }
        } else if operands > 0 {
            operands -= 1;
        } else {
            at -= 1;
            break;
        }
    }
    let command = rest.get(at..).unwrap_or_default();
    if name == "env" && command.is_empty() {
        // Without a command it prints the environment.
        inner.command(&[Word::literal("printenv")]);
    }
    if name == "xargs" && !takes_any_operands(command) && !takes_files(command) {
        inner.finding("`xargs` adds arguments that are not known".to_owned());
    }
    inner.command(command);
}

/// Commands to which operands can be added without changing what they do to each.
const PER_OPERAND: &[&str] = &[
    "grep",
    "egrep",
    "fgrep",
    "cat",
    "head",
    "tail",
    "wc",
    "ls",
    "stat",
    "file",
    "du",
    "echo",
    "basename",
    "dirname",
    "sha256sum",
    "sha1sum",
    "md5sum",
    "cksum",
    "rustfmt",
    "gofmt",
    "black",
    "shellcheck",
    "nl",
    "strings",
];

fn takes_any_operands(command: &[Word]) -> bool {
    command.first().is_some_and(|name| PER_OPERAND.contains(&name.text.as_str()))
}

/// Commands to which names of files can be added that do not begin with a dash.
const PER_FILE: &[&str] = &["sed", "clang-format", "prettier", "eslint", "ruff", "isort", "flake8"];

/// Whether names of files can be added to a command. That none begins with a dash is left to the caller.
pub(crate) fn takes_files(command: &[Word]) -> bool {
    let has_words = |rest: &[Word]| rest.iter().any(|word| !word.text.starts_with('-'));
    command.split_first().is_some_and(|(name, rest)| {
        // A `sed` without a script would take the first name for one.
        PER_FILE.contains(&name.text.as_str()) && (name.text != "sed" || has_words(rest))
    })
}

/// Whether a command starts others, which are judged themselves.
pub(crate) fn starts_others(words: &[Word]) -> bool {
    let inner = of(words);
    !(inner.commands.is_empty() && inner.looked_up.is_empty() && inner.lines.is_empty())
}

/// Whether a line may start something in the background.
pub(super) fn has_background(line: &str) -> bool {
    line.replace("&&", "").replace(">&", "").replace("&>", "").contains('&')
}

fn is_cluster(text: &str) -> bool {
    text.len() > 1 && text.starts_with('-') && !text.starts_with("--")
}

fn shell(name: &str, rest: &[Word], inner: &mut Inner) {
    let mut at = 0;
    let mut wants_line = false;
    let mut ends_early = false;
    while let Some(word) = rest.get(at) {
        let text = word.text.as_str();
        at += 1;
        if text == "--" || text == "-" {
            break;
        }
        if matches!(text, "--rcfile" | "--init-file") {
            inner.finding(format!("`{name}` reads a start-up file"));
            at += 1;
        } else if text.starts_with("--") {
        } else if is_cluster(text) || text.starts_with('+') && text.len() > 1 {
            wants_line |= text.starts_with('-') && text.contains('c');
            ends_early |= text.starts_with('-') && text.contains('e');
            if text.contains(['i', 'l']) {
                inner.finding(format!("`{name}` reads start-up files"));
            }
            at += usize::from(text.ends_with(['o', 'O']));
        } else {
            at -= 1;
            break;
        }
    }
    match (wants_line, rest.get(at)) {
        (true, Some(line)) => {
            if ends_early && has_background(&line.text) {
                inner.finding(format!("`{name} -e` may not wait for what is in the background"));
            }
            if name != "bash" && line.text.contains("&>") {
                inner.finding(format!("`{name}` may read `&>` as `&`"));
            }
            inner.line(line);
        }
        (false, Some(script)) if matches!(script.text.as_str(), "/dev/stdin" | "/dev/fd/0") => {
            inner.finding(format!("`{name}` reads commands from its input"));
        }
        // A script of the workspace is left to the rules.
        (false, Some(_)) => {}
        (_, None) => inner.finding(format!("`{name}` reads commands from its input")),
    }
}

fn find(rest: &[Word], inner: &mut Inner) {
    let mut at = 0;
    while let Some(word) = rest.get(at) {
        at += 1;
        match word.text.as_str() {
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                if word.text != "-exec" {
                    inner.finding(format!("`find {}`", word.text));
                }
                let tail = rest.get(at..).unwrap_or_default();
                let end = tail.iter().position(|word| matches!(word.text.as_str(), ";" | "+"));
                let end = end.unwrap_or(tail.len());
                inner.command(tail.get(..end).unwrap_or_default());
                at += end;
            }
            "-fprint" | "-fprint0" | "-fprintf" | "-fls" | "-files0-from" => {
                inner.finding(format!("`find {}`", word.text));
            }
            _ => {}
        }
    }
}
