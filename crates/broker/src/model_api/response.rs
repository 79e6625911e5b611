//! Responses: usage, the tools that the model calls, why it stopped, and what went wrong.

use serde_json::Value;

use super::stream::EventSplitter;
use super::trouble::{ModelTrouble, Waiting, classify, message_of};
use super::{ModelProtocol, in_namespace};
use crate::event::End;

/// The most tool uses that are kept, and the longest name or id of one.
const TOOL_USES_MAX: usize = 1000;
const NAME_CHARS_MAX: usize = 512;

/// Tokens, each counted once: cached ones are not part of `input`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the request that were neither read from nor written to a cache.
    pub input: u64,
    /// Tokens of the response, thoughts included.
    pub output: u64,
    /// Tokens of the request that were read from a cache.
    pub cached_read: u64,
    /// Tokens of the request that were written to a cache.
    pub cached_write: u64,
}

impl Usage {
    /// Takes a later count of which parts can be missing or zero, because they were told before.
    fn raise(&mut self, later: Self) {
        self.input = self.input.max(later.input);
        self.output = self.output.max(later.output);
        self.cached_read = self.cached_read.max(later.cached_read);
        self.cached_write = self.cached_write.max(later.cached_write);
    }
}

/// A tool that the model calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolUse {
    /// The id of the call, if the service gives one.
    pub id: Option<String>,
    /// The name of the tool, written as in [`OfferedTool`](super::OfferedTool); its type if it has no
    /// name.
    pub name: String,
}

/// What a response says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelResponse {
    /// The tokens.
    pub usage: Usage,
    /// Why the model stopped, in the service's own word.
    pub stop_reason: Option<String>,
    /// The tools that the model calls.
    pub tool_uses: Vec<ToolUse>,
    /// What went wrong.
    pub trouble: Option<ModelTrouble>,
    /// What the service says about it, in one line; nothing if it says nothing.
    pub message: String,
    /// Whether a part could not be read, so that the rest may be incomplete.
    pub is_partial: bool,
}

/// Reads a response piece by piece. Its memory is bounded by the largest event that is read, 16 MiB.
#[derive(Debug)]
pub struct ResponseReader {
    protocol: ModelProtocol,
    status: u16,
    waiting: Waiting,
    splitter: EventSplitter,
    response: ModelResponse,
    error: Option<Value>,
    /// Whether the end of the answer was seen.
    is_complete: bool,
}

impl ResponseReader {
    /// Begins with the head of a response; `now` is in seconds since 1970.
    #[must_use]
    pub fn new(protocol: ModelProtocol, status: u16, headers: &[(&str, &[u8])], now: u64) -> Self {
        Self {
            protocol,
            status,
            waiting: Waiting::read(headers, now),
            splitter: EventSplitter::default(),
            response: ModelResponse::default(),
            error: None,
            is_complete: false,
        }
    }

    /// Takes a piece of the body.
    pub fn push(&mut self, bytes: &[u8]) {
        for event in self.splitter.push(bytes) {
            self.text(&event);
        }
    }

    /// The usage as far as it is known.
    #[must_use]
    pub const fn usage(&self) -> Usage {
        self.response.usage
    }

    /// Takes the end of the exchange and returns what the response said.
    #[must_use]
    pub fn finish(mut self, end: End) -> ModelResponse {
        if let Some(rest) = self.splitter.finish() {
            self.text(&rest);
        }
        self.response.is_partial |= self.splitter.has_skipped;
        let is_error = self.status >= 300 || self.error.is_some();
        // The end may have been in the part that was skipped.
        let unread = self.splitter.has_skipped && end == End::Done;
        if is_error {
            let status = (self.status >= 300).then_some(self.status);
            let trouble = classify(status, self.error.as_ref(), self.waiting);
            self.response.trouble = Some(trouble);
            self.response.message = message_of(self.error.as_ref());
        } else if self.response.trouble.is_none() && !self.is_complete && !unread {
            self.response.trouble = Some(ModelTrouble::of_break(end));
        }
        self.response
    }

    fn text(&mut self, text: &[u8]) {
        if text.trim_ascii() == b"[DONE]" {
            self.is_complete = true;
            return;
        }
        match serde_json::from_slice(text) {
            Ok(Value::Array(values)) => values.iter().for_each(|value| self.value(value)),
            Ok(value) => self.value(&value),
            // The rest of a response that broke off.
            Err(_) => self.response.is_partial = true,
        }
    }

    fn value(&mut self, value: &Value) {
        if let Some(error) = error_of(value) {
            self.error.get_or_insert_with(|| error.clone());
            self.is_complete = true;
        }
        match self.protocol {
            ModelProtocol::AnthropicMessages => self.anthropic(value),
            ModelProtocol::OpenAiResponses => self.responses(value),
            ModelProtocol::OpenAiChat => self.chat(value),
            ModelProtocol::Gemini => self.gemini(value.get("response").unwrap_or(value)),
        }
    }

    fn anthropic(&mut self, value: &Value) {
        match text_of(value, "type") {
            Some("message_start") => self.anthropic_usage(at(at(value, "message"), "usage")),
            Some("content_block_start") => self.anthropic_block(at(value, "content_block")),
            Some("message_delta") => {
                self.anthropic_usage(at(value, "usage"));
                self.stop(text_of(at(value, "delta"), "stop_reason"));
            }
            Some("message_stop") => self.is_complete = true,
            Some("message") => {
                self.anthropic_usage(at(value, "usage"));
                items(at(value, "content")).for_each(|block| self.anthropic_block(block));
                self.stop(text_of(value, "stop_reason"));
                self.is_complete = true;
            }
            // The answer to a count of tokens.
            None if value.get("input_tokens").is_some() => self.is_complete = true,
            Some(_) | None => {}
        }
    }

    fn anthropic_usage(&mut self, usage: &Value) {
        self.response.usage.raise(Usage {
            input: count(usage, "input_tokens"),
            output: count(usage, "output_tokens"),
            cached_read: count(usage, "cache_read_input_tokens"),
            cached_write: count(usage, "cache_creation_input_tokens"),
        });
    }

    fn anthropic_block(&mut self, block: &Value) {
        if text_of(block, "type").is_some_and(|kind| kind.ends_with("tool_use")) {
            self.tool_use(text_of(block, "id"), None, text_of(block, "name"));
        }
    }

    fn responses(&mut self, value: &Value) {
        match text_of(value, "type") {
            Some("response.output_item.added" | "response.output_item.done") => {
                self.responses_item(at(value, "item"));
            }
            Some("response.refusal.done") => self.response.trouble = Some(ModelTrouble::Refusal),
            Some("response.completed" | "response.incomplete" | "response.failed") => {
                self.whole_response(at(value, "response"));
            }
            None if value.get("output").is_some() => self.whole_response(value),
            Some(_) | None => {}
        }
    }

    fn whole_response(&mut self, response: &Value) {
        items(at(response, "output")).for_each(|item| self.responses_item(item));
        let usage = at(response, "usage");
        let cached = count(at(usage, "input_tokens_details"), "cached_tokens");
        self.usage_now(usage, |usage| Usage {
            input: count(usage, "input_tokens").saturating_sub(cached),
            output: count(usage, "output_tokens"),
            cached_read: cached,
            cached_write: 0,
        });
        let incomplete = text_of(at(response, "incomplete_details"), "reason");
        self.stop(incomplete.or_else(|| text_of(response, "status")));
        self.is_complete = true;
    }

    fn responses_item(&mut self, item: &Value) {
        let Some(kind) = text_of(item, "type") else { return };
        if items(at(item, "content")).any(|part| text_of(part, "type") == Some("refusal")) {
            self.response.trouble = Some(ModelTrouble::Refusal);
        }
        let Some(kind) = kind.strip_suffix("_call") else { return };
        let id = text_of(item, "call_id").or_else(|| text_of(item, "id"));
        let name = text_of(item, "name").unwrap_or(kind);
        self.tool_use(id, text_of(item, "namespace"), Some(name));
    }

    fn chat(&mut self, value: &Value) {
        for choice in items(at(value, "choices")) {
            for message in [at(choice, "delta"), at(choice, "message")] {
                for call in items(at(message, "tool_calls")) {
                    self.tool_use(text_of(call, "id"), None, text_of(at(call, "function"), "name"));
                    self.tool_use(text_of(call, "id"), None, text_of(at(call, "custom"), "name"));
                }
                self.tool_use(None, None, text_of(at(message, "function_call"), "name"));
                if text_of(message, "refusal").is_some() {
                    self.response.trouble = Some(ModelTrouble::Refusal);
                }
            }
            if let Some(reason) = text_of(choice, "finish_reason") {
                self.stop(Some(reason));
                self.is_complete = true;
            }
        }
        let usage = at(value, "usage");
        let details = at(usage, "prompt_tokens_details");
        let (read, write) = (count(details, "cached_tokens"), count(details, "cache_write_tokens"));
        self.usage_now(usage, |usage| Usage {
            input: count(usage, "prompt_tokens").saturating_sub(read).saturating_sub(write),
            output: count(usage, "completion_tokens"),
            cached_read: read,
            cached_write: write,
        });
    }

    fn gemini(&mut self, value: &Value) {
        for candidate in items(at(value, "candidates")) {
            for part in items(at(at(candidate, "content"), "parts")) {
                let call = at(part, "functionCall");
                self.tool_use(text_of(call, "id"), None, text_of(call, "name"));
            }
            if let Some(reason) = text_of(candidate, "finishReason") {
                self.stop(Some(reason));
                self.is_complete = true;
            }
        }
        if let Some(reason) = text_of(at(value, "promptFeedback"), "blockReason") {
            self.stop(Some(reason));
            self.response.trouble = Some(ModelTrouble::Refusal);
        }
        // The answer to a count of tokens.
        self.is_complete |= value.get("totalTokens").is_some();
        let usage = at(value, "usageMetadata");
        let cached = count(usage, "cachedContentTokenCount");
        let input = count(usage, "promptTokenCount").saturating_sub(cached);
        let output = count(usage, "candidatesTokenCount");
        self.usage_now(usage, |usage| Usage {
            input: input.saturating_add(count(usage, "toolUsePromptTokenCount")),
            output: output.saturating_add(count(usage, "thoughtsTokenCount")),
            cached_read: cached,
            cached_write: 0,
        });
    }

    /// Takes a count that replaces what was told before.
    fn usage_now(&mut self, usage: &Value, read: impl FnOnce(&Value) -> Usage) {
        if usage.is_object() {
            self.response.usage = read(usage);
        }
    }

    fn stop(&mut self, reason: Option<&str>) {
        let Some(reason) = reason else { return };
        match reason {
            "refusal" | "content_filter" | "SAFETY" | "RECITATION" | "PROHIBITED_CONTENT"
            | "BLOCKLIST" | "SPII" => self.response.trouble = Some(ModelTrouble::Refusal),
            "model_context_window_exceeded" => {
                self.response.trouble = Some(ModelTrouble::ContextFull);
            }
            _ => {}
        }
        self.response.stop_reason = Some(bounded(reason));
    }

    /// Keeps a tool use. Several events can tell of one.
    fn tool_use(&mut self, id: Option<&str>, namespace: Option<&str>, name: Option<&str>) {
        let Some(name) = name else { return };
        let tool_use = ToolUse {
            id: id.map(bounded),
            name: in_namespace(namespace.map(bounded).as_deref(), &bounded(name)),
        };
        let uses = &mut self.response.tool_uses;
        if tool_use.id.is_some() && uses.iter().any(|known| known.id == tool_use.id) {
            return;
        }
        if uses.len() < TOOL_USES_MAX {
            uses.push(tool_use);
        } else {
            self.response.is_partial = true;
        }
    }
}

/// The error that a body or an event tells of.
fn error_of(value: &Value) -> Option<&Value> {
    let own = match text_of(value, "type") {
        Some("response.failed") => value.get("response").and_then(|response| response.get("error")),
        // The message stands in the event itself.
        Some("error") if value.get("message").is_some() => Some(value),
        Some(_) | None => value.get("error"),
    };
    own.filter(|error| !error.is_null())
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The value of a key, or null.
fn at<'a>(value: &'a Value, key: &str) -> &'a Value {
    value.get(key).unwrap_or(&Value::Null)
}

fn text_of<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

fn count(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(0)
}

fn bounded(text: &str) -> String {
    text.chars().take(NAME_CHARS_MAX).collect()
}
