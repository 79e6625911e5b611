//! Queries of people as queries of FTS5, and texts in the form in which they are compared.

/// How many words of a query count.
const WORDS_MAX: usize = 48;
/// How many characters of a word count.
const WORD_CHARACTERS_MAX: usize = 64;
/// From so many characters on, the last word is also found as the beginning of a longer one.
const PREFIX_CHARACTERS_MIN: usize = 2;

/// The words of a query, each quoted, so that nothing in it is syntax; `None` if there are none. A passage
/// needs not have all of them: the more and the rarer, the better it fits.
pub fn match_expression(query: &str) -> Option<String> {
    let words = query.split(|char: char| !char.is_alphanumeric() && !is_mark(char));
    let mut kept: Vec<String> = Vec::new();
    for word in words {
        let word: String = word.chars().take(WORD_CHARACTERS_MAX).collect();
        if !word.contains(char::is_alphanumeric) || kept.contains(&word) {
            continue;
        }
        kept.push(word);
        if kept.len() == WORDS_MAX {
            break;
        }
    }
    let mut quoted: Vec<String> = kept.iter().map(|word| format!("\"{word}\"")).collect();
    // The whole word stays, too, so that it fits better than a longer one.
    if kept.last()?.chars().count() >= PREFIX_CHARACTERS_MIN {
        quoted.push(format!("{}*", quoted.last()?));
    }
    Some(quoted.join(" OR "))
}

/// Whether a character is an accent of the one before it. Words are not split there.
const fn is_mark(char: char) -> bool {
    matches!(char, '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}')
}

/// A text without case, punctuation and the length of its spaces.
pub fn normalise(text: &str) -> String {
    let words = text.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty());
    let normalised = words.map(str::to_lowercase).collect::<Vec<_>>().join(" ");
    if normalised.is_empty() { text.trim().to_owned() } else { normalised }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_and_the_last_is_a_prefix() {
        for (query, expected) in [
            ("deploy the app", r#""deploy" OR "the" OR "app" OR "app"*"#),
            ("AND OR NOT NEAR(a b)", r#""AND" OR "OR" OR "NOT" OR "NEAR" OR "a" OR "b""#),
            (r#"say "hi" text:x ^yz *"#, r#""say" OR "hi" OR "text" OR "x" OR "yz" OR "yz"*"#),
            ("Cafe\u{301} src/a.rs", "\"Cafe\u{301}\" OR \"src\" OR \"a\" OR \"rs\" OR \"rs\"*"),
            ("a a x", r#""a" OR "x""#),
            ("--- é\0ü1", r#""é" OR "ü1" OR "ü1"*"#),
        ] {
            assert_eq!(match_expression(query).as_deref(), Some(expected), "{query}");
        }
        for query in ["", " \n", "--- *** \"\"", "\0"] {
            assert_eq!(match_expression(query), None, "{query}");
        }
        let long = "word1 ".repeat(10) + &(0..500).map(|n| format!("w{n} ")).collect::<String>();
        assert_eq!(match_expression(&long).unwrap().matches(" OR ").count(), WORDS_MAX);
        assert!(match_expression(&"x".repeat(1_000_000)).unwrap().len() < 200);
    }

    #[test]
    fn texts_that_say_the_same_are_equal() {
        assert_eq!(normalise("  Use TABS,\n not spaces. "), "use tabs not spaces");
        assert_eq!(normalise("use tabs: not spaces!"), normalise("Use tabs not  spaces"));
        assert_eq!(normalise(" --- "), "---");
        assert_ne!(normalise("a b"), normalise("ab"));
    }
}
