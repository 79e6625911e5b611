//! Variables of a shell line: which may be set and shown, and what their values can be.

use std::collections::BTreeMap;

use super::word::{UNKNOWN, Word};

/// Variables that change what a command of another name does; a `*` at an end stands for any text.
const CHANGING: &[&str] = &[
    "PATH",
    "HOME",
    "PWD",
    "OLDPWD",
    "ENV",
    "IFS",
    "CDPATH",
    "SHELL",
    "SHELLOPTS",
    "BASH*",
    "PS0",
    "PS4",
    "PROMPT_COMMAND",
    "GLOBIGNORE",
    "EXECIGNORE",
    "FIGNORE",
    "POSIXLY_CORRECT",
    "HIST*",
    "INPUTRC",
    "ZDOTDIR",
    "FPATH",
    "LD_*",
    "DYLD_*",
    "GCONV_PATH",
    "LOCPATH",
    "NLSPATH",
    "GIT_*",
    // They switch hooks off.
    "HUSKY*",
    "LEFTHOOK*",
    "SKIP",
    "SKIP_*",
    "PRE_COMMIT*",
    "OVERCOMMIT*",
    "SSH_*",
    "GPG_*",
    "GNUPGHOME",
    "EDITOR",
    "VISUAL",
    "BROWSER",
    "*PAGER",
    "LESS*",
    "MAN*",
    "RIPGREP_CONFIG_PATH",
    "XDG_*",
    "TAR_OPTIONS",
    "SIMPLE_BACKUP_SUFFIX",
    "VERSION_CONTROL",
    "ZIPOPT",
    "UNZIP",
    "GZIP",
    "BZIP*",
    "XZ_OPT",
    "XZ_DEFAULTS",
    "ZSTD_*",
    "MAKEFLAGS",
    "MAKEFILES",
    "GNUMAKEFLAGS",
    "MFLAGS",
    ".SHELLFLAGS",
    "AWKPATH",
    "AWKLIBPATH",
    "*_proxy",
    "*_PROXY",
    "DOCKER_*",
    "KUBECONFIG",
    "AWS_*",
    "WINDLASS_*",
    "SUDO_*",
    "_",
    "REPLY",
    "UID",
    "EUID",
    "OPTIND",
    "OPTARG",
    "DIRSTACK",
    "TERMINFO*",
];

/// Variables of the environment that hold no secret.
const HARMLESS: &[&str] = &[
    "PWD",
    "OLDPWD",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TERM",
    "HOSTNAME",
    "PATH",
    "TMPDIR",
    "BASH_VERSION",
    "OSTYPE",
    "MACHTYPE",
    "HOSTTYPE",
    "CI",
    "VIRTUAL_ENV",
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "RUSTUP_HOME",
    "RUST_LOG",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "NODE_ENV",
    "EDITOR",
    "REPLY",
    "PIPESTATUS",
];

/// Variables that are always numbers.
const NUMBERS: &[&str] = &[
    "RANDOM",
    "SRANDOM",
    "SECONDS",
    "LINENO",
    "UID",
    "EUID",
    "PPID",
    "SHLVL",
    "EPOCHSECONDS",
    "BASHPID",
];

/// Commands that print one number.
const PRINT_NUMBER: &[&str] =
    &["nproc", "id -u", "id -g", "date +%s", "getconf _NPROCESSORS_ONLN", "sysctl -n hw.ncpu"];

/// Parts of names of variables that hold secrets.
const SECRET_PARTS: &[&str] =
    &["KEY", "TOKEN", "SECRET", "PASS", "CRED", "AUTH", "PRIVATE", "COOKIE", "SESSION", "_PW"];

/// Commands that use their arguments as text only.
const TEXT_ONLY: &[&str] = &[
    "echo", "true", "false", ":", "exit", "return", "break", "continue", "basename", "dirname",
    "seq", "sleep",
];

/// The most combinations of values that one command is judged with.
const COMBINATIONS_MAX: usize = 64;

/// Whether a pattern of the tables above matches a name.
fn fits(pattern: &str, name: &str) -> bool {
    match (pattern.strip_suffix('*'), pattern.strip_prefix('*')) {
        (Some(start), _) => name.starts_with(start),
        (None, Some(end)) => name.ends_with(end),
        (None, None) => name == pattern,
    }
}

/// Whether a line may set this variable without a person.
pub(super) fn may_set(name: &str) -> bool {
    !CHANGING.iter().any(|pattern| fits(pattern, name))
}

/// Whether this is a variable that holds a folder: the home or the working one.
pub(super) fn is_place(name: &str) -> bool {
    matches!(name, "HOME" | "PWD")
}

/// Whether this variable is always a number.
pub(super) fn is_number(name: &str) -> bool {
    NUMBERS.contains(&name)
}

/// Whether a line prints one number and nothing else.
pub(super) fn prints_number(line: &str) -> bool {
    PRINT_NUMBER.contains(&line)
}

/// Whether `((…))` contains numbers and operators only: names in it would be evaluated again.
pub(super) fn is_plain_arithmetic(inner: &str) -> bool {
    // Without two brackets at its end it is a command substitution with a subshell.
    inner.ends_with(')')
        && inner.chars().all(|char| char.is_ascii_digit() || " \t+-*/%()<>=!&|^~?:".contains(char))
}

/// Whether text would run a command if it were evaluated once more.
pub(super) fn could_run(text: &str) -> bool {
    text.contains("$(") || text.contains('`') || text.contains("${")
}

/// The name that a word such as `NAME=value` or `NAME+=value` sets.
pub(super) fn assigned_name(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    let mut chars = name.chars();
    let plain = chars.next().is_some_and(|char| char.is_ascii_alphabetic() || char == '_')
        && chars.all(|char| char.is_ascii_alphanumeric() || char == '_');
    plain.then_some((name, value))
}

/// Whether an unknown text as an argument of this command changes nothing about what it does.
pub(super) fn is_text_only(words: &[Word]) -> bool {
    let Some((name, rest)) = words.split_first() else { return false };
    if name.dynamic {
        return false;
    }
    match name.text.as_str() {
        "printf" => {
            rest.first().is_some_and(|format| !format.dynamic && !format.text.starts_with('-'))
        }
        "[" | "test" | "[[" => is_plain_test(rest),
        "git" => is_message(rest),
        other => TEXT_ONLY.contains(&other),
    }
}

/// Whether each unknown word of a git command is the message of a commit.
fn is_message(words: &[Word]) -> bool {
    let before = |at: usize| at.checked_sub(1).and_then(|at| words.get(at));
    let is_text = |(at, word): (usize, &Word)| {
        word.expansions.iter().all(|expansion| expansion.quoted)
            && before(at).is_some_and(|word| {
                !word.dynamic && matches!(word.text.as_str(), "-m" | "-am" | "--message")
            })
    };
    words.first().is_some_and(|command| command.text == "commit" && !command.dynamic)
        && words.iter().enumerate().filter(|(_, word)| word.dynamic).all(is_text)
}

/// Whether each unknown word of a test is an operand of a known operator that evaluates nothing.
fn is_plain_test(words: &[Word]) -> bool {
    let unary = |word: &Word| {
        matches!(
            word.text.as_str(),
            "-z" | "-n" | "-f" | "-d" | "-e" | "-s" | "-r" | "-w" | "-x" | "-h" | "-L"
        )
    };
    let binary = |word: &Word| matches!(word.text.as_str(), "=" | "==" | "!=" | "=~");
    let known = |at: Option<usize>, operator: &dyn Fn(&Word) -> bool| {
        at.and_then(|at| words.get(at)).is_some_and(|word| !word.dynamic && operator(word))
    };
    words.iter().enumerate().filter(|(_, word)| word.dynamic).all(|(at, _)| {
        known(at.checked_sub(1), &unary)
            || known(at.checked_sub(1), &binary)
            || known(at.checked_add(1), &binary)
    })
}

/// What the variables of a line can be; `None` is a value that is not known.
#[derive(Debug, Default)]
pub(super) struct Variables {
    values: BTreeMap<String, Vec<Option<Word>>>,
}

impl Variables {
    /// Adds a value that a variable may get.
    pub fn set(&mut self, name: &str, value: Option<Word>) {
        let value = value.filter(|word| !word.dynamic);
        self.values.entry(name.to_owned()).or_default().push(value);
    }

    /// Whether a variable can be shown: the line sets it, or it is known to hold no secret.
    pub fn may_show(&self, name: &str) -> bool {
        let upper = name.to_ascii_uppercase();
        HARMLESS.contains(&name)
            || self.values.contains_key(name)
                && !SECRET_PARTS.iter().any(|part| upper.contains(part))
    }

    /// The commands that these words can become; `None` if a value is not known.
    pub fn resolve(&self, words: &[Word]) -> Option<Vec<Vec<Word>>> {
        let mut names: Vec<(&str, bool)> = Vec::new();
        for expansion in words.iter().flat_map(|word| &word.expansions) {
            let name = expansion.name.as_deref()?;
            match names.iter_mut().find(|(known, _)| *known == name) {
                Some((_, is_set)) => *is_set &= expansion.is_set,
                None => names.push((name, expansion.is_set)),
            }
        }
        let empty = Word::literal("");
        let mut combinations: Vec<BTreeMap<&str, &Word>> = vec![BTreeMap::new()];
        for (name, is_set) in names {
            let mut values: Vec<&Word> = Vec::new();
            for value in self.values.get(name)? {
                values.push(value.as_ref()?);
            }
            if !is_set {
                values.push(&empty);
            }
            if combinations.len().saturating_mul(values.len()) > COMBINATIONS_MAX {
                return None;
            }
            combinations = combinations
                .iter()
                .flat_map(|known| {
                    values.iter().map(|value| {
                        let mut longer = known.clone();
                        longer.insert(name, value);
                        longer
                    })
                })
                .collect();
        }
        combinations.iter().map(|values| substitute(words, values)).collect()
    }
}

/// The words with values in place of their expansions.
fn substitute(words: &[Word], values: &BTreeMap<&str, &Word>) -> Option<Vec<Word>> {
    let mut result = Vec::with_capacity(words.len());
    for word in words {
        if !word.dynamic {
            result.push(word.clone());
            continue;
        }
        let mut expansions = word.expansions.iter();
        let mut new = Word { quoted: true, pattern: word.pattern, ..Word::default() };
        let mut splits = None;
        for char in word.text.chars() {
            if char != UNKNOWN {
                new.text.push(char);
                continue;
            }
            let expansion = expansions.next()?;
            let value = values.get(expansion.name.as_deref()?)?;
            new.pattern |=
                value.pattern || !expansion.quoted && value.text.contains(['*', '?', '[']);
            if !expansion.quoted
                && (value.text.is_empty() || value.text.contains(char::is_whitespace))
            {
                splits = Some(value.text.as_str());
            }
            new.text.push_str(&value.text);
        }
        match splits {
            // Without quotes the value becomes as many words as it has.
            Some(value) if word.expansions.len() == 1 && word.text.chars().count() == 1 => {
                result.extend(
                    value
                        .split_whitespace()
                        .map(|part| Word { text: part.to_owned(), ..new.clone() }),
                );
            }
            Some("") | None => result.push(new),
            Some(_) => return None,
        }
    }
    Some(result)
}
