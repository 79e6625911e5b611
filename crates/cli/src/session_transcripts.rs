//! The clients' own records of sessions in a project, compared with the journal.

mod opencode;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use windlass_hooks::{
    Client, ProjectSign, TRANSCRIPT_BYTES_MAX, Transcript, read_transcript, transcript_places,
};
use windlass_journal::{JournalError, Runs};
use windlass_kernel::TraceId;
use windlass_runtime::{PolicySupervisor, Supervisor as _};
use windlass_sessions::{Reconciler, SessionHistory, SessionNote, Unguarded};

use crate::client_file::folder_of;
use crate::installed;
use crate::session_surroundings::sessions_in;
use opencode::Wanted;

/// The most transcripts of a client that are read, newest first.
const FILES_MAX: usize = 500;
/// The most folders and files that a pattern is tried on.
const ENTRIES_MAX: usize = 50_000;

/// What compares transcripts of one folder with the journal.
pub struct TranscriptCheck<'a> {
    /// The policy, which knows the secrets.
    pub supervisor: &'a PolicySupervisor,
    /// The folder that is worked in.
    pub root: &'a str,
    /// The state folder of the project.
    pub state: &'a Path,
}

impl TranscriptCheck<'_> {
    /// The uses of one transcript that the journal does not permit. Those that the session's own run does not have are
    /// looked for in all sessions: a client may have copied them from another one.
    pub fn unguarded(
        &self,
        client: Client,
        found: &FoundTranscript,
        histories: &Histories<'_>,
    ) -> Result<Vec<Unguarded>, JournalError> {
        let redact = |value: &mut serde_json::Value| self.supervisor.redact(value);
        // This program may have been moved since the hooks were installed.
        let own =
            std::env::current_exe().ok().and_then(|path| path.into_os_string().into_string().ok());
        let mut programs = installed::programs(self.state, client);
        programs.extend(own);
        let root = self.root;
        let reconciler = Reconciler { client, root, programs: &programs, redact: &redact };
        let compare = |history: &SessionHistory| {
            reconciler.unguarded(&found.session, &found.transcript, history)
        };
        let own = match histories.run {
            Some(run) => compare(&SessionHistory::read(histories.runs.store(), run)?),
            None => compare(&SessionHistory::default()),
        };
        if own.is_empty() { Ok(own) } else { Ok(compare(histories.all()?)) }
    }
}

/// Where calls are looked for.
pub struct Histories<'a> {
    runs: &'a Runs,
    /// The run of the session, if it is known.
    run: Option<TraceId>,
    /// All sessions, once they were read.
    all: OnceCell<SessionHistory>,
}

impl<'a> Histories<'a> {
    /// Looks in the run of a session first, if it is known, then in all.
    pub const fn new(runs: &'a Runs, run: Option<TraceId>) -> Self {
        Self { runs, run, all: OnceCell::new() }
    }

    /// The uses without asking that are on record, of all sessions.
    pub fn noted(&self) -> Result<BTreeSet<Unguarded>, JournalError> {
        let notes = self.all()?.notes.iter().filter_map(|(_, note)| match note {
            SessionNote::Unguarded(one) => Some(one.clone()),
            SessionNote::Core(_)
            | SessionNote::Event { .. }
            | SessionNote::Prompt { .. }
            | SessionNote::LetThrough { .. }
            | SessionNote::PolicyChanged { .. }
            | SessionNote::Rewound { .. } => None,
        });
        Ok(notes.collect())
    }

    fn all(&self) -> Result<&SessionHistory, JournalError> {
        if let Some(all) = self.all.get() {
            return Ok(all);
        }
        let all = SessionHistory::read_all(self.runs.store(), &sessions_in(self.runs)?)?;
        Ok(self.all.get_or_init(|| all))
    }
}

/// A transcript of a session.
pub struct FoundTranscript {
    /// The client's id of the session.
    pub session: String,
    /// What it shows.
    pub transcript: Transcript,
}

/// The transcripts that were found.
#[derive(Default)]
pub struct Search {
    /// By session.
    pub found: BTreeMap<String, FoundTranscript>,
    /// Whether there is something that could not be read, or was too much.
    pub is_incomplete: bool,
}

impl Search {
    /// Adds what belongs to a session.
    fn add(&mut self, session: &str, transcript: Transcript) {
        let all = self.found.entry(session.to_owned()).or_insert_with(|| FoundTranscript {
            session: session.to_owned(),
            transcript: Transcript::default(),
        });
        let all = &mut all.transcript;
        all.cwd = all.cwd.take().or(transcript.cwd);
        all.is_incomplete |= transcript.is_incomplete;
        all.uses.extend(transcript.uses);
        all.tokens = all.tokens.plus(transcript.tokens);
    }
}

/// Reads one transcript; nothing if it cannot be read.
pub fn read(client: Client, path: &Path, session: &str) -> Option<FoundTranscript> {
    let transcript = read_transcript(client, &tail(path)?)?;
    Some(FoundTranscript { session: session.to_owned(), transcript })
}

/// What OpenCode's database has of a session since a time; the client names no file in its events.
pub fn find_in_database(session: &str, since: SystemTime) -> Search {
    opencode::find(Wanted::Session(session), since)
}

/// The transcripts of a client's sessions in a folder that were written to since a time. Those of subagents belong to
/// the session that started them.
pub fn find(client: Client, root: &Path, since: SystemTime) -> Search {
    match client {
        Client::Claude | Client::Codex | Client::Gemini => find_files(client, root, since),
        Client::OpenCode => opencode::find(Wanted::In(root), since),
    }
}

fn find_files(client: Client, root: &Path, since: SystemTime) -> Search {
    let mut search = Search::default();
    let Some(root_text) = root.to_str() else { return search };
    let mut files: Vec<(SystemTime, PathBuf, Option<String>)> = Vec::new();
    for place in transcript_places(client, root_text).unwrap_or_default() {
        let Ok(folder) = folder_of(place.root, root) else { continue };
        let pattern = format!("{}/{}", place.folder, place.file);
        for (path, stars) in matching(&folder, &pattern) {
            if let ProjectSign::File(name) = place.project
                && !names_project(&folder, &place.folder, &stars, name, root_text)
            {
                continue;
            }
            let written = path.metadata().and_then(|meta| meta.modified());
            let Some(written) = written.ok().filter(|written| *written >= since) else { continue };
            // The last `*` but one is the session; the last is in the name of the file.
            let owner = stars.len().checked_sub(2).and_then(|at| stars.get(at)).cloned();
            files.push((written, path, owner.filter(|_| place.subagents)));
        }
    }
    files.sort_by_key(|(written, path, _)| (std::cmp::Reverse(*written), path.clone()));
    search.is_incomplete = files.len() > FILES_MAX;
    for (_, path, owner) in files.into_iter().take(FILES_MAX) {
        let Some(transcript) = tail(&path).and_then(|bytes| read_transcript(client, &bytes)) else {
            continue;
        };
        let is_here = transcript.cwd.as_ref().is_none_or(|cwd| Path::new(cwd).starts_with(root));
        let stem = || path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let session = owner.or_else(|| transcript.session.clone()).or_else(stem);
        let (true, Some(session)) = (is_here, session) else { continue };
        search.add(&session, transcript);
    }
    search
}

/// The end of a file, as much as is read of it.
fn tail(path: &Path) -> Option<Vec<u8>> {
    // To open a pipe would wait for somebody who writes.
    let meta = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let mut file = File::open(path).ok()?;
    let max = u64::try_from(TRANSCRIPT_BYTES_MAX).unwrap_or(u64::MAX);
    file.seek(SeekFrom::Start(meta.len().saturating_sub(max))).ok()?;
    let mut bytes = Vec::new();
    file.take(max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Whether the file that names a project names this one.
fn names_project(folder: &Path, pattern: &str, stars: &[String], name: &str, root: &str) -> bool {
    let (Some(first), Some(star)) = (stars.first(), pattern.find('*')) else { return false };
    let before = pattern.get(..star).unwrap_or_default();
    let text = std::fs::read_to_string(folder.join(before).join(first).join(name));
    text.is_ok_and(|text| text.trim() == root)
}

/// The files below a folder that match a pattern, and what its stars stand for.
fn matching(folder: &Path, pattern: &str) -> Vec<(PathBuf, Vec<String>)> {
    let mut found = vec![(folder.to_owned(), Vec::new())];
    let mut entries = 0;
    for part in pattern.split('/') {
        let mut next = Vec::new();
        for (folder, stars) in found {
            if !part.contains('*') {
                next.push((folder.join(part), stars));
                continue;
            }
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                entries += 1;
                if entries > ENTRIES_MAX {
                    break;
                }
                let name = entry.file_name();
                if let Some(star) = name.to_str().and_then(|name| star_of(part, name)) {
                    let stars = stars.iter().cloned().chain([star]).collect();
                    next.push((entry.path(), stars));
                }
            }
        }
        found = next;
    }
    found
}

/// What the star of a pattern stands for in a name. In a pattern with two, the first is as short as possible.
fn star_of(pattern: &str, name: &str) -> Option<String> {
    let (before, after) = pattern.split_once('*')?;
    let rest = name.strip_prefix(before)?;
    match after.split_once('*') {
        None => rest.strip_suffix(after).map(str::to_owned),
        Some((middle, end)) => {
            let at = rest.find(middle)?;
            let left = rest.get(at.saturating_add(middle.len())..)?;
            left.ends_with(end).then(|| rest.get(..at).unwrap_or_default().to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_parts_of_names() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["p/-srv-a/s1.jsonl", "p/-srv-a/s1/subagents/agent-x.jsonl", "p/-srv/s2.jsonl"]
        {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let found = |pattern: &str| {
            let mut stars: Vec<_> =
                matching(folder.path(), pattern).into_iter().map(|(_, stars)| stars).collect();
            stars.sort();
            stars
        };
        assert_eq!(found("p/-srv-a*/*.jsonl"), [["", "s1"]]);
        assert_eq!(found("p/-srv*/*.jsonl"), [["", "s2"], ["-a", "s1"]]);
        assert_eq!(found("p/-srv*/*/subagents/agent-*.jsonl"), [["-a", "s1", "x"]]);
        assert_eq!(found("q/*.jsonl").len(), 0);
        assert_eq!(star_of("session-*.json*", "session-a.jsonl").as_deref(), Some("a"));
        assert_eq!(star_of("session-*.json*", "session-a.txt"), None);
    }
}
