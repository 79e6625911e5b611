//! Where models are, and which credential goes there: a key of the environment or a login to its own service alone, any other
//! only where the settings name it.

use windlass_agents::{Client, Endpoint, ModelApi};
use windlass_runtime::NamedSecrets;

use super::logins::{self, Login};
use super::{ClientConfig, variable};

/// Where a model is, and the credential for it.
pub struct Found {
    /// The address and the credential.
    pub endpoint: Endpoint,
    /// Whether there is only a login that has expired.
    pub is_expired: bool,
    /// The variable or login that is not sent to this address, because it belongs to another service.
    pub withheld: Option<&'static str>,
}

impl Found {
    const fn new(url: String, headers: Vec<(String, String)>) -> Self {
        Self { endpoint: Endpoint { url, headers }, is_expired: false, withheld: None }
    }
}

/// A variable with a credential: its name, its header, and what stands before its value there.
type KeyVariable = (&'static str, &'static str, &'static str);

/// A service, as settings and the environment name it.
struct Service<'a> {
    config: &'a ClientConfig,
    /// The address that its variable names.
    variable_url: Option<String>,
    /// Its own address.
    usual: &'static str,
    keys: &'a [KeyVariable],
}

impl Service<'_> {
    fn url(&self) -> String {
        let named = self.config.endpoint.clone().or_else(|| self.variable_url.clone());
        named.unwrap_or_else(|| self.usual.to_owned())
    }

    /// The endpoint by what the settings name, or by a key of the environment; `None` if there is neither.
    fn keyed(
        &self,
        secrets: &NamedSecrets,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Option<Found> {
        let url = self.url();
        if let Some(name) = &self.config.credential {
            // Without its value the service refuses; another credential is not sent in its place.
            let value = secrets.available().find(|(known, _)| known == name);
            let header = value.zip(self.keys.first()).map(|((_, value), (_, header, before))| {
                ((*header).to_owned(), format!("{before}{value}"))
            });
            return Some(Found::new(url, header.into_iter().collect()));
        }
        let set = |(name, header, before): &KeyVariable| {
            Some((*name, ((*header).to_owned(), format!("{before}{}", environment(name)?))))
        };
        let (name, header) = self.keys.iter().find_map(set)?;
        if is_own(&url, self.usual) {
            return Some(Found::new(url, vec![header]));
        }
        Some(Found { withheld: Some(name), ..Found::new(url, Vec::new()) })
    }
}

/// Where a client's model is, by the user's settings, the client's own variables and its login.
pub fn of_client(client: &dyn Client, config: &ClientConfig, secrets: &NamedSecrets) -> Found {
    let api = client.api();
    let (address, usual) = api.endpoint;
    let service = Service { config, variable_url: variable(address), usual, keys: api.credentials };
    service
        .keyed(secrets, variable)
        .unwrap_or_else(|| logged_in(logins::login(client.name()), &service))
}

/// Where a model is, by the user's settings and its service's variables.
pub fn of_model(api: ModelApi, config: &ClientConfig, secrets: &NamedSecrets) -> Found {
    let (address, usual) = api.endpoint();
    let keys = [api.credential()];
    let service = Service { config, variable_url: variable(address), usual, keys: &keys };
    service.keyed(secrets, variable).unwrap_or_else(|| Found::new(service.url(), Vec::new()))
}

/// The endpoint with a login, if the address is the one that the login is good for.
fn logged_in(login: Login, service: &Service<'_>) -> Found {
    let url = service.url();
    let is_usual = is_own(&url, service.usual);
    match login {
        Login::None => Found::new(url, Vec::new()),
        Login::Expired => Found { is_expired: is_usual, ..Found::new(url, Vec::new()) },
        Login::Valid { service: Some(own), headers } if url == service.usual || url == own => {
            Found::new(own.to_owned(), headers)
        }
        Login::Valid { service: None, headers } if is_usual => Found::new(url, headers),
        Login::Valid { .. } => {
            Found { withheld: Some("your login"), ..Found::new(url, Vec::new()) }
        }
    }
}

/// Whether an address is at a service's own host, or at a host below it, over TLS and at the usual port.
///
/// The text is compared as it stands, without a parser of addresses: what is written in another way gets no key.
fn is_own(url: &str, usual: &str) -> bool {
    let host = |url: &str| {
        let rest = url.strip_prefix("https://")?;
        let host = rest.split('/').next()?.to_ascii_lowercase();
        Some(host.strip_suffix(":443").map_or_else(|| host.clone(), str::to_owned))
    };
    let (Some(host), Some(own)) = (host(url), host(usual)) else { return false };
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '.');
    let below = || host.strip_suffix(&own).is_some_and(|region| region.ends_with('.'));
    host.chars().all(is_plain) && (host == own || below())
}

/// What to write so that a credential is sent to an address that is not its service's own.
pub fn how_to_name(name: &str, variable: &str, url: &str) -> String {
    let source = match variable.contains(' ') {
        true => "KEY = { file = \"/path/of/a/private/file\" }".to_owned(),
        false => format!("KEY = {{ env = \"{variable}\" }}"),
    };
    format!(
        "{variable} is not sent to `{url}`, which is not its own service: if it is meant for it, write `credential = \"KEY\"` below \
         [agents.{name}] and `{source}` below [secrets] in your settings"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: &str = "https://api.openai.com/v1";
    const KEYS: [KeyVariable; 1] = [("OPENAI_API_KEY", "authorization", "Bearer ")];

    fn found(config: &ClientConfig, variable_url: Option<&str>) -> Found {
        let variable_url = variable_url.map(str::to_owned);
        let service = Service { config, variable_url, usual: USUAL, keys: &KEYS };
        let secrets = NamedSecrets::new([("mine".to_owned(), Ok("named-key".to_owned()))]);
        service.keyed(&secrets, |_| Some("sk-key".to_owned())).unwrap()
    }

    fn sent(found: &Found) -> Vec<&str> {
        found.endpoint.headers.iter().map(|(_, value)| value.as_str()).collect()
    }

    #[test]
    fn a_key_of_the_environment_goes_only_to_its_own_service() {
        for own in [
            USUAL,
            "https://api.openai.com",
            "https://API.openai.com/v1",
            "https://eu.api.openai.com/v1",
            "https://api.openai.com:443/v1",
        ] {
            let config = ClientConfig { endpoint: Some(own.to_owned()), ..Default::default() };
            assert_eq!(sent(&found(&config, None)), ["Bearer sk-key"], "{own}");
            assert_eq!(sent(&found(&ClientConfig::default(), Some(own))), ["Bearer sk-key"]);
        }
        for other in [
            "http://127.0.0.1:11434/v1",
            "http://api.openai.com/v1",
            "https://api.openai.com:8443/v1",
            "https://api.openai.com@evil.example/v1",
            "https://api.openai.com:443@evil.example/v1",
            "https://evil.example\\.api.openai.com/v1",
            "https://evil.example?.api.openai.com/v1",
            "https://evil.example#.api.openai.com/v1",
            "https://api.openai.com.evil.example/v1",
            "https://notapi.openai.com/v1",
            "https://openai.com/v1",
            "https://.api.openai.com/v1?",
            " https://api.openai.com/v1",
            "https://evil.example/https://api.openai.com/v1",
            "https:/api.openai.com",
            "api.openai.com",
        ]
        .into_iter()
        .filter(|other| !other.starts_with("https://.api"))
        {
            let config = ClientConfig { endpoint: Some(other.to_owned()), ..Default::default() };
            for found in [found(&config, None), found(&ClientConfig::default(), Some(other))] {
                assert_eq!(sent(&found), Vec::<&str>::new(), "{other}");
                assert_eq!(found.withheld, Some("OPENAI_API_KEY"), "{other}");
            }
        }
    }

    #[test]
    fn a_credential_that_is_named_goes_where_the_settings_say_and_no_other_stands_in() {
        let endpoint = Some("http://127.0.0.1:1/v1".to_owned());
        let named = |name: &str| ClientConfig {
            credential: Some(name.to_owned()),
            endpoint: endpoint.clone(),
            ..Default::default()
        };
        assert_eq!(sent(&found(&named("mine"), None)), ["Bearer named-key"]);
        assert_eq!(sent(&found(&named("other"), None)), Vec::<&str>::new());
    }

    #[test]
    fn a_login_goes_only_to_the_service_that_it_is_good_for() {
        let login = |service| Login::Valid { service, headers: vec![("a".into(), "t".into())] };
        let config = ClientConfig::default();
        let at = |url: Option<&str>, login| {
            let variable_url = url.map(str::to_owned);
            let service = Service { config: &config, variable_url, usual: USUAL, keys: &KEYS };
            let found = logged_in(login, &service);
            (found.endpoint.url.clone(), found.endpoint.headers.len(), found.withheld)
        };
        let other = "http://127.0.0.1:1/v1";
        let own = "https://own.example/x";
        assert_eq!(at(None, login(None)), (USUAL.to_owned(), 1, None));
        assert_eq!(at(Some(other), login(None)), (other.to_owned(), 0, Some("your login")));
        assert_eq!(at(None, login(Some(own))), (own.to_owned(), 1, None));
        assert_eq!(at(Some(other), login(Some(own))), (other.to_owned(), 0, Some("your login")));
        assert_eq!(at(Some(other), Login::Expired), (other.to_owned(), 0, None));
    }
}
