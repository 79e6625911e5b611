//! `windlass verify` on the journal.

use std::fmt::Display;
use std::path::Path;

use serde_json::json;
use windlass_journal::{Signature, TraceReport, verify_trace};
use windlass_kernel::{Code, TraceId, is_same_name};
use windlass_store::Store;

use crate::args::Verify;
use crate::commands::{anchor, bundle_check, trace_id, verify_file};
use crate::failure::{CommandResult, Failure, exit_of};
use crate::output::{Output, Style, sanitize};
use crate::people::AccountPeople;
use crate::project::Project;

/// The hint for an argument that is neither a trace id nor a file.
const NO_SUCH_FILE_HINT: &str = "there is no such file either; `windlass trace list` lists the ids";

/// Verifies what the options select: a chain in a file, an anchor, a bundle, a trace, or the journal.
pub fn choose(named: Option<&Path>, options: &Verify, output: &Output) -> CommandResult {
    if let Some(file) = &options.file {
        return verify_file::run(file, output);
    }
    if let Some(file) = &options.anchor {
        return anchor::check(&Project::find(named)?, file, &options.key, output);
    }
    // A trace id takes precedence over a file of that name; `./ID` selects the file.
    let path = options.what.as_deref().filter(|what| what.parse::<TraceId>().is_err());
    // With `--key` the argument is a file, even if it does not exist.
    let is_file = |path: &&Path| !options.key.is_empty() || path.is_file();
    if let Some(path) = path.map(Path::new).filter(is_file) {
        return bundle_check::run(named, path, &options.key, output);
    }
    if !options.key.is_empty() {
        let message = "`--key` needs a bundle or an anchor";
        return Err(Failure::new(Code::RequestInvalid, message));
    }
    let project = Project::find(named)?;
    let journal = project.store_to_verify(&project.settings()?, output)?;
    let store = journal.store();
    match &options.what {
        Some(id) => {
            one(store, trace_id(id).map_err(|failure| failure.hint(NO_SUCH_FILE_HINT))?, output)
        }
        None => all(&project, store, output),
    }
}

/// A number with the singular or plural of what it counts.
pub(super) fn count<N: Display + PartialEq + From<u8>>(number: N, one: &str, many: &str) -> String {
    let noun = if number == N::from(1) { one } else { many };
    format!("{number} {noun}")
}

fn all(project: &Project, store: &dyn Store, output: &Output) -> CommandResult {
    let bar = output.progress("verifying", "entries");
    let report = windlass_journal::verify_store(store, &mut |entries| bar.set_position(entries))?;
    bar.finish_and_clear();
    if !report.problems.is_empty() {
        let broken = report.problems.iter().map(|problem| problem.trace_id);
        crate::notify::start(&project.root, &project.settings()?.notify, broken);
    }
    let both = report.signatures.iter().flat_map(|(first, last)| [first, last]);
    let unknown = unknown_signers(both)?;
    if output.json {
        let mut value = serde_json::to_value(&report).unwrap_or_default();
        if let Some(map) = value.as_object_mut() {
            map.insert("chain_valid".to_owned(), json!(report.is_intact()));
            map.insert("unknown_signers".to_owned(), json!(unknown));
        }
        output.value(&value)?;
    } else {
        for problem in &report.problems {
            let code = problem.finding.error_code.unwrap_or(Code::StateChecksumMismatch);
            output.line(&format!(
                "{} {}  {} [{code}]",
                output.paint("corrupt", Style::Bad),
                problem.trace_id,
                problem.message
            ));
        }
        for text in &report.damage {
            let word = output.paint("damaged", Style::Bad);
            output.line(&format!("{word} {} [{}]", sanitize(text), Code::StoreCorrupt));
        }
        print_unknown(&unknown, output);
        let (word, style) =
            if report.is_intact() { ("intact", Style::Good) } else { ("corrupt", Style::Bad) };
        output.line(&format!(
            "{}: {}, {}, {} corrupt{}",
            output.paint(word, style),
            count(report.traces, "trace", "traces"),
            count(report.entries, "entry", "entries"),
            report.broken,
            match report.missing_artifacts {
                0 => String::new(),
                gone => format!(", {} purged", count(gone, "artifact", "artifacts")),
            }
        ));
    }
    Ok(exit(report.is_intact(), &unknown))
}

/// The exit code for a journal that is intact or not, and signed by people who are known or not.
fn exit(is_intact: bool, unknown: &[String]) -> u8 {
    match (is_intact, unknown) {
        (false, _) => exit_of(Code::StateChecksumMismatch),
        (true, []) => 0,
        (true, _) => exit_of(Code::PersonUnknown),
    }
}

/// Decisions that are signed with keys which the list of people does not have, or had revoked by then.
fn unknown_signers<'a>(
    signatures: impl Iterator<Item = &'a Signature>,
) -> Result<Vec<String>, Failure> {
    let mut unknown = Vec::new();
    let people = AccountPeople::open()?.store().all()?;
    for signature in signatures {
        let person = people.iter().find(|person| person.key == signature.key);
        let what = match person {
            Some(person) if !is_same_name(&person.name, &signature.name) => {
                format!("with the key of {}", person.name)
            }
            Some(person) if person.revoked_at.is_some_and(|at| at < signature.at) => {
                "with a key that was revoked before".to_owned()
            }
            Some(_) => continue,
            None => "with a key that the list of people does not have".to_owned(),
        };
        let Signature { at, key, name, trace_id } = signature;
        let text = format!("{trace_id}: {name} signed at {at} {what} ({})", key.id());
        if !unknown.contains(&text) {
            unknown.push(text);
        }
    }
    Ok(unknown)
}

fn print_unknown(unknown: &[String], output: &Output) {
    for text in unknown {
        let word = output.paint("unknown", Style::Bad);
        output.line(&format!("{word} {} [{}]", sanitize(text), Code::PersonUnknown));
    }
}

/// Verifies one trace.
fn one(store: &dyn Store, id: TraceId, output: &Output) -> CommandResult {
    let TraceReport { finding, error, signatures } = verify_trace(store, id)?;
    let unknown = unknown_signers(signatures.iter())?;
    if output.json {
        let mut value = serde_json::to_value(&finding).unwrap_or_default();
        if let Some(map) = value.as_object_mut() {
            map.insert("trace_id".to_owned(), json!(id));
            map.insert("unknown_signers".to_owned(), json!(unknown));
        }
        output.value(&value)?;
    } else if finding.chain_valid {
        let word = output.paint("intact", Style::Good);
        let entries = count(finding.entry_count, "entry", "entries");
        output.line(&format!("{word}: {id}, {entries}"));
    } else {
        let word = output.paint("corrupt", Style::Bad);
        let code = finding.error_code.map(Code::as_str).unwrap_or_default();
        let at = finding.divergence_point.unwrap_or_default();
        let message = error.map(|error| error.to_string()).unwrap_or_default();
        output.line(&format!("{word}: {id}, at entry {at}: {message} [{code}]"));
    }
    if !output.json {
        print_unknown(&unknown, output);
    }
    Ok(exit(finding.chain_valid, &unknown))
}
