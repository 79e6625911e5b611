//! Windlass's own refs: no command sees them, and what one says about them stays out of the repository.

use std::fs;
use std::path::Path;

use rustix::fs::inotify;
use windlass_workspace::TakenOver;

use crate::takeover::cell::Cell;

/// Adds refs of this many runs: half of them packed, the others in files.
fn add_runs(cell: &Cell, runs: usize) {
    let make = |kind: &str| {
        let each = format!(
            "seq {runs} | sed \"s|.*|create refs/windlass/{kind}-&/pre $(git rev-parse v1^{{tree}})|\""
        );
        cell.outside(&format!("{each} | git update-ref --stdin"));
    };
    make("packed");
    cell.outside("git pack-refs --all");
    make("loose");
}

/// How often a file or folder of `.git` is opened during an action, without the objects.
fn opened(cell: &Cell, act: impl FnOnce()) -> usize {
    fn watch(events: &impl std::os::fd::AsFd, folder: &Path) {
        inotify::add_watch(events, folder, inotify::WatchFlags::OPEN).unwrap();
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() && entry.file_name() != "objects" {
                watch(events, &entry.path());
            }
        }
    }
    let events = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    watch(&events, &cell.common());
    let mut buffer = [std::mem::MaybeUninit::uninit(); 64 * 1024];
    let mut reader = inotify::Reader::new(&events, &mut buffer);
    // Opening the folders to watch them counts as well.
    while reader.next().is_ok() {}
    act();
    let mut count = 0;
    while let Ok(event) = reader.next() {
        assert!(!event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW), "it was not counted");
        count += 1;
    }
    count
}

#[test]
fn what_is_read_does_not_grow_with_the_number_of_runs() {
    let count = |runs: usize| {
        let cell = Cell::new("sha1");
        add_runs(&cell, runs);
        let mut base = None;
        let before = opened(&cell, || base = Some(cell.baseline()));
        let base = base.unwrap();
        cell.inside("echo x > x && git add x && git commit -q -m inside && git branch own");
        let after = opened(&cell, || drop(cell.take_over(&base).unwrap()));
        assert_eq!(cell.outside("git log -1 --format=%s own"), "inside\n");
        let refs = cell.outside("git for-each-ref refs/windlass | wc -l");
        assert_eq!(refs.trim(), (2 * runs + 1).to_string());
        (before, after, serde_json::to_vec(&base).unwrap().len())
    };
    let few = count(1);
    assert!(few.0 > 0 && few.1 > 0, "{few:?}");
    assert_eq!(count(1500), few);
}

#[test]
fn a_command_sees_none_of_them() {
    for cell in [Cell::new("sha1"), Cell::new("sha256"), Cell::linked()] {
        add_runs(&cell, 3);
        let common = cell.common();
        fs::create_dir_all(common.join("logs/refs/windlass/run")).unwrap();
        fs::write(common.join("logs/refs/windlass/run/pre"), "log\n").unwrap();
        let kept = cell.outside("git for-each-ref refs/windlass");
        let base = cell.baseline();
        let seen = cell.inside(&format!(
            "git for-each-ref refs/windlass; git show-ref | grep windlass || true; \
             git rev-parse -q --verify refs/windlass/run/pre || true; cd {} && \
             grep -rl windlass packed-refs refs || true; ls refs logs/refs; \
             cat logs/refs/windlass/run/pre 2>&1 || true",
            common.display()
        ));
        assert!(!seen.replace("cat: logs/refs/windlass/run/pre: No such", "").contains("windlass"));
        assert_eq!(cell.take_over(&base).unwrap(), TakenOver::default());
        assert_eq!(cell.outside("git for-each-ref refs/windlass"), kept);
    }
}

#[test]
fn whoever_removes_all_refs_that_can_be_seen_removes_none_of_them() {
    for script in [
        "git update-ref -d refs/windlass/run/pre && git update-ref -d refs/windlass/loose-1/pre",
        "git for-each-ref --format='delete %(refname)' refs/tags refs/windlass | git update-ref --stdin",
        "rm -rf .git/refs/windlass .git/logs/refs/windlass",
        "git pack-refs --all --prune && git gc -q --prune=now",
    ] {
        let cell = Cell::new("sha1");
        add_runs(&cell, 3);
        let kept = cell.outside("git for-each-ref refs/windlass");
        let taken = cell.run(script);
        assert_eq!(taken.protected, Vec::<String>::new(), "{script}");
        assert_eq!(cell.outside("git for-each-ref refs/windlass"), kept, "{script}");
        cell.outside("git fsck --strict --no-dangling 2>&1");
    }
}

#[test]
fn a_first_snapshot_can_still_be_named_after_a_command_that_took_the_folders_name() {
    let cell = Cell::new("sha1");
    cell.outside("git update-ref -d refs/windlass/run/pre");
    let taken = cell.run("git update-ref refs/windlass HEAD && git branch refs/windlass");
    assert_eq!(taken.protected, ["refs/windlass"]);
    assert_eq!(cell.outside("git for-each-ref --format='%(refname)' refs/windlass"), "");
    cell.outside("git update-ref refs/windlass/run/pre HEAD");
    assert_eq!(
        cell.outside("git rev-parse refs/heads/refs/windlass HEAD | uniq | wc -l").trim(),
        "1"
    );
}
