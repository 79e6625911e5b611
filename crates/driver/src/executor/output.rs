//! Checks the form of an output, and whether the paths, symbols and sources that it claims exist.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use serde_json::Value;
use windlass_beneath::Folder;

/// The maximum size of a file that is searched for a symbol.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Returns a list of strings; `None` if it is absent or not a list of strings.
pub(super) fn list(output: &Value, pointer: &str) -> Option<Vec<String>> {
    let items = output.pointer(pointer)?.as_array()?;
    items.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

/// Whether all fields that are present have their required form.
pub(super) fn is_well_formed(output: &Value) -> bool {
    let absent_or =
        |pointer: &str, fits: fn(&Value) -> bool| output.pointer(pointer).is_none_or(fits);
    let strings =
        |value: &Value| value.as_array().is_some_and(|items| items.iter().all(Value::is_string));
    let filled = |value: &Value| value.as_str().is_some_and(|text| !text.trim().is_empty());
    output.is_object()
        && absent_or("/summary", filled)
        && absent_or("/intent", filled)
        && absent_or("/questions", strings)
        && absent_or("/claims", Value::is_object)
        && absent_or("/claims/paths", strings)
        && absent_or("/claims/symbols", strings)
        && absent_or("/claims/citations", strings)
        && absent_or("/memory", Value::is_object)
}

/// The claimed paths that do not exist.
pub(super) fn paths_missing(output: &Value, workspace: &Path) -> Option<BTreeSet<String>> {
    let claimed = list(output, "/claims/paths")?.into_iter();
    Some(claimed.filter(|path| !exists(workspace, path)).collect())
}

/// The claimed symbols, `path#name`, that do not occur in their files.
pub(super) fn symbols_missing(output: &Value, workspace: &Path) -> Option<BTreeSet<String>> {
    let claimed = list(output, "/claims/symbols")?.into_iter();
    Some(claimed.filter(|symbol| !has_symbol(workspace, symbol)).collect())
}

/// The cited sources, `path` or `path:line`, that do not exist; `None` if one is a URL, which cannot be
/// checked.
pub(super) fn citations_missing(output: &Value, workspace: &Path) -> Option<BTreeSet<String>> {
    let cited = list(output, "/claims/citations")?;
    if cited.iter().any(|source| source.contains("://")) {
        return None;
    }
    Some(cited.into_iter().filter(|source| !is_citation(workspace, source)).collect())
}

fn inside(workspace: &Path, path: &str) -> Option<std::path::PathBuf> {
    let relative = Path::new(path);
    let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
    (plain && !path.is_empty()).then(|| workspace.join(relative))
}

fn exists(workspace: &Path, path: &str) -> bool {
    inside(workspace, path.trim_end_matches('/')).is_some_and(|path| path.exists())
}

fn read(workspace: &Path, path: &str) -> Option<String> {
    inside(workspace, path)?;
    let bytes = Folder::open(workspace).ok()?.read(Path::new(path), FILE_BYTES_MAX).ok()?;
    String::from_utf8(bytes).ok()
}

fn has_symbol(workspace: &Path, symbol: &str) -> bool {
    let Some((path, name)) = symbol.split_once('#') else { return false };
    let Some(text) = read(workspace, path) else { return false };
    let is_word = |char: char| char.is_alphanumeric() || char == '_';
    !name.is_empty()
        && text.match_indices(name).any(|(at, _)| {
            let before = text.get(..at).and_then(|text| text.chars().next_back());
            let after = text.get(at + name.len()..).and_then(|text| text.chars().next());
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
}

fn is_citation(workspace: &Path, source: &str) -> bool {
    match source.rsplit_once(':') {
        Some((path, line)) => {
            let Ok(line) = line.parse::<usize>() else { return false };
            line > 0 && read(workspace, path).is_some_and(|text| text.lines().count() >= line)
        }
        None => exists(workspace, source),
    }
}
