//! Whether a shape begins at a trigger, and where its secret ends.

use std::ops::Range;

use crate::shapes::{Check, Form, Set, Shape};

/// How many bytes after the beginning of a trigger decide whether it is a secret.
pub(crate) const LOOK_BYTES: usize = 1536;
/// How many bytes before a secret decide whether it is one.
pub(crate) const CONTEXT_BYTES: usize = 256;

/// The maximum length of what stands between a name and its value.
const GAP_BYTES_MAX: usize = 12;
/// How many bytes of a body are checked.
const CHECKED_BYTES: usize = 64;
const USER_BYTES_MAX: usize = 128;
const PASSWORD_BYTES_MAX: usize = 256;
const JWT_PART_MAX: usize = 1024;
const LABEL_BYTES_MAX: usize = 48;

/// Passwords in URLs that protect nothing: those of examples, and references to variables.
const PLACEHOLDERS: &[&[u8]] = &[
    b"admin",
    b"example",
    b"guest",
    b"pass",
    b"passwd",
    b"password",
    b"postgres",
    b"pwd",
    b"root",
    b"secret",
    b"test",
    b"token",
    b"user",
];

const SCHEMES: &[&[u8]] =
    &[b"bearer", b"basic", b"token", b"apikey", b"digest", b"negotiate", b"splunk"];

/// What belongs to a secret after the part that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// All bytes of the set.
    Run(Set),
    /// Everything up to the end of a block.
    Block(Block),
}

/// A kind of block with an end of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    Pem,
    Ssh2,
    Putty,
}

impl Block {
    const fn end(self) -> &'static [u8] {
        match self {
            Self::Pem => b"-----END",
            Self::Ssh2 => b"---- END",
            Self::Putty => b"Private-MAC:",
        }
    }

    /// Whether a byte belongs to the last line of a block.
    const fn has_in_last_line(self, byte: u8) -> bool {
        match self {
            Self::Pem | Self::Ssh2 => {
                byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b' ' | b'-')
            }
            Self::Putty => byte.is_ascii_hexdigit(),
        }
    }
}

/// How far a tail reaches.
pub(crate) struct Reach {
    /// Up to here the text belongs to the secret.
    pub end: usize,
    /// Whether it ends there. Otherwise the bytes that follow decide.
    pub closed: bool,
}

impl Tail {
    /// Follows the tail from `at`; `complete` if no bytes follow the text.
    pub(crate) fn reach(self, text: &[u8], at: usize, complete: bool) -> Reach {
        let rest = text.get(at..).unwrap_or_default();
        match self {
            Self::Run(set) => {
                let end = at + run(rest, set, usize::MAX);
                Reach { end, closed: complete || end < text.len() }
            }
            Self::Block(block) => {
                let marker = block.end();
                let Some(found) = find(rest, marker) else {
                    let end = if complete {
                        text.len()
                    } else {
                        at.max(text.len().saturating_sub(marker.len()))
                    };
                    return Reach { end, closed: complete };
                };
                let line = at + found + marker.len();
                let last = text.get(line..).unwrap_or_default();
                let last_max = LABEL_BYTES_MAX * 2;
                let spaces = last.iter().take(4).take_while(|byte| **byte == b' ').count();
                let in_line = |byte: &&u8| block.has_in_last_line(**byte);
                let words = last.iter().take(last_max).skip(spaces).take_while(in_line).count();
                let length = spaces + words;
                if !complete && length == last.len() && length < last_max {
                    return Reach { end: at + found, closed: false };
                }
                let line_end = last.get(..length).unwrap_or_default().trim_ascii_end().len();
                Reach { end: line + line_end, closed: true }
            }
        }
    }
}

/// A secret at a trigger: its first byte, the end of what was checked, and what follows.
pub(crate) type Match = (usize, usize, Option<Tail>);

/// Finds secrets of a shape at its triggers.
#[derive(Default)]
pub(crate) struct Matcher {
    /// The last run of base64url, so that none is measured twice.
    measured: Range<usize>,
}

impl Matcher {
    /// The secret of the shape whose trigger is at `trigger`, if there is one.
    pub(crate) fn find(
        &mut self,
        shape: &Shape,
        text: &[u8],
        trigger: Range<usize>,
    ) -> Option<Match> {
        let Range { start, end } = trigger;
        match shape.form {
            Form::Token => body(shape, text, start, end),
            Form::EdgedToken if is_edge(text, start) => body(shape, text, start, end),
            Form::Jwt if is_edge(text, start) => self.jwt(text, start, end),
            Form::EdgedToken | Form::Jwt => None,
            Form::After => body(shape, text, end, end),
            Form::Assigned => {
                let at = assigned(text, end)?;
                body(shape, text, at, at)
            }
            Form::Header => {
                let at = scheme(text, assigned(text, end)?)?;
                body(shape, text, at, at)
            }
            Form::Url => url_password(text, start, end),
            Form::PrivateKey => private_key(text, start, end),
            Form::Putty => {
                let version = text.get(end)?.is_ascii_digit() && text.get(end + 1) == Some(&b':');
                version.then_some((start, end, Some(Tail::Block(Block::Putty))))
            }
        }
    }

    fn jwt(&mut self, text: &[u8], start: usize, end: usize) -> Option<Match> {
        if !self.measured.contains(&end) {
            let length = run(text.get(end..)?, Set::Url64, usize::MAX);
            self.measured = end..end + length;
        }
        let dot = self.measured.end;
        let header = dot.saturating_sub(end);
        let payload = text.get(dot + 1..).map_or(0, |rest| run(rest, Set::Url64, 10));
        let is_jwt =
            (10..=JWT_PART_MAX).contains(&header) && text.get(dot) == Some(&b'.') && payload == 10;
        is_jwt.then_some((start, dot, Some(Tail::Run(Set::Dotted))))
    }
}

/// The number of leading bytes of the set, at most `max`.
fn run(text: &[u8], set: Set, max: usize) -> usize {
    text.iter().take(max).take_while(|byte| set.has(**byte)).count()
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    let first = *part.first()?;
    let mut from = 0;
    loop {
        let rest = text.get(from..)?;
        let at = from + rest.iter().position(|byte| *byte == first)?;
        if text.get(at..)?.starts_with(part) {
            return Some(at);
        }
        from = at + 1;
    }
}

/// Measures and checks the body at `at`; the secret begins at `start`.
fn body(shape: &Shape, text: &[u8], start: usize, at: usize) -> Option<Match> {
    let rest = text.get(at..)?;
    let needed = shape.max.map_or(shape.min, |max| max + 1).max(CHECKED_BYTES);
    let length = run(rest, shape.body, needed);
    if length < shape.min || shape.max.is_some_and(|max| length > max) {
        return None;
    }
    let checked = rest.get(..length.min(CHECKED_BYTES))?;
    let tail = shape.max.is_none().then_some(Tail::Run(shape.body));
    passes(shape.check, checked).then_some((start, at + length, tail))
}

fn passes(check: Check, body: &[u8]) -> bool {
    let any = |is: fn(&u8) -> bool| body.iter().any(is);
    let (digit, upper, lower) =
        (any(u8::is_ascii_digit), any(u8::is_ascii_uppercase), any(u8::is_ascii_lowercase));
    match check {
        Check::Any => true,
        Check::Digit => digit,
        Check::DigitOrUpper => digit || upper,
        Check::Mixed => digit && upper && lower,
        Check::NotAWord => {
            let first_is_lower = body.iter().position(u8::is_ascii_lowercase);
            let last_is_upper = body.iter().rposition(u8::is_ascii_uppercase);
            let mixed = matches!((first_is_lower, last_is_upper), (Some(a), Some(b)) if a < b);
            digit || mixed || body.len() >= 24
        }
        Check::NotExample => !body.ends_with(b"EXAMPLE"),
    }
}

/// Whether a word may begin at `at`: no letter or digit precedes it, except as part of an escape.
fn is_edge(text: &[u8], at: usize) -> bool {
    let before = text.get(at.saturating_sub(GAP_BYTES_MAX)..at).unwrap_or_default();
    let Some((last, rest)) = before.split_last() else { return true };
    if !(last.is_ascii_alphanumeric() || *last == b'_') {
        return true;
    }
    let hex = |count: usize, sign: &[u8]| {
        let digits = before.len().saturating_sub(count);
        before.get(digits..).is_some_and(|last| last.iter().all(u8::is_ascii_hexdigit))
            && before.get(..digits).is_some_and(|rest| rest.ends_with(sign))
    };
    let colour = || {
        let digits = |byte: &u8| byte.is_ascii_digit() || *byte == b';';
        let end = rest.iter().rposition(|byte| !digits(byte)).map_or(0, |at| at + 1);
        *last == b'm' && rest.get(..end).is_some_and(|rest| rest.ends_with(b"["))
    };
    (matches!(last, b'n' | b'r' | b't' | b'b' | b'f') && rest.ends_with(b"\\"))
        || hex(2, b"%")
        || hex(2, b"\\x")
        || hex(4, b"\\u")
        || colour()
}

/// Where the value of a name that ends at `at` begins: after quotes, spaces and one `:` or `=`.
fn assigned(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    let is_gap = |byte: &&u8| {
        matches!(byte, b'"' | b'\'' | b' ' | b'\t' | b':' | b'=' | b'>' | b'\\' | b'`' | b',')
    };
    let gap: Vec<u8> = rest.iter().take(GAP_BYTES_MAX).take_while(is_gap).copied().collect();
    let has_sign = gap.iter().any(|byte| matches!(byte, b':' | b'=' | b','));
    has_sign.then_some(at + gap.len())
}

/// Where the credentials begin after the name of a scheme.
fn scheme(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    let is_named = |name: &&&[u8]| {
        rest.get(..name.len()).is_some_and(|word| word.eq_ignore_ascii_case(name))
            && rest.get(name.len()) == Some(&b' ')
    };
    let name = SCHEMES.iter().find(is_named)?;
    let spaces = rest.get(name.len()..)?.iter().take(4).take_while(|byte| **byte == b' ').count();
    Some(at + name.len() + spaces)
}

fn url_password(text: &[u8], start: usize, at: usize) -> Option<Match> {
    text.get(start.checked_sub(1)?)?.is_ascii_alphanumeric().then_some(())?;
    let fits = |byte: u8| {
        byte.is_ascii_graphic()
            && !matches!(
                byte,
                b'/' | b'@' | b'"' | b'\'' | b'`' | b'<' | b'>' | b'\\' | b'?' | b'#'
            )
            || byte >= 0x80
    };
    let rest = text.get(at..)?;
    let user = rest.iter().take(USER_BYTES_MAX).take_while(|byte| **byte != b':' && fits(**byte));
    let user = rest.get(..user.count())?;
    let password_at = user.len() + 1;
    (rest.get(user.len()) == Some(&b':')).then_some(())?;
    let password = rest.get(password_at..)?;
    let length = password.iter().take(PASSWORD_BYTES_MAX).take_while(|byte| fits(**byte)).count();
    let (password, after) = (password.get(..length)?, password.get(length..)?);
    let host = after.get(1).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'[');
    if after.first() != Some(&b'@') || !host || is_placeholder(password, user) {
        return None;
    }
    Some((at + password_at, at + password_at + length, None))
}

fn is_placeholder(password: &[u8], user: &[u8]) -> bool {
    let first = password.first().copied().unwrap_or(b'*');
    let only = |byte: u8| password.iter().all(|other| *other == byte);
    matches!(first, b'$' | b'{' | b'[' | b'(')
        || password.starts_with(b"%s")
        || (only(b'*') || only(b'x') || only(b'X') || only(b'.'))
        || password == user
        || PLACEHOLDERS.iter().any(|word| password.eq_ignore_ascii_case(word))
}

fn private_key(text: &[u8], start: usize, at: usize) -> Option<Match> {
    let rest = text.get(at..)?;
    let in_label =
        |byte: &&u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || **byte == b' ';
    let label = rest.get(..rest.iter().take(LABEL_BYTES_MAX).take_while(in_label).count())?;
    let name = label.trim_ascii_end();
    if !name.ends_with(b"PRIVATE KEY") && !name.ends_with(b"PRIVATE KEY BLOCK") {
        return None;
    }
    let dashes = rest.get(label.len()..)?.iter().take(8).take_while(|byte| **byte == b'-').count();
    let end = at + label.len() + dashes;
    // Prose that mentions the line goes on in the same line.
    let after = text.get(end..)?;
    let ends_line = [&b"\n"[..], b"\r\n", b"\\n", b"\\r\\n", b"\\\\n", b" \n", b"%0A", b"%0D%0A"];
    let ends = dashes >= 4 && ends_line.iter().any(|line| after.starts_with(line));
    let block = if text.get(start..)?.starts_with(b"-----") { Block::Pem } else { Block::Ssh2 };
    ends.then_some((start, end, Some(Tail::Block(block))))
}
