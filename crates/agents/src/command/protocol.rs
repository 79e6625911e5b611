//! What a program says, line by line.

use serde::Deserialize;
use serde_json::{Map, Value};
use windlass_engine::executors::TROUBLE;
use windlass_kernel::run::Usage;

/// The longest id of a call.
const ID_BYTES_MAX: usize = 128;
/// How much of a line a message shows.
const SHOWN_CHARS_MAX: usize = 80;

/// One line of a program.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Spoken {
    /// It calls a tool.
    Call { id: String, name: String, arguments: Value },
    /// It has used tokens or money.
    Usage(Usage),
    /// It says something to whoever reads the transcript.
    Text(String),
    /// It cannot work now: the kind of trouble, and when it can be tried again, in seconds.
    Unavailable { class: &'static str, reason: String, retry_after: Option<u64> },
    /// It gives its answer.
    Finish(Value),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Call {
        id: String,
        name: String,
        #[serde(default)]
        arguments: Map<String, Value>,
    },
    Usage {
        #[serde(default)]
        input_tokens: u64,
        #[serde(default)]
        output_tokens: u64,
        #[serde(default)]
        cost_micros: u64,
    },
    Text {
        text: String,
    },
    Unavailable {
        class: String,
        #[serde(default)]
        reason: String,
        #[serde(default)]
        retry_after_seconds: Option<u64>,
    },
    Finish {
        answer: Value,
    },
}

impl Spoken {
    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(line: &[u8]) -> Result<Self, String> {
        let line = serde_json::from_slice::<Line>(line).map_err(|error| {
            let text = String::from_utf8_lossy(line);
            let shown: String = text.trim().chars().take(SHOWN_CHARS_MAX).collect();
            format!("it wrote a line that is not of the protocol ({error}): `{shown}`")
        })?;
        match line {
            Line::Call { id, .. } if id.is_empty() || id.len() > ID_BYTES_MAX => {
                Err(format!("the id of a call has 1 to {ID_BYTES_MAX} bytes"))
            }
            Line::Call { id, name, arguments } => {
                Ok(Self::Call { id, name, arguments: Value::Object(arguments) })
            }
            Line::Usage { input_tokens, output_tokens, cost_micros } => Ok(Self::Usage(Usage {
                cost_micros,
                input_tokens,
                output_tokens,
                unaccounted: false,
            })),
            Line::Text { text } => Ok(Self::Text(text)),
            Line::Unavailable { class, reason, retry_after_seconds } => {
                let known = TROUBLE.into_iter().find(|known| *known == class);
                let class = known.ok_or_else(|| {
                    format!(
                        "it named an unknown kind of trouble: it is one of {}",
                        TROUBLE.join(", ")
                    )
                })?;
                Ok(Self::Unavailable { class, reason, retry_after: retry_after_seconds })
            }
            Line::Finish { answer } => Ok(Self::Finish(answer)),
        }
    }
}
