//! Signed commits, as the user's own settings want them.

use std::ffi::OsString;
use std::io::IsTerminal as _;

use super::invoke::Invocation;
use super::{Git, GitError};

/// The variables by which the programs that sign find keys and people.
const VARIABLES: [&str; 6] = [
    "GNUPGHOME",
    "SSH_AUTH_SOCK",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
];

/// How commits are signed: settings, each as `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signing {
    settings: Vec<OsString>,
}

impl Git {
    /// Signs the commits of this from now on if the settings of the user or the system say so (`commit.gpgSign`). Key,
    /// format and program are theirs, too: what the repository's settings name is not used.
    ///
    /// # Errors
    /// [`GitError`], also if they ask for signatures and name no key that can make them.
    pub fn signing_as_user(mut self) -> Result<Self, GitError> {
        let operation = "sign as `commit.gpgSign` of your settings says";
        if !self.is_set_by_user("commit.gpgSign")? {
            return Ok(self);
        }
        let last = |name: &str| Ok::<_, GitError>(self.of_user(name)?.pop());
        let format = last("gpg.format")?.unwrap_or_else(|| "openpgp".into());
        let key = last("user.signingKey")?;
        let (programs, program, key) = match format.to_str() {
            Some("openpgp") => {
                let program = last("gpg.openpgp.program")?.or(last("gpg.program")?);
                let us = self.identity()?;
                let key = key.unwrap_or_else(|| format!("{} <{}>", us.name, us.email).into());
                let names = &["gpg.program", "gpg.openpgp.program"][..];
                (names, program.unwrap_or_else(|| "gpg".into()), key)
            }
            Some(name @ ("ssh" | "x509")) => {
                let key = key.ok_or_else(|| {
                    GitError::refused(operation, "they name no key (`user.signingKey`)")
                })?;
                let (setting, default) = match name {
                    "ssh" => (&["gpg.ssh.program"][..], "ssh-keygen"),
                    _ => (&["gpg.x509.program"][..], "gpgsm"),
                };
                let program = setting.first().map(|name| last(name)).transpose()?.flatten();
                (setting, program.unwrap_or_else(|| default.into()), key)
            }
            Some(_) | None => {
                return Err(GitError::refused(operation, "they name an unknown `gpg.format`"));
            }
        };
        let mut settings = vec![setting("gpg.format", &format), setting("user.signingKey", &key)];
        settings.extend(programs.iter().map(|name| setting(name, &program)));
        self.signing = Some(Signing { settings }.into());
        Ok(self)
    }

    /// Whether the user's files, or those of the system, switch something on.
    fn is_set_by_user(&self, name: &str) -> Result<bool, GitError> {
        for scope in ["--global", "--system"] {
            let output = self
                .read("read the settings")
                .args(["config", scope, "--type=bool", "--get", name])
                .run()?;
            if output.code == Some(0) {
                return Ok(output.stdout.trim_ascii() == b"true");
            }
        }
        Ok(false)
    }
}

impl Signing {
    /// An invocation that may sign. Call it before anything else: options come before the command.
    pub(super) fn let_sign<'a>(&self, mut invocation: Invocation<'a>) -> Invocation<'a> {
        for setting in &self.settings {
            invocation = invocation.args(["-c".into(), setting.clone()]);
        }
        // Whoever is not at a terminal cannot be asked there.
        let tty = Some("GPG_TTY").filter(|_| std::io::stdin().is_terminal());
        for name in VARIABLES.into_iter().chain(tty) {
            if let Some(value) = std::env::var_os(name) {
                invocation = invocation.env(name, value);
            }
        }
        invocation
    }
}

fn setting(name: &str, value: &OsString) -> OsString {
    let mut setting = OsString::from(name);
    setting.push("=");
    setting.push(value);
    setting
}
