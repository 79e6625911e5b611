//! One damaged project does not hide the others.

use serde_json::Value;
use windlass_testkit::eventually;

use crate::served::{Served, own_token, project_of};
use crate::world::{Repo, escalating, id_of};

const PAGES: [&str; 7] =
    ["/", "/runs", "/calls", "/grants", "/notifications", "/sessions", "/spend"];
const LISTS: [&str; 5] =
    ["/api/v1/holds", "/api/v1/runs", "/api/v1/calls", "/api/v1/sessions", "/api/v1/spend"];

/// Overwrites a part of a file in place.
fn overwrite(path: &std::path::Path, at: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt as _;
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, at).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn a_damaged_journal_is_named_and_the_other_projects_can_be_used() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    let other = repo.place.base().join("other");
    std::fs::create_dir_all(&other).unwrap();
    let path = other.to_str().unwrap();
    repo.windlass(&["-C", path, "init"]).exit(0);
    let call = ["-C", path, "call", "run", "shell/run", "--key", "k", "--args"];
    repo.windlass(&[&call[..], &["{\"line\":\"git push origin main\"}"]].concat()).exit(4);
    let state = std::fs::read_dir(repo.place.state_root()).unwrap();
    for folder in state.map(|entry| entry.unwrap().path()) {
        let journal = folder.join("windlass.db");
        if journal.exists() {
            // As long as the header is in the log, the one in the file does not count.
            let opened = rusqlite::Connection::open(journal).unwrap();
            opened.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        }
    }
    let served = Served::start(&repo.place, &["--all"]);
    let (cookie, token) = (served.enter(&served.link), own_token(&repo.place));
    let (api, browse) = (
        |path: &str| served.call(&token, "GET", path, &Value::Null),
        |path: &str| served.browse(&cookie, "GET", path, ""),
    );
    let listed = api("/api/v1/projects").status(200).json();
    let listed = listed.as_array().unwrap().iter().find(|one| one["name"] == "other").unwrap();
    let hidden = listed["id"].as_str().unwrap().to_owned();
    assert_ne!(hidden, project_of(&repo.place));
    assert_eq!(listed["unusable"], Value::Null);
    for list in LISTS {
        assert_eq!(api(list).status(200).json()["unusable"], Value::Array(vec![]), "{list}");
    }
    let journal = repo.place.state_root().join(&hidden).join("windlass.db");
    let before = std::fs::read(&journal).unwrap();
    let writer = rusqlite::Connection::open(&journal).unwrap();
    let touch = "UPDATE indexed SET one = one";
    writer.execute(touch, []).unwrap();
    overwrite(&journal, 0, &[b'x'; 60]);
    // The server has the header in its memory until somebody writes.
    writer.execute(touch, []).unwrap();
    eventually("the damage is noticed", || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let list = api("/api/v1/holds").status(200).json();
        !list["unusable"].as_array().unwrap().is_empty()
    });
    for list in LISTS {
        let found = api(list).status(200).json();
        let bad = &found["unusable"][0];
        assert_eq!(
            (&bad["name"], &bad["code"]),
            (&"other".into(), &"STORE_CORRUPT".into()),
            "{list}"
        );
        assert_eq!(bad["project"], hidden.as_str());
        assert!(bad["hint"].as_str().is_some_and(|hint| hint.contains("backup")), "{bad}");
    }
    assert_eq!(api("/api/v1/holds").json()["holds"][0]["run"], id.as_str());
    for page in PAGES {
        let body = browse(page).status(200).body;
        assert!(body.contains("<strong>other</strong> cannot be used"), "{page}: {body}");
        assert!(body.contains("STORE_CORRUPT") && body.contains("What to do"), "{page}: {body}");
    }
    assert!(browse("/").body.contains(&id));
    let health = browse("/journal").status(200).body;
    assert!(health.contains("<strong>other</strong> cannot be used"), "{health}");
    // Once it is mended, it is shown again.
    overwrite(&journal, 0, &before[..60]);
    eventually("it is mended", || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let list = api("/api/v1/calls").status(200).json();
        list["unusable"].as_array().unwrap().is_empty()
            && list["calls"][0]["project"] == hidden.as_str()
    });
    for page in PAGES {
        assert!(!browse(page).status(200).body.contains("cannot be used"), "{page}");
    }
}
