//! The limits of the tools.

/// The largest file that is read, searched or written.
pub(crate) const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The largest file that is returned as Base64.
pub(crate) const BASE64_BYTES_MAX: u64 = 1024 * 1024;
/// The longest path of a call, so that a result that names it stays within its limit.
pub(crate) const PATH_BYTES_MAX: usize = 1024;
/// The smallest limit of a result: room for a path and a note.
pub const OUTPUT_BYTES_MIN: usize = 8 * 1024;

/// How many lines `read` returns unless it is told otherwise.
pub(crate) const READ_LINES: u64 = 2_000;
/// How much of a line `read` returns.
pub(crate) const LINE_CHARS_MAX: usize = 2_000;

/// How many entries `list` returns.
pub(crate) const LIST_ENTRIES_MAX: usize = 1_000;
/// How deep `list` goes at most.
pub(crate) const LIST_DEPTH_MAX: u64 = 20;

/// How many matches `search` returns unless it is told otherwise.
pub(crate) const SEARCH_MATCHES: u64 = 200;
/// How many matches `search` returns at most.
pub(crate) const SEARCH_MATCHES_MAX: u64 = 1_000;
/// How many matches `search` returns of one file.
pub(crate) const FILE_MATCHES_MAX: usize = 50;
/// How many lines `search` shows before and after a match at most.
pub(crate) const SEARCH_CONTEXT_MAX: u64 = 20;
/// How much of a line `search` shows.
pub(crate) const MATCH_CHARS_MAX: usize = 400;
/// The longest pattern or glob.
pub(crate) const PATTERN_BYTES_MAX: usize = 16 * 1024;

/// How many edits a call may have.
pub(crate) const EDITS_MAX: usize = 100;
/// How many occurrences one call may replace.
pub(crate) const REPLACEMENTS_MAX: usize = 100_000;
/// How much of the diff `edit` returns.
pub(crate) const DIFF_BYTES_MAX: usize = 16 * 1024;
/// How much of a line the diff shows.
pub(crate) const DIFF_LINE_CHARS_MAX: usize = 400;
