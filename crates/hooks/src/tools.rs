//! Which tool of a client is which call of ours.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use crate::arguments;
use crate::client::Client;
use crate::event::ToolUse;
use crate::mcp;
use crate::paths::Folders;

/// A call of ours that a tool use of a client stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct MappedCall {
    /// The server: `shell`, `fs`, or `client` for a tool that only the client has.
    pub server: String,
    /// The tool.
    pub tool: String,
    /// The arguments; those of a tool of `client` are its input as the client sent it.
    pub args: Value,
}

/// What a tool use stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum Mapping {
    /// Calls of ours; at least one. The tool use is permitted only if all of them are.
    Calls(Vec<MappedCall>),
    /// A call of an MCP server of the client; never a server that is named like one of ours.
    Mcp {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// The arguments.
        args: Value,
    },
    /// Something inside the client: a list of tasks, a question to a person, a subagent whose own calls are asked
    /// about.
    Internal,
    /// A tool that is not known; to be refused.
    Unknown,
    /// An input that does not fit the tool; to be refused.
    Invalid {
        /// Why.
        reason: String,
    },
}

/// The known tools of all clients.
#[derive(Debug, Default)]
pub struct ToolTable(Vec<Entry>);

/// One line of the table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    client: Client,
    tools: Vec<String>,
    /// Fields that it may have besides those of the form: they change neither what is done nor which files are used.
    #[serde(default)]
    also: Names,
    #[serde(rename = "as")]
    form: Form,
}

impl Entry {
    /// Refuses a field that is not known: it may choose the program, its variables or its files.
    fn check_fields(&self, input: &Value) -> Result<(), String> {
        let Some(known) = self.form.fields() else { return Ok(()) };
        let given = input.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        let mut unknown = given
            .map(|(name, _)| name)
            .filter(|name| !known.contains(&name.as_str()) && !self.also.contains(name));
        match unknown.next() {
            Some(name) => Err(format!("the field `{name}` is not known")),
            None => Ok(()),
        }
    }
}

/// The names that a field may have; at most one of them may be given.
pub(crate) type Names = Vec<String>;

/// What a tool does, and the fields of its input.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Form {
    /// Runs a line of shell.
    Command {
        /// The line, or a list of words.
        line: Names,
        /// The folder to run it in.
        #[serde(default)]
        folder: Names,
        /// The shell that runs it.
        #[serde(default)]
        shell: Names,
    },
    /// Reads a file.
    Read {
        path: Names,
        /// Our arguments that are numbers, and their fields.
        #[serde(default)]
        counts: BTreeMap<String, String>,
    },
    /// Lists a folder.
    List { path: Names },
    /// Finds files by name.
    Find { pattern: Names, path: Names },
    /// Searches the contents of files.
    Search {
        pattern: Names,
        path: Names,
        #[serde(default)]
        glob: Names,
        #[serde(default)]
        ignore_case: Names,
        /// Whether ignored files are searched, too.
        #[serde(default)]
        ignored: Names,
    },
    /// Writes a file.
    Write { path: Names, content: Names },
    /// Replaces text in a file.
    Edit {
        path: Names,
        /// The list of replacements; without it the input is one.
        #[serde(default)]
        list: Names,
        old: Names,
        new: Names,
        #[serde(default)]
        all: Names,
    },
    /// Changes a cell of a notebook.
    Notebook { path: Names, source: Names },
    /// Applies a patch to several files.
    Patch { text: Names },
    /// Something that only the client does.
    Own { tool: String },
    /// Nothing outside the client.
    Internal,
}

impl Form {
    /// The fields that it understands; `None` if its whole input is judged or nothing is done outside the client.
    fn fields(&self) -> Option<Vec<&str>> {
        let mut all: Vec<&Names> = Vec::new();
        let mut names: Vec<&str> = Vec::new();
        match self {
            Self::Command { line, folder, shell } => all.extend([line, folder, shell]),
            Self::Read { path, counts } => {
                all.push(path);
                names.extend(counts.values().map(String::as_str));
            }
            Self::List { path } => all.push(path),
            Self::Find { pattern, path } => all.extend([pattern, path]),
            Self::Search { pattern, path, glob, ignore_case, ignored } => {
                all.extend([pattern, path, glob, ignore_case, ignored]);
            }
            Self::Write { path, content } => all.extend([path, content]),
            Self::Edit { path, list, old, new, all: every } if list.is_empty() => {
                all.extend([path, old, new, every]);
            }
            Self::Edit { path, list, .. } => all.extend([path, list]),
            Self::Notebook { path, source } => all.extend([path, source]),
            Self::Patch { text } => all.push(text),
            Self::Own { .. } | Self::Internal => return None,
        }
        names.extend(all.into_iter().flatten().map(String::as_str));
        Some(names)
    }
}

static SHIPPED: LazyLock<ToolTable> = LazyLock::new(|| {
    // A table that cannot be read, which a test rules out, makes every tool unknown.
    ToolTable::read(include_str!("tools.json")).unwrap_or_default()
});

impl ToolTable {
    /// The table that is part of this crate.
    #[must_use]
    pub fn shipped() -> &'static Self {
        &SHIPPED
    }

    fn read(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text).map(Self)
    }

    /// Returns what a tool use in the workspace `root` stands for, if the client works in `root` itself.
    #[must_use]
    pub fn map(&self, client: Client, tool_use: &ToolUse, root: &str) -> Mapping {
        self.map_within(client, tool_use, root, root)
    }

    /// Returns what a tool use in the workspace `root` stands for, if the client works in `cwd`.
    ///
    /// Paths below `root` become relative to it, others absolute; relative ones are taken from `cwd`. A line of shell
    /// that runs elsewhere than in `root` gets a `cd` before it.
    #[must_use]
    pub fn map_within(&self, client: Client, tool_use: &ToolUse, root: &str, cwd: &str) -> Mapping {
        match mcp::tool(client, tool_use) {
            Err(reason) => return Mapping::Invalid { reason },
            Ok(Some((server, tool))) => {
                return Mapping::Mcp { server, tool, args: tool_use.input.clone() };
            }
            Ok(None) => {}
        }
        let Some(entry) = self.entry(client, tool_use) else { return Mapping::Unknown };
        let form = &entry.form;
        if matches!(form, Form::Internal) {
            return Mapping::Internal;
        }
        if let Err(reason) = entry.check_fields(&tool_use.input) {
            return Mapping::Invalid { reason: format!("`{}`: {reason}", tool_use.name) };
        }
        match arguments::calls(form, &tool_use.input, Folders::new(root, cwd)) {
            Ok(calls) if !calls.is_empty() => Mapping::Calls(calls),
            Ok(_) => Mapping::Invalid { reason: "it changes no file".to_owned() },
            Err(reason) => Mapping::Invalid { reason: format!("`{}`: {reason}", tool_use.name) },
        }
    }

    /// Returns the tool's input with `line` in place of its command, or `None` if it is not a tool that runs one.
    ///
    /// The client still runs it in the folder that the input names.
    #[must_use]
    pub fn with_command(&self, client: Client, tool_use: &ToolUse, line: &str) -> Option<Value> {
        match mcp::tool(client, tool_use) {
            Ok(None) => {
                arguments::with_command(self.form(client, tool_use)?, &tool_use.input, line)
            }
            Ok(Some(_)) | Err(_) => None,
        }
    }

    /// Returns the line of shell of a tool that runs one, as the client gives it.
    #[must_use]
    pub fn command_of(&self, client: Client, tool_use: &ToolUse) -> Option<String> {
        match mcp::tool(client, tool_use) {
            Ok(None) => arguments::command_of(self.form(client, tool_use)?, &tool_use.input),
            Ok(Some(_)) | Err(_) => None,
        }
    }

    /// Returns why the program that runs a line of shell, or its variables, are not those that a line is judged for.
    ///
    /// A hook event may not show what chooses them, so a client's own record is asked, too.
    #[must_use]
    pub fn foreign_program(&self, client: Client, tool_use: &ToolUse) -> Option<String> {
        if !matches!(mcp::tool(client, tool_use), Ok(None)) {
            return None;
        }
        let entry = self.entry(client, tool_use)?;
        if !matches!(entry.form, Form::Command { .. }) {
            return None;
        }
        let fields = entry.check_fields(&tool_use.input);
        fields.and_then(|()| arguments::check_program(&entry.form, &tool_use.input)).err()
    }

    fn entry(&self, client: Client, tool_use: &ToolUse) -> Option<&Entry> {
        let is_it = |entry: &&Entry| entry.client == client && entry.tools.contains(&tool_use.name);
        self.0.iter().find(is_it)
    }

    fn form(&self, client: Client, tool_use: &ToolUse) -> Option<&Form> {
        self.entry(client, tool_use).map(|entry| &entry.form)
    }
}

/// Returns the tool's input with `line` in place of its command; see [`ToolTable::with_command`].
#[must_use]
pub fn with_command(client: Client, tool_use: &ToolUse, line: &str) -> Option<Value> {
    ToolTable::shipped().with_command(client, tool_use, line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_table_is_valid_and_names_every_tool_once() {
        let text = include_str!("tools.json");
        let entries: Vec<Entry> = serde_json::from_str(text).unwrap();
        let named = entries.iter().flat_map(|one| one.tools.iter().map(|tool| (one.client, tool)));
        let names: Vec<_> = named.collect();
        let different: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len());
        assert_eq!(ToolTable::shipped().0.len(), entries.len());
        for entry in entries {
            if let Form::Own { tool } = entry.form {
                let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
                assert!((1..=64).contains(&tool.len()) && tool.bytes().all(is_plain), "{tool}");
            }
        }
    }
}
