//! Well-known tokens and keys are replaced; ordinary text stays as it is.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::json;
use windlass_redact::{Finding, Redactor};

fn redacted(text: &str) -> String {
    Redactor::default().redacted(text)
}

/// Letters and digits that look random.
fn noise(length: usize) -> String {
    let letters = b"aZ3kQ9mX1cV7bN5tR2yU8iO4pL6sD0fGhJwEqTzWxCvBnM";
    let at = (0..length).map(|at| (at * 7 + at / 5) % letters.len());
    at.filter_map(|at| letters.get(at)).map(|byte| char::from(*byte)).collect()
}

fn upper(length: usize) -> String {
    noise(length).to_uppercase()
}

/// Each secret with the name that takes its place. They are put together here so that no scanner takes
/// this file for a leak.
fn secrets() -> Vec<(&'static str, String)> {
    let mut all: Vec<(&str, String)> = Vec::new();
    for prefix in ["AKIA", "ASIA", "ABIA", "ACCA"] {
        all.push(("aws-key", format!("{prefix}{}", upper(16))));
    }
    for prefix in ["p", "o", "u", "s", "r"] {
        all.push(("github-token", format!("gh{prefix}_{}", noise(36))));
    }
    all.push(("github-token", format!("github{}_{}_{}", "_pat", noise(22), noise(59))));
    for prefix in ["pat", "dt", "rt", "cbt", "ptt", "ft", "soat", "imt", "agent", "oas"] {
        all.push(("gitlab-token", format!("gl{prefix}-{}", noise(20))));
    }
    for prefix in ["xoxb", "xoxp", "xoxa", "xoxr", "xoxs", "xapp"] {
        all.push(("slack-token", format!("{prefix}-1234567890-{}", noise(24))));
    }
    all.push(("npm-token", format!("npm{}{}", "_", noise(36))));
    all.push(("pypi-token", format!("pypi-Ag{}{}", "E", noise(60))));
    all.push(("google-key", format!("AI{}{}", "za", noise(35))));
    all.push(("google-token", format!("ya{}.{}", 29, noise(60))));
    all.push(("google-secret", format!("GOC{}{}", "SPX-", noise(28))));
    for prefix in ["sk_live", "sk_test", "rk_live", "rk_test"] {
        all.push(("stripe-key", format!("{prefix}_{}", noise(24))));
    }
    all.push(("huggingface-token", format!("hf{}{}", "_", noise(34))));
    all.push(("vault-token", format!("hv{}.{}", "s", noise(90))));
    all.push(("vault-token", format!("s.{}", noise(24))));
    all.push(("api-key", format!("sk{}{}", "-", noise(48))));
    all.push(("api-key", format!("sk-ant-api03-{}", noise(80))));
    all.push(("api-key", format!("sk-proj-{}", noise(80))));
    let part = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let header = part(json!({ "alg": "HS256", "typ": "JWT" }));
    all.push(("jwt", format!("{header}.{}.{}", part(json!({ "sub": 1, "n": "x" })), noise(43))));
    all.push(("age-key", format!("AGE-SECRET{}{}", "-KEY-1", upper(58))));
    for label in ["", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED "] {
        let body = STANDARD.encode(noise(200));
        all.push((
            "private-key",
            format!("-----BEGIN {label}PRIVATE KEY-----\n{body}\n-----END {label}PRIVATE KEY-----"),
        ));
    }
    let begin = "-----BEGIN PGP PRIVATE KEY BLOCK-----";
    all.push((
        "private-key",
        format!("{begin}\nVersion: x\n\n{}\n-----END PGP PRIVATE KEY BLOCK-----", noise(99)),
    ));
    all.push((
        "private-key",
        format!(
            "PuTTY-User-Key-{}-3: ssh-rsa\nEncryption: none\nPrivate-Lines: 1\n{}\nPrivate-MAC: 00ff",
            "File",
            noise(64)
        ),
    ));
    all
}

#[test]
fn every_shape_is_replaced_wherever_it_stands() {
    for (name, secret) in secrets() {
        let mask = format!("[redacted:{name}]");
        assert_eq!(redacted(&secret), mask, "{secret}");
        for (before, after) in [
            ("token: ", "\n"),
            ("\"", "\","),
            ("(", ")"),
            ("=", " and more"),
            ("\u{1b}[32m", "\u{1b}[0m"),
            ("a\\n", "\\nb"),
            ("é", "é"),
            ("a%3D", "&b"),
        ] {
            let text = format!("{before}{secret}{after}");
            assert_eq!(redacted(&text), format!("{before}{mask}{after}"), "{text}");
        }
        assert_eq!(Redactor::default().find_text(&secret), Some(Finding::Shape(name)));
    }
}

#[test]
fn what_is_secret_by_its_place_is_replaced_alone() {
    let key = noise(40);
    let base64 = STANDARD.encode(noise(64));
    let cases = [
        (format!("aws_secret_access_key = {key}"), "aws_secret_access_key = [redacted:aws-secret]"),
        (format!("AWS_SECRET_ACCESS_KEY={key}\n"), "AWS_SECRET_ACCESS_KEY=[redacted:aws-secret]\n"),
        (
            format!(r#"{{"SecretAccessKey": "{key}"}}"#),
            r#"{"SecretAccessKey": "[redacted:aws-secret]"}"#,
        ),
        (
            format!("https://hooks.slack.com/services/T0{}/B0{}/{}", upper(8), upper(8), noise(24)),
            "https://hooks.slack.com/services/[redacted:slack-webhook]",
        ),
        (
            format!("//registry.npmjs.org/:_authToken={}", noise(36)),
            "//registry.npmjs.org/:_authToken=[redacted:npm-token]",
        ),
        (
            format!("AccountName=a;AccountKey={base64};EndpointSuffix=b"),
            "AccountName=a;AccountKey=[redacted:azure-key];EndpointSuffix=b",
        ),
        (
            format!("https://a.blob.core.windows.net/c?sv=2024&sig={}%3D&se=1", noise(43)),
            "https://a.blob.core.windows.net/c?sv=2024&sig=[redacted:azure-signature]&se=1",
        ),
        (
            format!("Authorization: Bearer {}", noise(20)),
            "Authorization: Bearer [redacted:authorization]",
        ),
        (
            "authorization: basic dXNlcjpwYXNz\r\n".into(),
            "authorization: basic [redacted:authorization]\r\n",
        ),
        (
            format!("curl -H 'Authorization: token {}' x", noise(12)),
            "curl -H 'Authorization: token [redacted:authorization]' x",
        ),
        (
            format!(r#""Authorization": "Bearer {}""#, noise(30)),
            r#""Authorization": "Bearer [redacted:authorization]""#,
        ),
        (format!("sent Bearer {} to it", noise(30)), "sent Bearer [redacted:bearer-token] to it"),
        (format!("X-Api-Key: {}", noise(20)), "X-Api-Key: [redacted:api-key]"),
        (
            "postgres://app:hunter2!@db:5432/x".into(),
            "postgres://app:[redacted:url-password]@db:5432/x",
        ),
        ("https://:p%40ss:w@[::1]/".into(), "https://:[redacted:url-password]@[::1]/"),
        (
            format!(
                r#""private_key": "-----BEGIN {} KEY-----\nabc\n-----END {} KEY-----\n", "x": 1"#,
                "PRIVATE", "PRIVATE"
            ),
            r#""private_key": "[redacted:private-key]\n", "x": 1"#,
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(redacted(&text), expected, "{text}");
    }
}

#[test]
fn a_private_key_without_an_end_is_replaced_to_the_end() {
    let text = format!("a\n-----BEGIN {} KEY-----\n{}\n", "PRIVATE", noise(300));
    assert_eq!(redacted(&text), "a\n[redacted:private-key]");
}

#[test]
fn what_begins_like_a_token_in_another_case_stays() {
    for text in ["GHP_", "Npm_", "AIZA", "Hvs."].map(|start| format!("{start}{}", noise(36))) {
        assert_eq!(redacted(&text), text);
    }
}

#[test]
fn ordinary_text_stays_as_it_is() {
    let source = include_str!("../../src/matcher.rs");
    let mut texts: Vec<String> = [
        include_str!("../../../../Cargo.lock"),
        include_str!("../../../../README.md"),
        include_str!("../../../../ARCHITECTURE.md"),
        include_str!("../../../../CHANGELOG.md"),
        include_str!("../../../../docs/guides/policy.md"),
        include_str!("../../../../docs/guides/sandbox.md"),
        include_str!("../../../../docs/guides/audit.md"),
        include_str!("../../../../docs/requirements.md"),
        include_str!("../../../cli/src/setup.rs"),
        include_str!("../../../connect/src/post.rs"),
        source,
    ]
    .map(str::to_owned)
    .to_vec();
    texts.push(STANDARD.encode(source));
    texts.push(URL_SAFE_NO_PAD.encode(source));
    texts.push(STANDARD.encode(json!({ "version": 3, "sources": [source] }).to_string()));
    texts.extend(
        [
            "commit 8fd20b0c1a7f4e6d9b3a5c7e1f2d4b6a8c0e2f4a, tree 61fb7e1",
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "id 0198c0de-7a3b-7c1d-9e2f-0a1b2c3d4e5f and 550e8400-e29b-41d4-a716-446655440000",
            r#""integrity": "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==""#,
            "AKIAIOSFODNN7EXAMPLE is the key of the manual",
            "git clone https://github.com/a/b.git; ssh://git@github.com:22/a",
            "postgres://postgres:postgres@localhost/test, amqp://guest:guest@mq",
            "https://user:password@example.com, https://$USER:$PASS@host, https://u:${P}@host, u://a:****@h",
            "http://localhost:8080/a@b and http://[::1]:8080/",
            "Authorization: Bearer $TOKEN, Authorization: Bearer <token>, Authorization: Bearer YOUR_TOKEN",
            "let authorization = AuthorizationPolicy::new(); authorization: required",
            "Basic authentication needs the bearer authentication of a bearer",
            "task-runner-of-the-week-and-more, risk-assessment-and-management, disk-usage-analyzer-tool",
            "class=\"sk-circle-fade-dot-and-more\" sk-short",
            "a line -----BEGIN PRIVATE KEY----- in prose, and -----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
            "self.someMethodNameOfManyLetters() s.abcdefghijklmnopqrstuvwx eyJhbGciOiJIUzI1NiJ9 alone",
            "npm_config_user_agent npm_package_json hf_hub_download github_pat_ ghp_short xoxb-",
            "aws_secret_access_key = ${AWS_SECRET_ACCESS_KEY}; secret_access_key: see the manual of it",
            "?sig=abc&signature=def sigma=1",
        ]
        .map(str::to_owned),
    );
    for text in texts {
        assert_eq!(redacted(&text), text);
    }
}

#[test]
fn keys_and_values_of_json_are_redacted_and_the_rest_stays() {
    let redactor = Redactor::new([("TOKEN".to_owned(), "hunter22".to_owned())]);
    let token = format!("gh{}{}", "p_", noise(36));
    let mut value = json!({
        "a hunter22 key": ["Bearer hunter22", 7, null, true],
        "log": format!("{token} and more"),
        "fine": "sk-short",
    });
    assert_eq!(redactor.find(&value), Some(Finding::Value("TOKEN")));
    redactor.redact(&mut value);
    assert_eq!(
        value,
        json!({
            "a [redacted:TOKEN] key": ["Bearer [redacted:TOKEN]", 7, null, true],
            "log": "[redacted:github-token] and more",
            "fine": "sk-short",
        })
    );
    assert_eq!(redactor.find(&value), None);
    assert!(!format!("{redactor:?}").contains("hunter22"));
    assert!(serde_json::to_string(&value).unwrap().contains("TOKEN"));
}
