//! `windlass verify` on the journal.

use serde_json::json;
use windlass_kernel::recovery::Finding;
use windlass_kernel::{Code, Digest, TraceId};
use windlass_store::{Store, StoreError};

use crate::args::Verify;
use crate::commands::trace_id;
use crate::failure::{Done, exit_of};
use crate::output::{Ink, Output};
use crate::project::Project;

/// How many entries are read in one go.
const PAGE: usize = 4096;

/// Verifies one trace, or everything.
pub fn run(project: &Project, options: &Verify, output: &Output) -> Done {
    let store = project.store(&Project::config(&project.files()?)?)?;
    match &options.trace {
        Some(id) => one(&store, trace_id(id)?, output),
        None => all(&store, output),
    }
}

fn all(store: &dyn Store, output: &Output) -> Done {
    let bar = output.progress("verifying");
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
            "{}: {} traces, {} entries, {} broken{}",
            output.paint(word, ink),
            report.traces,
            report.entries,
            report.broken,
            match report.missing_artifacts {
                0 => String::new(),
                gone => format!(", {gone} artifacts purged"),
            }
        ));
    }
    Ok(if report.broken == 0 { 0 } else { exit_of(Code::StateChecksumMismatch) })
}

/// Verifies one trace in memory that does not grow.
fn one(store: &dyn Store, id: TraceId, output: &Output) -> Done {
    let state = store.load_state(id)?;
    let mut chain = windlass_kernel::verify::Chain::new();
    let mut after = 0;
    let mut broken: Option<windlass_kernel::ChainError> = None;
    loop {
        let page = match store.list_log_entries(id, after, PAGE) {
            Ok(page) => page,
            Err(StoreError::CorruptTrace { source, .. }) => {
                broken = Some(source);
                break;
            }
            Err(error) => return Err(error.into()),
        };
        for record in &page {
            after = record.entry.sequence_number;
            chain.push(&record.entry);
            let digest = record.body.as_deref().map(Digest::of);
            if broken.is_none()
                && chain.error().is_none()
                && digest.is_some_and(|digest| digest != record.entry.artifact_digest)
            {
                broken = Some(windlass_kernel::ChainError::Artifact {
                    sequence_number: after,
                    artifact: record.entry.artifact_type.as_str(),
                });
            }
        }
        if page.len() < PAGE {
            break;
        }
    }
    let finding = match (broken, chain.head().copied()) {
        (Some(error), head) => {
            let head = head.unwrap_or(windlass_kernel::Head::empty(id));
            Finding::new(&head, after, Some(&error))
        }
        (None, _) => chain.finish_against(&state.head),
    };
    if output.json {
        let mut value = serde_json::to_value(&finding).unwrap_or_default();
        if let Some(map) = value.as_object_mut() {
            map.insert("trace_id".to_owned(), json!(id));
        }
        output.value(&value)?;
    } else if finding.chain_valid {
        let word = output.paint("whole", Ink::Good);
        output.line(&format!("{word}: {id}, {} entries", finding.entry_count));
    } else {
        let word = output.paint("broken", Ink::Bad);
        let code = finding.error_code.map(Code::as_str).unwrap_or_default();
        let at = finding.divergence_point.unwrap_or_default();
        output.line(&format!("{word}: {id}, at entry {at} [{code}]"));
    }
    Ok(if finding.chain_valid { 0 } else { exit_of(Code::StateChecksumMismatch) })
}
