//! Messages of one line.

/// The longest message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 2048;

/// Makes one line of at most [`MESSAGE_BYTES_MAX`] bytes: control characters become spaces.
#[must_use]
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(MESSAGE_BYTES_MAX));
    let mut after_space = true;
    for character in text.trim_end().chars() {
        let character =
            if character.is_control() || is_line_break(character) { ' ' } else { character };
        if character == ' ' && after_space {
            continue;
        }
        after_space = character == ' ';
        if line.len() + character.len_utf8() > MESSAGE_BYTES_MAX - '…'.len_utf8() {
            line.push('…');
            break;
        }
        line.push(character);
    }
    line
}

/// The line breaks that are not control characters.
const fn is_line_break(character: char) -> bool {
    matches!(character, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_short_line() {
        assert_eq!(one_line("a\r\n\tb\u{2028}c\n"), "a b c");
        let long = one_line(&"é".repeat(5000));
        assert!(long.len() <= MESSAGE_BYTES_MAX && long.ends_with('…'), "{}", long.len());
    }
}
