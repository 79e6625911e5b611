//! The mistakes of the original, each of which must not happen here.

use serde_json::Value;

use crate::world::{Repo, escalating, id_of, passing};

#[test]
fn m1_a_run_never_erases_the_ledger_of_the_one_before() {
    let repo = Repo::new();
    let first = id_of(&repo.run(&passing()).exit(0));
    let before = repo.artifact("loop_state/attempt_ledger.jsonl");
    let second = id_of(&repo.run(&passing()).exit(0));
    let after = repo.artifact("loop_state/attempt_ledger.jsonl");
    assert!(after.starts_with(&before) && after.len() > before.len());
    assert!(after.contains(&first) && after.contains(&second));
}

#[test]
fn m2_a_tampered_or_torn_ledger_changes_no_run() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    let path = ".windlass/artifacts/loop_state/attempt_ledger.jsonl";
    let ledger = repo.read(path);
    repo.write(path, &ledger[..ledger.len() - 7]);
    repo.approve(&id).exit(0);
    let mended = repo.read(path);
    assert!(mended.starts_with(&ledger), "the torn line is whole again");
    windlass_formats::check_ledger(mended.as_bytes()).unwrap();
}

#[test]
fn m2_a_tampered_journal_is_refused() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    repo.place.tamper().execute_batch("UPDATE entries SET ts = ts + 1").unwrap();
    repo.approve(&id).exit(5);
    repo.windlass(&["verify"]).exit(5);
}

#[test]
fn a_damaged_run_does_not_hide_the_others() {
    let repo = Repo::new();
    let good = id_of(&repo.run(&passing()).exit(0));
    let bad = repo.run(&escalating()).exit(4);
    let trace = bad.json()["trace_id"].as_str().unwrap().replace('-', "");
    repo.git(&["checkout", "built.txt"]);
    let (bad, waits) = (id_of(&bad), id_of(&repo.run(&escalating()).exit(4)));
    repo.windlass(&["queue", "list"]).exit(0).says(&bad).says(&waits);
    // The end of its journal: a list looks no further.
    let change = "UPDATE entries SET ts = ts + 1 WHERE id = (SELECT max(id) FROM entries \
                  WHERE lower(hex(trace_id)) = ?1)";
    assert_eq!(repo.place.meddle(change, [trace]), 1);
    let list = repo.windlass(&["status"]).exit(5).says(&good).says("PASS").says(&bad);
    list.says("corrupt").says("STATE_CHECKSUM_MISMATCH").says(&waits).says("on hold");
    let list = repo.windlass(&["status", "--json"]).exit(5).json();
    let list = list.as_array().unwrap();
    let one = list.iter().find(|one| one["run_id"] == bad.as_str()).unwrap();
    assert_eq!((list.len(), &one["error"]["code"]), (3, &"STATE_CHECKSUM_MISMATCH".into()));
    let queue = repo.windlass(&["queue", "list"]).exit(5).says(&waits);
    assert!(!queue.text().contains(&bad), "{queue}");
    assert!(queue.stderr.contains(&bad) && queue.stderr.contains("corrupt"), "{queue}");
    // And the others go on.
    repo.approve(&waits).exit(0);
}

#[test]
fn m6_names_of_runs_of_one_second_differ() {
    let repo = Repo::new();
    let ids: Vec<String> = (0..3).map(|_| id_of(&repo.run(&passing()).exit(0))).collect();
    assert!(ids[0] != ids[1] && ids[1] != ids[2], "{ids:?}");
}

#[test]
fn m8_who_answered_is_on_record() {
    let repo = Repo::new();
    let held = repo.run(&escalating()).exit(4);
    repo.approve(&id_of(&held)).exit(0);
    let events = repo.events(held.json()["trace_id"].as_str().unwrap());
    let vote = events.iter().find(|event| event["kind"] == "voted").unwrap();
    assert_eq!((&vote["by"]["name"], &vote["decision"]), (&"ada".into(), &"APPROVED".into()));
    assert_eq!(vote["shown"], held.json()["hold"]["shown"]);
}

#[test]
fn m9_json_and_plain_commands_end_alike() {
    for (answers, code) in [
        (passing(), 0),
        (escalating(), 4),
        (
            crate::world::answers(
                &[crate::world::built_once()],
                &[crate::world::review("rejected")],
            ),
            3,
        ),
    ] {
        for json in [true, false] {
            let repo = Repo::new();
            let path = repo.answers(&answers);
            let line = ["run", "one", "--answers", &path];
            let more: &[&str] = if json { &["--json"] } else { &[] };
            let ended = repo.windlass(&[&line[..], more].concat()).exit(code);
            if code == 4 {
                let id = match json {
                    true => id_of(&ended),
                    false => ended.text().split_whitespace().next().unwrap().to_owned(),
                };
                let unresolved = repo.windlass(&[&["resume", &id][..], more].concat()).exit(4);
                assert!(unresolved.stdout.is_empty());
                let line = ["queue", "approve", &id, "--by", "a", "--reason", "b", "--resume"];
                repo.windlass(&[&line[..], more].concat()).exit(0);
                repo.windlass(&[&["resume", &id][..], more].concat()).exit(1);
            }
        }
    }
    let repo = Repo::new();
    repo.write("README.md", "changed\n");
    for more in [&["--json"][..], &[]] {
        repo.windlass(&[&["run", "one"][..], more].concat()).exit(3);
        repo.windlass(&[&["run", "one", "--loop", "none"][..], more].concat()).exit(2);
        repo.windlass(&[&["status", "run_20260101_000000_00000000"][..], more].concat()).exit(2);
    }
}

#[test]
fn m9_a_run_on_hold_is_never_reported_as_failed() {
    let repo = Repo::new();
    let path = repo.answers(&escalating());
    let held = repo.windlass(&["run", "one", "--answers", &path]).exit(4);
    let said = format!("{held}{}", repo.windlass(&["status"]).exit(0).says("on hold"));
    for word in ["fail", "BLOCKED", "error", "✗"] {
        assert!(!said.contains(word), "`{word}` in {said}");
    }
    let list: Value = repo.windlass(&["status", "--json"]).exit(0).json();
    assert_eq!((&list[0]["outcome"], &list[0]["state"]), (&Value::Null, &"CHECKPOINT".into()));
}

#[test]
fn m10_a_crash_in_the_middle_of_a_step_is_on_record() {
    let repo = Repo::new();
    let path = repo.answers(&passing());
    let line = ["run", "one", "--answers", &path];
    let killed = repo.place.run_with("WINDLASS_CRASH_AT", "dispatch.after", &line);
    assert_eq!(killed.code, None, "{killed}");
    let list = repo.windlass(&["status", "--json"]).exit(0).json();
    assert_eq!((&list[0]["state"], &list[0]["live"]), (&"RUNNING".into(), &false.into()));
    repo.windlass(&["status"]).exit(0).says("interrupted").says("build");
}
