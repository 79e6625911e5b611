//! The user's own settings, `~/.config/windlass/config.toml`: what no repository may decide.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use windlass_cell::Level;
use windlass_engine::executors::JobBudget;
use windlass_kernel::{Code, HostRule};
use windlass_runtime::NamedSecrets;

use crate::agents::{self, ClientConfig, Kind};
use crate::config::toml_message;
use crate::failure::Failure;
use crate::input::{self, unreadable};
use crate::secrets::{self, SecretSource};
use crate::user_folders;

/// The maximum size of the file.
const BYTES_MAX: u64 = 64 << 10;
/// The maximum length of a list.
const LIST_MAX: usize = 64;

/// The settings of the user.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserConfig {
    /// The clients of coding agents.
    pub agents: BTreeMap<String, ClientConfig>,
    /// How commands are confined.
    pub sandbox: Sandbox,
    /// The most that agents may use in a day.
    pub spend: Spend,
    /// The programs that Windlass itself starts.
    pub helpers: Helpers,
    /// What git may do when Windlass starts it.
    pub git: GitSettings,
    /// What tools may reach.
    pub network: NetworkSettings,
    /// The secrets that calls may name.
    pub secrets: BTreeMap<String, SecretSource>,
    /// What wrapped MCP servers may reach, by name.
    pub wrap: BTreeMap<String, WrapSettings>,
}

/// The most that the agents of all runs of a project may use in a day of UTC.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spend {
    /// In dollars, as the clients state them.
    pub dollars_per_day: Option<f64>,
    /// In tokens.
    pub tokens_per_day: Option<u64>,
}

impl Spend {
    /// The cap; `None` if there is none.
    pub fn cap(self) -> Result<Option<JobBudget>, Failure> {
        let dollars = self.dollars_per_day.map(|dollars| {
            windlass_agents::micros(dollars).ok_or_else(|| {
                let message = "`spend.dollars_per_day` in your settings is not an amount";
                Failure::new(Code::ConfigInvalid, message).hint("write dollars, as in `20.0`")
            })
        });
        let cap = JobBudget { tokens: self.tokens_per_day, cost_micros: dollars.transpose()? };
        Ok((cap != JobBudget::default()).then_some(cap))
    }
}

/// What a wrapped MCP server may reach.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WrapSettings {
    /// Whether it runs in the sandbox.
    pub sandbox: bool,
    /// The hosts that it may reach from there, as `host:port`.
    #[serde(deserialize_with = "host_rules")]
    pub network: Vec<HostRule>,
}

impl Default for WrapSettings {
    fn default() -> Self {
        Self { sandbox: true, network: Vec::new() }
    }
}

/// What tools may reach through the broker, beyond what the tool registry lists.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkSettings {
    /// Hosts whose addresses may be private, as `host:port`.
    #[serde(deserialize_with = "host_rules")]
    pub private: Vec<HostRule>,
}

/// Reads a list of rules for hosts.
pub fn host_rules<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<HostRule>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let rule = |text: String| HostRule::parse_with_addresses(&text).map_err(D::Error::custom);
    texts.into_iter().map(rule).collect()
}

/// How commands are confined.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sandbox {
    /// How strongly.
    pub level: Level,
    /// Files and folders that commands see, read-only.
    pub visible: Vec<PathBuf>,
    /// Folders that commands may write to besides the project.
    pub writable: Vec<PathBuf>,
    /// The limits of a command.
    pub limits: Limits,
}

/// The limits of a command; without a value the limit is the default one.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// How many processes it may have.
    pub processes: Option<u64>,
    /// How much memory, in MiB.
    pub memory_mb: Option<u64>,
    /// How large a file it may write, in MiB.
    pub file_mb: Option<u64>,
    /// How many files it may have open.
    pub open_files: Option<u64>,
}

/// The programs that Windlass itself starts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Helpers {
    /// The git program.
    pub git: Option<PathBuf>,
    /// The bwrap program.
    pub bwrap: Option<PathBuf>,
}

/// What git may do when Windlass starts it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GitSettings {
    /// The names of the filters that it may run.
    pub filters: Vec<String>,
}

/// The path of the file; `None` if the user has no folder for settings.
pub fn path() -> Option<PathBuf> {
    Some(user_folders::config()?.join("windlass/config.toml"))
}

impl UserConfig {
    /// Reads the file; without one the defaults hold.
    pub fn load() -> Result<Self, Failure> {
        let Some(path) = path() else { return Ok(Self::default()) };
        if path.metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            return Ok(Self::default());
        }
        let file = input::open(&path)?;
        require_own(&path, &file)?;
        let mut text = String::new();
        let read = file.take(BYTES_MAX + 1).read_to_string(&mut text);
        read.map_err(|error| unreadable(&path, &error))?;
        if u64::try_from(text.len()).map_or(true, |length| length > BYTES_MAX) {
            let message = format!("`{}` is larger than {BYTES_MAX} bytes", path.display());
            return Err(Failure::new(Code::DocSizeExceeded, message)
                .hint("keep only settings of Windlass in the file"));
        }
        Self::parse(&text).map_err(|message| {
            Failure::new(Code::ConfigInvalid, format!("{}:{message}", path.display()))
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut config: Self = toml::from_str(text).map_err(|error| {
            let (line, message) = toml_message(text, &error);
            format!("{line}: {message}")
        })?;
        let Sandbox { visible, writable, limits, .. } = &mut config.sandbox;
        for (name, list) in [("visible", visible), ("writable", writable)] {
            if list.len() > LIST_MAX {
                return Err(format!(" `sandbox.{name}` may list at most {LIST_MAX} paths"));
            }
            for path in list {
                *path =
                    expand(path).ok_or_else(|| not_absolute(&format!("sandbox.{name}"), path))?;
            }
        }
        let Limits { processes, memory_mb, file_mb, open_files } = *limits;
        let limits = [
            ("processes", processes),
            ("memory_mb", memory_mb),
            ("file_mb", file_mb),
            ("open_files", open_files),
        ];
        if let Some((name, _)) = limits.iter().find(|(_, value)| *value == Some(0)) {
            return Err(format!(" `sandbox.limits.{name}` must be at least 1"));
        }
        let Helpers { git, bwrap } = &config.helpers;
        for (name, helper) in [("git", git), ("bwrap", bwrap)] {
            if let Some(path) = helper.as_deref().filter(|path| !path.is_absolute()) {
                return Err(not_absolute(&format!("helpers.{name}"), path));
            }
        }
        for (name, agent) in &config.agents {
            Kind::of(name, agent)?;
            if let Some(secret) = &agent.credential
                && !config.secrets.contains_key(secret)
            {
                return Err(format!(" `agents.{name}.credential` is no name below [secrets]"));
            }
        }
        secrets::check(&config.secrets)?;
        let is_idle = |wrap: &WrapSettings| !wrap.sandbox && !wrap.network.is_empty();
        if let Some((name, _)) = config.wrap.iter().find(|(_, wrap)| is_idle(wrap)) {
            return Err(format!(" `wrap.{name}.network` has no effect with `sandbox = false`"));
        }
        let filters = &config.git.filters;
        let plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
        let is_name = |name: &String| !name.is_empty() && name.chars().all(plain);
        if filters.len() > LIST_MAX || !filters.iter().all(is_name) {
            return Err(format!(
                " `git.filters` may list at most {LIST_MAX} names of letters, digits, `_` and `-`"
            ));
        }
        Ok(config)
    }

    /// Reads the secrets that calls may name.
    pub fn named_secrets(&self) -> NamedSecrets {
        secrets::read(&self.secrets).with_hidden(agents::credentials())
    }

    /// Sets what git may do in this process.
    pub fn apply(&self) -> Result<(), Failure> {
        let filters: BTreeSet<String> = self.git.filters.iter().cloned().collect();
        let program = self.helpers.git.clone();
        if program.is_none() && filters.is_empty() {
            return Ok(());
        }
        let settings = windlass_workspace::GitSettings { program, filters };
        windlass_workspace::configure_git(settings)
            .map_err(|why| Failure::new(Code::HelperMissing, why))
    }

    /// The settings in one line, for people.
    pub fn describe(&self) -> String {
        let Sandbox { level, visible, writable, limits } = &self.sandbox;
        let mut words = vec![format!("sandbox level {}", level.as_str())];
        for (name, list) in [("visible", visible), ("writable", writable)] {
            words.extend((!list.is_empty()).then(|| format!("{} {name}", list.len())));
        }
        let Limits { processes, memory_mb, file_mb, open_files } = limits;
        let limits = [
            ("processes", processes),
            ("memory_mb", memory_mb),
            ("file_mb", file_mb),
            ("open_files", open_files),
        ];
        words.extend(
            limits.iter().filter_map(|(name, value)| value.map(|value| format!("{name} {value}"))),
        );
        for (name, helper) in [("git", &self.helpers.git), ("bwrap", &self.helpers.bwrap)] {
            words.extend(helper.as_ref().map(|path| format!("{name} {}", path.display())));
        }
        let filters = &self.git.filters;
        words.extend((!filters.is_empty()).then(|| format!("filters {}", filters.join(", "))));
        let names: Vec<&str> = self.secrets.keys().map(String::as_str).collect();
        words.extend((!names.is_empty()).then(|| format!("secrets {}", names.join(", "))));
        let names: Vec<&str> = self.wrap.keys().map(String::as_str).collect();
        words.extend((!names.is_empty()).then(|| format!("wrap {}", names.join(", "))));
        words.join("; ")
    }
}

fn not_absolute(name: &str, path: &Path) -> String {
    format!(" `{name}` has `{}`, which is not absolute", path.display())
}

/// An absolute path; `~/` is the user's home.
fn expand(path: &Path) -> Option<PathBuf> {
    match path.strip_prefix("~") {
        Ok(rest) => Some(user_folders::home()?.join(rest)),
        Err(_) => path.is_absolute().then(|| path.to_owned()),
    }
}

/// Fails if somebody else could have written the settings.
fn require_own(path: &Path, file: &File) -> Result<(), Failure> {
    let found = file.metadata().map_err(|error| unreadable(path, &error))?;
    let fail = |what: &str, hint: String| {
        let message = format!("your settings `{}` {what}", path.display());
        Err(Failure::new(Code::ConfigInvalid, message).hint(hint))
    };
    if !found.is_file() {
        return fail("are not a regular file", "replace it by a file".to_owned());
    }
    let user = rustix::process::geteuid().as_raw();
    if found.uid() != user && found.uid() != 0 {
        return fail("belong to another user", format!("`chown $USER {}`", path.display()));
    }
    if found.mode() & 0o022 != 0 {
        return fail("can be changed by other users", format!("`chmod go-w {}`", path.display()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_read() {
        let text = "[sandbox]\nlevel = \"landlock\"\nvisible = [\"/opt\"]\nwritable = [\"/srv/x\"]\n\
            [sandbox.limits]\nprocesses = 10\nmemory_mb = 20\nfile_mb = 30\nopen_files = 40\n\
            [helpers]\ngit = \"/usr/bin/git\"\nbwrap = \"/usr/bin/bwrap\"\n[git]\nfilters = [\"lfs\"]\n\
            [secrets]\nA = { env = \"A\" }\nB = { file = \"/b\" }\n";
        let config = UserConfig::parse(text).unwrap();
        assert_eq!(
            config.describe(),
            "sandbox level landlock; 1 visible; 1 writable; processes 10; memory_mb 20; file_mb 30; \
             open_files 40; git /usr/bin/git; bwrap /usr/bin/bwrap; filters lfs; secrets A, B"
        );
        assert_eq!(UserConfig::parse("").unwrap().describe(), "sandbox level full");
    }

    #[test]
    fn several_models_can_have_settings() {
        let text = "[agents.local]\nkind = \"model\"\napi = \"openai-chat\"\nmodel = \"m\"\n\
            endpoint = \"http://127.0.0.1:11434/v1\"\ncontext_tokens = 32000\n\
            [agents.big]\nkind = \"model\"\napi = \"anthropic\"\ncredential = \"A\"\n\
            input_per_million = 3.0\noutput_per_million = 15.0\ncached_per_million = 0.3\n\
            [agents.mine]\nkind = \"command\"\ncommand = [\"/bin/mine\"]\nnetwork = [\"a.example:443\"]\n\
            [agents.colleague]\nkind = \"person\"\n[agents.other]\nkind = \"codex\"\nmodel = \"n\"\n[secrets]\nA = { env = \"A\" }\n";
        let config = UserConfig::parse(text).unwrap();
        assert_eq!(
            config.agents.keys().collect::<Vec<_>>(),
            ["big", "colleague", "local", "mine", "other"]
        );
    }

    #[test]
    fn what_is_no_setting_is_refused() {
        for (text, says) in [
            ("colour = 1", "unknown field"),
            ("[sandbox]\nenabled = false", "unknown field"),
            ("[sandbox]\nlevel = \"off\"", "unknown variant"),
            ("[sandbox]\nvisible = [\"opt\"]", "not absolute"),
            ("[sandbox]\nwritable = [\"\"]", "not absolute"),
            ("[sandbox]\nwritable = [\"../x\"]", "not absolute"),
            ("[sandbox]\nwritable = [\"~other/x\"]", "not absolute"),
            ("[sandbox.limits]\nprocesses = 0", "at least 1"),
            ("[sandbox.limits]\nmemory_mb = -1", "line 2"),
            ("[helpers]\ngit = \"git\"", "not absolute"),
            ("[git]\nfilters = [\"a b\"]", "names of letters"),
            ("[secrets]\n\"a b\" = { env = \"A\" }", "a name has 1 to 64"),
            ("[secrets]\nA = { file = \"a\" }", "not absolute"),
            ("[secrets]\nA = {}", "exactly one of"),
            ("[secrets]\nA = { env = \"A\", file = \"/a\" }", "exactly one of"),
            ("[secrets]\nA = \"value\"", "line 2"),
            ("[wrap.x]\nnetwork = [\"a.example:443\"]\nsandbox = false", "has no effect"),
            ("[wrap.x]\ncolour = 1", "unknown field"),
            ("[agents.local]\nmodel = \"m\"", "has no `kind`"),
            ("[agents.local]\nkind = \"modle\"", "has an unknown kind"),
            ("[agents.\"a b\"]\nkind = \"claude\"", "a name has 1 to 64"),
            ("[agents.local]\nkind = \"model\"", "`agents.local.api` must be one of"),
            ("[agents.model]\napi = \"openai\"", "`agents.model.api` must be one of"),
            ("[agents.model]\napi = \"anthropic\"\ncommand = [\"x\"]", "is no setting of the kind"),
            ("[agents.claude]\napi = \"anthropic\"", "is no setting of the kind"),
            ("[agents.model]\napi = \"anthropic\"\ncontext_tokens = 1", "at least"),
            ("[agents.model]\napi = \"anthropic\"\ninput_per_million = -1.0", "no amount"),
            ("[agents.x]\nkind = \"command\"", "`agents.x.command` is missing"),
            ("[agents.person]\nmodel = \"m\"", "is no setting of the kind"),
            ("[agents.claude]\nnetwork = [\"a.example:443\"]", "is no setting of the kind"),
            ("[agents.claude]\ncredential = \"C\"", "is no name below [secrets]"),
        ] {
            let error = UserConfig::parse(text).unwrap_err();
            assert!(error.contains(says) || error.starts_with("2:"), "{text}: {error}");
        }
    }
}
