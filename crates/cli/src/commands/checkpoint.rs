//! `windlass checkpoint`: lists, compares, restores and purges a run's checkpoints.

use serde_json::{Value, json};
use windlass_engine::{PurgeReport, Retention, RollbackPlan, RollbackRequest};
use windlass_kernel::Code;
use windlass_kernel::run::CheckpointKind;
use windlass_views::checkpoints::{CheckpointDiff, CheckpointSummary};
use windlass_workspace::{ChangeKind, PathChange, TextDiff};

use crate::args::{CheckpointCommand, CheckpointPurge, CheckpointRollback};
use crate::commands::run::{open, open_to_look, open_to_read, report};
use crate::commands::verify::count;
use crate::failure::{CommandResult, Failure};
use crate::output::{Output, Style, sanitize};
use crate::project::Project;
use crate::run_settings::warn_of_nested;
use crate::setup::actor_name;

/// The maximum size of a printed diff.
const DIFF_BYTES_MAX: usize = 4 << 20;
/// The maximum number of listed files.
const NAMED_MAX: usize = 200;

/// Runs a subcommand of `checkpoint`.
pub fn run(project: &Project, command: &CheckpointCommand, output: &Output) -> CommandResult {
    match command {
        CheckpointCommand::List { run } => list(project, run, output),
        CheckpointCommand::Show { checkpoint } => show(project, checkpoint, output),
        CheckpointCommand::Diff(options) => {
            diff(project, &options.from, &options.to, options.names, output)
        }
        CheckpointCommand::Rollback(options) => rollback(project, options, output),
        CheckpointCommand::Purge(options) => purge(project, options, output),
        CheckpointCommand::Check => check(project, output),
    }
}

fn list(project: &Project, name: &str, output: &Output) -> CommandResult {
    let setup = open_to_look(project, output)?;
    let trace_id = setup.engine.find(name)?;
    let summaries = setup.checkpoints().list(trace_id)?;
    let stored = setup.engine.has_snapshots(&setup.engine.read(trace_id)?)?;
    let purged = |one: &CheckpointSummary| stored.get(&one.id) == Some(&false);
    if output.json {
        let mut values = Vec::new();
        for one in &summaries {
            let mut value = serde_json::to_value(one).unwrap_or_default();
            if let Some(object) = value.as_object_mut() {
                object.insert("purged".to_owned(), json!(purged(one)));
            }
            values.push(value);
        }
        output.value(&values)?;
        return Ok(0);
    }
    if summaries.is_empty() {
        output.line("no checkpoints");
        return Ok(0);
    }
    let rows: Vec<_> = summaries
        .iter()
        .map(|one| {
            let (state, style) = match (purged(one), one.archived, one.passed) {
                (true, _, _) => ("purged", Style::Faint),
                (_, true, _) => ("archived", Style::Faint),
                (_, _, Some(false)) => (one.kind.as_str(), Style::Bad),
                _ => (one.kind.as_str(), style_of(one.kind)),
            };
            vec![
                (sanitize(&one.name), None),
                (state.to_owned(), Some(style)),
                (one.created_at.to_string(), Some(Style::Faint)),
                (one.artifact_count.to_string(), None),
                (one.id.to_string(), Some(Style::Faint)),
            ]
        })
        .collect();
    output.table(&["CHECKPOINT", "STATE", "CREATED", "FILES", "ID"], &rows);
    Ok(0)
}

const fn style_of(kind: CheckpointKind) -> Style {
    match kind {
        CheckpointKind::Started => Style::Faint,
        CheckpointKind::Succeeded | CheckpointKind::Approved => Style::Good,
        CheckpointKind::Failed => Style::Bad,
        CheckpointKind::Rollback => Style::Warn,
    }
}

fn show(project: &Project, named: &str, output: &Output) -> CommandResult {
    let setup = open_to_look(project, output)?;
    let (trace_id, id) = setup.checkpoints().find(named)?;
    let one = setup.checkpoints().load(trace_id, id)?;
    let stored = setup.engine.has_snapshots(&setup.engine.read(trace_id)?)?;
    let purged = stored.get(&id) == Some(&false);
    if output.json {
        let mut value = serde_json::to_value(&one).unwrap_or_default();
        if let Some(object) = value.as_object_mut() {
            object.insert("purged".to_owned(), json!(purged));
        }
        output.value(&value)?;
        return Ok(0);
    }
    let state = &one.orchestrator_state;
    let title = format!("{}/{}", state.run_id, one.name());
    output.line(&output.paint(&sanitize(&title), Style::Bold));
    let kind = one.metadata.get("kind").and_then(Value::as_str).unwrap_or_default();
    output.line(&format!("  id       {}", one.id));
    output.line(&format!("  kind     {kind}"));
    output.line(&format!("  created  {}", one.created_at));
    if let Some(parent) = one.parent_checkpoint_id {
        output.line(&format!("  after    {parent}"));
    }
    output.line(&format!("  took     {} ms", one.duration_ms));
    output.line(&format!("  complete {}", sanitize(&state.completed_phases.join(", "))));
    for (name, agent) in &one.agent_states {
        output.line(&format!(
            "  agent    {}: {}, {} tokens in, {} out, {}",
            sanitize(name),
            agent.status.as_str(),
            agent.token_usage.input,
            agent.token_usage.output,
            count(agent.tool_invocations.len(), "call", "calls")
        ));
    }
    for (path, artifact) in &one.artifacts {
        output.line(&format!(
            "  file     {} ({} bytes, {})",
            sanitize(path),
            artifact.size_bytes,
            artifact.hash
        ));
    }
    let governance = &one.governance_results;
    output.line(&format!("  rules    {}", governance.status.as_str()));
    for gate in &governance.quality_gates {
        let message = sanitize(&gate.message);
        let status = gate.status.as_str();
        output.line(&format!("  gate     {}: {status}; {message}", sanitize(&gate.gate_id)));
    }
    for check in &governance.compliance_checks {
        let violations = sanitize(&check.violations.join("; "));
        let name = sanitize(&check.compliance_type);
        output
            .line(format!("  check    {name}: {} {violations}", check.status.as_str()).trim_end());
    }
    let workspace = one.metadata.get("workspace").cloned().unwrap_or_default();
    if let Some(tree) = workspace.get("tree").and_then(Value::as_str) {
        output.line(&format!("  tree     {tree}"));
    }
    if purged {
        output.line(&output.paint("\npurged: its files are no longer stored", Style::Faint));
    } else {
        output.line(&format!("\nroll back: windlass checkpoint rollback {title} --reason TEXT"));
    }
    Ok(0)
}

fn diff(project: &Project, from: &str, to: &str, names: bool, output: &Output) -> CommandResult {
    let setup = open_to_look(project, output)?;
    let (from, to) = (setup.checkpoints().find(from)?, setup.checkpoints().find(to)?);
    for (trace_id, id) in [from, to] {
        setup.engine.require_stored(&setup.engine.read(trace_id)?, id)?;
    }
    let found = setup.checkpoints().compare(setup.engine.snapshots()?, from, to)?;
    let text = match (&found.trees, names) {
        (Some((from, to)), false) => setup.engine.text_diff(from, to, DIFF_BYTES_MAX)?,
        _ => TextDiff { bytes: Vec::new(), truncated: false },
    };
    if output.json {
        let mut value = serde_json::to_value(&found).unwrap_or_default();
        if let Some(object) = value.as_object_mut() {
            object.insert("diff".to_owned(), json!(String::from_utf8_lossy(&text.bytes)));
            object.insert("diff_truncated".to_owned(), json!(text.truncated));
        }
        output.value(&value)?;
        return Ok(0);
    }
    print_diff(&found, output);
    for path in &found.nested {
        let path = sanitize(&path.to_string_lossy());
        output.note(&format!(
            "`{path}` is a repository of its own: only its commit is compared, not its files"
        ));
    }
    for line in String::from_utf8_lossy(&text.bytes).lines() {
        let style = match line.as_bytes() {
            [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] | [b'd', b'i', b'f', b'f', ..] => {
                Some(Style::Bold)
            }
            [b'+', ..] => Some(Style::Good),
            [b'-', ..] => Some(Style::Bad),
            [b'@', ..] => Some(Style::Faint),
            _ => None,
        };
        let line = sanitize(line);
        output.line(&style.map_or_else(|| line.clone(), |style| output.paint(&line, style)));
    }
    if text.truncated {
        output.note("the diff is truncated; --names lists all changed files");
    }
    Ok(0)
}

fn print_diff(found: &CheckpointDiff, output: &Output) {
    if found.is_empty() {
        output.line("no differences");
        return;
    }
    let head = |text: &str| output.line(&output.paint(text, Style::Bold));
    if !found.state.is_empty() {
        head("state");
        for (name, one) in &found.state {
            output.line(&format!("  {name}: {} → {}", shorten(&one.from), shorten(&one.to)));
        }
    }
    if !found.usage.is_empty() || !found.agents.is_empty() {
        head("agents, tokens and time");
        for (name, one) in &found.usage {
            output.line(&format!("  {name}: {} → {}", shorten(&one.from), shorten(&one.to)));
        }
        for (agent, rows) in &found.agents {
            for (name, one) in rows {
                let (from, to) = (shorten(&one.from), shorten(&one.to));
                output.line(&format!("  {} {name}: {from} → {to}", sanitize(agent)));
            }
        }
    }
    if !found.governance.is_empty() {
        head("governance");
        for one in &found.governance {
            let status =
                |status: &Option<_>| status.map_or("-", windlass_kernel::run::GateStatus::as_str);
            let (from, to) = (status(&one.from), status(&one.to));
            output.line(&format!("  {}: {from} → {to}", sanitize(&one.id)));
        }
    }
    if !(found.added.is_empty() && found.removed.is_empty() && found.modified.is_empty()) {
        head("outputs of the phases");
        for one in &found.added {
            output.line(&output.paint(&format!("  + {}", sanitize(&one.path)), Style::Good));
        }
        for one in &found.removed {
            output.line(&output.paint(&format!("  - {}", sanitize(&one.path)), Style::Bad));
        }
        for (old, new) in &found.modified {
            let sizes = format!("{} → {} bytes", old.size_bytes, new.size_bytes);
            output.line(
                &output.paint(&format!("  ~ {} ({sizes})", sanitize(&new.path)), Style::Warn),
            );
        }
    }
    if !found.files.is_empty() {
        head("files");
        print_files(&found.files, output);
        for one in &found.renames {
            let (from, to) = (sanitize(&one.from), sanitize(&one.to));
            output.line(&format!("  {from} → {to} ({} % the same)", one.similarity_percent));
        }
    }
}

/// Prints how files change.
pub fn print_files(files: &[PathChange], output: &Output) {
    for one in files.iter().take(NAMED_MAX) {
        let (mark, style) = match one.kind {
            ChangeKind::Added => ("+", Style::Good),
            ChangeKind::Removed => ("-", Style::Bad),
            ChangeKind::Modified | ChangeKind::TypeChanged | ChangeKind::ModeChanged => {
                ("~", Style::Warn)
            }
        };
        let path = sanitize(&one.path.to_string_lossy());
        let slash = if one.is_of_folder() { "/" } else { "" };
        let modes = match one.modes() {
            Some((before, after)) if before != after => format!(" ({before} → {after})"),
            Some(_) | None => String::new(),
        };
        output.line(&output.paint(&format!("  {mark} {path}{slash}{modes}"), style));
    }
    if files.len() > NAMED_MAX {
        output.line(&format!("  … and {} more", files.len() - NAMED_MAX));
    }
}

fn shorten(value: &Value) -> String {
    let text = match value.as_str() {
        Some(text) => text.to_owned(),
        None if value.is_null() => "-".to_owned(),
        None => value.to_string(),
    };
    let text = sanitize(&text);
    if text.chars().count() > 100 {
        format!("{}…", text.chars().take(100).collect::<String>())
    } else {
        text
    }
}

fn rollback(project: &Project, options: &CheckpointRollback, output: &Output) -> CommandResult {
    let by = actor_name(options.by.as_deref());
    let open = if options.dry_run { open_to_read } else { open };
    let setup = open(project, Some(&by), output)?;
    let (trace_id, checkpoint) = setup.checkpoints().find(&options.checkpoint)?;
    if options.dry_run {
        let plan = setup.engine.plan_rollback(trace_id, checkpoint)?;
        if output.json {
            output.value(&plan_json(&plan))?;
        } else {
            print_plan(&plan, output);
        }
        return Ok(0);
    }
    let request = RollbackRequest {
        checkpoint,
        by,
        reason: options.reason.clone().unwrap_or_default(),
        force: options.force,
        resume: options.resume,
    };
    let run = setup.engine.roll_back(trace_id, &request)?;
    let code = report(&run, output)?;
    if let Some(tree) = run.last_rollback.as_ref().and_then(|rollback| rollback.snapshot.as_ref()) {
        output.note(&format!("the files as they were before are kept in the snapshot {tree}"));
    }
    for path in setup.engine.left_by_rollback(&run)?.iter().take(NAMED_MAX) {
        let path = sanitize(&path.to_string_lossy());
        output.note(&format!(
            "`{path}` is not the run's and was left where it is; move it away before the run goes on"
        ));
    }
    warn_of_nested(&setup, &run, output);
    // Without --resume the run is meant to wait, so that is a success.
    Ok(if options.resume { code } else { 0 })
}

fn plan_json(plan: &RollbackPlan) -> Value {
    let names = |paths: &[std::path::PathBuf]| {
        paths.iter().map(|path| path.to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    json!({
        "checkpoint_id": plan.to.id,
        "archived_phases": plan.archived,
        "files": plan.changes,
        "changed_by_people": names(&plan.changed),
        "left_alone": names(&plan.left),
        "nested": names(&plan.nested),
        "unfinished_phase": plan.unfinished,
        "ended": plan.ended,
        "commit": plan.commit,
    })
}

fn print_plan(plan: &RollbackPlan, output: &Output) {
    if let Some(outcome) = plan.ended {
        output.note(&format!("the run has ended ({}): it is opened again", outcome.as_str()));
    }
    if let Some(commit) = &plan.commit {
        output.note(&format!("its commit {commit} stays in its branch"));
    }
    output.line(&format!("phases to run again: {}", sanitize(&plan.archived.join(", "))));
    if plan.changes.is_empty() {
        output.line("no file would change");
    } else {
        output.line("files that would change:");
        print_files(&plan.changes, output);
    }
    if !plan.changed.is_empty() {
        output.line(&output.paint("changed since the run left them:", Style::Warn));
        for path in plan.changed.iter().take(NAMED_MAX) {
            output.line(&format!("  {}", sanitize(&path.to_string_lossy())));
        }
        if let Some(phase) = &plan.unfinished {
            output.note(&format!(
                "phase {} is not done: what it changed cannot be told from your changes",
                sanitize(phase)
            ));
        }
        output.note(
            "the rollback is refused unless --force is given; the present files are saved first",
        );
    }
    for path in &plan.left {
        output.line(&format!("not changed: {}", sanitize(&path.to_string_lossy())));
    }
    for path in plan.nested.iter().take(NAMED_MAX) {
        let path = sanitize(&path.to_string_lossy());
        output.note(&format!(
            "`{path}` is a repository of its own: its files and changes in it would be left as they are"
        ));
    }
}

fn purge(project: &Project, options: &CheckpointPurge, output: &Output) -> CommandResult {
    let setup = open_to_read(project, None, output)?;
    let run = options.run.as_deref().map(|name| setup.engine.find(name)).transpose()?;
    let settings = &setup.config.retention;
    let gates = settings.gates();
    let known = |id: &str| {
        let mut phases = setup.loops.values().flat_map(|file| &file.plan.phases);
        phases.any(|phase| phase.gate.as_ref().is_some_and(|gate| gate.id == id))
    };
    for id in gates.keys().filter(|id| !known(id)) {
        let id = sanitize(id);
        output.note(&format!("config.toml: `retention.gates.{id}` is no gate of a loop"));
    }
    let purged = setup.engine.purge(&Retention {
        days: options.days.unwrap_or(settings.days),
        keep: options.keep.unwrap_or(settings.keep),
        approved: options.approved,
        run,
        gates,
        dry_run: options.dry_run,
    })?;
    let days = u64::from(options.days.unwrap_or(settings.days));
    let taken = super::held_back::purge(project, days, options.dry_run)?;
    if taken > 0 {
        let verb = if options.dry_run { "would drop" } else { "dropped" };
        output.note(&format!("{verb} {taken} of what was held back and taken over"));
    }
    if output.json {
        output.value(&purged)?;
        return Ok(0);
    }
    print_purged(&purged, options.dry_run, output);
    Ok(0)
}

fn print_purged(purged: &PurgeReport, dry_run: bool, output: &Output) {
    for one in &purged.checkpoints {
        output.line(&format!("{}/{} of {}", one.run_id, sanitize(&one.name), one.created_at));
    }
    for path in &purged.holds {
        output.line(&sanitize(path));
    }
    for name in &purged.references {
        output.line(&sanitize(name));
    }
    for (run, why) in &purged.left {
        output.note(&format!("skipped {run}: {}", sanitize(why)));
    }
    output.line(&format!(
        "{} {}, {}, {}, {} of rollbacks and merges, {}{}",
        if dry_run { "would delete" } else { "deleted" },
        count(purged.checkpoints.len(), "checkpoint", "checkpoints"),
        count(purged.documents, "checkpoint file", "checkpoint files"),
        count(purged.holds.len(), "hold packet", "hold packets"),
        count(purged.references.len(), "snapshot", "snapshots"),
        count(purged.files, "file", "files"),
        if dry_run { String::new() } else { format!(" ({} bytes)", purged.bytes) }
    ));
}

fn check(project: &Project, output: &Output) -> CommandResult {
    let setup = open_to_look(project, output)?;
    let faults = setup.engine.check_checkpoints()?;
    if output.json {
        output.value(&json!({ "faults": faults, "intact": faults.is_empty() }))?;
    } else {
        for fault in &faults {
            output.line(&format!("{} {}", output.paint("✗", Style::Bad), sanitize(fault)));
        }
        if faults.is_empty() {
            output.line("all stored snapshots and files are intact");
        }
    }
    if faults.is_empty() {
        return Ok(0);
    }
    let message = format!("{} stored objects are corrupt; the others can be used", faults.len());
    Err(Failure::new(Code::SnapshotCorrupt, message))
}
