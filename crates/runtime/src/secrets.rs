//! Removes secrets from data before it is stored.

use std::sync::OnceLock;

use regex::Regex;
use serde_json::Value;

/// The minimum length of a secret; shorter values occur too often by chance.
const SECRET_BYTES_MIN: usize = 6;

/// Well-known kinds of tokens: the name, a text that each token contains, and the pattern.
const PATTERNS: &[(&str, &str, &str)] = &[
    ("github-token", "gh", r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b"),
    ("github-token", "github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{22,255}\b"),
    ("aws-key", "AKIA", r"\bAKIA[0-9A-Z]{16}\b"),
    ("aws-key", "ASIA", r"\bASIA[0-9A-Z]{16}\b"),
    ("api-key", "sk-", r"\bsk-[A-Za-z0-9_-]{20,255}\b"),
    ("slack-token", "xox", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,255}\b"),
    (
        "private-key",
        "PRIVATE KEY-----",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
    ),
];

/// A pattern, compiled on first use: most processes never need one.
#[derive(Debug)]
struct Pattern {
    name: &'static str,
    hint: &'static str,
    source: &'static str,
    compiled: OnceLock<Option<Regex>>,
}

impl Pattern {
    fn regex(&self) -> Option<&Regex> {
        self.compiled.get_or_init(|| Regex::new(self.source).ok()).as_ref()
    }
}

/// The secrets that tools receive, and the patterns of well-known tokens.
#[derive(Debug)]
pub struct Secrets {
    known: Vec<(String, String)>,
    patterns: Vec<Pattern>,
}

impl Secrets {
    /// Creates the set from names and values.
    #[must_use]
    pub fn new(known: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut known: Vec<_> =
            known.into_iter().filter(|(_, value)| value.len() >= SECRET_BYTES_MIN).collect();
        // A secret that contains another one must be replaced first.
        known.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        let pattern = |(name, hint, source): &(&'static str, &'static str, &'static str)| Pattern {
            name,
            hint,
            source,
            compiled: OnceLock::new(),
        };
        Self { known, patterns: PATTERNS.iter().map(pattern).collect() }
    }

    /// Returns the name of a known secret that `value` contains.
    #[must_use]
    pub fn find(&self, value: &Value) -> Option<&str> {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
            Value::String(text) => self.find_text(text),
            Value::Array(items) => items.iter().find_map(|item| self.find(item)),
            Value::Object(map) => {
                map.iter().find_map(|(key, value)| self.find_text(key).or_else(|| self.find(value)))
            }
        }
    }

    /// Returns the name of a known secret that `text` contains.
    #[must_use]
    pub fn find_text(&self, text: &str) -> Option<&str> {
        let mut known = self.known.iter();
        known.find(|(_, secret)| text.contains(secret)).map(|(name, _)| name.as_str())
    }

    /// Replaces each secret in `value`, including keys, by its name.
    pub fn redact(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => self.redact_text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact(item)),
            Value::Object(map) => {
                let old = std::mem::take(map);
                for (mut key, mut value) in old {
                    self.redact_text(&mut key);
                    self.redact(&mut value);
                    map.insert(key, value);
                }
            }
        }
    }

    fn redact_text(&self, text: &mut String) {
        for (name, secret) in &self.known {
            if text.contains(secret) {
                *text = text.replace(secret, &format!("[redacted:{name}]"));
            }
        }
        for pattern in &self.patterns {
            if text.contains(pattern.hint)
                && let Some(regex) = pattern.regex()
                && regex.is_match(text)
            {
                let name = format!("[redacted:{}]", pattern.name);
                *text = regex.replace_all(text, name).into_owned();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_pattern_compiles() {
        let secrets = Secrets::new([]);
        assert_eq!(secrets.patterns.len(), PATTERNS.len());
        for pattern in &secrets.patterns {
            assert!(pattern.regex().is_some(), "{}", pattern.source);
        }
    }

    #[test]
    fn known_values_and_well_known_tokens_are_replaced() {
        let secrets = Secrets::new([("TOKEN".to_owned(), "hunter22".to_owned())]);
        let mut value = json!({
            "a hunter22 key": ["Bearer hunter22", 7],
            "log": format!("ghp_{} and AKIAABCDEFGHIJKLMNOP", "a".repeat(36)),
            "pem": "x\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\ny",
            "fine": "sk-short",
        });
        assert_eq!(secrets.find(&value), Some("TOKEN"));
        secrets.redact(&mut value);
        assert_eq!(
            value,
            json!({
                "a [redacted:TOKEN] key": ["Bearer [redacted:TOKEN]", 7],
                "log": "[redacted:github-token] and [redacted:aws-key]",
                "pem": "x\n[redacted:private-key]\ny",
                "fine": "sk-short",
            })
        );
        assert_eq!(secrets.find(&value), None);
    }
}
