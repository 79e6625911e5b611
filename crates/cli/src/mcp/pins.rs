//! Wrapped servers as the user accepted them: how they are started, and how they describe their tools.
//!
//! One file for each server in the state folder, where no agent can reach it, and one for what waits to be accepted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_connect::ToolDescription;
use windlass_kernel::{Code, Digest, RiskLevel};
use windlass_mcp::ToolInfo;
use windlass_policy::{Connector, Server, Tool};

use super::host::Offered;
use crate::atomic;
use crate::failure::Failure;
use crate::input;
use crate::state::cannot_write;
use crate::user_config::UserConfig;

/// The folder in the state folder.
const FOLDER: &str = "wrapped";
/// How the names of files end: those of accepted servers, and of what waits.
const ACCEPTED: &str = "json";
const WAITING: &str = "new";
/// The maximum size of a file.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// The longest names of a server and of a tool.
const NAME_BYTES_MAX: usize = 56;
const TOOL_BYTES_MAX: usize = 64;

/// A server: how it is started, and its tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// Its command line.
    pub command: Vec<String>,
    /// The variables that it gets.
    pub env: Vec<String>,
    /// The tools that the user says only read.
    pub read: Vec<String>,
    /// Its tools by its own names.
    pub tools: BTreeMap<String, Definition>,
}

/// A tool as its server describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Definition {
    title: Option<String>,
    description: Option<String>,
    input_schema: Value,
    output_schema: Option<Value>,
    annotations: Option<Value>,
}

impl Definition {
    fn hint(&self, name: &str) -> Option<bool> {
        self.annotations.as_ref()?.get(name)?.as_bool()
    }

    /// The class: annotations raise it; only the user can lower it, and only if the server agrees.
    fn class(&self, is_read: bool) -> RiskLevel {
        match (self.hint("destructiveHint"), self.hint("readOnlyHint")) {
            (Some(true), _) => RiskLevel::HighRisk,
            (Some(false) | None, Some(true)) if is_read => RiskLevel::Read,
            (Some(false) | None, _) => RiskLevel::Write,
        }
    }
}

impl Pin {
    /// The server with these tools. A name that is listed twice means no tool.
    pub fn with_tools(&self, tools: &[ToolDescription]) -> Self {
        let mut all = BTreeMap::new();
        let mut twice = BTreeSet::new();
        for tool in tools {
            let definition = Definition {
                title: tool.title.clone(),
                description: tool.description.clone(),
                input_schema: tool.input_schema.clone(),
                output_schema: tool.output_schema.clone(),
                annotations: tool.annotations.clone(),
            };
            if all.insert(tool.name.clone(), definition).is_some() {
                twice.insert(tool.name.clone());
            }
        }
        all.retain(|name, _| !twice.contains(name));
        Self { tools: all, ..self.clone() }
    }

    /// Whether it is started in the same way and the same tools count as reading.
    pub fn is_started_like(&self, other: &Self) -> bool {
        (&self.command, &self.env, &self.read) == (&other.command, &other.env, &other.read)
    }

    /// The digest of all of it.
    pub fn digest(&self) -> Digest {
        Digest::of(&serde_json::to_vec(self).unwrap_or_default())
    }

    /// The tools by their names for the policy. If two get the same one, the second has none.
    fn names(&self) -> BTreeMap<String, &str> {
        let mut names = BTreeMap::new();
        let (exact, changed): (Vec<_>, Vec<_>) =
            self.tools.keys().partition(|name| tool_name(name) == **name);
        for name in exact.into_iter().chain(changed) {
            names.entry(tool_name(name)).or_insert(name.as_str());
        }
        names
    }

    /// The server for the registry.
    pub fn server(&self, name: &str, user: &UserConfig) -> Server {
        let settings = user.wrap.get(name).cloned().unwrap_or_default();
        let connector = Connector::McpStdio {
            command: self.command.clone(),
            sandbox: settings.sandbox,
            network: settings.network,
        };
        let tools = self
            .names()
            .into_iter()
            .filter_map(|(name, remote)| Some(Tool::wrapped(&name, remote, self.class(remote)?)));
        Server::wrapped(name, connector, self.env.clone(), tools)
    }

    fn class(&self, name: &str) -> Option<RiskLevel> {
        let is_read = self.read.iter().any(|read| read == name);
        self.tools.get(name).map(|definition| definition.class(is_read))
    }

    /// The tools as clients see them: by their own names.
    pub fn offered(&self, server: &str) -> Vec<Offered> {
        let offered = self.names().into_iter().filter_map(|(tool, own)| {
            let definition = self.tools.get(own)?;
            let info = ToolInfo {
                name: own.to_owned(),
                title: definition.title.clone(),
                description: definition.description.clone().unwrap_or_default(),
                input_schema: definition.input_schema.clone(),
                output_schema: definition.output_schema.clone(),
                annotations: definition.annotations.clone(),
            };
            Some(Offered { server: server.to_owned(), tool, class: self.class(own)?, info })
        });
        offered.collect()
    }

    /// What differs in a later state of it, one line each.
    pub fn differences(&self, new: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut compare = |what: &str, old: Value, new: Value| {
            if old != new {
                for (sign, value) in [('-', old), ('+', new)] {
                    let shown = match value {
                        Value::Null => continue,
                        Value::String(text) => text,
                        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                            value.to_string()
                        }
                    };
                    lines.push(format!("{sign} {what}: {shown}"));
                }
            }
        };
        compare("command", self.command.join(" ").into(), new.command.join(" ").into());
        compare("env", self.env.join(", ").into(), new.env.join(", ").into());
        compare("read", self.read.join(", ").into(), new.read.join(", ").into());
        let names: BTreeSet<&String> = self.tools.keys().chain(new.tools.keys()).collect();
        for name in names {
            let fields = |pin: &Self| {
                let value = pin.tools.get(name).map(serde_json::to_value);
                value.and_then(Result::ok).unwrap_or_default()
            };
            let (old, new) = (fields(self), fields(new));
            for field in ["title", "description", "inputSchema", "outputSchema", "annotations"] {
                let value = |of: &Value| of.get(field).cloned().unwrap_or_default();
                compare(&format!("{name} {field}"), value(&old), value(&new));
            }
        }
        lines
    }
}

/// The files of a project.
#[derive(Clone, Debug)]
pub struct Pins {
    folder: PathBuf,
}

impl Pins {
    /// Those of a state folder.
    pub fn of(state: &Path) -> Self {
        Self { folder: state.join(FOLDER) }
    }

    fn path(&self, name: &str, kind: &str) -> PathBuf {
        self.folder.join(format!("{name}.{kind}"))
    }

    fn read(&self, name: &str, kind: &str) -> Result<Option<Pin>, Failure> {
        let path = self.path(name, kind);
        if !path.exists() {
            return Ok(None);
        }
        let bytes = input::read(&path, FILE_BYTES_MAX)?;
        let pin = serde_json::from_slice(&bytes).map_err(|error| {
            let message = format!("the record of wrapped server `{name}` is damaged: {error}");
            let hint = format!("remove `{}`; the server is then recorded anew", path.display());
            Failure::new(Code::StateDamaged, message).hint(hint)
        })?;
        Ok(Some(pin))
    }

    fn write(&self, name: &str, kind: &str, pin: &Pin) -> Result<(), Failure> {
        let path = self.path(name, kind);
        let text =
            serde_json::to_vec_pretty(pin).map_err(|error| Failure::of(Code::Internal, &error))?;
        std::fs::create_dir_all(&self.folder)
            .and_then(|()| atomic::write(&path, &text))
            .map_err(|error| cannot_write(&path, &error))
    }

    /// The server as the user accepted it.
    pub fn accepted(&self, name: &str) -> Result<Option<Pin>, Failure> {
        self.read(name, ACCEPTED)
    }

    /// What waits to be accepted.
    pub fn waiting(&self, name: &str) -> Result<Option<Pin>, Failure> {
        self.read(name, WAITING)
    }

    /// Records a server as accepted; nothing waits any more.
    pub fn accept(&self, name: &str, pin: &Pin) -> Result<(), Failure> {
        self.write(name, ACCEPTED, pin)?;
        self.forget_waiting(name)
    }

    /// Records what waits to be accepted.
    pub fn propose(&self, name: &str, pin: &Pin) -> Result<(), Failure> {
        self.write(name, WAITING, pin)
    }

    /// Nothing waits.
    pub fn forget_waiting(&self, name: &str) -> Result<(), Failure> {
        let path = self.path(name, WAITING);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(cannot_write(&path, &error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// All accepted servers, for commands that decide on their calls. One whose record cannot be read is left out: its
/// calls are then refused.
pub fn servers(state: &Path, user: &UserConfig) -> Vec<Server> {
    let pins = Pins::of(state);
    let entries = std::fs::read_dir(&pins.folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_suffix(".json").filter(|name| is_name(name)).map(str::to_owned)
    });
    names.filter_map(|name| Some(pins.accepted(&name).ok()??.server(&name, user))).collect()
}

const fn is_plain(char: char) -> bool {
    matches!(char, 'a'..='z' | '0'..='9' | '_' | '-')
}

/// Whether a text can be the name of a wrapped server.
pub fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_plain)
}

fn lowered(name: &str, chars_max: usize) -> String {
    let plain = |char: char| if is_plain(char) { char } else { '_' };
    name.chars().map(|char| plain(char.to_ascii_lowercase())).take(chars_max).collect()
}

/// The name of a server that a text stands for.
pub fn plain_name(name: &str) -> String {
    lowered(name, NAME_BYTES_MAX)
}

/// The name of a tool for the policy.
fn tool_name(name: &str) -> String {
    lowered(name, TOOL_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(annotations: Value) -> Definition {
        Definition {
            title: None,
            description: Some("does".to_owned()),
            input_schema: json!({ "type": "object" }),
            output_schema: None,
            annotations: Some(annotations),
        }
    }

    #[test]
    fn annotations_raise_a_class_and_never_lower_it() {
        for (annotations, listed, class) in [
            (json!({}), false, RiskLevel::Write),
            (json!({}), true, RiskLevel::Write),
            (json!({ "readOnlyHint": true }), false, RiskLevel::Write),
            (json!({ "readOnlyHint": true }), true, RiskLevel::Read),
            (json!({ "readOnlyHint": false }), true, RiskLevel::Write),
            (json!({ "readOnlyHint": "true" }), true, RiskLevel::Write),
            (json!({ "destructiveHint": true }), false, RiskLevel::HighRisk),
            (json!({ "readOnlyHint": true, "destructiveHint": true }), true, RiskLevel::HighRisk),
        ] {
            assert_eq!(definition(annotations.clone()).class(listed), class, "{annotations}");
        }
    }

    #[test]
    fn names_of_tools_are_distinct_for_the_policy() {
        let tools = ["readFile", "readfile", "a/b", "a b"];
        let tools = tools.map(|name| (name.to_owned(), definition(json!({}))));
        let pin = Pin { tools: tools.into(), ..Pin::default() };
        let expected = [("a_b", "a b"), ("readfile", "readfile")];
        let expected = expected.map(|(name, own)| (name.to_owned(), own));
        assert_eq!(pin.names(), expected.into());
        let offered: Vec<_> = pin.offered("x").into_iter().map(|one| one.info.name).collect();
        assert_eq!(offered, ["a b", "readfile"]);
    }

    #[test]
    fn a_name_that_two_tools_have_is_offered_by_neither() {
        let tool = |name: &str, description: &str| ToolDescription {
            name: name.to_owned(),
            title: None,
            description: Some(description.to_owned()),
            input_schema: json!({ "type": "object" }),
            output_schema: None,
            annotations: None,
            read_only: None,
            destructive: None,
            idempotent: None,
        };
        let tools = [tool("a", "one"), tool("b", "other"), tool("a", "two")];
        let pin = Pin::default().with_tools(&tools);
        assert_eq!(pin.tools.keys().collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn what_is_accepted_no_longer_waits() {
        let folder = tempfile::tempdir().unwrap();
        let pins = Pins::of(folder.path());
        let new = Pin { env: vec!["TOKEN".to_owned()], ..Pin::default() };
        pins.propose("notes", &new).unwrap();
        assert_eq!(pins.accepted("notes").unwrap(), None);
        assert_eq!(pins.waiting("notes").unwrap(), Some(new.clone()));
        pins.accept("notes", &new).unwrap();
        assert_eq!(pins.accepted("notes").unwrap(), Some(new));
        assert_eq!(pins.waiting("notes").unwrap(), None);
    }

    #[test]
    fn a_server_with_another_command_variable_or_read_tool_is_started_differently() {
        let own = Pin { command: vec!["notes".to_owned()], ..Pin::default() };
        let tools = [("a".to_owned(), definition(json!({})))].into();
        assert!(own.is_started_like(&Pin { tools, ..own.clone() }));
        for other in [
            Pin { command: vec!["other".to_owned()], ..own.clone() },
            Pin { env: vec!["TOKEN".to_owned()], ..own.clone() },
            Pin { read: vec!["a".to_owned()], ..own.clone() },
        ] {
            assert!(!own.is_started_like(&other), "{other:?}");
        }
    }

    #[test]
    fn a_difference_shows_both_sides() {
        let old = Pin {
            command: vec!["a".to_owned()],
            tools: [("t".to_owned(), definition(json!({})))].into(),
            ..Pin::default()
        };
        let mut new = old.clone();
        assert!(old.differences(&new).is_empty());
        new.command.push("b".to_owned());
        let changed = Definition { description: Some("more".to_owned()), ..definition(json!({})) };
        new.tools.insert("t".to_owned(), changed);
        assert_eq!(
            old.differences(&new),
            ["- command: a", "+ command: a b", "- t description: does", "+ t description: more"]
        );
        assert_ne!(old.digest(), new.digest());
    }
}
