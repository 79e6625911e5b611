//! What we write into a JSON text, written as the rest of the text is.

use super::edit::Item;
use super::json::{Node, Value};

/// JSON of ours. Its order is the one in which it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Json {
    Number(u64),
    Text(String),
    Array(Vec<Self>),
    Object(Vec<(&'static str, Self)>),
}

impl Json {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// The value of this name, if this is an object that has one.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Object(members) = self else { return None };
        members.iter().find(|(name, _)| *name == key).map(|(_, json)| json)
    }

    /// Whether a value says the same, in any order of its members.
    pub fn is(&self, node: &Node) -> bool {
        match (self, &node.value) {
            (Self::Number(number), Value::Number(written)) => number.to_string() == *written,
            (Self::Text(text), Value::String(written)) => text == written,
            (Self::Array(elements), Value::Array(nodes)) => {
                elements.len() == nodes.len()
                    && elements.iter().zip(nodes).all(|(json, node)| json.is(node))
            }
            (Self::Object(members), Value::Object(nodes)) => {
                let same = |(key, json): &(&str, Self)| node.get(key).is_some_and(|it| json.is(it));
                members.len() == nodes.len() && members.iter().all(same)
            }
            (Self::Number(_) | Self::Text(_) | Self::Array(_) | Self::Object(_), _) => false,
        }
    }

    /// The first member in which an object is not as this one, besides a member `hooks`.
    pub fn difference(&self, node: &Node) -> Option<String> {
        let Self::Object(members) = self else { return None };
        let shown = |json: &Self| Style::ours().json(json, &Layout::Inline);
        for (key, json) in members.iter().filter(|(key, _)| *key != "hooks") {
            match node.get(key) {
                None => return Some(format!("`{key}` is missing")),
                Some(found) if !json.is(found) => {
                    let found = found.text().map_or_else(|| "something else".to_owned(), quoted);
                    return Some(format!("`{key}` is {found}, not {}", shown(json)));
                }
                Some(_) => {}
            }
        }
        let foreign = node.members().iter().find(|member| self.get(&member.key).is_none());
        foreign.map(|member| format!("`{}` was added", member.key))
    }

    const fn is_scalar(&self) -> bool {
        match self {
            Self::Number(_) | Self::Text(_) => true,
            Self::Array(_) | Self::Object(_) => false,
        }
    }
}

/// How a text is written.
#[derive(Clone, Debug)]
pub(crate) struct Style {
    /// The end of a line.
    pub newline: &'static str,
    /// One step of indentation.
    pub unit: String,
    /// Whether values are on lines of their own.
    pub lines: bool,
    /// Whether a space follows colons, and commas within a line.
    spaced: bool,
}

/// Where a value is written.
pub(crate) enum Layout {
    /// Within a line.
    Inline,
    /// On lines of its own, the first of which begins with this.
    Lines { indent: String },
}

impl Style {
    /// How we write a text of our own.
    pub fn ours() -> Self {
        Self { newline: "\n", unit: "  ".to_owned(), lines: true, spaced: true }
    }

    /// How a text is written whose value this is.
    pub fn of(text: &str, root: &Node) -> Self {
        let mut style = Self::ours();
        style.newline = newline_of(text);
        let Some(first) = root.members().first() else { return style };
        let gap = text.get(root.span.start + 1..first.key_span.start).unwrap_or("");
        style.lines = gap.contains('\n');
        if style.lines {
            let line = gap.get(gap.rfind('\n').map_or(0, |newline| newline + 1)..).unwrap_or("");
            style.unit = line.chars().take_while(|char| matches!(char, ' ' | '\t')).collect();
        }
        let colon = text.get(first.key_span.end..first.node.span.start).unwrap_or("");
        style.spaced = !colon.ends_with(':');
        style
    }

    /// What separates items within a line.
    pub fn comma(&self) -> String {
        if self.spaced { ", ".to_owned() } else { ",".to_owned() }
    }

    /// An item of a container, from its first character to its last.
    pub fn item(&self, item: &Item<'_>, layout: &Layout) -> String {
        let json = self.json(item.json, layout);
        item.key.map_or_else(|| json.clone(), |key| self.member(key, &json))
    }

    fn member(&self, key: &str, json: &str) -> String {
        format!("{}:{}{json}", quoted(key), if self.spaced { " " } else { "" })
    }

    /// A value, from its first character to its last.
    pub fn json(&self, json: &Json, layout: &Layout) -> String {
        match json {
            Json::Number(number) => number.to_string(),
            Json::Text(text) => quoted(text),
            Json::Array(elements) => {
                // `["hook", "--client"]` is on one line.
                let short = elements.iter().all(Json::is_scalar);
                let layout = if short { &Layout::Inline } else { layout };
                self.container(['[', ']'], layout, elements.len(), |at, layout| {
                    elements.get(at).map(|element| self.json(element, layout)).unwrap_or_default()
                })
            }
            Json::Object(members) => {
                self.container(['{', '}'], layout, members.len(), |at, layout| {
                    let member = members.get(at);
                    member
                        .map(|(key, json)| self.member(key, &self.json(json, layout)))
                        .unwrap_or_default()
                })
            }
        }
    }

    fn container(
        &self,
        [open, close]: [char; 2],
        layout: &Layout,
        count: usize,
        item: impl Fn(usize, &Layout) -> String,
    ) -> String {
        match layout {
            Layout::Inline => {
                let items: Vec<String> = (0..count).map(|at| item(at, &Layout::Inline)).collect();
                format!("{open}{}{close}", items.join(&self.comma()))
            }
            Layout::Lines { indent } => {
                let newline = self.newline;
                let inner = format!("{indent}{}", self.unit);
                let layout = Layout::Lines { indent: inner.clone() };
                let items: Vec<String> = (0..count).map(|at| item(at, &layout)).collect();
                let body = items.join(&format!(",{newline}{inner}"));
                format!("{open}{newline}{inner}{body}{newline}{indent}{close}")
            }
        }
    }
}

/// The end of the first line of a text.
pub(crate) fn newline_of(text: &str) -> &'static str {
    let first = text.split_inclusive('\n').next().unwrap_or("");
    if first.ends_with("\r\n") { "\r\n" } else { "\n" }
}

/// A JSON string.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
