//! The options of `grep` and `rg`: what they search for, and which files they choose by name.

/// The options of a search.
pub(super) struct Search {
    /// Letters of options with a value.
    values: &'static str,
    /// Long options with a value.
    long_values: &'static [&'static str],
    /// Long options without one.
    long: &'static [&'static str],
}

pub(super) const GREP: Search = Search {
    values: "ABCmdD",
    long_values: &[
        "include",
        "exclude",
        "exclude-dir",
        "max-count",
        "context",
        "after-context",
        "before-context",
        "binary-files",
        "max-depth",
    ],
    long: &[
        "recursive",
        "dereference-recursive",
        "ignore-case",
        "line-number",
        "files-with-matches",
        "files-without-match",
        "name-only",
        "count",
        "word-regexp",
        "line-regexp",
        "fixed-strings",
        "extended-regexp",
        "perl-regexp",
        "invert-match",
        "only-matching",
        "no-filename",
        "with-filename",
        "quiet",
        "silent",
        "no-messages",
        "null",
        "text",
        "color",
        "colour",
        "cached",
        "untracked",
        "and",
        "or",
        "not",
        "heading",
        "break",
        "function-context",
        "show-function",
    ],
};

pub(super) const RG: Search = Search {
    values: "ABCEgjmMrtTd",
    long_values: &[
        "glob",
        "type",
        "type-not",
        "max-count",
        "context",
        "after-context",
        "before-context",
        "max-depth",
        "sort",
        "replace",
    ],
    long: &[
        "ignore-case",
        "smart-case",
        "line-number",
        "no-line-number",
        "files-with-matches",
        "files-without-match",
        "count",
        "word-regexp",
        "line-regexp",
        "fixed-strings",
        "invert-match",
        "only-matching",
        "no-filename",
        "with-filename",
        "quiet",
        "hidden",
        "no-ignore",
        "no-heading",
        "heading",
        "multiline",
        "pcre2",
        "json",
        "stats",
        "vimgrep",
        "color",
        "null",
    ],
};

/// The words behind a search, told apart.
#[derive(Default)]
struct Parsed<'a> {
    /// The places of what is searched for, if options name it.
    named: Vec<usize>,
    /// Whether options say what is searched for.
    explicit: bool,
    /// The place of the first word that is no option.
    first: Option<usize>,
    /// Options with a value, other than what is searched for.
    values: Vec<(&'a str, &'a str)>,
}

/// Tells the words behind a search apart; `None` if an option is not known.
fn parsed<'a>(options: &Search, texts: &[&'a str]) -> Option<Parsed<'a>> {
    let mut all = Parsed::default();
    let mut ended = false;
    let mut at = 0;
    while let Some(text) = texts.get(at).copied() {
        let here = at;
        at += 1;
        if ended || !text.starts_with('-') || text == "-" {
            all.first = all.first.or(Some(here));
        } else if text == "--" {
            ended = true;
        } else if let Some(long) = text.strip_prefix("--") {
            let (name, value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            let place = if value.is_some() { here } else { at };
            let value = value.or_else(|| texts.get(at).copied());
            if matches!(name, "regexp" | "file") {
                all.explicit = true;
                all.named.extend((name == "regexp").then_some(place));
                at = place + 1;
            } else if options.long_values.contains(&name) {
                all.values.extend(value.map(|value| (name, value)));
                at = place + 1;
            } else if !options.long.contains(&name) {
                return None;
            }
        } else {
            let takes = |(_, letter): &(usize, char)| {
                matches!(letter, 'e' | 'f') || options.values.contains(*letter)
            };
            let Some((index, letter)) = text.char_indices().skip(1).find(takes) else { continue };
            let attached = text.get(index + 1..).filter(|value| !value.is_empty());
            let place = if attached.is_some() { here } else { at };
            if matches!(letter, 'e' | 'f') {
                all.explicit = true;
                all.named.extend((letter == 'e').then_some(place));
            } else if let Some(value) = attached.or_else(|| texts.get(at).copied()) {
                all.values.extend(text.get(index..=index).map(|name| (name, value)));
            }
            at = place + 1;
        }
    }
    Some(all)
}

/// The places of what is searched for; none if an option is not known.
pub(super) fn searched(options: &Search, texts: &[&str]) -> Vec<usize> {
    match parsed(options, texts) {
        Some(all) if all.explicit => all.named,
        Some(all) => all.first.into_iter().collect(),
        None => Vec::new(),
    }
}

/// Types of files that `rg` knows, and the endings of their names.
const TYPES: &[(&str, &[&str])] = &[
    ("c", &["c", "h", "cats", "C", "H"]),
    ("cpp", &["cpp", "cc", "cxx", "hpp", "hh", "hxx", "inl", "C", "H", "h"]),
    ("css", &["css", "scss"]),
    ("go", &["go"]),
    ("html", &["htm", "html", "ejs"]),
    ("java", &["java", "jsp", "jspx", "properties"]),
    ("js", &["js", "jsx", "vue", "cjs", "mjs"]),
    ("md", &["md", "markdown", "mdown", "mdwn", "mkd", "mkdn", "mdx"]),
    ("py", &["py", "pyi"]),
    ("rust", &["rs"]),
    ("ts", &["ts", "tsx", "cts", "mts"]),
];

/// The patterns of the files that a recursive search reads, if its options say so and they are plain.
pub(crate) fn chosen(name: &str, texts: &[&str]) -> Option<Vec<String>> {
    let parsed = match name {
        "grep" | "egrep" | "fgrep" => parsed(&GREP, texts)?,
        "rg" => parsed(&RG, texts)?,
        _ => return None,
    };
    let mut patterns = Vec::new();
    for (option, value) in parsed.values {
        match option {
            // It only takes files away.
            "g" | "glob" if value.starts_with('!') => {}
            "include" | "g" | "glob" => {
                let is_plain = |char: char| char.is_ascii_alphanumeric() || "*?._-".contains(char);
                patterns.push(value.chars().all(is_plain).then(|| format!("**/{value}"))?);
            }
            "t" | "type" if name == "rg" => {
                let (_, endings) = TYPES.iter().find(|(known, _)| *known == value)?;
                patterns.extend(endings.iter().map(|ending| format!("**/*.{ending}")));
            }
            _ => {}
        }
    }
    (!patterns.is_empty()).then_some(patterns)
}
