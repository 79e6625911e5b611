//! Generated files, which are committed: writes them, or compares them with what is there.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value};

/// A value whose text is not longer than this is written on one line.
const LINE_CHARS_MAX: usize = 140;
/// The same for an object without nested values, such as an entry.
const FLAT_CHARS_MAX: usize = 2000;

/// A generated file.
pub struct File {
    /// Its path below the repository's root.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

/// What to do with generated files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Write those that differ.
    Write,
    /// Fail if one differs.
    Check,
}

impl File {
    /// A JSON file.
    ///
    /// # Errors
    /// If the value cannot be serialised.
    pub fn json(path: impl Into<PathBuf>, value: &Value) -> Result<Self> {
        let mut text = String::new();
        write_json(&sorted(value), 0, &mut text)?;
        text.push('\n');
        Ok(Self { path: path.into(), text })
    }
}

/// Writes or compares `files` below `root`; `command` is the command of xtask that writes them.
///
/// # Errors
/// If a file is stale and the mode is to check, or if one cannot be written.
pub fn write_or_check(root: &Path, files: &[File], mode: Mode, command: &str) -> Result<()> {
    let mut stale = Vec::new();
    for file in files {
        let path = root.join(&file.path);
        if fs::read_to_string(&path).is_ok_and(|text| text == file.text) {
            continue;
        }
        stale.push(file.path.display().to_string());
        if mode == Mode::Write {
            let parent = path.parent().context("a generated file is in a folder")?;
            fs::create_dir_all(parent)
                .with_context(|| format!("create the folder `{}`", parent.display()))?;
            fs::write(&path, &file.text).with_context(|| format!("write `{}`", path.display()))?;
        }
    }
    match (mode, stale.is_empty()) {
        (Mode::Check, false) => bail!("stale: {}; run `cargo xtask {command}`", stale.join(", ")),
        (Mode::Write, false) => println!("wrote {}", stale.join(", ")),
        (Mode::Check | Mode::Write, true) => {}
    }
    Ok(())
}

/// Sorts all keys, so that the bytes do not depend on the features of the JSON library.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(map) => {
            let mut pairs: Vec<_> = map.iter().collect();
            pairs.sort_by_key(|(key, _)| *key);
            let map: Map<_, _> =
                pairs.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            Value::Object(map)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn write_json(value: &Value, depth: usize, out: &mut String) -> Result<()> {
    let line = serde_json::to_string(value)?;
    let flat = value
        .as_object()
        .is_some_and(|map| map.values().all(|item| !item.is_object() && !item.is_array()));
    let chars_max = if flat { FLAT_CHARS_MAX } else { LINE_CHARS_MAX };
    let fits = depth > 0 && line.chars().count() <= chars_max;
    let items: Vec<(Option<&String>, &Value)> = match value {
        Value::Array(items) if !fits => items.iter().map(|item| (None, item)).collect(),
        Value::Object(map) if !fits => map.iter().map(|(key, item)| (Some(key), item)).collect(),
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => {
            out.push_str(&line);
            return Ok(());
        }
    };
    let (open, close) = if value.is_array() { ('[', ']') } else { ('{', '}') };
    out.push(open);
    for (at, (key, item)) in items.into_iter().enumerate() {
        out.push_str(if at == 0 { "\n" } else { ",\n" });
        out.push_str(&"  ".repeat(depth + 1));
        if let Some(key) = key {
            out.push_str(&serde_json::to_string(key)?);
            out.push_str(": ");
        }
        write_json(item, depth + 1, out)?;
    }
    out.push('\n');
    out.push_str(&"  ".repeat(depth));
    out.push(close);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn generated_json_is_sorted_and_reads_back() {
        let value = json!({ "b": [1, { "d": null, "c": ["x".repeat(200)] }], "a": {} });
        let file = File::json("x.json", &value).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&file.text).unwrap(), value);
        assert!(file.text.starts_with("{\n  \"a\": {},\n  \"b\": [\n    1,\n"), "{}", file.text);
        assert!(file.text.ends_with("\n}\n"));
    }
}
