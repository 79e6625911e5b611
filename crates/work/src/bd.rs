//! The `bd` program as a tracker.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass_cell::one_line;

use crate::bd_json::{self, Found};
use crate::bd_program::{self, BdProgram, Effect, Printed};
use crate::{Change, Item, LinkKind, NewItem, Status, Tracker, WorkError, limits};

/// The name of the program.
const PROGRAM: &str = "bd";

/// The items that `bd` has of a folder. Each request starts it once or twice, without a shell; what does
/// not answer in time is killed with its process group.
#[derive(Clone, Debug)]
pub struct Bd {
    program: BdProgram,
}

impl Bd {
    /// Finds the program in the folders of `search_path`, which is what `PATH` has.
    #[must_use]
    pub fn find(search_path: &OsStr, folder: &Path, deadline: Duration) -> Option<Self> {
        let path = bd_program::find(PROGRAM, search_path)?;
        Some(Self::at(path, folder, deadline))
    }

    /// The program at a path, which works in `folder`.
    #[must_use]
    pub fn at(path: PathBuf, folder: &Path, deadline: Duration) -> Self {
        Self { program: BdProgram { path, folder: folder.to_owned(), deadline } }
    }

    /// Whether the program and its folder are there.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.program.is_there()
    }

    fn items(&self, arguments: &[&str], effect: Effect) -> Result<Vec<Found>, WorkError> {
        let printed = self.program.json(arguments, effect)?;
        let command = arguments.first().copied().unwrap_or_default();
        match &printed.value {
            Some(value) => bd_json::items(value).ok_or_else(|| strange(command)),
            None => Err(unprinted(command, &printed)),
        }
    }

    /// The one item of an answer.
    fn one(&self, id: &str, arguments: &[&str], effect: Effect) -> Result<Item, WorkError> {
        let missing = || WorkError::NotFound { id: id.to_owned() };
        let found = self.items(arguments, effect).map_err(|error| name(error, id))?;
        let same = found.iter().position(|found| found.item.id == id);
        // `bd` completes ids that are given in part.
        let mut found = found.into_iter();
        found.nth(same.unwrap_or(0)).map(|found| found.item).ok_or_else(missing)
    }

    /// All items that are not closed. A blocker that is none of them is closed.
    fn all_open(&self) -> Result<Vec<Item>, WorkError> {
        let found = self.items(&["list", "--limit=0"], Effect::Reads)?;
        let open = found.into_iter().filter(|found| found.item.status != Status::Closed);
        let open: Vec<Found> = open.collect();
        let ids: BTreeSet<String> = open.iter().map(|found| found.item.id.clone()).collect();
        let mut items: Vec<Item> =
            open.into_iter().map(|found| without_closed(found, &ids)).collect();
        sort(&mut items);
        Ok(items)
    }
}

/// The most urgent and then the oldest first.
fn sort(items: &mut [Item]) {
    items.sort_by(|a, b| {
        let key = |item: &Item| (item.priority, item.created_at.clone(), item.id.clone());
        key(a).cmp(&key(b))
    });
}

fn without_closed(found: Found, open: &BTreeSet<String>) -> Item {
    let Found { mut item, blockers_known } = found;
    if !blockers_known {
        let (blockers, closed): (Vec<_>, Vec<_>) =
            item.blockers.into_iter().partition(|blocker| open.contains(blocker));
        item.blockers = blockers;
        item.links.extend(closed.into_iter().map(|id| format!("blocked-by:{id}")));
        item.links.sort_unstable();
    }
    item
}

fn strange(command: &str) -> WorkError {
    WorkError::unavailable(format!("`bd {command}` answered in a form that is not known"))
}

/// An answer without JSON: it may be in the warnings why.
fn unprinted(command: &str, printed: &Printed) -> WorkError {
    let told = printed.warnings.lines().map(str::trim).find(|line| !line.is_empty());
    match told {
        Some(line) => bd_program::explain(&one_line(line)),
        None => WorkError::unavailable(format!("`bd {command}` printed no JSON")),
    }
}

/// Puts the id into an error that is about one item.
fn name(error: WorkError, id: &str) -> WorkError {
    match error {
        WorkError::NotFound { .. } => WorkError::NotFound { id: id.to_owned() },
        WorkError::Unavailable { .. }
        | WorkError::DeadlinePassed { .. }
        | WorkError::Invalid { .. } => error,
    }
}

/// The arguments of a change. A value is part of its option's word, so that it cannot be an option.
fn arguments(options: &[(&str, Option<&str>)]) -> Vec<String> {
    options
        .iter()
        .filter_map(|(name, value)| value.map(|value| format!("--{name}={value}")))
        .collect()
}

impl Tracker for Bd {
    fn name(&self) -> &'static str {
        "bd"
    }

    fn open(&self, limit: usize) -> Result<Vec<Item>, WorkError> {
        let mut items = self.all_open()?;
        items.truncate(limit);
        Ok(items)
    }

    fn assigned(&self, to: &str, limit: usize) -> Result<Vec<Item>, WorkError> {
        limits::assignee(to)?;
        let items = self.all_open()?.into_iter();
        Ok(items.filter(|item| item.assignee.as_deref() == Some(to)).take(limit).collect())
    }

    fn blocked(&self, limit: usize) -> Result<Vec<Item>, WorkError> {
        let found = self.items(&["blocked"], Effect::Reads)?;
        let mut items: Vec<Item> = found.into_iter().map(|found| found.item).collect();
        items.retain(|item| item.status != Status::Closed);
        sort(&mut items);
        items.truncate(limit);
        Ok(items)
    }

    fn recent(&self, limit: usize) -> Result<Vec<Item>, WorkError> {
        let found = self.items(&["list", "--all", "--limit=0"], Effect::Reads)?;
        let closed = |found: &&Found| found.item.status == Status::Closed;
        let open: BTreeSet<String> = found
            .iter()
            .filter(|found| !closed(found))
            .map(|found| found.item.id.clone())
            .collect();
        let items = found.into_iter().map(|found| without_closed(found, &open));
        let mut items: Vec<Item> = items.collect();
        items.sort_by(|a, b| (&b.updated_at, &b.id).cmp(&(&a.updated_at, &a.id)));
        items.truncate(limit);
        Ok(items)
    }

    fn show(&self, id: &str) -> Result<Item, WorkError> {
        limits::check_id(id)?;
        self.one(id, &["show", id], Effect::Reads)
    }

    fn create(&self, new: &NewItem) -> Result<Item, WorkError> {
        limits::check_new(new)?;
        let (priority, labels) = (new.priority.to_string(), new.labels.join(","));
        let options = arguments(&[
            ("title", Some(&new.title)),
            ("type", Some(new.kind.name())),
            ("priority", Some(&priority)),
            ("description", Some(new.description.as_str()).filter(|text| !text.is_empty())),
            ("assignee", new.assignee.as_deref()),
            ("labels", Some(labels.as_str()).filter(|labels| !labels.is_empty())),
        ]);
        let mut command = vec!["create"];
        command.extend(options.iter().map(String::as_str));
        let mut found = self.items(&command, Effect::Writes)?;
        let mut item = found.pop().ok_or_else(|| strange("create"))?.item;
        // Its answer does not have the labels in every version.
        if item.labels.is_empty() {
            item.labels.clone_from(&new.labels);
            item.labels.sort_unstable();
            item.labels.dedup();
        }
        Ok(item)
    }

    fn update(&self, id: &str, change: &Change) -> Result<Item, WorkError> {
        limits::check_id(id)?;
        limits::check_change(change)?;
        let priority = change.priority.map(|priority| priority.to_string());
        let (added, removed) = (change.labels_added.join(","), change.labels_removed.join(","));
        let options = arguments(&[
            ("title", change.title.as_deref()),
            ("type", change.kind.map(crate::Kind::name)),
            ("status", change.status.map(Status::name)),
            ("assignee", change.assignee.as_deref()),
            ("priority", priority.as_deref()),
            ("description", change.description.as_deref()),
            ("add-label", Some(added.as_str()).filter(|labels| !labels.is_empty())),
            ("remove-label", Some(removed.as_str()).filter(|labels| !labels.is_empty())),
        ]);
        let mut command = vec!["update", id];
        command.extend(options.iter().map(String::as_str));
        let changed =
            self.program.json(&command, Effect::Writes).map_err(|error| name(error, id))?;
        if changed.value.is_none() {
            return Err(name(unprinted("update", &changed), id));
        }
        // The answer does not have the links.
        self.show(id)
    }

    fn close(&self, id: &str, reason: &str) -> Result<Item, WorkError> {
        limits::check_id(id)?;
        limits::check_reason(reason)?;
        let reason = format!("--reason={reason}");
        let closed = self.program.json(&["close", id, &reason], Effect::Writes);
        let closed = closed.map_err(|error| name(error, id))?;
        let item = self.show(id)?;
        if item.status == Status::Closed {
            return Ok(item);
        }
        Err(name(unprinted("close", &closed), id))
    }

    fn link(&self, from: &str, to: &str, kind: LinkKind) -> Result<(), WorkError> {
        limits::check_id(from)?;
        limits::check_id(to)?;
        if from == to {
            return Err(WorkError::invalid("an item is not linked to itself"));
        }
        // `bd dep add` names the one that depends first.
        let (first, second, option) = match kind {
            LinkKind::Blocks => (to, from, "--type=blocks"),
            LinkKind::Related => (from, to, "--type=related"),
            LinkKind::Parent => (to, from, "--type=parent-child"),
        };
        let linked = self.program.json(&["dep", "add", first, second, option], Effect::Writes);
        linked.map(drop).map_err(|error| name(error, first))
    }

    fn sync(&self) -> Result<String, WorkError> {
        let synced = match self.program.run(&["sync"], Effect::Writes) {
            // Versions that keep items in Dolt have no `sync`; without a remote these two do nothing.
            Err(WorkError::Invalid { reason }) if reason.contains("unknown command") => {
                self.program.run(&["dolt", "pull"], Effect::Writes)?;
                self.program.run(&["dolt", "push"], Effect::Writes)?
            }
            synced => synced?,
        };
        let last = synced.output.lines().map(str::trim).rfind(|line| !line.is_empty());
        Ok(one_line(last.unwrap_or("`bd` has synchronised its items")))
    }
}
