//! `windlass verify` on the journal.

use std::path::Path;

use serde_json::json;
use windlass_kernel::recovery::Finding;
use windlass_kernel::run::Run;
use windlass_kernel::{Artifact, Call, ChainError, Code, Digest, Head, TraceId, is_call_artifact};
use windlass_store::{Record, Store, StoreError};

use crate::args::Verify;
use crate::commands::{anchor, bundle_check, trace_id, verify_file};
use crate::failure::{Done, Failure, exit_of};
use crate::output::{Ink, Output};
use crate::project::Project;

/// What to do about an argument that is neither a trace nor a bundle.
const NEITHER: &str = "there is no file of that name either; `windlass trace list` prints the ids";
/// How many entries are read in one go.
const PAGE: usize = 4096;

/// Verifies what is named: a chain in a file, an anchor, a bundle, a trace, or else everything.
pub fn choose(named: Option<&Path>, options: &Verify, output: &Output) -> Done {
    if let Some(file) = &options.file {
        return verify_file::run(file, output);
    }
    if let Some(file) = &options.anchor {
        return anchor::check(&Project::find(named)?, file, &options.key, output);
    }
    // A trace's id is one even where a file has that name: `./ID` is the file.
    let path = options.what.as_deref().filter(|what| what.parse::<TraceId>().is_err());
    // Whoever gives a key means a file, there or not.
    let is_file = |path: &&Path| !options.key.is_empty() || path.is_file();
    if let Some(path) = path.map(Path::new).filter(is_file) {
        return bundle_check::run(named, path, &options.key, output);
    }
    if !options.key.is_empty() {
        let message = "`--key` is for a bundle or an anchor, and none is named";
        return Err(Failure::new(Code::RequestInvalid, message));
    }
    let project = Project::find(named)?;
    let store = project.store(&project.settings()?)?;
    match &options.what {
        Some(id) => one(&store, trace_id(id).map_err(|failure| failure.hint(NEITHER))?, output),
        None => all(&store, output),
    }
}

pub(super) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn all(store: &dyn Store, output: &Output) -> Done {
    let bar = output.progress("verifying", "entries");
    let report = windlass_runtime::verify(store, &mut |entries| bar.set_position(entries))?;
    bar.finish_and_clear();
    if output.json {
        let mut value = serde_json::to_value(&report).unwrap_or_default();
        if let Some(map) = value.as_object_mut() {
            map.insert("chain_valid".to_owned(), json!(report.broken == 0));
        }
        output.value(&value)?;
    } else {
        for problem in &report.problems {
            let code = problem.finding.error_code.unwrap_or(Code::StateChecksumMismatch);
            output.line(&format!(
                "{} {}  {} [{code}]",
                output.paint("broken", Ink::Bad),
                problem.trace_id,
                problem.message
            ));
        }
        let (word, ink) =
            if report.broken == 0 { ("whole", Ink::Good) } else { ("broken", Ink::Bad) };
        output.line(&format!(
            "{}: {}, {}, {} broken{}",
            output.paint(word, ink),
            count(report.traces, "trace", "traces"),
            count(report.entries, "entry", "entries"),
            report.broken,
            match report.missing_artifacts {
                0 => String::new(),
                gone => format!(", {} purged", count(gone, "artifact", "artifacts")),
            }
        ));
    }
    Ok(if report.broken == 0 { 0 } else { exit_of(Code::StateChecksumMismatch) })
}

/// Verifies one trace, in memory that does not grow, as strictly as among all.
fn one(store: &dyn Store, id: TraceId, output: &Output) -> Done {
    let state = store.load_state(id)?;
    let (call, run) = (Call::empty(id), Run::empty(id));
    let mut fold = Fold { call, run, entries: 0, bodies_missing: false };
    let error = match fold.read(store, id)? {
        None => fold.call.head.matches(&state.head).err(),
        broken => broken,
    };
    let error = match error {
        None => windlass_runtime::verify_key(store, &fold.call)?,
        broken => broken,
    };
    let (error, head) = match error {
        None => match broken_checkpoint(store, id)? {
            Some(error) => (Some(error), state.head),
            None => (None, fold.call.head),
        },
        error => (error, fold.call.head),
    };
    let finding = Finding::new(&head, fold.entries, error.as_ref());
    if output.json {
        let mut value = serde_json::to_value(&finding).unwrap_or_default();
        if let Some(map) = value.as_object_mut() {
            map.insert("trace_id".to_owned(), json!(id));
        }
        output.value(&value)?;
    } else if finding.chain_valid {
        let word = output.paint("whole", Ink::Good);
        let entries = count(finding.entry_count, "entry", "entries");
        output.line(&format!("{word}: {id}, {entries}"));
    } else {
        let word = output.paint("broken", Ink::Bad);
        let code = finding.error_code.map(Code::as_str).unwrap_or_default();
        let at = finding.divergence_point.unwrap_or_default();
        let message = error.map(|error| error.to_string()).unwrap_or_default();
        output.line(&format!("{word}: {id}, at entry {at}: {message} [{code}]"));
    }
    Ok(if finding.chain_valid { 0 } else { exit_of(Code::StateChecksumMismatch) })
}

/// What is wrong with the newest checkpoint of a trace, if anything.
fn broken_checkpoint(store: &dyn Store, id: TraceId) -> Result<Option<ChainError>, StoreError> {
    let checkpoint = match store.load_latest_replay_point(id) {
        Ok(Some(checkpoint)) => checkpoint,
        Ok(None) => return Ok(None),
        Err(StoreError::CorruptTrace { source, .. }) => return Ok(Some(source)),
        Err(error) => return Err(error),
    };
    let before = checkpoint.checkpoint_sequence_number.saturating_sub(1);
    let head = match store.list_log_entries(id, before, 1)?.into_iter().next() {
        Some(Record { entry, .. }) => Head {
            trace_id: id,
            sequence_number: entry.sequence_number,
            entry_digest: entry.entry_digest,
            state: Some(entry.to_state),
            tool_call_id: entry.tool_call_id,
        },
        None => Head::empty(id),
    };
    Ok(checkpoint.agrees_with(&head).err())
}

/// A trace as it is read.
struct Fold {
    call: Call,
    run: Run,
    entries: u64,
    bodies_missing: bool,
}

impl Fold {
    /// Reads all entries; returns the first thing that does not hold.
    fn read(&mut self, store: &dyn Store, id: TraceId) -> Result<Option<ChainError>, StoreError> {
        let mut buffer = Vec::new();
        let (mut after, mut limit) = (0, PAGE);
        let mut broken = None;
        loop {
            let page = match store.list_log_entries(id, after, limit) {
                Ok(page) => page,
                // An entry of the page cannot even be read: find out which.
                Err(StoreError::CorruptTrace { .. }) if limit > 1 => {
                    limit = 1;
                    continue;
                }
                Err(StoreError::CorruptTrace { source, .. }) => {
                    self.entries += 1;
                    return Ok(broken.or(Some(source)));
                }
                Err(error) => return Err(error),
            };
            for record in &page {
                after = record.entry.sequence_number;
                self.entries += 1;
                if broken.is_none() {
                    broken = self.admit(record, &mut buffer).err();
                }
            }
            if page.len() < limit {
                return Ok(broken);
            }
        }
    }

    fn admit(&mut self, record: &Record, buffer: &mut Vec<u8>) -> Result<(), ChainError> {
        let entry = &record.entry;
        let head = self.call.head.admit(entry, buffer)?;
        let mismatch = ChainError::Artifact {
            sequence_number: entry.sequence_number,
            artifact: entry.artifact_type.as_str(),
        };
        match &record.body {
            Some(body) if Digest::of(body) != entry.artifact_digest => return Err(mismatch),
            Some(body) if is_call_artifact(entry.artifact_type) && !self.bodies_missing => {
                let artifact = Artifact::read(entry.artifact_type, body).map_err(|_| mismatch)?;
                self.call.apply(entry, artifact, head)?;
            }
            Some(body) if !self.bodies_missing => {
                self.run.follow(entry, body, head)?;
                self.call.head = head;
            }
            Some(_) => self.call.head = head,
            // The chain holds without its artifacts; what follows cannot be linked to them.
            None => {
                self.bodies_missing = true;
                self.call.head = head;
            }
        }
        Ok(())
    }
}
