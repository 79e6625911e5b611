//! Hostile queries and texts, damaged files, many processes.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use proptest::prelude::*;
use windlass_memory::{BuiltIn, Memory, MemoryError, NewMemory, Settings};

use crate::{PATIENT, memory, texts};

const FILE: &str = "WINDLASS_TEST_MEMORY_FILE";
const COUNT: &str = "WINDLASS_TEST_MEMORY_COUNT";

#[test]
fn no_query_is_an_error() {
    let folder = tempfile::TempDir::new().unwrap();
    let memory = memory(&folder.path().join("memory.db"), None);
    let text = "the words AND OR NOT NEAR are plain";
    memory.store(&NewMemory::text(text)).unwrap();
    for query in [
        "AND",
        "NOT",
        "plain AND",
        "NEAR(words",
        "\"words",
        "words\"",
        "text:words",
        "words*",
        "{text heading}: words",
        "^words",
        "- words",
        "(words",
        "words) --",
        "'words'",
    ] {
        let hits = memory.retrieve(query, 9).unwrap();
        assert_eq!(texts(&hits), [text], "{query}");
    }
    for query in ["\0", "\"", "*", "();--", "text:", "\u{202e}", "rowid:1 -", "+"] {
        memory.retrieve(query, 9).unwrap();
    }
    memory.retrieve(&"long ".repeat(1_000_000), 9).unwrap();
    memory.retrieve(&"x".repeat(10_000_000), usize::MAX).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_is_stored_is_found_by_its_words(words in prop::collection::vec("[a-zà-ÿ]{3,9}", 1..9), query in any::<String>()) {
        let folder = tempfile::TempDir::new().unwrap();
        let memory = memory(&folder.path().join("memory.db"), None);
        let text = words.join(" ");
        memory.store(&NewMemory::text(text.clone())).unwrap();
        for word in &words {
            let hits = memory.retrieve(word, 9).unwrap();
            prop_assert_eq!(texts(&hits), vec![text.as_str()]);
        }
        prop_assert!(memory.retrieve(&query, 9).is_ok());
        let stored = memory.store(&NewMemory::text(query.clone()));
        let bad = query.trim().is_empty() || query.contains('\0');
        prop_assert_eq!(stored.is_err(), bad);
    }
}

#[test]
fn other_and_damaged_files_are_refused() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("memory.db");
    {
        let memory = memory(&path, None);
        for number in 0..300 {
            memory.store(&NewMemory::text(format!("memory number {number}"))).unwrap();
        }
    }
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(connection);
    let whole = std::fs::read(&path).unwrap();
    let settings = Settings { knowledge: None, deadline: PATIENT };
    for start in (0..whole.len()).step_by(4096) {
        let mut damaged = whole.clone();
        for byte in damaged.iter_mut().skip(start).take(600) {
            *byte ^= 0x5a;
        }
        let path = folder.path().join(format!("damaged-{start}.db"));
        std::fs::write(&path, damaged).unwrap();
        let found = BuiltIn::open(&path, settings.clone()).and_then(|memory| {
            memory.store(&NewMemory::text("one more"))?;
            memory.retrieve("number", 999)
        });
        match found {
            Ok(hits) => assert!(hits.len() <= 301),
            Err(MemoryError::Unavailable { reason }) => assert!(!reason.is_empty()),
            Err(other) => panic!("{other:?}"),
        }
    }
    let other = folder.path().join("other.db");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
    let refused = BuiltIn::open(&other, settings).unwrap_err();
    let reason = "its file is a database of something else".to_owned();
    assert_eq!(refused, MemoryError::Unavailable { reason });
}

#[test]
fn a_locked_file_passes_the_deadline_and_is_read_nevertheless() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("memory.db");
    memory(&path, None).store(&NewMemory::text("alpha")).unwrap();
    let knowledge = folder.path().join("knowledge");
    std::fs::create_dir(&knowledge).unwrap();
    std::fs::write(knowledge.join("a.md"), "beta").unwrap();
    let mut holder = rusqlite::Connection::open(&path).unwrap();
    let held = holder.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    let deadline = Duration::from_millis(50);
    let settings = Settings { knowledge: Some(knowledge), deadline };
    let memory = BuiltIn::open(&path, settings).unwrap();
    let error = memory.store(&NewMemory::text("beta")).unwrap_err();
    assert_eq!(error, MemoryError::DeadlinePassed { limit: deadline });
    assert!(error.may_retry());
    assert_eq!(texts(&memory.retrieve("alpha", 9).unwrap()), ["alpha"]);
    drop(held);
}

/// Not a test of its own: what the other tests start as a process.
#[test]
fn writer() {
    let (Ok(path), Ok(count)) = (std::env::var(FILE), std::env::var(COUNT)) else { return };
    let memory = memory(Path::new(&path), None);
    for number in 0..count.parse::<usize>().unwrap() {
        let text = format!("memory {} {number}", std::process::id());
        memory.store(&NewMemory::text(text)).unwrap();
        memory.store(&NewMemory::text("shared by all")).unwrap();
    }
}

fn start(path: &Path, count: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hostile::writer"])
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
    connection
        .execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)", [])
        .unwrap();
}

#[test]
fn eight_processes_store_at_once_and_a_killed_one_harms_nothing() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("memory.db");
    let writers: Vec<Child> = (0..8).map(|_| start(&path, 20)).collect();
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    assert_eq!(memory(&path, None).retrieve("memory", 999).unwrap().len(), 160);
    assert_eq!(memory(&path, None).retrieve("shared", 999).unwrap().len(), 1);
    check_integrity(&path);
    let count = || memory(&path, None).retrieve("", 999).unwrap().len();
    for round in 1..=5 {
        let before = count();
        let mut writer = start(&path, usize::MAX);
        while count() < before + round * 3 {
            assert!(writer.try_wait().unwrap().is_none(), "the writer ended by itself");
            std::thread::sleep(Duration::from_millis(2));
        }
        writer.kill().unwrap();
        writer.wait().unwrap();
        check_integrity(&path);
    }
}
