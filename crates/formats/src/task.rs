//! Tasks: what a run is asked to do.

use serde_json::{Map, Value, json};
use thiserror::Error;
use windlass_kernel::Code;
use windlass_kernel::canon::{self, CanonError};
use windlass_text::printable;

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
/// The longest reference of a task.
pub const TASK_REF_CHARS_MAX: usize = 200;
/// The longest scope.
pub const TASK_SCOPE_CHARS_MAX: usize = 2000;

/// Why a task cannot be used.
#[derive(Debug, Error)]
pub enum TaskError {
    /// It is empty.
    #[error("the task is empty")]
    Empty,
    /// It is not JSON.
    #[error("the task is not valid JSON")]
    Json(#[source] CanonError),
    /// It is not YAML.
    #[error("the task is not valid YAML")]
    Yaml(#[source] YamlError),
    /// A field is unknown, missing or invalid.
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
            Self::Empty => "describe in a sentence what should be done",
            Self::Json(_) => {
                "check the JSON; in a shell, put it in single quotes; a plain sentence needs no braces"
            }
            Self::Yaml(_) => "a task file is an object with at least the key `task`",
            Self::Field(_) => {
                "the keys are `task`, `task_ref`, `context_refs` and `constraints` with `scope`, \
                 `allowed_paths`, `denied_paths` and `max_diff_lines`"
            }
        }
    }
}

/// A task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskSpec {
    /// The task, as text.
    pub task: String,
    /// Its reference elsewhere, such as an issue number.
    pub task_ref: Option<String>,
    /// Files to read first, relative to the project.
    pub context_refs: Vec<String>,
    /// The limits.
    pub constraints: Constraints,
}

/// The limits of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Constraints {
    /// What belongs to the task and what does not, as text.
    pub scope: Option<String>,
    /// The paths that may be changed; all if there are none.
    pub allowed_paths: Vec<String>,
    /// The paths that may not be changed.
    pub denied_paths: Vec<String>,
    /// The most lines that may be changed.
    pub max_diff_lines: Option<u32>,
}

/// The form of a command's argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskInput {
    /// Inline JSON.
    InlineJson,
    /// The path of a JSON or YAML file.
    File,
    /// A plain sentence.
    Sentence,
}

/// Detects the form of a command's argument, without checking whether such a file exists.
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
    /// Parses a task file: JSON if it starts with `{`, otherwise YAML.
    ///
    /// # Errors
    /// [`TaskError`] when it is not a task.
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
    /// [`TaskError`] when it is not a task.
    pub fn from_json(text: &[u8]) -> Result<Self, TaskError> {
        Self::from_value(&canon::parse(text, TASK_BYTES_MAX).map_err(TaskError::Json)?)
    }

    /// A task from a plain sentence.
    ///
    /// # Errors
    /// [`TaskError`] when it is empty, too long, or contains control characters.
    pub fn from_sentence(text: &str) -> Result<Self, TaskError> {
        if text.trim().is_empty() {
            return Err(TaskError::Empty);
        }
        Self::from_value(&json!({ "task": text.trim() }))
    }

    /// Reads a task from a value, such as a packet's `task_spec`.
    ///
    /// # Errors
    /// [`TaskError`] when it is not a task.
    pub fn from_value(value: &Value) -> Result<Self, TaskError> {
        let known = ["task", "task_ref", "context_refs", "constraints"];
        let fields = Fields::new(value, "", &known)?;
        let task = words(&fields, "task", fields.required("task")?, TASK_CHARS_MAX)?;
        let task_ref =
            fields.maybe("task_ref", |f, name, v| words(f, name, v, TASK_REF_CHARS_MAX))?;
        if task_ref.as_ref().is_some_and(|text| text.contains(['\n', '\t'])) {
            return Err(fields.invalid("task_ref", "it must be one line").into());
        }
        let constraints = match fields.optional("constraints") {
            None => Constraints::default(),
            Some(value) => constraints(value)?,
        };
        Ok(Self { task, task_ref, context_refs: paths(&fields, "context_refs")?, constraints })
    }

    /// The task as an object, without unset fields.
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
    /// [`TaskError`] when it has none, which cannot happen for a task that was parsed.
    pub fn canonical(&self) -> Result<Vec<u8>, TaskError> {
        canon::value_to_bytes(&Value::Object(self.to_object())).map_err(TaskError::Json)
    }
}

fn constraints(value: &Value) -> Result<Constraints, FieldError> {
    let known = ["scope", "allowed_paths", "denied_paths", "max_diff_lines"];
    let fields = Fields::new(value, "constraints.", &known)?;
    let max_diff_lines = fields.maybe("max_diff_lines", Fields::count)?;
    if max_diff_lines == Some(0) {
        return Err(fields.invalid("max_diff_lines", "it must be at least 1"));
    }
    Ok(Constraints {
        scope: fields.maybe("scope", |f, name, v| words(f, name, v, TASK_SCOPE_CHARS_MAX))?,
        allowed_paths: paths(&fields, "allowed_paths")?,
        denied_paths: paths(&fields, "denied_paths")?,
        max_diff_lines,
    })
}

/// Reads text: not blank, not too long, no control characters except line ends and tabs.
fn words<'a>(
    fields: &Fields<'a>,
    field: &str,
    value: &'a Value,
    chars_max: usize,
) -> Result<String, FieldError> {
    let text = fields.text(field, value)?;
    if text.trim().is_empty() {
        return Err(fields.invalid(field, "it is empty"));
    }
    let count = text.chars().count();
    if count > chars_max {
        let why = format!("it has {count} characters, more than {chars_max}");
        return Err(fields.invalid(field, why));
    }
    match text.chars().find(|char| char.is_control() && !matches!(char, '\n' | '\r' | '\t')) {
        Some(char) => {
            let why = format!("it contains the control character U+{:04X}", u32::from(char));
            Err(fields.invalid(field, why))
        }
        None => Ok(text.to_owned()),
    }
}

/// Reads a list of paths that may be missing.
fn paths(fields: &Fields<'_>, field: &str) -> Result<Vec<String>, FieldError> {
    let paths = fields.maybe(field, Fields::texts)?.unwrap_or_default();
    if paths.len() > TASK_REFS_MAX {
        let why = format!("it has {} entries, more than {TASK_REFS_MAX}", paths.len());
        return Err(fields.invalid(field, why));
    }
    for (at, path) in paths.iter().enumerate() {
        if let Some(why) = path_problem(path) {
            let shown = printable(path, 80);
            return Err(fields.invalid(&format!("{field}[{at}]"), format!("`{shown}` {why}")));
        }
    }
    Ok(paths)
}

/// Why a path is refused: it must be relative to the project and normalised.
fn path_problem(path: &str) -> Option<&'static str> {
    let drive = path.as_bytes().first().is_some_and(u8::is_ascii_alphabetic)
        && path.as_bytes().get(1) == Some(&b':');
    if path.trim().is_empty() {
        Some("is empty")
    } else if path.len() > TASK_PATH_BYTES_MAX {
        Some("is longer than 1024 bytes")
    } else if path.chars().any(char::is_control) {
        Some("contains a control character")
    } else if path.contains('\\') {
        Some("contains a backslash; separate folders with `/`")
    } else if path.contains("://") {
        Some("is a URL, not a path")
    } else if path.starts_with('/') || drive {
        Some("is absolute; write it relative to the project")
    } else if path == "~" || path.starts_with("~/") {
        Some("starts at a home folder; write it relative to the project")
    } else if path.split('/').any(|part| part == "..") {
        Some("contains `..`")
    } else if path.split('/').any(|part| part.is_empty() || part == ".") {
        Some("is not normalised: remove `./`, `//` and a `/` at the end")
    } else {
        None
    }
}
