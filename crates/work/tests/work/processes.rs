//! Many processes at one file, and processes that are killed.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use windlass_work::{Change, LinkKind, NewItem, Status, Tracker};

use crate::tracker;

const FILE: &str = "WINDLASS_TEST_WORK_FILE";
const COUNT: &str = "WINDLASS_TEST_WORK_COUNT";
const WRITERS: usize = 8;
const ITEMS: usize = 25;

/// Not a test of its own: what the other tests start as a process.
#[test]
fn writer() {
    let (Ok(path), Ok(count)) = (std::env::var(FILE), std::env::var(COUNT)) else { return };
    let tracker = tracker(Path::new(&path));
    let mut last: Option<String> = None;
    for number in 0..count.parse::<usize>().unwrap() {
        let new = NewItem {
            labels: vec!["a".to_owned(), "b".to_owned()],
            ..NewItem::task(format!("{} {number}", std::process::id()))
        };
        let created = tracker.create(&new).unwrap();
        if let Some(last) = &last {
            tracker.link(last, &created.id, LinkKind::Blocks).unwrap();
            tracker.close(last, "done").unwrap();
        }
        let change = Change { status: Some(Status::InProgress), ..Change::default() };
        tracker.update(&created.id, &change).unwrap();
        last = Some(created.id);
    }
}

fn start(path: &Path, count: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::writer"])
        .env(FILE, path)
        .env(COUNT, count.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn check_integrity(path: &Path) {
    let connection = rusqlite::Connection::open(path).unwrap();
    let checked: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(checked, "ok");
    let broken: i64 = connection
        .query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(broken, 0);
}

#[test]
fn eight_processes_create_items_at_once() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("work.db");
    // The file is created by whichever comes first.
    let writers: Vec<Child> = (0..WRITERS).map(|_| start(&path, ITEMS)).collect();
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    let tracker = tracker(&path);
    let all = tracker.recent(usize::MAX).unwrap();
    assert_eq!(all.len(), WRITERS * ITEMS);
    let ids: BTreeSet<_> = all.iter().map(|item| &item.id).collect();
    assert_eq!(ids.len(), WRITERS * ITEMS);
    let open = tracker.open(usize::MAX).unwrap();
    assert_eq!(open.len(), WRITERS);
    for item in &open {
        assert_eq!((item.status, item.blockers.len()), (Status::InProgress, 0));
    }
    check_integrity(&path);
}

#[test]
fn eight_threads_share_one_tracker() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("work.db");
    let tracker = tracker(&path);
    std::thread::scope(|scope| {
        for thread in 0..WRITERS {
            let tracker = &tracker;
            scope.spawn(move || {
                for number in 0..ITEMS {
                    tracker.create(&NewItem::task(format!("{thread} {number}"))).unwrap();
                }
            });
        }
    });
    assert_eq!(tracker.open(usize::MAX).unwrap().len(), WRITERS * ITEMS);
}

#[test]
fn a_killed_writer_leaves_whole_items() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("work.db");
    for round in 1..=10 {
        let mut writer = start(&path, usize::MAX);
        // Killed when it has written some more items, wherever it is then.
        let enough = |path: &Path| {
            path.exists() && {
                let tracker = tracker(path);
                tracker.recent(usize::MAX).unwrap().len() >= round * 5
            }
        };
        while !enough(&path) {
            assert!(writer.try_wait().unwrap().is_none(), "the writer ended by itself");
            std::thread::sleep(std::time::Duration::from_millis(u64::try_from(round).unwrap()));
        }
        writer.kill().unwrap();
        writer.wait().unwrap();
        check_integrity(&path);
        let tracker = tracker(&path);
        for item in tracker.recent(usize::MAX).unwrap() {
            // An item has its labels from the start, and a closed one its reason.
            assert_eq!(item.labels, ["a", "b"]);
            assert_eq!(item.status == Status::Closed, item.close_reason.is_some());
        }
        tracker
            .create(&NewItem { labels: vec!["a".into(), "b".into()], ..NewItem::task("after") })
            .unwrap();
    }
}
