//! OpenCode's database of sessions, compared with the journal: it is only read, whatever state it is in.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::harness::{Outcome, Place};

/// The tables as OpenCode 1.18.33 makes them; only those that are read, and without columns that may be left out.
const SCHEMA: &str = "
CREATE TABLE `session` (
  `id` text PRIMARY KEY, `project_id` text NOT NULL, `parent_id` text, `slug` text NOT NULL,
  `directory` text NOT NULL, `title` text NOT NULL, `version` text NOT NULL,
  `time_created` integer NOT NULL, `time_updated` integer NOT NULL
);
CREATE TABLE `part` (
  `id` text PRIMARY KEY, `message_id` text NOT NULL, `session_id` text NOT NULL,
  `time_created` integer NOT NULL, `time_updated` integer NOT NULL, `data` text NOT NULL
);
CREATE INDEX `part_session_idx` ON `part` (`session_id`);
";

/// A project with a session of OpenCode in it, and a home for its database.
struct Stage {
    place: Place,
}

impl Stage {
    fn new() -> Self {
        let stage = Self { place: Place::with_project() };
        std::fs::create_dir_all(stage.folder()).unwrap();
        stage.send("chat.message", &json!({ "prompt": "go on" })).exit(0);
        stage.before("call_asked").exit(0);
        stage
    }

    fn folder(&self) -> PathBuf {
        self.place.home().join(".local/share/opencode")
    }

    fn database(&self) -> Connection {
        Connection::open(self.folder().join("opencode.db")).unwrap()
    }

    fn send(&self, name: &str, more: &Value) -> Outcome {
        let mut event = json!({
            "client": "opencode", "cwd": self.place.work(), "hook_event_name": name, "session_id": "ses_own",
        });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.place.feed(&["hook", "--client", "opencode"], event.to_string().as_bytes())
    }

    fn before(&self, id: &str) -> Outcome {
        let input = json!({ "command": "git status", "description": "d" });
        let fields = json!({ "tool_name": "bash", "tool_input": input, "tool_use_id": id });
        self.send("tool.execute.before", &fields)
    }

    fn check(&self) -> Outcome {
        self.place.run(&["session", "check", "--json"])
    }

    /// The ids of unguarded uses of each session, and whether something could not be read of it.
    fn found(&self, exit: i32) -> BTreeMap<String, (Vec<String>, bool)> {
        let all = self.check().exit(exit).json();
        let of = |one: &Value| {
            let unguarded = one["unguarded"].as_array().unwrap().iter();
            let ids = unguarded.map(|one| one["id"].as_str().unwrap().to_owned()).collect();
            (one["session"].as_str().unwrap().to_owned(), (ids, one["incomplete"] == true))
        };
        all.as_array().unwrap().iter().map(of).collect()
    }

    /// All files of the client, and what is in them.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let entries = std::fs::read_dir(self.folder()).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(1);
    i64::try_from(since.as_millis()).unwrap()
}

fn add_session(database: &Connection, id: &str, parent: Option<&str>, folder: &str) {
    let sql = "INSERT INTO session VALUES (?1, 'p', ?2, 's', ?3, 't', '1.18.33', ?4, ?4)";
    database.execute(sql, (id, parent, folder, now())).unwrap();
}

fn add_part(database: &Connection, session: &str, at: i64, data: &str) {
    let sql = "INSERT INTO part VALUES ((SELECT count(*) FROM part), 'm', ?1, ?2, ?2, ?3)";
    database.execute(sql, (session, at, data)).unwrap();
}

/// A use of the shell.
fn used(id: &str, state: &Value) -> String {
    let mut state = state.clone();
    state["input"] = json!({ "command": "git status", "description": "d" });
    json!({ "type": "tool", "tool": "bash", "callID": id, "state": state }).to_string()
}

fn ran(id: &str) -> String {
    let metadata = json!({ "output": "", "exit": 0, "truncated": false });
    used(id, &json!({ "status": "completed", "output": "", "metadata": metadata }))
}

#[test]
fn uses_that_are_not_on_record_are_found_with_those_of_subagents() {
    let stage = Stage::new();
    let work = stage.place.work().canonicalize().unwrap();
    let work = work.to_str().unwrap();
    let database = stage.database();
    database.execute_batch(SCHEMA).unwrap();
    add_session(&database, "ses_own", None, work);
    add_session(&database, "ses_child", Some("ses_own"), work);
    add_session(&database, "ses_below", Some("ses_child"), work);
    add_session(&database, "ses_other", None, &format!("{work}/below"));
    add_session(&database, "ses_elsewhere", None, "/somewhere/else");
    add_session(&database, "ses_circle", Some("ses_circle"), work);
    let refused = json!({ "status": "error", "error": "windlass: refused: no" });
    let text = json!({ "type": "text", "text": "the \"tool\"" }).to_string();
    let parts = [
        ("ses_own", ran("call_asked")),
        ("ses_own", ran("call_unasked")),
        ("ses_own", used("call_refused", &refused)),
        ("ses_own", used("call_waits", &json!({ "status": "running" }))),
        ("ses_own", text),
        ("ses_child", ran("call_child")),
        ("ses_below", ran("call_below")),
        ("ses_other", ran("call_other")),
        ("ses_other", "{\"type\":\"tool\", damaged".to_owned()),
        ("ses_elsewhere", ran("call_elsewhere")),
        ("ses_circle", ran("call_circle")),
    ];
    for (session, data) in parts {
        add_part(&database, session, now(), &data);
    }
    // What happened before there was a guard is not its business.
    add_part(&database, "ses_own", 1, &ran("call_before"));
    drop(database);
    let before = stage.files();
    let mut found = stage.found(1);
    for (ids, _) in found.values_mut() {
        ids.sort();
    }
    let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
    let expected = [
        ("ses_circle", ids(&["call_circle"]), false),
        ("ses_other", ids(&["call_other"]), true),
        ("ses_own", ids(&["call_below", "call_child", "call_unasked"]), false),
    ];
    let expected = expected.map(|(session, ids, part)| (session.to_owned(), (ids, part)));
    assert_eq!(found, BTreeMap::from(expected));
    // The session itself is told at its next prompt, once.
    let again = json!({ "prompt": "again" });
    stage.send("chat.message", &again).exit(0);
    let shown = stage.place.run(&["session", "show", "ses_own"]).exit(0);
    assert_eq!(shown.text().matches("UNGUARDED").count(), 3, "{shown}");
    stage.send("chat.message", &again).exit(0);
    let shown = stage.place.run(&["session", "show", "ses_own"]).exit(0);
    assert_eq!(shown.text().matches("UNGUARDED").count(), 3, "{shown}");
    assert_eq!(stage.files(), before, "nothing of the client's was written");
}

#[test]
fn a_database_in_use_is_read_with_its_last_writes_and_not_touched() {
    let stage = Stage::new();
    let work = stage.place.work().canonicalize().unwrap();
    let database = stage.database();
    database.pragma_update(None, "journal_mode", "wal").unwrap();
    database.execute_batch(SCHEMA).unwrap();
    add_session(&database, "ses_own", None, work.to_str().unwrap());
    add_part(&database, "ses_own", now(), &ran("call_unasked"));
    // The client is about to write more.
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    let before = stage.files();
    assert_eq!(before.len(), 3, "{:?}", before.keys());
    let expected = (vec!["call_unasked".to_owned()], false);
    assert_eq!(stage.found(1), BTreeMap::from([("ses_own".to_owned(), expected)]));
    assert_eq!(stage.files(), before);
    // Without the index of the log, its last writes cannot be seen, which is said.
    database.execute_batch("COMMIT").unwrap();
    let left = stage.place.base().join("left");
    std::fs::create_dir(&left).unwrap();
    for path in before.keys().filter(|path| !path.to_str().unwrap().ends_with("-shm")) {
        std::fs::copy(path, left.join(path.file_name().unwrap())).unwrap();
    }
    drop(database);
    std::fs::remove_dir_all(stage.folder()).unwrap();
    std::fs::rename(&left, stage.folder()).unwrap();
    let before = stage.files();
    stage.check().exit(0).warns("not all records of opencode could be read");
    assert_eq!(stage.files(), before);
}

#[test]
fn a_database_of_another_kind_shows_nothing_and_is_said() {
    let stage = Stage::new();
    let file = stage.folder().join("opencode.db");
    stage.check().exit(0).quiet();
    let endless = "CREATE TABLE session (id, parent_id, directory, time_updated);
        CREATE VIEW part AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
        SELECT 'ses_own' AS session_id, x AS time_created, '\"tool\"' AS data, x AS rowid FROM n;";
    for sql in ["CREATE TABLE other (id text)", endless, "CREATE TABLE session (id text)"] {
        stage.database().execute_batch(sql).unwrap();
        stage.check().exit(0).warns("not all records of opencode could be read");
        stage.send("chat.message", &json!({ "prompt": "go on" })).exit(0);
        std::fs::remove_file(&file).unwrap();
    }
    // Columns of other names and kinds.
    let database = stage.database();
    database.execute_batch(SCHEMA).unwrap();
    let work = stage.place.work().canonicalize().unwrap();
    add_session(&database, "ses_own", None, work.to_str().unwrap());
    let sql = "INSERT INTO part VALUES (x'00', 'm', 'ses_own', ?1, 0, CAST('{\"tool\"}' AS BLOB))";
    database.execute(sql, [now()]).unwrap();
    drop(database);
    let expected = BTreeMap::from([("ses_own".to_owned(), (Vec::new(), true))]);
    assert_eq!(stage.found(0), expected);
    let sql = "ALTER TABLE part RENAME COLUMN data TO contents";
    stage.database().execute_batch(sql).unwrap();
    stage.check().exit(0).warns("not all records of opencode could be read");
    let whole = std::fs::read(&file).unwrap();
    for bytes in
        [&whole[..whole.len() / 2], b"no database at all, but long enough to be read as one", &[]]
    {
        std::fs::write(&file, bytes).unwrap();
        stage.check().exit(0).warns("not all records of opencode could be read");
        stage.before("call_again");
        assert_eq!(std::fs::read(&file).unwrap(), bytes);
    }
    stage.place.run(&["verify"]).exit(0);
}
