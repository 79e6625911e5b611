//! Decisions on runs that belong to a person: withdrawn, bound to files, changed, and counted.

use serde_json::{Value, json};

use crate::world::{Repo, VOICE, answers, build, escalating, id_of, review, sh};

fn waiting(repo: &Repo, line: &str) -> String {
    id_of(&repo.run(&answers(&[build(&[sh(line)])], &[review("approved")])).exit(4))
}

#[test]
fn an_answer_can_be_withdrawn_until_it_is_taken_up() {
    let repo = Repo::new();
    let held = repo.run(&escalating()).exit(4);
    let id = id_of(&held);
    let revoke = ["queue", "revoke", &id, "--by", "ada", "--reason", "too fast"];
    repo.windlass(&revoke).fails_with(2, "REQUEST_INVALID").warns("has not answered");
    let approve = [&["queue", "approve", &id][..], &VOICE].concat();
    repo.windlass(&approve).exit(0);
    repo.windlass(&revoke).exit(0).says("withdrawn");
    repo.windlass(&["resume", &id]).fails_with(4, "RUN_ON_HOLD");
    let packet = repo.artifact(&format!("checkpoints/CP_{id}_4.yaml"));
    assert!(packet.contains("resolved: false"), "{packet}");
    repo.windlass(&approve).exit(0);
    repo.windlass(&["resume", &id]).exit(0);
    repo.windlass(&revoke).fails_with(1, "RUN_ENDED");
    let events = repo.events(held.json()["trace_id"].as_str().unwrap());
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["kind"].as_str()).collect();
    let about: Vec<&&str> =
        kinds.iter().filter(|kind| ["voted", "revoked", "resumed"].contains(kind)).collect();
    assert_eq!(about, [&"voted", &"revoked", &"voted", &"resumed"]);
    repo.is_whole();
}

#[test]
fn the_whole_call_is_shown_and_bound() {
    let repo = Repo::new();
    repo.write("deploy.sh", "echo one > built.txt\n");
    repo.commit("a script");
    let id = waiting(&repo, "eval 'bash deploy.sh' deploy.sh; git push origin main");
    let shown = repo.windlass(&["queue", "show", &id]).exit(0);
    for part in [
        "eval",
        "git push origin main",
        "deploy.sh",
        "ask-before-sharing",
        "folder",
        "a step of the test",
    ] {
        assert!(shown.text().contains(part), "{part}: {shown}");
    }
    let value = repo.windlass(&["queue", "show", &id, "--json"]).exit(0).json();
    assert_eq!(value["call"]["files"][0]["path"], "deploy.sh", "{value}");
    assert_eq!(
        value["call"]["args"]["line"],
        "eval 'bash deploy.sh' deploy.sh; git push origin main"
    );
    assert!(value["call"]["commands"].as_array().unwrap().len() >= 2, "{value}");
    let packet = repo.artifact(&format!("checkpoints/CP_{id}_3.yaml"));
    assert!(packet.contains("git push origin main") && packet.contains("deploy.sh"), "{packet}");
    repo.write("deploy.sh", "echo two > built.txt\n");
    let approve = [&["queue", "approve", &id][..], &VOICE].concat();
    repo.windlass(&approve).fails_with(3, "HOLD_STALE").warns("deploy.sh");
    let trace = value["trace_id"].as_str().unwrap().to_owned();
    let refused = repo.events(&trace).pop().unwrap();
    assert_eq!((&refused["kind"], &refused["what"]), (&json!("noted"), &json!("refusal")));
    assert_eq!(refused["body"]["code"], "HOLD_STALE");
    repo.is_whole();
}

#[test]
fn a_call_of_a_run_can_be_changed_while_it_is_approved() {
    let repo = Repo::new();
    let id = waiting(&repo, "eval 'echo wide > built.txt'");
    let approve = |args: &str| {
        let words = ["queue", "approve", &id, "--json", "--resume", "--args", args];
        repo.windlass(&[&words[..], &VOICE].concat())
    };
    let done = approve(r#"{"line":"echo narrow > built.txt"}"#).exit(0).json();
    assert_eq!(done["outcome"], "PASS");
    assert_eq!(repo.read("built.txt"), "narrow\n");
    repo.is_whole();
}

#[test]
fn who_started_a_run_does_not_count_where_two_must_approve() {
    for (setting, code) in [("approvals: 2", 3), ("approvals: 2, starter_counts: true", 0)] {
        let repo = Repo::with_spine("approvals: 1", setting);
        let path = repo.answers(&escalating());
        let words = ["run", "raise the price", "--json", "--answers", &path, "--by", "Ada"];
        let id = id_of(&repo.windlass(&words).exit(4));
        let outcome = repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).exit(code);
        assert_eq!(outcome.stderr.contains("APPROVER_NOT_COUNTED"), code == 3, "{outcome}");
        // Anybody may reject.
        let reject = ["queue", "reject", &id, "--by", "bob", "--reason", "no"];
        repo.windlass(&reject).exit(0).says("BLOCKED");
    }
}

#[test]
fn a_run_goes_on_with_what_a_person_says_became_of_its_call() {
    for (word, built) in [("--ran", ""), ("--not-run", "built\n")] {
        let repo = Repo::new();
        let path = repo
            .answers(&answers(&[build(&[sh("echo built > built.txt")])], &[review("approved")]));
        let words = ["run", "raise the price", "--json", "--answers", &path];
        let killed = repo.place.run_with("WINDLASS_CRASH_AT", "dispatch.before:1", &words);
        assert_eq!(killed.code, None, "{killed}");
        let runs = repo.windlass(&["status", "--json"]).exit(0).json();
        let id = runs[0]["run_id"].as_str().unwrap().to_owned();
        // First the restart is approved, then the interrupted call is asked about.
        let approve = |more: &[&str]| {
            let words = ["queue", "approve", &id, "--json", "--resume"];
            repo.windlass(&[&words[..], &VOICE, more].concat())
        };
        let _ = repo.windlass(&["recover"]);
        let mut outcome = repo.windlass(&["resume", &id, "--json"]);
        for _ in 0..3 {
            let stands: Value = repo.stands(&id);
            match stands["hold"]["trigger"].as_str() {
                None => break,
                Some("CALL_APPROVAL") if word == "--ran" => outcome = approve(&["--ran"]),
                Some(_) => outcome = approve(&[]),
            }
        }
        assert_eq!(repo.stands(&id)["outcome"], "PASS", "{outcome}");
        assert_eq!(repo.read("built.txt"), built, "{word}");
        repo.is_whole();
    }
}

#[test]
fn a_question_is_answered_with_a_text() {
    let text = "---\nid: asking\ntitle: A question\ntype: workflow\ncategory: test\nversion: \"1\"\non_restart: resume\n\
                phases: [{ id: ask, doer: { person: \"Which price?\" } }]\n---\n";
    let repo = Repo::with_loop("asking", text);
    let held = repo.windlass(&["run", "ask", "--loop", "asking", "--json"]).exit(4);
    let id = id_of(&held);
    let done =
        repo.windlass(&["queue", "answer", &id, "12 euros", "--resume", "--json"]).exit(0).json();
    assert_eq!(done["outcome"], "PASS", "{done}");
    let events = repo.events(held.json()["trace_id"].as_str().unwrap());
    let vote = events.iter().find(|event| event["kind"] == "voted").unwrap();
    assert_eq!((&vote["reason"], &vote["by"]["name"]), (&json!("12 euros"), &json!("owner")));
    // A decision is not a question.
    let id = id_of(&repo.run(&escalating()).exit(4));
    repo.windlass(&["queue", "answer", &id, "yes"]).fails_with(2, "REQUEST_INVALID");
}

#[test]
fn a_crash_while_an_approved_call_runs_does_not_block_the_run() {
    let repo = Repo::new();
    let id = waiting(&repo, "eval 'echo built >> built.txt'");
    let approve = [&["queue", "approve", &id, "--resume", "--json"][..], &VOICE].concat();
    let killed = repo.place.run_with("WINDLASS_CRASH_AT", "dispatch.after:1", &approve);
    assert_eq!(killed.code, None, "{killed}");
    assert_eq!(repo.read("built.txt"), "built\n");
    // The call has changed the workspace; whether it ran is asked.
    repo.windlass(&["resume", &id]).exit(4);
    // What is refused settles nothing.
    let shown = repo.windlass(&["queue", "show", &id]).exit(0);
    let call = shown.text().lines().find_map(|line| line.trim().strip_prefix("call     "));
    let call = call.unwrap().to_owned();
    let stale = "0".repeat(64);
    let ran = ["queue", "approve", &id, "--ran", "--shown", &stale];
    repo.windlass(&[&ran[..], &VOICE].concat()).fails_with(3, "HOLD_STALE");
    let settle = ["call", "settle", "--not-run", &call, "--shown", &stale];
    repo.windlass(&[&settle[..], &VOICE].concat()).fails_with(3, "HOLD_STALE");
    assert_eq!(repo.windlass(&["call", "show", &call, "--json"]).json()["state"], "EXECUTING");
    repo.windlass(&[&approve[..], &["--ran"]].concat()).exit(0);
    assert_eq!(repo.stands(&id)["outcome"], "PASS");
    assert_eq!(repo.git(&["show", "HEAD:built.txt"]), "built");
    repo.is_whole();
}
