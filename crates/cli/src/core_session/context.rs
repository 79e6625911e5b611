//! What agents of the core loop are given to read.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use windlass_beneath::Folder;
use windlass_hooks::{Turn, conversation};
use windlass_kernel::Call;
use windlass_memory::Memory;
use windlass_redact::Redactor;
use windlass_work::{Item, Tracker, WorkError};

/// How names of hydration contexts begin.
const PREFIX: &str = "windlass-hydrate-";
/// How long a hydration context is kept.
const KEPT: Duration = Duration::from_secs(3600);
/// The most of a file that is given to an agent.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// How much of a client's record is read, from its end.
const RECORD_BYTES_MAX: u64 = 4 << 20;
/// How many prompts, responses and uses of tools a context has.
const PROMPTS: usize = 5;
const RESPONSES: usize = 3;
const USES: usize = 10;
/// How long each of them may be.
const TURN_CHARS_MAX: usize = 400;
/// How many items of each list of the tracker are shown.
const ITEMS: usize = 10;
/// How many of the recent ones are looked through for reflections, and how many of those are shown.
const RECENT: usize = 200;
const REFLECTIONS: usize = 10;
/// How many memories are asked for.
pub const MEMORIES: usize = 8;

/// The template of the hydration context that comes with Windlass.
pub const TEMPLATE: &str = include_str!("../../../../loops/core/hydration-context.md");
/// The axioms that come with Windlass.
pub const AXIOMS: &str = include_str!("../../../../loops/core/AXIOMS.md");

/// Parts of a text, of which those at the end are cut to fit.
pub struct Parts {
    parts: Vec<(String, String)>,
}

impl Parts {
    /// No parts.
    pub const fn new() -> Self {
        Self { parts: Vec::new() }
    }

    /// Adds a part, unless it is empty.
    pub fn add(&mut self, title: &str, text: &str) {
        if !text.trim().is_empty() {
            self.parts.push((title.to_owned(), text.trim().to_owned()));
        }
    }

    /// The same without secrets, as it may be cut.
    pub fn without_secrets(mut self, redactor: &Redactor) -> Self {
        for (_, body) in &mut self.parts {
            redactor.redact_text(body);
        }
        self
    }

    /// The parts as one text of at most so many bytes, with a note of what was cut.
    pub fn within(&self, bytes_max: usize) -> String {
        let mut text = String::new();
        let mut cut: Vec<&str> = Vec::new();
        for (title, body) in &self.parts {
            let part = format!("## {title}\n\n{body}\n\n");
            let left = bytes_max.saturating_sub(text.len());
            if part.len() <= left {
                text.push_str(&part);
                continue;
            }
            cut.push(title);
            let end = part.floor_char_boundary(left);
            text.push_str(part.get(..end).unwrap_or_default());
        }
        if !cut.is_empty() {
            // Writing to a text cannot fail.
            let _ = write!(text, "\n[cut to {bytes_max} bytes: {}]", cut.join(", "));
        }
        text.trim_end().to_owned()
    }
}

/// A file of a project or of a home, if it is there; links that lead out of its folder are not followed.
pub fn file_in(folder: &Path, name: &str) -> Option<String> {
    let path = folder.join(name).canonicalize().ok()?;
    if !path.starts_with(folder.canonicalize().ok()?) || !path.is_file() {
        return None;
    }
    let mut text = Vec::new();
    // No link can have taken the place of a folder since.
    Folder::file_real(&path).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// A list of the tracker.
type List<'a> = &'a dyn Fn() -> Result<Vec<Item>, WorkError>;

/// What the tracker says.
pub struct WorkContext {
    /// The items of work.
    pub text: String,
    /// The last reflections and learnings among them, if all were listed.
    pub reflections: Option<String>,
    /// Why it says less than it should.
    pub problem: Option<String>,
}

/// What the tracker says, and why it says less than it should.
pub fn work(tracker: &dyn Tracker, user: &str) -> WorkContext {
    let lists: [(&str, List<'_>); 4] = [
        ("Assigned to the user", &|| tracker.assigned(user, ITEMS)),
        ("Blocked", &|| tracker.blocked(ITEMS)),
        ("Open", &|| tracker.open(ITEMS)),
        ("Recent", &|| tracker.recent(RECENT)),
    ];
    let mut text = String::new();
    let mut last = Vec::new();
    for (title, list) in lists {
        match list() {
            Ok(items) => {
                if !items.is_empty() {
                    let _ = writeln!(text, "{title}:");
                }
                for item in items.iter().take(ITEMS) {
                    let blockers = if item.blockers.is_empty() {
                        String::new()
                    } else {
                        format!(" (blocked by {})", item.blockers.join(", "))
                    };
                    let status = item.status.name();
                    let _ = writeln!(text, "- {} [{status}] {}{blockers}", item.id, item.title);
                }
                last = items;
            }
            // What one list did not get in time, the others will not either.
            Err(error) => {
                let problem = Some(format!("The tracker was not asked further: {error}"));
                return WorkContext { text, reflections: None, problem };
            }
        }
    }
    if text.is_empty() {
        text.push_str("nothing");
    }
    WorkContext { text, reflections: Some(reflections(&last)), problem: None }
}

/// The reflections and learnings among items.
fn reflections(items: &[Item]) -> String {
    let is_one = |title: &str| title.starts_with("Reflection:") || title.starts_with("Learning:");
    let found = items.iter().filter(|item| is_one(&item.title)).take(REFLECTIONS);
    let lines = found.map(|item| {
        let text: String = item.description.chars().take(600).collect();
        format!("- {} {}\n{text}", item.id, item.title)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// What memory says about a text, and why it says less than it should.
pub fn memories(memory: &dyn Memory, query: &str, redactor: &Redactor) -> (String, Option<String>) {
    match memory.retrieve(query, MEMORIES) {
        Err(error) => (String::new(), Some(format!("The memory was not asked: {error}"))),
        Ok(hits) => {
            let lines = hits.iter().map(|hit| {
                let text = redactor.redacted(&hit.text);
                let text: String = text.chars().take(TURN_CHARS_MAX * 2).collect();
                format!(
                    "- ({}) {}",
                    hit.source,
                    text.split_whitespace().collect::<Vec<_>>().join(" ")
                )
            });
            (lines.collect::<Vec<_>>().join("\n"), None)
        }
    }
}

/// The turns of a client's record of a session, from its end, without secrets: they are shortened later, and a part of a secret
/// is not known as one.
pub fn turns(transcript: Option<&str>, redactor: &Redactor) -> Vec<Turn> {
    let without_secrets = |turn: Turn| {
        let mut value = serde_json::to_value(turn).ok()?;
        redactor.redact(&mut value);
        serde_json::from_value(value).ok()
    };
    read_turns(transcript).into_iter().filter_map(without_secrets).collect()
}

fn read_turns(transcript: Option<&str>) -> Vec<Turn> {
    let read = || -> Option<Vec<u8>> {
        use std::io::{Seek as _, SeekFrom};
        let mut file = File::open(transcript?).ok()?;
        let length = file.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(RECORD_BYTES_MAX))).ok()?;
        let mut bytes = Vec::new();
        file.take(RECORD_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    };
    read().map(|bytes| conversation(&bytes)).unwrap_or_default()
}

/// The turns of a session of Claude Code that is known by its id alone.
pub fn turns_of(session: &str, redactor: &Redactor) -> Vec<Turn> {
    let Some(path) = record_of(session) else { return Vec::new() };
    turns(path.to_str(), redactor)
}

/// Whether Claude Code has a record of a session.
pub fn is_recorded(session: &str) -> bool {
    record_of(session).is_some_and(|path| !read_turns(path.to_str()).is_empty())
}

/// Claude Code's record of a session.
fn record_of(session: &str) -> Option<PathBuf> {
    let is_name = |one: char| one.is_ascii_alphanumeric() || matches!(one, '-' | '_');
    if session.is_empty() || !session.chars().all(is_name) {
        return None;
    }
    let own = std::env::var_os("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    let folder = own.or_else(|| Some(crate::user_folders::home()?.join(".claude")))?;
    let projects = std::fs::read_dir(folder.join("projects")).ok()?;
    let name = format!("{session}.jsonl");
    projects.flatten().map(|project| project.path().join(&name)).find(|path| path.is_file())
}

/// A text without its middle, if it is too long.
pub fn ends_of(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let half = bytes_max / 2;
    let start = text.get(..text.floor_char_boundary(half)).unwrap_or_default();
    let end = text.get(text.ceil_char_boundary(text.len() - half)..).unwrap_or_default();
    format!("{start}\n\n[the middle is left out]\n\n{end}")
}

/// The last prompts, responses and uses of tools.
pub fn recent(turns: &[Turn]) -> String {
    let short = |text: &str| -> String {
        let text: String = text.chars().take(TURN_CHARS_MAX).collect();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (mut prompts, mut responses, mut uses) = (Vec::new(), Vec::new(), Vec::new());
    for turn in turns.iter().rev() {
        match turn {
            Turn::Prompt { text, .. } if prompts.len() < PROMPTS => prompts.push(short(text)),
            Turn::Response { text, .. } if responses.len() < RESPONSES => {
                responses.push(short(text))
            }
            Turn::Use { tool, input, .. } if uses.len() < USES => {
                uses.push(format!("{tool} {}", short(&input.to_string())));
            }
            Turn::Prompt { .. }
            | Turn::Response { .. }
            | Turn::Use { .. }
            | Turn::Result { .. } => {}
        }
    }
    let mut text = String::new();
    for (title, list) in [("Prompts", prompts), ("Responses", responses), ("Uses of tools", uses)] {
        if !list.is_empty() {
            let lines = list.iter().rev().map(|line| format!("- {line}\n"));
            let _ = write!(text, "{title}, oldest first:\n{}", lines.collect::<String>());
        }
    }
    text
}

/// Calls of a session, as judges see them.
pub fn calls(calls: &[Call]) -> String {
    let lines = calls.iter().rev().take(40).rev().filter_map(|call| {
        let (request, _) = call.request.as_ref()?;
        let state = call.head.state.map(|state| state.to_string()).unwrap_or_default();
        let args: String = request.proposal.args.to_string().chars().take(TURN_CHARS_MAX).collect();
        let tool = format!("{}/{}", request.proposal.tool_server, request.proposal.tool_name);
        Some(format!("- {tool} {args}: {state}"))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Fills a template: each name in double braces is replaced once; a value is not searched again.
pub fn filled(template: &str, values: &BTreeMap<&str, String>) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        text.push_str(before);
        match after.split_once("}}") {
            Some((name, left)) if values.contains_key(name.trim()) => {
                text.push_str(values.get(name.trim()).map_or("", String::as_str));
                rest = left;
            }
            _ => {
                text.push_str("{{");
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text
}

/// Writes a hydration context into a private file, and removes old ones.
pub fn write(text: &str) -> std::io::Result<PathBuf> {
    let folder = std::env::temp_dir();
    remove_old(&folder);
    let mut file = tempfile::Builder::new().prefix(PREFIX).suffix(".md").tempfile_in(&folder)?;
    std::io::Write::write_all(&mut file, text.as_bytes())?;
    file.keep().map(|(_, path)| path).map_err(|error| error.error)
}

/// Removes a context of ours. One that is gone, or cannot be removed now, is left to the next prompts.
pub fn forget(path: &Path) {
    let is_context = path.file_name().and_then(|name| name.to_str());
    if is_context.is_some_and(|name| name.starts_with(PREFIX)) {
        drop(std::fs::remove_file(path));
    }
}

/// Removes contexts of ours that are older than an hour.
fn remove_old(folder: &Path) {
    let user = rustix::process::geteuid().as_raw();
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let is_context = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let Some(meta) = entry.metadata().ok().filter(|_| is_context) else { continue };
        let age = meta.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
        if meta.is_file() && meta.uid() == user && age.is_some_and(|age| age > KEPT) {
            // Another process may have been faster.
            drop(std::fs::remove_file(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_cut_and_named() {
        let mut parts = Parts::new();
        parts.add("First", "1234567890");
        parts.add("Empty", "  ");
        parts.add("Second", &"é".repeat(100));
        let all = parts.within(10_000);
        assert!(all.contains("## First") && !all.contains("Empty") && !all.contains("[cut"));
        let cut = parts.within(60);
        assert!(cut.contains("1234567890") && cut.ends_with("[cut to 60 bytes: Second]"), "{cut}");
    }

    #[test]
    fn values_are_not_searched_for_names() {
        let values = BTreeMap::from([("a", "{{b}}".to_owned()), ("b", "x".to_owned())]);
        assert_eq!(filled("1 {{a}} 2 {{ b }} {{c}} {{", &values), "1 {{b}} 2 x {{c}} {{");
    }

    #[test]
    fn contexts_are_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let path = write("text").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"text");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::remove_file(path).unwrap();
    }
}
