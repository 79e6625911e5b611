//! Parts that several pages have.

use maud::{Markup, html};
use serde_json::Value;
use windlass_text::is_hidden;

use super::layout::{Page, encode};
use crate::dashboard::Context;
use crate::model::UnusableProject;

/// A page that is rendered for the visitor.
pub(super) fn rendered(
    context: &Context<'_>,
    title: &str,
    at: &str,
    is_live: bool,
    body: Markup,
) -> super::Answer {
    let live_after = is_live.then_some(context.newest_event);
    let page = Page { title, at, visitor: Some(context.visitor), live_after, body };
    super::Answer::Page(page.render())
}

/// The projects that a list leaves out, and why.
pub(super) fn unusable(context: &Context<'_>) -> Markup {
    html! {
        @for one in context.unusable() { (unusable_project(&one)) }
    }
}

/// A project that cannot be used, and why.
pub(super) fn unusable_project(one: &UnusableProject) -> Markup {
    html! {
        div.card.bad {
            p { strong { (one.name) } " cannot be used: " (one.message) " " code { (one.code) } }
            @if let Some(hint) = &one.hint { p { strong { "What to do: " } (hint) } }
        }
    }
}

/// The choice of a project, if there are several; `all` says whether all of them can be chosen at once.
pub(super) fn project_choice(context: &Context<'_>, all: bool) -> Markup {
    let chosen = context.field("project");
    html! {
        @if context.projects.len() > 1 {
            label { "Project"
                select name="project" {
                    @if all { option value="" { "all" } }
                    @for project in context.projects {
                        option value=(project.id()) selected[chosen == Some(project.id())] { (project.name()) }
                    }
                }
            }
        }
    }
}

/// A choice of one of some words, or all.
pub(super) fn choice(
    context: &Context<'_>,
    label: &str,
    name: &str,
    words: &[(String, String)],
) -> Markup {
    let chosen = context.field(name);
    html! {
        label { (label)
            select name=(name) {
                option value="" { "all" }
                @for (value, word) in words {
                    option value=(value) selected[chosen == Some(value.as_str())] { (word) }
                }
            }
        }
    }
}

/// A link to the next page, with the fields that this one has.
pub(super) fn older(
    context: &Context<'_>,
    path: &str,
    next: &str,
    fields: &[&str],
    words: &str,
) -> Markup {
    let mut address = format!("{path}?cursor={}", encode(next));
    for name in fields {
        if let Some(value) = context.field(name) {
            address.push_str(&format!("&{name}={}", encode(value)));
        }
    }
    html! { p { a.button href=(address) { (words) } } }
}

/// The name of a project for people.
pub(super) fn project_name<'a>(context: &'a Context<'_>, id: &'a str) -> &'a str {
    let projects = context.projects;
    let name = projects.iter().find(|project| project.id() == id).map(|project| project.name());
    // Where two have one name, the ids tell them apart.
    let same = projects.iter().filter(|project| Some(project.name()) == name).count();
    name.filter(|_| same == 1).unwrap_or(id)
}

/// Who runs the agents of a new run.
pub(super) fn agent_choice() -> Markup {
    html! {
        label { "Agents are run by"
            input type="text" name="agent" placeholder="whom the settings name" maxlength="200" list="agents" title="such as claude, codex, gemini or opencode, or another name in your settings"; }
    }
}

/// The names that [`agent_choice`] proposes; once on a page.
pub(super) fn agent_names() -> Markup {
    html! { datalist #agents { @for name in ["claude", "codex", "gemini", "opencode"] { option value=(name) {} } } }
}

/// A document over several lines.
pub(super) fn pretty(value: &Value) -> String {
    escaped(&serde_json::to_string_pretty(value).unwrap_or_default())
}

/// JSON in which each hidden character of a text is written as JSON writes it, so that it can be seen and stays JSON.
pub(super) fn escaped(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        if character != '\n' && is_hidden(character) {
            let mut units = [0; 2];
            shown.extend(
                character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")),
            );
        } else {
            shown.push(character);
        }
    }
    shown
}

/// The text of a value, by the pointer to it.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The texts of an array, by the pointer to it.
pub(super) fn texts<'a>(value: &'a Value, pointer: &str) -> Vec<&'a str> {
    let items = value.pointer(pointer).and_then(Value::as_array);
    items.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// A number with spaces between its thousands.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A cost in millionths of a dollar: to the cent, or finer where that would be nothing.
pub(super) fn dollars(micros: u64) -> String {
    match micros {
        0 => "$0".to_owned(),
        1..=99_999 => format!("$0.{micros:06}").trim_end_matches('0').to_owned(),
        _ => format!("${}.{:02}", grouped(micros / 1_000_000), micros % 1_000_000 / 10_000),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_grouped_and_costs_are_never_rounded_to_nothing() {
        let told = [0, 999, 1_000, 1_234_567].map(grouped);
        assert_eq!(told, ["0", "999", "1\u{202f}000", "1\u{202f}234\u{202f}567"]);
        let told = [0, 5, 10, 99_999, 100_000, 12_345_678].map(dollars);
        assert_eq!(told, ["$0", "$0.000005", "$0.00001", "$0.099999", "$0.10", "$12.34"]);
    }

    #[test]
    fn hidden_characters_are_seen_and_json_stays_the_same() {
        let value = json!({ "line": "caf\u{200c}\u{ad} \u{e0041} é 👩\u{200d}💻\n" });
        let shown = pretty(&value);
        assert!(!shown.contains(|one| one != '\n' && is_hidden(one)), "{shown}");
        assert!(shown.contains("caf\\u200c\\u00ad"), "{shown}");
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
    }
}
