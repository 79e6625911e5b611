//! The files whose names `xargs` gets from the commands before it.

use super::effects::{has_option, is_find_action, operands, split, starts};
use super::git::git;
use crate::shell::{Access, Shell, Simple, Word};

/// Where the names come from.
#[derive(Debug, Default)]
pub(super) struct Fed {
    /// Folders and files, each with the pattern that the files must fit, if there is one.
    pub trees: Vec<(String, Option<String>)>,
    /// Whether a name can begin with a dash, so that a command takes it for an option.
    pub may_be_option: bool,
    /// Whether a file that git ignores can be among them.
    pub may_be_ignored: bool,
    /// Whether a blank or a quote in a name ends it.
    pub splits: bool,
}

/// What the only `xargs` of a line gets; `None` if it may be something else.
pub(super) fn of(shell: &Shell) -> Option<Fed> {
    let is_xargs = |simple: &Simple| simple.words.first().is_some_and(|name| name.text == "xargs");
    let at = shell.commands.iter().position(is_xargs)?;
    let xargs = shell.commands.get(at)?;
    let started = started(&xargs.words)?;
    let reads_input = shell.redirects.iter().any(|redirect| redirect.access == Access::Read);
    let texts = |words: &[Word]| words.iter().map(|word| word.text.clone()).collect::<Vec<_>>();
    let next = shell.commands.get(at + 1);
    let is_next = next.is_some_and(|next| texts(&next.words) == texts(started));
    if reads_input || !is_next || !shell.opaque.is_empty() {
        return None;
    }
    let is_null =
        |word: &&Word| word.text == "--null" || word.text.starts_with("-0") || word.text == "-r0";
    let options = xargs.words.len().saturating_sub(started.len());
    let splits = !xargs.words.iter().take(options).any(|word| is_null(&word));
    let mut fed = Fed { splits, ..Fed::default() };
    for (place, simple) in shell.commands.iter().enumerate() {
        if place != at && place != at + 1 {
            produced(&simple.words, &mut fed)?;
        }
    }
    (!fed.trees.is_empty()).then_some(fed)
}

/// The command that an `xargs` starts; `None` if an option is not known.
pub(super) fn started(words: &[Word]) -> Option<&[Word]> {
    let (name, mut rest) = words.split_first()?;
    if name.text != "xargs" {
        return None;
    }
    while let Some((option, tail)) =
        rest.split_first().filter(|(word, _)| word.text.starts_with('-'))
    {
        let known = ["--null", "--no-run-if-empty", "--verbose"].contains(&option.text.as_str());
        let letters = option.text.strip_prefix('-').unwrap_or_default();
        if !known && (letters.starts_with('-') || letters.contains(['a', 'E', 'd'])) {
            return None;
        }
        let value = letters.find(|letter| "InLPs".contains(letter)).filter(|_| !known);
        let takes_next = value.is_some_and(|place| place + 1 == letters.len());
        rest = if takes_next { tail.get(1..)? } else { tail };
    }
    (!rest.is_empty()).then_some(rest)
}

/// Adds the names that a command prints; `None` if they can be any.
fn produced(words: &[Word], fed: &mut Fed) -> Option<()> {
    let (name, rest) = words.split_first()?;
    match name.text.as_str() {
        "cd" => Some(()),
        "sort" | "uniq" | "head" | "tail" | "wc" => {
            let is_number =
                |text: &str| text.trim_start_matches('+').chars().all(|char| char.is_ascii_digit());
            // They can cut a name, and what is left is another one.
            let cuts = matches!(name.text.as_str(), "head" | "tail")
                && has_option(rest, "c", &["--bytes"]);
            (!cuts && operands(rest).all(is_number)).then_some(())
        }
        "find" => found(words, rest, fed),
        "grep" | "egrep" | "fgrep" | "rg" => searched(&name.text, rest, fed),
        "git" => listed(words, fed),
        _ => None,
    }
}

fn found(words: &[Word], rest: &[Word], fed: &mut Fed) -> Option<()> {
    let others = ["-exec", "-ok", "-delete", "-printf", "-fprint", "-ls", "-fls", "-files0"];
    if rest.iter().any(|word| others.iter().any(|other| word.text.starts_with(other))) {
        return None;
    }
    let pattern = name_pattern(rest);
    fed.trees
        .extend(starts(split(words)?.1).into_iter().map(|tree| (tree.to_owned(), pattern.clone())));
    fed.may_be_ignored = true;
    Some(())
}

/// The pattern that every path that `find` prints fits.
pub(super) fn name_pattern(rest: &[Word]) -> Option<String> {
    let at = rest.iter().position(|word| word.text == "-name")?;
    // What stands before it is done with every file.
    if rest.iter().take(at).any(|word| is_find_action(&word.text)) {
        return None;
    }
    let single =
        !rest.iter().any(|word| matches!(word.text.as_str(), "-o" | "-or" | "!" | "-not" | ","));
    let name = &rest.get(at + 1)?.text;
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "*?._-".contains(char);
    (single && name.chars().all(is_plain)).then(|| format!("**/{name}"))
}

fn searched(name: &str, rest: &[Word], fed: &mut Fed) -> Option<()> {
    let names: Vec<&Word> =
        rest.iter().filter(|word| !word.inert && !word.text.starts_with('-')).collect();
    let recursive =
        name == "rg" || has_option(rest, "rR", &["--recursive", "--dereference-recursive"]);
    let lists = has_option(rest, "lL", &["--files-with-matches", "--files-without-match"]);
    if !rest.iter().any(|word| word.inert) {
        return None;
    }
    match (names.is_empty(), recursive, lists) {
        // It passes on some lines of its input.
        (true, false, _) if !lists => {
            let cuts = has_option(rest, "obnTZ", &["--only-matching", "--byte-offset"]);
            (!cuts).then_some(())
        }
        (true, true, true) => {
            fed.trees.push((".".to_owned(), None));
            (fed.may_be_option, fed.may_be_ignored) = (true, true);
            Some(())
        }
        (false, _, true) => {
            fed.trees.extend(names.iter().map(|word| (word.text.clone(), None)));
            fed.may_be_option |= names.iter().any(|word| word.text.starts_with(['*', '?', '[']));
            fed.may_be_ignored = true;
            Some(())
        }
        (true, _, _) | (false, _, false) => None,
    }
}

fn listed(words: &[Word], fed: &mut Fed) -> Option<()> {
    let (command, rest) = git(words)?;
    let known: &[&str] = match command {
        "ls-files" => &["-z", "-c", "-m", "--cached", "--modified", "--"],
        "diff" if rest.iter().any(|word| word.text == "--name-only") => &[
            "-z",
            "--name-only",
            "--cached",
            "--staged",
            "--diff-filter=d",
            "--diff-filter=ACM",
            "--diff-filter=ACMR",
        ],
        "grep" if has_option(rest, "l", &["--files-with-matches", "--name-only"]) => {
            &["-l", "-lz", "-zl", "-il", "-li", "-lw", "-lF", "-lE"]
        }
        _ => return None,
    };
    if rest.iter().any(|word| word.text.starts_with('-') && !known.contains(&word.text.as_str())) {
        return None;
    }
    let paths: Vec<&str> = operands(rest).collect();
    let is_plain = |path: &&str| !path.contains(['*', '?', '[', ':', '\\']);
    if command == "ls-files" && !paths.is_empty() && paths.iter().all(is_plain) {
        fed.trees.extend(paths.iter().map(|path| ((*path).to_owned(), None)));
        return Some(());
    }
    let pattern = match paths.as_slice() {
        [pattern] if command == "ls-files" && pattern.starts_with("*.") => pattern
            .chars()
            .skip(1)
            .all(|char| char.is_ascii_alphanumeric() || char == '.')
            .then(|| format!("**/{pattern}")),
        _ => None,
    };
    fed.trees.push((".".to_owned(), pattern));
    fed.may_be_option = true;
    Some(())
}
