//! The commands, one module each, and their shared argument parsing.

pub mod anchor;
pub mod backlog;
pub mod bundle;
pub mod bundle_check;
pub mod call;
pub mod canon;
pub mod checkpoint;
pub mod close;
pub mod demo;
pub mod doctor;
pub mod export;
pub mod import;
pub mod init;
pub mod keys;
pub mod loops;
pub mod metrics;
pub mod policy;
pub mod queue;
pub mod recover;
pub mod run;
pub mod status;
pub mod stop;
pub mod telemetry;
pub mod trace;
pub mod verify;
pub mod verify_file;
pub mod watch;

use std::io::Read as _;
use std::path::Path;

use serde_json::Value;
use windlass_kernel::{Code, RiskLevel, TraceId};
use windlass_runtime::REQUEST_BYTES_MAX;

use crate::args::Class;
use crate::failure::Failure;
use crate::project::unreadable;

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
    let bytes = match (text, text.strip_prefix('@')) {
        ("-", _) => read_limited(&mut std::io::stdin().lock(), "standard input")?,
        (_, Some(path)) => {
            let mut file =
                std::fs::File::open(path).map_err(|error| unreadable(Path::new(path), &error))?;
            read_limited(&mut file, path)?
        }
        (text, None) => text.as_bytes().to_vec(),
    };
    Ok(windlass_kernel::canon::parse(&bytes, REQUEST_BYTES_MAX)?)
}

/// Reads at most the size of a request; fails if there is more.
pub fn read_limited(source: &mut dyn std::io::Read, name: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(REQUEST_BYTES_MAX).unwrap_or(u64::MAX);
    source
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(Path::new(name), &error))?;
    if bytes.len() > REQUEST_BYTES_MAX {
        let message = format!("{name} has more than the {REQUEST_BYTES_MAX} bytes allowed");
        return Err(Failure::new(Code::DocSizeExceeded, message));
    }
    Ok(bytes)
}

/// The risk level of a class.
pub const fn risk(class: Class) -> RiskLevel {
    match class {
        Class::Read => RiskLevel::Read,
        Class::Write => RiskLevel::Write,
        Class::HighRisk => RiskLevel::HighRisk,
    }
}
