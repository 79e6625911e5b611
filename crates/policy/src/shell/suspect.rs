//! Finds commands whose words alone do not show what they do.

use super::inner::base_name;
use super::options;
use super::programs::{
    gives_identity, is_plain_awk, is_plain_less, is_plain_set, is_plain_sqlite, jq_reads_elsewhere,
    plain_sed_scripts, rebased_branch,
};
use super::variables::{assigned_name, could_run, may_set};
use super::word::Word;

/// Builtins that change the meaning of later words, or run their arguments.
const CHANGING: &[&str] = &[
    "alias",
    "unalias",
    "exec",
    "enable",
    "hash",
    "shopt",
    "set",
    "unset",
    "declare",
    "typeset",
    "local",
    "readonly",
    "let",
    "mapfile",
    "readarray",
    "getopts",
    "bind",
    "complete",
    "compgen",
    "fc",
    "history",
    "coproc",
    "function",
    "unsetenv",
    "setenv",
    "caller",
    "compopt",
];

/// Programs that run commands elsewhere or later.
const REMOTE: &[&str] = &[
    "ssh",
    "mosh",
    "rsh",
    "gdb",
    "lldb",
    "at",
    "batch",
    "crontab",
    "expect",
    "tmux",
    "screen",
    "daemonize",
    "m4",
    "vi",
    "vim",
    "nvim",
    "ed",
    "ex",
    "emacs",
    "nano",
    "less",
    "more",
    "man",
];

/// Programs that take more options from a file whose name stands behind `@`.
const READS_RESPONSES: &[&str] = &[
    "gcc", "g++", "cc", "c++", "clang", "clang++", "cl", "ld", "ar", "nm", "objdump", "readelf",
    "size", "strip", "strings", "javac", "java", "javadoc", "jar", "kotlinc", "rustc", "swiftc",
    "protoc", "dotnet", "csc", "zig", "pytest", "mypy", "ruff", "pylint", "flake8", "coverage",
    "gradle",
];

fn is_response_file(text: &&str) -> bool {
    text.starts_with('@') && text.len() > 1 || text.contains(",@")
}

/// Why this command may do more than its words show.
pub(super) fn findings(words: &[Word]) -> Vec<String> {
    let mut found = Vec::new();
    let Some((first, rest)) = words.split_first() else { return found };
    let name = base_name(first);
    let texts: Vec<&str> = rest.iter().map(|word| word.text.as_str()).collect();
    if CHANGING.contains(&name.as_str()) && !(name == "set" && is_plain_set(&texts)) {
        found.push(format!("`{name}`"));
    }
    if REMOTE.contains(&name.as_str()) && !(name == "less" && is_plain_less(&texts)) {
        found.push(format!("`{name}` runs other commands"));
    }
    if is_interpreter(&name, &texts) {
        found.push(format!("`{name}` runs code that is not a command"));
    }
    if sets_unknown(&name, &texts) {
        found.push(format!("`{name}` sets or shows variables"));
    }
    if evaluates(&name, &texts) {
        found.push(format!("`{name}` evaluates a variable's name"));
    }
    let positional = |text: &&str| !text.starts_with('-') || *text == "-";
    let finding = match name.as_str() {
        "cd" if texts.is_empty() || texts.iter().any(|text| text.starts_with('-')) => {
            "`cd` to a folder that is not known"
        }
        "source" | "." if texts.len() != 1 || rest.iter().any(|word| word.dynamic) => {
            "a script with arguments runs in this shell"
        }
        "awk" | "gawk" | "mawk" | "nawk" if !is_plain_awk(&texts) => "`awk` runs a program",
        "sed" | "gsed" if plain_sed_scripts(&texts).is_none() => "`sed` runs a program",
        "cmake"
            if texts.first() == Some(&"-E")
                && !matches!(texts.get(1), Some(&("echo" | "make_directory" | "touch"))) =>
        {
            "`cmake -E` runs, reads or removes what the line does not show"
        }
        "jq" | "yq" if jq_reads_elsewhere(&texts) => "it reads the environment or other files",
        "chmod" | "mkdir" | "install" if gives_identity(&name, &texts) => {
            "a program of the file would run with the rights of its user or group"
        }
        "tar" if texts.iter().any(|text| text.contains(':')) => "`tar` may reach another machine",
        "ps" if texts.iter().any(|text| positional(text) && text.contains('e')) => {
            "`ps` shows the environment"
        }
        "git" if git_runs_others(&texts) => "`git` runs other commands or moves another branch",
        "uniq" if texts.iter().filter(|text| positional(text)).count() > 1 => {
            "`uniq` writes a file"
        }
        "xxd" if xxd_writes(&texts) => "`xxd` writes a file",
        "go" if texts.iter().any(|text| text.contains("exec") || text.contains("vettool")) => {
            "`go` runs other commands"
        }
        compiler if READS_RESPONSES.contains(&compiler) && texts.iter().any(is_response_file) => {
            "options from a file"
        }
        "sqlite3" if !is_plain_sqlite(&texts) => "`sqlite3` may run a program or use other files",
        "openssl"
            if texts.iter().any(|text| {
                matches!(text.trim_start_matches('-'), "engine" | "provider" | "config")
                    && text.starts_with('-')
            }) =>
        {
            "`openssl` loads a program"
        }
        "make" | "gmake" if !make_variables_are_plain(&texts) => "`make` with a variable",
        _ => "",
    };
    if !finding.is_empty() {
        found.push(finding.to_owned());
    }
    found.extend(options::telling(&name, &texts));
    found
}

/// Whether a builtin sets a variable that it may not, or shows all of them.
fn sets_unknown(name: &str, texts: &[&str]) -> bool {
    match name {
        "export" => {
            texts.is_empty()
                || !texts.iter().all(|text| {
                    assigned_name(text)
                        .is_some_and(|(name, value)| may_set(name) && !could_run(value))
                })
        }
        "read" => {
            let plain = |text: &&str| matches!(*text, "-r" | "-d" | "" | "-s" | "-rs");
            let names: Vec<&&str> = texts.iter().filter(|text| !plain(text)).collect();
            names.is_empty()
                || !names.iter().all(|name| {
                    may_set(name)
                        && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
                })
        }
        "wait" => texts.iter().any(|text| text.starts_with("-p") || text.contains('p')),
        _ => false,
    }
}

/// Whether a builtin evaluates text as the name of a variable, which can hold a command.
fn evaluates(name: &str, texts: &[&str]) -> bool {
    if name == "printf" {
        return texts.first().is_some_and(|text| text.starts_with("-v")) || texts.contains(&"-v");
    }
    let arithmetic = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
    let is_number = |text: &str| {
        text.chars().all(|char| char.is_ascii_digit() || matches!(char, '-' | super::word::NUMBER))
    };
    let operands = texts.windows(3).any(|three| {
        matches!(three, [left, operator, right]
            if arithmetic.contains(operator) && !(is_number(left) && is_number(right)))
    });
    matches!(name, "test" | "[" | "[[")
        && (texts.iter().any(|text| matches!(*text, "-v" | "-R") || could_run(text))
            || name == "[[" && operands)
}

/// Whether `xxd` gets a second file. Behind the first one it knows no options.
fn xxd_writes(texts: &[&str]) -> bool {
    let with_value = ["-c", "-cols", "-g", "-l", "-len", "-n", "-name", "-o", "-s", "-seek"];
    let mut at = 0;
    while let Some(text) = texts.get(at).filter(|text| text.starts_with('-') && **text != "-") {
        at += if with_value.contains(text) { 2 } else { 1 };
    }
    texts.len().saturating_sub(at) > 1
}

/// Whether the variables given to `make` are neither its own nor expanded by it.
fn make_variables_are_plain(texts: &[&str]) -> bool {
    texts.iter().filter(|text| !text.starts_with('-') && text.contains('=')).all(|text| {
        let name = text.split('=').next().unwrap_or_default();
        let name = name.trim_end_matches([':', '+', '?', '!']);
        may_set(name) && name != "MAKE" && !text.contains('$')
    })
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
        "tclsh" | "guile" | "racket" | "ghci" | "irb" | "psql" | "mysql" => "ce",
        _ => return false,
    };
    let cluster = |text: &&&str| text.starts_with('-') && !text.starts_with("--");
    let inline = texts.iter().filter(cluster).any(|text| text.contains(|c| letters.contains(c)));
    let long = texts.iter().any(|text| {
        ["--eval", "--print", "--require", "--import", "--run"]
            .iter()
            .any(|known| text.starts_with(known))
    });
    let version =
        texts.iter().any(|text| matches!(*text, "--version" | "-V" | "-v" | "--help" | "--test"));
    let has_file = texts.iter().any(|text| !text.starts_with('-')) || texts.contains(&"-m");
    // `python -m module` is left to the rules; the letters of its options come after the module.
    let module = stem == "python" && texts.first() == Some(&"-m");
    !module && (inline || long || texts.contains(&"eval") || !has_file && !version)
}

fn git_runs_others(texts: &[&str]) -> bool {
    let (at, _) = options::git_subcommand(texts.iter().copied());
    let command = texts.get(at).copied().unwrap_or_default();
    let rest: Vec<&str> = texts.iter().skip(at + 1).copied().collect();
    let reads = |text: &&str| {
        matches!(*text, "--get" | "--get-all" | "--list" | "-l" | "--get-regexp" | "get" | "list")
    };
    match command {
        "config" => {
            // Behind a name the same words would be values.
            !rest.first().is_some_and(reads)
                && !matches!(rest.as_slice(), [name] if name.contains('.'))
        }
        "bisect" => rest.first() == Some(&"run"),
        "submodule" => rest.first() == Some(&"foreach"),
        "filter-branch" | "difftool" | "mergetool" | "send-email" | "daemon" | "alias" | "hook" => {
            true
        }
        "grep" => rest.iter().any(|text| has_letter(text, 'O')),
        "rebase" => {
            rest.iter().any(|text| has_letter(text, 'x')) || rebased_branch(&rest).is_some()
        }
        _ => false,
    }
}

/// Whether a cluster of short options contains a letter.
fn has_letter(text: &str, letter: char) -> bool {
    text.starts_with('-') && !text.starts_with("--") && text.contains(letter)
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
            "source\u{1}x\u{1}y",
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
