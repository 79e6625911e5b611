//! Logins that people made with the clients themselves.

use std::io::Read as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::user_folders;

/// The largest file with a login.
const LOGIN_BYTES_MAX: u64 = 1 << 20;
/// Where the login of a ChatGPT subscription is good for.
const CHATGPT: &str = "https://chatgpt.com/backend-api/codex";

/// What a client's own files say about its login.
#[derive(Debug, PartialEq, Eq)]
pub enum Login {
    /// There is none that can be used.
    None,
    /// It was valid once. The client renews it when it is started.
    Expired,
    /// It can be used.
    Valid {
        /// The one service that it is good for; nothing if it is the usual one.
        service: Option<&'static str>,
        /// The headers that carry it.
        headers: Vec<(String, String)>,
    },
}

/// Whether logins of a client can be used.
pub fn has_login(client: &str) -> bool {
    matches!(client, "claude" | "codex")
}

/// The login of a client, as it is now.
pub fn login(client: &str) -> Login {
    match client {
        "claude" => {
            file("CLAUDE_CONFIG_DIR", ".claude", ".credentials.json").map_or(Login::None, claude)
        }
        "codex" => file("CODEX_HOME", ".codex", "auth.json").map_or(Login::None, codex),
        _ => Login::None,
    }
}

/// A JSON file in the folder that a variable names, or in a folder of the home folder.
fn file(variable: &str, folder: &str, name: &str) -> Option<Value> {
    let set = std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set.or_else(|| Some(user_folders::home()?.join(folder)))?;
    let mut text = Vec::new();
    std::fs::File::open(folder.join(name))
        .ok()?
        .take(LOGIN_BYTES_MAX)
        .read_to_end(&mut text)
        .ok()?;
    serde_json::from_slice(&text).ok()
}

fn bearer(token: &str) -> (String, String) {
    ("authorization".to_owned(), format!("Bearer {token}"))
}

fn claude(file: Value) -> Login {
    let Some(token) = file.pointer("/claudeAiOauth/accessToken").and_then(Value::as_str) else {
        return Login::None;
    };
    let expires = file.pointer("/claudeAiOauth/expiresAt").and_then(Value::as_u64);
    let is_over = |milliseconds| {
        let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(milliseconds));
        time.is_some_and(|time| time <= SystemTime::now())
    };
    if expires.is_some_and(is_over) {
        return Login::Expired;
    }
    Login::Valid { service: None, headers: vec![bearer(token)] }
}

fn codex(file: Value) -> Login {
    let text = |pointer: &str| file.pointer(pointer).and_then(Value::as_str);
    if let Some(key) = text("/OPENAI_API_KEY").filter(|key| !key.is_empty()) {
        return Login::Valid { service: None, headers: vec![bearer(key)] };
    }
    let Some(token) = text("/tokens/access_token").filter(|token| !token.is_empty()) else {
        return Login::None;
    };
    let account = text("/tokens/account_id").filter(|account| !account.is_empty());
    let account = account.map(|account| ("chatgpt-account-id".to_owned(), account.to_owned()));
    let headers = std::iter::once(bearer(token)).chain(account).collect();
    Login::Valid { service: Some(CHATGPT), headers }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn valid(service: Option<&'static str>, headers: &[(&str, &str)]) -> Login {
        let header = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Login::Valid { service, headers: headers.iter().map(header).collect() }
    }

    #[test]
    fn the_login_of_claude_is_used_while_it_is_valid() {
        let file =
            |expires: u64| json!({ "claudeAiOauth": { "accessToken": "t", "expiresAt": expires } });
        let bearer = valid(None, &[("authorization", "Bearer t")]);
        assert_eq!(claude(file(u64::MAX)), bearer);
        assert_eq!(claude(json!({ "claudeAiOauth": { "accessToken": "t" } })), bearer);
        assert_eq!(claude(file(1_700_000_000_000)), Login::Expired);
        assert_eq!(claude(json!({ "other": 1 })), Login::None);
    }

    #[test]
    fn the_login_of_codex_is_a_key_or_a_subscription() {
        let tokens = json!({ "access_token": "t", "account_id": "a", "refresh_token": "r" });
        assert_eq!(
            codex(json!({ "OPENAI_API_KEY": null, "tokens": tokens })),
            valid(Some(CHATGPT), &[("authorization", "Bearer t"), ("chatgpt-account-id", "a")])
        );
        assert_eq!(
            codex(json!({ "OPENAI_API_KEY": "k", "tokens": tokens })),
            valid(None, &[("authorization", "Bearer k")])
        );
        for nothing in [json!({}), json!({ "OPENAI_API_KEY": "" }), json!({ "tokens": {} })] {
            assert_eq!(codex(nothing), Login::None);
        }
    }
}
