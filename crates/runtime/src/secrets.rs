//! The secrets that calls may name, and where their values are put in.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;
use windlass_kernel::Code;
use windlass_policy::{Pointer, Tool, secret_name};

use crate::supervisor::Refusal;

/// The secrets of the user, by name: each value, or why it is not available; and what only must not be stored.
#[derive(Clone, Default)]
pub struct NamedSecrets {
    named: BTreeMap<String, Result<String, String>>,
    hidden: Vec<(String, String)>,
}

impl fmt::Debug for NamedSecrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.named.keys()).finish()
    }
}

impl NamedSecrets {
    /// Creates the set; an error is the reason, for a person, why a value is not available.
    #[must_use]
    pub fn new(secrets: impl IntoIterator<Item = (String, Result<String, String>)>) -> Self {
        Self { named: secrets.into_iter().collect(), hidden: Vec::new() }
    }

    /// Adds values that no call can name, and that are taken out of everything all the same.
    #[must_use]
    pub fn with_hidden(mut self, hidden: impl IntoIterator<Item = (String, String)>) -> Self {
        self.hidden.extend(hidden);
        self
    }

    /// The names and values of all that is not stored or shown.
    pub fn redacted(&self) -> impl Iterator<Item = (String, String)> {
        self.available().chain(self.hidden.iter().cloned())
    }

    /// The names and values of the secrets that are available.
    pub fn available(&self) -> impl Iterator<Item = (String, String)> {
        self.named.iter().filter_map(|(name, value)| Some((name.clone(), value.clone().ok()?)))
    }

    /// The value of a secret for a tool.
    fn value(&self, name: &str, tool: &Tool) -> Result<&str, Refusal> {
        let refuse = |code, reason| Err(Refusal { code, reason });
        let Some(value) = self.named.get(name) else {
            let reason = format!("there is no secret `{name}` in your settings");
            return refuse(Code::SecretUnknown, reason);
        };
        if !tool.secrets.iter().any(|declared| declared == name) {
            let reason = format!("the tool does not list `{name}` in `secrets`");
            return refuse(Code::SecretUndeclared, reason);
        }
        match value {
            Ok(value) => Ok(value),
            Err(why) => refuse(
                Code::SecretUnavailable,
                format!("the secret `{name}` cannot be used: {why}"),
            ),
        }
    }

    /// Puts the values in the place of the names of secrets; `None` if the arguments name none.
    pub(crate) fn fill(&self, args: &Value, tool: &Tool) -> Result<Option<FilledArgs>, Refusal> {
        if !names_one(args) {
            return Ok(None);
        }
        // What is judged by its text must be there as a text.
        let judged = tool.paths_read.iter().chain(&tool.paths_write).chain(&tool.shell_line);
        for pointer in judged {
            if Pointer::select(pointer, args).into_iter().any(contains_one) {
                return Err(Refusal {
                    code: Code::RequestInvalid,
                    reason: format!(
                        "the argument `{}` is a path or a shell line, which cannot be a secret",
                        pointer.text()
                    ),
                });
            }
        }
        let mut filled = args.clone();
        if let Value::Object(map) = &mut filled {
            for value in map.values_mut() {
                self.fill_value(value, tool)?;
            }
        }
        Ok(Some(FilledArgs(filled)))
    }

    fn fill_value(&self, value: &mut Value, tool: &Tool) -> Result<(), Refusal> {
        if let Some(name) = secret_name(value) {
            *value = Value::from(self.value(name, tool)?);
            return Ok(());
        }
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
            Value::Array(items) => {
                items.iter_mut().try_for_each(|item| self.fill_value(item, tool))
            }
            Value::Object(map) => {
                map.values_mut().try_for_each(|value| self.fill_value(value, tool))
            }
        }
    }
}

/// Whether a value is or contains the name of a secret.
fn contains_one(value: &Value) -> bool {
    secret_name(value).is_some()
        || match value {
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
            Value::Array(items) => items.iter().any(contains_one),
            Value::Object(map) => map.values().any(contains_one),
        }
}

/// Whether arguments name a secret: one of them, not all of them together.
pub(crate) fn names_one(args: &Value) -> bool {
    args.as_object().is_some_and(|map| map.values().any(contains_one))
}

/// Arguments with the values of secrets. `Debug` does not show them.
#[derive(Clone, PartialEq)]
pub struct FilledArgs(Value);

impl FilledArgs {
    /// The arguments, for the tool alone.
    #[must_use]
    pub const fn expose(&self) -> &Value {
        &self.0
    }
}

impl fmt::Debug for FilledArgs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("FilledArgs(…)")
    }
}
