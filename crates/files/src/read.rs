//! `read`: a file's text by lines, or its bytes.

use std::fs::File;
use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use windlass_kernel::Digest;

use crate::arguments::Arguments;
use crate::error::FilesError;
use crate::files::version_of;
use crate::limits::{
    BASE64_BYTES_MAX, FILE_BYTES_MAX, LINE_CHARS_MAX, OUTPUT_BYTES_MIN, READ_LINES,
};
use crate::media_type;
use crate::output::{first_chars, fitting, json_bytes};
use crate::root::{Links, Root, text_of};

/// How much is read at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// What is left of the result's limit for everything but the content.
const RESERVED_BYTES: usize = OUTPUT_BYTES_MIN / 2;
const BOM: &[u8] = b"\xef\xbb\xbf";

pub(crate) fn read(
    root: &Root,
    arguments: &Arguments<'_>,
    output_bytes_max: usize,
) -> Result<Value, FilesError> {
    let resolved = root.resolve(arguments.path(), Links::Follow)?;
    if resolved.kind.is_none() {
        return Err(FilesError::NotFound { path: arguments.path().to_owned() });
    }
    let path = text_of(&resolved.path);
    let file = root.open_file(&resolved)?;
    let content_bytes_max = output_bytes_max.saturating_sub(RESERVED_BYTES);
    if arguments.text("encoding").is_some() {
        if let Some(extra) =
            ["offset", "limit"].into_iter().find(|name| arguments.count(name).is_some())
        {
            return Err(FilesError::Invalid(format!(
                "`{extra}` counts lines; leave it out with `encoding`"
            )));
        }
        return read_bytes(&file, &path, content_bytes_max);
    }
    let first = arguments.count("offset").unwrap_or(1);
    let count = arguments.count("limit").unwrap_or(READ_LINES);
    let mut scan = Scan::new(first, count, content_bytes_max);
    each_chunk(&file, &path, FILE_BYTES_MAX, |chunk| scan.add(chunk))?;
    scan.finish(&path)
}

/// Reads a file in chunks, and refuses one that is too large.
pub(crate) fn each_chunk(
    file: &File,
    path: &str,
    bytes_max: u64,
    mut use_chunk: impl FnMut(&[u8]),
) -> Result<(), FilesError> {
    let mut buffer = vec![0; CHUNK_BYTES];
    // One byte more than allowed shows that there is more.
    let mut rest = file.take(bytes_max + 1);
    loop {
        let read = match rest.read(&mut buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(FilesError::io("read", path, &error)),
        };
        use_chunk(buffer.get(..read).unwrap_or_default());
        if rest.limit() == 0 {
            return Err(FilesError::TooLarge(format!(
                "`{path}` is larger than {bytes_max} bytes, the most that can be read"
            )));
        }
        if read == 0 {
            return Ok(());
        }
    }
}

fn read_bytes(file: &File, path: &str, content_bytes_max: usize) -> Result<Value, FilesError> {
    let fits = u64::try_from(content_bytes_max / 4 * 3).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    each_chunk(file, path, BASE64_BYTES_MAX.min(fits), |chunk| bytes.extend_from_slice(chunk))?;
    Ok(json!({
        "encoding": "base64",
        "content": STANDARD.encode(&bytes),
        "size": bytes.len(),
        "version": version_of(&Digest::of(&bytes)),
        "media_type": media_type::guess(&bytes),
    }))
}

/// A file that is being read: what is known of all of it, and the lines that were asked for.
struct Scan {
    hash: Sha256,
    size: u64,
    /// The first bytes of the file.
    start: Vec<u8>,
    is_text: bool,
    /// The beginning of a character whose end is in the next chunk.
    unfinished: Vec<u8>,
    /// The last byte before the current one.
    last_byte: u8,
    crlf_lines: u64,
    lf_lines: u64,
    lines: Lines,
}

/// The lines that were asked for.
struct Lines {
    first: u64,
    /// The first line after them.
    end: u64,
    bytes_max: usize,
    content: String,
    content_bytes: usize,
    /// The number of the current line.
    number: u64,
    /// The beginning of the current line, if it is to be kept.
    line: Vec<u8>,
    line_chars: usize,
    /// The last line in `content`.
    last: u64,
    cut: Vec<u64>,
    is_full: bool,
}

impl Scan {
    fn new(first: u64, count: u64, bytes_max: usize) -> Self {
        Self {
            hash: Sha256::new(),
            size: 0,
            start: Vec::new(),
            is_text: true,
            unfinished: Vec::new(),
            last_byte: b'\n',
            crlf_lines: 0,
            lf_lines: 0,
            lines: Lines {
                first,
                end: first.saturating_add(count),
                bytes_max,
                content: String::new(),
                content_bytes: 0,
                number: 1,
                line: Vec::new(),
                line_chars: 0,
                last: first.saturating_sub(1),
                cut: Vec::new(),
                is_full: false,
            },
        }
    }

    fn add(&mut self, chunk: &[u8]) {
        self.hash.update(chunk);
        self.size += u64::try_from(chunk.len()).unwrap_or_default();
        if self.start.len() < 16 {
            self.start.extend(chunk.iter().take(16));
        }
        self.is_text = self.is_text && !chunk.contains(&0) && self.is_utf8(chunk);
        if !self.is_text {
            return;
        }
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            let ends = piece.last() == Some(&b'\n');
            if ends {
                let before = piece.iter().rev().nth(1).copied().unwrap_or(self.last_byte);
                let lines = if before == b'\r' { &mut self.crlf_lines } else { &mut self.lf_lines };
                *lines += 1;
            }
            self.lines.add(piece, ends);
            self.last_byte = piece.last().copied().unwrap_or_default();
        }
    }

    fn is_utf8(&mut self, chunk: &[u8]) -> bool {
        let joined: Vec<u8>;
        let bytes = if self.unfinished.is_empty() {
            chunk
        } else {
            joined = [self.unfinished.as_slice(), chunk].concat();
            self.unfinished.clear();
            &joined
        };
        match std::str::from_utf8(bytes) {
            Ok(_) => true,
            Err(error) if error.error_len().is_none() => {
                self.unfinished = bytes.get(error.valid_up_to()..).unwrap_or_default().to_vec();
                true
            }
            Err(_) => false,
        }
    }

    fn finish(mut self, path: &str) -> Result<Value, FilesError> {
        let version = version_of(&Digest::from_bytes(self.hash.finalize().into()));
        if !self.is_text || !self.unfinished.is_empty() {
            return Ok(json!({
                "binary": true,
                "size": self.size,
                "version": version,
                "media_type": media_type::guess(&self.start),
                "note": "not UTF-8 text; pass `encoding: \"base64\"` for the bytes of a small file",
            }));
        }
        let ends_with_newline = self.last_byte == b'\n';
        if !ends_with_newline {
            self.lines.finish_line();
        }
        let total = self.lines.number - 1;
        let lines = self.lines;
        if lines.first > total.max(1) {
            let message =
                format!("`{path}` has {total} lines; `offset` {} is after its end", lines.first);
            return Err(FilesError::Invalid(message));
        }
        let mut result = json!({
            "content": lines.content,
            "first_line": lines.first.min(total),
            "last_line": lines.last,
            "total_lines": total,
            "version": version,
        });
        let mut notes = Vec::new();
        if lines.last < total {
            notes.push(format!(
                "lines {} to {} of {total}; read on with `offset` {}",
                lines.first,
                lines.last,
                lines.last + 1
            ));
        }
        if let Some(first) = lines.cut.first() {
            let count = lines.cut.len();
            notes.push(format!(
                "{count} long line(s) cut, the first is line {first}; find the rest with `search`, do not copy the mark \
                 of the cut into an edit"
            ));
        }
        let truncated = !notes.is_empty();
        let mut set = |name: &str, value: Value| {
            if let Value::Object(result) = &mut result {
                result.insert(name.to_owned(), value);
            }
        };
        if truncated {
            set("truncated", json!(true));
            set("note", json!(notes.join(". ")));
        }
        if self.start.starts_with(BOM) {
            set("bom", json!(true));
        }
        if total > 0 && !ends_with_newline {
            set("final_newline", json!(false));
        }
        match (self.crlf_lines, self.lf_lines) {
            (0, _) => {}
            (_, 0) => set("line_endings", json!("crlf")),
            (_, _) => set("line_endings", json!("mixed")),
        }
        Ok(result)
    }
}

impl Lines {
    /// Adds a part of the current line.
    fn add(&mut self, piece: &[u8], ends: bool) {
        if !self.is_full && (self.first..self.end).contains(&self.number) {
            // Continuation bytes are not counted.
            self.line_chars += piece.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
            let room = (4 * LINE_CHARS_MAX + 8).saturating_sub(self.line.len());
            self.line.extend(piece.iter().take(room));
        }
        if ends {
            self.finish_line_with_end(piece);
        }
    }

    fn finish_line_with_end(&mut self, piece: &[u8]) {
        let end = if piece.ends_with(b"\r\n") { "\r\n" } else { "\n" };
        self.keep(end);
        self.number += 1;
    }

    /// Finishes a last line that has no newline.
    fn finish_line(&mut self) {
        self.keep("");
        self.number += 1;
    }

    /// Keeps the current line if it was asked for and there is room.
    fn keep(&mut self, end: &str) {
        let line = std::mem::take(&mut self.line);
        let chars = std::mem::take(&mut self.line_chars).saturating_sub(end.len());
        if self.is_full || !(self.first..self.end).contains(&self.number) {
            return;
        }
        let valid = match std::str::from_utf8(&line) {
            Ok(text) => text,
            // Only the last character can be incomplete, where the line was cut.
            Err(error) => {
                let valid = line.get(..error.valid_up_to()).unwrap_or_default();
                std::str::from_utf8(valid).unwrap_or_default()
            }
        };
        let mark = |shown: &str| format!("{shown} […cut: the line has {chars} characters]{end}");
        let mut text = if chars > LINE_CHARS_MAX {
            mark(first_chars(valid, LINE_CHARS_MAX))
        } else {
            valid.to_owned()
        };
        let mut is_cut = chars > LINE_CHARS_MAX;
        let room = self.bytes_max.saturating_sub(self.content_bytes);
        if json_bytes(&text) > room {
            self.is_full = true;
            if self.last >= self.first {
                return;
            }
            // Not even one line fits.
            text = mark(fitting(first_chars(valid, LINE_CHARS_MAX), room.saturating_sub(100)));
            is_cut = true;
        }
        if is_cut {
            self.cut.push(self.number);
        }
        self.content_bytes += json_bytes(&text);
        self.content.push_str(&text);
        self.last = self.number;
    }
}
