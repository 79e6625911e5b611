//! A mission: a task with a name and parameters, and the loop that it goes through.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};
use thiserror::Error;
use windlass_kernel::{Code, Digest};
use windlass_text::nearest;
use windlass_text::yaml::{Node, Value};

use crate::error::{Diagnostic, FileKind, LoopError, Problem, shown};
use crate::file::named_as_file;
use crate::markdown::MarkdownFile;
use crate::parts::fields::{self, Fields, listed};
use crate::parts::text;

/// The most parameters of a mission.
const PARAMETERS_MAX: usize = 50;
/// The longest value of a parameter, in characters.
const VALUE_CHARS_MAX: usize = 10_000;

const KEYS: [&str; 10] = [
    "name",
    "description",
    "loop",
    "variant",
    "with",
    "worktree",
    "parameters",
    "task_ref",
    "context_refs",
    "constraints",
];

/// A checked mission file.
#[derive(Clone, Debug, PartialEq)]
pub struct MissionFile {
    /// What the mission is for.
    pub description: String,
    /// The digest of the file's bytes.
    pub digest: Digest,
    /// The loop that its task goes through.
    pub loop_name: String,
    /// The mission's name: the file's name without `.md`.
    pub name: String,
    /// Its parameters, by name.
    pub parameters: BTreeMap<String, Parameter>,
    /// The task, in which `{{name}}` stands for the value of a parameter.
    pub task: Json,
    /// The variant of the loop.
    pub variant: Option<String>,
    /// Phases to include that are optional or excluded by the variant.
    pub with: Vec<String>,
    /// Whether the run works in a work tree of its own.
    pub worktree: bool,
}

/// A parameter of a mission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameter {
    /// What it is for.
    pub description: Option<String>,
    /// Its value if none is given; without one it must be given.
    pub default: Option<String>,
}

/// Why a mission cannot be started with these values.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ExpandError {
    /// Values that must be given are missing.
    #[error("mission `{mission}` needs {}", listed(names.iter().map(String::as_str)))]
    Missing {
        /// The mission.
        mission: String,
        /// The parameters.
        names: Vec<String>,
    },
    /// There is no such parameter.
    #[error("mission `{mission}` has no parameter `{name}`")]
    Unknown {
        /// The mission.
        mission: String,
        /// The name.
        name: String,
        /// A parameter with a similar name.
        suggestion: Option<String>,
    },
    /// A value is too long.
    #[error("the value of `{name}` has more than {VALUE_CHARS_MAX} characters")]
    TooLong {
        /// The parameter.
        name: String,
    },
}

impl ExpandError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> Code {
        Code::RequestInvalid
    }

    /// How to fix it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Missing { names, .. } => {
                let given: Vec<String> =
                    names.iter().map(|name| format!("--set {name}=VALUE")).collect();
                format!("add {}", given.join(" "))
            }
            Self::Unknown { suggestion: Some(name), .. } => format!("did you mean `{name}`?"),
            Self::Unknown { mission, .. } => {
                format!("`windlass mission show {mission}` lists its parameters")
            }
            Self::TooLong { .. } => "put the text into a file and name the file".to_owned(),
        }
    }
}

impl MissionFile {
    /// Parses the file at `path`.
    ///
    /// # Errors
    /// [`LoopError`] with the first problem.
    pub fn parse(path: &str, bytes: &[u8]) -> Result<Self, LoopError> {
        let file = MarkdownFile { path, bytes, kind: FileKind::Mission };
        read(&file).map_err(|diagnostic| file.locate(diagnostic))
    }

    /// The values of all parameters: those that are given, and the defaults of the others.
    ///
    /// # Errors
    /// [`ExpandError`] if one is missing, unknown or too long.
    pub fn values(
        &self,
        given: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, ExpandError> {
        let mission = self.name.clone();
        let names = || self.parameters.keys().map(String::as_str);
        if let Some(name) = given.keys().find(|name| !self.parameters.contains_key(*name)) {
            let suggestion = nearest(name, names()).map(str::to_owned);
            return Err(ExpandError::Unknown { mission, name: shown(name), suggestion });
        }
        let long = |value: &&String| value.chars().count() > VALUE_CHARS_MAX;
        if let Some((name, _)) = given.iter().find(|(_, value)| long(value)) {
            return Err(ExpandError::TooLong { name: name.clone() });
        }
        let mut values = BTreeMap::new();
        let mut missing = Vec::new();
        for (name, parameter) in &self.parameters {
            match given.get(name).or(parameter.default.as_ref()) {
                Some(value) => drop(values.insert(name.clone(), value.clone())),
                None => missing.push(name.clone()),
            }
        }
        if missing.is_empty() {
            Ok(values)
        } else {
            Err(ExpandError::Missing { mission, names: missing })
        }
    }

    /// The task with the values of its parameters.
    #[must_use]
    pub fn expand(&self, values: &BTreeMap<String, String>) -> Json {
        fill(&self.task, values)
    }
}

fn fill(template: &Json, values: &BTreeMap<String, String>) -> Json {
    match template {
        Json::String(text) => Json::String(fill_text(text, values)),
        Json::Array(items) => items.iter().map(|item| fill(item, values)).collect(),
        Json::Object(object) => Json::Object(
            object.iter().map(|(key, value)| (key.clone(), fill(value, values))).collect(),
        ),
        Json::Null | Json::Bool(_) | Json::Number(_) => template.clone(),
    }
}

/// A text with the values in the places of their names. What a value contains is not looked at again.
fn fill_text(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut filled = String::new();
    for (literal, name) in pieces(text) {
        filled.push_str(literal);
        if let Some(value) = name.and_then(|name| values.get(name)) {
            filled.push_str(value);
        }
    }
    filled
}

/// The parts of a text, each with the name in braces that follows it.
fn pieces(text: &str) -> Vec<(&str, Option<&str>)> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((literal, after)) = rest.split_once("{{") {
        let Some((name, behind)) = after.split_once("}}") else { break };
        parts.push((literal, Some(name.trim())));
        rest = behind;
    }
    parts.push((rest, None));
    parts
}

fn read(file: &MarkdownFile<'_>) -> Result<MissionFile, Diagnostic> {
    let document = file.parse()?;
    let fields = Fields::new(&document.frontmatter, "frontmatter", "a mission", &KEYS)?;
    let name = named_as_file(fields.required("name")?, "name", file)?;
    let description = text::line(fields.required("description")?, "description")?;
    let loop_name = match fields.get("loop") {
        Some(node) => text::id(node, "loop", "the name of a loop")?,
        None => "spine".to_owned(),
    };
    let variant =
        fields.get("variant").map(|node| text::id(node, "variant", "the name of a variant"));
    let with = match fields.get("with") {
        Some(node) => fields::list(node, "with")?
            .iter()
            .map(|item| text::id(item, "with", "the name of a phase"))
            .collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    let worktree = fields.get("worktree").map(|node| fields::boolean(node, "worktree"));
    let parameters = match fields.get("parameters") {
        Some(node) => parameters(node)?,
        None => BTreeMap::new(),
    };
    let body = document.body.trim();
    if body.is_empty() {
        return Err(Problem::NoPrompt.at(document.body_position));
    }
    let mut task = Map::new();
    task.insert("task".to_owned(), Json::String(body.to_owned()));
    let mut named: BTreeSet<&str> = pieces(body).into_iter().filter_map(|(_, name)| name).collect();
    for key in ["task_ref", "context_refs", "constraints"] {
        let Some(node) = fields.get(key) else { continue };
        task.insert(key.to_owned(), fields::json(node)?);
        let mut texts = Vec::new();
        strings(node, &mut texts);
        let more = texts.into_iter().flat_map(pieces).filter_map(|(_, name)| name);
        named.extend(more);
    }
    if let Some(unknown) = named.into_iter().find(|name| !parameters.contains_key(*name)) {
        let names = || parameters.keys().map(String::as_str);
        let suggestion = nearest(unknown, names()).map(str::to_owned);
        let (key, known) = (shown(unknown), listed(names()));
        let what = "`parameters`";
        return Err(Problem::UnknownKey { what, key, suggestion, known }.at(document.body_position));
    }
    Ok(MissionFile {
        description,
        digest: Digest::of(file.bytes),
        loop_name,
        name,
        parameters,
        task: Json::Object(task),
        variant: variant.transpose()?,
        with,
        worktree: worktree.transpose()?.unwrap_or(false),
    })
}

/// All texts in a value.
fn strings<'a>(node: &'a Node, found: &mut Vec<&'a str>) {
    match &node.value {
        Value::Text(text) => found.push(text),
        Value::List(items) => items.iter().for_each(|item| strings(item, found)),
        Value::Map(entries) => entries.iter().for_each(|(_, value)| strings(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn parameters(node: &Node) -> Result<BTreeMap<String, Parameter>, Diagnostic> {
    let entries = fields::map(node, "parameters")?;
    if entries.len() > PARAMETERS_MAX {
        return Err(Problem::TooMany { key: "parameters", max: PARAMETERS_MAX }.at(node.position));
    }
    let mut parameters = BTreeMap::new();
    for (key, value) in entries {
        if !text::is_id(&key.name) {
            return Err(text::bad_id(&key.name, "the name of a parameter").at(key.position));
        }
        let known = ["description", "default"];
        let fields = Fields::new(value, "parameters", "a parameter", &known)?;
        let description = fields.get("description").map(|node| text::line(node, "description"));
        let default =
            fields.get("default").map(|node| text::prose(node, "default", VALUE_CHARS_MAX));
        let parameter =
            Parameter { description: description.transpose()?, default: default.transpose()? };
        parameters.insert(key.name.clone(), parameter);
    }
    Ok(parameters)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FILE: &str = "---
name: raise
description: Raise a price.
loop: spine
parameters:
  item: { description: What costs more. }
  price: { default: \"2\" }
context_refs: [\"src/{{item}}.txt\"]
---
Raise the price of {{item}} to {{ price }}.
";

    fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn values_take_the_places_of_their_names_once() {
        let mission = MissionFile::parse("missions/raise.md", FILE.as_bytes()).unwrap();
        let values = mission.values(&given(&[("item", "{{price}}")])).unwrap();
        assert_eq!(
            mission.expand(&values),
            json!({
                "task": "Raise the price of {{price}} to 2.",
                "context_refs": ["src/{{price}}.txt"],
            })
        );
    }

    #[test]
    fn missing_and_unknown_values_are_told() {
        let mission = MissionFile::parse("raise.md", FILE.as_bytes()).unwrap();
        let missing = mission.values(&given(&[])).unwrap_err();
        assert_eq!(missing.to_string(), "mission `raise` needs `item`");
        assert_eq!(missing.hint(), "add --set item=VALUE");
        let unknown = mission.values(&given(&[("itme", "a")])).unwrap_err();
        assert_eq!(unknown.hint(), "did you mean `item`?");
    }

    #[test]
    fn a_file_that_is_no_mission_is_refused() {
        for (from, to, why) in [
            ("name: raise", "name: lower", "named `raise`"),
            ("{{item}} to", "{{thing}} to", "`parameters` has no key `thing`"),
            ("loop: spine", "loops: spine", "no key `loops`"),
            ("Raise the price of {{item}} to {{ price }}.\n", "", "no "),
            ("item: {", "Item: {", "name of a parameter"),
            ("context_refs: [\"src/{{item}}", "context_refs: [\"src/{{other}}", "`other`"),
        ] {
            let text = FILE.replacen(from, to, 1);
            assert_ne!(text, FILE);
            let error = MissionFile::parse("raise.md", text.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
