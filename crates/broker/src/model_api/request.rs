//! Requests: which model is asked, and which tools it is offered.

use std::fmt;

use thiserror::Error;

use super::json::{Fields, Problem, each, folded, is_nothing};
use super::{ModelProtocol, Purpose, in_namespace, purpose_of};
use crate::inspect::InspectedRequest;

const TOOLS_MAX: usize = 2000;
const NAME_BYTES_MAX: usize = 512;
const NAMESPACES_MAX: usize = 4;

/// Fields beside `tools` by which a request makes a service use tools of its own, or refers to
/// something stored at the service that can name tools.
const OFFERS: [&str; 10] = [
    "mcp_servers",
    "container",
    "prompt",
    "web_search_options",
    "search_parameters",
    "plugins",
    "cachedContent",
    "extra_body",
    "previous_response_id",
    "conversation",
];
/// The lists of a conversation, whose items can bring further tools, and name what the service fetches.
const CONVERSATIONS: [&str; 3] = ["messages", "input", "contents"];
/// Fields with instructions beside the conversation; they can name what the service fetches, too.
const INSTRUCTIONS: [&str; 3] = ["system", "instructions", "systemInstruction"];
/// The fields of a conversation that hold the words of tools and models: the service fetches nothing that they name.
const WORDS: [&str; 5] = ["input", "args", "arguments", "response", "action"];
/// Depth to which the lists and objects of a conversation are searched.
const LEVELS_MAX: usize = 32;

/// Why a request could not be understood. It must be refused: it could offer any tool.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ModelRequestError {
    /// No model is asked by this method at this path.
    #[error("no model is asked by this method at this path")]
    Path,
    /// The body is not declared as JSON in UTF-8.
    #[error("the body is not declared as JSON in UTF-8")]
    Media,
    /// The body is not JSON, or not of the form that the protocol has.
    #[error("the body cannot be read: {0}")]
    Invalid(String),
    /// Two keys of an object could be taken for one another.
    #[error("the body can be read in two ways: {0}")]
    Ambiguous(String),
    /// A tool has no name or type, or too long a one.
    #[error("an offered tool has no proper name")]
    Tool,
    /// More tools are offered than can be checked.
    #[error("too many tools are offered")]
    TooMany,
}

impl From<Problem> for ModelRequestError {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::Invalid(text) => Self::Invalid(text),
            Problem::Ambiguous(text) => Self::Ambiguous(text),
        }
    }
}

/// A tool that a request offers to the model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OfferedTool {
    /// A function that the client runs, by its name; `namespace::name` inside of a namespace.
    Function(String),
    /// Everything else: a tool of the service, a tool that the model knows by its type, or a field
    /// of the request that brings tools, or makes the service fetch something.
    Typed {
        /// Its type, or the name of the field.
        kind: String,
        /// Its name, if it has one.
        name: Option<String>,
    },
}

impl fmt::Display for OfferedTool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Function(name) => formatter.write_str(name),
            Self::Typed { kind, name } => {
                write!(formatter, "{}<{kind}>", name.as_deref().unwrap_or_default())
            }
        }
    }
}

/// What a request to a model service asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRequest {
    /// Its protocol.
    pub protocol: ModelProtocol,
    /// The name of the model.
    pub model: Option<String>,
    /// All tools that the model is offered, in the order of the request.
    pub tools: Vec<OfferedTool>,
    /// Whether it is no turn of the work: no tools are offered (a title, a summary), or tokens are
    /// only counted.
    pub is_side: bool,
}

impl ModelRequest {
    /// Reads a request.
    ///
    /// # Errors
    /// [`ModelRequestError`] if it cannot be read in exactly one way.
    pub fn read(request: &InspectedRequest<'_>) -> Result<Self, ModelRequestError> {
        let purpose = purpose_of(request.path).filter(|_| request.method == "POST");
        let (protocol, purpose) = purpose.ok_or(ModelRequestError::Path)?;
        if !request.headers.iter().all(|(name, value)| is_json(name, value)) {
            return Err(ModelRequestError::Media);
        }
        let text = std::str::from_utf8(request.body);
        let text = text.map_err(|_| ModelRequestError::Invalid("it is not UTF-8".to_owned()))?;
        let fields = Fields::read(text)?;
        let mut offer = Offer { protocol, tools: Vec::new() };
        offer.body(&fields)?;
        let mut model = fields.text("model")?;
        if protocol == ModelProtocol::Gemini {
            model = model.or_else(|| model_of_path(request.path));
            // Requests of a login are wrapped.
            if let Some(inner) = fields.get("request") {
                offer.body(&Fields::read(inner)?)?;
            }
        }
        let tools = offer.tools;
        let is_side = tools.is_empty() || purpose == Purpose::CountTokens;
        Ok(Self { protocol, model, tools, is_side })
    }
}

/// Tells fields that hold addresses, by their folded names.
fn is_address(name: &str) -> bool {
    ["url", "uri", "urls", "uris"].iter().any(|end| name.ends_with(end))
}

/// Whether a header lets the body be JSON in UTF-8.
fn is_json(name: &str, value: &[u8]) -> bool {
    if name.replace('_', "-") != "content-type" {
        return true;
    }
    let value = String::from_utf8_lossy(value).to_ascii_lowercase();
    let mut parts = value.split(';').map(str::trim);
    let charset = |part: &str| {
        part.strip_prefix("charset=").is_none_or(|charset| charset.trim_matches('"') == "utf-8")
    };
    parts.next() == Some("application/json") && parts.all(charset)
}

fn model_of_path(path: &str) -> Option<String> {
    let (name, _) = path.rsplit('/').next()?.split_once(':')?;
    path.contains("/models/").then(|| name.to_owned())
}

/// The tools that are found.
struct Offer {
    protocol: ModelProtocol,
    tools: Vec<OfferedTool>,
}

impl Offer {
    fn body(&mut self, fields: &Fields<'_>) -> Result<(), ModelRequestError> {
        self.list(fields.get("tools"), None, 0)?;
        if let Some(functions) = fields.get("functions") {
            each(functions, &mut |item| self.declaration(item, None))?;
        }
        for name in OFFERS {
            if fields.get(name).is_some_and(|value| !is_nothing(value)) {
                self.typed(name, None)?;
            }
        }
        for conversation in CONVERSATIONS.iter().filter_map(|name| fields.get(name)) {
            if !conversation.starts_with('[') {
                continue;
            }
            each(conversation, &mut |item| {
                if !item.starts_with('{') {
                    return Ok(());
                }
                self.list(Fields::read(item)?.get("tools"), None, 0)
            })?;
        }
        let told = CONVERSATIONS.iter().chain(&INSTRUCTIONS);
        told.filter_map(|name| fields.get(name)).try_for_each(|told| self.fetched(told, 0))
    }

    /// Adds addresses that the service would fetch: those in a part of the conversation, other than one that holds the content
    /// itself (`data:`).
    fn fetched(&mut self, text: &str, level: usize) -> Result<(), ModelRequestError> {
        // Parts that lie deeper than that, no service reads.
        if !text.starts_with(['[', '{']) || level == LEVELS_MAX {
            return Ok(());
        }
        if text.starts_with('[') {
            return each(text, &mut |item| self.fetched(item, level + 1));
        }
        for (key, value) in Fields::read(text)?.iter() {
            let name = folded(key);
            if is_address(&name) && value.starts_with('"') {
                if !is_nothing(value) && !value.starts_with("\"data:") {
                    self.typed(key, None)?;
                }
            } else if is_address(&name) && value.starts_with('[') {
                each(value, &mut |item| match item.starts_with(['[', '{']) {
                    true => self.fetched(item, level + 1),
                    false => self.typed(key, None),
                })?;
            } else if !WORDS.iter().any(|words| name == folded(words)) {
                self.fetched(value, level + 1)?;
            }
        }
        Ok(())
    }

    fn list(
        &mut self,
        tools: Option<&str>,
        namespace: Option<&str>,
        depth: usize,
    ) -> Result<(), ModelRequestError> {
        let Some(tools) = tools else { return Ok(()) };
        each(tools, &mut |tool| self.tool(&Fields::read(tool)?, namespace, depth))
    }

    fn tool(
        &mut self,
        fields: &Fields<'_>,
        namespace: Option<&str>,
        depth: usize,
    ) -> Result<(), ModelRequestError> {
        let before = self.tools.len();
        if let Some(declarations) = fields.get("functionDeclarations") {
            each(declarations, &mut |item| self.declaration(item, namespace))?;
        }
        if self.protocol == ModelProtocol::Gemini {
            // Each key is a tool of its own.
            let others =
                fields.iter().filter(|(key, _)| folded(key) != folded("functionDeclarations"));
            return others.into_iter().try_for_each(|(key, _)| self.typed(key, None));
        }
        let (kind, name) = (fields.text("type")?, fields.text("name")?);
        let kind = kind.filter(|kind| !self.is_function(kind));
        match (kind.as_deref(), &name) {
            (Some("namespace"), Some(name)) if depth < NAMESPACES_MAX => {
                let inner = in_namespace(namespace, name);
                self.list(fields.get("tools"), Some(&inner), depth + 1)?;
                // An empty namespace offers nothing.
                return Ok(());
            }
            (Some("namespace"), _) => return Err(ModelRequestError::Tool),
            (Some(kind), Some(name)) => {
                self.typed(kind, Some(in_namespace(namespace, name)))?;
            }
            (None, Some(name)) => self.function(namespace, name)?,
            (Some(kind), None) => {
                let label = fields.text("server_label")?.or(fields.text("mcp_server_name")?);
                self.typed(kind, label)?;
            }
            (None, None) => {}
        }
        if let Some(function) = fields.get("function") {
            self.declaration(function, namespace)?;
        }
        if name.as_deref() == Some("exec") {
            self.nested(fields.text("description")?.as_deref().unwrap_or_default())?;
        }
        if self.tools.len() == before { Err(ModelRequestError::Tool) } else { Ok(()) }
    }

    /// Whether this type stands for a plain function of the client.
    fn is_function(&self, kind: &str) -> bool {
        match self.protocol {
            ModelProtocol::AnthropicMessages => matches!(kind, "custom" | "function"),
            ModelProtocol::OpenAiResponses | ModelProtocol::OpenAiChat | ModelProtocol::Gemini => {
                kind == "function"
            }
        }
    }

    /// The tools that a tool for programs describes as its own, each under a heading.
    fn nested(&mut self, description: &str) -> Result<(), ModelRequestError> {
        let headings = description.lines().filter_map(|line| line.strip_prefix("### `"));
        for (name, _) in headings.filter_map(|heading| heading.split_once('`')) {
            self.typed("exec", Some(name.to_owned()))?;
        }
        Ok(())
    }

    fn declaration(
        &mut self,
        text: &str,
        namespace: Option<&str>,
    ) -> Result<(), ModelRequestError> {
        let name = Fields::read(text)?.text("name")?.ok_or(ModelRequestError::Tool)?;
        self.function(namespace, &name)
    }

    fn function(&mut self, namespace: Option<&str>, name: &str) -> Result<(), ModelRequestError> {
        self.push(OfferedTool::Function(checked(in_namespace(namespace, name))?))
    }

    fn typed(&mut self, kind: &str, name: Option<String>) -> Result<(), ModelRequestError> {
        let kind = checked(kind.to_owned())?;
        let name = name.map(checked).transpose()?;
        self.push(OfferedTool::Typed { kind, name })
    }

    fn push(&mut self, tool: OfferedTool) -> Result<(), ModelRequestError> {
        if self.tools.len() == TOOLS_MAX {
            return Err(ModelRequestError::TooMany);
        }
        self.tools.push(tool);
        Ok(())
    }
}

fn checked(name: String) -> Result<String, ModelRequestError> {
    let proper = !name.trim().is_empty() && name.len() <= NAME_BYTES_MAX;
    if proper { Ok(name) } else { Err(ModelRequestError::Tool) }
}
