//! Words and text in messages.

/// Longer words are not compared: the distance takes time by the product of the lengths.
const WORD_BYTES_MAX: usize = 64;

/// The known word that `word` may be a misspelling of: at most a third of its letters differ,
/// where two neighbours swapped count once and case does not count.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.is_empty() || word.len() > WORD_BYTES_MAX {
        return None;
    }
    let distance_max = (word.chars().count() / 3).max(1);
    let word = word.to_lowercase();
    let candidates = known.into_iter().filter(|other| other.len() <= WORD_BYTES_MAX);
    candidates
        .map(|other| (strsim::osa_distance(&word, &other.to_lowercase()), other))
        .filter(|(distance, _)| *distance <= distance_max)
        .min()
        .map(|(_, other)| other)
}

/// Whether a character can change how the text around it is displayed.
#[must_use]
pub fn is_control(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
        )
}

/// One line of at most `chars_max` characters, with control characters replaced.
#[must_use]
pub fn printable(text: &str, chars_max: usize) -> String {
    let replace = |character| if is_control(character) { '\u{fffd}' } else { character };
    let mut line: String = text.chars().take(chars_max).map(replace).collect();
    if text.chars().nth(chars_max).is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_words_are_recognised_and_others_are_not() {
        let keys = ["needs", "outputs", "checks", "gate", "when", "id"];
        let fields = ["task", "task_ref", "context_refs", "constraints"];
        for (word, expected) in [
            ("need", Some("needs")),
            ("output", Some("outputs")),
            ("ouptuts", Some("outputs")),
            ("gaet", Some("gate")),
            ("di", Some("id")),
            ("banana", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, keys), expected, "{word}");
        }
        assert_eq!(nearest(&"n".repeat(1000), keys), None);
        assert_eq!(nearest("context_ref", fields), Some("context_refs"));
        assert_eq!(nearest("Tsak", fields), Some("task"));
        assert_eq!(nearest("zebra", fields), None);
        assert_eq!(nearest(&"t".repeat(65), fields), None);
    }

    #[test]
    fn printed_text_is_one_harmless_line() {
        assert_eq!(printable("a\u{1b}[31m\nb", 80), "a\u{fffd}[31m\u{fffd}b");
        assert_eq!(printable("äöüß", 3), "äöü…");
    }
}
