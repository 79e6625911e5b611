//! The commands, one module each, and their shared argument parsing.

pub mod agents;
pub mod anchor;
pub mod backlog;
pub mod bundle;
pub mod bundle_check;
pub mod bundle_documents;
pub mod bundle_restore;
pub mod call;
pub mod cancel;
pub mod canon;
pub mod cell;
pub mod checkpoint;
pub mod close;
pub mod demo;
pub mod doctor;
pub mod expiry;
pub mod explain;
pub mod export;
pub mod grant;
pub mod held_back;
pub mod hook;
pub mod import;
pub mod init;
pub mod install;
pub mod keys;
pub mod loops;
pub mod mcp;
pub mod memory;
pub mod metrics;
pub mod mission;
pub mod notify;
pub mod people;
pub mod policy;
pub mod queue;
pub mod recover;
pub mod run;
pub mod run_list;
pub mod serve;
pub mod session;
pub mod session_core;
pub mod session_found;
pub mod session_insights;
pub mod session_rewind;
pub mod state;
pub mod status;
pub mod stop;
pub mod store;
pub mod telemetry;
pub mod trace;
pub mod trace_telemetry;
pub mod transcript;
pub mod trust;
pub mod verify;
pub mod verify_file;
pub mod watch;
pub mod work;
pub mod workflow;

use std::io::{BufRead as _, IsTerminal as _, Read as _};
use std::path::Path;

use serde_json::Value;
use windlass_kernel::{Code, RiskLevel, TraceId};
use windlass_runtime::REQUEST_BYTES_MAX;

use crate::args::Class;
use crate::failure::Failure;
use crate::input::{self, unreadable};
use crate::output::Output;

/// The maximum length of an answer on the terminal.
const ANSWER_BYTES_MAX: u64 = 100;

/// Parses a trace id.
pub fn trace_id(text: &str) -> Result<TraceId, Failure> {
    text.parse().map_err(|error: windlass_kernel::IdError| {
        let shown: String = text.chars().take(60).collect();
        Failure::new(Code::IdInvalid, format!("`{}` is not an id: {error}", shown.escape_debug()))
    })
}

/// Splits `server/tool`.
pub fn tool_name(text: &str) -> Result<(String, String), Failure> {
    match text.split_once('/') {
        Some((server, tool)) if !server.is_empty() && !tool.is_empty() => {
            Ok((server.to_owned(), tool.to_owned()))
        }
        _ => Err(Failure::new(
            Code::RequestInvalid,
            format!("`{text}` is not a tool name; write it as SERVER/TOOL"),
        )),
    }
}

/// Reads arguments: JSON, `@FILE`, or `-` for standard input.
pub fn read_args(text: &str) -> Result<Value, Failure> {
    let limit = u64::try_from(REQUEST_BYTES_MAX).unwrap_or(u64::MAX);
    let bytes = match (text, text.strip_prefix('@')) {
        ("-", _) => input::read_standard_input(limit)?,
        (_, Some(path)) => input::read(Path::new(path), limit)?,
        (text, None) => text.as_bytes().to_vec(),
    };
    Ok(windlass_kernel::canon::parse(&bytes, REQUEST_BYTES_MAX)?)
}

/// A text, or with `-` what standard input has.
pub fn text_or_input(text: &str, bytes_max: usize) -> Result<String, Failure> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let bytes = input::read_standard_input(u64::try_from(bytes_max).unwrap_or(u64::MAX))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::new(Code::RequestInvalid, "standard input is not UTF-8"))?;
    Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
}

/// Asks the user on the terminal; where there is none, `option` answers instead.
pub fn confirm(question: &str, option: &str, output: &Output) -> Result<bool, Failure> {
    let (stdin, stderr) = (std::io::stdin(), std::io::stderr());
    if output.json || !stdin.is_terminal() || !stderr.is_terminal() {
        let message = "there is no terminal to ask on";
        return Err(Failure::new(Code::RequestInvalid, message)
            .hint(format!("pass `{option}` if you have decided")));
    }
    output.note(&format!("{question} [y/N]"));
    let mut answer = String::new();
    let read = stdin.lock().take(ANSWER_BYTES_MAX).read_line(&mut answer);
    read.map_err(|error| unreadable(Path::new("standard input"), &error))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// The risk level of a class.
pub const fn risk(class: Class) -> RiskLevel {
    match class {
        Class::Read => RiskLevel::Read,
        Class::Write => RiskLevel::Write,
        Class::HighRisk => RiskLevel::HighRisk,
    }
}
