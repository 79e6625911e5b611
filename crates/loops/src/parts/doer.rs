//! The executor of a phase or a check.

use std::collections::{BTreeMap, BTreeSet};

use windlass_kernel::run::plan::Doer;
use windlass_kernel::run::{PINNED_MAX, pinned_path_error};
use windlass_text::nearest;
use windlass_text::yaml::Node;

use crate::error::{Diagnostic, Problem, shown};
use crate::parts::fields::{self, Fields};
use crate::parts::number::{self, Scale};
use crate::parts::{consensus, settings, text};

/// The default timeout of a command.
const COMMAND_MS: u64 = 600_000;
/// Seconds, up to a day.
const SECONDS: Scale = Scale { decimals: 3, factor: 1000, max: 24 * 60 * 60 * 1000 };
/// The most words of a command.
const ARGUMENTS_MAX: u64 = 1000;
/// The longest word of a command, in characters.
const ARGUMENT_CHARS_MAX: usize = 32_768;

/// What reading a doer depends on.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub agents: &'a BTreeSet<String>,
    pub builtins: &'a BTreeSet<String>,
    /// The default number of approvals when a person is asked.
    pub approvals: u32,
    /// Whether the loop keeps checkpoints.
    pub checkpoints: bool,
}

const BY: [&str; 5] = ["agent", "builtin", "command", "consensus", "person"];

pub fn read(node: &Node, context: Context<'_>) -> Result<Doer, Diagnostic> {
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
    let fields = Fields::new(node, "doer", "a doer", &all)?;
    let [by] = fields.present(&BY)[..] else {
        return Err(Problem::OneDoer.at(node.position));
    };
    match by {
        "agent" => agent(node, context),
        "builtin" => builtin(node, context),
        "command" => command(node),
        "consensus" => consensus::read(node, context),
        _ => person(node, context),
    }
}

pub fn agent(node: &Node, context: Context<'_>) -> Result<Doer, Diagnostic> {
    let fields = Fields::new(node, "doer", "an agent as doer", &["agent", "prompt"])?;
    let agent = known(fields.required("agent")?, "agent", context.agents)?;
    let prompt = fields.get("prompt");
    let prompt =
        prompt.map(|node| text::prose(node, "prompt", text::PROMPT_CHARS_MAX)).transpose()?;
    Ok(Doer::Agent { agent, prompt })
}

fn builtin(node: &Node, context: Context<'_>) -> Result<Doer, Diagnostic> {
    let fields = Fields::new(node, "doer", "a builtin as doer", &["builtin", "with"])?;
    let name = known(fields.required("builtin")?, "builtin", context.builtins)?;
    let mut with = BTreeMap::new();
    if let Some(node) = fields.get("with") {
        for (key, value) in fields::map(node, "with")? {
            if !text::is_word(&key.name) {
                return Err(text::bad_word(&key.name, "the name of a setting").at(key.position));
            }
            with.insert(key.name.clone(), fields::json(value)?);
        }
    }
    Ok(Doer::Builtin { name, with })
}

fn command(node: &Node) -> Result<Doer, Diagnostic> {
    let known = ["command", "timeout_seconds", "repeatable"];
    let fields = Fields::new(node, "doer", "a command as doer", &known)?;
    let repeatable = fields.get("repeatable").map(|node| fields::boolean(node, "repeatable"));
    Ok(Doer::Command {
        argv: words(fields.required("command")?)?,
        repeatable: repeatable.transpose()?.unwrap_or(false),
        timeout_ms: timeout(fields.get("timeout_seconds"))?,
    })
}

/// The timeout of a program, in milliseconds.
pub fn timeout(node: Option<&Node>) -> Result<u64, Diagnostic> {
    let timeout = node.map(|node| number::decimal(node, "timeout_seconds", SECONDS));
    Ok(timeout.transpose()?.unwrap_or(COMMAND_MS))
}

/// The files that a program gets as they were at the start of a run, as they are written.
pub fn pinned(node: Option<&Node>) -> Result<Option<Vec<String>>, Diagnostic> {
    let Some(node) = node else { return Ok(None) };
    let items = fields::list(node, "pinned")?;
    if items.len() > PINNED_MAX {
        return Err(Problem::TooMany { key: "pinned", max: PINNED_MAX }.at(node.position));
    }
    let mut paths = Vec::with_capacity(items.len());
    for item in items {
        let path = fields::string(item, "pinned")?;
        if let Some(why) = pinned_path_error(path) {
            let message = format!("`{}` cannot be pinned: {why}", shown(path));
            let hint = "write files or folders relative to the workspace, such as `scripts`";
            return Err(Problem::Rule { message, hint }.at(item.position));
        }
        paths.push(path.to_owned());
    }
    Ok(Some(paths))
}

/// A program and its arguments.
pub fn words(words: &Node) -> Result<Vec<String>, Diagnostic> {
    let items = fields::list(words, "command")?;
    if items.is_empty() {
        return Err(Problem::EmptyCommand.at(words.position));
    }
    if items.len() as u64 > ARGUMENTS_MAX {
        let range = format!("1 to {ARGUMENTS_MAX} words");
        let found = items.len().to_string();
        return Err(Problem::OutOfRange { key: "command", range, found }.at(words.position));
    }
    let mut argv = Vec::with_capacity(items.len());
    for item in items {
        let word = fields::string(item, "command")?;
        if argv.is_empty() && word.trim().is_empty() {
            return Err(Problem::EmptyCommand.at(item.position));
        }
        if word.chars().nth(ARGUMENT_CHARS_MAX).is_some() {
            let max = ARGUMENT_CHARS_MAX;
            return Err(Problem::TooLong { key: "command".to_owned(), max }.at(item.position));
        }
        argv.push(word.to_owned());
    }
    Ok(argv)
}

fn person(node: &Node, context: Context<'_>) -> Result<Doer, Diagnostic> {
    let fields = Fields::new(node, "doer", "a person as doer", &["person", "approvals"])?;
    let question = text::prose(fields.required("person")?, "person", text::LINE_CHARS_MAX * 8)?;
    let approvals = fields.get("approvals").map(settings::approvals).transpose()?;
    Ok(Doer::Person { approvals: approvals.unwrap_or(context.approvals), question })
}

fn known(node: &Node, what: &'static str, names: &BTreeSet<String>) -> Result<String, Diagnostic> {
    let found = fields::string(node, what)?;
    if names.contains(found) {
        return Ok(found.to_owned());
    }
    let names = || names.iter().map(String::as_str);
    let suggestion = nearest(found, names()).map(str::to_owned);
    let known = fields::listed(names());
    Err(Problem::Unknown { what, found: shown(found), suggestion, known }.at(node.position))
}
