//! `backlog`: tasks from a check-list, marked when they have passed and only then.

use serde_json::{Value, json};

use crate::harness::Outcome;
use crate::world::{Repo, escalating, id_of, passing};

const LIST: &str = "# What is to be done

### P0
- [x] **Old** — DoD: done — Owner: ada
- [ ] **Stuck** — DoD: it works — Owner: ada — Context: blocked by the weather

### P1
- [ ] **Raise the price** — DoD: it is higher — Owner: bob — Context: src/price.txt
- [ ] **Lower it** — DoD: it is lower — Owner: bob

### P2
- [ ] **Dream**
";

fn with_list() -> Repo {
    let repo = Repo::new();
    repo.write("BACKLOG.md", LIST);
    repo.commit("a backlog");
    repo
}

fn run(repo: &Repo, answers: &Value, more: &[&str]) -> Outcome {
    let path = repo.answers(answers);
    repo.windlass(&[&["backlog", "run", "--json", "--answers", &path][..], more].concat())
}

#[test]
fn the_list_is_shown_and_the_next_task_named() {
    let repo = with_list();
    let list = repo.windlass(&["backlog", "list"]).exit(0).quiet();
    assert!(list.text().contains("next") && list.text().contains("Raise the price"), "{list}");
    let items = repo.windlass(&["backlog", "list", "--json"]).exit(0).json();
    assert_eq!(items.as_array().unwrap().len(), 5);
    let next = repo.windlass(&["backlog", "next", "--json"]).exit(0).json();
    assert_eq!((&next["title"], &next["priority"]), (&json!("Raise the price"), &json!("P1")));
    repo.windlass(&["backlog", "next"]).exit(0).says("it is higher").says("bob");
    assert_eq!(repo.status(), "");
}

#[test]
fn a_task_that_passed_is_marked_with_its_evidence_and_the_repository_stays_clean() {
    let repo = with_list();
    let done = run(&repo, &passing(), &[]).exit(0);
    let id = id_of(&done);
    let list = repo.read("BACKLOG.md");
    let line = list.lines().find(|line| line.contains("Raise the price")).unwrap();
    assert!(line.starts_with("- [x] ") && line.contains(&id), "{line}");
    assert!(line.contains(done.json()["commit"].as_str().unwrap()), "{line}");
    let others = |text: &str| {
        text.lines().filter(|line| !line.contains("Raise")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(others(&list), others(LIST), "nothing else is changed");
    assert_eq!(repo.status(), "");
    let next = repo.windlass(&["backlog", "next", "--json"]).exit(0).json();
    assert_eq!(next["title"], "Lower it");
    // And so the next one can be taken at once.
    run(&repo, &passing(), &[]).exit(0);
    let none = run(&repo, &passing(), &[]).exit(0);
    assert_eq!(none.json()["outcome"], "NO_ELIGIBLE_TASK");
    repo.windlass(&["backlog", "next"]).exit(0).says("no eligible task");
}

#[test]
fn a_task_that_did_not_pass_stays_open() {
    let repo = with_list();
    let blocked =
        crate::world::answers(&[crate::world::built_once()], &[crate::world::review("rejected")]);
    run(&repo, &blocked, &[]).exit(3);
    assert_eq!(repo.read("BACKLOG.md"), LIST);
}

#[test]
fn a_task_whose_line_was_edited_meanwhile_is_not_marked() {
    let repo = with_list();
    let id = id_of(&run(&repo, &escalating(), &["--worktree"]).exit(4));
    let edited = LIST.replace("it is higher", "it is much higher");
    repo.write("BACKLOG.md", &edited);
    repo.commit("edited meanwhile");
    let done = repo.approve(&id).exit(1);
    assert_eq!(done.error()["code"], "BACKLOG_LINE_CHANGED", "{done}");
    // The run has passed all the same, and says so.
    assert_eq!(done.json()["outcome"], "PASS");
    assert_eq!((repo.read("BACKLOG.md"), repo.status()), (edited, String::new()));
}

#[test]
fn a_task_that_waited_is_marked_when_it_passes() {
    let repo = with_list();
    let id = id_of(&run(&repo, &escalating(), &[]).exit(4));
    assert_eq!(repo.read("BACKLOG.md"), LIST);
    repo.approve(&id).exit(0);
    assert!(repo.read("BACKLOG.md").contains("- [x] **Raise the price**"));
    assert_eq!(repo.status(), "");
}

#[test]
fn a_task_that_is_under_way_is_not_taken_a_second_time() {
    let repo = with_list();
    let id = id_of(&run(&repo, &escalating(), &["--worktree"]).exit(4));
    let second = run(&repo, &escalating(), &["--worktree"]).exit(4);
    let task = second.json()["task"]["task"].as_str().unwrap().to_owned();
    assert!(task.contains("Lower it"), "{task}");
    // With both under way there is nothing left to take.
    assert_eq!(
        run(&repo, &passing(), &["--worktree"]).exit(0).json()["outcome"],
        "NO_ELIGIBLE_TASK"
    );
    repo.approve(&id).exit(0);
    assert!(repo.read("BACKLOG.md").contains("- [x] **Raise the price**"));
}

#[test]
fn a_task_whose_process_died_before_it_was_marked_is_marked_later() {
    // The last append of a run is its end; what comes after it is lost.
    let died = (15..26).rev().find_map(|count| {
        let repo = with_list();
        let path = repo.answers(&passing());
        let (at, line) = (format!("append.after:{count}"), ["backlog", "run", "--answers", &path]);
        let ended = repo.place.run_with("WINDLASS_CRASH_AT", &at, &line);
        ended.code.is_none().then_some(repo)
    });
    let repo = died.unwrap();
    let runs = repo.windlass(&["status", "--json"]).exit(0).json();
    assert_eq!(runs[0]["outcome"], "PASS");
    assert_eq!(repo.read("BACKLOG.md"), LIST);
    let next = repo.windlass(&["backlog", "next", "--json"]).exit(0).json();
    assert_eq!(next["title"], "Lower it");
    let id = runs[0]["run_id"].as_str().unwrap();
    assert!(repo.read("BACKLOG.md").contains(id), "{}", repo.read("BACKLOG.md"));
    assert_eq!(repo.status(), "");
    // And so are the files that show it.
    assert!(!repo.artifacts().contains(&format!("terminal/TP_{id}.yaml")));
    repo.windlass(&["resume", id]).fails_with(1, "RUN_ENDED");
    assert!(repo.artifacts().contains(&format!("terminal/TP_{id}.yaml")));
}

#[test]
fn a_list_in_a_folder_or_under_another_name_is_marked_there() {
    let repo = Repo::new();
    repo.write("docs/todo.md", LIST);
    repo.commit("a backlog");
    run(&repo, &passing(), &["--file", "docs/todo.md"]).exit(0);
    assert!(repo.read("docs/todo.md").contains("- [x] **Raise the price**"));
    assert_eq!(repo.status(), "");
}

#[test]
fn a_missing_list_is_told() {
    let repo = Repo::new();
    for line in [&["backlog", "list"][..], &["backlog", "next"], &["backlog", "run"]] {
        repo.windlass(line).fails_with(1, "FILE_UNREADABLE");
    }
}
