//! Options that run programs, write files or change the folder.

use super::word::Word;

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
            "--pathspec-from-file",
        ],
    ),
    // They make files whose names are not in the line, or run a program.
    ("cp", &["--suffix"]),
    ("mv", &["--suffix"]),
    ("ln", &["--suffix"]),
    ("install", &["--suffix", "--strip-program"]),
    ("gzip", &["--suffix", "--name"]),
    ("gunzip", &["--suffix", "--name"]),
    ("xz", &["--decompress", "--uncompress", "--suffix", "--files", "--files0"]),
    ("bzip2", &["--decompress"]),
    (
        "zstd",
        &[
            "--decompress",
            "--uncompress",
            "--output-dir-flat",
            "--output-dir-mirror",
            "--filelist",
            "--rm",
            "--patch-from",
        ],
    ),
    ("cloc", &["--out", "--report-file", "--sql", "--config"]),
    ("ag", &["--pager"]),
    ("rg", &["--pre", "--hostname-bin", "--search-zip"]),
    ("sort", &["--compress-program", "--output", "--files0-from", "--temporary-directory"]),
    ("tree", &["--output"]),
    ("cargo", &["--config"]),
    ("make", &["--eval", "--file", "--makefile", "--print-data-base"]),
    ("just", &["--shell", "--command", "--justfile", "--set"]),
    (
        "tar",
        &[
            "--to-command",
            "--checkpoint-action",
            "--use-compress-program",
            "--rsh-command",
            "--files-from",
            "--remove-files",
            "--info-script",
            "--new-volume-script",
            "--listed-incremental",
        ],
    ),
    ("zip", &["--move", "--test", "--unzip-command", "--names-stdin"]),
    ("xmllint", &["--output", "--shell", "--noent", "--xinclude", "--loaddtd"]),
    ("openssl", &["--engine"]),
    ("rsync", &["--rsh", "--rsync-path"]),
    ("npm", &["--script-shell", "--prefix", "--node-options"]),
    ("diff", &["--output"]),
    ("date", &["--set"]),
    ("uniq", &["--output"]),
    ("file", &["--compile"]),
    ("time", &["--output"]),
    ("jq", &["--from-file", "--library-path"]),
    ("yq", &["--from-file", "--split-exp", "--split-exp-file"]),
    ("shuf", &["--output", "--random-source"]),
    ("split", &["--filter", "--additional-suffix"]),
    ("iconv", &["--output"]),
    ("uv", &["--with", "--with-editable", "--with-requirements"]),
    ("yarn", &["--script-shell"]),
    ("pnpm", &["--script-shell"]),
];

/// Short options of the same kind; their letters count in clusters too.
const SHORT_OPTIONS: &[(&str, &str)] = &[
    ("git", "c"),
    ("cp", "S"),
    ("mv", "S"),
    ("ln", "S"),
    ("install", "S"),
    ("gzip", "SN"),
    ("gunzip", "SN"),
    ("xz", "dS"),
    ("bzip2", "d"),
    ("zstd", "doDr"),
    ("rg", "z"),
    ("sort", "oT"),
    ("tree", "o"),
    ("tar", "IFTg"),
    ("zip", "mT@"),
    ("rsync", "e"),
    ("date", "s"),
    ("file", "C"),
    ("make", "fEp"),
    ("time", "o"),
    ("jq", "fL"),
    ("yq", "s"),
    ("shuf", "o"),
    ("iconv", "o"),
];

/// Options of git before its subcommand that take the next word.
const GIT_VALUES: &[&str] = &[
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--config-env",
    "--super-prefix",
    "--attr-source",
    "--shallow-file",
];
/// Those that change nothing about what a subcommand does to which files.
const GIT_HARMLESS: &[&str] = &[
    "-C",
    "-p",
    "--paginate",
    "-P",
    "--no-pager",
    "--no-optional-locks",
    "--no-lazy-fetch",
    "--no-advice",
    "--no-replace-objects",
    "--literal-pathspecs",
    "-v",
    "--version",
    "-h",
    "--help",
];

/// Where the subcommand stands among the words behind `git`, and the options before it that may change what it does.
pub(crate) fn git_subcommand<'a>(texts: impl Iterator<Item = &'a str>) -> (usize, Vec<&'a str>) {
    let mut at = 0;
    let mut telling = Vec::new();
    let mut is_value = false;
    for text in texts {
        if is_value {
            is_value = false;
        } else if text.starts_with('-') {
            is_value = GIT_VALUES.contains(&text);
            if !GIT_HARMLESS.contains(&text) {
                telling.push(text);
            }
        } else {
            break;
        }
        at += 1;
    }
    (at, telling)
}

/// Options that change the folder a command works in: short letters and long names.
const FOLDER_OPTIONS: &[(&str, &str, &[&str])] = &[
    ("git", "C", &["--work-tree"]),
    ("make", "C", &["--directory"]),
    ("env", "C", &["--chdir"]),
    ("tar", "C", &["--directory", "--cd"]),
    ("cargo", "C", &[]),
    ("ninja", "C", &[]),
    ("meson", "C", &[]),
    ("go", "C", &[]),
    ("npm", "C", &["--prefix"]),
    ("pnpm", "C", &["--dir", "--prefix"]),
    ("yarn", "", &["--cwd"]),
    ("uv", "", &["--directory", "--project"]),
    ("poetry", "C", &["--directory"]),
    ("just", "d", &["--working-directory"]),
    ("mvn", "f", &["--file"]),
    ("gradle", "p", &["--project-dir"]),
    ("ctest", "", &["--test-dir"]),
    ("sudo", "D", &["--chdir"]),
];

/// The folders that a command's options name.
pub(crate) fn folders<'a>(name: &str, words: &'a [Word]) -> Vec<&'a str> {
    let Some((_, letters, long)) = FOLDER_OPTIONS.iter().find(|(command, ..)| *command == name)
    else {
        return Vec::new();
    };
    values(words, letters, long)
}

/// The values of options with one of these letters or long names; shortened and clustered ones count.
pub(crate) fn values<'a>(words: &'a [Word], letters: &str, long: &[&str]) -> Vec<&'a str> {
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let text = word.text.as_str();
        let next = words.get(at + 1).map(|word| word.text.as_str());
        if text.starts_with("--") {
            let (option, value) =
                text.split_once('=').map_or((text, next), |(option, value)| (option, Some(value)));
            if option.len() > 2 && long.iter().any(|known| known.starts_with(option)) {
                found.extend(value);
            }
        } else if let Some(cluster) = text.strip_prefix('-')
            && let Some(letter) = cluster.find(|char| letters.contains(char))
        {
            let attached = cluster.get(letter + 1..).filter(|value| !value.is_empty());
            found.extend(attached.or(next));
        }
    }
    found
}

/// Why options let a command do more than its words show.
pub(super) fn telling(name: &str, texts: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let long = LONG_OPTIONS.iter().find(|(command, _)| *command == name);
    let short = SHORT_OPTIONS.iter().find(|(command, _)| *command == name);
    for text in texts.iter().take_while(|text| **text != "--") {
        let option = text.split('=').next().unwrap_or_default();
        // It knows its long options with one dash, too.
        let is_short = name == "xmllint" && option.starts_with('-') && !option.starts_with("--");
        let doubled = is_short.then(|| format!("-{option}"));
        let option = doubled.as_deref().unwrap_or(option);
        let spelled = |known: &&&str| option.len() >= 3 && known.starts_with(option);
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
        let (at, before) = git_subcommand(texts.iter().copied());
        let option = |text: &str| text.split('=').next().unwrap_or_default().to_owned();
        found.extend(before.into_iter().map(|text| format!("`git {}`", option(text))));
        for text in texts.iter().skip(at) {
            let option = text.split('=').next().unwrap_or_default();
            let spelled = |known: &&&str| option.len() >= 3 && known.starts_with(option);
            if let Some(known) = long.and_then(|(_, options)| options.iter().find(spelled)) {
                found.push(format!("`git {known}`"));
            }
        }
    }
    found
}
