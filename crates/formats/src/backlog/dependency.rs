//! Items that wait for other items of the backlog.

use super::item::{BLOCKED, LocatedItem};

/// Unblocks the items that wait only for other items, once these are done. What else an item waits for is not
/// known, so it stays blocked.
pub(super) fn resolve(text: &str, items: &mut [LocatedItem]) {
    let mut titles: Vec<(usize, String, bool)> = items
        .iter()
        .map(|located| (located.item.line, normal(&located.item.title), located.item.done))
        .filter(|(_, title, _)| !title.is_empty())
        .collect();
    // A long title may contain a short one.
    titles.sort_by_key(|(line, title, _)| (std::cmp::Reverse(title.len()), *line));
    for located in items.iter_mut().filter(|located| located.item.blocked && !located.item.done) {
        let own = located.item.line;
        let words = normal(text.get(located.bytes.clone()).unwrap_or_default());
        let title = normal(&located.item.title);
        let words = words.replacen(&title, " ", 1);
        let Some(start) = BLOCKED.iter().filter_map(|word| words.find(word)).min() else {
            continue;
        };
        let mut rest = format!(" {} ", words.get(start..).unwrap_or_default());
        let (mut named, mut all_done) = (0, true);
        for (_, title, done) in titles.iter().filter(|(line, ..)| *line != own) {
            let wanted = format!(" {title} ");
            if rest.contains(&wanted) {
                rest = rest.replace(&wanted, " ");
                named += 1;
                all_done &= *done;
            }
        }
        located.item.blocked = named == 0 || !all_done;
    }
}

/// A text in lower case, its words apart by single spaces.
fn normal(text: &str) -> String {
    let lower = text.to_lowercase();
    let words = lower.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<&str>>().join(" ")
}
