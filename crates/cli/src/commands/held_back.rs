//! `windlass call held-back`: what commands left that no command may leave.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_connect::{Held, HeldBack};
use windlass_kernel::{Code, Digest, Timestamp};

use crate::args;
use crate::commands::call;
use crate::failure::{CommandResult, Failure};
use crate::output::{Output, Style, sanitize};
use crate::part::Part;
use crate::project::Project;
use crate::secrets::shown;

/// The most of a reason that is recorded as the purpose of a call.
const REASON_CHARS_MAX: usize = 200;
/// How many digits of its digest tell `fs/write` which content is replaced.
const VERSION_DIGITS: usize = 16;

/// Runs the command.
pub fn run(project: &Project, options: &args::HeldBack, output: &Output) -> CommandResult {
    let all = all(project)?;
    // What is shown has no secrets of the registry either, if the project is trusted; those of the user's settings it never has.
    drop(project.files().and_then(|files| project.supervisor(Part::Whole, &files)));
    let Some(name) = &options.name else { return list(&all, output) };
    let Some(one) = all.iter().find(|one| one.name == *name) else {
        let message = format!("nothing that was held back is called `{name}`");
        return Err(Failure::new(Code::RequestInvalid, message)
            .hint("`windlass call held-back` lists the names"));
    };
    match &options.take {
        Some(path) => take(project, one, path, output),
        None if options.drop => {
            one.remove().map_err(|error| unusable(&one.folder, &error))?;
            output.note(&format!("dropped {}", one.name));
            Ok(0)
        }
        None => show(one, output),
    }
}

/// Removes what was taken over so many days ago or more; returns how many folders that were.
pub fn purge(project: &Project, days: u64, dry_run: bool) -> Result<usize, Failure> {
    let age = Duration::from_secs(days.saturating_mul(24 * 3600));
    let mut count = 0;
    for one in all(project)?.iter().filter(|one| one.is_older_than(age) && one.is_taken()) {
        if !dry_run {
            one.remove().map_err(|error| unusable(&one.folder, &error))?;
        }
        count += 1;
    }
    Ok(count)
}

fn all(project: &Project) -> Result<Vec<HeldBack>, Failure> {
    let place: PathBuf = project.state()?.join("cells").join("gate");
    HeldBack::all(&place).map_err(|error| unusable(&place, &error))
}

fn since(one: &HeldBack) -> String {
    let since = one.at.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let ms = i64::try_from(since.as_millis()).unwrap_or_default();
    Timestamp::from_unix_ms(ms).map(|at| at.to_string()).unwrap_or_default()
}

fn unusable(path: &Path, error: &std::io::Error) -> Failure {
    let message = format!("`{}` cannot be used: {error}", path.display());
    Failure::new(Code::FileUnreadable, message)
}

fn describe(one: &HeldBack) -> Value {
    let item = |item: &Held| {
        let kept = item.kept.as_ref().map(|kept| shown(&kept.display().to_string()));
        let path = shown(&item.path.text());
        json!({ "path": path, "why": shown(&item.why), "kept": kept })
    };
    let items: Vec<Value> = one.items.iter().map(item).collect();
    json!({
        "name": one.name, "at": since(one), "workspace": one.workspace.display().to_string(),
        "folder": one.folder.display().to_string(), "items": items, "taken": one.is_taken(),
    })
}

fn list(all: &[HeldBack], output: &Output) -> CommandResult {
    if output.json {
        output.value(&all.iter().map(describe).collect::<Vec<Value>>())?;
        return Ok(0);
    }
    if all.is_empty() {
        output.line("nothing is held back");
        return Ok(0);
    }
    let rows: Vec<_> = all
        .iter()
        .map(|one| {
            let paths: Vec<String> = one.items.iter().map(|item| item.path.to_string()).collect();
            let state = if one.is_taken() { "taken over" } else { "waits" };
            vec![
                (one.name.clone(), Some(Style::Bold)),
                (since(one), Some(Style::Faint)),
                (state.to_owned(), None),
                (sanitize(&shown(&paths.join(", "))), None),
            ]
        })
        .collect();
    output.table(&["NAME", "SINCE", "STATE", "FILES"], &rows);
    Ok(0)
}

fn show(one: &HeldBack, output: &Output) -> CommandResult {
    if output.json {
        output.value(&describe(one))?;
        return Ok(0);
    }
    output.line(&sanitize(&one.folder.display().to_string()));
    for item in &one.items {
        let title = shown(&format!("{}: {}", item.path, item.why));
        output.line(&format!("\n{}", sanitize(&title)));
        match one.contents(item) {
            Ok((kept, now)) => {
                let difference = windlass_hooks::diff(&now.unwrap_or_default(), &kept);
                for line in shown(&difference).lines() {
                    output.line(&sanitize(line));
                }
            }
            Err(error) => output.line(&format!("  it cannot be compared: {error}")),
        }
    }
    output.line(&format!("\nwindlass call held-back {} --take PATH | --drop", one.name));
    Ok(0)
}

/// Writes a file that was held back, as a call: policy asks about it as it would ask any agent, and the decision is signed and
/// recorded like every other one.
fn take(project: &Project, one: &HeldBack, path: &str, output: &Output) -> CommandResult {
    let refused = |message: String| {
        let folder = one.folder.display();
        Failure::new(Code::RequestInvalid, message)
            .hint(format!("it is in `{folder}`: copy it yourself"))
    };
    let found = one.items.iter().find(|item| item.path.to_string() == path);
    let item = found.ok_or_else(|| {
        Failure::new(Code::RequestInvalid, format!("`{}` has no file `{path}`", one.name))
            .hint(format!("`windlass call held-back {}` lists its files", one.name))
    })?;
    let workspace = project.workspace();
    if workspace.canonicalize().ok().as_deref() != Some(&one.workspace) {
        let place = one.workspace.display();
        return Err(refused(format!("`{path}` was held back in another folder, `{place}`")));
    }
    let (kept, now) =
        one.contents(item).map_err(|error| refused(format!("`{path}` is no file: {error}")))?;
    let content = String::from_utf8(kept).map_err(|_| refused(format!("`{path}` is no text")))?;
    let why: String = item.why.chars().take(REASON_CHARS_MAX).collect();
    let mut arguments = json!({ "path": path, "content": content });
    if let (Some(now), Some(arguments)) = (now, arguments.as_object_mut()) {
        let version = Digest::of(&now).hex().as_str().get(..VERSION_DIGITS).map(str::to_owned);
        arguments.insert("version".to_owned(), json!(version));
    }
    let options = args::CallRun {
        tool: "fs/write".to_owned(),
        args: arguments.to_string(),
        key: None,
        new_key: true,
        intent: Some(format!("take over what was held back ({why})")),
        class: None,
        plan: None,
        agent: None,
        phase: None,
    };
    call::make(project, &options, output)
}
