//! `windlass verify --file`: any TGA-v1 chain, without a project.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use serde_json::{Value, json};
use windlass_kernel::recovery::Finding;
use windlass_kernel::verify::Chain;
use windlass_kernel::{Code, canon};

use crate::failure::{Done, Failure, exit_of};
use crate::output::Output;
use crate::project::unreadable;

/// The largest file that is read as one JSON text; a chain of lines may be any size.
const TEXT_BYTES_MAX: usize = 1 << 30;
/// The longest line of a chain of lines.
const LINE_BYTES_MAX: usize = 16 << 20;

/// Verifies the chain in a file and prints the finding as JSON.
pub fn run(path: &Path, output: &Output) -> Done {
    let (finding, problem) = verify(path)?;
    let mut value =
        serde_json::to_value(&finding).map_err(|error| Failure::of(Code::Internal, &error))?;
    if let Some(map) = value.as_object_mut() {
        map.insert("message".to_owned(), json!(problem));
    }
    output.value(&value)?;
    Ok(if finding.chain_valid { 0 } else { exit_of(Code::StateChecksumMismatch) })
}

fn verify(path: &Path) -> Result<(Finding, Option<String>), Failure> {
    let file = std::fs::File::open(path).map_err(|error| unreadable(path, &error))?;
    let mut reader = BufReader::with_capacity(1 << 16, file);
    if is_lines(path, &mut reader)? {
        return verify_lines(path, &mut reader);
    }
    let mut text = Vec::new();
    let limit = u64::try_from(TEXT_BYTES_MAX).unwrap_or(u64::MAX);
    reader.take(limit + 1).read_to_end(&mut text).map_err(|error| unreadable(path, &error))?;
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("`{}` is larger than {TEXT_BYTES_MAX} bytes", path.display());
        return Err(Failure::new(Code::DocSizeExceeded, message)
            .hint("write it as one entry a line: such a file may have any size"));
    }
    verify_text(&text)
}

/// Whether the file has one object a line: its first line is an object by itself that is not the
/// wrapper of a list.
fn is_lines(path: &Path, reader: &mut BufReader<std::fs::File>) -> Result<bool, Failure> {
    let start = reader.fill_buf().map_err(|error| unreadable(path, &error))?;
    let first = start.split(|byte| *byte == b'\n').find(|line| !is_blank(line)).unwrap_or_default();
    if first.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Ok(false);
    }
    // A first line that ends within the buffer tells by itself; a longer one cannot be an entry.
    Ok(match serde_json::from_slice::<Value>(first) {
        Ok(value) => value.get("entries").is_none(),
        Err(_) => {
            start.iter().filter(|byte| **byte == b'\n').count() > 0
                && first.windows(9).any(|part| part == b"_digest\":")
        }
    })
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

fn verify_lines(
    path: &Path,
    reader: &mut BufReader<std::fs::File>,
) -> Result<(Finding, Option<String>), Failure> {
    let mut chain = Chain::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX) + 1;
        let read = reader
            .by_ref()
            .take(limit)
            .read_until(b'\n', &mut line)
            .map_err(|error| unreadable(path, &error))?;
        if read == 0 {
            break;
        }
        if is_blank(&line) {
            continue;
        }
        // A line that is not JSON, torn off for instance, is an entry that cannot be one.
        let value = canon::parse(&line, LINE_BYTES_MAX).unwrap_or(Value::Null);
        chain.push_json(&value);
    }
    Ok(finish(chain))
}

fn verify_text(text: &[u8]) -> Result<(Finding, Option<String>), Failure> {
    let value = match canon::parse(text, TEXT_BYTES_MAX) {
        Ok(value) => value,
        Err(error) => {
            let mut chain = Chain::new();
            chain.push_json(&Value::Null);
            let (finding, _) = finish(chain);
            return Ok((finding, Some(error.to_string())));
        }
    };
    let entries = match value {
        Value::Array(entries) => entries,
        Value::Object(mut map) => match (map.remove("entries"), map.is_empty()) {
            (Some(Value::Array(entries)), _) => entries,
            (Some(other), _) => vec![other],
            (None, true) => return Err(no_chain()),
            // One entry by itself.
            (None, false) => vec![Value::Object(map)],
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            return Err(no_chain());
        }
    };
    let mut chain = Chain::new();
    for entry in &entries {
        chain.push_json(entry);
    }
    Ok(finish(chain))
}

fn no_chain() -> Failure {
    Failure::new(Code::RequestInvalid, "the file holds no chain")
        .hint("a chain is a JSON array of entries, an object with `entries`, or one entry a line")
}

fn finish(chain: Chain) -> (Finding, Option<String>) {
    let problem = chain.error().map(ToString::to_string);
    (chain.finish(), problem)
}
