//! The receivers of notifications in the settings of a project.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use windlass_kernel::notification::{Kind, is_receiver};
use windlass_notify::{Receiver, Target};
use windlass_policy::is_secret_name;
use zeroize::Zeroizing;

/// The most receivers of a project.
const RECEIVERS_MAX: usize = 16;

/// One receiver: `[notify.NAME]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReceiverSettings {
    /// What it is told; everything without it.
    pub on: Option<BTreeSet<Kind>>,
    /// The address that is sent to.
    pub url: Option<String>,
    /// The user's secret that has the address, where the address itself is a secret.
    pub url_secret: Option<String>,
    /// The user's secret that requests are signed with, or that the command gets.
    pub secret: Option<String>,
    /// The program that is started, with its arguments.
    pub command: Option<Vec<String>>,
    /// The person for whom a link is added that decides a hold.
    pub person: Option<String>,
}

/// How the dashboard is reached: `[serve]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServeSettings {
    /// The address by which people reach it.
    pub address: Option<String>,
}

/// The receivers by name.
pub type Receivers = BTreeMap<String, ReceiverSettings>;

/// Checks the tables `[notify.NAME]` and `[serve]`.
pub fn check(receivers: &Receivers, serve: &ServeSettings) -> Result<(), String> {
    if serve.address.as_deref().is_some_and(|address| !is_address(address)) {
        return Err("`serve.address` must start with http:// or https://".to_owned());
    }
    if receivers.len() > RECEIVERS_MAX {
        return Err(format!("`notify` may have at most {RECEIVERS_MAX} receivers"));
    }
    for (name, one) in receivers {
        if !is_receiver(name) {
            return Err(format!(
                "`notify.{name}` is no name: write 1 to 64 letters, digits, `_` and `-`"
            ));
        }
        one.check(serve).map_err(|why| format!("`notify.{name}` {why}"))?;
    }
    Ok(())
}

fn is_address(url: &str) -> bool {
    url.starts_with("http://") || url.starts_with("https://")
}

/// Whether what is sent to an address can be read on the way.
fn is_open(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let own = ["127.0.0.1", "localhost", "[::1]"];
    let is_port = |text: &str| {
        let port = text.strip_prefix(':');
        text.is_empty() || port.is_some_and(|port| port.bytes().all(|one| one.is_ascii_digit()))
    };
    // Before an `@` stands a name, not a host.
    !own.iter().any(|own| host.strip_prefix(own).is_some_and(is_port))
}

/// The reason why a receiver with links for a person is refused.
const OPEN: &str = "has a `person`, and a link must not be sent unencrypted: use https://";

impl ReceiverSettings {
    fn check(&self, serve: &ServeSettings) -> Result<(), String> {
        let ways = [self.url.is_some(), self.url_secret.is_some(), self.command.is_some()];
        if ways.iter().filter(|way| **way).count() != 1 {
            return Err("needs exactly one of `url`, `url_secret` and `command`".to_owned());
        }
        if self.url.as_deref().is_some_and(|url| !is_address(url)) {
            return Err("has a `url` that does not start with http:// or https://".to_owned());
        }
        if self.command.is_none() && self.secret.is_none() {
            return Err(
                "needs `secret`: the name of one of your secrets, which requests are signed with"
                    .to_owned(),
            );
        }
        let names = self.url_secret.iter().chain(&self.secret);
        if let Some(name) = names.into_iter().find(|name| !is_secret_name(name)) {
            return Err(format!("names the secret `{name}`, which is no name of a secret"));
        }
        if self.command.as_ref().is_some_and(|argv| argv.first().is_none_or(String::is_empty)) {
            return Err("has a `command` that is not a list that begins with a program".to_owned());
        }
        // What lies in the project, agents could change.
        let program = self.command.iter().flatten().next();
        if program.is_some_and(|program| program.contains('/') && !program.starts_with('/')) {
            return Err("has a `command` with a relative path: write the full path of the program, or its name"
                .to_owned());
        }
        if let Some(on) = &self.on {
            if on.is_empty() {
                return Err("is told nothing: leave `on` out to tell it everything".to_owned());
            }
            if on.contains(&Kind::Test) {
                return Err("lists `test`; `windlass notify test` sends one".to_owned());
            }
        }
        if self.person.is_some() {
            if serve.address.is_none() {
                return Err(
                    "has a `person`, and `serve.address` does not say where the dashboard is"
                        .to_owned(),
                );
            }
            if self.url.as_deref().is_some_and(is_open) {
                return Err(OPEN.to_owned());
            }
        }
        Ok(())
    }

    /// What it is told.
    pub fn kinds(&self) -> BTreeSet<Kind> {
        let all = || Kind::ALL.into_iter().filter(|kind| *kind != Kind::Test).collect();
        self.on.clone().unwrap_or_else(all)
    }

    /// How it is told, in words.
    pub fn way(&self) -> String {
        match (&self.url, &self.url_secret, &self.command) {
            (Some(url), _, _) => url.clone(),
            (None, Some(name), _) => format!("the address in your secret {name}"),
            (None, None, Some(argv)) => argv.join(" "),
            (None, None, None) => String::new(),
        }
    }

    /// The receiver, with its secrets.
    pub fn receiver(
        &self,
        name: &str,
        folder: &Path,
        secrets: &BTreeMap<String, String>,
    ) -> Receiver {
        let secret = |name: &String| {
            let found = secrets.get(name).cloned().map(Zeroizing::new);
            found
                .ok_or_else(|| format!("your settings have no secret `{name}`, or no value for it"))
        };
        let url = |url: Zeroizing<String>| {
            if !is_address(&url) {
                return Err("the address does not start with http:// or https://".to_owned());
            }
            if self.person.is_some() && is_open(&url) {
                return Err(OPEN.to_owned());
            }
            let key = self.secret.as_ref().map(secret).transpose()?.unwrap_or_default();
            Ok(Target::Url { url, key })
        };
        let target = match (&self.url, &self.url_secret, &self.command) {
            (Some(text), _, _) => url(Zeroizing::new(text.clone())),
            (None, Some(name), _) => secret(name).and_then(url),
            (None, None, argv) => {
                self.secret.as_ref().map(secret).transpose().map(|secret| Target::Command {
                    argv: argv.clone().unwrap_or_default(),
                    folder: folder.to_owned(),
                    secret,
                })
            }
        };
        Receiver { name: name.to_owned(), on: self.kinds(), target, person: self.person.clone() }
    }

    /// The receiver as far as it is needed to find out what it is to be told.
    pub fn outline(&self, name: &str) -> Receiver {
        let target = Err("it is not sent from here".to_owned());
        Receiver { name: name.to_owned(), on: self.kinds(), target, person: None }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::Config;

    #[test]
    fn receivers_are_checked_when_settings_are_loaded() {
        let url = "url = \"https://a.example\"\nsecret = \"KEY\"";
        let good = [
            url.to_owned(),
            "url_secret = \"URL\"\nsecret = \"KEY\"\non = [\"hold_opened\"]".to_owned(),
            "command = [\"sendmail\", \"-t\"]".to_owned(),
            format!("{url}\nperson = \"ada\"\n[serve]\naddress = \"https://desk.example\""),
            "url = \"http://127.0.0.1:9/x\"\nsecret = \"KEY\"\nperson = \"ada\"\n[serve]\naddress = \"http://d\""
                .to_owned(),
        ];
        for text in good {
            let config = Config::parse(&format!("[notify.phone]\n{text}\n"));
            assert!(config.is_ok(), "{text}: {:?}", config.err().map(|failure| failure.summary()));
        }
        for (text, says) in [
            ("", "exactly one of"),
            ("url = \"https://a\"", "needs `secret`"),
            ("url = \"https://a\"\ncommand = [\"x\"]\nsecret = \"KEY\"", "exactly one of"),
            ("url = \"ftp://a\"\nsecret = \"KEY\"", "does not start with"),
            ("url = \"https://a\"\nsecret = \"a key\"", "no name of a secret"),
            ("command = []", "begins with a program"),
            ("command = [\"./tell.sh\"]", "relative path"),
            ("command = [\"x\"]\non = []", "told nothing"),
            ("command = [\"x\"]\non = [\"test\"]", "windlass notify test"),
            ("command = [\"x\"]\non = [\"tea\"]", "unknown variant `tea`"),
            ("command = [\"x\"]\nshell = true", "unknown field `shell`"),
            ("command = [\"x\"]\nperson = \"ada\"", "serve.address"),
            (
                "url = \"http://a.example\"\nsecret = \"KEY\"\nperson = \"ada\"\n[serve]\naddress = \"http://d\"",
                "unencrypted",
            ),
            (
                "url = \"http://127.0.0.1:x@a.example\"\nsecret = \"KEY\"\nperson = \"ada\"\n[serve]\naddress = \"http://d\"",
                "unencrypted",
            ),
            ("command = [\"x\"]\n[serve]\naddress = \"desk\"", "serve.address"),
        ] {
            let failure = Config::parse(&format!("[notify.phone]\n{text}\n")).unwrap_err();
            assert!(failure.summary().contains(says), "{text}: {}", failure.summary());
        }
        // An address that is a secret is known when something is sent.
        let text = "[notify.phone]\nurl_secret = \"URL\"\nsecret = \"KEY\"\nperson = \"ada\"\n[serve]\naddress = \"http://d\"\n";
        let config = Config::parse(text).unwrap();
        let target = |url: &str| {
            let secrets = [("URL", url), ("KEY", "a key")];
            let secrets = secrets.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let receiver =
                config.notify["phone"].receiver("phone", Path::new("/"), &secrets.into());
            receiver.target.err().unwrap_or_default()
        };
        assert!(target("http://a.example").contains("unencrypted"));
        assert_eq!(target("https://a.example"), "");
        let failure = Config::parse("[notify.\"a b\"]\ncommand = [\"x\"]\n").unwrap_err();
        assert!(failure.summary().contains("is no name"), "{}", failure.summary());
    }
}
