//! Parses the text of a glob.

use super::{ALTERNATIVES_MAX, GlobKind, GlobToken};

/// Expands every alternative of `{a,b}`; braces may nest.
pub(super) fn expand_braces(text: &[char], into: &mut Vec<Vec<char>>) -> Result<(), String> {
    if into.len() > ALTERNATIVES_MAX {
        return Err("it expands to too many patterns".to_owned());
    }
    let Some(open) = find_unescaped(text, '{') else {
        if find_unescaped(text, '}').is_some() {
            return Err("a `}` has no `{`".to_owned());
        }
        into.push(text.to_vec());
        return Ok(());
    };
    let (head, rest) = text.split_at(open);
    let mut depth = 0_usize;
    let mut parts = vec![Vec::new()];
    let mut chars = rest.iter().copied().enumerate();
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' => {
                push(&mut parts, char);
                if let Some((_, escaped)) = chars.next() {
                    push(&mut parts, escaped);
                }
            }
            '{' => {
                depth += 1;
                if depth > 1 {
                    push(&mut parts, char);
                }
            }
            '}' if depth == 1 => {
                let tail = rest.get(at + 1..).unwrap_or_default();
                for part in parts {
                    expand_braces(&[head, &part, tail].concat(), into)?;
                }
                return Ok(());
            }
            '}' => {
                depth = depth.saturating_sub(1);
                push(&mut parts, char);
            }
            ',' if depth == 1 => parts.push(Vec::new()),
            other => push(&mut parts, other),
        }
    }
    Err("a `{` is never closed".to_owned())
}

fn push(parts: &mut [Vec<char>], char: char) {
    if let Some(last) = parts.last_mut() {
        last.push(char);
    }
}

fn find_unescaped(text: &[char], wanted: char) -> Option<usize> {
    let mut escaped = false;
    text.iter().position(|char| {
        let found = !escaped && *char == wanted;
        escaped = !escaped && *char == '\\';
        found
    })
}

/// Expands `**` to no folder and to any number of them.
pub(super) fn expand_folders(text: Vec<char>) -> Result<Vec<Vec<char>>, String> {
    let text: String = text.into_iter().collect();
    let parts: Vec<&str> = text.split('/').collect();
    if parts.iter().any(|part| part.contains("**") && *part != "**") {
        return Err("`**` must stand alone between slashes".to_owned());
    }
    if parts.iter().any(|part| part.is_empty() || *part == "." || *part == "..") {
        return Err("a path must be relative, without `.` and `..`, as in `a/b/**`".to_owned());
    }
    let mut variants: Vec<Vec<&str>> = vec![Vec::new()];
    for part in &parts {
        let mut next = Vec::new();
        for variant in variants {
            if *part == "**" {
                next.push(variant.clone());
            }
            let mut longer = variant;
            longer.push(part);
            next.push(longer);
        }
        if next.len() > ALTERNATIVES_MAX {
            return Err("it has too many `**`".to_owned());
        }
        variants = next;
    }
    Ok(variants.into_iter().map(|variant| variant.join("/").chars().collect()).collect())
}

/// Turns a pattern without braces into tokens.
///
/// # Errors
/// Why it is malformed.
pub fn tokenize(text: &[char], kind: GlobKind) -> Result<Vec<GlobToken>, String> {
    let slash = kind == GlobKind::Text;
    let mut tokens = Vec::new();
    let mut chars = text.iter().copied().peekable();
    while let Some(char) = chars.next() {
        let token = match char {
            '\\' => GlobToken::Char(chars.next().ok_or("it ends in a `\\`")?),
            '?' => GlobToken::Any { slash },
            '*' => {
                let mut crossing = slash;
                while chars.peek() == Some(&'*') {
                    chars.next();
                    crossing = true;
                }
                GlobToken::Star { slash: crossing }
            }
            '[' => read_set(&mut chars, slash)?,
            other => GlobToken::Char(other),
        };
        tokens.push(token);
    }
    Ok(tokens)
}

fn read_set(
    chars: &mut std::iter::Peekable<impl Iterator<Item = char>>,
    slash: bool,
) -> Result<GlobToken, String> {
    let unclosed = || "a `[` is never closed".to_owned();
    let negated = chars.next_if(|char| matches!(char, '!' | '^')).is_some();
    let mut ranges = Vec::new();
    let mut first = true;
    loop {
        let mut low = chars.next().ok_or_else(unclosed)?;
        if low == ']' && !first {
            return Ok(GlobToken::Set { negated, ranges, slash });
        }
        first = false;
        if low == '\\' {
            low = chars.next().ok_or_else(unclosed)?;
        }
        if chars.next_if_eq(&'-').is_none() {
            ranges.push(low..=low);
            continue;
        }
        match chars.peek() {
            Some(']') | None => ranges.extend([low..=low, '-'..='-']),
            Some(high) => {
                ranges.push(low..=*high);
                chars.next();
            }
        }
    }
}
