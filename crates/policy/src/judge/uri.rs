//! Paths that are written as URIs.

/// The path that an argument names, without the scheme `file:`. Any other scheme is refused.
///
/// # Errors
/// Why the text is no path.
pub(super) fn file_path(text: &str) -> Result<String, String> {
    let Some((scheme, rest)) = scheme(text) else { return Ok(text.to_owned()) };
    if !scheme.eq_ignore_ascii_case("file") {
        return Err(format!(
            "`{}` has the scheme `{scheme}:` and is not a path; a file of that name is written `./…`",
            text.escape_debug()
        ));
    }
    let path = match rest.strip_prefix("//") {
        Some(behind) => behind.find('/').and_then(|at| behind.get(at..)).unwrap_or("/"),
        None => rest,
    };
    let path = path.split(['?', '#']).next().unwrap_or_default();
    decode(path).ok_or_else(|| format!("`{}` is not a file's address", text.escape_debug()))
}

fn scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '+' | '-' | '.');
    let starts = scheme.starts_with(|char: char| char.is_ascii_alphabetic());
    (starts && scheme.chars().all(plain)).then_some((scheme, rest))
}

/// Text with `%2e` and the like replaced.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let high = char::from(rest.next()?).to_digit(16)?;
        let low = char::from(rest.next()?).to_digit(16)?;
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_do_not_hide_paths() {
        for (text, path) in [
            ("a/b", "a/b"),
            ("./a:b", "./a:b"),
            ("a b:c", "a b:c"),
            ("file:///etc/passwd", "/etc/passwd"),
            ("FILE://localhost/etc/passwd", "/etc/passwd"),
            ("file:.env", ".env"),
            ("file:%2eenv", ".env"),
            ("file:///a%2f..%2fb", "/a/../b"),
            ("file:///a#b", "/a"),
        ] {
            assert_eq!(file_path(text), Ok(path.to_owned()), "{text}");
        }
        for text in
            ["http://x/y", "a:b", "data:text/plain,x", "file:%", "file:%zz", "vscode-remote://x"]
        {
            assert!(file_path(text).is_err(), "{text}");
        }
    }
}
