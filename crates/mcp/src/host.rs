//! The tools that a server offers, and their calls.

use serde_json::Value;

/// One tool as clients see it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolInfo {
    /// Its name, by which it is called.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What it does, for the model.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
    /// The JSON Schema of its structured result.
    pub output_schema: Option<Value>,
    /// Hints such as `readOnlyHint`, in the protocol's form.
    pub annotations: Option<Value>,
}

/// One call by a client.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolUse {
    /// The name of the tool.
    pub name: String,
    /// The arguments: an object without duplicate keys or numbers that canonical JSON would change.
    pub args: Value,
    /// The model's own id of the call, if the client passes it on.
    pub call_id: Option<String>,
    /// The session of the client.
    pub session: String,
    /// The position of this call among all calls of the session, in the order of arrival, from 1.
    pub ordinal: u64,
}

impl ToolUse {
    /// The model's own id of the call, if it looks random. Some models count their calls, anew in each session or
    /// even in each answer.
    #[must_use]
    pub fn unique_id(&self) -> Option<&str> {
        let id = self.call_id.as_deref()?;
        let count = |is: fn(&char) -> bool| id.chars().filter(is).count();
        let is_unique =
            count(char::is_ascii_alphanumeric) >= 16 && count(char::is_ascii_digit) >= 3;
        is_unique.then_some(id)
    }
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolAnswer {
    /// The result of `tools/call`: an object, sent to the client as it is.
    Result(Value),
    /// A failure that the model is told: a result with this text and `isError`.
    Error(String),
}

/// A client, as it describes itself. What it does not say is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The version of the protocol that it speaks with this server.
    pub protocol: String,
    /// Its session.
    pub session: String,
}

/// Tells the client of a call how far the call is.
pub trait Progress: Send + Sync {
    /// Sends `text`, if the client asked for progress. It is repeated until the next one.
    fn say(&self, text: &str);
}

/// Has the tools of a server.
pub trait ToolHost: Send + Sync {
    /// The tools as of now.
    fn tools(&self) -> Vec<ToolInfo>;

    /// Performs a call of one of these tools. It may block: it has a thread of its own.
    ///
    /// Nothing interrupts it, not even the end of its client.
    fn call(&self, tool_use: ToolUse, progress: &dyn Progress) -> ToolAnswer;

    /// A client has asked for the list of tools.
    fn listed(&self, client: &ClientInfo);
}
