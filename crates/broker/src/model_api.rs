//! What requests and responses of model services say: offered tools, usage, trouble. Pure: bytes in,
//! findings out.
//!
//! Requests come from a client that is not trusted, so that whatever could hide a tool is an error.
//! Responses come from the service of the user; what cannot be read of them is left out, and said so.

mod json;
mod request;
mod reset;
mod response;
mod stream;
mod trouble;

pub use request::{ModelRequest, ModelRequestError, OfferedTool};
pub use response::{ModelResponse, ResponseReader, ToolUse, Usage};
pub use stream::EventSplitter;
pub use trouble::ModelTrouble;

/// The form of a model service's requests and responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelProtocol {
    /// Anthropic's messages.
    AnthropicMessages,
    /// OpenAI's responses.
    OpenAiResponses,
    /// OpenAI's chat completions.
    OpenAiChat,
    /// Gemini's `generateContent`.
    Gemini,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Generate,
    CountTokens,
}

impl ModelProtocol {
    /// The protocol of requests to a path, without its query; `None` if the path is not one where
    /// a model is asked.
    #[must_use]
    pub fn of_path(path: &str) -> Option<Self> {
        purpose_of(path).map(|(protocol, _)| protocol)
    }
}

fn purpose_of(path: &str) -> Option<(ModelProtocol, Purpose)> {
    const ENDS: [(&str, ModelProtocol, Purpose); 5] = [
        ("/messages", ModelProtocol::AnthropicMessages, Purpose::Generate),
        ("/messages/count_tokens", ModelProtocol::AnthropicMessages, Purpose::CountTokens),
        ("/responses", ModelProtocol::OpenAiResponses, Purpose::Generate),
        ("/responses/compact", ModelProtocol::OpenAiResponses, Purpose::Generate),
        ("/chat/completions", ModelProtocol::OpenAiChat, Purpose::Generate),
    ];
    if let Some((_, protocol, purpose)) = ENDS.iter().find(|(end, ..)| path.ends_with(end)) {
        return Some((*protocol, *purpose));
    }
    let (_, verb) = path.rsplit('/').next()?.split_once(':')?;
    let purpose = match verb {
        "generateContent" | "streamGenerateContent" => Purpose::Generate,
        "countTokens" => Purpose::CountTokens,
        _ => return None,
    };
    Some((ModelProtocol::Gemini, purpose))
}

/// Joins the name of a tool with its namespace.
fn in_namespace(namespace: Option<&str>, name: &str) -> String {
    namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}::{name}"))
}

#[cfg(test)]
mod tests;
