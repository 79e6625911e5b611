//! Who does a phase or makes a check.

use std::collections::{BTreeMap, BTreeSet};

use windlass_kernel::run::plan::Doer;

use crate::error::{Fault, Problem, shown};
use crate::near;
use crate::parts::number::{self, Unit};
use crate::parts::shape::{self, Fields};
use crate::parts::{consensus, settings, text};
use crate::yaml::Node;

/// How long a command may take when the file does not say.
const COMMAND_MS: u64 = 600_000;
/// Seconds, up to a day.
const SECONDS: Unit = Unit { decimals: 3, worth: 1000, most: 24 * 60 * 60 * 1000 };
/// The most words of a command.
const ARGUMENTS_MAX: u64 = 1000;
/// The longest word of a command, in characters.
const ARGUMENT_CHARS_MAX: usize = 32_768;

/// What a doer is read against.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub agents: &'a BTreeSet<String>,
    pub builtins: &'a BTreeSet<String>,
    /// How many people must agree when a person is asked and the file does not say.
    pub approvals: u32,
    /// Whether the loop keeps checkpoints.
    pub checkpoints: bool,
}

const BY: [&str; 5] = ["agent", "builtin", "command", "consensus", "person"];

pub fn read(node: &Node, context: Context<'_>) -> Result<Doer, Fault> {
    let all = [
        "agent",
        "prompt",
        "builtin",
        "with",
        "command",
        "timeout_seconds",
        "repeatable",
        "person",
        "approvals",
        "consensus",
        "reviewers",
        "quorum",
        "checklist",
    ];
    let fields = Fields::of(node, "doer", "a doer", &all)?;
    let [by] = fields.among(&BY)[..] else {
        return Err(Problem::OneDoer.at(node.at));
    };
    match by {
        "agent" => agent(node, context),
        "builtin" => builtin(node, context),
        "command" => command(node),
        "consensus" => consensus::read(node, context),
        _ => person(node, context),
    }
}

pub fn agent(node: &Node, context: Context<'_>) -> Result<Doer, Fault> {
    let fields = Fields::of(node, "doer", "an agent as doer", &["agent", "prompt"])?;
    let agent = known(fields.need("agent")?, "agent", context.agents)?;
    let prompt = fields.get("prompt");
    let prompt =
        prompt.map(|node| text::prose(node, "prompt", text::PROMPT_CHARS_MAX)).transpose()?;
    Ok(Doer::Agent { agent, prompt })
}

fn builtin(node: &Node, context: Context<'_>) -> Result<Doer, Fault> {
    let fields = Fields::of(node, "doer", "a builtin as doer", &["builtin", "with"])?;
    let name = known(fields.need("builtin")?, "builtin", context.builtins)?;
    let mut with = BTreeMap::new();
    if let Some(node) = fields.get("with") {
        for (key, value) in shape::map(node, "with")? {
            if !text::is_word(&key.name) {
                return Err(text::bad_word(&key.name, "the name of a setting").at(key.at));
            }
            with.insert(key.name.clone(), shape::json(value)?);
        }
    }
    Ok(Doer::Builtin { name, with })
}

fn command(node: &Node) -> Result<Doer, Fault> {
    let known = ["command", "timeout_seconds", "repeatable"];
    let fields = Fields::of(node, "doer", "a command as doer", &known)?;
    let repeatable = fields.get("repeatable").map(|node| shape::boolean(node, "repeatable"));
    Ok(Doer::Command {
        argv: words(fields.need("command")?)?,
        repeatable: repeatable.transpose()?.unwrap_or(false),
        timeout_ms: timeout(fields.get("timeout_seconds"))?,
    })
}

/// How long a program may take, in milliseconds.
pub fn timeout(node: Option<&Node>) -> Result<u64, Fault> {
    let timeout = node.map(|node| number::decimal(node, "timeout_seconds", SECONDS));
    Ok(timeout.transpose()?.unwrap_or(COMMAND_MS))
}

/// A program and its arguments.
pub fn words(words: &Node) -> Result<Vec<String>, Fault> {
    let items = shape::list(words, "command")?;
    if items.is_empty() {
        return Err(Problem::EmptyCommand.at(words.at));
    }
    if items.len() as u64 > ARGUMENTS_MAX {
        let range = format!("1 to {ARGUMENTS_MAX} words");
        let found = items.len().to_string();
        return Err(Problem::OutOfRange { key: "command", range, found }.at(words.at));
    }
    let mut argv = Vec::with_capacity(items.len());
    for item in items {
        let word = shape::string(item, "command")?;
        if argv.is_empty() && word.trim().is_empty() {
            return Err(Problem::EmptyCommand.at(item.at));
        }
        if word.chars().nth(ARGUMENT_CHARS_MAX).is_some() {
            let most = ARGUMENT_CHARS_MAX;
            return Err(Problem::TooLong { key: "command".to_owned(), most }.at(item.at));
        }
        argv.push(word.to_owned());
    }
    Ok(argv)
}

fn person(node: &Node, context: Context<'_>) -> Result<Doer, Fault> {
    let fields = Fields::of(node, "doer", "a person as doer", &["person", "approvals"])?;
    let question = text::prose(fields.need("person")?, "person", text::LINE_CHARS_MAX * 8)?;
    let approvals = fields.get("approvals").map(settings::approvals).transpose()?;
    Ok(Doer::Person { approvals: approvals.unwrap_or(context.approvals), question })
}

fn known(node: &Node, what: &'static str, names: &BTreeSet<String>) -> Result<String, Fault> {
    let found = shape::string(node, what)?;
    if names.contains(found) {
        return Ok(found.to_owned());
    }
    let names = || names.iter().map(String::as_str);
    let near = near::nearest(found, names());
    let known = shape::listed(names());
    Err(Problem::Unknown { what, found: shown(found), near, known }.at(node.at))
}
