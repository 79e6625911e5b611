//! Credentials in files of settings.

/// Words in the names of settings that hold credentials.
const WORDS: [&str; 9] = [
    "_auth",
    "authorization",
    "extraheader",
    "password",
    "passwd",
    "private-key",
    "secret",
    "token",
    "oauth",
];

/// Whether a text of settings seems to hold a credential: a line that names one, or an address with one.
#[must_use]
pub fn has_secret(text: &str) -> bool {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
    let mut lines = lines.map(str::to_ascii_lowercase);
    lines.any(|line| names_secret(&line) || has_login(&line))
}

/// Whether a line sets something whose name has one of the words in it.
fn names_secret(line: &str) -> bool {
    let sets = |(at, word): (usize, &str)| {
        let rest = line.get(at + word.len()..).unwrap_or_default();
        let rest = rest
            .trim_start_matches(|char: char| char.is_ascii_alphanumeric() || "-_".contains(char));
        rest.trim_start_matches(['"', '\'']).trim_start().starts_with(['=', ':'])
    };
    WORDS.iter().flat_map(|word| line.match_indices(word)).any(sets)
}

/// Whether a line has an address with a login: `https://token@host`, `ssh://user:password@host`.
fn has_login(line: &str) -> bool {
    line.match_indices("://").any(|(at, _)| {
        let (before, after) = line.split_at(at);
        let host = after.get(3..).unwrap_or_default();
        let host = host.split(|char: char| char == '/' || char == '"' || char.is_whitespace());
        let login = host.into_iter().next().and_then(|host| host.rsplit_once('@'));
        // The name alone is public where a key follows, as in `ssh://git@host`.
        login.is_some_and(|(login, _)| {
            login.contains(':') || before.ends_with("http") || before.ends_with("https")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_found_and_other_settings_are_not() {
        for text in [
            "[registries.x]\ntoken = \"t\"",
            "x = { index = \"i\", token = \"t\" }",
            "[remote \"origin\"]\n\turl = https://ghp_x@github.com/a/b",
            "url = https://me:pw@example.org/x",
            "url = ssh://me:pw@example.org/x",
            "[http \"https://x\"]\n\textraHeader = AUTHORIZATION: basic x",
            "//registry.npmjs.org/:_authToken=x",
            "proxy = \"http://u:p@proxy:3128\"",
        ] {
            assert!(has_secret(text), "{text}");
        }
        for text in [
            "",
            "[build]\njobs = 2",
            "url = ssh://git@example.org/x",
            "url = git@github.com:a/b.git",
            "url = https://example.org/a@b",
            "# token = x",
            "[branch \"fix-token\"]\n\tmerge = refs/heads/fix-token",
            "url = https://example.org/token-service",
            "global-credential-providers = [\"cargo:token\"]",
        ] {
            assert!(!has_secret(text), "{text}");
        }
    }
}
