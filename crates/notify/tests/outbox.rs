//! Notifications from their creation to their end, with commands as receivers and a clock that tests set.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

use windlass_kernel::notification::{Created, Delivery, Kind, Notification};
use windlass_kernel::{Digest, HolderId, Timestamp, TraceId, Uuid7};
use windlass_notify::{
    Links, NotifyError, Outbox, Pass, ProjectName, Receiver, Subject, Target, is_due, list,
    next_due, read,
};
use windlass_redact::Redactor;
use windlass_runtime::Clock;
use windlass_store::{MemoryStore, Shared, Store, TraceFilter};

#[derive(Default)]
struct TestClock {
    ms: AtomicI64,
    next: AtomicU8,
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(1_700_000_000_000 + self.ms.load(Ordering::Relaxed)).unwrap()
    }

    fn new_id(&self) -> Uuid7 {
        Uuid7::from_parts(1, [self.next.fetch_add(1, Ordering::Relaxed); 10])
    }
}

struct NoLinks;

impl Links for NoLinks {
    fn address(&self, _: &Created) -> Option<String> {
        None
    }

    fn link(&self, _: &str, _: &str, _: Digest, _: Option<Timestamp>) -> Option<String> {
        None
    }
}

fn shell(name: &str, line: &str, folder: &Path) -> Receiver {
    let argv = ["sh", "-c", line].map(str::to_owned).to_vec();
    let target = Ok(Target::Command { argv, folder: folder.to_owned(), secret: None });
    Receiver { name: name.to_owned(), on: BTreeSet::from([Kind::Test]), target, person: None }
}

struct World {
    store: Arc<dyn Store>,
    clock: TestClock,
    redactor: Redactor,
    project: ProjectName,
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        Self {
            store: Arc::new(MemoryStore::open(
                &Shared::default(),
                HolderId(Uuid7::from_parts(1, [9; 10])),
            )),
            clock: TestClock::default(),
            redactor: Redactor::new([("KEY".to_owned(), "hunter22".to_owned())]),
            project: ProjectName { id: "p".to_owned(), name: "project".to_owned() },
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn outbox<'a>(&'a self, receivers: &'a [Receiver]) -> Outbox<'a> {
        Outbox {
            store: Arc::clone(&self.store),
            receivers,
            redactor: &self.redactor,
            clock: &self.clock,
            project: &self.project,
            links: &NoLinks,
            configured_at: self.clock.now(),
        }
    }

    fn subject(&self) -> Subject {
        Subject::test("ada", "one".to_owned(), self.clock.now())
    }

    fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join("told")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn read(&self, id: TraceId) -> Notification {
        read(self.store.as_ref(), id).unwrap()
    }
}

const TELL: &str = "cat >> told; echo >> told";

#[test]
fn a_command_gets_the_message_once() {
    let world = World::new();
    let receivers = [shell("desk", TELL, world.folder.path())];
    let outbox = world.outbox(&receivers);
    assert_eq!(outbox.create(&world.subject()).unwrap(), 1);
    assert_eq!(outbox.create(&world.subject()).unwrap(), 0, "it exists");
    assert_eq!(outbox.send_due().unwrap().delivered, 1);
    assert_eq!(outbox.send_due().unwrap().delivered, 0);
    let lines = world.lines();
    assert_eq!(lines.len(), 1);
    let told: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!((&told["kind"], &told["attempt"]), (&"test".into(), &1.into()));
}

#[test]
fn a_failure_is_retried_later_and_given_up_in_the_end() {
    let world = World::new();
    let receivers = [shell("desk", "echo no hunter22 >&2; exit 3", world.folder.path())];
    let outbox = world.outbox(&receivers);
    let id = outbox.create_for("desk", &world.subject()).unwrap();
    for (number, seconds) in [10, 60, 300, 1800, 7200].into_iter().enumerate() {
        let pass = outbox.send_due().unwrap();
        let expected = world.clock.now().unix_ms() + seconds * 1000;
        assert_eq!(pass.next.map(Timestamp::unix_ms), Some(expected), "{number}");
        assert_eq!((pass.failed, outbox.send_due().unwrap().failed), (1, 0), "{number}");
        world.clock.ms.fetch_add(seconds * 1000, Ordering::Relaxed);
    }
    let pass = outbox.send_due().unwrap();
    assert_eq!((pass.failed, pass.given_up, pass.next), (0, 1, None));
    let one = world.read(id);
    assert_eq!((one.attempts, matches!(one.delivery, Delivery::GivenUp { .. })), (6, true));
    let reason = one.failure.unwrap().reason;
    assert!(reason.contains("status 3: no [redacted:KEY]"), "{reason}");
    outbox.request(id, "ada").unwrap();
    assert!(matches!(outbox.request(id, "ada"), Err(NotifyError::IsDue { .. })));
    assert_eq!(outbox.send_due().unwrap().failed, 1, "it begins anew");
}

#[test]
fn a_receiver_that_is_gone_ends_its_notifications() {
    let world = World::new();
    let receivers = [shell("desk", TELL, world.folder.path())];
    let id = world.outbox(&receivers).create_for("desk", &world.subject()).unwrap();
    let pass = world.outbox(&[]).send_due().unwrap();
    assert_eq!((pass.given_up, world.lines().len()), (1, 0));
    assert_eq!(world.read(id).attempts, 0);
    let missing = world.outbox(&[]).create_for("desk", &world.subject());
    assert!(matches!(missing, Err(NotifyError::NoReceiver { .. })));
}

#[test]
fn a_receiver_is_registered_once_and_its_record_is_never_sent() {
    let world = World::new();
    let receivers = [shell("desk", TELL, world.folder.path())];
    let outbox = world.outbox(&receivers);
    let now = world.clock.now();
    let due = || is_due(world.store.as_ref(), &receivers, &[], now).unwrap();
    assert!(due(), "a new receiver is to be recorded");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| outbox.register().unwrap());
        }
    });
    assert!(!due());
    // Later settings do not move the time.
    world.clock.ms.fetch_add(5_000, Ordering::Relaxed);
    world.outbox(&receivers).register().unwrap();
    assert_eq!(outbox.send_due().unwrap(), Pass::default());
    assert_eq!(list(world.store.as_ref(), 10).unwrap().found, Vec::new());
    assert_eq!(next_due(world.store.as_ref()).unwrap(), None);
    let all = TraceFilter::all(10);
    assert_eq!(world.store.list_traces(&all).unwrap().len(), 1);
}

#[test]
fn many_senders_at_once_tell_it_once() {
    let world = World::new();
    let receivers = [shell("desk", TELL, world.folder.path())];
    let outbox = world.outbox(&receivers);
    let subjects: Vec<Subject> =
        (0..5).map(|number| Subject::test("ada", format!("{number}"), world.clock.now())).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for subject in &subjects {
                    outbox.create(subject).unwrap();
                }
                outbox.send_due().unwrap();
            });
        }
    });
    assert_eq!(outbox.send_due().unwrap().failed, 0);
    assert_eq!(world.lines().len(), subjects.len());
}
