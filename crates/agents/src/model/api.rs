//! The services that models are reached by.

use serde_json::Value;
use windlass_broker::{End, EventSplitter, ModelProtocol, ModelResponse, ResponseReader};

use super::turn::{Draft, Request, Turn};
use super::{anthropic, chat, responses};

/// The form of a model service's requests and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelApi {
    /// Anthropic's messages.
    Anthropic,
    /// OpenAI's chat completions.
    OpenAiChat,
    /// OpenAI's responses.
    OpenAiResponses,
}

impl ModelApi {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Anthropic, Self::OpenAiChat, Self::OpenAiResponses];

    /// The name in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAiChat => "openai-chat",
            Self::OpenAiResponses => "openai-responses",
        }
    }

    /// The variable with the service's address, and the address without it.
    #[must_use]
    pub const fn endpoint(self) -> (&'static str, &'static str) {
        match self {
            Self::Anthropic => ("ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
            Self::OpenAiChat | Self::OpenAiResponses => {
                ("OPENAI_BASE_URL", "https://api.openai.com/v1")
            }
        }
    }

    /// The variable with the credential, its header, and what stands before it there.
    #[must_use]
    pub const fn credential(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Anthropic => ("ANTHROPIC_API_KEY", "x-api-key", ""),
            Self::OpenAiChat | Self::OpenAiResponses => {
                ("OPENAI_API_KEY", "authorization", "Bearer ")
            }
        }
    }

    /// The address of requests.
    pub(super) fn url(self, endpoint: &str) -> String {
        let base = endpoint.trim_end_matches('/');
        match self {
            Self::Anthropic => format!("{}/v1/messages", base.strip_suffix("/v1").unwrap_or(base)),
            Self::OpenAiChat => format!("{base}/chat/completions"),
            Self::OpenAiResponses => format!("{base}/responses"),
        }
    }

    /// The headers of requests besides the credential.
    pub(super) fn headers(self) -> Vec<(String, String)> {
        match self {
            Self::Anthropic => vec![("anthropic-version".to_owned(), "2023-06-01".to_owned())],
            Self::OpenAiChat | Self::OpenAiResponses => Vec::new(),
        }
    }

    /// The body of a request.
    pub(super) fn request(self, asked: &Request<'_>) -> Value {
        match self {
            Self::Anthropic => anthropic::request(asked),
            Self::OpenAiChat => chat::request(asked),
            Self::OpenAiResponses => responses::request(asked),
        }
    }

    const fn protocol(self) -> ModelProtocol {
        match self {
            Self::Anthropic => ModelProtocol::AnthropicMessages,
            Self::OpenAiChat => ModelProtocol::OpenAiChat,
            Self::OpenAiResponses => ModelProtocol::OpenAiResponses,
        }
    }
}

/// Reads an answer piece by piece.
pub(super) struct TurnReader {
    api: ModelApi,
    splitter: EventSplitter,
    response: ResponseReader,
    draft: Draft,
}

impl TurnReader {
    /// Begins with the head of a response; `now` is in seconds since 1970.
    pub(super) fn new(api: ModelApi, status: u16, headers: &[(String, Vec<u8>)], now: u64) -> Self {
        let headers: Vec<(&str, &[u8])> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        let response = ResponseReader::new(api.protocol(), status, &headers, now);
        Self { api, splitter: EventSplitter::default(), response, draft: Draft::default() }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.response.push(bytes);
        for event in self.splitter.push(bytes) {
            self.event(&event);
        }
    }

    /// What the service said, and the answer, which counts only if there was no trouble.
    pub(super) fn finish(mut self, end: End) -> (ModelResponse, Turn) {
        if let Some(rest) = self.splitter.finish() {
            self.event(&rest);
        }
        (self.response.finish(end), self.draft.finish())
    }

    fn event(&mut self, event: &[u8]) {
        // What cannot be read is a trouble that the response tells of.
        let Ok(value) = serde_json::from_slice::<Value>(event) else { return };
        match self.api {
            ModelApi::Anthropic => anthropic::event(&mut self.draft, &value),
            ModelApi::OpenAiChat => chat::event(&mut self.draft, &value),
            ModelApi::OpenAiResponses => responses::event(&mut self.draft, &value),
        }
    }
}
