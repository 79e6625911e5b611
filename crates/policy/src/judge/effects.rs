//! What commands do to files beyond the words that name them: tables, and the facts they lead to.

use super::fed;
use super::git::{self, git};
use crate::shell::{Access, Word, chosen, options, starts_others};
use crate::{Workspace, is_build_output};

/// Commands that only read the files they name.
const READERS: &[&str] = &[
    "cat",
    "head",
    "tail",
    "wc",
    "grep",
    "egrep",
    "fgrep",
    "zgrep",
    "rg",
    "ag",
    "ls",
    "tree",
    "file",
    "stat",
    "diff",
    "cmp",
    "comm",
    "sort",
    "uniq",
    "cut",
    "tr",
    "nl",
    "tac",
    "paste",
    "fold",
    "join",
    "column",
    "basename",
    "dirname",
    "realpath",
    "readlink",
    "pwd",
    "echo",
    "printf",
    "seq",
    "jq",
    "true",
    "false",
    "test",
    "[",
    "[[",
    "date",
    "which",
    "type",
    "du",
    "df",
    "sha256sum",
    "sha1sum",
    "md5sum",
    "cksum",
    "hexdump",
    "od",
    "strings",
    "cd",
    "awk",
    "nm",
    "objdump",
    "readelf",
    "ldd",
    "size",
    "base64",
    "shellcheck",
    "zcat",
    "shuf",
    "rev",
    "less",
    "iconv",
    "yes",
    "yq",
];
/// Subcommands of git that only read.
const GIT_READERS: &[&str] = &[
    "status",
    "diff",
    "log",
    "show",
    "rev-parse",
    "ls-files",
    "ls-tree",
    "blame",
    "shortlog",
    "describe",
    "cat-file",
    "grep",
    "merge-base",
    "name-rev",
    "rev-list",
    "diff-tree",
    "show-ref",
    "for-each-ref",
    "check-ignore",
    "add",
    "commit",
];
/// Commands that read whole folders: their name, and the options that make them; none if they always do.
const RECURSIVE: &[(&str, &str, &[&str])] = &[
    ("grep", "rRd", &["--recursive", "--dereference-recursive", "--directories"]),
    ("egrep", "rRd", &["--recursive", "--dereference-recursive", "--directories"]),
    ("fgrep", "rRd", &["--recursive", "--dereference-recursive", "--directories"]),
    // Without an option it compares the files of two folders.
    ("diff", "", &[]),
    ("cp", "rRa", &["--recursive", "--archive"]),
    ("zip", "r", &["--recurse-paths"]),
    ("gzip", "r", &["--recursive"]),
    ("gunzip", "r", &["--recursive"]),
    ("zcat", "r", &["--recursive"]),
    ("rg", "", &[]),
    ("ag", "", &[]),
    ("tar", "", &[]),
    ("rsync", "", &[]),
    ("mv", "", &[]),
    ("ln", "", &[]),
    ("chmod", "R", &["--recursive"]),
    ("rm", "rR", &["--recursive"]),
];
/// Commands that put files into a folder.
const COPIERS: &[&str] = &["cp", "mv", "ln", "install", "rsync"];
/// The most files that are looked at for one command.
const FILES_MAX: usize = 20_000;

/// The name of a command without its folder, and the words behind it.
pub(super) fn split(words: &[Word]) -> Option<(&str, &[Word])> {
    let (name, rest) = words.split_first()?;
    Some((name.text.rsplit('/').next().unwrap_or_default(), rest))
}

pub(super) fn operands(words: &[Word]) -> impl Iterator<Item = &str> {
    words.iter().map(|word| word.text.as_str()).filter(|text| !text.starts_with('-'))
}

pub(super) fn has_option(words: &[Word], letters: &str, long: &[&str]) -> bool {
    words.iter().any(|word| {
        let text = word.text.split('=').next().unwrap_or_default();
        match text.strip_prefix('-') {
            Some(option) if option.starts_with('-') => {
                text.len() > 2 && long.iter().any(|known| known.starts_with(text))
            }
            Some(cluster) => cluster.contains(|char| letters.contains(char)),
            None => false,
        }
    })
}

/// Commands that do nothing to files.
const WITHOUT_FILES: &[&str] = &[":", "exit", "sleep", "wait"];

/// Whether a command changes nothing: it only reads, or its own commands are judged in its place.
pub(super) fn changes_nothing(words: &[Word]) -> bool {
    let records = git(words).is_some_and(|(command, _)| matches!(command, "add" | "commit"));
    let is_plain = split(words).is_some_and(|(name, _)| WITHOUT_FILES.contains(&name));
    is_plain || starts_others(words) || access(words) == Some(Access::Read) && !records
}

/// How a command uses the files it names, if that is certain.
pub(super) fn access(words: &[Word]) -> Option<Access> {
    let (name, rest) = split(words)?;
    if name == "xargs" {
        return access(fed::started(words)?);
    }
    let reads = READERS.contains(&name) && !(name == "yq" && has_option(rest, "i", &["--inplace"]))
        || git(words).is_some_and(|(command, rest)| {
            let first = rest.first().map_or("", |word| word.text.as_str());
            GIT_READERS.contains(&command) || command == "stash" && matches!(first, "show" | "list")
        })
        || name == "sed" && !has_option(rest, "i", &["--in-place"])
        || name == "find" && only_reads(rest);
    reads.then_some(Access::Read)
}

/// Whether a `find` starts nothing but commands that only read.
fn only_reads(words: &[Word]) -> bool {
    words.iter().enumerate().filter(|(_, word)| is_find_action(&word.text)).all(|(at, action)| {
        let started = words.get(at + 1).map(|word| word.text.as_str());
        matches!(action.text.as_str(), "-exec" | "-execdir")
            && started.is_some_and(|name| {
                READERS.contains(&name) && !["sort", "awk", "yq"].contains(&name)
            })
    })
}

pub(super) fn is_find_action(text: &str) -> bool {
    ["-exec", "-ok", "-delete", "-fprint", "-fls"].iter().any(|action| text.starts_with(action))
}

/// The folders whose whole content a command reads or moves.
pub(super) fn trees(words: &[Word]) -> Vec<&str> {
    let Some((name, rest)) = split(words) else { return Vec::new() };
    let found = match name {
        "xargs" => return vec!["."],
        "find" => rest.iter().any(|word| is_find_action(&word.text)),
        "git" => return git::trees(words),
        _ => RECURSIVE.iter().any(|(command, letters, long)| {
            *command == name && (letters.is_empty() || has_option(rest, letters, long))
        }),
    };
    if !found {
        return Vec::new();
    }
    match name {
        "find" => starts(rest),
        "mv" | "ln" | "cp" | "rm" | "chmod" | "gzip" | "gunzip" | "zcat" | "diff" => {
            operands(rest).collect()
        }
        _ => {
            let named: Vec<&str> = operands(rest).collect();
            // The first operand of a search is what is searched for.
            // What follows an option may be its value, and then nothing that is searched is named.
            let after_option = rest.windows(2).any(|pair| match pair {
                [option, value] => may_take_value(&option.text) && !value.text.starts_with('-'),
                _ => false,
            });
            match name {
                "tar" => named,
                _ if named.len() < 2 || (after_option && named.len() < 3) => {
                    named.into_iter().chain(["."]).collect()
                }
                _ => named,
            }
        }
    }
}

/// Whether a word is an option of a search that may have its value in the next word.
fn may_take_value(word: &str) -> bool {
    /// Those of `grep` and `rg` that never have one.
    const PLAIN: &str = "rRniIlLvwxcsHhoqEFGPUzZbayS";
    match word.strip_prefix('-') {
        Some(long) if long.starts_with('-') => !long.contains('='),
        Some(letters) => !letters.chars().all(|letter| PLAIN.contains(letter)),
        None => false,
    }
}

/// The patterns that the files fit which a `find` or a search uses; `None` among them for all files.
pub(super) fn found(words: &[Word]) -> Vec<Option<String>> {
    let Some((name, rest)) = split(words) else { return vec![None] };
    if name == "find" {
        return vec![fed::name_pattern(rest)];
    }
    let texts: Vec<&str> = rest.iter().map(|word| word.text.as_str()).collect();
    match chosen(name, &texts) {
        Some(patterns) => patterns.into_iter().map(Some).collect(),
        None => vec![None],
    }
}

/// The folders that a `find` starts in.
pub(super) fn starts(rest: &[Word]) -> Vec<&str> {
    let texts = rest.iter().map(|word| word.text.as_str());
    let starts: Vec<&str> = texts.take_while(|text| !text.starts_with(['-', '(', '!'])).collect();
    if starts.is_empty() { vec!["."] } else { starts }
}

/// The names that `gunzip` gives to the files that it unpacks.
fn unpacked(words: &[Word], workspace: &dyn Workspace) -> Option<Vec<String>> {
    let (name, rest) = split(words)?;
    let unpacks = name == "gunzip"
        || name == "gzip" && has_option(rest, "d", &["--decompress", "--uncompress"]);
    if !unpacks {
        return None;
    }
    // Of the endings it takes both cases.
    let plain = |path: &str| {
        let lower = path.to_ascii_lowercase();
        let ends = [".gz", "-gz", ".z", "-z", "_z", ".tgz"];
        let name = ends.iter().find_map(|end| lower.strip_suffix(end))?;
        path.get(..name.len()).map(str::to_owned)
    };
    let recursive = has_option(rest, "r", &["--recursive"]);
    let mut made = Vec::new();
    for word in rest.iter().filter(|word| !word.text.starts_with('-')) {
        made.extend(plain(&word.text));
        let folder = word.text.rsplit_once('/').map_or(".", |(folder, _)| folder);
        if recursive {
            let files = workspace.files_below(&word.text).unwrap_or_default();
            made.extend(files.iter().filter_map(|file| plain(file)));
        } else if word.is_pattern() {
            let files = workspace.files_below(folder).unwrap_or_default();
            made.extend(files.iter().filter_map(|file| plain(file)));
        }
    }
    Some(made)
}

/// The names that `split` gives to its parts, as patterns: a name ends in as many letters or digits as are needed.
fn split_names(rest: &[Word]) -> Vec<String> {
    let lengths = options::values(rest, "a", &["--suffix-length"]);
    let given = lengths.first().and_then(|text| text.parse::<usize>().ok());
    let lengths = given.map_or(2..=4, |length| length..=length.min(8));
    let named: Vec<&str> = operands(rest).collect();
    let prefixes = if named.len() < 2 { vec!["x"] } else { named };
    let ended = |prefix: &&str| {
        let prefix = (*prefix).to_owned();
        lengths.clone().map(move |length| format!("{prefix}{}", "[a-z0-9]".repeat(length)))
    };
    prefixes.iter().flat_map(ended).collect()
}

/// The operands of a command that copies or moves files: the sources and the targets.
fn copied(words: &[Word]) -> Option<(Vec<&str>, Vec<&str>)> {
    let moved = git(words).filter(|(command, _)| *command == "mv");
    let copier = split(words).filter(|(name, _)| COPIERS.contains(name));
    let (_, rest) = moved.or(copier)?;
    let mut sources: Vec<&str> = operands(rest).collect();
    let mut targets = options::values(rest, "t", &["--target-directory"]);
    if targets.is_empty() {
        targets.extend(sources.pop());
    }
    Some((sources, targets))
}

/// The names that a command gives to files in another folder.
pub(super) fn copies(words: &[Word], workspace: &dyn Workspace) -> Vec<String> {
    if let Some(unpacked) = unpacked(words, workspace) {
        return unpacked;
    }
    if let Some((_, rest)) = split(words).filter(|(name, _)| *name == "split") {
        return split_names(rest);
    }
    let Some((sources, targets)) = copied(words) else { return Vec::new() };
    let mut made = Vec::new();
    for target in targets {
        let target = target.trim_end_matches('/');
        for source in &sources {
            let source = source.trim_end_matches('/');
            let base = source.rsplit('/').next().unwrap_or_default();
            made.push(format!("{target}/{base}"));
            for file in workspace.files_below(source).unwrap_or_default() {
                if let Some(rest) =
                    file.strip_prefix(source).map(|rest| rest.trim_start_matches('/'))
                    && made.len() < FILES_MAX
                {
                    made.push(format!("{target}/{rest}"));
                    made.push(format!("{target}/{base}/{rest}"));
                }
            }
        }
    }
    made
}

/// The paths that a command removes, each with the pattern that they must fit, if there is one.
pub(super) fn removed(words: &[Word]) -> Vec<(String, Option<String>)> {
    let Some((name, rest)) = split(words) else { return Vec::new() };
    match name {
        // What is moved away from the workspace is gone for it.
        "mv" if copied(words)
            .is_some_and(|(_, targets)| targets.iter().any(|target| target.starts_with('/'))) =>
        {
            operands(rest).map(|path| (path.to_owned(), None)).collect()
        }
        "rm" | "unlink" | "truncate" => rest
            .iter()
            .filter(|word| !word.text.starts_with('-'))
            .map(|word| {
                let pattern = word.is_pattern().then(|| word.text.clone());
                (word.text.clone(), pattern)
            })
            .collect(),
        "gzip" | "gunzip" | "xz" | "unxz" | "bzip2" | "bunzip2"
            if !has_option(rest, "kcltV", &["--keep", "--stdout", "--list", "--test"]) =>
        {
            operands(rest).map(|path| (path.to_owned(), None)).collect()
        }
        "find"
            if rest.iter().any(|word| {
                matches!(
                    word.text.rsplit('/').next(),
                    Some("-delete" | "rm" | "unlink" | "truncate")
                )
            }) =>
        {
            let pattern = fed::name_pattern(rest);
            trees(words).into_iter().map(|tree| (tree.to_owned(), pattern.clone())).collect()
        }
        _ => {
            // They empty the folder that the option names.
            let options: &[&str] = if name == "cargo" && operands(rest).next() == Some("clean") {
                &["--target-dir"]
            } else {
                &["--basetemp"]
            };
            let named = options::values(rest, "", options).into_iter();
            named.chain(git::removed(words)).map(|path| (path.to_owned(), None)).collect()
        }
    }
}

/// The files that a command writes over.
pub(super) fn overwritten(words: &[Word]) -> Vec<String> {
    let Some((name, rest)) = split(words) else { return Vec::new() };
    let forced = || has_option(rest, "f", &["--force"]);
    match name {
        "tee" if !has_option(rest, "a", &["--append"]) => {
            operands(rest).map(str::to_owned).collect()
        }
        "sed" if has_option(rest, "i", &["--in-place"]) => {
            operands(rest).map(str::to_owned).collect()
        }
        "cp" | "mv" | "install" => targets(words),
        "ln" | "git" if forced() => targets(words),
        _ => Vec::new(),
    }
}

/// The targets of a command that copies or moves files, and the names in them if they are folders.
fn targets(words: &[Word]) -> Vec<String> {
    let Some((sources, targets)) = copied(words) else { return Vec::new() };
    let mut all = Vec::new();
    for target in targets {
        all.push(target.to_owned());
        let target = target.trim_end_matches('/');
        let names =
            sources.iter().filter_map(|source| source.trim_end_matches('/').rsplit('/').next());
        all.extend(names.map(|name| format!("{target}/{name}")));
    }
    all
}

/// Whether a file has the name of one that programs write again and again.
pub(super) fn is_scratch(path: &str) -> bool {
    [".log", ".out", ".tmp", ".bak", ".pid"].iter().any(|end| path.ends_with(end))
}

/// Commands that show names of files, never what is in them.
const NAMES_ONLY: &[&str] = &[
    "ls", "stat", "test", "[", "[[", "echo", "printf", "basename", "dirname", "du", "realpath",
    "readlink", "tree", "cd", "mkdir",
];

/// Whether a command only asks whether files are there, and of what kind.
pub(super) fn asks_about_files(words: &[Word]) -> bool {
    split(words).is_some_and(|(name, rest)| {
        matches!(name, "test" | "[" | "[[")
            && rest
                .iter()
                .any(|word| matches!(word.text.as_str(), "-e" | "-f" | "-d" | "-s" | "-r"))
            && rest.len() <= 4
    })
}

/// Whether the word at this place is a file that is made from its example, as in `cp .env.example .env`.
pub(super) fn makes_from_example(words: &[Word], at: usize) -> bool {
    let Some((_, rest)) = split(words).filter(|(name, _)| *name == "cp") else { return false };
    let is_plain = |text: &str| !text.starts_with('-') || matches!(text, "-n" | "-v" | "-p");
    let named: Vec<&str> = operands(rest).collect();
    let [source, target] = named.as_slice() else { return false };
    let ending = source.strip_prefix(target).and_then(|rest| rest.strip_prefix('.'));
    at + 1 == words.len()
        && rest.iter().all(|word| is_plain(&word.text) && !word.dynamic && !word.is_pattern())
        && matches!(ending, Some("example" | "sample" | "template" | "dist" | "defaults"))
}

/// Whether a command changes the folder that later ones work in.
pub(super) fn changes_folder(words: &[Word]) -> bool {
    split(words).is_some_and(|(name, _)| matches!(name, "cd" | "pushd"))
}

/// Whether a command never reads the content of files.
pub(super) fn shows_names_only(words: &[Word]) -> bool {
    split(words).is_some_and(|(name, _)| NAMES_ONLY.contains(&name))
}

/// The link that `ln` makes, if the line names it.
pub(super) fn link(words: &[Word]) -> Option<&str> {
    let (_, rest) = split(words).filter(|(name, _)| *name == "ln")?;
    operands(rest).last()
}

/// Whether any part of a path is the name of a build output.
pub(super) fn is_output(path: &str) -> bool {
    path.split('/').any(is_build_output)
}
