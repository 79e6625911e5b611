//! Brace expansion, where it is certain what it does.

use std::borrow::Cow;

/// The longest line that it makes, and the most words.
const BYTES_MAX: usize = 16 * 1024;
const WORDS_MAX: usize = 256;
/// The most braces that open in one word: reading them is recursive.
const BRACES_MAX: usize = 16;

/// Replaces words with braces by what bash makes of them, in a line without quotes, comments and documents. What is not
/// plain stays as it is, and is found later.
pub(super) fn expanded(line: &str) -> Cow<'_, str> {
    let has_quotes = line.contains(['\'', '"', '\\', '`', '#']);
    if !line.contains('{') || has_quotes || line.contains("<<") || line.contains("[[") {
        return Cow::Borrowed(line);
    }
    let mut made = String::new();
    let mut count = 0;
    let mut rest = line;
    while !rest.is_empty() {
        let end = rest.find(is_end).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        let redirected = made.trim_end_matches([' ', '\t']).ends_with(['<', '>']);
        match words_of(word).filter(|_| !redirected) {
            Some(words) => {
                count += words.len();
                made.push_str(&words.join(" "));
            }
            None => made.push_str(word),
        }
        let ends = behind.find(|char| !is_end(char)).unwrap_or(behind.len());
        let (between, behind) = behind.split_at(ends);
        made.push_str(between);
        rest = behind;
        if count > WORDS_MAX || made.len() > BYTES_MAX {
            return Cow::Borrowed(line);
        }
    }
    Cow::Owned(made)
}

/// Whether a character ends a word.
fn is_end(char: char) -> bool {
    char.is_whitespace() || ";&|<>()".contains(char)
}

/// The words that a word with braces stands for; `None` if it has none, or is not plain.
fn words_of(word: &str) -> Option<Vec<String>> {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "_./,{}*?-+@%".contains(char);
    let braces = word.matches('{').count();
    if braces == 0 || braces > BRACES_MAX || !word.chars().all(is_plain) {
        return None;
    }
    // An empty word vanishes or not, depending on what stands beside it.
    alternatives(word).filter(|words| !words.iter().any(String::is_empty))
}

/// The words that a word stands for, in the order of bash; `None` if its braces are not plain.
fn alternatives(word: &str) -> Option<Vec<String>> {
    let Some((before, rest)) = word.split_once('{') else {
        return (!word.contains('}')).then(|| vec![word.to_owned()]);
    };
    if before.contains('}') {
        return None;
    }
    let (mut depth, mut commas, mut close) = (0_usize, Vec::new(), None);
    for (at, char) in rest.char_indices() {
        match char {
            '{' => depth += 1,
            '}' if depth == 0 => {
                close = Some(at);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => commas.push(at),
            _ => {}
        }
    }
    let close = close?;
    let inner = rest.get(..close)?;
    let choices = if commas.is_empty() {
        sequence(inner)?
    } else {
        let mut choices = Vec::new();
        let mut start = 0;
        for end in commas.into_iter().chain([close]) {
            choices.extend(alternatives(inner.get(start..end)?)?);
            start = end + 1;
        }
        choices
    };
    let behind = alternatives(rest.get(close + 1..)?)?;
    if choices.len().saturating_mul(behind.len()) > WORDS_MAX {
        return None;
    }
    let with = |choice: &String| {
        let choice = choice.clone();
        behind.iter().map(move |behind| format!("{before}{choice}{behind}"))
    };
    Some(choices.iter().flat_map(with).collect())
}

/// The numbers that the inside of braces stands for.
fn sequence(inner: &str) -> Option<Vec<String>> {
    let (first, last) = inner.split_once("..")?;
    let number = |text: &str| {
        let is_plain = text.len() <= 4 && !(text.len() > 1 && text.starts_with('0'));
        is_plain.then(|| text.parse::<usize>().ok()).flatten()
    };
    let (first, last) = (number(first)?, number(last)?);
    let is_short = first <= last && last - first < WORDS_MAX;
    is_short.then(|| (first..=last).map(|number| number.to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::expanded;

    #[test]
    fn plain_words_with_braces_become_the_words_of_bash() {
        for (line, expected) in [
            ("mkdir -p a/{b,c}", "mkdir -p a/b a/c"),
            ("mkdir -p src/{api,core}/{x,y}", "mkdir -p src/api/x src/api/y src/core/x src/core/y"),
            ("rm -f *.{o,d}; ls", "rm -f *.o *.d; ls"),
            ("touch {a,b{1,2}}", "touch a b1 b2"),
            ("echo {1..3}", "echo 1 2 3"),
            ("cp f{,.bak}", "cp f f.bak"),
            ("ls {a,b}|wc", "ls a b|wc"),
        ] {
            assert_eq!(expanded(line), expected);
        }
    }

    #[test]
    fn what_is_not_plain_stays() {
        for line in [
            "echo '{a,b}'",
            "echo {a}",
            "echo {a,b",
            "echo ${a,b}",
            "echo {a,$b}",
            "x={a,b}",
            "echo {a..c}",
            "echo {01..3}",
            "echo {1..9999}",
            "echo {,a}",
            "{ ls; }",
            "f() { ls; }",
            "echo > {a,b}",
            "find . -exec ls {} +",
            "[[ a == {a,b} ]]",
            "cat <<E\n{a,b}\nE",
        ] {
            assert_eq!(expanded(line), line);
        }
    }

    #[test]
    fn many_braces_do_not_take_the_stack() {
        for (word, times) in [("{a,b}", 7000), ("{a,", 15_000), ("{", 30_000), ("{1..1}", 7000)] {
            let line = format!("echo {}", word.repeat(times));
            assert_eq!(expanded(&line), line, "{word}");
        }
        let line =
            format!("echo {}", "{a,b}{c,d}{e,f}{g,h}{i,j}{k,l}{m,n}{o,p}{q,r} ".repeat(1300));
        assert_eq!(expanded(&line), line);
    }

    #[test]
    #[expect(clippy::disallowed_types, reason = "it is compared with the real bash")]
    fn bash_makes_the_same_words() {
        for line in
            ["a/{b,c}", "{a,b{1,2}}{x,y}", "{a,b}{1..3}", "x{,y}{,z}", "{a,{b,{c,d}}}e", "{1..12}"]
        {
            let output = std::process::Command::new("bash")
                .args(["--norc", "-c", &format!("printf '%s ' {line}")])
                .output();
            let text = String::from_utf8(output.expect("bash").stdout).expect("text");
            assert_eq!(expanded(line), text.trim_end(), "{line}");
        }
    }
}
