//! The backlog: what is listed is what is taken, dependencies, context, and bad lines.

use serde_json::{Value, json};

use crate::world::{Repo, built_once, escalating, passing};

fn with_list(list: &str) -> Repo {
    let repo = Repo::new();
    repo.write("BACKLOG.md", list);
    repo.commit("a backlog");
    repo
}

/// The state of each item, by its title.
#[track_caller]
fn states(repo: &Repo) -> Vec<(String, String)> {
    let list = repo.windlass(&["backlog", "list", "--json"]).exit(0).json();
    let text = |item: &Value, name: &str| item[name].as_str().unwrap().to_owned();
    list.as_array().unwrap().iter().map(|item| (text(item, "title"), text(item, "state"))).collect()
}

#[track_caller]
fn next(repo: &Repo) -> Value {
    repo.windlass(&["backlog", "next", "--json"]).exit(0).json()["title"].clone()
}

fn pair(title: &str, state: &str) -> (String, String) {
    (title.to_owned(), state.to_owned())
}

#[test]
fn mend_06_list_and_next_agree() {
    let repo = with_list(
        "### P1
- [ ] **One** — DoD: it is — Owner: ada
- [ ] **Two** — DoD: it is — Owner: ada
- [ ] **Three** — DoD: it is — Owner: ada — Context: blocked by the weather
",
    );
    assert_eq!(states(&repo), [pair("One", "next"), pair("Two", "open"), pair("Three", "blocked")]);
    assert_eq!(next(&repo), "One");
    let path = repo.answers(&escalating());
    repo.windlass(&["backlog", "run", "--worktree", "--answers", &path]).exit(4);
    assert_eq!(next(&repo), "Two");
    assert_eq!(
        states(&repo),
        [pair("One", "under way"), pair("Two", "next"), pair("Three", "blocked")]
    );
    repo.windlass(&["backlog", "list"]).exit(0).says("under way").says("blocked");
}

#[test]
fn mend_06_what_depends_on_another_is_taken_once_that_is_done() {
    let repo = with_list(
        "### P0
- [ ] **Ship it** — DoD: it is out — Owner: ada — Context: depends on \"Build the thing\"

### P1
- [ ] **Build the thing** — DoD: it is there — Owner: ada
- [ ] **Build** — DoD: it is there — Owner: ada
",
    );
    assert_eq!(next(&repo), "Build the thing");
    assert_eq!(states(&repo)[0], pair("Ship it", "blocked"));
    let path = repo.answers(&passing());
    repo.windlass(&["backlog", "run", "--answers", &path]).exit(0);
    assert_eq!(states(&repo)[0], pair("Ship it", "next"));
    assert_eq!(next(&repo), "Ship it", "a title in the title of another is not meant");
}

#[test]
fn mend_06_the_files_of_the_context_are_hydrated() {
    let repo = with_list(
        "### P1
- [ ] **Raise it** — DoD: it is higher — Owner: ada — Context: see `src/price.txt`, README.md and v1.2
",
    );
    let path = repo.answers(&json!({ "phases": {
        "design": [{ "answer": { "summary": "a plan" } }], "build": [built_once()],
        "review": [crate::world::review("approved")],
    }}));
    let done = repo.windlass(&["backlog", "run", "--json", "--answers", &path]).exit(0).json();
    assert_eq!(done["task"]["context_refs"], json!(["src/price.txt", "README.md"]));
    let trace = done["trace_id"].as_str().unwrap();
    let hydrated = repo
        .events(trace)
        .into_iter()
        .find(|event| event["kind"] == "phase_done" && event["phase"] == "hydrate");
    let read = hydrated.unwrap()["done"].to_string();
    assert!(read.contains("src/price.txt") && read.contains("README.md"), "{read}");
}

#[test]
fn mend_06_one_bad_line_is_named_and_the_others_are_used() {
    let repo = with_list(
        "### P1
- [ ] **No owner** — DoD: it is
- [y] **Bad box** — DoD: it is — Owner: ada
- [ ] **Good** — DoD: it is — Owner: ada
",
    );
    for command in ["list", "next"] {
        let said = repo.windlass(&["backlog", command]).exit(0).says("Good");
        for words in ["line 2", "`No owner` has no `Owner:`", "line 3", "a checkbox must be"] {
            assert!(said.stderr.contains(words), "{said}");
        }
    }
    assert_eq!(states(&repo), [pair("Good", "next")]);
    let path = repo.answers(&passing());
    repo.windlass(&["backlog", "run", "--answers", &path]).exit(0).warns("line 2");
    assert!(repo.read("BACKLOG.md").contains("- [x] **Good**"));
    // What hides the lines after it refuses the file.
    let repo = with_list("### P1\n- [ ] **One** — DoD: it is — Owner: ada\n```\n");
    repo.windlass(&["backlog", "next"]).fails_with(2, "BACKLOG_INVALID");
}

#[test]
fn mend_06_missing_files_of_the_context_are_named() {
    let repo = with_list(
        "### P0
- [ ] **One** — DoD: it is — Owner: ada — Context: README.md, docs/none.md; e.g. and/or 1.2
",
    );
    let path = repo.answers(&passing());
    for line in [&["backlog", "next"][..], &["backlog", "run", "--answers", &path, "--by", "ada"]] {
        let told = repo.windlass(line).exit(0).warns("warning: `docs/none.md` of the task's");
        assert_eq!(told.stderr.matches("`Context:`").count(), 1, "{told}");
    }
}

#[test]
fn mend_06_what_a_task_waits_for_is_no_part_of_its_owner() {
    let repo = with_list(
        "### P0
- [ ] **One** — DoD: it is — Owner: ada
- [ ] **Two** — DoD: it is — Owner: ann — depends on One
- [ ] **Three** — waiting for One — DoD: it is — Owner: bob
",
    );
    let list = repo.windlass(&["backlog", "list", "--json"]).exit(0).quiet().json();
    assert_eq!((&list[1]["owner"], &list[1]["waits_for"]), (&json!("ann"), &json!(["One"])));
    assert_eq!((&list[2]["owner"], &list[2]["title"]), (&json!("bob"), &json!("Three")));
    repo.windlass(&["backlog", "list"]).exit(0).says("WAITS FOR");
}

#[test]
fn mend_06_tasks_that_can_never_be_taken_are_told() {
    let repo = with_list(
        "### P0
- [ ] **One** — DoD: it is — Owner: ada — depends on Two
- [ ] **Two** — DoD: it is — Owner: ada — depends on \"Three\"
- [ ] **Three** — DoD: it is — Owner: ada — depends on One
- [ ] **Four** — DoD: it is — Owner: ada — depends on Nothing at all
- [ ] **Five** — DoD: it is — Owner: ada — depends on One
- [ ] **Six** — DoD: it is — Owner: ada — blocked by the weather
",
    );
    let told = repo.windlass(&["backlog", "list"]).exit(0);
    let lines: Vec<&str> = told.stderr.lines().collect();
    assert_eq!(lines.len(), 4, "{told}");
    for (line, words) in lines.iter().zip(["`Two`", "`Three`", "`One`", "`Nothing at all`"]) {
        assert!(line.starts_with("warning: ") && line.contains(words), "{line}");
    }
    let list = repo.windlass(&["backlog", "list", "--json"]).exit(0).json();
    let stuck: Vec<bool> =
        list.as_array().unwrap().iter().map(|item| item["stuck"].is_string()).collect();
    assert_eq!(stuck, [true, true, true, true, false, false]);
    repo.windlass(&["backlog", "next"])
        .exit(0)
        .says("no eligible task")
        .warns("can never be taken");
}
