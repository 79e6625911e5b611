//! What a run is asked to do: a task with its references and limits.

use serde_json::{Map, Value, json};
use thiserror::Error;
use windlass_kernel::canon::{self, CanonError};
use windlass_kernel::{Code, Digest};

use crate::fields::{FieldError, Fields};
use crate::yaml::{self, YamlError};

/// The largest task file.
pub const TASK_BYTES_MAX: usize = 1 << 20;
/// The longest task text.
pub const TASK_CHARS_MAX: usize = 20_000;
/// The longest list of references or paths.
pub const TASK_REFS_MAX: usize = 256;
/// The longest path.
pub const TASK_PATH_BYTES_MAX: usize = 1024;
/// The longest name of a task elsewhere.
pub const TASK_REF_CHARS_MAX: usize = 200;
/// The longest scope.
pub const TASK_SCOPE_CHARS_MAX: usize = 2000;

/// A task that cannot be used.
#[derive(Debug, Error)]
pub enum TaskError {
    /// There is nothing.
    #[error("the task is empty")]
    Empty,
    /// It is no JSON.
    #[error("the task is not JSON that can be used")]
    Json(#[source] CanonError),
    /// It is no YAML.
    #[error("the task is not YAML that can be used")]
    Yaml(#[source] YamlError),
    /// A field is unknown, missing or wrong.
    #[error("the task cannot be used")]
    Field(#[from] FieldError),
}

impl TaskError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        Code::TaskInvalid
    }

    /// What to do about it.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Empty => "say in a sentence what should be done",
            Self::Json(_) => {
                "check the JSON; in a shell put it in single quotes, and a plain sentence needs no \
                 braces"
            }
            Self::Yaml(_) => "a task file is an object with at least the key `task`",
            Self::Field(_) => {
                "the keys are `task`, `task_ref`, `context_refs` and `constraints` with `scope`, \
                 `allowed_paths`, `denied_paths` and `max_diff_lines`"
            }
        }
    }
}

/// What a run is asked to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskSpec {
    /// The task, in words.
    pub task: String,
    /// What it is called elsewhere, such as an issue's number.
    pub task_ref: Option<String>,
    /// Files to read first, relative to the project.
    pub context_refs: Vec<String>,
    /// The limits.
    pub constraints: Constraints,
}

/// The limits of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Constraints {
    /// What belongs to the task and what does not, in words.
    pub scope: Option<String>,
    /// Where files may be changed; anywhere when there is none.
    pub allowed_paths: Vec<String>,
    /// Where files may not be changed.
    pub denied_paths: Vec<String>,
    /// How many lines may be changed.
    pub max_diff_lines: Option<u32>,
}

/// What the text of a command's argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskInput {
    /// JSON itself.
    InlineJson,
    /// The path of a JSON or YAML file.
    File,
    /// The task in plain words.
    Sentence,
}

/// Tells what the text of a command's argument is, without looking whether there is such a file.
///
/// It is JSON when it starts with `{`; a file when it is one line that ends with `.json`, `.yaml`
/// or `.yml` and has no white space, unless it starts like a path; else a sentence. So `fix the
/// parser of config.yaml` is a sentence, and `./my task.yaml` a file.
#[must_use]
pub fn detect(input: &str) -> TaskInput {
    let text = input.trim();
    if text.starts_with('{') {
        return TaskInput::InlineJson;
    }
    let lower = text.to_ascii_lowercase();
    let named = [".json", ".yaml", ".yml"].iter().any(|ending| {
        lower.strip_suffix(ending).is_some_and(|stem| !stem.is_empty() && !stem.ends_with('/'))
    });
    let like_a_path =
        ["./", "../", "/", "~/", ".\\", "..\\"].iter().any(|start| text.starts_with(start));
    let one_word = !text.contains(char::is_whitespace);
    if named && !text.contains(['\n', '\r']) && (one_word || like_a_path) {
        TaskInput::File
    } else {
        TaskInput::Sentence
    }
}

impl TaskSpec {
    /// Reads the bytes of a task file: JSON when they start with `{`, else YAML.
    ///
    /// # Errors
    /// [`TaskError`] when they are no task.
    pub fn from_file(bytes: &[u8]) -> Result<Self, TaskError> {
        match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
            None => Err(TaskError::Empty),
            Some(b'{') => Self::from_json(bytes),
            Some(_) => {
                Self::from_value(&yaml::read(bytes, TASK_BYTES_MAX).map_err(TaskError::Yaml)?)
            }
        }
    }

    /// Reads a task from JSON.
    ///
    /// # Errors
    /// [`TaskError`] when it is none.
    pub fn from_json(text: &[u8]) -> Result<Self, TaskError> {
        Self::from_value(&canon::parse(text, TASK_BYTES_MAX).map_err(TaskError::Json)?)
    }

    /// Makes a task of a plain sentence.
    ///
    /// # Errors
    /// [`TaskError`] when it is empty, too long, or holds control characters.
    pub fn from_sentence(text: &str) -> Result<Self, TaskError> {
        if text.trim().is_empty() {
            return Err(TaskError::Empty);
        }
        Self::from_value(&json!({ "task": text.trim() }))
    }

    /// Reads a task from a value, such as a packet's `task_spec`.
    ///
    /// # Errors
    /// [`TaskError`] when it is none.
    pub fn from_value(value: &Value) -> Result<Self, TaskError> {
        let known = ["task", "task_ref", "context_refs", "constraints"];
        let fields = Fields::open(value, "", &known)?;
        let task = words(&fields, "task", fields.required("task")?, TASK_CHARS_MAX)?;
        let task_ref =
            fields.maybe("task_ref", |f, name, v| words(f, name, v, TASK_REF_CHARS_MAX))?;
        if task_ref.as_ref().is_some_and(|text| text.contains(['\n', '\t'])) {
            return Err(fields.refused("task_ref", "it must be one line").into());
        }
        let constraints = match fields.optional("constraints") {
            None => Constraints::default(),
            Some(value) => constraints(value)?,
        };
        Ok(Self { task, task_ref, context_refs: paths(&fields, "context_refs")?, constraints })
    }

    /// The task as an object, without what is not set.
    #[must_use]
    pub fn to_object(&self) -> Map<String, Value> {
        let mut limits = Map::new();
        let mut map = Map::new();
        let put = |map: &mut Map<String, Value>, field: &str, value: Value| {
            let unset = match &value {
                Value::Null => true,
                Value::Array(items) => items.is_empty(),
                Value::Object(map) => map.is_empty(),
                Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
            };
            if !unset {
                map.insert(field.to_owned(), value);
            }
        };
        put(&mut limits, "scope", json!(self.constraints.scope));
        put(&mut limits, "allowed_paths", json!(self.constraints.allowed_paths));
        put(&mut limits, "denied_paths", json!(self.constraints.denied_paths));
        put(&mut limits, "max_diff_lines", json!(self.constraints.max_diff_lines));
        put(&mut map, "task", json!(self.task));
        put(&mut map, "task_ref", json!(self.task_ref));
        put(&mut map, "context_refs", json!(self.context_refs));
        put(&mut map, "constraints", Value::Object(limits));
        map
    }

    /// The canonical JSON of the task.
    ///
    /// # Errors
    /// [`TaskError`] when it has none, which cannot be for a task that was read.
    pub fn canonical(&self) -> Result<Vec<u8>, TaskError> {
        canon::value_to_bytes(&Value::Object(self.to_object())).map_err(TaskError::Json)
    }

    /// The digest of the canonical JSON.
    ///
    /// # Errors
    /// As [`Self::canonical`].
    pub fn digest(&self) -> Result<Digest, TaskError> {
        Ok(Digest::of(&self.canonical()?))
    }
}

fn constraints(value: &Value) -> Result<Constraints, FieldError> {
    let known = ["scope", "allowed_paths", "denied_paths", "max_diff_lines"];
    let fields = Fields::open(value, "constraints.", &known)?;
    let max_diff_lines = fields.maybe("max_diff_lines", Fields::count)?;
    if max_diff_lines == Some(0) {
        return Err(fields.refused("max_diff_lines", "it must be at least 1"));
    }
    Ok(Constraints {
        scope: fields.maybe("scope", |f, name, v| words(f, name, v, TASK_SCOPE_CHARS_MAX))?,
        allowed_paths: paths(&fields, "allowed_paths")?,
        denied_paths: paths(&fields, "denied_paths")?,
        max_diff_lines,
    })
}

/// Reads text that people wrote: not blank, not too long, no control characters but line ends
/// and tabs.
fn words<'a>(
    fields: &Fields<'a>,
    field: &str,
    value: &'a Value,
    chars_max: usize,
) -> Result<String, FieldError> {
    let text = fields.text(field, value)?;
    if text.trim().is_empty() {
        return Err(fields.refused(field, "it is empty"));
    }
    let count = text.chars().count();
    if count > chars_max {
        let why = format!("it has {count} characters, more than {chars_max}");
        return Err(fields.refused(field, why));
    }
    match text.chars().find(|char| char.is_control() && !matches!(char, '\n' | '\r' | '\t')) {
        Some(char) => {
            let why = format!("it holds the control character U+{:04X}", u32::from(char));
            Err(fields.refused(field, why))
        }
        None => Ok(text.to_owned()),
    }
}

/// Reads a list of paths that may be missing.
fn paths(fields: &Fields<'_>, field: &str) -> Result<Vec<String>, FieldError> {
    let paths = fields.maybe(field, Fields::texts)?.unwrap_or_default();
    if paths.len() > TASK_REFS_MAX {
        let why = format!("it has {} entries, more than {TASK_REFS_MAX}", paths.len());
        return Err(fields.refused(field, why));
    }
    for (at, path) in paths.iter().enumerate() {
        if let Some(why) = path_fault(path) {
            let shown: String = path.chars().take(80).flat_map(char::escape_debug).collect();
            return Err(fields.refused(&format!("{field}[{at}]"), format!("`{shown}` {why}")));
        }
    }
    Ok(paths)
}

/// What is wrong with a path, which must be relative to the project and in its shortest form.
fn path_fault(path: &str) -> Option<&'static str> {
    let drive = path.as_bytes().first().is_some_and(u8::is_ascii_alphabetic)
        && path.as_bytes().get(1) == Some(&b':');
    if path.trim().is_empty() {
        Some("is empty")
    } else if path.len() > TASK_PATH_BYTES_MAX {
        Some("is longer than 1024 bytes")
    } else if path.chars().any(char::is_control) {
        Some("holds a control character")
    } else if path.contains('\\') {
        Some("holds a backslash; write `/` between the parts")
    } else if path.contains("://") {
        Some("is an address, not a path")
    } else if path.starts_with('/') || drive {
        Some("is absolute; write it relative to the project")
    } else if path == "~" || path.starts_with("~/") {
        Some("starts at a home folder; write it relative to the project")
    } else if path.split('/').any(|part| part == "..") {
        Some("leaves its folder with `..`")
    } else if path.split('/').any(|part| part.is_empty() || part == ".") {
        Some("is not in its shortest form: no `./`, no `//`, no `/` at the end")
    } else {
        None
    }
}
