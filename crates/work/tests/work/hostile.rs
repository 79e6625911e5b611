//! Hostile texts and damaged files.

use std::time::Duration;

use windlass_work::{
    BuiltIn, Change, DESCRIPTION_BYTES_MAX, NewItem, Prefix, TITLE_BYTES_MAX, Tracker, WorkError,
};

use crate::{PATIENT, tracker};

#[test]
fn hostile_texts_are_refused_or_kept_exactly() {
    let folder = tempfile::TempDir::new().unwrap();
    let tracker = tracker(&folder.path().join("work.db"));
    let kept = [
        "'); DROP TABLE items; --".to_owned(),
        "\"*\" OR 1=1 %_ \\ $(id) `id` ${x} \u{202e}".to_owned(),
        "x".repeat(TITLE_BYTES_MAX),
        "--json".to_owned(),
        "NULL".to_owned(),
    ];
    for title in kept {
        let created = tracker.create(&NewItem::task(title.clone())).unwrap();
        assert_eq!(tracker.show(&created.id).unwrap().title, title);
    }
    let count = tracker.recent(usize::MAX).unwrap().len();
    let refused = ["", "a\0b", "a\nb", "\u{1b}[31m", &"x".repeat(TITLE_BYTES_MAX + 1)];
    for title in refused {
        let error = tracker.create(&NewItem::task(title)).unwrap_err();
        assert!(matches!(error, WorkError::Invalid { .. }), "{error:?}");
    }
    let description = "\u{1f600}".repeat(DESCRIPTION_BYTES_MAX / 4);
    let new = NewItem { description: description.clone(), ..NewItem::task("long") };
    assert_eq!(tracker.create(&new).unwrap().description, description);
    let new = NewItem { description: format!("{description}x"), ..NewItem::task("long") };
    tracker.create(&new).unwrap_err();
    assert_eq!(tracker.recent(usize::MAX).unwrap().len(), count + 1);
    for id in ["' OR 1=1 --", "", "ws-%", "../x", "-h"] {
        let change = Change { priority: Some(1), ..Change::default() };
        assert!(matches!(tracker.show(id), Err(WorkError::Invalid { .. })), "{id}");
        assert!(matches!(tracker.update(id, &change), Err(WorkError::Invalid { .. })), "{id}");
    }
}

#[test]
fn other_files_are_refused_and_stay_as_they_are() {
    let folder = tempfile::TempDir::new().unwrap();
    let other = folder.path().join("other.db");
    rusqlite::Connection::open(&other)
        .unwrap()
        .execute_batch("CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1);")
        .unwrap();
    let newer = folder.path().join("newer.db");
    drop(tracker(&newer));
    rusqlite::Connection::open(&newer).unwrap().pragma_update(None, "user_version", 2).unwrap();
    let text = folder.path().join("text.db");
    std::fs::write(&text, "title: not a database\n".repeat(100)).unwrap();
    for (path, expected) in [
        (&other, "something else"),
        (&newer, "format 2"),
        (&text, "not a database"),
        (&folder.path().to_owned(), "unable to open"),
    ] {
        let before = std::fs::read(path).ok();
        let error = BuiltIn::open(path, Prefix::default(), PATIENT).unwrap_err();
        let WorkError::Unavailable { reason } = &error else { panic!("{error:?}") };
        assert!(reason.contains(expected), "{reason}");
        assert_eq!(std::fs::read(path).ok(), before);
    }
}

#[test]
fn a_damaged_file_is_an_error_and_no_panic() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("work.db");
    {
        let tracker = tracker(&path);
        for number in 0..200 {
            tracker.create(&NewItem::task(format!("item {number}"))).unwrap();
        }
        tracker.sync().unwrap();
    }
    let whole = std::fs::read(&path).unwrap();
    for start in (0..whole.len()).step_by(4096) {
        let mut damaged = whole.clone();
        for byte in damaged.iter_mut().skip(start).take(512) {
            *byte ^= 0x5a;
        }
        let path = folder.path().join(format!("damaged-{start}.db"));
        std::fs::write(&path, damaged).unwrap();
        // Whatever the damage is, the answer is a list or a reason.
        let listed = BuiltIn::open(&path, Prefix::default(), PATIENT)
            .and_then(|tracker| tracker.recent(usize::MAX));
        match listed {
            Ok(items) => assert!(items.len() <= 200),
            Err(WorkError::Unavailable { reason }) => assert!(!reason.is_empty()),
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_locked_file_passes_the_deadline() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("work.db");
    drop(tracker(&path));
    let mut holder = rusqlite::Connection::open(&path).unwrap();
    let held = holder.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    let deadline = Duration::from_millis(50);
    let tracker = BuiltIn::open(&path, Prefix::default(), deadline).unwrap();
    let error = tracker.create(&NewItem::task("x")).unwrap_err();
    assert_eq!(error, WorkError::DeadlinePassed { limit: deadline });
    assert!(error.may_retry());
    // Reading needs no lock.
    assert_eq!(tracker.open(9).unwrap(), []);
    drop(held);
    tracker.create(&NewItem::task("x")).unwrap();
}
