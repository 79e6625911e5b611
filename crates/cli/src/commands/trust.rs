//! `windlass trust`: shows what a project's configuration would start and open, and records the user's trust.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_kernel::{Code, Digest};

use crate::args::Trust;
use crate::commands::confirm;
use crate::failure::{CommandResult, Failure};
use crate::output::{Output, Style, sanitize};
use crate::part::Part;
use crate::powers::{Power, powers};
use crate::project::Project;
use crate::trust::{TrustRecord, TrustStatus, revoke, status};

/// Shows the configuration and records trust in it.
pub fn run(project: &Project, options: &Trust, output: &Output) -> CommandResult {
    let state = project.state()?;
    if options.revoke {
        let revoked = revoke(state)?;
        if output.json {
            output.value(&json!({ "trusted": false, "revoked": revoked }))?;
        } else {
            output.line(if revoked { "no longer trusted" } else { "it was not trusted" });
        }
        return Ok(0);
    }
    // One reading: what is shown is what is trusted.
    let files = project.files()?;
    let record = TrustRecord::of(&files)?;
    let found = status(state, Part::Whole, &files)?;
    if let Some(digest) = &options.yes {
        require_digest(digest, record.digest)?;
    }
    let powers = powers(&files)?;
    if output.json {
        let trusted = found == TrustStatus::Trusted || options.yes.is_some();
        if options.yes.is_some() {
            record.write(state)?;
        }
        output.value(&describe(&record, &found, &powers, trusted))?;
        if trusted || options.show {
            return Ok(0);
        }
        return Err(Failure::new(Code::RequestInvalid, "there is nobody to ask with `--json`")
            .hint("`windlass trust --yes DIGEST` trusts the configuration that was shown"));
    }
    if options.yes.is_none() {
        show(&record, &found, &powers, output);
    }
    if options.show {
        return Ok(0);
    }
    if found == TrustStatus::Trusted {
        output.line("trusted");
        return Ok(0);
    }
    let way = format!("--yes {}", record.digest);
    if options.yes.is_none() && !confirm("Trust this configuration?", &way, output)? {
        output.note("not trusted");
        return Ok(1);
    }
    record.write(state)?;
    output.line(&format!("trusted {}", record.digest));
    Ok(0)
}

/// Fails unless the digest that the user saw is that of the present files.
fn require_digest(given: &str, present: Digest) -> Result<(), Failure> {
    let given: Digest = given
        .parse()
        .map_err(|error| Failure::new(Code::RequestInvalid, format!("`--yes`: {error}")))?;
    if given == present {
        return Ok(());
    }
    let message = format!("the configuration has the digest {present}, not the given one");
    Err(Failure::new(Code::ProjectUntrusted, message)
        .hint("it has changed since it was shown; look again with `windlass trust --show`"))
}

fn show(record: &TrustRecord, found: &TrustStatus, powers: &[Power], output: &Output) {
    output.line(&output.paint("This configuration can start and open:", Style::Bold));
    if powers.is_empty() {
        output.line("  nothing");
    }
    let mut groups: BTreeMap<_, Vec<&Power>> = BTreeMap::new();
    for power in powers {
        groups.entry(power.kind).or_default().push(power);
    }
    for (kind, powers) in groups {
        output.line(&format!("  {}", output.paint(kind.title(), kind.style())));
        for power in powers {
            output.line(&format!("    {}  {}", sanitize(&power.source), sanitize(&power.text)));
        }
    }
    match found {
        TrustStatus::Trusted => output.line("You have trusted exactly these files."),
        TrustStatus::Never => output.line("You have not trusted it yet."),
        TrustStatus::Damaged(why) => {
            output.line(&format!("The record of your trust is damaged: {}", sanitize(why)));
        }
        TrustStatus::Changed(changes) => {
            output.line("Changed since you trusted it:");
            for change in changes {
                let word = change.kind.as_str();
                output.line(&format!("  {word:8} {}", sanitize(&change.path)));
            }
        }
    }
    output.line(&format!("{} files, digest {}", record.files.len(), record.digest));
}

fn describe(record: &TrustRecord, found: &TrustStatus, powers: &[Power], trusted: bool) -> Value {
    let changes = match found {
        TrustStatus::Changed(changes) => changes.as_slice(),
        TrustStatus::Trusted | TrustStatus::Never | TrustStatus::Damaged(_) => &[],
    };
    let changes: Vec<Value> = changes
        .iter()
        .map(|change| json!({ "path": change.path, "change": change.kind.as_str() }))
        .collect();
    let powers: Vec<Value> = powers
        .iter()
        .map(|power| json!({ "kind": power.kind.as_str(), "source": power.source, "text": power.text }))
        .collect();
    json!({
        "digest": record.digest,
        "files": record.files,
        "trusted": trusted,
        "changes": changes,
        "powers": powers,
    })
}
