//! The shapes of well-known tokens and keys, as data.

/// How a shape is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The trigger and the body together are the secret.
    Token,
    /// As `Token`, and no letter or digit may precede it: the trigger is short.
    EdgedToken,
    /// The body follows the trigger and is the secret.
    After,
    /// As `After`, with quotes, spaces and one `:` or `=` between.
    Assigned,
    /// As `Assigned`, with the name of a scheme such as `Bearer` before the body.
    Header,
    /// `scheme://user:PASSWORD@host`.
    Url,
    /// Two or more parts in base64url, joined by dots.
    Jwt,
    /// A block with the words `PRIVATE KEY` in its first line.
    PrivateKey,
    /// A key file of PuTTY.
    Putty,
}

/// The characters of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    Upper,
    Alnum,
    Word,
    Url64,
    Dotted,
    Base64,
    Percent,
    Path,
    Header,
}

impl Set {
    pub(crate) const fn has(self, byte: u8) -> bool {
        match self {
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Alnum => byte.is_ascii_alphanumeric(),
            Self::Word => byte.is_ascii_alphanumeric() || byte == b'_',
            Self::Url64 => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Self::Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
            Self::Base64 => byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='),
            Self::Percent => {
                byte.is_ascii_alphanumeric()
                    || matches!(byte, b'+' | b'/' | b'=' | b'%' | b'_' | b'-')
            }
            Self::Path => byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_' | b'-'),
            Self::Header => {
                byte.is_ascii_alphanumeric()
                    || matches!(byte, b'.' | b'_' | b'~' | b'+' | b'/' | b'=' | b'-')
            }
        }
    }
}

/// What else a body must have, so that ordinary words are left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    Any,
    /// A digit.
    Digit,
    /// A digit or an upper-case letter.
    DigitOrUpper,
    /// A digit, an upper-case and a lower-case letter.
    Mixed,
    /// Not one word: a digit, or upper case after lower case, or 24 characters.
    NotAWord,
    /// Not a key of documentation, which ends in `EXAMPLE`.
    NotExample,
}

/// One shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// The name that takes the place of the secret.
    pub name: &'static str,
    pub form: Form,
    /// Each occurrence of one is looked at.
    pub triggers: &'static [&'static str],
    /// Whether the case of a trigger matters.
    pub exact: bool,
    pub body: Set,
    /// The minimum length of the body.
    pub min: usize,
    /// The maximum length; a longer run is something else. Without one the whole run is the body.
    pub max: Option<usize>,
    pub check: Check,
}

const fn token(
    name: &'static str,
    triggers: &'static [&'static str],
    body: Set,
    min: usize,
) -> Shape {
    let (form, check) = (Form::Token, Check::Any);
    Shape { name, form, triggers, exact: true, body, min, max: None, check }
}

const fn edged(
    name: &'static str,
    triggers: &'static [&'static str],
    body: Set,
    min: usize,
) -> Shape {
    Shape { form: Form::EdgedToken, ..token(name, triggers, body, min) }
}

const fn after(
    name: &'static str,
    triggers: &'static [&'static str],
    body: Set,
    min: usize,
) -> Shape {
    Shape { form: Form::After, exact: false, ..token(name, triggers, body, min) }
}

const fn assigned(
    name: &'static str,
    triggers: &'static [&'static str],
    body: Set,
    min: usize,
) -> Shape {
    Shape { form: Form::Assigned, ..after(name, triggers, body, min) }
}

impl Shape {
    const fn exactly(self, length: usize) -> Self {
        Self { min: length, max: Some(length), ..self }
    }

    const fn with(self, check: Check) -> Self {
        Self { check, ..self }
    }

    const fn as_form(self, form: Form) -> Self {
        Self { form, ..self }
    }
}

/// All shapes.
#[rustfmt::skip]
pub(crate) const SHAPES: &[Shape] = &[
    edged("aws-key", &["AKIA", "ASIA", "ABIA", "ACCA"], Set::Upper, 16).exactly(16).with(Check::NotExample),
    assigned("aws-secret", &["secret_access_key", "secretaccesskey", "aws_secret_key", "aws_session_token"], Set::Base64, 40).with(Check::Mixed),
    token("github-token", &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], Set::Alnum, 36),
    token("github-token", &["github_pat_"], Set::Word, 22),
    token("gitlab-token", &["glpat-", "gldt-", "glrt-", "glrtr-", "glcbt-", "glptt-", "glft-", "glsoat-", "glimt-", "glagent-", "gloas-", "glffct-"], Set::Dotted, 20),
    token("gitlab-token", &["GR1348941"], Set::Url64, 20),
    token("slack-token", &["xoxa-", "xoxb-", "xoxc-", "xoxd-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-", "xwfp-"], Set::Percent, 10).with(Check::Digit),
    after("slack-webhook", &["hooks.slack.com/services/", "hooks.slack.com/workflows/", "hooks.slack.com/triggers/"], Set::Path, 20),
    token("npm-token", &["npm_"], Set::Alnum, 36),
    after("npm-token", &[":_authtoken=", ":_password=", ":_auth="], Set::Header, 8).with(Check::NotAWord),
    token("pypi-token", &["pypi-AgE"], Set::Url64, 40),
    edged("google-key", &["AIza"], Set::Url64, 35).exactly(35),
    edged("google-token", &["ya29."], Set::Dotted, 20),
    edged("google-token", &["1//0"], Set::Url64, 40),
    token("google-secret", &["GOCSPX-"], Set::Url64, 20),
    token("stripe-key", &["sk_live_", "sk_test_", "rk_live_", "rk_test_"], Set::Alnum, 16),
    token("stripe-key", &["whsec_"], Set::Base64, 24),
    edged("huggingface-token", &["hf_", "api_org_"], Set::Alnum, 30),
    after("azure-key", &["accountkey=", "sharedaccesskey="], Set::Base64, 40),
    after("azure-signature", &["?sig=", "&sig=", "&amp;sig=", "u0026sig=", "%26sig%3d"], Set::Percent, 32).with(Check::Mixed),
    edged("vault-token", &["hvs.", "hvb.", "hvr."], Set::Url64, 20),
    edged("vault-token", &["s."], Set::Alnum, 24).exactly(24).with(Check::Mixed),
    edged("api-key", &["sk-"], Set::Url64, 20).with(Check::DigitOrUpper),
    edged("jwt", &["eyJ"], Set::Dotted, 10).as_form(Form::Jwt),
    assigned("authorization", &["authorization"], Set::Header, 8).as_form(Form::Header).with(Check::NotAWord),
    after("bearer-token", &["bearer "], Set::Header, 20).with(Check::Digit),
    assigned("api-key", &["x-api-key", "x-auth-token", "private-token", "x-vault-token"], Set::Header, 16).with(Check::Digit),
    assigned("wireguard-key", &["PrivateKey"], Set::Base64, 44).exactly(44).with(Check::Mixed),
    token("private-key", &["-----BEGIN ", "---- BEGIN "], Set::Base64, 0).as_form(Form::PrivateKey),
    token("private-key", &["PuTTY-User-Key-File-"], Set::Base64, 0).as_form(Form::Putty),
    token("age-key", &["AGE-SECRET-KEY-1"], Set::Upper, 50),
    after("url-password", &["://"], Set::Header, 1).as_form(Form::Url),
];
