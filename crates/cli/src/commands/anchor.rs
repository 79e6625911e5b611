//! `windlass anchor` and `windlass verify --anchor`: signs the heads of all traces, and compares them.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;
use windlass_kernel::{Digest, Head, TraceId};
use windlass_runtime::{Clock as _, SystemClock};
use windlass_seal::{
    AnchorError, AnchorOutcome, AnchorReport, NewAnchor, StoredTrace, TraceChange, check_anchor,
    write_anchor,
};
use windlass_store::{Store, StoreError, TraceFilter};

use crate::args::Anchor;
use crate::commands::verify::count;
use crate::commands::{bundle, keys};
use crate::failure::{CommandResult, Failure, exit_of, hint_of};
use crate::input;
use crate::output::{Output, Style};
use crate::project::Project;

/// The page size for traces and entries.
const PAGE: usize = 4096;

/// Writes an anchor of all traces.
pub fn write(project: &Project, options: &Anchor, output: &Output) -> CommandResult {
    let file = &options.file;
    let replace = bundle::replace(file, options.force)?;
    let store = project.store(&project.settings()?)?;
    let keys = keys::open(project)?;
    let (signer, public) = keys::signer(&keys, output)?;
    let anchor = NewAnchor {
        keys: keys.all()?,
        rotations: keys.rotations()?,
        store: None,
        made_at: SystemClock.now(),
    };
    let bar = output.progress("anchoring", "traces");
    let heads = heads(&store).inspect(|_| bar.inc(1));
    let written = write_anchor(file, replace, &signer, &anchor, heads);
    bar.finish_and_clear();
    let written = written.map_err(failed)?;
    let (bytes, digest) = bundle::measure(file)?;
    let key_id = signer.public().id();
    if output.json {
        output.value(&json!({
            "bytes": bytes, "digest": digest, "file": file, "key_id": key_id,
            "made_at": anchor.made_at, "public_key_file": public, "traces": written.traces,
        }))?;
        return Ok(0);
    }
    let traces = count(written.traces, "trace", "traces");
    output.line(&format!("{}: {traces}", file.display()));
    output.line(&format!("{bytes} bytes, SHA-256 {digest}, signed by {key_id}"));
    Ok(0)
}

/// The heads of all traces, newest first, read page by page.
fn heads(
    store: &dyn Store,
) -> impl Iterator<Item = Result<Head, Box<dyn std::error::Error + Send + Sync>>> {
    let mut page = Vec::new().into_iter();
    let (mut before, mut ended) = (None, false);
    std::iter::from_fn(move || {
        loop {
            if let Some(head) = page.next() {
                return Some(Ok(head));
            }
            if ended {
                return None;
            }
            let filter = TraceFilter { before, ..TraceFilter::all(PAGE) };
            match store.list_traces(&filter) {
                Ok(found) => {
                    ended = found.len() < PAGE;
                    before = found.last().map(|state| state.head.trace_id);
                    let heads: Vec<Head> = found.into_iter().map(|state| state.head).collect();
                    page = heads.into_iter();
                }
                Err(error) => {
                    ended = true;
                    return Some(Err(error.into()));
                }
            }
        }
    })
}

fn failed(error: AnchorError) -> Failure {
    let code = error.code();
    let failure = Failure::of(code, &error);
    match error {
        AnchorError::Exists { .. } => failure.hint(bundle::FORCE_HINT),
        // The store's own error is more precise.
        AnchorError::Source(source) => match source.downcast::<StoreError>() {
            Ok(error) => Failure::from(*error),
            Err(_) => failure,
        },
        AnchorError::Invalid { .. }
        | AnchorError::Order { .. }
        | AnchorError::Unreadable(_)
        | AnchorError::Unwritable { .. } => failure,
    }
}

/// A changed trace, for `--json`.
#[derive(Serialize)]
struct ChangedTrace {
    change: &'static str,
    entries_had: Option<u64>,
    entries_has: Option<u64>,
    sequence_number: Option<u64>,
    trace_id: TraceId,
}

impl From<TraceChange> for ChangedTrace {
    fn from(changed: TraceChange) -> Self {
        let (change, entries_had, entries_has, sequence_number, trace_id) = match changed {
            TraceChange::Missing { trace_id } => ("missing", None, None, None, trace_id),
            TraceChange::Shortened { trace_id, had, has } => {
                ("shortened", Some(had), Some(has), None, trace_id)
            }
            TraceChange::Rewritten { trace_id, sequence_number } => {
                ("rewritten", None, None, Some(sequence_number), trace_id)
            }
        };
        Self { change, entries_had, entries_has, sequence_number, trace_id }
    }
}

/// Compares the journal with an anchor and lists every changed trace.
pub fn check(project: &Project, path: &Path, given: &[PathBuf], output: &Output) -> CommandResult {
    let trust = keys::trust(Some(project), given)?;
    let mut source = BufReader::new(input::open(path)?);
    let journal = project.store_to_verify(&project.settings()?, output)?;
    let store = journal.store();
    let bar = output.progress("comparing", "traces");
    let mut changed_traces = Vec::new();
    let report = check_anchor(
        &mut source,
        &trust,
        |trace_id, number| {
            bar.inc(1);
            Ok(find_entry(store, trace_id, number)?)
        },
        |changed| {
            if output.json {
                changed_traces.push(ChangedTrace::from(changed));
            } else {
                let mark = output.paint("✗", Style::Bad);
                bar.suspend(|| output.line(&format!("{mark} {changed}")));
            }
        },
    );
    bar.finish_and_clear();
    let report = report.map_err(failed)?;
    let code = report.code();
    if output.json {
        let (result, ..) = label(report.outcome);
        output.value(&json!({
            "changed": changed_traces, "error_code": code, "file": path, "grown": report.grown,
            "intact": report.intact, "made_at": report.made_at, "missing": report.missing,
            "result": result.replace(' ', "_"), "rewritten": report.rewritten,
            "shortened": report.shortened, "signer": report.signer, "traces": report.traces,
        }))?;
    } else {
        print(&report, output);
    }
    Ok(code.map_or(0, exit_of))
}

/// The journal's entry at the position that an anchor recorded as a trace's head.
fn find_entry(
    store: &dyn Store,
    trace_id: TraceId,
    number: u64,
) -> Result<StoredTrace, StoreError> {
    let before = number.saturating_sub(1);
    // An unreadable entry is not the anchored one: report a digest that matches nothing.
    let unreadable = StoredTrace::Entry { digest: Digest::of(&[]), entries: number };
    // The second entry shows whether the trace has grown.
    let mut page = match store.list_log_entries(trace_id, before, 2) {
        Err(StoreError::CorruptTrace { .. }) => match store.list_log_entries(trace_id, before, 1) {
            Err(StoreError::CorruptTrace { .. }) => return Ok(unreadable),
            // Only the next entry is corrupt, which the anchor does not cover.
            page => page?,
        },
        Err(StoreError::NotFound { .. }) => return Ok(StoredTrace::Missing),
        page => page?,
    }
    .into_iter();
    if let Some(record) = page.next() {
        let grown = page.next().map(|record| record.entry.sequence_number);
        return Ok(StoredTrace::entry(&record.entry, grown.unwrap_or(number)));
    }
    match store.load_state(trace_id) {
        Ok(_) => Ok(StoredTrace::Shorter { entries: entries_of(store, trace_id)? }),
        Err(StoreError::NotFound { .. }) => Ok(StoredTrace::Missing),
        Err(StoreError::CorruptTrace { .. }) => Ok(unreadable),
        Err(error) => Err(error),
    }
}

/// Counts the entries that a trace really has, whatever its head says.
fn entries_of(store: &dyn Store, trace_id: TraceId) -> Result<u64, StoreError> {
    let (mut after, mut entries) = (0, 0);
    loop {
        let page = match store.list_log_entries(trace_id, after, PAGE) {
            // The entries after this one cannot be read.
            Err(StoreError::CorruptTrace { .. }) => return Ok(entries),
            page => page?,
        };
        entries += u64::try_from(page.len()).unwrap_or(u64::MAX);
        match page.last() {
            Some(last) if page.len() == PAGE => after = last.entry.sequence_number,
            Some(_) | None => return Ok(entries),
        }
    }
}

const fn label(outcome: AnchorOutcome) -> (&'static str, Style) {
    match outcome {
        AnchorOutcome::Intact => ("holds", Style::Good),
        AnchorOutcome::Changed => ("changed", Style::Bad),
        AnchorOutcome::BadSignature => ("damaged", Style::Bad),
        AnchorOutcome::UnknownKey => ("not checked", Style::Warn),
    }
}

fn print(report: &AnchorReport, output: &Output) {
    let (result, style) = label(report.outcome);
    let label = if report.outcome == AnchorOutcome::Intact { "intact" } else { result };
    let signer = report.signer;
    let text = match report.outcome {
        AnchorOutcome::Intact | AnchorOutcome::Changed => format!(
            "{}, anchored {}: {} unchanged, {} grown, {} missing, {} shortened, {} rewritten",
            count(report.traces, "trace", "traces"),
            report.made_at,
            report.intact,
            report.grown,
            report.missing,
            report.shortened,
            report.rewritten,
        ),
        AnchorOutcome::BadSignature => {
            format!("the signature does not match the key `{signer}` that the anchor names")
        }
        AnchorOutcome::UnknownKey => {
            format!("the anchor is signed by `{signer}`, which is not a trusted key")
        }
    };
    let code = report.code().map(|code| format!(" [{code}]")).unwrap_or_default();
    output.line(&format!("{}: {text}{code}", output.paint(label, style)));
    if let Some(hint) = report.code().and_then(hint_of) {
        output.note(&format!("{} {hint}", output.paint_note("hint:", Style::Good)));
    }
}
