//! Small languages in a command's words: awk, sed and jq.

use super::word::Word;

/// Whether an `awk` only computes and prints.
pub(super) fn is_plain_awk(texts: &[&str]) -> bool {
    let mut texts = texts.iter();
    let mut program = None;
    while let Some(text) = texts.next() {
        match *text {
            "-F" | "-v" => {
                texts.next();
            }
            "--version" => return true,
            option if option.starts_with("-F") || option.starts_with("-v") => {}
            option if option.starts_with('-') && option.len() > 1 => return false,
            other => {
                program = Some(other);
                break;
            }
        }
    }
    program.is_none_or(is_plain_awk_program)
}

/// Names in an awk program that run commands, or read and write files and variables of the environment.
const AWK_WORDS: &[&str] = &[
    "system", "getline", "close", "fflush", "ARGV", "ARGC", "ENVIRON", "PROCINFO", "SYMTAB",
    "FUNCTAB",
];

fn is_plain_awk_program(program: &str) -> bool {
    let code = awk_code(program).replace("||", " ");
    if code.contains(['|', '@', '\\']) || AWK_WORDS.iter().any(|word| code.contains(word)) {
        return false;
    }
    // A `>` behind `print` opens a file, elsewhere it compares.
    code.split(['{', '}', ';', '\n']).all(|statement| {
        statement.split_once("print").is_none_or(|(_, behind)| !behind.contains('>'))
    })
}

/// The program without the content of its strings and regular expressions.
fn awk_code(program: &str) -> String {
    let mut code = String::new();
    let mut chars = program.chars();
    while let Some(char) = chars.next() {
        let last = code.trim_end().chars().last();
        let opens_pattern = char == '/' && last.is_none_or(|last| "(,{};!~&|\n".contains(last));
        code.push(char);
        if char != '"' && !opens_pattern {
            continue;
        }
        let mut escaped = false;
        for inner in chars.by_ref() {
            if inner == char && !escaped {
                break;
            }
            escaped = inner == '\\' && !escaped;
        }
        code.push(char);
    }
    code
}

/// Whether a `jq` reads the environment.
pub(super) fn jq_reads_environment(texts: &[&str]) -> bool {
    texts.iter().any(|text| {
        text.contains("$ENV")
            || text.contains("import")
            || text.contains("include")
            || has_env(text)
    })
}

/// Whether `env` stands in a jq program as a name of its own.
fn has_env(text: &str) -> bool {
    let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
    text.match_indices("env").any(|(at, found)| {
        let before = text.get(..at).and_then(|text| text.chars().last());
        let behind = text.get(at + found.len()..).and_then(|text| text.chars().next());
        before.is_none_or(|char| !is_name(char) && !matches!(char, '.' | '"' | '$' | '-' | '/'))
            && behind.is_none_or(|char| !is_name(char) && char != '"')
    })
}

/// Marks the script of a plain `sed`, which is not the name of a file.
pub(super) fn mark_scripts(words: &mut [Word]) {
    let Some((name, rest)) = words.split_first_mut() else { return };
    if !matches!(name.text.as_str(), "sed" | "gsed") {
        return;
    }
    let texts: Vec<&str> = rest.iter().map(|word| word.text.as_str()).collect();
    for at in plain_sed_scripts(&texts).unwrap_or_default() {
        if let Some(script) = rest.get_mut(at).filter(|word| !word.dynamic && !word.is_pattern()) {
            script.inert = true;
        }
    }
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
