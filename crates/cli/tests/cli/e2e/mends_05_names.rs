//! Mend 5: `resume` and `queue` take the ids of holds, unique beginnings and `last`.

use serde_json::json;

use crate::world::{Repo, VOICE, escalating, id_of, passing, trace_of};

fn words<'a>(line: &[&'a str]) -> Vec<&'a str> {
    [line, &VOICE].concat()
}

#[test]
fn mend_5_a_hold_is_answered_and_resumed_by_its_id() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    let hold = format!("CP_{id}_4");
    let shown = repo.windlass(&["queue", "show", &hold, "--json"]).exit(0).json();
    assert_eq!((&shown["run_id"], &shown["checkpoint_id"]), (&json!(id), &json!(hold)));
    repo.windlass(&["queue", "show", &id]).exit(0).says(&format!("hold     {hold}"));
    repo.windlass(&words(&["queue", "approve", &hold])).exit(0);
    repo.windlass(&words(&["queue", "revoke", &hold])).exit(0);
    repo.windlass(&words(&["queue", "approve", &hold])).exit(0);
    let resumed = repo.windlass(&["resume", &hold, "--json"]).exit(0).json();
    assert_eq!(resumed["resumed"], true);
    assert_eq!(resumed["checkpoint_id"], hold);
    assert_eq!((&resumed["run_id"], &resumed["outcome"]), (&json!(id), &json!("PASS")));
    // The run has ended, and waits nowhere.
    repo.windlass(&["resume", &hold]).fails_with(3, "HOLD_STALE").warns("does not wait at");
}

#[test]
fn mend_5_a_hold_that_a_run_does_not_wait_at_is_refused() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    for other in [format!("CP_{id}_3"), format!("CP_{id}_4-2")] {
        for line in [
            words(&["queue", "approve", &other]),
            words(&["queue", "reject", &other]),
            vec!["resume", &other],
            vec!["queue", "show", &other],
        ] {
            let outcome = repo.windlass(&line).fails_with(3, "HOLD_STALE");
            outcome.warns(&format!("but at `CP_{id}_4`"));
        }
    }
    assert_eq!(repo.stands(&id)["hold"]["approvals"], 0);
    repo.windlass(&["resume", "CP_run_20260101_000000_00000000_1"]).fails_with(2, "RUN_NOT_FOUND");
}

#[test]
fn mend_5_last_is_the_run_that_was_started_last() {
    let repo = Repo::new();
    repo.windlass(&["resume", "last"]).fails_with(2, "RUN_NOT_FOUND");
    let first = id_of(&repo.run(&passing()).exit(0));
    let second = id_of(&repo.run(&escalating()).exit(4));
    assert_ne!(first, second);
    let shown = repo.windlass(&["queue", "show", "last", "--json"]).exit(0).json();
    assert_eq!(shown["run_id"], second);
    repo.windlass(&words(&["queue", "approve", "last"])).exit(0);
    let resumed = repo.windlass(&["resume", "last", "--json"]).exit(0).json();
    assert_eq!(resumed["run_id"], second);
}

#[test]
fn mend_5_a_beginning_stands_for_one_run_only() {
    let repo = Repo::new();
    let outcome = repo.run_with(&escalating(), &["--worktree"]).exit(4);
    let (id, trace) = (id_of(&outcome), trace_of(&outcome));
    for start in [&id[..8], &id[..20], &id[..27], &trace[..8], &trace[..35]] {
        let shown = repo.windlass(&["queue", "show", start, "--json"]).exit(0).json();
        assert_eq!(shown["run_id"], id, "{start}");
    }
    for wrong in ["run", "run_", &id[..7], "run_1999", "x", ""] {
        repo.windlass(&["queue", "show", wrong]).fails_with(2, "RUN_NOT_FOUND");
    }
    let more = repo.run_with(&escalating(), &["--worktree"]).exit(4);
    let outcome = repo.windlass(&words(&["queue", "approve", &id[..8]]));
    outcome.fails_with(2, "RUN_NOT_FOUND").warns("stands for 2 runs").warns(&id_of(&more));
    assert_eq!(repo.stands(&id)["hold"]["approvals"], 0);
}
