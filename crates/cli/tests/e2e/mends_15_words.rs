//! Mend 15: hints that work, pages of codes, and commands that need no project.

use windlass_kernel::Code;

use crate::harness::{Outcome, Place};
use crate::world::{Repo, VOICE, escalating, id_of, passing};

fn approve(repo: &Repo, id: &str) -> Outcome {
    repo.windlass(&[&["queue", "approve", id][..], &VOICE].concat())
}

/// The words of the first command in backticks in an error's hint.
fn hinted(outcome: &Outcome) -> Vec<String> {
    let hint = outcome.stderr.split("hint: ").nth(1).unwrap_or_else(|| panic!("{outcome}"));
    let line = hint.split("`windlass ").nth(1).and_then(|rest| rest.split('`').next());
    let line = line.unwrap_or_else(|| panic!("no command in the hint\n{outcome}"));
    line.split(' ').map(str::to_owned).collect()
}

fn follow(repo: &Repo, outcome: &Outcome) -> Outcome {
    let words = hinted(outcome);
    repo.windlass(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn mend_15_every_code_is_explained_without_a_project() {
    let place = Place::new();
    for code in Code::ALL {
        let page = format!("{}/../../docs/errors/{code}.md", env!("CARGO_MANIFEST_DIR"));
        let page = std::fs::read_to_string(page).unwrap();
        let shown = place.run(&["explain", code.as_str()]).exit(0).quiet();
        assert_eq!(shown.text(), page, "{code}");
    }
    let lower = place.run(&["explain", "[run_not_found]"]).exit(0);
    assert!(lower.text().starts_with("# RUN_NOT_FOUND\n"), "{lower}");
    let all = place.run(&["explain"]).exit(0);
    assert_eq!(all.text().lines().count(), Code::ALL.len() + 1);
    let json = place.run(&["explain", "REPO_DIRTY", "--json"]).exit(0).json();
    assert_eq!((&json["code"], &json["exit_code"]), (&"REPO_DIRTY".into(), &3.into()));
    place
        .run(&["explain", "NO_SUCH_CODE"])
        .fails_with(2, "REQUEST_INVALID")
        .warns("windlass explain");
}

#[test]
fn mend_15_loops_are_listed_and_checked_without_a_project() {
    let place = Place::new();
    let project = Place::with_project();
    let listed = place.run(&["loop", "list", "--json"]).exit(0).quiet().json();
    assert_eq!(listed, project.run(&["loop", "list", "--json"]).exit(0).json());
    let shown = place.run(&["loop", "show", "spine"]).exit(0);
    assert_eq!(shown.text(), project.run(&["loop", "show", "spine"]).exit(0).text());
    let spine = std::fs::read(project.work().join(".windlass/loops/spine.md")).unwrap();
    place.write("spine.md", spine);
    place.run(&["loop", "check", "spine.md"]).exit(0).says("spine.md");
    place.write("spine.md", "---\nid: spine\n---\n");
    place.run(&["loop", "check", "spine.md"]).fails_with(2, "LOOP_INVALID");
    // A project that is named must be there.
    place.run(&["loop", "list", "-C", "nowhere"]).fails_with(2, "PROJECT_MISSING");
}

#[test]
fn mend_15_a_missing_or_edited_packet_is_written_again_as_its_hint_says() {
    for damage in [None, Some("edited: true\n")] {
        let repo = Repo::new();
        let id = id_of(&repo.run(&escalating()).exit(4));
        approve(&repo, &id).exit(0);
        let path = repo.root().join(format!(".windlass/artifacts/checkpoints/CP_{id}_4.yaml"));
        match damage {
            None => std::fs::remove_file(&path).unwrap(),
            Some(text) => {
                let old = std::fs::read_to_string(&path).unwrap();
                std::fs::write(&path, format!("{old}{text}")).unwrap();
            }
        }
        let refused = repo.windlass(&["resume", &id]).exit(1);
        assert_eq!(hinted(&refused), ["export", &id]);
        follow(&repo, &refused).exit(0);
        repo.windlass(&["resume", &id]).exit(0);
    }
}

#[test]
fn mend_15_a_stop_request_is_cleared_as_its_hint_says() {
    let repo = Repo::new();
    repo.windlass(&["stop"]).exit(0);
    let path = repo.answers(&passing());
    let refused = repo.windlass(&["run", "one", "--answers", &path]).fails_with(3, "RUN_STOPPED");
    assert_eq!(hinted(&refused), ["stop", "--clear"]);
    follow(&repo, &refused).exit(0);
    repo.windlass(&["run", "one", "--answers", &path]).exit(0);
    let id = id_of(&repo.run(&escalating()).exit(4));
    approve(&repo, &id).exit(0);
    repo.windlass(&["stop", &id]).exit(0);
    let refused = repo.windlass(&["resume", &id]).fails_with(3, "RUN_STOPPED");
    assert_eq!(hinted(&refused), ["stop", &id, "--clear"]);
    follow(&repo, &refused).exit(0);
    repo.windlass(&["resume", &id]).exit(0);
}

#[test]
fn mend_15_changed_files_are_put_back_as_the_hint_of_a_resume_says() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    approve(&repo, &id).exit(0);
    repo.write("built.txt", "something else\n");
    let refused = repo.windlass(&["resume", &id]).fails_with(3, "REPO_DIRTY");
    let refused = refused.warns("a commit or a stash would take the run's own work, too");
    let words = hinted(&refused);
    assert_eq!(words[..2], ["checkpoint", "rollback"]);
    follow(&repo, &refused).exit(0);
    assert_eq!(repo.read("built.txt"), "built\n");
    goes_on(&repo, &id);
}

/// Approves the hold after a rollback, and what it leads to.
fn goes_on(repo: &Repo, id: &str) {
    let resume = [&["queue", "approve", id, "--resume"][..], &VOICE].concat();
    repo.windlass(&resume).exit(4);
    repo.windlass(&resume).exit(0);
    assert_eq!(repo.stands(id)["outcome"], "PASS");
}

#[test]
fn mend_15_a_lost_work_tree_is_made_again_as_its_hint_says() {
    let repo = Repo::new();
    let id = id_of(&repo.run_with(&escalating(), &["--worktree"]).exit(4));
    approve(&repo, &id).exit(0);
    let tree = repo.place.state().join("worktrees").join(&id);
    std::fs::remove_dir_all(&tree).unwrap();
    let refused = repo.windlass(&["resume", &id]).fails_with(1, "REPO_MISSING");
    let refused = refused.warns(&format!("`{}`", tree.display())).warns("is gone");
    for line in refused.stderr.split("hint: ").nth(1).unwrap().split('`') {
        if let Some(words) = line.strip_prefix("git ") {
            repo.git(&words.split(' ').collect::<Vec<_>>());
        }
    }
    follow(&repo, &refused).exit(0);
    assert_eq!(std::fs::read_to_string(tree.join("built.txt")).unwrap(), "built\n");
    goes_on(&repo, &id);
}

#[test]
fn mend_15_a_run_that_is_in_the_way_is_found_as_the_hint_says() {
    let repo = Repo::new();
    let slow = crate::world::build(&[crate::world::sh(crate::world::UNTIL_GO)]);
    let approved = crate::world::review("approved");
    let path = repo.answers(&crate::world::answers(&[slow], &[approved]));
    let child = repo.place.command(&["run", "one", "--answers", &path]).spawn().unwrap();
    repo.until_begun();
    let refused = repo.windlass(&["run", "two", "--answers", &path]);
    let shown = follow(&repo, &refused);
    repo.go();
    assert!(child.wait_with_output().unwrap().status.success());
    let refused = refused.fails_with(1, "RUN_CONCURRENT").warns("`windlass run --worktree`");
    assert_eq!(hinted(&refused), ["status", "--open"]);
    let shown = shown.exit(0);
    assert!(shown.text().contains("one"), "{shown}");
}

#[test]
fn mend_15_a_wrong_approver_is_told_who_can_answer() {
    let repo = Repo::with_spine("approvals: 1", "approvals: 2");
    let id = id_of(&repo.run(&escalating()).exit(4));
    // Ada started the run.
    let refused = approve(&repo, &id).fails_with(3, "APPROVER_NOT_COUNTED");
    let refused =
        refused.warns("`windlass people list`").warns("windlass people add NAME --passphrase");
    assert_eq!(hinted(&refused)[..2], ["queue", "approve"]);
    let unknown = ["queue", "approve", &id, "--by", "nobody-here", "--reason", "x"];
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(unknown);
    repo.place.settle(&mut command);
    let unknown = crate::harness::finish(command, &[]).fails_with(3, "PERSON_UNKNOWN");
    assert_eq!(hinted(&unknown), ["people", "list"]);
    let alone = repo.windlass(&["people", "add", "eve", "--passphrase"]);
    alone.fails_with(3, "PERSON_LOCKED").warns("`--passphrase-file FILE`");
}
