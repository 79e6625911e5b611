//! A phase that a person does.

use serde_json::json;

use crate::world::{Repo, id_of};

#[test]
fn a_person_does_every_phase() {
    let repo = Repo::new();
    drop(repo.windlass(&["people", "add", "ada"]));
    let before = repo.commits();
    let line = ["run", "leave a greeting", "--json", "--agent", "person", "--by=ada"];
    let id = id_of(&repo.windlass(&line).exit(4));
    let answer = |text: &str| {
        repo.windlass(&["queue", "answer", &id, text, "--by", "ada", "--resume", "--json"])
    };
    let shown = repo.windlass(&["queue", "show", &id, "--json"]).exit(0).json().to_string();
    assert!(shown.contains("You plan one change"), "{shown}");
    // What is no answer is asked for again, with the reason.
    answer("I am done").exit(4);
    let shown = repo.windlass(&["queue", "show", &id, "--json"]).exit(0).json().to_string();
    assert!(shown.contains("the answer is not JSON"), "{shown}");
    let plan = json!({ "summary": "Add a file.", "steps": [], "checks": [], "risks": [] });
    answer(&plan.to_string()).exit(4);
    // The work itself.
    repo.write("greeting.txt", "hello\n");
    let done = json!({ "summary": "Added it.", "commit_message": "Add a file", "checks": [] });
    answer(&done.to_string()).exit(4);
    let verdict = json!({ "verdict": "approved", "reason": "It is right.", "summary": "Seen." });
    answer(&json!({ "verdict": "perhaps" }).to_string()).exit(4);
    answer(&verdict.to_string()).exit(0);
    assert_eq!(repo.commits(), before + 1);
    assert_eq!(repo.git(&["show", "HEAD:greeting.txt"]), "hello");
    repo.is_whole();
}

#[test]
fn a_person_may_say_no() {
    let repo = Repo::new();
    drop(repo.windlass(&["people", "add", "ada"]));
    let line = ["run", "leave a greeting", "--json", "--agent", "person", "--by=ada"];
    let id = id_of(&repo.windlass(&line).exit(4));
    let no = ["queue", "reject", &id, "--by", "ada", "--reason", "not today", "--resume", "--json"];
    let outcome = repo.windlass(&no).json();
    assert_eq!(outcome["outcome"], "BLOCKED", "{outcome}");
    repo.is_whole();
}

#[test]
fn an_agent_that_the_loop_does_not_have_is_refused() {
    let repo = Repo::new();
    let line = ["run", "one", "--agent=person", "--agent=buildr=person"];
    let ended = repo.windlass(&line).fails_with(2, "REQUEST_INVALID");
    ended
        .warns("the loop has no agent `buildr`")
        .warns("its agents are builder, designer, reviewer");
}

#[test]
fn a_choice_for_an_agent_that_does_not_exist_is_refused() {
    let repo = Repo::new();
    let path = ".windlass/config.toml";
    repo.write(path, format!("{}\n[agents]\nreviwer = \"person\"\n", repo.read(path)));
    let ended = repo.windlass(&["run", "one", "--agent=person"]).fails_with(2, "CONFIG_INVALID");
    ended.warns("`agents.reviwer` is no agent of this project");
}
