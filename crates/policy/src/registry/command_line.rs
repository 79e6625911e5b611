//! Builds the command line of a tool from the call's arguments, without a shell.

use serde_json::Value;
use thiserror::Error;

use super::{ArgvPart, Tool};
use crate::pointer::scalar;

/// The most words of a command line.
const WORDS_MAX: usize = 4096;

/// A command line and its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Its standard input.
    pub stdin: Option<String>,
}

/// Why a call's arguments do not make a command line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CommandLineError {
    /// An argument is missing.
    #[error("the argument `{pointer}` is missing")]
    Missing {
        /// Where it should be.
        pointer: String,
    },
    /// An argument is not text, a number, a boolean or a list of these.
    #[error("the argument `{pointer}` is not text, a number, a boolean or a list of these")]
    NotAWord {
        /// Where it is.
        pointer: String,
    },
    /// An argument would be taken for an option.
    #[error("the argument `{pointer}` starts with `-` and would be taken for an option")]
    Dash {
        /// Where it is.
        pointer: String,
    },
    /// An argument contains a NUL byte.
    #[error("the argument `{pointer}` contains a NUL byte")]
    Nul {
        /// Where it is.
        pointer: String,
    },
    /// There are too many words.
    #[error("the command line has more than {WORDS_MAX} words")]
    TooManyWords,
}

impl Tool {
    /// The command line for a call with these arguments; empty for a tool without `argv`.
    ///
    /// # Errors
    /// [`CommandLineError`] when the arguments do not fit.
    pub fn command_line(&self, args: &Value) -> Result<CommandLine, CommandLineError> {
        let mut argv = Vec::new();
        for part in &self.argv {
            match part {
                ArgvPart::Literal(word) => argv.push(word.clone()),
                ArgvPart::Argument { pointer, dash, optional } => {
                    let name = || pointer.text().to_owned();
                    let values = pointer.select(args);
                    if values.is_empty() && !optional && !pointer.is_many() {
                        return Err(CommandLineError::Missing { pointer: name() });
                    }
                    for value in values {
                        for word in words(value)
                            .ok_or_else(|| CommandLineError::NotAWord { pointer: name() })?
                        {
                            if word.starts_with('-') && !dash {
                                return Err(CommandLineError::Dash { pointer: name() });
                            }
                            if word.contains('\0') {
                                return Err(CommandLineError::Nul { pointer: name() });
                            }
                            argv.push(word);
                        }
                    }
                }
            }
            if argv.len() > WORDS_MAX {
                return Err(CommandLineError::TooManyWords);
            }
        }
        let stdin =
            match self.stdin.as_ref().and_then(|pointer| Some((pointer, pointer.first(args)?))) {
                None | Some((_, Value::Null)) => None,
                Some((_, Value::String(text))) => Some(text.clone()),
                Some((_, value)) if secret_name(value).is_some() => Some(value.to_string()),
                Some((pointer, _)) => {
                    return Err(CommandLineError::NotAWord { pointer: pointer.text().to_owned() });
                }
            };
        Ok(CommandLine { argv, stdin })
    }
}

fn words(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(list) => list.iter().map(word).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            word(value).map(|word| vec![word])
        }
    }
}

/// One word. The name of a secret is judged as it is written; its value takes its place before the call.
fn word(value: &Value) -> Option<String> {
    scalar(value).or_else(|| secret_name(value).map(|_| value.to_string()))
}

/// The name of the secret that an argument `{"secret": "NAME"}` stands for.
#[must_use]
pub fn secret_name(value: &Value) -> Option<&str> {
    let map = value.as_object().filter(|map| map.len() == 1)?;
    map.get("secret")?.as_str()
}
