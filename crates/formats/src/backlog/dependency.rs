//! Items that wait for other items of the backlog.

use std::collections::{BTreeMap, BTreeSet};

use super::Stuck;
use super::item::{BLOCKED, LocatedItem};

/// The words before the title of an item that another one waits for.
const DEPENDS: &str = "depends on";
/// The most of an unknown title that is told.
const UNKNOWN_CHARS_MAX: usize = 80;

/// Unblocks the items that wait only for other items, once these are done. What else an item waits for is not
/// known, so it stays blocked.
pub(super) fn resolve(text: &str, items: &mut [LocatedItem]) {
    let mut titles: Vec<Title> = items
        .iter()
        .map(|located| Title {
            line: located.item.line,
            words: normal(&located.item.title),
            text: located.item.title.clone(),
            is_done: located.item.done,
        })
        .filter(|title| !title.words.is_empty())
        .collect();
    // A long title may contain a short one.
    titles.sort_by_key(|title| (std::cmp::Reverse(title.words.len()), title.line));
    let mut graph: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for located in items.iter_mut().filter(|located| located.item.blocked && !located.item.done) {
        let own = located.item.line;
        let words = normal(text.get(located.bytes.clone()).unwrap_or_default());
        let title = normal(&located.item.title);
        let words = words.replacen(&title, " ", 1);
        let Some(start) = BLOCKED.iter().filter_map(|word| words.find(word)).min() else {
            continue;
        };
        let mut rest = format!(" {} ", words.get(start..).unwrap_or_default());
        let mut named = 0;
        let mut waits_for = Vec::new();
        let mut lines = BTreeSet::new();
        for title in titles.iter().filter(|title| title.line != own) {
            let wanted = format!(" {} ", title.words);
            if rest.contains(&wanted) {
                rest = rest.replace(&wanted, " ");
                named += 1;
                if !title.is_done {
                    waits_for.push(title.text.clone());
                    lines.insert(title.line);
                }
            }
        }
        located.item.blocked = named == 0 || !waits_for.is_empty();
        located.item.waits_for = waits_for;
        if named == 0 {
            let line = text.get(located.bytes.clone()).unwrap_or_default();
            located.item.stuck = depended_on(line).map(Stuck::Unknown);
        }
        graph.insert(own, lines);
    }
    for located in items.iter_mut() {
        let own = located.item.line;
        if reachable(&graph, own).contains(&own) {
            let first = located.item.waits_for.first().cloned().unwrap_or_default();
            located.item.stuck = Some(Stuck::Cycle(first));
        }
    }
}

/// The lines of the items that an item waits for, and that these wait for, and so on.
fn reachable(graph: &BTreeMap<usize, BTreeSet<usize>>, from: usize) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(line) = open.pop() {
        for next in graph.get(&line).into_iter().flatten() {
            if found.insert(*next) {
                open.push(*next);
            }
        }
    }
    found
}

/// What a line says after `depends on`, up to the next dash.
fn depended_on(line: &str) -> Option<String> {
    let at = line.to_ascii_lowercase().find(DEPENDS)? + DEPENDS.len();
    let rest = line.get(at..)?;
    let rest =
        ["—", "–", "--"].iter().fold(rest, |rest, dash| rest.split(dash).next().unwrap_or(rest));
    let is_quote = |char: char| {
        char.is_whitespace() || matches!(char, '"' | '\'' | '`' | '“' | '”' | '*' | ':')
    };
    let rest = rest.trim_matches(is_quote);
    (!rest.is_empty()).then(|| rest.chars().take(UNKNOWN_CHARS_MAX).collect())
}

/// The title of an item.
struct Title {
    line: usize,
    /// Its words, to be compared.
    words: String,
    text: String,
    is_done: bool,
}

/// A text in lower case, its words apart by single spaces.
fn normal(text: &str) -> String {
    let lower = text.to_lowercase();
    let words = lower.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<&str>>().join(" ")
}
