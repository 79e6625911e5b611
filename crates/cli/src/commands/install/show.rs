//! What changes in the files of a client, for people and programs.

use serde_json::{Value, json};
use windlass_hooks::diff;

use crate::commands::install::Change;
use crate::commands::install::place::Place;
use crate::output::{Output, Style, sanitize};

/// Shows what changes.
pub fn show(changes: &[Change], output: &Output) {
    for change in changes.iter().filter(|change| !change.is_none()) {
        let title = format!("{} {}", word(change), change.file.path.display());
        output.line(&output.paint(&sanitize(&title), Style::Bold));
        for line in difference(change).lines() {
            let style = match line.chars().next() {
                Some('+') => Some(Style::Good),
                Some('-') => Some(Style::Bad),
                Some('@') => Some(Style::Faint),
                Some(_) | None => None,
            };
            let line = sanitize(line);
            output.line(&style.map_or(line.clone(), |style| output.paint(&line, style)));
        }
    }
}

fn difference(change: &Change) -> String {
    let bytes = |bytes: &Option<Vec<u8>>| bytes.clone().unwrap_or_default();
    diff(&bytes(&change.file.bytes), &bytes(&change.after))
}

fn word(change: &Change) -> &'static str {
    match (&change.file.bytes, &change.after) {
        (None, Some(_)) => "create",
        (Some(_), None) => "delete",
        (Some(before), Some(after)) if before != after => "change",
        (Some(_), Some(_)) | (None, None) => "keep",
    }
}

/// The same for programs.
pub fn describe(place: &Place, changes: &[Change], done: bool) -> Value {
    let files = changes.iter().map(|change| {
        json!({ "path": change.file.path, "change": word(change), "diff": difference(change) })
    });
    json!({
        "client": place.client.as_str(),
        "scope": place.scope.as_str(),
        "binary": place.binary.as_str(),
        "files": files.collect::<Vec<_>>(),
        "done": done,
        "warnings": place.warnings(),
    })
}
