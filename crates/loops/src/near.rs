//! The nearest known word, and text made safe to show.

use std::cmp::min;

/// Longer words are not compared: no name is that long.
const WORD_CHARS_MAX: usize = 64;

/// The one of `known` that is nearest to `word`, if one is near enough to be meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let letters: Vec<char> = word.chars().take(WORD_CHARS_MAX + 1).collect();
    if letters.is_empty() || letters.len() > WORD_CHARS_MAX {
        return None;
    }
    let most = (letters.len() / 3).max(1);
    let ranked = known.into_iter().map(|other| (distance(&letters, other), other));
    let best = ranked.filter(|(distance, _)| *distance <= most).min()?;
    Some(best.1.to_owned())
}

/// How many letters must be added, left out, changed or swapped with their neighbour.
fn distance(word: &[char], other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    if other.len() > WORD_CHARS_MAX {
        return usize::MAX;
    }
    let cell = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX / 2);
    let mut two_above: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=other.len()).collect();
    let mut before = None;
    for (row, letter) in (1..).zip(word) {
        let mut line = vec![row];
        for (column, fellow) in (1..).zip(&other) {
            let changed = cell(&above, column - 1) + usize::from(letter != fellow);
            let mut best = min(changed, min(cell(&above, column), cell(&line, column - 1)) + 1);
            let previous = (column >= 2).then(|| other.get(column - 2)).flatten();
            if before == Some(fellow) && previous == Some(letter) {
                best = min(best, cell(&two_above, column - 2) + 1);
            }
            line.push(best);
        }
        before = Some(letter);
        two_above = std::mem::replace(&mut above, line);
    }
    above.last().copied().unwrap_or(usize::MAX)
}

/// Whether a character can change how the text around it is shown.
pub fn is_control(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}'
        )
}

/// One line of at most `most` characters, without control characters.
pub fn clean(text: &str, most: usize) -> String {
    let mut cleaned: String = text
        .chars()
        .take(most)
        .map(|character| if is_control(character) { '\u{fffd}' } else { character })
        .collect();
    if text.chars().nth(most).is_some() {
        cleaned.push('…');
    }
    cleaned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let known = ["needs", "outputs", "checks", "gate", "when", "id"];
        for (word, expected) in [
            ("need", Some("needs")),
            ("output", Some("outputs")),
            ("ouptuts", Some("outputs")),
            ("gaet", Some("gate")),
            ("di", Some("id")),
            ("banana", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known).as_deref(), expected, "{word}");
        }
        assert_eq!(nearest(&"n".repeat(1000), known), None);
    }

    #[test]
    fn shown_text_is_one_harmless_line() {
        assert_eq!(clean("a\u{1b}[31m\nb", 80), "a\u{fffd}[31m\u{fffd}b");
        assert_eq!(clean("äöüß", 3), "äöü…");
    }
}
