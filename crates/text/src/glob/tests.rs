//! Cases, and a comparison with a matcher that tries everything.

use proptest::prelude::*;

use super::*;

fn matches(kind: GlobKind, pattern: &str, text: &str) -> bool {
    Glob::new(pattern, kind).unwrap().matches_str(text)
}

#[test]
fn text_globs() {
    for (pattern, text, expected) in [
        ("git push -f*", "git push -fu origin", true),
        ("git push -f*", "git push origin -f", false),
        ("git push * -f*", "git push origin main -f", true),
        ("*", "", true),
        ("*/*", "shell/run", true),
        ("a?c", "abc", true),
        ("a?c", "ac", false),
        ("[!a-c]x", "dx", true),
        ("[!a-c]x", "bx", false),
        ("{ls,cat} *", "cat x", true),
        ("{ls,cat} *", "rm x", false),
        ("{a,b{c,d}}e", "bde", true),
        ("a\\*", "a*", true),
        ("a\\*", "ab", false),
        ("*a*a*b", "aaaaaaaaab", true),
        ("*a*a*b", "aaaaaaaaac", false),
    ] {
        assert_eq!(matches(GlobKind::Text, pattern, text), expected, "{pattern} on {text}");
    }
}

#[test]
fn path_globs() {
    for (pattern, text, expected) in [
        (".git/hooks/**", ".git/hooks", true),
        (".git/hooks/**", ".git/hooks/a/b", true),
        (".git/hooks/**", ".git/hooksx", false),
        ("**/.env*", ".env", true),
        ("**/.env*", "a/b/.env.local", true),
        ("**/.env*", "a/b.env", false),
        ("**/.env*", ".env/deep", false),
        ("*", "a/b", false),
        ("**", "a/b", true),
        ("a/**/b", "a/b", true),
        ("a/**/b", "a/x/y/b", true),
        ("a/**/b", "a/x/y/bc", false),
        ("**/a*c/d", "x/abbc/abc/d", true),
        ("**/a*c/d", "x/ab/c/d", false),
    ] {
        assert_eq!(matches(GlobKind::Path, pattern, text), expected, "{pattern} on {text}");
    }
}

#[test]
fn malformed_globs_are_refused() {
    for (kind, text) in [
        (GlobKind::Text, ""),
        (GlobKind::Text, "[a"),
        (GlobKind::Text, "{a"),
        (GlobKind::Text, "a}"),
        (GlobKind::Text, "a\\"),
        (GlobKind::Path, "/etc"),
        (GlobKind::Path, "../x"),
        (GlobKind::Path, "a**/b"),
        (GlobKind::Path, "a//b"),
    ] {
        assert!(Glob::new(text, kind).is_err(), "{text}");
    }
    assert!(Glob::new(&"a".repeat(PATTERN_BYTES_MAX + 1), GlobKind::Text).is_err());
    assert!(Glob::new(&"{a,b}".repeat(7), GlobKind::Text).is_err());
}

#[test]
fn a_pattern_in_a_workspace_stays_inside_of_it() {
    for pattern in ["a", "src/**", "a~", "*/~"] {
        assert_eq!(Glob::in_workspace(pattern).unwrap().pattern(), pattern);
    }
    for pattern in ["~", "~/a", "/a", "a/../b", "..", "./a", "a//b", "a/", "c:a", "a\\b", "a\nb"] {
        let refused = Glob::in_workspace(pattern);
        assert!(matches!(refused, Err(GlobError::Outside(_))), "{pattern}: {refused:?}");
    }
}

#[test]
fn patterns_intersect_when_some_text_matches_both() {
    for (pattern, word, expected) in [
        ("**/.env*", ".e*", true),
        ("**/.env*", "*/.en?", true),
        ("**/*.pem", "*.rs", false),
        ("**/*.pem", "*", true),
        ("**/*.pem", "*.p[a-e]m", true),
        (".windlass/**", ".w*/x", true),
        (".windlass/**", "src/*", false),
    ] {
        let glob = Glob::new(pattern, GlobKind::Path).unwrap();
        let word = tokenize(&word.chars().collect::<Vec<_>>(), GlobKind::Path).unwrap();
        assert_eq!(glob.intersects(&word), expected, "{pattern} with {word:?}");
    }
}

#[test]
fn covering_is_only_claimed_when_certain() {
    for (outer, inner, expected) in [
        ("git *", "git push *", true),
        ("git push *", "git *", false),
        ("*", "anything", true),
        ("{ls,cat}", "ls", true),
        ("ls", "{ls,cat}", false),
        ("a?", "a[bc]", false),
    ] {
        let glob = |text| Glob::new(text, GlobKind::Text).unwrap();
        assert_eq!(glob(outer).covers(&glob(inner)), expected, "{outer} over {inner}");
    }
}

/// A part of a random pattern.
#[derive(Clone, Debug)]
enum Piece {
    Char(char),
    Any,
    Run,
    Set { negated: bool, first: char, last: char },
    Either(Vec<String>),
}

impl Piece {
    fn written(&self) -> String {
        match self {
            Self::Char(char) => char.to_string(),
            Self::Any => "?".to_owned(),
            Self::Run => "*".to_owned(),
            Self::Set { negated, first, last } => {
                format!("[{}{first}-{last}]", if *negated { "!" } else { "" })
            }
            Self::Either(words) => format!("{{{}}}", words.join(",")),
        }
    }
}

fn written(pieces: &[Piece]) -> String {
    pieces.iter().map(Piece::written).collect()
}

/// Whether the pieces match the whole text, by trying every length of every run.
fn fits(pieces: &[Piece], text: &str) -> bool {
    let Some((piece, rest)) = pieces.split_first() else { return text.is_empty() };
    let mut chars = text.chars();
    let first = chars.next();
    match piece {
        Piece::Char(char) => first == Some(*char) && fits(rest, chars.as_str()),
        Piece::Any => first.is_some() && fits(rest, chars.as_str()),
        Piece::Run => fits(rest, text) || first.is_some() && fits(pieces, chars.as_str()),
        Piece::Set { negated, first: from, last } => {
            first.is_some_and(|char| (*from <= char && char <= *last) != *negated)
                && fits(rest, chars.as_str())
        }
        Piece::Either(words) => words
            .iter()
            .any(|word| text.strip_prefix(word.as_str()).is_some_and(|text| fits(rest, text))),
    }
}

/// The same for folders; `None` stands for any number of them.
fn fits_folders(folders: &[Option<Vec<Piece>>], names: &[&str]) -> bool {
    match folders.split_first() {
        None => names.is_empty(),
        Some((None, rest)) => (0..=names.len()).any(|from| fits_folders(rest, &names[from..])),
        Some((Some(pieces), rest)) => {
            names.first().is_some_and(|name| fits(pieces, name)) && fits_folders(rest, &names[1..])
        }
    }
}

/// Pieces whose characters are those of `alphabet`, without two runs in a row.
fn pieces(alphabet: &'static str) -> impl Strategy<Value = Vec<Piece>> {
    let chars: Vec<char> = alphabet.chars().collect();
    let piece = prop_oneof![
        4 => prop::sample::select(chars.clone()).prop_map(Piece::Char),
        1 => Just(Piece::Any),
        2 => Just(Piece::Run),
        1 => (any::<bool>(), Just('a'), prop::sample::select(vec!['a', 'b']))
            .prop_map(|(negated, first, last)| Piece::Set { negated, first, last }),
        1 => prop::collection::vec(prop::sample::select(chars), 1..3)
            .prop_map(|chars| Piece::Either(chars.iter().map(char::to_string).collect())),
    ];
    prop::collection::vec(piece, 1..7).prop_map(|mut pieces| {
        pieces.dedup_by(|one, before| matches!((one, before), (Piece::Run, Piece::Run)));
        pieces
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn text_globs_match_what_trying_everything_matches(
        pieces in pieces("abé/ -"),
        text in "[abé/ -]{0,9}",
    ) {
        let pattern = written(&pieces);
        let glob = Glob::new(&pattern, GlobKind::Text).unwrap();
        prop_assert_eq!(glob.matches_str(&text), fits(&pieces, &text), "{} on {}", pattern, text);
        let again = Glob::from((GlobKind::Text, pattern.clone()));
        prop_assert_eq!(again.matches_str(&text), glob.matches_str(&text), "{} on {}", pattern, text);
    }

    #[test]
    fn path_globs_match_what_trying_everything_matches(
        folders in prop::collection::vec(prop::option::weighted(0.7, pieces("abé-")), 1..5),
        text in "[abé-]{1,4}(/[abé-]{1,4}){0,4}",
    ) {
        let part = |pieces: &Option<Vec<Piece>>| {
            pieces.as_ref().map_or_else(|| "**".to_owned(), |pieces| written(pieces))
        };
        let pattern = folders.iter().map(part).collect::<Vec<_>>().join("/");
        // One that expands to too many patterns is refused.
        let Ok(glob) = Glob::new(&pattern, GlobKind::Path) else { return Ok(()) };
        let names: Vec<&str> = text.split('/').collect();
        let expected = fits_folders(&folders, &names);
        prop_assert_eq!(glob.matches_str(&text), expected, "{} on {}", pattern, text);
        let again = Glob::from((GlobKind::Path, pattern.clone()));
        prop_assert_eq!(again.matches_str(&text), expected, "{} on {}", pattern, text);
    }
}
