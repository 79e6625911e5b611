//! Sizes of results.

/// How many bytes `text` takes as a JSON string, without its quotes.
pub(crate) fn json_bytes(text: &str) -> usize {
    text.chars().map(json_bytes_of).sum()
}

const fn json_bytes_of(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => character.len_utf8(),
    }
}

/// The longest beginning of `text` that takes at most `bytes_max` bytes as a JSON string.
pub(crate) fn fitting(text: &str, bytes_max: usize) -> &str {
    let mut bytes = 0;
    let end = text.char_indices().find(|(_, character)| {
        bytes += json_bytes_of(*character);
        bytes > bytes_max
    });
    end.and_then(|(at, _)| text.get(..at)).unwrap_or(text)
}

/// The first `chars_max` characters of `text`.
pub(crate) fn first_chars(text: &str, chars_max: usize) -> &str {
    let end = text.char_indices().nth(chars_max);
    end.and_then(|(at, _)| text.get(..at)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_serializer() {
        let all: String = (0..0x300).filter_map(char::from_u32).chain(['\u{1f600}']).collect();
        for character in all.chars() {
            let written = serde_json::to_string(&character.to_string()).unwrap();
            assert_eq!(json_bytes(&character.to_string()), written.len() - 2, "{character:?}");
        }
        for bytes_max in 0..2_000 {
            let part = fitting(&all, bytes_max);
            assert!(
                json_bytes(part) <= bytes_max && bytes_max < json_bytes(part) + 7 || part == all
            );
        }
        assert_eq!(first_chars("äöü", 2), "äö");
        assert_eq!(first_chars("äöü", 3), "äöü");
    }
}
