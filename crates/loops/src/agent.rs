//! An agent file, in the format of Claude Code's subagents.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use windlass_kernel::Digest;
use windlass_text::yaml::{Node, Value};

use crate::error::{Diagnostic, FileKind, LoopError, Problem};
use crate::file::named_as_file;
use crate::markdown::MarkdownFile;
use crate::parts::fields::{self, Fields};
use crate::parts::{number, text};

/// The longest description, in characters.
const DESCRIPTION_CHARS_MAX: usize = 20_000;

/// A checked agent file.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentFile {
    /// What the agent is for.
    pub description: String,
    /// The digest of the file's bytes.
    pub digest: Digest,
    /// The tools that the agent may not use.
    pub disallowed_tools: Vec<String>,
    /// The model, as the file names it.
    pub model: Option<String>,
    /// The other keys of the format, as they stand in the file: `background`, `color`, `effort`,
    /// `hooks`, `initialPrompt`, `isolation`, `maxTurns`, `mcpServers`, `memory`,
    /// `permissionMode`, `skills`.
    pub more: BTreeMap<String, Json>,
    /// The agent's name: the file's name without `.md`.
    pub name: String,
    /// The prompt: the text below the frontmatter.
    pub prompt: String,
    /// The agents that it may start within its work.
    pub subagents: Vec<String>,
    /// The tools that the agent may use; all of its runner's when absent.
    pub tools: Option<Vec<String>>,
}

const KEYS: [&str; 17] = [
    "name",
    "description",
    "tools",
    "disallowedTools",
    "subagents",
    "model",
    "permissionMode",
    "maxTurns",
    "skills",
    "mcpServers",
    "hooks",
    "memory",
    "background",
    "effort",
    "isolation",
    "color",
    "initialPrompt",
];

impl AgentFile {
    /// Parses the file at `path`.
    ///
    /// # Errors
    ///
    /// [`LoopError`] with the first problem.
    pub fn parse(path: &str, bytes: &[u8]) -> Result<Self, LoopError> {
        let file = MarkdownFile { path, bytes, kind: FileKind::Agent };
        read(&file).map_err(|diagnostic| file.locate(diagnostic))
    }
}

fn read(file: &MarkdownFile<'_>) -> Result<AgentFile, Diagnostic> {
    let document = file.parse()?;
    let fields = Fields::new(&document.frontmatter, "frontmatter", "an agent", &KEYS)?;
    let name = named_as_file(fields.required("name")?, "name", file)?;
    let description = fields.required("description")?;
    let description = text::prose(description, "description", DESCRIPTION_CHARS_MAX)?;
    let model = fields.get("model").map(|node| text::line(node, "model")).transpose()?;
    let tools = fields.get("tools").map(|node| names(node, "tools")).transpose()?;
    let disallowed = fields.get("disallowedTools").map(|node| names(node, "disallowedTools"));
    let disallowed_tools = disallowed.transpose()?.unwrap_or_default();
    let subagents = fields.get("subagents").map(subagents).transpose()?.unwrap_or_default();
    let more = more(&fields)?;
    let prompt = document.body.trim();
    if prompt.is_empty() {
        return Err(Problem::NoPrompt.at(document.body_position));
    }
    Ok(AgentFile {
        description,
        digest: Digest::of(file.bytes),
        disallowed_tools,
        model,
        more,
        name,
        prompt: prompt.to_owned(),
        subagents,
        tools,
    })
}

/// The keys that only some runners use: their types are checked, their values are kept.
fn more(fields: &Fields<'_>) -> Result<BTreeMap<String, Json>, Diagnostic> {
    let mut more = BTreeMap::new();
    for key in KEYS {
        let Some(node) = fields.get(key) else { continue };
        match key {
            "name" | "description" | "tools" | "disallowedTools" | "model" | "subagents" => {
                continue;
            }
            "maxTurns" => {
                number::whole(node, key, 1, number::SAFE_MAX)?;
            }
            "background" => {
                fields::boolean(node, key)?;
            }
            "skills" => {
                more.insert(key.to_owned(), Json::from(names(node, key)?));
                continue;
            }
            "hooks" => {
                fields::map(node, key)?;
            }
            "mcpServers" if matches!(node.value, Value::Map(_) | Value::List(_)) => {}
            "mcpServers" => return Err(fields::wrong(node, key, "a list or a mapping")),
            "effort" if matches!(node.value, Value::Number(_)) => {
                number::whole(node, key, 1, number::SAFE_MAX)?;
            }
            "initialPrompt" => drop(text::prose(node, key, text::PROMPT_CHARS_MAX)?),
            "permissionMode" => one_of(
                node,
                key,
                &["default", "acceptEdits", "bypassPermissions", "plan", "dontAsk", "auto"],
            )?,
            "memory" => one_of(node, key, &["user", "project", "local"])?,
            "isolation" => one_of(node, key, &["worktree"])?,
            _ => drop(text::line(node, key)?),
        }
        more.insert(key.to_owned(), fields::json(node)?);
    }
    Ok(more)
}

/// The names of agents, each once.
fn subagents(node: &Node) -> Result<Vec<String>, Diagnostic> {
    // An empty list is as none.
    if matches!(&node.value, Value::List(items) if items.is_empty()) {
        return Ok(Vec::new());
    }
    let mut names = names(node, "subagents")?;
    if let Some(name) = names.iter().find(|name| !text::is_id(name)) {
        return Err(text::bad_id(name, "name of an agent").at(node.position));
    }
    names.sort();
    names.dedup();
    Ok(names)
}

fn one_of(node: &Node, key: &'static str, words: &[&str]) -> Result<(), Diagnostic> {
    let words: Vec<(&str, ())> = words.iter().map(|word| (*word, ())).collect();
    fields::choice(node, key, &words)
}

/// Names in a list, or in one text separated by commas; a comma in parentheses does not separate.
fn names(node: &Node, key: &str) -> Result<Vec<String>, Diagnostic> {
    if let Value::List(items) = &node.value {
        return items.iter().map(|item| text::line(item, key)).collect();
    }
    let Value::Text(_) = node.value else {
        return Err(fields::wrong(node, key, "text or a list"));
    };
    let line = text::prose(node, key, DESCRIPTION_CHARS_MAX)?;
    let mut names = vec![String::new()];
    let mut inside = 0usize;
    for character in line.chars() {
        match character {
            '(' => inside += 1,
            ')' => inside = inside.saturating_sub(1),
            _ => {}
        }
        match names.last_mut() {
            Some(name) if character != ',' || inside > 0 => name.push(character),
            _ => names.push(String::new()),
        }
    }
    let names: Vec<String> = names.iter().map(|name| name.trim().to_owned()).collect();
    if names.iter().any(String::is_empty) {
        return Err(Problem::Empty(key.to_owned()).at(node.position));
    }
    Ok(names)
}
