//! Small languages in a command's words: awk, sed and jq.

/// Whether an `awk` only computes and prints.
pub(super) fn is_plain_awk(texts: &[&str]) -> bool {
    matches!(texts, ["--version", ..] | []) || plain_awk_program(texts).is_some()
}

/// The place of the program of an `awk` that only computes and prints.
pub(super) fn plain_awk_program(texts: &[&str]) -> Option<usize> {
    let mut at = 0;
    while let Some(option) = texts.get(at).filter(|text| text.starts_with('-') && text.len() > 1) {
        if !option.starts_with("-F") && !option.starts_with("-v") {
            return None;
        }
        at += if option.len() == 2 { 2 } else { 1 };
    }
    texts.get(at).copied().is_some_and(is_plain_awk_program).then_some(at)
}

/// Names in an awk program that run commands, or read and write files and variables of the environment.
const AWK_WORDS: &[&str] = &[
    "system", "getline", "close", "fflush", "ARGV", "ARGC", "ENVIRON", "PROCINFO", "SYMTAB",
    "FUNCTAB",
];

fn is_plain_awk_program(program: &str) -> bool {
    let Some(code) = awk_code(program) else { return false };
    let code = joined(&code).replace("||", " ");
    if code.contains(['|', '@', '\\']) || AWK_WORDS.iter().any(|word| code.contains(word)) {
        return false;
    }
    // A `>` behind `print` opens a file, elsewhere it compares.
    code.split(['{', '}', ';', '\n']).all(|statement| {
        statement.split_once("print").is_none_or(|(_, behind)| !behind.contains('>'))
    })
}

/// The program with the lines in one that belong to one statement: behind some tokens a line goes on in the next.
fn joined(code: &str) -> String {
    let mut joined = String::with_capacity(code.len());
    for char in code.chars() {
        let so_far = joined.trim_end();
        let goes_on = [",", "&&", "||", "?", ":"].iter().any(|token| so_far.ends_with(token));
        joined.push(if char == '\n' && goes_on { ' ' } else { char });
    }
    joined
}

/// The program without the content of its strings, regular expressions and comments; `None` if it can be read in two ways.
fn awk_code(program: &str) -> Option<String> {
    let mut code = String::new();
    let mut rest = program;
    while let Some(char) = rest.chars().next() {
        let behind = rest.get(char.len_utf8()..).unwrap_or_default();
        let last = code.trim_end_matches([' ', '\t']).chars().last();
        rest = match char {
            '"' => awk_string(behind)?,
            '#' => {
                let end = behind.find('\n').unwrap_or(behind.len());
                let (comment, after) = behind.split_at_checked(end)?;
                // Some versions of awk continue a line here, and some do not.
                if comment.ends_with('\\') {
                    return None;
                }
                rest = after;
                continue;
            }
            // Nothing can be divided here.
            '/' if last.is_none_or(|last| "(,{};!~&|\n".contains(last)) => awk_pattern(behind)?,
            '/' => {
                // It divides, or begins a pattern that ends in this line: both must mean the same.
                let line = behind.split('\n').next().unwrap_or_default();
                let inside = line.rsplit_once('/').map_or("", |(inside, _)| inside);
                if inside.contains(['"', '#', '[', '\\']) {
                    return None;
                }
                code.push(char);
                behind
            }
            _ => {
                code.push(char);
                behind
            }
        };
        if char == '"' {
            code.push_str("\"\"");
        } else if char == '/' && !code.ends_with('/') {
            code.push_str("//");
        }
    }
    Some(code)
}

/// What is behind a string.
fn awk_string(text: &str) -> Option<&str> {
    let mut escaped = false;
    for (at, char) in text.char_indices() {
        match char {
            '\n' if !escaped => return None,
            '"' if !escaped => return text.get(at + 1..),
            _ => escaped = char == '\\' && !escaped,
        }
    }
    None
}

/// What is behind a regular expression. In brackets a `/` ends it for some versions of awk and not for others.
fn awk_pattern(text: &str) -> Option<&str> {
    let (mut escaped, mut in_brackets) = (false, false);
    for (at, char) in text.char_indices() {
        match char {
            '\n' => return None,
            '/' if !escaped => return if in_brackets { None } else { text.get(at + 1..) },
            '[' if !escaped && !in_brackets => in_brackets = true,
            // It may stand for itself, first in brackets or in a class of characters.
            ']' if in_brackets => {
                let before = text.get(..at).unwrap_or_default();
                in_brackets = before.ends_with(['[', '^', ':', '.', '=']);
            }
            _ => {}
        }
        escaped = char == '\\' && !escaped;
    }
    None
}

/// Names in a program of `jq` or `yq` that reach the environment, other files or programs.
const JQ_WORDS: &[&str] = &[
    "env",
    "strenv",
    "envsubst",
    "load",
    "load_str",
    "load_xml",
    "load_props",
    "load_base64",
    "eval",
    "system",
];

/// Options of `jq` and `yq` without a value in the next word.
const JQ_FLAGS: &[&str] = &[
    "--raw-output",
    "--raw-input",
    "--compact-output",
    "--null-input",
    "--exit-status",
    "--slurp",
    "--sort-keys",
    "--monochrome-output",
    "--color-output",
    "--join-output",
    "--ascii-output",
    "--tab",
];

/// Whether a `jq` or `yq` reads the environment or other files.
pub(super) fn jq_reads_elsewhere(texts: &[&str]) -> bool {
    let program = jq_program(texts);
    texts.iter().enumerate().any(|(at, text)| {
        let is_file = program.is_some_and(|program| at > program);
        text.contains("$ENV")
            || text.contains("import")
            || text.contains("include")
            || JQ_WORDS.iter().any(|name| has_name(text, name, is_file))
    })
}

/// The place of the program of a `jq` or `yq`; `None` if an option is not known.
pub(super) fn jq_program(texts: &[&str]) -> Option<usize> {
    let is_flag = |text: &str| {
        JQ_FLAGS.contains(&text)
            || text
                .strip_prefix('-')
                .is_some_and(|letters| letters.chars().all(|char| "rcnesSjRMCaPi".contains(char)))
    };
    if texts.iter().any(|text| text.starts_with('-') && !is_flag(text)) {
        return None;
    }
    let mut operands = texts.iter().enumerate().filter(|(_, text)| !text.starts_with('-'));
    let (first, text) = operands.next()?;
    let is_command = matches!(*text, "eval" | "e" | "eval-all" | "ea");
    if is_command { operands.next().map(|(second, _)| second) } else { Some(first) }
}

/// Whether this stands in a jq program as a name of its own. In the name of a file it can stand behind a `-` or `/`.
fn has_name(text: &str, name: &str, is_file: bool) -> bool {
    let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
    text.match_indices(name).any(|(at, found)| {
        let before = text.get(..at).and_then(|text| text.chars().last());
        let behind = text.get(at + found.len()..).and_then(|text| text.chars().next());
        let belongs = |char: char| match char {
            '.' | '"' | '$' => true,
            '-' | '/' => is_file,
            other => is_name(other),
        };
        !before.is_some_and(belongs) && behind.is_none_or(|char| !is_name(char) && char != '"')
    })
}

/// The scripts of a `sed` that only prints, deletes, adds and substitutes, by their places; `None` if it may do
/// something else.
pub(super) fn plain_sed_scripts(texts: &[&str]) -> Option<Vec<usize>> {
    let mut scripts = Vec::new();
    let mut explicit = false;
    let mut first = None;
    let mut places = texts.iter().enumerate();
    while let Some((at, text)) = places.next() {
        match *text {
            "-e" | "--expression" => {
                explicit = true;
                scripts.extend(places.next().map(|(at, _)| at));
            }
            "-n" | "-E" | "-r" | "-nE" | "-nr" | "-En" | "-s" | "-u" | "-z" | "-i" | "--quiet"
            | "--silent" | "--regexp-extended" | "--in-place" | "--version" => {}
            // A copy with another ending could be a file that other programs obey.
            "-i.bak" | "-i.orig" | "-i.old" | "-i.tmp" | "-i~" => {}
            option if option.starts_with('-') && option.len() > 1 => return None,
            _ => {
                first = first.or(Some(at));
            }
        }
    }
    if !explicit {
        scripts.extend(first);
    }
    let is_plain = |script: &str| script.split(';').all(|part| is_plain_sed_command(part.trim()));
    scripts.iter().all(|at| texts.get(*at).copied().is_some_and(is_plain)).then_some(scripts)
}

fn is_plain_sed_command(command: &str) -> bool {
    if command.contains(['\n', '{', '}']) {
        return false;
    }
    let digits = |char: char| char.is_ascii_digit() || matches!(char, '$' | ',' | '+' | '~' | ' ');
    let mut rest = command.trim_start_matches(digits);
    while let Some(pattern) = rest.strip_prefix('/') {
        match pattern.split_once('/') {
            Some((before, after)) if !before.ends_with('\\') => {
                rest = after.trim_start_matches(digits)
            }
            Some(_) | None => return false,
        }
    }
    let rest = rest.trim_start_matches('!');
    if matches!(rest, "" | "p" | "d" | "q" | "=" | "P" | "D" | "$p") {
        return true;
    }
    // Behind these stands the text of a line, up to the end.
    if rest.strip_prefix(['a', 'i', 'c']).is_some_and(|text| text.starts_with([' ', '\\'])) {
        return true;
    }
    let Some(body) = rest.strip_prefix('s') else { return false };
    let Some(delimiter) =
        body.chars().next().filter(|char| !char.is_alphanumeric() && *char != '\\')
    else {
        return false;
    };
    let (mut parts, mut flags, mut escaped) = (0, String::new(), false);
    for char in body.chars() {
        if char == delimiter && !escaped {
            parts += 1;
        } else if parts >= 3 {
            flags.push(char);
        }
        escaped = char == '\\' && !escaped;
    }
    parts == 3 && flags.chars().all(|char| "gpiI0123456789".contains(char))
}

/// Whether a command gives files the rights of their user or group: setuid and setgid.
pub(super) fn gives_identity(name: &str, texts: &[&str]) -> bool {
    match name {
        "chmod" => {
            // A mode can begin with a dash; otherwise it is the first operand.
            let is_mode = |text: &&&str| {
                text.strip_prefix('-')
                    .is_some_and(|rest| rest.contains(|char| !"-Rcvf".contains(char)))
                    && !text.starts_with("--")
            };
            let modes: Vec<&&str> = texts.iter().filter(is_mode).collect();
            let first = texts.iter().find(|text| !text.starts_with('-'));
            let first = first.filter(|_| modes.is_empty());
            texts.iter().any(|text| text.starts_with("--ref"))
                || modes.into_iter().chain(first).any(|mode| mode_has_identity(mode))
        }
        "mkdir" | "install" => texts.iter().enumerate().any(|(at, text)| {
            let next = || texts.get(at + 1).copied();
            let value = match text.strip_prefix("--m") {
                Some(long) => long.split_once('=').map_or_else(next, |(_, value)| Some(value)),
                None if text.starts_with('-') && !text.starts_with("--") => {
                    let behind = text.split_once('m').map(|(_, value)| value);
                    behind.and_then(|value| if value.is_empty() { next() } else { Some(value) })
                }
                None => None,
            };
            value.is_some_and(mode_has_identity)
        }),
        _ => false,
    }
}

/// Whether a mode, such as `u+s` or `4755`, has setuid or setgid.
fn mode_has_identity(mode: &str) -> bool {
    mode.split(',').any(|clause| {
        let rights = clause.trim_start_matches(['u', 'g', 'o', 'a']);
        let number = rights.trim_start_matches(['+', '-', '=']);
        match u32::from_str_radix(number, 8) {
            Ok(bits) => bits & 0o6000 != 0,
            Err(_) => rights.contains('s'),
        }
    })
}

/// Whether a `set` only makes a line end earlier, or shows its commands.
pub(super) fn is_plain_set(texts: &[&str]) -> bool {
    let mut at = 0;
    while let Some(text) = texts.get(at) {
        let Some(letters) = text.strip_prefix(['-', '+']) else { return false };
        let wants_name = letters.ends_with('o');
        let letters = letters.strip_suffix('o').unwrap_or(letters);
        if letters.contains(|char| !"eux".contains(char)) || letters.is_empty() && !wants_name {
            return false;
        }
        if wants_name && texts.get(at + 1) != Some(&"pipefail") {
            return false;
        }
        at += if wants_name { 2 } else { 1 };
    }
    !texts.is_empty()
}

/// Commands of `sqlite3` itself that only show what a database has.
const SQLITE_COMMANDS: &[&str] =
    &[".tables", ".schema", ".databases", ".indexes", ".indices", ".dbinfo"];
/// Words of its SQL that reach other files or programs.
const SQLITE_WORDS: &[&str] = &[
    "readfile",
    "writefile",
    "load_extension",
    "edit",
    "attach",
    "vacuum",
    "fsdir",
    "zipfile",
    "lsdir",
    "fileio",
    "virtual",
];

/// Whether a `sqlite3` only uses the database that it names, by statements that stand in the line.
pub(super) fn is_plain_sqlite(texts: &[&str]) -> bool {
    let flags = [
        "-header",
        "-noheader",
        "-column",
        "-csv",
        "-json",
        "-line",
        "-list",
        "-table",
        "-box",
        "-markdown",
        "-readonly",
        "-batch",
        "-bail",
        "-html",
        "-tabs",
        "-quote",
    ];
    if matches!(texts, ["-version" | "--version" | "-help" | "--help"]) {
        return true;
    }
    let operands: Vec<&str> = texts.iter().copied().filter(|text| !text.starts_with('-')).collect();
    let known = texts.iter().filter(|text| text.starts_with('-')).all(|text| {
        flags.iter().any(|flag| *text == *flag || text.strip_prefix('-') == Some(flag))
    });
    // Without a statement it reads commands from its input.
    let [file, statements @ ..] = operands.as_slice() else { return false };
    let is_plain = |text: &&str| match text.trim_start().strip_prefix('.') {
        Some(_) => {
            let name = text.split_whitespace().next().unwrap_or_default();
            SQLITE_COMMANDS.contains(&name) && !text.contains(['\n', ';', '|'])
        }
        None => {
            let text = text.to_lowercase();
            // Quotes and brackets make identifiers, too.
            let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
            !text.split(|char| !is_name(char)).any(|word| SQLITE_WORDS.contains(&word))
                && !text.lines().any(|line| line.trim_start().starts_with('.'))
        }
    };
    known && !file.contains(['|', ':']) && !statements.is_empty() && statements.iter().all(is_plain)
}

/// Whether a `less` only shows files.
pub(super) fn is_plain_less(texts: &[&str]) -> bool {
    !texts.is_empty()
        && texts.iter().all(|text| {
            !text.starts_with('+')
                && (!text.starts_with('-')
                    || text.len() > 1 && text.chars().skip(1).all(|char| "NSRFX".contains(char)))
        })
}

/// The branch that a `git rebase` checks out and moves.
pub(super) fn rebased_branch<'a>(texts: &[&'a str]) -> Option<&'a str> {
    let with_value = ["--onto", "-s", "--strategy", "-X", "--strategy-option", "-x", "--exec"];
    let mut operands = Vec::new();
    let mut at = 0;
    while let Some(text) = texts.get(at) {
        if !text.starts_with('-') {
            operands.push(*text);
        }
        at += if with_value.contains(text) { 2 } else { 1 };
    }
    // With `--root` there is no other revision in front of it.
    let place = usize::from(!texts.contains(&"--root"));
    operands.get(place).copied()
}
