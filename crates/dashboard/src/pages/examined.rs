//! What is known about a call before it runs: where, which commands, which rules, which files.

use maud::{Markup, html};
use serde_json::Value;

/// What a person should see of a call that waits, as `windlass call show` lists it.
pub(super) fn examined(view: &Value) -> Markup {
    let text = |value: &Value, name: &str| -> String {
        value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let list = |name: &str| view.get(name).and_then(Value::as_array).map(Vec::as_slice);
    let texts = |name: &str| -> Vec<&str> {
        list(name).unwrap_or_default().iter().filter_map(Value::as_str).collect()
    };
    let (rules, files) = (list("rules").unwrap_or_default(), list("files").unwrap_or_default());
    let is_changed = list("changed_files").is_some_and(|files| !files.is_empty());
    html! {
        dl.facts {
            @if !text(view, "folder").is_empty() { dt { "folder" } dd { code.wrap { (text(view, "folder")) } } }
            @if !texts("commands").is_empty() {
                dt { "runs" } dd { @for command in texts("commands") { div { code.wrap { (command) } } } }
            }
            @if !rules.is_empty() {
                dt { "rules" } dd { @for rule in rules {
                    div { strong { (text(rule, "verdict").to_lowercase()) } " " (text(rule, "on")) ": " (text(rule, "reason")) " " code.faint { (text(rule, "id")) } }
                } }
            }
            @if !texts("findings").is_empty() {
                dt { "findings" } dd { @for finding in texts("findings") { div { (finding) } } }
            }
            @if !files.is_empty() {
                dt { "files" } dd { @for file in files {
                    div { code.wrap { (text(file, "path")) } " " code.faint.wrap { (text(file, "digest")) } }
                } }
            }
        }
        @if is_changed {
            p.card.warn { "A file has changed since the question: look at it before you approve." }
        }
    }
}
