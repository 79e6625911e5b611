//! A journal that is damaged, removed or replaced, and its backups.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;

use crate::harness::{Outcome, Place};

/// A file of the journal: the database's name with an ending.
fn file(place: &Place, ending: &str) -> PathBuf {
    place.state().join(format!("windlass.db{ending}"))
}

fn call(place: &Place, key: &str, line: &str) -> Outcome {
    let args = format!(r#"{{"line":"{line}"}}"#);
    place.run(&["call", "run", "shell/run", "--key", key, "--args", &args])
}

/// Five calls with keys, each by a process of its own.
fn five_calls(place: &Place) {
    for number in 1..=5 {
        call(place, &format!("k{number}"), "echo x >> note").exit(0);
    }
    assert_eq!(place.read("note"), "x\n".repeat(5));
}

/// Every command refuses, and nothing happens.
fn assert_refused(place: &Place) {
    for words in [
        &["verify"][..],
        &["call", "list"],
        &["trace", "list"],
        &["status"],
        &["recover"],
        &["store", "backup", "copy.db"],
    ] {
        place.run(words).fails_with(5, "STORE_TRUNCATED").warns("hint: ").warns("windlass.db.head");
    }
    call(place, "k1", "echo x >> note").fails_with(5, "STORE_TRUNCATED");
    assert_eq!(place.read("note"), "x\n".repeat(5));
    assert!(!place.work().join("copy.db").exists());
}

#[test]
fn a_damaged_log_frees_no_key() {
    let place = Place::with_project();
    five_calls(&place);
    let whole = fs::read(file(&place, "-wal")).unwrap();
    // In the header, in the first frame and further on.
    for byte in [17, 100, whole.len() / 3] {
        let mut log = whole.clone();
        log[byte] ^= 4;
        fs::write(file(&place, "-wal"), &log).unwrap();
        drop(fs::remove_file(file(&place, "-shm")));
        assert_refused(&place);
    }
    fs::write(file(&place, "-wal"), &whole).unwrap();
    place.run(&["verify"]).exit(0).says("intact: 5 traces");
    call(&place, "k1", "echo x >> note").exit(0);
    assert_eq!(place.read("note"), "x\n".repeat(5), "the key is still taken");
}

#[test]
fn a_lost_log_is_told_until_the_loss_is_accepted() {
    let place = Place::with_project();
    five_calls(&place);
    fs::remove_file(file(&place, "-wal")).unwrap();
    drop(fs::remove_file(file(&place, "-shm")));
    assert_refused(&place);
    fs::remove_file(file(&place, ".head")).unwrap();
    // Whoever removes that together with the log has not accepted anything.
    assert_refused(&place);
    fs::remove_file(witness(&place)).unwrap();
    place.run(&["verify"]).exit(0).says("intact: 0 traces");
}

/// What says apart from the state folder how far the journal got.
fn witness(place: &Place) -> std::path::PathBuf {
    let name = place.state().file_name().unwrap().to_string_lossy().into_owned();
    place.state_root().join(format!(".heads/{name}.head"))
}

#[test]
fn files_that_are_replaced_together_are_noticed() {
    let place = Place::with_project();
    call(&place, "k0", "echo before").exit(0);
    let kept = place.base().join("kept");
    crate::states::copy(&place.state(), &kept);
    five_calls(&place);
    // A whole older set of files, with its own log and head.
    let state = place.state();
    fs::remove_dir_all(&state).unwrap();
    crate::states::copy(&kept, &state);
    crate::states::private(&state);
    assert_refused(&place);
    // Another journal.
    for ending in ["", "-wal", "-shm", ".head"] {
        drop(fs::remove_file(file(&place, ending)));
    }
    let other = Place::with_project();
    call(&other, "k", "echo other").exit(0);
    other.run(&["store", "backup", "../other.db"]).exit(0);
    fs::copy(other.base().join("other.db"), file(&place, "")).unwrap();
    assert_refused(&place);
    // A removed state takes its witness along.
    let id = place.read(".windlass/id").trim().to_owned();
    place.run(&["state", "remove", &id, "--force", "--yes"]).exit(0);
    assert!(!state.exists());
    assert_eq!(fs::read_dir(place.state_root().join(".heads")).unwrap().count(), 0);
}

#[test]
fn a_backup_is_restored_as_the_guide_says() {
    let place = Place::with_project();
    five_calls(&place);
    place.run(&["store", "backup", "../copy.db"]).exit(0).says("5 traces").says("verified");
    let mode = fs::metadata(place.base().join("copy.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "as the journal");
    place.run(&["store", "backup", "../copy.db"]).fails_with(1, "FILE_UNWRITABLE").warns("exists");
    place.run(&["store", "backup", "../missing/copy.db"]).fails_with(1, "FILE_UNWRITABLE");
    call(&place, "k6", "echo y >> note").exit(0);
    let left: Vec<_> = fs::read_dir(place.base()).unwrap().flatten().collect();
    assert!(!left.iter().any(|file| file.file_name().to_string_lossy().contains("backup")));
    for ending in ["", "-wal", "-shm", ".head"] {
        drop(fs::remove_file(file(&place, ending)));
    }
    fs::remove_dir_all(file(&place, ".locks")).unwrap();
    fs::remove_file(witness(&place)).unwrap();
    fs::copy(place.base().join("copy.db"), file(&place, "")).unwrap();
    place.run(&["verify"]).exit(0).says("intact: 5 traces");
    call(&place, "k1", "echo x >> note").exit(0);
    assert_eq!(place.read("note"), "x\n".repeat(5) + "y\n");
}

#[test]
fn damage_that_no_entry_shows_is_found() {
    for sql in
        ["DROP TRIGGER keys_are_never_deleted", "DROP INDEX traces_open", "CREATE TABLE mine (x)"]
    {
        let place = Place::with_project();
        place.held();
        place.tamper().execute_batch(sql).unwrap();
        place.run(&["verify"]).exit(5).says("damaged").says("[STORE_CORRUPT]").says("corrupt: 1");
        let value = place.run(&["verify", "--json"]).exit(5).json();
        assert_eq!(value["chain_valid"], false);
        assert_eq!(value["damage"].as_array().unwrap().len(), 1, "{value}");
        place.run(&["store", "backup", "copy.db"]).fails_with(5, "STORE_CORRUPT");
    }
}

/// Makes a call, and does something to the journal while its tool runs.
pub fn during_a_call(place: &Place, change: impl FnOnce(&Place)) -> Outcome {
    std::thread::scope(|scope| {
        let line = "echo x >> runs; touch started; until [ -e go ]; do sleep 0.05; done";
        let running = scope.spawn(|| call(place, "k", line));
        while !place.work().join("started").exists() && !running.is_finished() {
            std::thread::yield_now();
        }
        let changed = catch_unwind(AssertUnwindSafe(|| change(place)));
        // Also if the test has failed: the call waits for it.
        place.write("go", "");
        let outcome = running.join().unwrap();
        changed.unwrap_or_else(|failed| resume_unwind(failed));
        outcome
    })
}

#[test]
fn a_live_call_whose_lock_file_is_removed_is_not_taken_over() {
    let place = Place::with_project();
    let state = |place: &Place| {
        let ids = place.ids();
        let [id] = ids.as_slice() else { panic!("{ids:?}") };
        assert!(place.run(&["trace", "show", id]).exit(0).text().starts_with("EXECUTING"));
        id.clone()
    };
    let outcome = during_a_call(&place, |place| {
        fs::remove_dir_all(file(place, ".locks")).unwrap();
        place.run(&["recover"]).exit(0).says("in use by a live process");
        place.run(&["call", "list", "--held"]).exit(0);
        state(place);
    });
    outcome.fails_with(1, "STORE_DISPLACED").warns("lock file").warns("hint: ");
    let id = state(&place);
    // The process has ended and said so: now it is recovered, as after a crash.
    place.run(&["recover"]);
    place.run(&["call", "list", "--held"]).exit(0).says(&id);
    assert_eq!(place.read("runs"), "x\n", "it ran once");
    place.run(&["verify"]).exit(0);
}

#[test]
fn no_effect_is_recorded_in_a_database_that_is_gone() {
    for ending in ["", "-wal"] {
        let place = Place::with_project();
        let moved = place.base().join("moved");
        let outcome =
            during_a_call(&place, |place| fs::rename(file(place, ending), &moved).unwrap());
        let outcome = outcome.fails_with(1, "STORE_DISPLACED");
        assert!(!outcome.text().contains("COMPLETED"), "{outcome}");
        assert!(!file(&place, ending).exists(), "it is not begun anew");
        let code =
            if ending.is_empty() { (1, "STORE_UNAVAILABLE") } else { (5, "STORE_TRUNCATED") };
        place.run(&["verify"]).fails_with(code.0, code.1);
    }
}

#[test]
fn what_a_killed_backup_left_is_swept_by_the_next_one() {
    let place = Place::with_project();
    five_calls(&place);
    let folder = place.base().join("backups");
    let (left, young) = (folder.join(".windlass-backup-left"), folder.join(".windlass-backup-new"));
    fs::create_dir_all(&left).unwrap();
    fs::create_dir_all(&young).unwrap();
    fs::write(left.join("windlass.db"), "half a copy of the journal").unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    fs::File::open(&left).unwrap().set_modified(old).unwrap();
    place.run(&["store", "backup", "../backups"]).exit(0).says("verified");
    assert!(!left.exists() && young.exists(), "one that was just made may be in use");
}
