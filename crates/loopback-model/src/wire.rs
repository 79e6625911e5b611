//! The protocols: which request is in which, what it says, and how an answer is written.

mod chat;
mod gemini;
mod messages;
mod responses;

use serde::Serialize;
use serde_json::{Value, json};

use crate::script::Usage;
use crate::tools::ReadyCall;
use crate::transcript::{Item, Transcript, Turn, string};

/// A protocol in which clients talk to models.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// Anthropic Messages.
    Messages,
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions.
    ChatCompletions,
    /// Gemini `generateContent`.
    Gemini,
}

/// What a path asks for.
#[derive(Debug, Eq, PartialEq)]
pub enum Route {
    /// An answer of the model.
    Generate {
        protocol: Protocol,
        /// Gemini names its model and asks for a stream in the path.
        model: Option<String>,
        stream: bool,
    },
    /// A number of tokens, under this key.
    CountTokens {
        key: &'static str,
    },
    Unknown,
}

/// What a POST to the path asks for.
pub fn route(path: &str) -> Route {
    let generate = |protocol, model, stream| Route::Generate { protocol, model, stream };
    if let Some((_, call)) = path.rsplit_once("/models/")
        && let Some((model, method)) = call.split_once(':')
    {
        let model = Some(model.to_owned());
        return match method {
            "streamGenerateContent" => generate(Protocol::Gemini, model, true),
            "generateContent" => generate(Protocol::Gemini, model, false),
            "countTokens" => Route::CountTokens { key: "totalTokens" },
            _ => Route::Unknown,
        };
    }
    if path.ends_with("/messages/count_tokens") {
        return Route::CountTokens { key: "input_tokens" };
    }
    if path.ends_with("/messages") {
        return generate(Protocol::Messages, None, false);
    }
    if path.ends_with("/responses") {
        return generate(Protocol::Responses, None, false);
    }
    if path.ends_with("/chat/completions") {
        return generate(Protocol::ChatCompletions, None, false);
    }
    Route::Unknown
}

/// The models that a client is told of.
pub fn models() -> Value {
    let model = json!({ "id": "loopback", "type": "model", "object": "model" });
    json!({ "object": "list", "data": [model], "has_more": false, "models": [] })
}

/// An answer, before it is written in a protocol.
#[derive(Debug)]
pub struct Answer {
    /// The end of all ids that belong to the answer.
    pub id: String,
    pub model: String,
    pub text: String,
    pub calls: Vec<ReadyCall>,
    pub usage: Usage,
}

/// Where an event stands in its stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Part {
    /// Before the first content.
    Head,
    /// A text or a call; the first of a text can be repeated.
    Content,
    /// What says that the message is complete.
    End,
}

/// One event of a stream.
#[derive(Debug)]
pub struct Event {
    pub part: Part,
    name: Option<&'static str>,
    data: String,
}

impl Event {
    /// An event that is named as its data's type.
    fn typed(part: Part, name: &'static str, mut data: Value) -> Self {
        if let Some(fields) = data.as_object_mut() {
            fields.insert("type".to_owned(), Value::from(name));
        }
        Self { part, name: Some(name), data: data.to_string() }
    }

    fn plain(part: Part, data: &Value) -> Self {
        Self { part, name: None, data: data.to_string() }
    }

    /// The event as bytes of the stream.
    pub fn bytes(&self) -> Vec<u8> {
        let name = self.name.map(|name| format!("event: {name}\n")).unwrap_or_default();
        format!("{name}data: {}\n\n", self.data).into_bytes()
    }
}

impl Protocol {
    /// What a request says.
    pub fn transcript(self, body: &Value) -> Transcript {
        let mut items = Vec::new();
        match self {
            Self::Messages => messages::items(body, &mut items),
            Self::Responses => responses::items(body, &mut items),
            Self::ChatCompletions => chat::items(body, &mut items),
            Self::Gemini => gemini::items(body, &mut items),
        }
        Transcript::new(items)
    }

    /// The stream of an answer.
    pub fn events(self, answer: &Answer) -> Vec<Event> {
        match self {
            Self::Messages => messages::events(answer),
            Self::Responses => responses::events(answer),
            Self::ChatCompletions => chat::events(answer),
            Self::Gemini => gemini::events(answer),
        }
    }

    /// The answer as one document.
    pub fn document(self, answer: &Answer) -> Value {
        match self {
            Self::Messages => messages::document(answer),
            Self::Responses => responses::document(answer),
            Self::ChatCompletions => chat::document(answer),
            Self::Gemini => gemini::document(answer),
        }
    }

    /// An error inside of a stream.
    pub fn error_event(self, answer: &Answer, error: &Value) -> Event {
        match self {
            Self::Messages => Event::typed(Part::Content, "error", json!({ "error": error })),
            Self::Responses => responses::failed(answer, error),
            Self::ChatCompletions | Self::Gemini => {
                Event::plain(Part::Content, &json!({ "error": error }))
            }
        }
    }

    /// How the ids of tool calls begin.
    pub const fn call_prefix(self) -> &'static str {
        match self {
            Self::Messages => "toolu_",
            Self::Responses | Self::ChatCompletions | Self::Gemini => "call_",
        }
    }
}

/// The item of a message in the protocols with roles.
fn message(role: &str, text: String) -> Option<Item> {
    match role {
        "system" | "developer" => Some(Item::System(text)),
        "user" => Some(Item::User(text)),
        "assistant" | "model" => Some(Turn::text(text)),
        _ => None,
    }
}

/// The model that a body names.
pub fn model_of(body: &Value) -> Option<String> {
    Some(string(body, "model")).filter(|model| !model.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_any_beginning() {
        let plain = |protocol| Route::Generate { protocol, model: None, stream: false };
        let gemini = |stream| Route::Generate {
            protocol: Protocol::Gemini,
            model: Some("gemini-3".to_owned()),
            stream,
        };
        for (path, expected) in [
            ("/v1/messages", plain(Protocol::Messages)),
            ("/messages", plain(Protocol::Messages)),
            ("/v1/messages/count_tokens", Route::CountTokens { key: "input_tokens" }),
            ("/openai/v1/responses", plain(Protocol::Responses)),
            ("/v1/chat/completions", plain(Protocol::ChatCompletions)),
            ("/v1beta/models/gemini-3:generateContent", gemini(false)),
            ("/v1beta/models/gemini-3:streamGenerateContent", gemini(true)),
            ("/v1beta/models/gemini-3:countTokens", Route::CountTokens { key: "totalTokens" }),
            ("/v1beta/models/gemini-3:embedContent", Route::Unknown),
            ("/v1/completions", Route::Unknown),
            ("/v1/models", Route::Unknown),
        ] {
            assert_eq!(route(path), expected, "{path}");
        }
    }
}
