//! Items that wait for other items of the backlog.

use super::item::{BLOCKED, LocatedItem};

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
        for title in titles.iter().filter(|title| title.line != own) {
            let wanted = format!(" {} ", title.words);
            if rest.contains(&wanted) {
                rest = rest.replace(&wanted, " ");
                named += 1;
                waits_for.extend((!title.is_done).then(|| title.text.clone()));
            }
        }
        located.item.blocked = named == 0 || !waits_for.is_empty();
        located.item.waits_for = waits_for;
    }
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
