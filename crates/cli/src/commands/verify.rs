//! `windlass verify` on the journal.

use std::path::Path;

use serde_json::json;
use windlass_journal::{TraceReport, verify_trace};
use windlass_kernel::{Code, TraceId};
use windlass_store::Store;

use crate::args::Verify;
use crate::commands::{anchor, bundle_check, trace_id, verify_file};
use crate::failure::{Done, Failure, exit_of};
use crate::output::{Ink, Output};
use crate::project::Project;

/// What to do about an argument that is neither a trace nor a bundle.
const NEITHER: &str = "there is no file of that name either; `windlass trace list` prints the ids";

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
    let report = windlass_journal::verify_store(store, &mut |entries| bar.set_position(entries))?;
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

/// Verifies one trace.
fn one(store: &dyn Store, id: TraceId, output: &Output) -> Done {
    let TraceReport { finding, error } = verify_trace(store, id)?;
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
