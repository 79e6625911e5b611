//! The tools, and how they are described to agents.

use serde::Serialize;
use serde_json::Value;

use crate::arguments::{Kind, Parameter, schema};
use crate::limits::{LIST_DEPTH_MAX, SEARCH_CONTEXT_MAX, SEARCH_MATCHES_MAX};

/// A file tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileTool {
    /// Reads a file.
    Read,
    /// Lists a folder.
    List,
    /// Searches contents or names of files.
    Search,
    /// Writes a whole file.
    Write,
    /// Replaces text in a file.
    Edit,
}

impl FileTool {
    /// All tools.
    pub const ALL: [Self; 5] = [Self::Read, Self::List, Self::Search, Self::Write, Self::Edit];

    /// The tool with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// The tool's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::List => "list",
            Self::Search => "search",
            Self::Write => "write",
            Self::Edit => "edit",
        }
    }

    /// Whether the tool changes files.
    #[must_use]
    pub const fn writes(self) -> bool {
        match self {
            Self::Read | Self::List | Self::Search => false,
            Self::Write | Self::Edit => true,
        }
    }

    pub(crate) const fn parameters(self) -> &'static [Parameter] {
        match self {
            Self::Read => READ,
            Self::List => LIST,
            Self::Search => SEARCH,
            Self::Write => WRITE,
            Self::Edit => EDIT,
        }
    }
}

/// A tool as agents see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolDefinition {
    /// The name that calls use.
    pub name: &'static str,
    /// The name that people see.
    pub title: &'static str,
    /// What it does, its limits, and what to do when it refuses.
    pub description: &'static str,
    /// The JSON Schema of the arguments.
    pub input_schema: Value,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// Whether the same call made again has no further effect.
    pub idempotent: bool,
}

/// Describes a tool.
#[must_use]
pub fn definition(tool: FileTool) -> ToolDefinition {
    let (title, description) = match tool {
        FileTool::Read => ("Read a file", READ_TEXT),
        FileTool::List => ("List a folder", LIST_TEXT),
        FileTool::Search => ("Search files", SEARCH_TEXT),
        FileTool::Write => ("Write a file", WRITE_TEXT),
        FileTool::Edit => ("Edit a file", EDIT_TEXT),
    };
    ToolDefinition {
        name: tool.name(),
        title,
        description,
        input_schema: schema(tool.parameters()),
        read_only: !tool.writes(),
        // An edit may find its `old` again in what it wrote; a second `write` is refused or writes the same.
        idempotent: tool != FileTool::Edit,
    }
}

const READ_TEXT: &str = "Read a text file of the workspace. Returns the exact text of at most 2,000 lines (no line numbers), \
the number of lines, and `version`, which `write` needs to replace the file. Use `offset` and `limit` for other parts of a long \
file. Lines over 2,000 characters are cut. Files up to 64 MiB. A file that is not UTF-8 text is only described; pass \
`encoding: \"base64\"` for its bytes (up to 1 MiB).";

const LIST_TEXT: &str = "List a folder of the workspace, sorted by path, with the sizes of files; folders end with `/`. Skips what \
.gitignore ignores. Returns at most 1,000 entries. To find files by name, use `search` with `glob` alone.";

const SEARCH_TEXT: &str = "Search the contents of the workspace's files for a regular expression (Rust syntax, line by line), or \
find files by name: leave `pattern` out and pass `glob`. Skips binary files, files over 64 MiB and what .gitignore ignores. \
Returns at most 200 matches unless `limit` says otherwise, 50 for one file, sorted by path and line.";

const WRITE_TEXT: &str = "Create a file, or replace a whole file. To replace one, read it first and pass its `version`. Missing \
folders are made. Change a part of a file with `edit`. Links, files with several names, `.git` and `.windlass` are refused.";

const EDIT_TEXT: &str = "Replace text in a UTF-8 file. Each `old` must be copied exactly from the file, indentation included, and \
occur exactly once: add lines around it to make it unique, or set `all` to replace every occurrence. Edits are made in order; if \
one fails, none is made. Returns a diff.";

const fn required(name: &'static str, kind: Kind, description: &'static str) -> Parameter {
    Parameter { name, kind, required: true, description }
}

const fn optional(name: &'static str, kind: Kind, description: &'static str) -> Parameter {
    Parameter { name, kind, required: false, description }
}

const READ: &[Parameter] = &[
    required("path", Kind::Path, "File, relative to the workspace."),
    optional("offset", Kind::Count(1, u32::MAX as u64), "First line, counted from 1. Default 1."),
    optional("limit", Kind::Count(1, u32::MAX as u64), "Number of lines. Default 2000."),
    optional("encoding", Kind::Base64, "Return the file's bytes as Base64 instead of text."),
];

const LIST: &[Parameter] = &[
    optional("path", Kind::Path, "Folder, relative to the workspace. Default: the workspace."),
    optional("depth", Kind::Count(1, LIST_DEPTH_MAX), "Levels of folders to list. Default 1."),
    optional("include_ignored", Kind::Flag, "Also list what .gitignore ignores."),
];

const SEARCH: &[Parameter] = &[
    optional("pattern", Kind::Pattern, "Regular expression, matched against each line."),
    optional("path", Kind::Path, "Folder or file to search. Default: the workspace."),
    optional(
        "glob",
        Kind::Pattern,
        "Only files that match, such as `*.rs` (at any depth) or `src/**/*.{ts,tsx}` (below `path`); `!` before it excludes.",
    ),
    optional("files_only", Kind::Flag, "Return only the paths of the files with a match."),
    optional("context", Kind::Count(0, SEARCH_CONTEXT_MAX), "Lines before and after each match."),
    optional("ignore_case", Kind::Flag, "Ignore upper and lower case."),
    optional("fixed", Kind::Flag, "Take `pattern` as plain text, not as a regular expression."),
    optional("limit", Kind::Count(1, SEARCH_MATCHES_MAX), "Number of matches. Default 200."),
];

const WRITE: &[Parameter] = &[
    required("path", Kind::Path, "File, relative to the workspace."),
    required("content", Kind::Text, "The whole new text of the file."),
    optional(
        "version",
        Kind::Version,
        "The `version` that `read` returned; needed if the file exists.",
    ),
    optional(
        "executable",
        Kind::Flag,
        "Whether the file can be executed. Default: as it is; not for a new file.",
    ),
];

const EDIT: &[Parameter] = &[
    required("path", Kind::Path, "File, relative to the workspace."),
    required("edits", Kind::Edits, "Replacements, made in order."),
    optional("version", Kind::Version, "Refuse unless the file still has this `version`."),
];
