//! `windlass verify BUNDLE`: verifies a bundle with nothing but public keys.

use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _};
use std::path::{Path, PathBuf};

use serde_json::json;
use windlass_kernel::Code;
use windlass_seal::{
    ANCHOR_FORMAT, BundleError, BundleReport, BundleVerdict, Trust, verify_bundle,
};

use crate::commands::verify::count;
use crate::commands::{bundle_documents, keys};
use crate::failure::{CommandResult, Failure, exit_of, hint_of};
use crate::input::{self, unreadable};
use crate::output::{Output, Style, sanitize};
use crate::project::Project;

/// Verifies a bundle and lists every fault.
pub fn run(named: Option<&Path>, path: &Path, given: &[PathBuf], output: &Output) -> CommandResult {
    let project = match named {
        Some(_) => Some(Project::find(named)?),
        None => Project::find(None).ok(),
    };
    let trust = keys::trust(project.as_ref(), given)?;
    let mut source = BufReader::new(input::open(path)?);
    refuse_anchor(&mut source, path)?;
    let report = verify(&mut source, &trust)?;
    if output.json {
        print_json(path, &report, output)?;
    } else {
        print(&report, output);
    }
    Ok(report.code().map_or(0, exit_of))
}

/// Verifies a bundle, and compares its documents with its journal if nothing else is wrong with it.
pub fn verify(source: &mut BufReader<File>, trust: &Trust) -> Result<BundleReport, Failure> {
    let failed = |error: BundleError| Failure::of(error.code(), &error);
    let mut report = verify_bundle(source, trust).map_err(failed)?;
    // The documents of a bundle with faults prove nothing.
    if report.faults.is_empty()
        && let Some(run) = report.trace_id
    {
        report.faults = bundle_documents::compare(source, run).map_err(failed)?;
    }
    Ok(report)
}

/// Refuses an anchor with a clear message, so that nobody takes it for a corrupt bundle.
pub fn refuse_anchor(source: &mut BufReader<File>, path: &Path) -> Result<(), Failure> {
    let start = format!("{{\"format\":\"{ANCHOR_FORMAT}\"");
    let mut found = Vec::new();
    let limit = u64::try_from(start.len()).unwrap_or_default();
    let read = source.by_ref().take(limit).read_to_end(&mut found);
    read.and_then(|_| source.rewind()).map_err(|error| unreadable(path, &error))?;
    if found != start.as_bytes() {
        return Ok(());
    }
    let message = format!("`{}` is an anchor, not a bundle", path.display());
    Err(Failure::new(Code::RequestInvalid, message).hint("use `windlass verify --anchor FILE`"))
}

const fn label(verdict: BundleVerdict) -> (&'static str, Style) {
    match verdict {
        BundleVerdict::Intact => ("intact", Style::Good),
        BundleVerdict::Damaged => ("damaged", Style::Bad),
        BundleVerdict::Unchecked => ("not checked", Style::Warn),
    }
}

fn print_json(path: &Path, report: &BundleReport, output: &Output) -> Result<(), Failure> {
    let faults: Vec<String> = report.faults.iter().map(ToString::to_string).collect();
    output.value(&json!({
        "checkpoints": report.checkpoints, "commit": report.commit, "contents": report.blobs,
        "entries": report.entries, "error_code": report.code(), "faults": faults, "file": path,
        "outcome": report.outcome, "purged": report.purged,
        "result": label(report.verdict()).0.replace(' ', "_"), "run_id": report.run_id,
        "signer": report.signer, "trace_id": report.trace_id, "traces": report.traces,
        "trusted": report.trusted, "workspaces": report.workspaces,
    }))
}

fn print(report: &BundleReport, output: &Output) {
    for fault in &report.faults {
        let mark = output.paint("✗", Style::Bad);
        output.line(&format!("{mark} {}", sanitize(&fault.to_string())));
    }
    let (label, style) = label(report.verdict());
    let mut parts = vec![
        count(report.traces, "trace", "traces"),
        count(report.entries, "entry", "entries"),
        count(report.checkpoints, "checkpoint", "checkpoints"),
        count(report.blobs, "content", "contents"),
        count(report.workspaces, "workspace", "workspaces"),
    ];
    if report.purged > 0 {
        parts.push(format!("{} purged", count(report.purged, "artifact", "artifacts")));
    }
    let code = report.code().map(|code| format!(" [{code}]")).unwrap_or_default();
    let run = if report.run_id.is_empty() { "no run" } else { &report.run_id };
    output.line(&format!(
        "{}: {}, {}{code}",
        output.paint(label, style),
        sanitize(run),
        parts.join(", ")
    ));
    if let Some(signer) = report.signer {
        let trusted = if report.trusted { "trusted" } else { "not trusted" };
        output.line(&format!("  signer   {signer}, {trusted}"));
    }
    // The contents of a corrupt bundle are not trustworthy.
    if report.faults.is_empty() {
        output.line(&format!(
            "  outcome  {}",
            report.outcome.unwrap_or("none: the run had not ended")
        ));
        if let Some(commit) = &report.commit {
            output.line(&format!("  commit   {}", sanitize(commit)));
        }
    }
    if let Some(hint) = report.code().and_then(hint_of) {
        output.note(&format!("{} {hint}", output.paint_note("hint:", Style::Good)));
    }
}
