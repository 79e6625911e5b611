//! What was said in a session of Claude Code, from its own record: prompts, responses, uses of tools and their results.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::lines::Lines;
use super::text;

/// The most turns that are read.
const TURNS_MAX: usize = 100_000;

/// One thing that was said or done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "turn", rename_all = "snake_case")]
pub enum Turn {
    /// The person wrote.
    Prompt {
        /// What.
        text: String,
        /// When, as the client has it.
        at: Option<String>,
    },
    /// The agent wrote.
    Response {
        /// What.
        text: String,
        /// When, as the client has it.
        at: Option<String>,
    },
    /// The agent used a tool.
    Use {
        /// The tool.
        tool: String,
        /// The client's id of it.
        id: String,
        /// The input.
        input: Value,
    },
    /// What a tool returned.
    Result {
        /// The client's id of the use.
        id: String,
        /// What.
        text: String,
        /// Whether it failed.
        failed: bool,
    },
}

/// Reads the turns of a session, in order. Lines of other kinds, and those that cannot be read, are left out.
#[must_use]
pub fn conversation(bytes: &[u8]) -> Vec<Turn> {
    let mut turns = Vec::new();
    let mut lines = Lines::with(&["\"message\""], bytes);
    while let Some(line) = lines.next() {
        if turns.len() >= TURNS_MAX {
            break;
        }
        if line.get("isSidechain").and_then(Value::as_bool).unwrap_or_default()
            || line.get("isMeta").and_then(Value::as_bool).unwrap_or_default()
        {
            continue;
        }
        let at = text(&line, "timestamp").map(str::to_owned);
        let is_agent = match text(&line, "type") {
            Some("user") => false,
            Some("assistant") => true,
            Some(_) | None => continue,
        };
        let said = |text: &str| {
            let (text, at) = (text.to_owned(), at.clone());
            if is_agent { Turn::Response { text, at } } else { Turn::Prompt { text, at } }
        };
        match line.pointer("/message/content") {
            Some(Value::String(text)) if !text.trim().is_empty() => turns.push(said(text)),
            Some(Value::Array(blocks)) => {
                turns.extend(blocks.iter().filter_map(|block| turn(block, &said)));
            }
            Some(_) | None => {}
        }
    }
    turns
}

fn turn(block: &Value, said: &dyn Fn(&str) -> Turn) -> Option<Turn> {
    match text(block, "type")? {
        "text" => Some(said(text(block, "text").filter(|text| !text.trim().is_empty())?)),
        "tool_use" => Some(Turn::Use {
            tool: text(block, "name")?.to_owned(),
            id: text(block, "id").unwrap_or_default().to_owned(),
            input: block.get("input").cloned().unwrap_or_default(),
        }),
        "tool_result" => Some(Turn::Result {
            id: text(block, "tool_use_id").unwrap_or_default().to_owned(),
            text: result_text(block.get("content")?),
            failed: block.get("is_error").and_then(Value::as_bool).unwrap_or_default(),
        }),
        _ => None,
    }
}

fn result_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| text(part, "text"));
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => content.to_string(),
    }
}

/// A conversation as Markdown; texts are cut after so many characters.
#[must_use]
pub fn conversation_markdown(title: &str, turns: &[Turn], chars_max: usize) -> String {
    let short = |text: &str| {
        let cut: String = text.trim().chars().take(chars_max).collect();
        if cut.len() < text.trim().len() { format!("{cut} […]") } else { cut }
    };
    let mut page = format!("# {title}\n");
    for turn in turns {
        let part = match turn {
            Turn::Prompt { text, .. } => format!("\n## User\n\n{}\n", short(text)),
            Turn::Response { text, .. } => format!("\n## Agent\n\n{}\n", short(text)),
            Turn::Use { tool, input, .. } => {
                format!("\n- used `{tool}`: {}\n", fenced(&short(&input.to_string())))
            }
            Turn::Result { text, failed, .. } => {
                let word = if *failed { "failed" } else { "result" };
                format!("\n- {word}:\n\n{}\n", block(&short(text)))
            }
        };
        page.push_str(&part);
    }
    page
}

/// A text as code in a line; one that has a backtick gets two around it.
fn fenced(text: &str) -> String {
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

/// A text as a block whose fence is longer than any in it.
fn block(text: &str) -> String {
    let longest = text.lines().map(|line| line.chars().take_while(|one| *one == '`').count()).max();
    let fence = "`".repeat(longest.unwrap_or_default().max(2).saturating_add(1));
    format!("{fence}\n{text}\n{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_read_in_order_and_other_lines_are_left_out() {
        let lines = [
            r#"{"type":"summary","summary":"x"}"#,
            r#"{"type":"user","message":{"role":"user","content":"do it"},"timestamp":"t1"}"#,
            "not json at all \"message\"",
            r#"{"type":"assistant","message":{"content":[{"type":"thinking","thinking":"…"},{"type":"text","text":"yes"},{"type":"tool_use","id":"a","name":"Bash","input":{"command":"ls"}}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"x ``` y"}],"is_error":true}]}}"#,
            r#"{"type":"assistant","isSidechain":true,"message":{"content":"a subagent's"}}"#,
            r#"{"type":"user","isMeta":true,"message":{"content":"a note"}}"#,
            r#"{"type":"future","message":{"content":"?"}}"#,
            r#"{"type":"assistant","message":{"content":"cut"#,
        ];
        let turns = conversation(lines.join("\n").as_bytes());
        let use_of_bash = Turn::Use {
            tool: "Bash".to_owned(),
            id: "a".to_owned(),
            input: serde_json::json!({ "command": "ls" }),
        };
        assert_eq!(
            turns,
            [
                Turn::Prompt { text: "do it".to_owned(), at: Some("t1".to_owned()) },
                Turn::Response { text: "yes".to_owned(), at: None },
                use_of_bash,
                Turn::Result { id: "a".to_owned(), text: "x ``` y".to_owned(), failed: true },
            ]
        );
        let page = conversation_markdown("A session", &turns, 4);
        assert!(page.starts_with("# A session\n\n## User\n\ndo i […]\n"), "{page}");
        assert!(page.contains("\n## Agent\n\nyes\n") && page.contains("- failed:"), "{page}");
    }
}
