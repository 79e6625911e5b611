//! `windlass work`: items of work.

use serde_json::json;
use windlass_kernel::Code;
use windlass_work::{Change, DESCRIPTION_BYTES_MAX, Item, NewItem, Status, Tracker};

use crate::args::{CreateWork, ListWork, UpdateWork, WorkCommand, WorkSession};
use crate::commands::{session_core, text_or_input};
use crate::failure::{CommandResult, Failure};
use crate::output::{Output, Style, sanitize};
use crate::project::Project;
use crate::work::tracker;

/// The variables that may have the user's name, as `bd` reads them.
const NAME_VARIABLES: [&str; 4] = ["BD_ACTOR", "BEADS_ACTOR", "USER", "LOGNAME"];

/// Runs a subcommand of `work`.
pub fn run(project: &Project, command: &WorkCommand, output: &Output) -> CommandResult {
    let tracker = tracker(project, &project.settings()?)?;
    match command {
        WorkCommand::Session(WorkSession::ClearBlock(options)) => {
            session_core::clear_block(project, options, output)
        }
        WorkCommand::List(options) => list(&*tracker, options, output),
        WorkCommand::Show { id } => show(&tracker.show(id)?, output),
        WorkCommand::Create(options) => {
            changed("created", &tracker.create(&new_item(options)?)?, output)
        }
        WorkCommand::Update(options) => {
            changed("changed", &tracker.update(&options.id, &change(options)?)?, output)
        }
        WorkCommand::Close { id, reason } => changed("closed", &tracker.close(id, reason)?, output),
        WorkCommand::Link { from, to, kind } => {
            tracker.link(from, to, *kind)?;
            if output.json {
                output.value(&json!({ "from": from, "to": to, "as": kind }))?;
            } else {
                output.line(&format!("linked {from} to {to} as {kind}"));
            }
            Ok(0)
        }
        WorkCommand::Sync => {
            let told = tracker.sync()?;
            if output.json {
                output.value(&json!({ "tracker": tracker.name(), "result": told }))?;
            } else {
                output.line(&sanitize(&told));
            }
            Ok(0)
        }
    }
}

fn new_item(options: &CreateWork) -> Result<NewItem, Failure> {
    Ok(NewItem {
        title: options.title.clone(),
        kind: options.kind,
        assignee: options.assignee.clone(),
        priority: options.priority,
        description: text_or_input(&options.description, DESCRIPTION_BYTES_MAX)?,
        labels: options.label.clone(),
    })
}

fn change(options: &UpdateWork) -> Result<Change, Failure> {
    let description = options.description.as_ref();
    let description = description.map(|text| text_or_input(text, DESCRIPTION_BYTES_MAX));
    Ok(Change {
        title: options.title.clone(),
        kind: options.kind,
        status: options.status,
        assignee: options.assignee.clone(),
        priority: options.priority,
        description: description.transpose()?,
        labels_added: options.label.clone(),
        labels_removed: options.remove_label.clone(),
    })
}

/// The name under which the user's items are assigned.
fn own_name() -> Result<String, Failure> {
    let mut names = NAME_VARIABLES.iter().filter_map(|name| std::env::var(name).ok());
    names.find(|name| !name.trim().is_empty()).ok_or_else(|| {
        Failure::new(Code::RequestInvalid, "your name is not known")
            .hint("name yourself with `--assignee NAME`, or set BD_ACTOR")
    })
}

fn list(tracker: &dyn Tracker, options: &ListWork, output: &Output) -> CommandResult {
    let limit = options.limit;
    let items = match options {
        ListWork { mine: true, .. } => tracker.assigned(&own_name()?, limit),
        ListWork { assignee: Some(name), .. } => tracker.assigned(name, limit),
        ListWork { blocked: true, .. } => tracker.blocked(limit),
        ListWork { recent: true, .. } => tracker.recent(limit),
        ListWork { .. } => tracker.open(limit),
    }?;
    if output.json {
        output.value(&items)?;
        return Ok(0);
    }
    if items.is_empty() {
        output.line("no items");
        return Ok(0);
    }
    let rows: Vec<_> = items.iter().map(|item| row(item, options.blocked)).collect();
    let last = if options.blocked { "BLOCKED BY" } else { "ASSIGNEE" };
    output.table(&["ID", "P", "STATUS", "TYPE", "TITLE", last], &rows);
    Ok(0)
}

fn row(item: &Item, blockers: bool) -> Vec<(String, Option<Style>)> {
    let last =
        if blockers { item.blockers.join(" ") } else { item.assignee.clone().unwrap_or_default() };
    let style = match item.status {
        Status::Open => None,
        Status::InProgress => Some(Style::Good),
        Status::Blocked => Some(Style::Warn),
        Status::Closed => Some(Style::Faint),
    };
    vec![
        (item.id.clone(), None),
        (item.priority.to_string(), None),
        (item.status.to_string(), style),
        (item.kind.to_string(), None),
        (sanitize(&item.title), None),
        (sanitize(&last), None),
    ]
}

fn changed(what: &str, item: &Item, output: &Output) -> CommandResult {
    if output.json {
        output.value(item)?;
    } else {
        output.line(&format!("{what} {}: {}", item.id, sanitize(&item.title)));
    }
    Ok(0)
}

fn show(item: &Item, output: &Output) -> CommandResult {
    if output.json {
        output.value(item)?;
        return Ok(0);
    }
    output.line(&output.paint(&format!("{}: {}", item.id, sanitize(&item.title)), Style::Bold));
    let Item { kind, status, priority, .. } = item;
    output.line(&format!("type       {kind}\nstatus     {status}\npriority   {priority}"));
    let optional = [
        ("assignee", item.assignee.clone().unwrap_or_default()),
        ("labels", item.labels.join(" ")),
        ("blocked by", item.blockers.join(" ")),
        ("links", item.links.join(" ")),
        ("created", item.created_at.clone()),
        ("changed", item.updated_at.clone()),
        ("closed", item.closed_at.clone().unwrap_or_default()),
        ("reason", item.close_reason.clone().unwrap_or_default()),
    ];
    for (name, text) in optional.into_iter().filter(|(_, text)| !text.is_empty()) {
        output.line(&format!("{name:<10} {}", sanitize(&text)));
    }
    if !item.description.is_empty() {
        output.line("");
        for line in item.description.lines() {
            output.line(&sanitize(line));
        }
    }
    Ok(0)
}
