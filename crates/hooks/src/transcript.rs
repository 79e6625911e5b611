//! Transcripts: which uses of tools a client's own record of a session shows.
//!
//! No client promises the form of its transcripts, and an agent may be able to change them. A transcript shows that
//! something was not asked about; it never shows that nothing was missed.

mod claude;
mod codex;
mod conversation;
mod gemini;
mod lines;
mod opencode;
mod places;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::client::Client;
use crate::fields::{NAME_BYTES_MAX, PATH_BYTES_MAX, is_limited};

pub use conversation::{Turn, conversation, conversation_markdown};
pub use opencode::OpenCodeReader;
pub use places::{OPENCODE_DATA, ProjectSign, TranscriptPlace, transcript_places};

/// The most of a transcript that is read, from its end.
pub const TRANSCRIPT_BYTES_MAX: usize = 256 << 20;

/// The most uses that are read of one transcript.
const USES_MAX: usize = 100_000;

/// What a client's own record of a session shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transcript {
    /// The session, as hook events name it.
    ///
    /// A subagent's transcript names the session that started it, but one of Gemini CLI names none: the folder that
    /// it is in does.
    pub session: Option<String>,
    /// The folder that the session started in; a session of Gemini CLI does not say.
    pub cwd: Option<String>,
    /// The uses of tools, in the order in which they began.
    pub uses: Vec<TranscriptUse>,
    /// The tokens that the client counted.
    pub tokens: Tokens,
    /// Whether something could not be read that may have shown further uses: a damaged or overlong line, or more than
    /// the limits permit. A last line without its end is not counted: it is still being written.
    pub is_incomplete: bool,
}

/// Tokens that a client counted: those that its model read, from a cache or not, and those that it wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Read by the model.
    pub input: u64,
    /// Written by it.
    pub output: u64,
}

impl Tokens {
    /// Sums of fields of an object.
    fn of(counted: Option<&Value>, input: &[&str], output: &[&str]) -> Option<Self> {
        let counted = counted.filter(|counted| counted.is_object())?;
        let sum = |names: &[&str]| {
            let numbers = names.iter().filter_map(|name| counted.get(name)?.as_u64());
            numbers.fold(0, u64::saturating_add)
        };
        Some(Self { input: sum(input), output: sum(output) })
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
        }
    }
}

/// The tokens of messages by their ids: a message may be written more than once.
#[derive(Default)]
struct TokensByMessage(BTreeMap<String, Tokens>);

impl TokensByMessage {
    fn add(&mut self, id: Option<&str>, tokens: Option<Tokens>) {
        if let (Some(id), Some(tokens)) = (name(id), tokens)
            && self.0.len() < USES_MAX
        {
            self.0.insert(id, tokens);
        }
    }

    fn sum(&self) -> Tokens {
        self.0.values().fold(Tokens::default(), |sum, one| sum.plus(*one))
    }
}

/// A use of a tool that a transcript shows.
#[derive(Clone, Debug, PartialEq)]
pub struct TranscriptUse {
    /// The client's id of it, the same as in its hook events; Gemini CLI has none there.
    pub id: Option<String>,
    /// The tool, as hook events name it.
    ///
    /// `write_stdin` of Codex has no hook event. Its `chars` are empty if it only waits for output.
    pub tool: String,
    /// The input; an object.
    ///
    /// Whether it is the input before or after a hook changed it, measured on the pinned versions:
    /// - Claude Code: before. The event before the use has the same input and the default values of missing fields;
    ///   the event after the use has the changed one.
    /// - Codex: before, reduced to what the event has (`command` of `Bash` and `apply_patch`). A use inside a script
    ///   of its tool `exec`, which is how most of its models use tools, shows the input after the change, and
    ///   `apply_patch` there shows `changes` in place of the patch.
    /// - Gemini CLI: after. Match it with the input that the hook answered, or with that of the event after the use.
    /// - OpenCode: after.
    pub input: Value,
    /// Whether it ran.
    pub outcome: UseOutcome,
    /// Whether a subagent used it.
    pub subagent: bool,
}

/// What a transcript says about whether a tool ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UseOutcome {
    /// It ran, or failed while it ran.
    Ran,
    /// It was stopped, and the transcript looks the same whether it had begun or not: a person interrupted it, or the
    /// client ended before its result was there.
    MayHaveRun,
    /// It did not run: a hook, the client's permissions or a person refused it, or there is no such tool, or the input
    /// did not fit it. For the last two there is no hook event.
    Refused,
    /// There is no result: it runs, waits for an answer, or the client ended.
    Unknown,
}

/// Reads a client's transcript, as far as it can be read.
///
/// Returns `None` for OpenCode, which keeps its sessions in an SQLite database: see [`OpenCodeReader`].
#[must_use]
pub fn read_transcript(client: Client, bytes: &[u8]) -> Option<Transcript> {
    match client {
        Client::Claude => Some(claude::read(bytes)),
        Client::Codex => Some(codex::read(bytes)),
        Client::Gemini => Some(gemini::read(bytes)),
        Client::OpenCode => None,
    }
}

/// The uses of a transcript while it is read, by the id that the transcript has for them.
#[derive(Default)]
struct Uses {
    list: Vec<TranscriptUse>,
    places: BTreeMap<String, usize>,
    is_incomplete: bool,
}

impl Uses {
    /// Adds a use, unless the transcript showed it before.
    fn add(&mut self, key: &str, tool_use: TranscriptUse) {
        if !is_limited(key, NAME_BYTES_MAX) || !is_limited(&tool_use.tool, NAME_BYTES_MAX) {
            self.is_incomplete = true;
        } else if !self.places.contains_key(key) {
            if self.list.len() >= USES_MAX {
                self.is_incomplete = true;
                return;
            }
            self.places.insert(key.to_owned(), self.list.len());
            self.list.push(tool_use);
        }
    }

    fn get_mut(&mut self, key: &str) -> Option<&mut TranscriptUse> {
        self.list.get_mut(*self.places.get(key)?)
    }
}

/// A text of the value, if it is one.
fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// An object as it is, or an empty one.
fn object(value: Option<&Value>) -> Value {
    match value {
        Some(value) if value.is_object() => value.clone(),
        Some(_) | None => Value::Object(serde_json::Map::new()),
    }
}

/// An id or another short text.
fn name(text: Option<&str>) -> Option<String> {
    text.filter(|text| is_limited(text, NAME_BYTES_MAX)).map(str::to_owned)
}

/// A path.
fn path(text: Option<&str>) -> Option<String> {
    text.filter(|text| is_limited(text, PATH_BYTES_MAX)).map(str::to_owned)
}
