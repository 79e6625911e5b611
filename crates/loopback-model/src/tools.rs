//! The tools that a request offers, and which of them a script means.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::script::{Call, CallKind};
use crate::transcript::{ToolResult, list, string};

/// A tool that a client offers to the model.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct OfferedTool {
    /// The namespace, in the protocol that has them.
    pub namespace: Option<String>,
    /// The name; the type of a tool that has none.
    pub name: String,
}

impl fmt::Display for OfferedTool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(formatter, "{namespace}::{}", self.name),
            None => formatter.write_str(&self.name),
        }
    }
}

/// A call as it is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadyCall {
    pub id: String,
    pub namespace: Option<String>,
    pub name: String,
    pub input: Value,
    pub kind: CallKind,
}

/// All tools that a request offers, in any protocol.
pub fn offered(body: &Value) -> Vec<OfferedTool> {
    let mut tools = Vec::new();
    add(list(body, "tools"), None, &mut tools);
    for item in list(body, "input") {
        // Codex sends its list, and what a search for tools found, as parts of the conversation.
        if matches!(string(item, "type"), "additional_tools" | "tool_search_output") {
            add(list(item, "tools"), None, &mut tools);
        }
    }
    tools
}

fn add(listed: &[Value], namespace: Option<&str>, tools: &mut Vec<OfferedTool>) {
    for tool in listed {
        if string(tool, "type") == "namespace" {
            // Namespaces are not nested: what a deeper one holds is its own.
            add_plain(list(tool, "tools"), Some(string(tool, "name")), tools);
        } else if tool.get("functionDeclarations").is_some() {
            add_plain(list(tool, "functionDeclarations"), namespace, tools);
        } else {
            add_plain(std::slice::from_ref(tool), namespace, tools);
        }
    }
}

fn add_plain(listed: &[Value], namespace: Option<&str>, tools: &mut Vec<OfferedTool>) {
    for tool in listed {
        let function = tool.get("function").unwrap_or(tool);
        let name = match string(function, "name") {
            "" => string(tool, "type"),
            name => name,
        };
        // Hosted tools of Gemini are objects with one key, their name.
        let name = match (name, tool.as_object().and_then(|fields| fields.keys().next())) {
            ("", Some(key)) => key,
            (name, _) => name,
        };
        tools.push(OfferedTool { namespace: namespace.map(str::to_owned), name: name.to_owned() });
    }
}

/// The call to send; `None` if no offered tool has its name.
pub fn resolve(call: &Call, offered: &[OfferedTool], id: String) -> Option<ReadyCall> {
    let (namespace, name) = match call.name.strip_prefix('=') {
        Some(name) => (None, name.to_owned()),
        None => {
            let tool = find(&call.name, offered)?;
            (tool.namespace.clone(), tool.name.clone())
        }
    };
    Some(ReadyCall {
        id: call.id.clone().unwrap_or(id),
        namespace: call.namespace.clone().or(namespace),
        name,
        input: call.input.clone(),
        kind: call.kind,
    })
}

/// The input of a call with the numbers that results tell.
pub fn with_numbers(call: &Call, results: &[ToolResult]) -> Value {
    let mut input = call.input.clone();
    for (field, before) in &call.numbers {
        let after = results.iter().rev().find_map(|result| result.text.split_once(before.as_str()));
        let digits: String = after
            .map(|(_, rest)| rest.chars().take_while(char::is_ascii_digit).collect())
            .unwrap_or_default();
        if let (Some(fields), Ok(number)) = (input.as_object_mut(), digits.parse::<u64>()) {
            fields.insert(field.clone(), number.into());
        }
    }
    input
}

/// The offered tool whose name is `name`, or ends with it after `_` or another separator. Of several, the
/// one with the least before it.
fn find<'a>(name: &str, offered: &'a [OfferedTool]) -> Option<&'a OfferedTool> {
    let wanted = normal(name);
    let prefix = |tool: &OfferedTool| {
        let known = normal(&tool.name);
        let prefix = known.strip_suffix(&wanted)?;
        (prefix.is_empty() || prefix.ends_with('_')).then_some(prefix.len())
    };
    let found = offered.iter().filter_map(|tool| Some((prefix(tool)?, tool)));
    found.min_by_key(|(length, _)| *length).map(|(_, tool)| tool)
}

/// Clients replace the characters that their model's names cannot have.
fn normal(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(body: &Value) -> Vec<String> {
        offered(body).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_forms_of_lists_are_read() {
        let plain = json!([{ "name": "a" }, { "type": "custom", "name": "b" }]);
        let chat = json!([{ "type": "function", "function": { "name": "c" } }]);
        let gemini = json!([{ "functionDeclarations": [{ "name": "d" }] }, { "googleSearch": {} }]);
        let space = json!([{ "type": "namespace", "name": "n", "tools": [{ "name": "e" }] },
            { "type": "web_search" }]);
        assert_eq!(names(&json!({ "tools": plain })), ["a", "b"]);
        assert_eq!(names(&json!({ "tools": chat })), ["c"]);
        assert_eq!(names(&json!({ "tools": gemini })), ["d", "googleSearch"]);
        let late = json!([{ "type": "additional_tools", "tools": space }, { "type": "message" }]);
        assert_eq!(
            names(&json!({ "tools": plain, "input": late })),
            ["a", "b", "n::e", "web_search"]
        );
        assert_eq!(names(&json!({ "input": "text" })), Vec::<String>::new());
    }

    fn tool(namespace: Option<&str>, name: &str) -> OfferedTool {
        OfferedTool { namespace: namespace.map(str::to_owned), name: name.to_owned() }
    }

    fn sent(name: &str, offered: &[OfferedTool]) -> Option<String> {
        let call = Call { name: name.to_owned(), ..Call::default() };
        let ready = resolve(&call, offered, "id".to_owned())?;
        Some(tool(ready.namespace.as_deref(), &ready.name).to_string())
    }

    #[test]
    fn a_plain_name_finds_the_tool_under_the_name_of_each_client() {
        for (offered, expected) in [
            (tool(None, "mcp__w__fs_read"), "mcp__w__fs_read"),
            (tool(Some("mcp__w"), "fs_read"), "mcp__w::fs_read"),
            (tool(None, "mcp_w_fs_read"), "mcp_w_fs_read"),
            (tool(None, "w_fs_read"), "w_fs_read"),
            (tool(None, "w__fs_read"), "w__fs_read"),
            (tool(None, "fs_read"), "fs_read"),
        ] {
            assert_eq!(sent("fs_read", std::slice::from_ref(&offered)).as_deref(), Some(expected));
            assert_eq!(sent("fs.read", &[offered]).as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_part_of_a_word_is_not_a_name_and_the_nearest_name_wins() {
        let offered = [tool(None, "w_thread"), tool(None, "w_fs_read"), tool(None, "w_read")];
        assert_eq!(sent("read", &offered).as_deref(), Some("w_read"));
        assert_eq!(sent("read", &offered[..1]), None);
        assert_eq!(sent("shell", &offered), None);
    }

    #[test]
    fn a_name_with_an_equals_sign_is_sent_as_it_is() {
        assert_eq!(sent("=Bash", &[]).as_deref(), Some("Bash"));
        assert_eq!(sent("=read", &[tool(None, "w_read")]).as_deref(), Some("read"));
    }

    #[test]
    fn numbers_are_taken_from_the_latest_result_that_has_them() {
        let result = |text: &str| ToolResult { id: String::new(), text: text.to_owned() };
        let call = Call {
            input: json!({ "id": 0, "text": "a" }),
            numbers: [("id".to_owned(), "session ".to_owned())].into(),
            ..Call::default()
        };
        let results = [result("session 12 runs"), result("session 345\n"), result("nothing")];
        assert_eq!(with_numbers(&call, &results), json!({ "id": 345, "text": "a" }));
        assert_eq!(with_numbers(&call, &[result("session x")]), call.input);
        assert_eq!(with_numbers(&call, &[]), call.input);
    }
}
