//! What does not grow with history, and what is told when it does.

use serde_json::{Value, json};

use crate::world::{Repo, escalating, id_of, passing};

#[test]
fn mend_19_when_holds_expire_is_known_without_reading_their_runs() {
    let repo = Repo::new();
    let id = id_of(&repo.run_with(&escalating(), &["--worktree"]).exit(4));
    let other = id_of(&repo.run_with(&escalating(), &["--worktree"]).exit(4));
    repo.windlass(&["status"]).exit(0);
    let file = repo.place.state().join("expiry.json");
    let known = || -> Value { serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap() };
    let trace = |id: &str| repo.stands(id)["trace_id"].as_str().unwrap().to_owned();
    assert_eq!(known().as_object().unwrap().len(), 2);
    let expires = repo.stands(&id)["hold"]["expires_at"].clone();
    assert_eq!(known()[trace(&id)]["at"], expires);
    // It is believed as long as the run has not gone on: only the answered run is read again.
    let mut forged = known();
    forged[trace(&other)]["at"] = json!("2999-01-01T00:00:00.000Z");
    std::fs::write(&file, forged.to_string()).unwrap();
    repo.approve(&id).exit(0);
    repo.windlass(&["status"]).exit(0);
    let left = known();
    assert_eq!(left.as_object().unwrap().len(), 1, "{left}");
    assert_eq!(left[trace(&other)]["at"], "2999-01-01T00:00:00.000Z");
    // It decides nothing: a hold is read before its run ends.
    forged[trace(&other)]["at"] = json!("2001-01-01T00:00:00.000Z");
    std::fs::write(&file, forged.to_string()).unwrap();
    repo.windlass(&["queue", "list"]).exit(0).says(&other);
    std::fs::write(&file, "no JSON").unwrap();
    repo.windlass(&["status"]).exit(0);
    assert_eq!(known().as_object().unwrap().len(), 1);
}

#[test]
fn mend_19_a_log_that_another_program_holds_is_told_with_its_size() {
    let repo = Repo::new();
    repo.run(&passing()).exit(0);
    let reader = repo.place.tamper();
    let read = || reader.query_row("SELECT count(*) FROM traces", [], |row| row.get::<_, i64>(0));
    reader.execute_batch("BEGIN").unwrap();
    read().unwrap();
    let writer = repo.place.tamper();
    for _ in 0..2100 {
        writer.execute("UPDATE indexed SET writes = writes + 1", []).unwrap();
        writer.execute("UPDATE indexed SET writes = writes - 1", []).unwrap();
    }
    let log = repo.place.state().join("windlass.db-wal");
    let told = format!("write-ahead log has {} MiB", log.metadata().unwrap().len() >> 20);
    repo.windlass(&["status"]).exit(0).warns(&told);
    repo.windlass(&["doctor"]).says(&told);
    reader.execute_batch("COMMIT").unwrap();
    // Nobody holds it any more, so it is emptied.
    let status = repo.windlass(&["status"]).exit(0);
    assert!(!status.stderr.contains("write-ahead"), "{status}");
    assert!(log.metadata().map_or(0, |log| log.len()) < 1 << 20);
    repo.is_whole();
}

#[test]
fn mend_19_an_idle_recovery_writes_nothing_again() {
    use std::os::unix::fs::MetadataExt as _;
    let repo = Repo::new();
    let id = id_of(&repo.run(&passing()).exit(0));
    let packet = repo.root().join(format!(".windlass/artifacts/terminal/TP_{id}.yaml"));
    // A process may have died before it wrote this.
    std::fs::remove_file(&packet).unwrap();
    let index = repo.root().join(".windlass/checkpoints/index.json");
    let inode = || std::fs::metadata(&index).unwrap().ino();
    let before = inode();
    repo.windlass(&["recover"]).exit(0).says("nothing to recover");
    assert!(packet.exists());
    assert_eq!(inode(), before, "the index was up to date");
    // What was brought up to date once is not read again by each recovery that finds nothing to do.
    std::fs::remove_file(&packet).unwrap();
    repo.windlass(&["recover"]).exit(0).says("nothing to recover");
    assert!(!packet.exists());
    repo.windlass(&["export", &id]).exit(0);
    assert!(packet.exists());
}
