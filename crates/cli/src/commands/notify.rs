//! `windlass notify`: tells receivers what happened, and lists what they were told.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_kernel::notification::{Delivery, Notification};
use windlass_kernel::{Timestamp, TraceId};
use windlass_notify::{Listed, Lookout, Pass, Subject, list, next_due, read};
use windlass_runtime::{Clock as _, SystemClock};
use windlass_store::Store;

use crate::args::Notify;
use crate::commands::trace::note_unreadable;
use crate::commands::trace_id;
use crate::failure::{CommandResult, Failure};
use crate::notify::Notifier;
use crate::output::{Output, Style, sanitize};
use crate::project::Project;
use crate::setup::actor_name;

/// `--wait` stays as long as something is due within this time.
const WAIT_MAX: Duration = Duration::from_secs(600);
/// How often whoever waits looks for what others left to it. The first pause after a failure is twice as long.
const LOOK: Duration = Duration::from_secs(5);
/// The shortest pause between two looks.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// Runs a subcommand of `notify`.
pub fn run(project: &Project, command: &Notify, output: &Output) -> CommandResult {
    match command {
        Notify::Send { wait, trace } => {
            let named: Vec<TraceId> =
                trace.iter().map(|text| trace_id(text)).collect::<Result<_, _>>()?;
            send(project, *wait, &named, output)
        }
        Notify::List { limit } => {
            show_all(project, usize::try_from(*limit).unwrap_or(usize::MAX), output)
        }
        Notify::Test { name, by } => {
            let notifier = Notifier::open(project)?;
            let by = actor_name(by.as_deref());
            let mark = SystemClock.new_id().to_string();
            let subject = Subject::test(&by, mark, SystemClock.now());
            let id = notifier.outbox().create_for(name, &subject)?;
            settle(&notifier, id, output)
        }
        Notify::Again { id, by } => {
            let notifier = Notifier::open(project)?;
            let id = trace_id(id)?;
            notifier.outbox().request(id, &actor_name(by.as_deref()))?;
            settle(&notifier, id, output)
        }
    }
}

/// Creates what there is to tell and sends what is due.
fn send(project: &Project, wait: bool, named: &[TraceId], output: &Output) -> CommandResult {
    let notifier = Notifier::open(project)?;
    let mut all = pass(&notifier, named)?;
    if wait {
        stay(project, &notifier, &mut all)?;
    }
    if output.json {
        output.value(&json!({
            "delivered": all.delivered, "failed": all.failed, "given_up": all.given_up, "next": all.next,
        }))?;
    } else {
        output.line(&format!(
            "{} delivered, {} failed, {} given up",
            all.delivered, all.failed, all.given_up
        ));
        if let Some(next) = all.next {
            output.note(&format!("the next attempt is due at {next}"));
        }
    }
    Ok(0)
}

/// Stays for what has to be sent again soon. One process of a project does so: to it, all others leave what they could
/// not deliver.
fn stay(project: &Project, notifier: &Notifier, all: &mut Pass) -> Result<(), Failure> {
    let store = notifier.store.as_ref();
    while soon(all.next).is_some() {
        let Some(waiting) = notifier.wait() else { return Ok(()) };
        while let Some(left) = soon(all.next) {
            std::thread::sleep(left.clamp(PAUSE_MIN, LOOK));
            if next_due(store)?.is_some_and(|next| next <= SystemClock.now()) {
                // With the settings as they are now: a receiver may have come, gone or changed since.
                let pass = pass(&Notifier::open(project)?, &[])?;
                all.delivered += pass.delivered;
                all.failed += pass.failed;
                all.given_up += pass.given_up;
            }
            all.next = next_due(store)?;
        }
        drop(waiting);
        // INVARIANT: whoever found the lock taken had recorded its failure before, so that it is seen now.
        all.next = next_due(store)?;
    }
    Ok(())
}

/// How long it is until then, if somebody stays for it.
fn soon(next: Option<Timestamp>) -> Option<Duration> {
    let ms = next?.unix_ms().saturating_sub(SystemClock.now().unix_ms());
    Some(Duration::from_millis(u64::try_from(ms).unwrap_or_default())).filter(|ms| *ms < WAIT_MAX)
}

fn pass(notifier: &Notifier, named: &[TraceId]) -> Result<Pass, Failure> {
    let outbox = notifier.outbox();
    if notifier.has_receivers() {
        outbox.register()?;
        let store = notifier.store.as_ref();
        for subject in Lookout::default().look(store, SystemClock.now(), named)? {
            outbox.create(&subject)?;
        }
    }
    Ok(outbox.send_due()?)
}

/// Sends what is due, and shows what became of one notification.
fn settle(notifier: &Notifier, id: TraceId, output: &Output) -> CommandResult {
    notifier.outbox().send_due()?;
    let one = read(notifier.store.as_ref(), id)?;
    let is_delivered = matches!(one.delivery, Delivery::Delivered { .. });
    match output.json {
        true => output.value(&describe(&one))?,
        false => {
            let (words, style) = words(&one);
            output.line(&format!("{id}: {}", output.paint(&words, style)));
        }
    }
    Ok(u8::from(!is_delivered))
}

fn show_all(project: &Project, limit: usize, output: &Output) -> CommandResult {
    let config = project.settings()?;
    let store = project.store_to_read(&config)?;
    let Listed { found, unreadable } = list(&store as &dyn Store, limit)?;
    note_unreadable(unreadable, output);
    if output.json {
        let receivers: Vec<Value> = config
            .notify
            .iter()
            .map(|(name, one)| {
                json!({ "name": name, "on": one.kinds(), "way": one.way(), "person": one.person })
            })
            .collect();
        let found: Vec<Value> = found.iter().map(describe).collect();
        output.value(&json!({ "receivers": receivers, "notifications": found }))?;
        return Ok(0);
    }
    if config.notify.is_empty() {
        output.note("this project has no receivers; `windlass notify --help` shows how to add one");
    }
    let rows: Vec<_> = config
        .notify
        .iter()
        .map(|(name, one)| {
            let on: Vec<&str> = one.kinds().iter().map(|kind| kind.as_str()).collect();
            vec![(name.clone(), None), (sanitize(&one.way()), None), (on.join(" "), None)]
        })
        .collect();
    if !rows.is_empty() {
        output.table(&["RECEIVER", "TO", "ON"], &rows);
    }
    let rows: Vec<_> = found
        .iter()
        .filter_map(|one| {
            let created = one.created.as_ref()?;
            let (words, style) = words(one);
            Some(vec![
                (one.head.trace_id.to_string(), None),
                (created.receiver.clone(), None),
                (created.message.kind.as_str().to_owned(), None),
                (sanitize(&words), Some(style)),
            ])
        })
        .collect();
    if !rows.is_empty() {
        output.line("");
        output.table(&["ID", "RECEIVER", "ABOUT", "STATE"], &rows);
    }
    Ok(0)
}

/// The state of a delivery, in words.
fn words(one: &Notification) -> (String, Style) {
    let why = one.failure.as_ref().map(|failure| failure.reason.as_str()).unwrap_or_default();
    match &one.delivery {
        Delivery::Delivered { at, .. } => (format!("delivered at {at}"), Style::Good),
        Delivery::GivenUp { .. } => (format!("given up: {why}"), Style::Bad),
        Delivery::Attempting { since } => (format!("being sent since {since}"), Style::Warn),
        Delivery::Due { .. } if one.failure.is_none() => ("to be sent".to_owned(), Style::Warn),
        Delivery::Due { at } => {
            (format!("failed {} times, again at {at}: {why}", one.tries), Style::Warn)
        }
    }
}

/// A notification for programs, such as the dashboard.
fn describe(one: &Notification) -> Value {
    let (state, at, status): (&str, Timestamp, Option<u16>) = match &one.delivery {
        Delivery::Due { at } => ("due", *at, None),
        Delivery::Attempting { since } => ("attempting", *since, None),
        Delivery::Delivered { at, status } => ("delivered", *at, *status),
        Delivery::GivenUp { at } => ("given_up", *at, None),
    };
    let created = one.created.as_ref();
    let message = created.map(|created| &created.message);
    let failure = one.failure.as_ref().map(
        |failure| json!({ "at": failure.at, "reason": failure.reason, "status": failure.status }),
    );
    json!({
        "id": one.head.trace_id,
        "receiver": created.map(|created| &created.receiver),
        "kind": message.map(|message| message.kind),
        "run": message.and_then(|message| message.run.as_ref()),
        "title": message.map(|message| &message.title),
        "text": message.map(|message| &message.text),
        "happened_at": created.map(|created| created.about.at),
        "created_at": created.map(|created| created.at),
        "attempts": one.attempts,
        "state": state,
        "state_at": at,
        "status": status,
        "failure": failure,
    })
}
