//! The built-in tracker in one process.

use windlass_work::{
    BuiltIn, Change, Item, Kind, LABELS_MAX, LinkKind, NewItem, Prefix, Status, Tracker, WorkError,
};

use crate::{PATIENT, ids, tracker};

struct Fixture {
    _folder: tempfile::TempDir,
    tracker: BuiltIn,
}

fn fixture() -> Fixture {
    let folder = tempfile::TempDir::new().unwrap();
    let tracker = tracker(&folder.path().join("work.db"));
    Fixture { _folder: folder, tracker }
}

impl Fixture {
    fn create(&self, title: &str, priority: u8) -> String {
        let new = NewItem { priority, ..NewItem::task(title) };
        self.tracker.create(&new).unwrap().id
    }

    fn block(&self, from: &str, to: &str) {
        self.tracker.link(from, to, LinkKind::Blocks).unwrap();
    }
}

fn reason(error: WorkError) -> String {
    let WorkError::Invalid { reason } = error else { panic!("{error:?}") };
    reason
}

#[test]
fn an_item_is_stored_as_it_was_given() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("work.db");
    let new = NewItem {
        title: "Fix 'quotes' \"and\" ; DROP TABLE items; --".to_owned(),
        kind: Kind::Bug,
        assignee: Some("ann@example.org".to_owned()),
        priority: 0,
        description: "line 1\nline 2\t\u{1f600}".to_owned(),
        labels: vec!["b".to_owned(), "a".to_owned(), "b".to_owned()],
    };
    let created = tracker(&path).create(&new).unwrap();
    let expected = Item {
        id: created.id.clone(),
        title: new.title.clone(),
        kind: Kind::Bug,
        status: Status::Open,
        assignee: new.assignee.clone(),
        priority: 0,
        description: new.description.clone(),
        labels: vec!["a".to_owned(), "b".to_owned()],
        blockers: Vec::new(),
        links: Vec::new(),
        created_at: created.created_at.clone(),
        updated_at: created.created_at.clone(),
        closed_at: None,
        close_reason: None,
    };
    assert_eq!(created, expected);
    assert!(created.id.starts_with("ws-") && created.id.len() == 7, "{}", created.id);
    assert!(created.created_at.ends_with('Z') && created.created_at.len() == 24);
    // Another process reads the same, and so does serde.
    assert_eq!(tracker(&path).show(&created.id).unwrap(), expected);
    let json = serde_json::to_value(&expected).unwrap();
    assert_eq!((json["kind"].as_str(), json["status"].as_str()), (Some("bug"), Some("open")));
    assert_eq!(serde_json::from_value::<Item>(json).unwrap(), expected);
}

#[test]
fn lists_have_their_order_and_limit() {
    let fixture = fixture();
    let low = fixture.create("low", 3);
    let high = fixture.create("high", 1);
    let other = fixture.create("also high", 1);
    let done = fixture.create("done", 0);
    fixture.tracker.close(&done, "done").unwrap();
    assert_eq!(ids(&fixture.tracker.open(9).unwrap()), [&high, &other, &low]);
    assert_eq!(ids(&fixture.tracker.open(1).unwrap()), [&high]);
    assert_eq!(fixture.tracker.open(0).unwrap(), []);
    let change = Change { assignee: Some("ann".to_owned()), ..Change::default() };
    // The times have milliseconds: this change must be later than the others.
    std::thread::sleep(std::time::Duration::from_millis(2));
    fixture.tracker.update(&low, &change).unwrap();
    assert_eq!(ids(&fixture.tracker.assigned("ann", 9).unwrap()), [&low]);
    assert_eq!(fixture.tracker.assigned("bob", 9).unwrap(), []);
    assert_eq!(fixture.tracker.recent(9).unwrap().len(), 4);
    assert_eq!(ids(&fixture.tracker.recent(usize::MAX).unwrap())[0], low);
}

#[test]
fn a_change_keeps_what_it_does_not_name() {
    let fixture = fixture();
    let id = fixture.create("old", 2);
    let change = Change {
        title: Some("new".to_owned()),
        status: Some(Status::InProgress),
        labels_added: vec!["x".to_owned(), "y".to_owned()],
        assignee: Some("ann".to_owned()),
        ..Change::default()
    };
    let before = fixture.tracker.show(&id).unwrap();
    let after = fixture.tracker.update(&id, &change).unwrap();
    let expected = Item {
        title: "new".to_owned(),
        status: Status::InProgress,
        labels: vec!["x".to_owned(), "y".to_owned()],
        assignee: Some("ann".to_owned()),
        updated_at: after.updated_at.clone(),
        ..before
    };
    assert_eq!(after, expected);
    let change = Change {
        labels_removed: vec!["x".to_owned()],
        assignee: Some(String::new()),
        priority: Some(4),
        kind: Some(Kind::Chore),
        description: Some("D".to_owned()),
        ..Change::default()
    };
    let last = fixture.tracker.update(&id, &change).unwrap();
    let expected = Item {
        labels: vec!["y".to_owned()],
        assignee: None,
        priority: 4,
        kind: Kind::Chore,
        description: "D".to_owned(),
        updated_at: last.updated_at.clone(),
        ..expected
    };
    assert_eq!(last, expected);
}

#[test]
fn closing_keeps_the_first_reason_and_a_status_opens_again() {
    let fixture = fixture();
    let id = fixture.create("x", 2);
    let closed = fixture.tracker.close(&id, "done").unwrap();
    assert_eq!((closed.status, closed.close_reason.as_deref()), (Status::Closed, Some("done")));
    assert!(closed.closed_at.is_some());
    assert_eq!(fixture.tracker.close(&id, "again").unwrap(), closed);
    let change = Change { status: Some(Status::Open), ..Change::default() };
    let opened = fixture.tracker.update(&id, &change).unwrap();
    assert_eq!((opened.status, opened.closed_at, opened.close_reason), (Status::Open, None, None));
}

#[test]
fn blockers_block_until_they_are_closed() {
    let fixture = fixture();
    let (first, second, third) =
        (fixture.create("1", 2), fixture.create("2", 2), fixture.create("3", 2));
    fixture.block(&first, &third);
    fixture.block(&second, &third);
    fixture.block(&first, &third);
    let blocked = fixture.tracker.blocked(9).unwrap();
    assert_eq!(ids(&blocked), [&third]);
    assert_eq!(blocked[0].blockers, [first.clone(), second.clone()]);
    assert_eq!(fixture.tracker.show(&first).unwrap().links, [format!("blocks:{third}")]);
    fixture.tracker.close(&first, "done").unwrap();
    let show = fixture.tracker.show(&third).unwrap();
    assert_eq!(show.blockers, [second.as_str()]);
    assert_eq!(show.links, [format!("blocked-by:{first}")]);
    fixture.tracker.close(&second, "done").unwrap();
    assert_eq!(fixture.tracker.blocked(9).unwrap(), []);
    let change = Change { status: Some(Status::Blocked), ..Change::default() };
    fixture.tracker.update(&third, &change).unwrap();
    assert_eq!(ids(&fixture.tracker.blocked(9).unwrap()), [&third]);
}

#[test]
fn cycles_are_refused() {
    let fixture = fixture();
    let (a, b, c) = (fixture.create("a", 2), fixture.create("b", 2), fixture.create("c", 2));
    fixture.block(&a, &b);
    fixture.block(&b, &c);
    for (from, to) in [(&c, &a), (&b, &a), (&c, &b)] {
        let error = fixture.tracker.link(from, to, LinkKind::Blocks).unwrap_err();
        assert_eq!(reason(error), format!("`{from}` and `{to}` would block each other"));
    }
    fixture.tracker.link(&a, &a, LinkKind::Related).unwrap_err();
    // Another kind of link is another graph.
    fixture.tracker.link(&c, &a, LinkKind::Parent).unwrap();
    fixture.tracker.link(&a, &c, LinkKind::Parent).unwrap_err();
    assert_eq!(
        reason(fixture.tracker.link(&b, &a, LinkKind::Parent).unwrap_err()),
        format!("`{a}` has the parent `{c}`")
    );
    fixture.tracker.link(&a, &c, LinkKind::Related).unwrap();
    fixture.tracker.link(&c, &a, LinkKind::Related).unwrap();
    let mut expected = vec![format!("blocks:{b}"), format!("parent:{c}"), format!("related:{c}")];
    expected.sort();
    assert_eq!(fixture.tracker.show(&a).unwrap().links, expected);
}

#[test]
fn what_is_not_there_is_not_found() {
    let fixture = fixture();
    let id = fixture.create("x", 2);
    let missing = WorkError::NotFound { id: "ws-none".to_owned() };
    assert!(!missing.may_retry());
    assert_eq!(fixture.tracker.show("ws-none"), Err(missing.clone()));
    assert_eq!(fixture.tracker.close("ws-none", "x"), Err(missing.clone()));
    let change = Change { priority: Some(1), ..Change::default() };
    assert_eq!(fixture.tracker.update("ws-none", &change), Err(missing.clone()));
    let linked = fixture.tracker.link(&id, "ws-none", LinkKind::Blocks);
    assert_eq!(linked, Err(missing));
}

#[test]
fn a_refused_change_leaves_nothing() {
    let fixture = fixture();
    let labels = |range: std::ops::Range<usize>| range.map(|n| format!("l{n}")).collect();
    let new = NewItem { labels: labels(0..LABELS_MAX), ..NewItem::task("x") };
    let before = fixture.tracker.create(&new).unwrap();
    let change = Change {
        title: Some("other".to_owned()),
        labels_added: labels(LABELS_MAX..LABELS_MAX + 1),
        ..Change::default()
    };
    let refused = fixture.tracker.update(&before.id, &change).unwrap_err();
    assert_eq!(reason(refused), "an item has at most 32 labels");
    assert_eq!(fixture.tracker.show(&before.id).unwrap(), before);
}

#[test]
fn the_prefix_is_configurable_and_sync_says_what_it_does() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("work.db");
    let tracker = BuiltIn::open(&path, "my-app".parse::<Prefix>().unwrap(), PATIENT).unwrap();
    assert!(tracker.create(&NewItem::task("x")).unwrap().id.starts_with("my-app-"));
    assert_eq!(tracker.name(), "built-in");
    assert!(tracker.sync().unwrap().contains("local file"));
}
