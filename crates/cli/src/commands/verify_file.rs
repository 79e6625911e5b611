//! `windlass verify --file`: verifies a TGA-v1 chain without a project.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::de::IgnoredAny;
use serde_json::{Value, json};
use windlass_kernel::verify::ChainReport;
use windlass_kernel::verify::ChainVerifier;
use windlass_kernel::{Code, canon};

use crate::failure::{CommandResult, Failure, exit_of};
use crate::input::{self, unreadable};
use crate::output::Output;

/// The maximum size of a file that is one JSON text; a file of lines may have any size.
const TEXT_BYTES_MAX: usize = 1 << 30;
/// The maximum length of a line.
const LINE_BYTES_MAX: usize = 16 << 20;

/// The finding, and a description of the first problem.
type Found = (ChainReport, Option<String>);

/// Verifies the chain in a file, or on standard input, and prints the finding as JSON.
pub fn run(path: &Path, output: &Output) -> CommandResult {
    let (finding, problem) = verify(path)?;
    let mut value =
        serde_json::to_value(&finding).map_err(|error| Failure::of(Code::Internal, &error))?;
    if let Some(map) = value.as_object_mut() {
        map.insert("message".to_owned(), json!(problem));
    }
    output.value(&value)?;
    Ok(if finding.chain_valid { 0 } else { exit_of(Code::StateChecksumMismatch) })
}

fn verify(path: &Path) -> Result<Found, Failure> {
    let source = input::open_or_standard_input(path)?;
    let mut reader = BufReader::with_capacity(1 << 16, source);
    let start = read_start(&mut reader).map_err(|error| unreadable(path, &error))?;
    // If the first line is an entry by itself, every line is one.
    let is_lines = serde_json::from_slice::<Value>(&start)
        .is_ok_and(|value| value.as_object().is_some_and(|map| !map.contains_key("entries")));
    let mut reader = start.as_slice().chain(reader);
    if is_lines {
        return verify_lines(&mut reader).map_err(|error| unreadable(path, &error));
    }
    let mut text = Vec::new();
    let limit = u64::try_from(TEXT_BYTES_MAX).unwrap_or(u64::MAX);
    reader.take(limit + 1).read_to_end(&mut text).map_err(|error| unreadable(path, &error))?;
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("`{}` is larger than {TEXT_BYTES_MAX} bytes", path.display());
        return Err(Failure::new(Code::DocSizeExceeded, message)
            .hint("write one entry per line; such a file may have any size"));
    }
    match serde_json::from_slice::<IgnoredAny>(&text) {
        Ok(_) => Ok(verify_text(text.trim_ascii())),
        // Lines of which the first is truncated, or an empty file.
        Err(_) if looks_like_lines(&text) => {
            verify_lines(&mut text.as_slice()).map_err(|error| unreadable(path, &error))
        }
        Err(error) => {
            let mut chain = ChainVerifier::new();
            chain.push_json(&Value::Null);
            Ok(finish(&chain, Some(format!("the text is not valid JSON: {error}"))))
        }
    }
}

/// Reads through the first line that is not blank.
fn read_start(reader: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut start = Vec::new();
    while start.trim_ascii().is_empty() {
        let limit = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX);
        if reader.by_ref().take(limit).read_until(b'\n', &mut start)? == 0 {
            break;
        }
    }
    Ok(start)
}

fn looks_like_lines(text: &[u8]) -> bool {
    let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let mut is_object = || {
        let line = lines.by_ref().find(|line| !line.is_empty());
        line.map(|line| line.starts_with(b"{"))
    };
    match (is_object(), is_object()) {
        (Some(first), Some(second)) => first && second,
        (Some(_), None) => false,
        (None, _) => true,
    }
}

fn verify_lines(reader: &mut impl BufRead) -> std::io::Result<Found> {
    let mut chain = ChainVerifier::new();
    let mut problem = None;
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX) + 1;
        if reader.by_ref().take(limit).read_until(b'\n', &mut line)? == 0 {
            return Ok(finish(&chain, problem));
        }
        let line = line.trim_ascii();
        if !line.is_empty() {
            push(&mut chain, line, &mut problem);
        }
    }
}

/// Verifies a valid JSON text: a list of entries, an object with one, or a single entry.
fn verify_text(text: &[u8]) -> Found {
    let mut chain = ChainVerifier::new();
    let mut problem = None;
    for entry in entries(text) {
        push(&mut chain, entry, &mut problem);
    }
    finish(&chain, problem)
}

fn entries(text: &[u8]) -> Vec<&[u8]> {
    match text.first() {
        Some(b'[') => parts(text),
        Some(b'{') => {
            let mut lists = parts(text).into_iter().filter_map(|member| {
                let (key, value) = split_member(member)?;
                (key == "entries").then_some(value)
            });
            match (lists.next(), lists.next()) {
                (Some(list), None) if list.starts_with(b"[") => parts(list),
                // Two `entries`, or one that is not a list, count as one invalid entry.
                (Some(_), _) => vec![b"null"],
                (None, _) => vec![text],
            }
        }
        _ => vec![text],
    }
}

/// Splits a list or an object at its top-level commas. Each part is then parsed strictly by itself, so
/// that an error is reported at its own entry.
fn parts(text: &[u8]) -> Vec<&[u8]> {
    let inner = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    let mut parts: Vec<&[u8]> = inner
        .split(|byte| {
            match (quoted, byte) {
                (true, _) if escaped => escaped = false,
                (true, b'\\') => escaped = true,
                (_, b'"') => quoted = !quoted,
                (false, b'[' | b'{') => depth += 1,
                (false, b']' | b'}') => depth = depth.saturating_sub(1),
                (false, b',') => return depth == 0,
                _ => {}
            }
            false
        })
        .map(<[u8]>::trim_ascii)
        .collect();
    parts.retain(|part| !part.is_empty());
    parts
}

/// The key and the value of an object's member.
fn split_member(member: &[u8]) -> Option<(String, &[u8])> {
    let mut keys = serde_json::Deserializer::from_slice(member).into_iter::<String>();
    let key = keys.next()?.ok()?;
    let rest = member.get(keys.byte_offset()..)?.trim_ascii_start();
    Some((key, rest.strip_prefix(b":")?.trim_ascii_start()))
}

/// Parses one entry strictly; invalid JSON, such as a truncated line, counts as an invalid entry.
fn push(chain: &mut ChainVerifier, text: &[u8], problem: &mut Option<String>) {
    let value = match canon::parse(text, LINE_BYTES_MAX) {
        // A JSON array is not an entry either.
        Ok(value) if value.is_array() => Value::Null,
        Ok(value) => value,
        Err(error) => {
            if chain.error().is_none() {
                let number = chain.head().map_or(0, |head| head.sequence_number) + 1;
                *problem = Some(format!("entry {number} cannot be read: {error}"));
            }
            Value::Null
        }
    };
    chain.push_json(&value);
}

fn finish(chain: &ChainVerifier, problem: Option<String>) -> Found {
    let problem = problem.or_else(|| chain.error().map(ToString::to_string));
    (chain.finish(), problem)
}
