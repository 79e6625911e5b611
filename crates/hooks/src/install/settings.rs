//! Hooks in a client's JSON settings: adding ours, taking them out, and seeing whether they are there.

use std::collections::BTreeSet;

use super::binary::Binary;
use super::edit::{Item, Splice, applied, insertion, removal};
use super::entries::{SettingsClient, Share};
use super::error::{InstallError, Position};
use super::json::{Comments, Node, parse};
use super::render::{Json, Layout, Style};
use super::{InstallState, text_of};

/// The settings with our hooks in them.
pub(crate) fn installed(
    client: SettingsClient,
    binary: &Binary,
    before: Option<&[u8]>,
) -> Result<Vec<u8>, InstallError> {
    let entries = client.entries(binary);
    let before = text_of(before.unwrap_or_default())?;
    if before.trim_ascii().is_empty() {
        return Ok(fresh(&entries).into_bytes());
    }
    let root = checked(client, before)?;
    if let Some((reason, node)) = client.disabled(&root, binary) {
        let at = Position::at(before, node.span.start);
        return Err(InstallError::Disabled { reason, at });
    }
    let cleaned = without_stale(client, &entries, before, &root)?;
    let root = parse(&cleaned, client.comments())?;
    let after = with_missing(&entries, &cleaned, &root)?;
    // INVARIANT: without our entries, the text says what it said before.
    let sound = parse(&after, client.comments()).is_ok_and(|root| {
        client.disabled(&root, binary).is_none()
            && entries.iter().all(|(event, entry)| places(client, &root, event, entry).is_right())
    });
    let kept = said_without_ours(client, &after) == said_without_ours(client, before);
    if sound && kept { Ok(after.into_bytes()) } else { Err(InstallError::Unsound) }
}

/// A file that has nothing but our hooks.
fn fresh(entries: &[(&'static str, Json)]) -> String {
    let hooks = hooks_object(entries);
    let layout = Layout::Lines { indent: String::new() };
    Style::ours().json(&Json::Object(vec![("hooks", hooks)]), &layout) + "\n"
}

/// The object `hooks` that has nothing but our hooks.
pub(crate) fn hooks_object(entries: &[(&'static str, Json)]) -> Json {
    let events = entries.iter().map(|(event, entry)| (*event, Json::Array(vec![entry.clone()])));
    Json::Object(events.collect())
}

/// Reads settings, and checks the containers that we write into.
fn checked(client: SettingsClient, text: &str) -> Result<Node, InstallError> {
    let root = parse(text, client.comments())?;
    let wrong = |name: &str, expected: &'static str, node: &Node| InstallError::WrongType {
        name: name.to_owned(),
        expected,
        at: Position::at(text, node.span.start),
    };
    if !root.is_object() {
        return Err(wrong("the file", "an object", &root));
    }
    let Some(hooks) = root.get("hooks") else { return Ok(root) };
    if !hooks.is_object() {
        return Err(wrong("hooks", "an object", hooks));
    }
    for event in client.event_names() {
        let groups = hooks.get(event);
        if let Some(groups) = groups.filter(|groups| groups.elements().is_none()) {
            return Err(wrong(&format!("hooks.{event}"), "an array", groups));
        }
    }
    Ok(root)
}

/// Where our entries are in the array of an event.
#[derive(Default)]
struct Places {
    /// The groups that say what they should.
    right: Vec<usize>,
    /// The groups of our hooks that say something else.
    wrong: Vec<usize>,
    /// Our hooks in groups of others.
    mixed: Vec<(usize, BTreeSet<usize>)>,
}

impl Places {
    /// Whether our entry is there once, as it should be.
    fn is_right(&self) -> bool {
        self.right.len() == 1 && self.wrong.is_empty() && self.mixed.is_empty()
    }

    fn is_empty(&self) -> bool {
        self.right.is_empty() && self.wrong.is_empty() && self.mixed.is_empty()
    }
}

fn places(client: SettingsClient, root: &Node, event: &str, entry: &Json) -> Places {
    let groups = root.get("hooks").and_then(|hooks| hooks.get(event)).and_then(Node::elements);
    let mut places = Places::default();
    for (index, group) in groups.unwrap_or(&[]).iter().enumerate() {
        match client.share(group) {
            Share::None => {}
            Share::Some(hooks) => places.mixed.push((index, hooks.into_iter().collect())),
            Share::All if entry.is(group) => places.right.push(index),
            Share::All => places.wrong.push(index),
        }
    }
    places
}

/// The text without entries of ours that are old, doubled or in groups of others. An old entry is
/// replaced where it is, if there is no right one.
fn without_stale(
    client: SettingsClient,
    entries: &[(&'static str, Json)],
    text: &str,
    root: &Node,
) -> Result<String, InstallError> {
    let style = Style::of(text, root);
    let mut splices = Vec::new();
    let planned = |event: &str| entries.iter().find(|(name, _)| *name == event);
    for (event, entry) in entries {
        let Some(array) = root.get("hooks").and_then(|hooks| hooks.get(event)) else { continue };
        let places = places(client, root, event, entry);
        let kept = places.right.first().or(places.wrong.first()).copied();
        if let Some(node) = kept.and_then(|index| array.elements()?.get(index))
            && !entry.is(node)
        {
            splices.push(replacement(text, &style, node, entry));
        }
        let gone = places.right.iter().chain(&places.wrong).copied();
        let gone = gone.filter(|index| Some(*index) != kept).collect();
        splices.extend(removal(text, array, &gone));
        splices.extend(mixed_removal(text, array, &places.mixed));
    }
    let others = |event: &str| planned(event).is_none();
    splices.extend(removal_of_ours(client, text, root, &others, &|path| path == Path::Hooks));
    applied(text, splices).ok_or(InstallError::Unsound)
}

fn replacement(text: &str, style: &Style, node: &Node, entry: &Json) -> Splice {
    let old = text.get(node.span.clone()).unwrap_or("");
    let layout = if old.contains('\n') {
        Layout::Lines { indent: super::edit::line_indent(text, node.span.start).to_owned() }
    } else {
        Layout::Inline
    };
    Splice { span: node.span.clone(), text: style.json(entry, &layout) }
}

fn mixed_removal(text: &str, array: &Node, mixed: &[(usize, BTreeSet<usize>)]) -> Vec<Splice> {
    let groups = array.elements().unwrap_or(&[]);
    let hooks = |index: usize| groups.get(index).and_then(|group| group.get("hooks"));
    let found = mixed.iter().filter_map(|(index, ours)| Some((hooks(*index)?, ours)));
    found.flat_map(|(hooks, ours)| removal(text, hooks, ours)).collect()
}

/// The text with the entries of ours that are not there yet.
fn with_missing(
    entries: &[(&'static str, Json)],
    text: &str,
    root: &Node,
) -> Result<String, InstallError> {
    let style = Style::of(text, root);
    let hooks = root.get("hooks");
    let mut splices = Vec::new();
    let mut events: Vec<(&'static str, Json)> = Vec::new();
    for (event, entry) in entries {
        match hooks.and_then(|hooks| hooks.get(event)) {
            Some(array) => {
                let there = array.elements().unwrap_or(&[]).iter().any(|group| entry.is(group));
                if !there {
                    let item = Item { key: None, json: entry };
                    splices.extend(insertion(text, &style, array, &[item]));
                }
            }
            None => events.push((*event, Json::Array(vec![entry.clone()]))),
        }
    }
    match hooks {
        Some(_) if events.is_empty() => {}
        Some(hooks) => {
            let items = events.iter().map(|(event, json)| Item { key: Some(*event), json });
            splices.extend(insertion(text, &style, hooks, &items.collect::<Vec<_>>()));
        }
        None => {
            let json = Json::Object(events);
            let item = Item { key: Some("hooks"), json: &json };
            splices.extend(insertion(text, &style, root, &[item]));
        }
    }
    applied(text, splices).ok_or(InstallError::Unsound)
}

/// A container that may be left empty when our entries are gone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Path<'a> {
    /// The array of an event.
    Event(&'a str),
    /// The object `hooks`.
    Hooks,
}

/// Takes our entries out of the events that are asked for. A container that is left empty goes too,
/// unless it is one to keep.
fn removal_of_ours(
    client: SettingsClient,
    text: &str,
    root: &Node,
    asked: &dyn Fn(&str) -> bool,
    keep: &dyn Fn(Path<'_>) -> bool,
) -> Vec<Splice> {
    let Some(member) = root.members().iter().position(|member| member.key == "hooks") else {
        return Vec::new();
    };
    let Some(hooks) = root.get("hooks") else { return Vec::new() };
    let mut splices = Vec::new();
    let mut gone = BTreeSet::new();
    for (index, event) in hooks.members().iter().enumerate().filter(|(_, it)| asked(&it.key)) {
        let groups = event.node.elements().unwrap_or(&[]);
        let mut whole = BTreeSet::new();
        let mut mixed = Vec::new();
        for (index, group) in groups.iter().enumerate() {
            match client.share(group) {
                Share::None => {}
                Share::Some(hooks) => mixed.push((index, hooks.into_iter().collect())),
                Share::All => {
                    whole.insert(index);
                }
            }
        }
        let emptied = !whole.is_empty() && whole.len() == groups.len();
        if emptied && !keep(Path::Event(&event.key)) {
            gone.insert(index);
        } else {
            splices.extend(removal(text, &event.node, &whole));
            splices.extend(mixed_removal(text, &event.node, &mixed));
        }
    }
    let emptied = !gone.is_empty() && gone.len() == hooks.members().len();
    if emptied && !keep(Path::Hooks) {
        return removal(text, root, &BTreeSet::from([member]));
    }
    splices.extend(removal(text, hooks, &gone));
    splices
}

/// What settings say besides our entries and the containers that only they need.
fn said_without_ours(client: SettingsClient, text: &str) -> Option<Node> {
    let root = parse(text, client.comments()).ok()?;
    let splices = removal_of_ours(client, text, &root, &|_| true, &|_| false);
    let text = applied(text, splices)?;
    let root = parse(&text, client.comments()).ok()?;
    // An empty container says nothing, so one that was there before does not count.
    let mut root = root;
    root.drop_empty_hooks();
    Some(root)
}

/// The settings without our entries; none, if nothing of them is left that was not ours.
pub(crate) fn removed(
    client: SettingsClient,
    now: &str,
    before: Option<&str>,
) -> Result<Option<String>, InstallError> {
    let root = checked_for_removal(client, now)?;
    let original = before.filter(|text| !text.trim_ascii().is_empty());
    let original = original.and_then(|text| parse(text, Comments::Allowed).ok());
    let hooks_before = original.as_ref().and_then(|root| root.get("hooks"));
    let keep = |path: Path<'_>| match path {
        Path::Hooks => hooks_before.is_some(),
        Path::Event(event) => hooks_before.is_some_and(|hooks| hooks.get(event).is_some()),
    };
    let splices = removal_of_ours(client, now, &root, &|_| true, &keep);
    let after = applied(now, splices).ok_or(InstallError::Unsound)?;
    let left = parse(&after, client.comments()).map_err(|_| InstallError::Unsound)?;
    if said_without_ours(client, &after) != said_without_ours(client, now) {
        return Err(InstallError::Unsound);
    }
    let bare: String = after.split_ascii_whitespace().collect();
    let ours_alone = original.is_none() && left.members().is_empty() && bare == "{}";
    Ok(if ours_alone { None } else { Some(after) })
}

/// Whether a text has entries of ours.
pub(crate) fn has_ours(client: SettingsClient, text: &str) -> bool {
    let Ok(root) = parse(text, client.comments()) else { return false };
    let groups = |node: &Node| {
        let groups = node.elements().unwrap_or(&[]);
        groups.iter().any(|group| !matches!(client.share(group), Share::None))
    };
    root.get("hooks").is_some_and(|hooks| hooks.members().iter().any(|it| groups(&it.node)))
}

fn checked_for_removal(client: SettingsClient, text: &str) -> Result<Node, InstallError> {
    let root = parse(text, client.comments())?;
    if root.is_object() {
        return Ok(root);
    }
    let at = Position::at(text, root.span.start);
    Err(InstallError::WrongType { name: "the file".to_owned(), expected: "an object", at })
}

/// Whether our hooks are in the settings as they should be.
pub(crate) fn state(client: SettingsClient, binary: &Binary, now: Option<&[u8]>) -> InstallState {
    let entries = client.entries(binary);
    let missing = |events: Vec<&'static str>| InstallState::Missing {
        events: events.into_iter().map(str::to_owned).collect(),
    };
    let text = match text_of(now.unwrap_or_default()) {
        Ok(text) if text.trim_ascii().is_empty() => {
            return missing(entries.iter().map(|(event, _)| *event).collect());
        }
        Ok(text) => text,
        Err(error) => return InstallState::Changed { reason: error.to_string() },
    };
    let root = match checked(client, text) {
        Ok(root) => root,
        Err(error) => return InstallState::Changed { reason: error.to_string() },
    };
    if let Some((reason, _)) = client.disabled(&root, binary) {
        return InstallState::Disabled { reason };
    }
    let found: Vec<_> = entries
        .iter()
        .map(|(event, entry)| (*event, entry, places(client, &root, event, entry)))
        .collect();
    let absent: Vec<_> =
        found.iter().filter(|(_, _, it)| it.is_empty()).map(|(event, _, _)| *event).collect();
    if !absent.is_empty() {
        return missing(absent);
    }
    let changed = found.iter().find(|(_, _, places)| !places.is_right());
    changed.map_or(InstallState::Installed, |(event, entry, places)| InstallState::Changed {
        reason: format!("`{event}`: {}", change(&root, event, entry, places)),
    })
}

/// In what way our entry of an event is not as it should be.
fn change(root: &Node, event: &str, entry: &Json, places: &Places) -> String {
    let groups = root.get("hooks").and_then(|hooks| hooks.get(event)).and_then(Node::elements);
    let wrong = places.wrong.first().and_then(|index| groups?.get(*index));
    let Some(group) = wrong else {
        return if places.mixed.is_empty() {
            "our hook is there more than once".to_owned()
        } else {
            "our hook is in a group of other hooks".to_owned()
        };
    };
    let hooks = group.get("hooks").and_then(Node::elements).unwrap_or(&[]);
    let ours = entry.get("hooks").and_then(|hooks| match hooks {
        Json::Array(hooks) => hooks.first(),
        Json::Number(_) | Json::Text(_) | Json::Object(_) => None,
    });
    let in_hook = hooks.first().zip(ours).and_then(|(node, json)| json.difference(node));
    in_hook
        .or_else(|| entry.difference(group))
        .unwrap_or_else(|| "our hook is there more than once".to_owned())
}
