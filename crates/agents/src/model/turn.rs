//! A conversation with a model, in the form that all services share.

use serde_json::{Map, Value};

/// One part of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// What the model is told.
    User(String),
    /// What it answered.
    Assistant(Turn),
    /// The results of its calls, in their order.
    Results(Vec<CallReply>),
}

/// One answer of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Its text.
    pub text: String,
    /// The calls that it asks for.
    pub calls: Vec<ModelCall>,
    /// Parts that the service wants to see again as they were.
    pub carried: Vec<Value>,
}

/// A call that a model asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModelCall {
    /// The service's id of it; may be empty.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as the model wrote them.
    pub arguments: String,
}

impl ModelCall {
    /// The arguments; an error says what is wrong with them.
    pub(crate) fn parsed(&self) -> Result<Value, String> {
        let text = self.arguments.trim();
        if text.is_empty() {
            return Ok(Value::Object(Map::new()));
        }
        match serde_json::from_str::<Value>(text) {
            Ok(value) if value.is_object() => Ok(value),
            Ok(_) => Err("the arguments are not a JSON object".to_owned()),
            Err(error) => Err(format!("the arguments are not valid JSON: {error}")),
        }
    }

    /// The arguments as the service may see them again: some refuse what is no object.
    pub(crate) fn repeated(&self) -> Value {
        self.parsed().unwrap_or_else(|_| Value::Object(Map::new()))
    }
}

/// The result of a call, for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallReply {
    /// The id of the call.
    pub id: String,
    /// The result.
    pub text: String,
    /// Whether the call failed.
    pub is_error: bool,
}

impl CallReply {
    /// The result for services that have no mark for failures.
    pub(crate) fn marked(&self) -> String {
        if self.is_error { format!("Error: {}", self.text) } else { self.text.clone() }
    }
}

/// A request for the next answer.
pub(crate) struct Request<'a> {
    pub model: &'a str,
    pub system: &'a str,
    pub transcript: &'a [Entry],
    pub tools: &'a [windlass_mcp::ToolInfo],
    /// The most tokens of the answer.
    pub output_max: Option<u64>,
}

/// An answer that arrives.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub text: String,
    /// The calls, with the number that the service gives each part of one.
    calls: Vec<(Option<u64>, ModelCall)>,
    carried: Vec<(u64, Value)>,
}

impl Draft {
    /// Adds a part of a call. A service that numbers all calls alike tells them apart by their ids.
    pub(crate) fn call(&mut self, number: Option<u64>, id: &str, name: &str, arguments: &str) {
        let is_new = number.is_none() && id.is_empty() && !name.is_empty();
        let same = |(known, call): &&mut (Option<u64>, ModelCall)| {
            (*known == number || number.is_none()) && (id.is_empty() || call.id == id) && !is_new
        };
        match self.calls.iter_mut().rev().find(same) {
            Some((_, call)) => {
                if call.name.is_empty() {
                    name.clone_into(&mut call.name);
                }
                call.arguments.push_str(arguments);
            }
            None => {
                let [id, name, arguments] = [id, name, arguments].map(str::to_owned);
                self.calls.push((number, ModelCall { id, name, arguments }));
            }
        }
    }

    /// Adds a part that is sent back as it is.
    pub(crate) fn carry(&mut self, number: u64, value: Value) {
        self.carried.push((number, value));
    }

    /// The carried part with this number.
    pub(crate) fn carried(&mut self, number: u64) -> Option<&mut Value> {
        self.carried.iter_mut().find(|(known, _)| *known == number).map(|(_, value)| value)
    }

    /// Whether nothing has arrived.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.calls.is_empty()
    }

    pub(crate) fn finish(self) -> Turn {
        let calls = self.calls.into_iter().map(|(_, call)| call).collect();
        let carried = self.carried.into_iter().map(|(_, value)| value).collect();
        Turn { text: self.text, calls, carried }
    }
}

/// The text of a field, or nothing.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The items of a list.
pub(crate) fn items<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}
