//! `queue send-back`: work is done again with what a person found.

use serde_json::{Value, json};

use crate::world::{
    ASKED, Repo, VOICE, answers, build, built_once, escalating, id_of, review, sh, trace_of,
};

fn back<'a>(id: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["queue", "send-back", id, "--by", "ada", "--reason", "not yet"][..], more].concat()
}

#[test]
fn what_a_person_found_is_read_by_whoever_does_it_again() {
    let repo = Repo::with_loop("asked", ASKED);
    let held = repo.windlass(&["run", "one line", "--loop", "asked", "--json"]).exit(4);
    let id = id_of(&held);
    let before = repo.windlass(&["queue", "show", &id, "--json"]).exit(0).json();
    assert_eq!(before["redo_targets"], json!(["build"]));
    assert_eq!(before["redo_default"], "build");
    let tree = before["tree"].as_str().unwrap().to_owned();
    let findings = ["--finding", "work.txt:1: say more", "--finding", "no empty lines"];
    repo.windlass(&back(&id, &findings)).exit(0).says("windlass resume");
    let sent = repo.stands(&id);
    assert_eq!(sent["hold"]["resolution"], "REJECTED");
    assert_eq!(sent["outcome"], Value::Null, "the run goes on");
    let again = repo.windlass(&["resume", &id, "--json"]).exit(4).json();
    assert_eq!(again["hold"]["phase"], "approve");
    let input: Value = serde_json::from_str(&repo.read("input.json")).unwrap();
    assert_eq!(input["attempt"], 2);
    assert_eq!(
        input["findings"],
        json!(["ada: not yet", "work.txt:1: say more", "no empty lines"])
    );
    assert_eq!(repo.read("work.txt"), "work\nwork\n");
    // What changed since the person's last look, and nothing else.
    let line = ["queue", "show", &id, "--since", &tree, "--json"];
    let after = repo.windlass(&line).exit(0).json();
    let since = after["since"].as_str().unwrap();
    assert!(since.contains("\n work\n+work\n"), "{since}");
    assert!(after["diff"].as_str().unwrap().contains("new file"), "{after}");
    let nothing = ["queue", "show", &id, "--since", "nothing"];
    repo.windlass(&nothing).fails_with(2, "REQUEST_INVALID");
    assert_eq!(repo.approve(&id).exit(0).json()["outcome"], "PASS");
    let counts = repo.counts(&trace_of(&held));
    assert_eq!((counts["voted"], counts["held"]), (2, 2));
    repo.is_whole();
}

#[test]
fn an_escalated_change_is_built_again_and_reviewed_again() {
    let repo = Repo::new();
    let builds = [built_once(), build(&[sh("echo better >> built.txt")])];
    let all = answers(&builds, &[review("escalate"), review("approved")]);
    let held = repo.run(&all).exit(4);
    let id = id_of(&held);
    repo.windlass(&back(&id, &["--finding", "built.txt:1: better"])).exit(0);
    let done = repo.windlass(&["resume", &id, "--json"]).exit(0).json();
    assert_eq!(done["outcome"], "PASS");
    assert_eq!(repo.read("built.txt"), "built\nbetter\n");
    let started =
        repo.events(&trace_of(&held)).into_iter().filter(|event| event["kind"] == "phase_started");
    let started: Vec<(Value, Value)> =
        started.map(|event| (event["phase"].clone(), event["attempt"].clone())).collect();
    let count = |phase: &str| started.iter().filter(|(one, _)| *one == phase).count();
    assert_eq!((count("design"), count("build"), count("review")), (1, 2, 2), "{started:?}");
    let packet = repo.artifact(&format!("checkpoints/CP_{id}_4.yaml"));
    assert!(packet.contains("resolution_decision: REJECTED"), "{packet}");
    repo.is_whole();
}

#[test]
fn the_call_of_work_that_is_sent_back_is_never_made() {
    let repo = Repo::new();
    let builds = [build(&[sh("eval 'chmod +x README.md'")]), built_once()];
    let all = answers(&builds, &[review("approved")]);
    let held = repo.run(&all).exit(4);
    let id = id_of(&held);
    assert_eq!(held.json()["hold"]["trigger"], "CALL_APPROVAL");
    let show = repo.windlass(&["queue", "show", &id, "--json"]).exit(0).json();
    assert_eq!(show["redo_default"], "build");
    let call = show["held"]["call"].as_str().unwrap().to_owned();
    repo.windlass(&back(&id, &["--finding", "leave the mode alone"])).exit(0);
    let done = repo.windlass(&["resume", &id, "--json"]).exit(0).json();
    assert_eq!(done["outcome"], "PASS");
    let call = repo.windlass(&["call", "show", &call, "--json"]).exit(0).json();
    assert_eq!(call["state"], "DENIED", "{call}");
    assert_eq!(repo.read("built.txt"), "built\n");
    repo.is_whole();
}

#[test]
fn what_cannot_be_sent_back_is_refused_in_words() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    let wrong = repo.windlass(&back(&id, &["--to", "commit"]));
    let wrong = wrong.fails_with(2, "REQUEST_INVALID");
    assert!(wrong.stderr.contains("design, build, review"), "{wrong}");
    repo.windlass(&back(&id, &["--to", "nowhere"])).fails_with(2, "REQUEST_INVALID");
    repo.windlass(&back(&id, &["--finding", " "])).fails_with(2, "REQUEST_INVALID");
    let long = "x".repeat(5000);
    repo.windlass(&back(&id, &["--finding", &long])).fails_with(2, "REQUEST_INVALID");
    let other = "0".repeat(64);
    repo.windlass(&back(&id, &["--shown", &other])).fails_with(3, "HOLD_STALE");
    assert_eq!(repo.stands(&id)["hold"]["resolution"], Value::Null, "nothing was decided");
    // A secret is not stored.
    let secret = format!("ghp_{}", "a1B2".repeat(9));
    repo.windlass(&back(&id, &["--finding", &format!("remove {secret}")])).exit(0);
    let shown = repo.windlass(&["queue", "show", &id]).exit(0);
    assert!(!shown.text().contains(&secret) && shown.text().contains("remove "), "{shown}");
    // An answer can be taken back as long as nothing was done with it.
    repo.windlass(&[&["queue", "revoke", &id][..], &VOICE].concat()).exit(0);
    assert_eq!(repo.approve(&id).exit(0).json()["outcome"], "PASS");
    repo.is_whole();
}
