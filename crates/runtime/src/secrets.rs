//! Secrets are taken out before anything is stored.

use regex::Regex;
use serde_json::Value;

/// Shorter values are too common to be taken out of everything.
const SECRET_BYTES_MIN: usize = 6;

/// What well-known kinds of tokens look like.
const PATTERNS: &[(&str, &str)] = &[
    ("github-token", r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b"),
    ("github-token", r"\bgithub_pat_[A-Za-z0-9_]{22,255}\b"),
    ("aws-key", r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    ("api-key", r"\bsk-[A-Za-z0-9_-]{20,255}\b"),
    ("slack-token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,255}\b"),
    (
        "private-key",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
    ),
];

/// Knows the secrets that tools are given, and what tokens look like.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    known: Vec<(String, String)>,
    patterns: Vec<(&'static str, Regex)>,
}

impl Secrets {
    /// Takes the secrets by name.
    #[must_use]
    pub fn new(known: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut known: Vec<_> =
            known.into_iter().filter(|(_, value)| value.len() >= SECRET_BYTES_MIN).collect();
        // A secret that contains another one goes first.
        known.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        let patterns = PATTERNS
            .iter()
            .filter_map(|(name, pattern)| Some((*name, Regex::new(pattern).ok()?)))
            .collect();
        Self { known, patterns }
    }

    /// The name of a known secret that `value` holds, if it holds one.
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

    /// The name of a known secret that `text` holds, if it holds one.
    #[must_use]
    pub fn find_text(&self, text: &str) -> Option<&str> {
        let mut known = self.known.iter();
        known.find(|(_, secret)| text.contains(secret)).map(|(name, _)| name.as_str())
    }

    /// Replaces every secret in `value`, keys included, by its name.
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
        for (name, pattern) in &self.patterns {
            if pattern.is_match(text) {
                *text = pattern.replace_all(text, format!("[redacted:{name}]")).into_owned();
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
        assert_eq!(Secrets::new([]).patterns.len(), PATTERNS.len());
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
