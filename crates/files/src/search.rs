//! `search`: lines of files, or files by their names.

use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use globset::{GlobBuilder, GlobMatcher};
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use rustix::fs::{FileType, Mode, OFlags, openat};
use rustix::io::Errno;
use serde_json::{Map, Value, json};

use crate::arguments::Arguments;
use crate::collector::Collector;
use crate::error::FilesError;
use crate::files::LeftOut;
use crate::limits::{
    FILE_BYTES_MAX, FILE_MATCHES_MAX, MATCH_CHARS_MAX, OUTPUT_BYTES_MIN, SEARCH_MATCHES,
    SEARCH_MATCHES_MAX,
};
use crate::list::resolve;
use crate::output::json_bytes;
use crate::root::{Root, text_of};
use crate::sink::{Line, Matches, truncate};
use crate::walk::{Entry, Visitor, Walk, key_of, threads};

/// What a compiled pattern may take.
const REGEX_BYTES_MAX: usize = 10 * 1024 * 1024;
/// What a line or a file takes in the result beside its text.
const ITEM_BYTES: usize = 64;

pub(crate) fn search(
    root: &Root,
    arguments: &Arguments<'_>,
    left_out: &LeftOut,
    output_bytes_max: usize,
) -> Result<Value, FilesError> {
    let limit = arguments.count("limit").unwrap_or(SEARCH_MATCHES);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let files_only = arguments.flag("files_only").unwrap_or_default();
    let resolved = resolve(root, arguments.path())?;
    let mut search = Search {
        start: resolved.path.clone(),
        pattern: pattern(arguments, files_only)?,
        glob: glob(arguments)?,
        found: Collector::new(limit.saturating_add(1)),
        left_out: Arc::clone(left_out),
        left_out_count: AtomicUsize::new(0),
    };
    if resolved.kind == Some(FileType::Directory) {
        let walk =
            Walk { root, start: &resolved.path, depth_max: usize::MAX, include_ignored: false };
        walk.run(&search, threads());
    } else {
        let file = root.open_file(&resolved)?;
        search.start.pop();
        let mut worker = search.worker();
        if search.is_wanted(&resolved.path) {
            search.visit_file(&mut worker, file, &resolved.path);
        }
    }
    let context = search.pattern.as_ref().map_or(0, |pattern| pattern.context);
    let shows_lines = search.pattern.is_some() && !files_only;
    let left_out = search.left_out_count.into_inner();
    let mut result = result(search.found.finish(), limit, context, shows_lines, output_bytes_max);
    if let (1.., Value::Object(result)) = (left_out, &mut result) {
        result.insert("left_out".to_owned(), json!(left_out));
        let note =
            "`left_out` is the number of files that the policy denies: they were not searched";
        let note = match result.get("note").and_then(Value::as_str) {
            Some(other) => format!("{other}. {note}"),
            None => note.to_owned(),
        };
        result.insert("note".to_owned(), json!(note));
    }
    Ok(result)
}

/// What lines are searched for.
struct Pattern {
    matcher: RegexMatcher,
    context: u64,
    files_only: bool,
}

fn pattern(arguments: &Arguments<'_>, files_only: bool) -> Result<Option<Pattern>, FilesError> {
    let invalid = |message: &str| Err(FilesError::Invalid(message.to_owned()));
    let context = arguments.count("context");
    let Some(text) = arguments.text("pattern") else {
        if arguments.text("glob").is_none() {
            return invalid("`search` needs `pattern` for contents or `glob` for names of files");
        }
        if context.is_some() || arguments.flag("fixed").is_some() {
            return invalid("`context` and `fixed` need a `pattern`");
        }
        return Ok(None);
    };
    if files_only && context.is_some() {
        return invalid("`context` shows lines; leave it or `files_only` out");
    }
    let matcher = RegexMatcherBuilder::new()
        .case_insensitive(arguments.flag("ignore_case").unwrap_or_default())
        .fixed_strings(arguments.flag("fixed").unwrap_or_default())
        .multi_line(true)
        .crlf(true)
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_BYTES_MAX)
        .build(text);
    match matcher {
        Ok(matcher) => Ok(Some(Pattern { matcher, context: context.unwrap_or(0), files_only })),
        Err(error) => Err(FilesError::Invalid(format!(
            "`pattern` is not a regular expression that can be used: {error}; lines are matched one by one, and `fixed` \
             takes the pattern as plain text"
        ))),
    }
}

/// Which files are searched.
struct NameGlob {
    matcher: GlobMatcher,
    excludes: bool,
}

fn glob(arguments: &Arguments<'_>) -> Result<Option<NameGlob>, FilesError> {
    let Some(text) = arguments.text("glob") else { return Ok(None) };
    let (excludes, glob) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest));
    // Without a folder it is a name at any depth.
    let glob = match glob.strip_prefix('/') {
        Some(glob) => glob.to_owned(),
        None if glob.contains('/') => glob.to_owned(),
        None => format!("**/{glob}"),
    };
    let built = GlobBuilder::new(&glob)
        .literal_separator(true)
        .case_insensitive(arguments.flag("ignore_case").unwrap_or_default())
        .build();
    match built {
        Ok(glob) => Ok(Some(NameGlob { matcher: glob.compile_matcher(), excludes })),
        Err(error) => Err(FilesError::Invalid(format!("`glob` is not a glob: {error}"))),
    }
}

/// What was found in one file.
struct Found {
    lines: Vec<Line>,
    count: usize,
    has_more: bool,
    /// Why the file was not searched.
    skipped: Option<String>,
}

struct Search {
    /// The folder that globs count from.
    start: std::path::PathBuf,
    /// `None` if only names are searched.
    pattern: Option<Pattern>,
    glob: Option<NameGlob>,
    found: Collector<Found>,
    left_out: LeftOut,
    left_out_count: AtomicUsize,
}

impl Search {
    /// Whether the glob lets a file through.
    fn is_wanted(&self, path: &Path) -> bool {
        let relative = path.strip_prefix(&self.start).unwrap_or(path);
        self.glob.as_ref().is_none_or(|glob| glob.matcher.is_match(relative) != glob.excludes)
    }

    fn add(&self, path: &Path, lines: Vec<Line>, count: usize, has_more: bool) {
        self.found.add(key_of(path), count, Found { lines, count, has_more, skipped: None });
    }

    fn skip(&self, path: &Path, reason: String) {
        let found = Found { lines: Vec::new(), count: 1, has_more: false, skipped: Some(reason) };
        self.found.add(key_of(path), 1, found);
    }

    fn visit_file(&self, searcher: &mut Option<(Searcher, RegexMatcher)>, file: File, path: &Path) {
        let (Some(pattern), Some((searcher, matcher))) = (&self.pattern, searcher) else {
            return self.add(path, Vec::new(), 1, false);
        };
        match file.metadata() {
            Ok(found) if !found.is_file() => return,
            Ok(found) if found.len() > FILE_BYTES_MAX => {
                return self.skip(path, format!("larger than {FILE_BYTES_MAX} bytes"));
            }
            Ok(_) => {}
            Err(error) => return self.skip(path, error.to_string()),
        }
        let mut matches = Matches::new(matcher, !pattern.files_only);
        if let Err(error) = searcher.search_file(&*matcher, &file, &mut matches) {
            return self.skip(path, error.to_string());
        }
        if matches.count > 0 && !matches.is_binary {
            let Matches { mut lines, count, has_more, .. } = matches;
            truncate(&mut lines, FILE_MATCHES_MAX, pattern.context);
            let count = if pattern.files_only { 1 } else { count };
            self.add(path, lines, count, has_more);
        }
    }
}

impl Visitor for Search {
    type Worker = Option<(Searcher, RegexMatcher)>;

    fn worker(&self) -> Self::Worker {
        let pattern = self.pattern.as_ref()?;
        let context = usize::try_from(pattern.context).unwrap_or_default();
        let searcher = SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .line_number(!pattern.files_only)
            .before_context(context)
            .after_context(context)
            .binary_detection(BinaryDetection::quit(0))
            .bom_sniffing(false)
            .build();
        Some((searcher, pattern.matcher.clone()))
    }

    fn wants(&self, path: &[u8]) -> bool {
        self.found.wants(path)
    }

    fn visit(&self, searcher: &mut Self::Worker, entry: &Entry<'_>) {
        if entry.kind != FileType::RegularFile || !self.is_wanted(entry.path) {
            return;
        }
        if self.pattern.is_none() {
            return self.add(entry.path, Vec::new(), 1, false);
        }
        // Whether they have a match would tell what is in them.
        if (self.left_out)(&text_of(entry.path)) {
            self.left_out_count.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        match openat(entry.folder, entry.name, flags | OFlags::CLOEXEC, Mode::empty()) {
            Ok(file) => self.visit_file(searcher, file.into(), entry.path),
            // Removed or replaced meanwhile.
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => {}
            Err(error) => self.skip(entry.path, error.to_string()),
        }
    }

    fn failed(&self, path: &Path, error: Errno) {
        self.skip(&path.join(""), error.to_string());
    }
}

/// The result, as far as it fits.
fn result(
    found: Vec<(Vec<u8>, Found)>,
    limit: usize,
    context: u64,
    shows_lines: bool,
    output_bytes_max: usize,
) -> Value {
    let mut room = output_bytes_max.saturating_sub(OUTPUT_BYTES_MIN / 2);
    let (mut files, mut skipped) = (Vec::new(), Vec::new());
    let (mut count, mut has_more, mut has_cut, mut truncated) = (0, false, false, false);
    for (path, mut found) in found {
        let left = limit.saturating_sub(count);
        if left == 0 {
            truncated = true;
            break;
        }
        let path = text_of(Path::new(std::ffi::OsStr::from_bytes(&path)));
        let reason = found.skipped.as_deref().unwrap_or_default();
        let bytes = json_bytes(&path) + json_bytes(reason) + ITEM_BYTES;
        if bytes > room {
            truncated = true;
            break;
        }
        room -= bytes;
        if let Some(reason) = found.skipped {
            count += 1;
            skipped.push(json!({ "path": path, "reason": reason }));
            continue;
        }
        if !shows_lines {
            count += 1;
            files.push(json!(path));
            continue;
        }
        if found.count > left {
            truncate(&mut found.lines, left, context);
            truncated = true;
        }
        let mut lines = Vec::new();
        for line in found.lines {
            let bytes = json_bytes(&line.text) + ITEM_BYTES;
            if bytes > room {
                truncated = true;
                break;
            }
            room -= bytes;
            count += usize::from(line.is_match);
            has_cut |= line.is_cut;
            let mut shown = json!({ "line": line.number, "text": line.text });
            if let (false, Value::Object(shown)) = (line.is_match, &mut shown) {
                shown.insert("context".to_owned(), json!(true));
            }
            lines.push(shown);
        }
        let mut file = json!({ "path": path, "lines": lines });
        if let (true, Value::Object(file)) = (found.has_more, &mut file) {
            file.insert("more".to_owned(), json!(true));
            has_more = true;
        }
        files.push(file);
        if truncated {
            break;
        }
    }
    let mut notes = Vec::new();
    if truncated {
        notes.push(format!(
            "cut after the first {count} results in the order of paths: narrow `path`, `glob` or `pattern`, or raise `limit` \
             (at most {SEARCH_MATCHES_MAX})"
        ));
    }
    if has_more {
        notes.push(format!(
            "files with `more` have more than {FILE_MATCHES_MAX} matches: search one of them by its path with a narrower \
             pattern, or read it"
        ));
    }
    if has_cut {
        notes.push(format!("lines over {MATCH_CHARS_MAX} characters are cut at `…`"));
    }
    let mut result = Map::new();
    if shows_lines {
        result.insert("matches".to_owned(), json!(count - skipped.len()));
    }
    result.insert("files".to_owned(), Value::Array(files));
    if !skipped.is_empty() {
        result.insert("skipped".to_owned(), Value::Array(skipped));
    }
    if truncated {
        result.insert("truncated".to_owned(), json!(true));
    }
    if !notes.is_empty() {
        result.insert("note".to_owned(), json!(notes.join(". ")));
    }
    Value::Object(result)
}
