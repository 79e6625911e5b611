//! `windlass verify --file`: verifies a TGA-v1 chain without a project.

mod elements;

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::{Value, json};
use windlass_formats::tga::{Artifacts, ArtifactsError};
use windlass_kernel::verify::ChainVerifier;
use windlass_kernel::{Code, canon};

use crate::failure::{CommandResult, Failure, exit_of};
use crate::input::{self, unreadable};
use crate::output::Output;
use elements::{Elements, Step, parts};

/// The maximum size of a file that is one JSON object, which is held in memory: its artifacts may come after its
/// entries. A list, or a file of lines, may have any size.
const TEXT_BYTES_MAX: usize = 64 << 20;
/// The maximum length of a line, and of an element of a list.
const LINE_BYTES_MAX: usize = 16 << 20;

/// Verifies the chain in a file, or on standard input, and prints the finding as JSON.
pub fn run(path: &Path, output: &Output) -> CommandResult {
    let verified = verify(path)?;
    let finding = verified.chain.finish();
    let mut value =
        serde_json::to_value(&finding).map_err(|error| Failure::of(Code::Internal, &error))?;
    if let Some(map) = value.as_object_mut() {
        let problem = verified.problem;
        let problem = problem.or_else(|| verified.chain.error().map(ToString::to_string));
        map.insert("message".to_owned(), json!(problem));
    }
    output.value(&value)?;
    Ok(if finding.chain_valid { 0 } else { exit_of(Code::StateChecksumMismatch) })
}

/// A chain that is being verified, with the artifacts beside its entries.
#[derive(Default)]
struct FileChain {
    chain: ChainVerifier,
    artifacts: Artifacts,
    /// Whether the file has the artifacts of all entries, or only of those that are in one object with theirs.
    has_artifacts: bool,
    /// A description of the first problem, if the chain cannot tell it.
    problem: Option<String>,
}

fn verify(path: &Path) -> Result<FileChain, Failure> {
    let source = input::open_or_standard_input(path)?;
    let mut reader = BufReader::with_capacity(1 << 16, source);
    let start = read_start(&mut reader).map_err(|error| unreadable(path, &error))?;
    let mut found = FileChain::default();
    if start.is_empty() {
        found.refuse("the file is empty, or has nothing but blank lines".to_owned());
        return Ok(found);
    }
    if let Some(rest) = start.trim_ascii_start().strip_prefix(b"[") {
        found.push_list(rest.chain(reader)).map_err(|error| unreadable(path, &error))?;
    } else if is_entry(&start) {
        // If the first line is an entry by itself, every line is one.
        let mut reader = start.as_slice().chain(reader);
        found.push_lines(&mut reader).map_err(|error| unreadable(path, &error))?;
    } else {
        found.read_text(path, start.as_slice().chain(reader))?;
    }
    if found.chain.head().is_none() {
        found.refuse("the file has no entries".to_owned());
    }
    Ok(found)
}

/// Whether a line is a JSON object that is not a wrapper around entries.
fn is_entry(line: &[u8]) -> bool {
    struct Keys;

    impl<'de> Visitor<'de> for Keys {
        type Value = bool;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
            let mut has_entries = false;
            while let Some((key, IgnoredAny)) = map.next_entry::<String, _>()? {
                has_entries |= key == "entries";
            }
            Ok(!has_entries)
        }
    }

    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let is_entry = deserializer.deserialize_map(Keys).unwrap_or(false);
    is_entry && deserializer.end().is_ok()
}

/// Reads the first line that is not blank; empty if there is none.
fn read_start(reader: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX);
        let is_end = reader.by_ref().take(limit).read_until(b'\n', &mut line)? == 0;
        if is_end || !line.trim_ascii().is_empty() {
            return Ok(line);
        }
    }
}

fn looks_like_lines(text: &[u8]) -> bool {
    let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let mut is_object = || {
        let line = lines.by_ref().find(|line| !line.is_empty());
        line.is_some_and(|line| line.starts_with(b"{"))
    };
    is_object() && is_object()
}

impl FileChain {
    /// Verifies entries, one a line.
    fn push_lines(&mut self, reader: &mut impl BufRead) -> std::io::Result<()> {
        let mut line = Vec::new();
        loop {
            line.clear();
            let limit = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX) + 1;
            if reader.by_ref().take(limit).read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim_ascii();
            if !line.is_empty() {
                self.push(line);
            }
        }
    }

    /// Verifies the entries of a list, whose opening bracket was read already.
    fn push_list(&mut self, reader: impl BufRead) -> std::io::Result<()> {
        let (mut elements, mut element) = (Elements::new(reader, LINE_BYTES_MAX), Vec::new());
        loop {
            match elements.next(&mut element)? {
                Step::Element => self.push(&element),
                Step::TooLong => {
                    let limit = LINE_BYTES_MAX >> 20;
                    self.push_invalid(&format!("it has more than {limit} MiB"));
                }
                Step::End => return Ok(()),
                Step::Torn => {
                    self.push_invalid("the list does not end, or has text after its end");
                    return Ok(());
                }
            }
        }
    }

    /// Reads and verifies a text that is neither a list nor one entry per line.
    fn read_text(&mut self, path: &Path, reader: impl BufRead) -> Result<(), Failure> {
        let mut text = Vec::new();
        let limit = u64::try_from(TEXT_BYTES_MAX).unwrap_or(u64::MAX);
        reader.take(limit + 1).read_to_end(&mut text).map_err(|error| unreadable(path, &error))?;
        if text.len() > TEXT_BYTES_MAX {
            let message = format!(
                "`{}` is one JSON object of more than {} MiB",
                path.display(),
                TEXT_BYTES_MAX >> 20
            );
            return Err(Failure::new(Code::DocSizeExceeded, message)
                .hint("write one entry per line; such a file may have any size"));
        }
        match serde_json::from_slice::<IgnoredAny>(&text) {
            Ok(_) => self.push_text(text.trim_ascii()),
            // Lines of which the first is truncated.
            Err(_) if looks_like_lines(&text) => {
                self.push_lines(&mut text.as_slice()).map_err(|error| unreadable(path, &error))?
            }
            Err(error) => {
                self.chain.push_json(&Value::Null);
                self.problem = Some(format!("the text is not valid JSON: {error}"));
            }
        }
        Ok(())
    }

    /// Verifies a valid JSON text: an object with a list of entries, or a single entry.
    fn push_text(&mut self, text: &[u8]) {
        let members = match text.first() {
            Some(b'{') => parts(text).filter_map(split_member).collect(),
            _ => Vec::new(),
        };
        let named = |name: &str| {
            let mut values = members.iter().filter(|(key, _)| key == name).map(|(_, value)| *value);
            (values.next(), values.next())
        };
        match named("artifacts") {
            (None, _) => {}
            (Some(list), None) if list.starts_with(b"[") || list.starts_with(b"{") => {
                self.has_artifacts = true;
                self.add_artifacts(list);
            }
            (Some(_), _) => self.refuse("`artifacts` is there twice, or is no list".to_owned()),
        }
        match named("entries") {
            (Some(list), None) if list.starts_with(b"[") => {
                parts(list).for_each(|entry| self.push(entry));
            }
            // Two `entries`, or one that is not a list, count as one invalid entry.
            (Some(_), _) => self.push(b"null"),
            (None, _) => self.push(text),
        }
        if self.artifacts.unused() > 0 && self.chain.error().is_none() {
            self.refuse("an artifact beside the entries is named by no entry".to_owned());
        }
    }

    /// Reads the artifacts beside the entries: a list, or an object that has them by name.
    fn add_artifacts(&mut self, list: &[u8]) {
        for part in parts(list) {
            if self.chain.error().is_some() {
                return;
            }
            let body = match list.first() {
                Some(b'{') => split_member(part).map_or(part, |(_, body)| body),
                _ => part,
            };
            let added = canon::parse(body, LINE_BYTES_MAX)
                .map_err(ArtifactsError::from)
                .and_then(|body| self.artifacts.add(&body));
            if let Err(error) = added {
                self.refuse(error.to_string());
            }
        }
    }

    /// Parses one entry strictly; invalid JSON, such as a truncated line, counts as an invalid entry.
    fn push(&mut self, text: &[u8]) {
        if self.chain.error().is_some() {
            // After the first error entries are only counted, so that what they hold costs nothing.
            self.chain.push_json(&Value::Null);
            return;
        }
        let mut value = match canon::parse(text, LINE_BYTES_MAX) {
            // A JSON array is not an entry either.
            Ok(value) if value.is_array() => Value::Null,
            Ok(value) => value,
            Err(error) => return self.push_invalid(&error.to_string()),
        };
        let mut has_artifact = self.has_artifacts;
        if let Some((entry, artifact)) = pair(&mut value) {
            value = entry;
            // An artifact that was purged is null.
            has_artifact = !artifact.is_null();
            let added = if has_artifact { self.artifacts.add(&artifact) } else { Ok(()) };
            if let Err(error) = added {
                self.refuse(error.to_string());
            }
        }
        let artifacts = &mut self.artifacts;
        self.chain.push_json_with(&value, |entry| match has_artifact {
            true => artifacts.follow(entry),
            false => Ok(()),
        });
    }

    /// Counts an entry that cannot be read.
    fn push_invalid(&mut self, problem: &str) {
        if self.chain.error().is_none() {
            let number = self.chain.head().map_or(0, |head| head.sequence_number) + 1;
            self.problem = Some(format!("entry {number} cannot be read: {problem}"));
        }
        self.chain.push_json(&Value::Null);
    }

    /// Reports a problem of the file that no entry has.
    fn refuse(&mut self, problem: String) {
        if self.chain.error().is_none() {
            self.chain.refuse(problem.clone());
            self.problem = Some(problem);
        }
    }
}

/// The entry and the artifact of `{"entry": …, "artifact": …}`, as `trace log --artifacts --json` prints them.
fn pair(value: &mut Value) -> Option<(Value, Value)> {
    let map = value.as_object_mut()?;
    let is_pair = map.len() == 2 && map.contains_key("entry") && map.contains_key("artifact");
    is_pair
        .then(|| (map.remove("entry"), map.remove("artifact")))
        .and_then(|(entry, artifact)| entry.zip(artifact))
}

/// The key and the value of an object's member.
fn split_member(member: &[u8]) -> Option<(String, &[u8])> {
    let mut keys = serde_json::Deserializer::from_slice(member).into_iter::<String>();
    let key = keys.next()?.ok()?;
    let rest = member.get(keys.byte_offset()..)?.trim_ascii_start();
    Some((key, rest.strip_prefix(b":")?.trim_ascii_start()))
}
