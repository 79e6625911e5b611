//! Finds commands whose words alone do not show what they do.

use super::inner::base_name;
use super::word::Word;

/// Builtins that change the meaning of later words, or run their arguments.
const CHANGING: &[&str] = &[
    "source",
    ".",
    "alias",
    "unalias",
    "exec",
    "enable",
    "hash",
    "shopt",
    "set",
    "unset",
    "export",
    "declare",
    "typeset",
    "local",
    "readonly",
    "let",
    "read",
    "mapfile",
    "readarray",
    "getopts",
    "bind",
    "complete",
    "compgen",
    "pushd",
    "popd",
    "fc",
    "history",
    "coproc",
    "function",
    "wait",
    "unsetenv",
    "setenv",
    "caller",
    "compopt",
];

/// Programs that run commands elsewhere or later.
const REMOTE: &[&str] = &[
    "ssh", "mosh", "rsh", "gdb", "lldb", "at", "batch", "crontab", "expect", "tmux", "screen",
    "m4", "vi", "vim", "nvim", "ed", "ex", "emacs", "nano", "less", "more", "man",
];

/// Long options that run a program or write a file, by command; shortened spellings count too.
const LONG_OPTIONS: &[(&str, &[&str])] = &[
    (
        "git",
        &[
            "--exec-path",
            "--config-env",
            "--git-dir",
            "--work-tree",
            "--upload-pack",
            "--receive-pack",
            "--exec",
            "--ext-diff",
            "--output",
            "--open-files-in-pager",
            "--template",
            "--extcmd",
            "--textconv",
            "--namespace",
            "--super-prefix",
        ],
    ),
    ("rg", &["--pre", "--hostname-bin", "--search-zip"]),
    ("sort", &["--compress-program", "--output", "--files0-from", "--temporary-directory"]),
    ("tree", &["--output"]),
    ("cargo", &["--config"]),
    ("make", &["--eval", "--file", "--makefile", "--directory"]),
    ("just", &["--shell", "--command", "--justfile", "--set"]),
    ("tar", &["--to-command", "--checkpoint-action", "--use-compress-program", "--rsh-command"]),
    ("rsync", &["--rsh", "--rsync-path"]),
    ("npm", &["--script-shell", "--prefix", "--node-options"]),
    ("diff", &["--output"]),
    ("date", &["--set"]),
    ("uniq", &["--output"]),
    ("file", &["--compile"]),
];

/// Short options of the same kind; their letters count in clusters too.
const SHORT_OPTIONS: &[(&str, &str)] = &[
    ("git", "c"),
    ("rg", "z"),
    ("sort", "oT"),
    ("tree", "o"),
    ("tar", "IF"),
    ("rsync", "e"),
    ("date", "s"),
    ("file", "C"),
    ("make", "f"),
];

/// Why this command may do more than its words show.
pub(super) fn findings(words: &[Word]) -> Vec<String> {
    let mut found = Vec::new();
    let Some((first, rest)) = words.split_first() else { return found };
    let name = base_name(first);
    let texts: Vec<&str> = rest.iter().map(|word| word.text.as_str()).collect();
    if CHANGING.contains(&name.as_str()) {
        found.push(format!("`{name}`"));
    }
    if REMOTE.contains(&name.as_str()) {
        found.push(format!("`{name}` runs other commands"));
    }
    if is_interpreter(&name, &texts) {
        found.push(format!("`{name}` runs code that is not a command"));
    }
    // Names in arithmetic and array positions are expanded by these builtins themselves.
    if matches!(name.as_str(), "test" | "[" | "printf")
        && texts.iter().any(|text| *text == "-v" || text.contains("$(") || text.contains('`'))
    {
        found.push(format!("`{name}` evaluates a variable's name"));
    }
    match name.as_str() {
        "cd" if texts.is_empty() || texts.iter().any(|text| text.starts_with('-')) => {
            found.push("`cd` to a folder that is not known".to_owned());
        }
        "awk" | "gawk" | "mawk" | "nawk" if !is_plain_awk(&texts) => {
            found.push(format!("`{name}` runs a program"));
        }
        "sed" | "gsed" if !is_plain_sed(&texts) => found.push(format!("`{name}` runs a program")),
        "git" if git_runs_others(&texts) => found.push("`git` runs other commands".to_owned()),
        "uniq" if texts.iter().filter(|text| !text.starts_with('-')).count() > 1 => {
            found.push("`uniq` writes a file".to_owned());
        }
        "go" if texts.iter().any(|text| text.contains("exec")) => {
            found.push("`go` runs other commands".to_owned());
        }
        "make" if texts.iter().any(|text| text.contains('=') && !text.starts_with('-')) => {
            found.push("`make` with a variable".to_owned());
        }
        _ => {}
    }
    found.extend(telling_options(&name, &texts));
    found
}

fn telling_options(name: &str, texts: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let long = LONG_OPTIONS.iter().find(|(command, _)| *command == name);
    let short = SHORT_OPTIONS.iter().find(|(command, _)| *command == name);
    for text in texts.iter().take_while(|text| **text != "--") {
        let option = text.split('=').next().unwrap_or_default();
        let spelled = |known: &&&str| option.len() >= 4 && known.starts_with(option);
        if let Some(known) = long.and_then(|(_, options)| options.iter().find(spelled)) {
            found.push(format!("`{name} {known}`"));
        }
        // Git's own options come before its subcommand; after it the letters mean other things.
        if name == "git" && !text.starts_with('-') {
            break;
        }
        let cluster = text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        let letter = |(_, letters): &(&str, &str)| {
            cluster.and_then(|rest| rest.chars().find(|char| letters.contains(*char)))
        };
        if let Some(letter) = short.and_then(letter) {
            found.push(format!("`{name} -{letter}`"));
        }
    }
    if name == "git" {
        let behind = texts.iter().skip_while(|text| text.starts_with('-'));
        for text in behind {
            let option = text.split('=').next().unwrap_or_default();
            let spelled = |known: &&&str| option.len() >= 4 && known.starts_with(option);
            if let Some(known) = long.and_then(|(_, options)| options.iter().find(spelled)) {
                found.push(format!("`git {known}`"));
            }
        }
    }
    found
}

/// Whether an interpreter gets its code from its arguments or its input.
fn is_interpreter(name: &str, texts: &[&str]) -> bool {
    let stem = name.trim_end_matches(|char: char| char.is_ascii_digit() || char == '.');
    let letters = match stem {
        "python" | "pypy" | "ipython" => "c",
        "perl" => "eE",
        "ruby" | "lua" | "luajit" | "osascript" | "rscript" | "julia" | "elixir" | "groovy" => "e",
        "node" | "nodejs" | "bun" | "deno" | "tsx" | "ts-node" => "epr",
        "php" => "rRBEF",
        "tclsh" | "guile" | "racket" | "ghci" | "irb" | "sqlite" | "psql" | "mysql" => "ce",
        _ => return false,
    };
    let cluster = |text: &&&str| text.starts_with('-') && !text.starts_with("--");
    let inline = texts.iter().filter(cluster).any(|text| text.contains(|c| letters.contains(c)));
    let long = texts.iter().any(|text| {
        ["--eval", "--print", "--require", "--import", "--run"]
            .iter()
            .any(|known| text.starts_with(known))
    });
    let version = texts.iter().any(|text| matches!(*text, "--version" | "-V" | "-v" | "--help"));
    let has_file = texts.iter().any(|text| !text.starts_with('-')) || texts.contains(&"-m");
    // `python -m module` is left to the rules; the letters of its options come after the module.
    let module = stem == "python" && texts.first() == Some(&"-m");
    !module && (inline || long || texts.contains(&"eval") || !has_file && !version)
}

fn is_plain_awk(texts: &[&str]) -> bool {
    let mut texts = texts.iter();
    let mut program = None;
    while let Some(text) = texts.next() {
        match *text {
            "-F" => {
                texts.next();
            }
            option if option.starts_with("-F") => {}
            option if option.starts_with('-') && option.len() > 1 => return false,
            other => {
                program = Some(other);
                break;
            }
        }
    }
    program.is_none_or(|program| {
        !["system", "getline", "|", ">", "@", "close", "ARGV", "ENVIRON"]
            .iter()
            .any(|word| program.contains(word))
    })
}

/// Whether a `sed` only prints, deletes and substitutes.
fn is_plain_sed(texts: &[&str]) -> bool {
    let mut scripts = Vec::new();
    let mut explicit = false;
    let mut first = None;
    let mut texts = texts.iter();
    while let Some(text) = texts.next() {
        match *text {
            "-e" | "--expression" => {
                explicit = true;
                scripts.extend(texts.next().copied());
            }
            "-n" | "-E" | "-r" | "-nE" | "-nr" | "-En" | "-s" | "-u" | "-z" | "-i" | "--quiet"
            | "--silent" | "--regexp-extended" | "--in-place" | "--version" => {}
            option
                if option.starts_with("-i")
                    && option.len() > 2
                    && !option.contains(['e', 'f', 'n', '/']) => {}
            option if option.starts_with('-') && option.len() > 1 => return false,
            other => {
                first = first.or(Some(other));
            }
        }
    }
    if !explicit {
        scripts.extend(first);
    }
    scripts.iter().all(|script| script.split(';').all(|part| is_plain_sed_command(part.trim())))
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

fn git_runs_others(texts: &[&str]) -> bool {
    let mut words = texts.iter().skip_while(|text| text.starts_with('-') || text.is_empty());
    let command = words.next().copied().unwrap_or_default();
    let rest: Vec<&str> = words.copied().collect();
    let reads = |text: &&str| {
        matches!(*text, "--get" | "--get-all" | "--list" | "-l" | "--get-regexp" | "get" | "list")
    };
    match command {
        "config" => !rest.iter().any(reads),
        "bisect" => rest.first() == Some(&"run"),
        "submodule" => rest.first() == Some(&"foreach"),
        "filter-branch" | "difftool" | "mergetool" | "send-email" | "daemon" | "alias" | "hook" => {
            true
        }
        "grep" => rest.iter().any(|text| text.starts_with("-O")),
        "rebase" => rest.iter().any(|text| text.starts_with("-x")),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suspect(line: &str) -> bool {
        let words: Vec<Word> = line.split('\u{1}').map(Word::literal).collect();
        !findings(&words).is_empty()
    }

    #[test]
    fn code_in_words_is_noticed() {
        for line in [
            "python\u{1}-c\u{1}x",
            "python3.12\u{1}-Ic\u{1}x",
            "perl\u{1}-ne\u{1}x",
            "node\u{1}--eval=x",
            "python3",
            "awk\u{1}BEGIN{system(\"x\")}",
            "sed\u{1}1e id",
            "sed\u{1}s/a/b/e\u{1}f",
            "sed\u{1}w f\u{1}f",
            "git\u{1}-c\u{1}a=b\u{1}status",
            "git\u{1}config\u{1}alias.x\u{1}!id",
            "git\u{1}fetch\u{1}--upload-pac=x",
            "git\u{1}diff\u{1}--outp=x",
            "sort\u{1}-uoout\u{1}in",
            "rg\u{1}--pre\u{1}x\u{1}y",
            "test\u{1}-v\u{1}a[$(id)]",
            "printf\u{1}-v\u{1}PATH\u{1}x",
            "source\u{1}x",
            "cd",
            "uniq\u{1}a\u{1}b",
            "make\u{1}SHELL=x",
        ] {
            assert!(suspect(line), "{line}");
        }
    }

    #[test]
    fn plain_commands_are_not_suspect() {
        for line in [
            "sed\u{1}-n\u{1}1,20p\u{1}f",
            "sed\u{1}-i\u{1}s/a/b/g\u{1}f",
            "awk\u{1}{print $1}\u{1}f",
            "python\u{1}-m\u{1}pytest\u{1}-c\u{1}x",
            "python\u{1}run.py",
            "node\u{1}--version",
            "git\u{1}commit\u{1}-c\u{1}HEAD",
            "git\u{1}log\u{1}-p",
            "sort\u{1}-u\u{1}f",
            "cd\u{1}src",
            "git\u{1}config\u{1}--get\u{1}user.name",
            "test\u{1}-f\u{1}a",
        ] {
            let words: Vec<Word> = line.split('\u{1}').map(Word::literal).collect();
            assert_eq!(findings(&words), Vec::<String>::new(), "{line}");
        }
    }
}
