//! What the core loop writes to the tracker.

use std::time::{Duration, Instant};

use windlass_sessions::core::{CoreNote, CoreState, Delivery, DeliveryKind};
use windlass_work::{Change, Item, Kind, LinkKind, NewItem, Status, Tracker, WorkError};

/// How many items are looked through for one that was made before.
const LOOKED_THROUGH: usize = 200;
/// The longest text of an item.
const TEXT_CHARS_MAX: usize = 8000;

/// How long is written at once.
const DELIVERING_MAX: Duration = Duration::from_secs(8);

/// Writes what waits, oldest first, up to the first that must wait longer; returns what was written.
pub fn deliver(tracker: &dyn Tracker, run: &str, user: &str, state: &CoreState) -> Vec<CoreNote> {
    let mut notes = Vec::new();
    let mut items = state.items.clone();
    let begun = Instant::now();
    for one in &state.undelivered {
        // A slow tracker does not take all of the time that a hook has.
        if begun.elapsed() > DELIVERING_MAX {
            break;
        }
        let prompt = one.prompt().unwrap_or(state.prompt);
        let work = items.get(&format!("work/{prompt}")).cloned();
        match write(tracker, run, user, one, work.as_deref()) {
            Ok(item) => {
                items.insert(one.key.clone(), item.clone());
                notes.push(CoreNote::Delivered { key: one.key.clone(), item });
            }
            // It is tried again at the next prompt.
            Err(error) if error.may_retry() => break,
            // It will never be written; the journal has it.
            Err(error) => {
                let item = format!("refused: {error}");
                notes.push(CoreNote::Delivered { key: one.key.clone(), item });
            }
        }
    }
    notes
}

fn write(
    tracker: &dyn Tracker,
    run: &str,
    user: &str,
    one: &Delivery,
    work: Option<&str>,
) -> Result<String, WorkError> {
    let text: String = one.text.chars().take(TEXT_CHARS_MAX).collect();
    let kind = match one.kind {
        DeliveryKind::Step => {
            let Some(work) = work else { return Ok(String::new()) };
            let item = tracker.show(work)?;
            let said = format!("- {}", one.title);
            if item.description.lines().any(|line| line == said) {
                return Ok(item.id);
            }
            let line = format!("{}\n{said}", item.description);
            let change = Change {
                status: Some(Status::InProgress),
                description: Some(line.chars().take(TEXT_CHARS_MAX).collect()),
                ..Change::default()
            };
            return tracker.update(work, &change).map(|item| item.id);
        }
        DeliveryKind::WorkDone => {
            let Some(work) = work else { return Ok(String::new()) };
            let reason = if text.is_empty() { "done" } else { &text };
            return tracker.close(work, reason).map(|item| item.id);
        }
        DeliveryKind::Improvement => Kind::Feature,
        DeliveryKind::Block => Kind::Bug,
        DeliveryKind::Work | DeliveryKind::Reflection | DeliveryKind::Learning => Kind::Task,
    };
    // One that was made by a process that died before it could record it.
    let label = label(run, &one.key);
    if let Some(made) = with_label(tracker, &label)? {
        return Ok(made.id);
    }
    let item = tracker.create(&NewItem {
        title: one.title.clone(),
        kind,
        assignee: (one.kind == DeliveryKind::Work).then(|| user.to_owned()),
        priority: if one.kind == DeliveryKind::Block { 0 } else { 2 },
        description: format!("{text}\n\nSession: {run}"),
        labels: vec![label, format!("session-{run}")],
    })?;
    if let Some(work) = work.filter(|_| one.kind != DeliveryKind::Work) {
        // The label says which session it is of, so that it is found without the link, too.
        drop(tracker.link(&item.id, work, LinkKind::Related));
    }
    Ok(item.id)
}

/// What an item is found by that was made for something of a session.
fn label(run: &str, key: &str) -> String {
    let digest = windlass_kernel::Digest::of(format!("{run}/{key}").as_bytes());
    let short: String = digest.to_string().chars().take(16).collect();
    format!("windlass-{short}")
}

fn with_label(tracker: &dyn Tracker, label: &str) -> Result<Option<Item>, WorkError> {
    let items = tracker.recent(LOOKED_THROUGH)?;
    Ok(items.into_iter().find(|item| item.labels.iter().any(|one| one == label)))
}
