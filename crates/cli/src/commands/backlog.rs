//! `windlass backlog`: tasks from a Markdown checklist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use windlass_beneath::{Access, Folder};
use windlass_engine::executors::AGENTS_OPTION;
use windlass_engine::{GitRepository, Repository as _};
use windlass_formats::backlog::{self, Backlog, Item, Problem};
use windlass_journal::{RunFilter, Runs};
use windlass_kernel::run::Run;
use windlass_kernel::run::plan::RunOutcome;
use windlass_kernel::{Code, Digest, Timestamp};

use crate::agents;
use crate::args::BacklogCommand;
use crate::atomic;
use crate::commands::run::{LoopSelection, Place, open, open_to_read, report, start};
use crate::failure::{CommandResult, Failure};
use crate::input;
use crate::output::{Output, Style, sanitize};
use crate::project::Project;
use crate::run_settings::put_back;
use crate::setup::RunSetup;

/// The run option that names the backlog item.
const OPTION: &str = "backlog";
/// How many of the newest runs are checked for one that passed without marking its item.
const RECENT_RUNS: usize = 20;
/// The maximum size of a backlog file.
const BYTES_MAX: u64 = 4 << 20;

/// Runs a subcommand of `backlog`.
pub fn run(project: &Project, command: &BacklogCommand, output: &Output) -> CommandResult {
    match command {
        BacklogCommand::List { file } => list(project, &path(project, file.as_deref())?, output),
        BacklogCommand::Next { file } => {
            let setup = open_to_read(project, None, output)?;
            let backlog = available_items(&setup, &path(project, file.as_deref())?, output)?;
            let Some(item) = backlog::next(&backlog) else { return report_no_task(output) };
            if output.json {
                output.value(&describe(item))?;
            } else {
                print(item, output);
            }
            tell_missing_context(&setup.root, item, output);
            Ok(0)
        }
        BacklogCommand::Run { file, item, name, worktree, answers, agent, by, trace_id } => {
            let path = path(project, file.as_deref())?;
            let setup = open(project, by.as_deref(), output)?;
            let backlog = available_items(&setup, &path, output)?;
            let item = match item {
                Some(digest) => Some(named_item(&backlog, digest)?),
                None => backlog::next(&backlog),
            };
            let Some(item) = item else { return report_no_task(output) };
            let mut task = item.to_task()?;
            tell_missing_context(&setup.root, item, output);
            let is_file = |path: &&str| setup.root.join(path).is_file();
            task.context_refs = item.context_paths().filter(is_file).map(str::to_owned).collect();
            let task = Value::Object(task.to_object());
            let origin = json!({ "file": path, "line": item.line, "digest": item.digest });
            let mut options = vec![(OPTION.to_owned(), origin)];
            if !agent.is_empty() {
                options.push((AGENTS_OPTION.to_owned(), agents::parse_options(agent)?));
            }
            let selection = LoopSelection { name, variant: None, with: &[] };
            let answers = answers.as_deref();
            let place = Place { worktree: *worktree, trace_id: *trace_id };
            let run = start(&setup, &selection, task, place, answers, options, output)?;
            report(&put_back(&setup, run, output), output)
        }
    }
}

/// The open item with a digest.
fn named_item<'a>(backlog: &'a Backlog, digest: &str) -> Result<&'a Item, Failure> {
    let is_it = |item: &&Item| !item.done && item.digest.to_string() == digest;
    let Some(item) = backlog.items.iter().find(is_it) else {
        let message = "no open task has this digest: it is done, under way, or was edited";
        return Err(Failure::new(Code::BacklogLineChanged, message)
            .hint("`windlass backlog list --json` has the digests"));
    };
    if item.blocked {
        let message = match item.waits_for.is_empty() {
            true => "the task is blocked".to_owned(),
            false => format!("the task waits for {}", sanitize(&item.waits_for.join(", "))),
        };
        return Err(Failure::new(Code::RequestInvalid, message)
            .hint("take the word `blocked`, `depends on` or `waiting for` out of its line"));
    }
    Ok(item)
}

/// The path of the backlog, without links: those that an agent makes later are not followed.
fn path(project: &Project, named: Option<&Path>) -> Result<PathBuf, Failure> {
    let path = named.map_or_else(|| project.root.join("BACKLOG.md"), Path::to_owned);
    let real = path.canonicalize().or_else(|_| std::path::absolute(&path));
    let real = real.map_err(|error| input::unreadable(&path, &error))?;
    let root = project.root.canonicalize().unwrap_or_else(|_| project.root.clone());
    if named.is_none() && real.exists() && !real.starts_with(&root) {
        let message = format!(
            "`{}` leads to `{}`, which is outside of the project",
            path.display(),
            real.display()
        );
        return Err(Failure::new(Code::PathOutsideWorkspace, message)
            .hint("name the file with `--file`, or replace the link by a file"));
    }
    Ok(real)
}

fn read(path: &Path) -> Result<(String, Backlog, Vec<Problem>), Failure> {
    let bytes = input::read_real(path, BYTES_MAX)?;
    let (backlog, problems) = backlog::parse_lines(&bytes)
        .map_err(|error| Failure::of(error.code(), &error).hint(error.hint()))?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), backlog, problems))
}

/// Tells the lines that are left out, and the items that can never be taken.
fn tell(path: &Path, backlog: &Backlog, problems: &[Problem], output: &Output) {
    let path = sanitize(&path.display().to_string());
    let warn = |text: &str| {
        let word = output.paint_note("warning:", Style::Warn);
        output.note(&format!("{word} {path}, {}", sanitize(text)));
    };
    for problem in problems {
        warn(&format!("{problem}; this line is left out"));
    }
    for item in &backlog.items {
        if let Some(stuck) = &item.stuck {
            warn(&format!("line {}: `{}` can never be taken: {stuck}", item.line, item.title));
        }
    }
}

/// Names the files of an item's context that do not exist.
fn tell_missing_context(root: &Path, item: &Item, output: &Output) {
    for path in item.context_files().filter(|path| !root.join(path).exists()) {
        let word = output.paint_note("warning:", Style::Warn);
        let path = sanitize(path);
        output.note(&format!(
            "{word} `{path}` of the task's `Context:` does not exist, so it is not read"
        ));
    }
}

/// The backlog item that a run was started for.
struct Origin {
    file: PathBuf,
    line: usize,
    digest: Digest,
}

impl Origin {
    fn of(run: &Run) -> Result<Option<Self>, Failure> {
        let options = run.started.as_ref().map(|started| &started.options);
        let Some(origin) = options.and_then(|options| options.get(OPTION)) else {
            return Ok(None);
        };
        let text = |name: &str| origin.get(name).and_then(Value::as_str).unwrap_or_default();
        let line = origin.get("line").and_then(Value::as_u64).unwrap_or_default();
        let digest = text("digest").parse().map_err(|error| Failure::of(Code::Internal, &error))?;
        let line = usize::try_from(line).unwrap_or_default();
        Ok(Some(Self { file: PathBuf::from(text("file")), line, digest }))
    }
}

/// Reads the backlog without the items of open runs. If a run passed but its process died before it
/// marked the item, the item is marked now.
fn available_items(setup: &RunSetup, path: &Path, output: &Output) -> Result<Backlog, Failure> {
    let (_, backlog, problems) = read(path)?;
    let taken = taken_items(&setup.engine.runs(), path, &backlog)?;
    let passed: Vec<&Run> = taken.values().filter(|run| run.ended.is_some()).collect();
    for run in &passed {
        complete_item(run, output)?;
    }
    // What waited for an item that is marked now can be taken.
    let (mut backlog, problems) = match passed.is_empty() {
        true => (backlog, problems),
        false => read(path).map(|(_, backlog, problems)| (backlog, problems))?,
    };
    tell(path, &backlog, &problems, output);
    backlog.items.retain(|item| !taken.contains_key(&item.digest));
    Ok(backlog)
}

/// The open items that a run works on, or has passed without marking them, by their digests.
fn taken_items(
    runs: &Runs,
    path: &Path,
    backlog: &Backlog,
) -> Result<BTreeMap<Digest, Run>, Failure> {
    let mut taken = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for open_only in [true, false] {
        let limit = if open_only { usize::MAX } else { RECENT_RUNS };
        let found = runs.list(&RunFilter { open_only, state: None, limit })?;
        for trace_id in found.iter().map(|one| one.trace.head.trace_id) {
            if !seen.insert(trace_id) {
                continue;
            }
            let run = runs.read(trace_id)?;
            let Some(origin) = Origin::of(&run)? else { continue };
            let is_origin = |item: &Item| item.digest == origin.digest && !item.done;
            if origin.file != path || !backlog.items.iter().any(is_origin) {
                continue;
            }
            let has_failed =
                run.ended.as_ref().is_some_and(|ended| ended.outcome != RunOutcome::Pass);
            if !has_failed {
                taken.entry(origin.digest).or_insert(run);
            }
        }
    }
    Ok(taken)
}

/// Marks the run's backlog item as done, if the run has passed.
pub fn complete_item(run: &Run, output: &Output) -> Result<(), Failure> {
    let (Some(started), Some(ended)) = (&run.started, &run.ended) else { return Ok(()) };
    let Some(Origin { file, line, digest }) = Origin::of(run)? else { return Ok(()) };
    if ended.outcome != RunOutcome::Pass {
        return Ok(());
    }
    let commit = run.newest_commit().map(|commit| format!(", commit {commit}"));
    let evidence = format!("{}{}", started.run_id, commit.unwrap_or_default());
    mark(&file, line, digest, &evidence, ended.at)?;
    output.note(&format!("marked done in {}, line {line}", sanitize(&file.display().to_string())));
    Ok(())
}

/// Marks an item in the present file by an atomic replace; commits the file if the repository was clean.
fn mark(
    path: &Path,
    line: usize,
    digest: Digest,
    evidence: &str,
    at: Timestamp,
) -> Result<(), Failure> {
    let (text, ..) = read(path)?;
    let marked = backlog::mark_done(&text, line, digest, evidence, at.into())
        .map_err(|error| Failure::of(error.code(), &error).hint(error.hint()))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let place = GitRepository::new(folder.unwrap_or(Path::new(".")).to_owned());
    let was_clean = place.require_clean(folder.unwrap_or(Path::new("."))).is_ok();
    let write = || {
        let (folder, name) = atomic::parts(path)?;
        let folder = Folder::open_real(folder)?;
        let mode = folder.look(name)?.map_or(0o644, |found| found.mode & 0o777);
        folder.replace_durably(name, marked.as_bytes(), Access::Exactly(mode))
    };
    write().map_err(|error: std::io::Error| {
        let message = format!("`{}` cannot be written: {error}", path.display());
        Failure::new(Code::FileUnwritable, message)
    })?;
    if was_clean {
        place.commit_all(&format!("backlog: done\n\n{evidence}\n"), at)?;
    }
    Ok(())
}

/// Reports that no task is eligible, which is not a failure.
fn report_no_task(output: &Output) -> CommandResult {
    if output.json {
        output.value(&json!({ "outcome": "NO_ELIGIBLE_TASK" }))?;
    } else {
        output.line("no eligible task: every P0 and P1 task is done, blocked or waiting");
    }
    Ok(0)
}

fn list(project: &Project, path: &Path, output: &Output) -> CommandResult {
    let (_, backlog, problems) = read(path)?;
    let taken = taken_items(&project.runs()?, path, &backlog)?;
    let mut free = backlog.clone();
    free.items.retain(|item| !taken.contains_key(&item.digest));
    let next = backlog::next(&free).map(|item| item.line);
    let state = |item: &Item| match taken.get(&item.digest) {
        _ if item.done => ("done", Style::Good),
        Some(run) if run.ended.is_some() => ("passed", Style::Good),
        Some(_) => ("under way", Style::Warn),
        None if next == Some(item.line) => ("next", Style::Bold),
        None if item.blocked => ("blocked", Style::Warn),
        None => ("open", Style::Faint),
    };
    tell(path, &backlog, &problems, output);
    if output.json {
        let values = backlog.items.iter().map(|item| {
            let mut value = describe(item);
            if let Some(object) = value.as_object_mut() {
                object.insert("state".to_owned(), json!(state(item).0));
                let run = taken.get(&item.digest).and_then(|run| run.started.as_ref());
                object.insert("run".to_owned(), json!(run.map(|started| &started.run_id)));
            }
            value
        });
        output.value(&values.collect::<Vec<Value>>())?;
        return Ok(0);
    }
    let rows: Vec<_> = backlog
        .items
        .iter()
        .map(|item| {
            let (mark, style) = state(item);
            vec![
                (item.priority.to_string(), None),
                (mark.to_owned(), Some(style)),
                (item.line.to_string(), Some(Style::Faint)),
                (sanitize(&item.title), None),
                (sanitize(item.owner.as_deref().unwrap_or_default()), Some(Style::Faint)),
                (sanitize(&item.waits_for.join(", ")), Some(Style::Faint)),
            ]
        })
        .collect();
    output.table(&["PRIORITY", "STATE", "LINE", "TITLE", "OWNER", "WAITS FOR"], &rows);
    Ok(0)
}

fn print(item: &Item, output: &Output) {
    output.line(&format!(
        "{} {}",
        output.paint(&item.priority.to_string(), Style::Bold),
        sanitize(&item.title)
    ));
    for (name, value) in
        [("done when", &item.dod), ("owner", &item.owner), ("context", &item.context)]
    {
        if let Some(value) = value {
            output.line(&format!("  {name}  {}", sanitize(value)));
        }
    }
    output.line(&format!("  line  {}", item.line));
}

fn describe(item: &Item) -> Value {
    json!({
        "title": item.title,
        "priority": item.priority.to_string(),
        "done": item.done,
        "dod": item.dod,
        "owner": item.owner,
        "context": item.context,
        "waits_for": item.waits_for,
        "stuck": item.stuck.as_ref().map(ToString::to_string),
        "line": item.line,
        "digest": item.digest,
    })
}
