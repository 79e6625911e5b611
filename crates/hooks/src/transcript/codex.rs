//! Transcripts of Codex, which it calls rollouts.
//!
//! Most of its models use tools from scripts: the rollout then has the script as a call of `exec`, for which there is
//! no hook event, and an item for each tool that ran in it, with the id that the tool's hook events have. It has no item
//! for what a hook refused, for `write_stdin`, for a command that still runs or that the sandbox stopped.

use serde_json::{Value, json};

use super::lines::Lines;
use super::{Tokens, Transcript, TranscriptUse, UseOutcome, Uses, name, object, path, text};
use crate::client::Client;
use crate::event::ToolUse;
use crate::tools::ToolTable;

const WORDS: [&str; 4] = ["\"session_meta\"", "_call", "\"item_completed\"", "\"token_count\""];

/// How an output begins if the tool did not run.
const REFUSALS: [&str; 6] = [
    "exec_command failed: CreateProcess { message: \"Rejected(",
    "Command blocked by PreToolUse hook: ",
    "Tool call blocked by PreToolUse hook: ",
    "failed to parse function arguments",
    "unsupported call: ",
    "unsupported custom tool call: ",
];

/// What the error of a call of an MCP server begins with if it was not made.
const MCP_REFUSALS: [&str; 3] = [
    "MCP tool call requires approval",
    "user rejected MCP tool call",
    "user cancelled MCP tool call",
];

/// The tools that run a command, and the field that it is in.
const SHELLS: [(&str, &str); 5] = [
    ("exec_command", "cmd"),
    ("shell", "command"),
    ("shell_command", "command"),
    ("local_shell", "command"),
    ("container.exec", "command"),
];

pub(super) fn read(bytes: &[u8]) -> Transcript {
    let mut reader = Reader::default();
    let mut lines = Lines::with(&WORDS, bytes);
    while let Some(line) = lines.next() {
        reader.line(&line);
    }
    let Reader { mut transcript, uses, .. } = reader;
    transcript.is_incomplete = lines.is_incomplete || uses.is_incomplete;
    transcript.uses = uses.list;
    transcript
}

#[derive(Default)]
struct Reader {
    transcript: Transcript,
    uses: Uses,
    has_head: bool,
    subagent: bool,
    /// The number of the first line that is not copied from the session that started the subagent.
    own_from: u64,
}

impl Reader {
    fn line(&mut self, line: &Value) {
        let Some(payload) = line.get("payload") else { return };
        if text(line, "type") == Some("session_meta") {
            return self.head(payload);
        }
        let number = line.get("ordinal").and_then(Value::as_u64);
        if number.is_some_and(|number| number < self.own_from) {
            return;
        }
        match (text(line, "type"), text(payload, "type")) {
            // The sum of the whole session, each time.
            (Some("event_msg"), Some("token_count")) => {
                let sum = payload.pointer("/info/total_token_usage");
                let sum = Tokens::of(sum, &["input_tokens"], &["output_tokens"]);
                self.transcript.tokens = sum.unwrap_or(self.transcript.tokens);
            }
            (Some("response_item"), Some("function_call")) => self.function(payload),
            (Some("response_item"), Some("custom_tool_call")) => self.custom(payload),
            (Some("response_item"), Some("local_shell_call")) => {
                let action = object(payload.get("action"));
                let command = action.get("command").cloned().unwrap_or_default();
                let id = text(payload, "call_id").or_else(|| text(payload, "id"));
                let input = shell_input(&command, &action, "command");
                self.add(id, "Bash", input, UseOutcome::Unknown);
            }
            (Some("response_item"), Some("function_call_output" | "custom_tool_call_output")) => {
                self.output(payload);
            }
            (Some("event_msg"), Some("item_completed")) => {
                if let Some(item) = payload.get("item") {
                    self.item(item);
                }
            }
            (Some(_) | None, Some(_) | None) => {}
        }
    }

    /// What the session is. A copy of another session's head may follow the first.
    fn head(&mut self, meta: &Value) {
        if self.has_head {
            return;
        }
        self.has_head = true;
        let session = text(meta, "session_id").or_else(|| text(meta, "id"));
        self.transcript.session = name(session);
        self.transcript.cwd = path(text(meta, "cwd"));
        self.subagent = text(meta, "thread_source") == Some("subagent")
            || meta.pointer("/source/subagent").is_some();
        let own_from = meta.get("subagent_history_start_ordinal").and_then(Value::as_u64);
        self.own_from = own_from.filter(|_| self.subagent).unwrap_or_default();
    }

    fn function(&mut self, call: &Value) {
        let Some(name) = text(call, "name") else { return };
        let arguments = text(call, "arguments").unwrap_or_default();
        let input = object(serde_json::from_str(arguments).ok().as_ref());
        let (tool, input) = match full_name(text(call, "namespace"), name) {
            tool if tool == "apply_patch" => {
                let patch = input.get("input").or_else(|| input.get("patch")).cloned();
                (tool, patch.map_or(input, |patch| json!({ "command": patch })))
            }
            tool => {
                let field = SHELLS.iter().find(|(shell, _)| *shell == tool).map(|(_, field)| field);
                match field.and_then(|field| input.get(field)) {
                    Some(command) => {
                        let name = field.copied().unwrap_or_default();
                        ("Bash".to_owned(), shell_input(command, &input, name))
                    }
                    None => (tool, input),
                }
            }
        };
        self.add(text(call, "call_id"), &tool, input, UseOutcome::Unknown);
    }

    fn custom(&mut self, call: &Value) {
        let (Some(name), Some(input)) = (text(call, "name"), text(call, "input")) else { return };
        let id = text(call, "call_id");
        match full_name(text(call, "namespace"), name).as_str() {
            // What the script used has items, except for this.
            "exec" if input.contains("write_stdin") => {
                self.add(id, "write_stdin", json!({ "script": input }), UseOutcome::MayHaveRun);
            }
            "exec" => {}
            "apply_patch" => {
                self.add(id, "apply_patch", json!({ "command": input }), UseOutcome::Unknown);
            }
            tool => self.add(id, tool, json!({ "input": input }), UseOutcome::Unknown),
        }
    }

    fn output(&mut self, output: &Value) {
        let Some(id) = text(output, "call_id") else { return };
        let said = output.get("output");
        let said = said.and_then(|said| match said {
            Value::String(said) => Some(said.as_str()),
            Value::Array(parts) => parts.first().and_then(|part| text(part, "text")),
            Value::Object(_) => text(said, "content"),
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        });
        let said = said.unwrap_or_default();
        if let Some(tool_use) = self.uses.get_mut(id)
            // An item says it better: a tool cannot write one.
            && tool_use.outcome == UseOutcome::Unknown
        {
            tool_use.outcome = if REFUSALS.iter().any(|refusal| said.starts_with(refusal)) {
                UseOutcome::Refused
            } else if is_stopped(said) {
                UseOutcome::MayHaveRun
            } else {
                UseOutcome::Ran
            };
        }
    }

    fn item(&mut self, item: &Value) {
        let status = text(item, "status");
        let (tool, input, outcome) = match text(item, "type") {
            // A line that a person entered.
            Some("CommandExecution") if text(item, "source") == Some("user_shell") => return,
            Some("CommandExecution") => {
                let outcome =
                    if status == Some("declined") { UseOutcome::Refused } else { UseOutcome::Ran };
                let tool = match text(item, "source") {
                    Some("unified_exec_interaction") => "write_stdin",
                    Some(_) | None => "Bash",
                };
                (tool.to_owned(), command_line(item), outcome)
            }
            Some("FileChange") => {
                // A person may be asked after the sandbox stopped a patch of which a part was applied.
                let outcome = if status == Some("declined") {
                    UseOutcome::MayHaveRun
                } else {
                    UseOutcome::Ran
                };
                let changes = object(item.get("changes"));
                ("apply_patch".to_owned(), json!({ "changes": changes }), outcome)
            }
            Some("McpToolCall") => {
                let Some(tool) = text(item, "tool") else { return };
                let tool = match text(item, "server") {
                    Some("codex") | None => tool.to_owned(),
                    Some(server) => format!("mcp__{server}__{tool}"),
                };
                (tool, object(item.get("arguments")), mcp_outcome(item))
            }
            Some(_) | None => return,
        };
        let Some(id) = text(item, "id") else { return };
        match self.uses.get_mut(id) {
            Some(tool_use) => tool_use.outcome = outcome,
            None => self.add(Some(id), &tool, input, outcome),
        }
    }

    fn add(&mut self, id: Option<&str>, tool: &str, input: Value, outcome: UseOutcome) {
        let Some(id) = id else {
            self.uses.is_incomplete = true;
            return;
        };
        let tool_use = TranscriptUse {
            id: Some(id.to_owned()),
            tool: tool.to_owned(),
            input,
            outcome,
            subagent: self.subagent,
        };
        self.uses.add(id, tool_use);
    }
}

/// A tool's name as hook events have it.
fn full_name(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        None | Some("functions") => name.to_owned(),
        Some(namespace) if namespace.starts_with("mcp__") => {
            format!("{}__{}", namespace.trim_end_matches('_'), name.trim_start_matches('_'))
        }
        Some(namespace) => format!("{namespace}{name}"),
    }
}

/// Whether an output is that of a call that was stopped or could not be started.
fn is_stopped(said: &str) -> bool {
    let after_time = said.strip_prefix("Wall time: ").and_then(|rest| rest.split_once('\n'));
    after_time.map_or(said, |(_, rest)| rest).starts_with("aborted")
        || said.starts_with("exec_command failed")
}

/// The input as the event before the use has it, and with it what chooses another program or other variables, which the
/// event does not show.
fn shell_input(command: &Value, input: &Value, line: &str) -> Value {
    let mut shown = json!({ "command": command });
    let fields = input.as_object().into_iter().flatten();
    let others = fields.filter(|(name, value)| {
        name.as_str() != line && name.as_str() != "type" && !value.is_null()
    });
    for (name, value) in others {
        let alone = json!({ "command": "true", name.as_str(): value });
        if is_foreign(alone)
            && let Some(shown) = shown.as_object_mut()
        {
            shown.insert(name.clone(), value.clone());
        }
    }
    shown
}

fn is_foreign(input: Value) -> bool {
    let tool_use = ToolUse { id: None, name: "Bash".to_owned(), input, mcp_server: None };
    // What only the newer tool has is the same here.
    let also = ["tty", "yield_time_ms", "max_output_tokens"];
    let is_known = also.iter().any(|name| tool_use.input.get(name).is_some());
    !is_known && ToolTable::shipped().foreign_program(Client::Codex, &tool_use).is_some()
}

/// The line that a shell ran, or the words of another command; with the shell if it is not one of the system.
fn command_line(item: &Value) -> Value {
    let command = item.get("command").cloned().unwrap_or_default();
    match command.as_array().map(Vec::as_slice) {
        Some([program, option, line]) if option == "-lc" || option == "-c" => {
            let with_shell = json!({ "command": line, "shell": program });
            if is_foreign(with_shell.clone()) { with_shell } else { json!({ "command": line }) }
        }
        Some(_) | None => json!({ "command": command }),
    }
}

fn mcp_outcome(item: &Value) -> UseOutcome {
    if item.get("result").is_some_and(|result| !result.is_null()) {
        return UseOutcome::Ran;
    }
    let error = item.pointer("/error/message").and_then(Value::as_str);
    match error {
        Some(error) if MCP_REFUSALS.iter().any(|refusal| error.starts_with(refusal)) => {
            UseOutcome::Refused
        }
        Some(_) => UseOutcome::MayHaveRun,
        None => UseOutcome::Ran,
    }
}
