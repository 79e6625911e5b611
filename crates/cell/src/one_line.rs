//! Messages of one line. What may hold secrets is shortened only after they were taken out: a part of a secret is not known as one.

/// The longest message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 2048;

/// What stands for what was left out.
const LEFT_OUT: &str = " … ";

/// Makes one line of at most [`MESSAGE_BYTES_MAX`] bytes, the beginning and the end of a longer one: control characters become
/// spaces.
#[must_use]
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    let mut after_space = true;
    for character in text.trim_end().chars() {
        let character =
            if character.is_control() || is_line_break(character) { ' ' } else { character };
        if character == ' ' && after_space {
            continue;
        }
        after_space = character == ' ';
        line.push(character);
    }
    shortened(&line, MESSAGE_BYTES_MAX)
}

/// The beginning and, mostly, the end of a text of more than `bytes_max` bytes.
#[must_use]
pub fn shortened(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let room = bytes_max.saturating_sub(LEFT_OUT.len());
    let head = text.floor_char_boundary(room / 4);
    let tail = text.ceil_char_boundary(text.len() - (room - room / 4));
    let (head, tail) = (text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default());
    [head, LEFT_OUT, tail].concat()
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
        for count in [1023, 1024, 1025, 5000] {
            let text = format!("{}!", "é".repeat(count));
            let line = one_line(&text);
            assert!(line.len() <= MESSAGE_BYTES_MAX && line.ends_with("é!"), "{}", line.len());
            assert_eq!(line.contains(LEFT_OUT), text.len() > MESSAGE_BYTES_MAX);
        }
    }
}
