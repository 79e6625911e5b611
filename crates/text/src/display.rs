//! Words and text in messages.

use std::borrow::Cow;

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

/// Whether a character is shown as nothing, or changes how the text around it is displayed: whatever Unicode calls
/// ignorable by default, controls, and letters and signs that look blank.
#[must_use]
pub fn is_hidden(character: char) -> bool {
    is_control(character)
        || matches!(
            character,
            '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
                | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2800}' | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// A text in which each hidden character that `kept` does not name is written as `\u{…}`. Those that make one picture of
/// several, between or after pictures, stay.
#[must_use]
pub fn visible<'a>(text: &'a str, kept: &[char]) -> Cow<'a, str> {
    let hides = |character: char| is_hidden(character) && !kept.contains(&character);
    if !text.contains(hides) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    // Whether a picture came last, apart from what chooses its form.
    let mut after_picture = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let joins = match character {
            '\u{fe0f}' => after_picture,
            '\u{200d}' => after_picture && characters.peek().copied().is_some_and(is_picture),
            _ => false,
        };
        if hides(character) && !joins {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
        // A second one of these in a row would be hidden.
        after_picture = is_picture(character)
            || (joins && character == '\u{fe0f}' && characters.peek() == Some(&'\u{200d}'));
    }
    Cow::Owned(shown)
}

/// Whether a character is in a block of pictures.
fn is_picture(character: char) -> bool {
    matches!(
        character,
        '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}'
            | '\u{2190}'..='\u{27bf}' | '\u{2900}'..='\u{2bff}' | '\u{3030}' | '\u{303d}'
            | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}'
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
    fn what_is_hidden_is_written_out_and_pictures_stay() {
        for code in [
            0xad, 0x34f, 0x115f, 0x1160, 0x17b4, 0x180b, 0x180e, 0x200b, 0x200c, 0x200d, 0x202e,
            0x2060, 0x2800, 0x3164, 0xfe00, 0xfe0f, 0xfeff, 0xffa0, 0xfff9, 0xe0100, 0xe0041,
            0x1d173, 0x1b,
        ] {
            let hidden = char::from_u32(code).unwrap();
            assert_eq!(visible(&format!("a{hidden}b"), &[]), format!("a\\u{{{code:x}}}b"));
        }
        for plain in
            ["é ß 漢字 \u{645}\u{631}", "❤\u{fe0f} 👩\u{200d}💻 👁\u{fe0f}\u{200d}🗨\u{fe0f}"]
        {
            assert_eq!(visible(plain, &[]), plain);
        }
        assert_eq!(visible("👩\u{200d}a\u{200d}👩", &[]), "👩\\u{200d}a\\u{200d}👩");
        assert_eq!(visible("❤\u{fe0f}\u{fe0f}", &[]), "❤\u{fe0f}\\u{fe0f}");
        assert_eq!(visible("a\tb\n\u{1b}", &['\t', '\n']), "a\tb\n\\u{1b}");
    }

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
