//! Checkpoints from outside: list, show, compare, go back, purge, import; and a binary that is killed
//! while it goes back.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_testkit::{Random, soak};

use crate::harness::text_of;
use crate::world::{Repo, escalating, id_of};

fn held() -> (Repo, String) {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    (repo, id)
}

fn names(repo: &Repo, id: &str) -> Vec<String> {
    let list = repo.windlass(&["checkpoint", "list", id, "--json"]).exit(0).json();
    list.as_array().unwrap().iter().map(|one| text_of(one, "name")).collect()
}

const WHY: [&str; 4] = ["--by", "ada", "--reason", "it went astray"];

#[test]
fn a_run_is_looked_at_compared_and_taken_back() {
    let (repo, id) = held();
    let all = names(&repo, &id);
    for name in
        ["PRE_hydrate_v1", "POST_design_v1", "PRE_build_v1", "POST_build_v1", "POST_review_v1"]
    {
        assert!(all.contains(&name.to_owned()), "{all:?}");
    }
    repo.windlass(&["checkpoint", "list", &id]).exit(0).says("POST_build_v1");
    let (planned, built) = (format!("{id}/POST_design"), format!("{id}/POST_build"));
    repo.windlass(&["checkpoint", "show", &built]).exit(0).says("agent    builder");
    let shown = repo.windlass(&["checkpoint", "show", &built, "--json"]).exit(0).json();
    assert_eq!(shown["type"], "POST");
    assert_eq!(shown["orchestrator_state"]["run_id"], json!(id));
    repo.windlass(&["checkpoint", "diff", &planned, &built])
        .exit(0)
        .says("+ built.txt")
        .says("+built");
    let diff = repo.windlass(&["checkpoint", "diff", &planned, &built, "--json"]).exit(0).json();
    assert_eq!(diff["files"][0]["path"], "built.txt");
    assert!(text_of(&diff, "diff").contains("+built"), "{diff}");
    // Looking first.
    let dry = ["checkpoint", "rollback", &planned, "--dry-run", "--json"];
    let plan = repo.windlass(&dry).exit(0).json();
    assert_eq!(plan["archived_phases"], json!(["build", "review"]));
    assert!(repo.root().join("built.txt").exists());
    repo.windlass(&[&["checkpoint", "rollback", &planned][..], &WHY].concat()).exit(0);
    assert!(!repo.root().join("built.txt").exists());
    assert_eq!(repo.status(), "");
    // Forward again, and on to the end.
    let reviewed = format!("{id}/POST_review_v1");
    repo.windlass(&[&["checkpoint", "rollback", &reviewed, "--resume"][..], &WHY].concat()).exit(4);
    assert_eq!(repo.read("built.txt"), "built\n");
    assert_eq!(repo.approve(&id).exit(0).json()["outcome"], "PASS");
    repo.windlass(&["checkpoint", "check"]).exit(0);
    repo.is_whole();
}

#[test]
fn changes_of_people_refuse_it_and_words_are_needed() {
    let (repo, id) = held();
    let target = format!("{id}/PRE_build");
    repo.write("built.txt", "mine\n");
    repo.windlass(&[&["checkpoint", "rollback", &target][..], &WHY].concat())
        .fails_with(3, "WORKSPACE_CHANGED");
    assert_eq!(repo.read("built.txt"), "mine\n");
    assert_eq!(repo.windlass(&["checkpoint", "rollback", &target]).exit(2).text(), "");
    repo.windlass(&["checkpoint", "show", "nonsense"]).fails_with(1, "CHECKPOINT_UNAVAILABLE");
    repo.windlass(&["checkpoint", "show", &format!("{id}/POST_none")])
        .fails_with(1, "CHECKPOINT_UNAVAILABLE");
    repo.windlass(&[&["checkpoint", "rollback", &target, "--force"][..], &WHY].concat()).exit(0);
    assert!(!repo.root().join("built.txt").exists());
    let newest = names(&repo, &id).pop().unwrap();
    let shown = repo.windlass(&["checkpoint", "show", &format!("{id}/{newest}"), "--json"]);
    let tree = text_of(&shown.exit(0).json()["metadata"], "snapshot");
    assert_eq!(repo.git_with_snapshots(&["show", &format!("{tree}:built.txt")]), "mine");
}

#[test]
fn the_files_are_in_the_layout_and_written_again() {
    let (repo, id) = held();
    let folder = repo.root().join(".windlass/checkpoints");
    let file = folder.join(format!("run-{id}/POST_build_v1.json"));
    let before = std::fs::read(&file).unwrap();
    let index: Value =
        serde_json::from_slice(&std::fs::read(folder.join("index.json")).unwrap()).unwrap();
    let listed = index["checkpoints"].as_array().unwrap();
    assert_eq!(listed.len(), names(&repo, &id).len());
    assert!(listed.iter().any(|one| one["path"] == json!(format!("run-{id}/POST_build_v1.json"))));
    // Whatever becomes of the files, they come back from the journal, and decide nothing.
    std::fs::write(&file, b"{}").unwrap();
    std::fs::write(folder.join("index.json"), b"not json").unwrap();
    std::fs::remove_file(folder.join(format!("run-{id}/PRE_build_v1.json"))).unwrap();
    repo.windlass(&["checkpoint", "show", &format!("{id}/POST_build")]).exit(0);
    repo.windlass(&["export", &id]).exit(0);
    assert_eq!(std::fs::read(&file).unwrap(), before);
    let again: Value =
        serde_json::from_slice(&std::fs::read(folder.join("index.json")).unwrap()).unwrap();
    assert_eq!(again, index);
    assert_eq!(repo.status(), "?? built.txt", "nothing of ours is seen by git");
}

/// Gives each object in the packs of the snapshots a file of its own.
fn unpack(repo: &Repo, packs: &Path) {
    for entry in std::fs::read_dir(packs).unwrap() {
        let path = entry.unwrap().path();
        let moved = repo.place.state().join("pack");
        if path.extension().is_some_and(|end| end == "pack") {
            std::fs::rename(&path, &moved).unwrap();
            std::fs::remove_file(path.with_extension("idx")).unwrap();
            let mut git = Command::new("git");
            git.arg("--git-dir").arg(packs.join("../..")).args(["unpack-objects", "-q"]);
            let pack = std::fs::File::open(&moved).unwrap();
            assert!(git.stdin(pack).status().unwrap().success());
        }
    }
}

#[test]
fn damage_is_found_and_named_and_the_rest_works() {
    let (repo, id) = held();
    let built = repo.windlass(&["checkpoint", "show", &format!("{id}/POST_build"), "--json"]);
    let tree = text_of(&built.exit(0).json()["metadata"]["workspace"], "tree");
    let blob = repo.git_with_snapshots(&["rev-parse", &format!("{tree}:built.txt")]);
    // The run's look at the work tree has written it to the repository, too.
    let own = repo.place.state().join("snapshots.git/objects");
    unpack(&repo, &own.join("pack"));
    for objects in [own, repo.root().join(".git/objects")] {
        std::fs::remove_file(objects.join(&blob[..2]).join(&blob[2..])).unwrap();
    }
    let faults = repo.windlass(&["checkpoint", "check", "--json"]);
    assert!(faults.text().contains(&blob), "{}", faults.text());
    assert!(faults.text().contains(&id));
    repo.windlass(&["checkpoint", "check"]).exit(5).warns("[SNAPSHOT_CORRUPT]");
    // The damaged one is refused, an older one is not.
    let to = |name: &str| format!("{id}/{name}");
    repo.windlass(&[&["checkpoint", "rollback", &to("POST_design"), "--force"][..], &WHY].concat())
        .exit(0);
    repo.windlass(&[&["checkpoint", "rollback", &to("POST_build_v1")][..], &WHY].concat())
        .fails_with(5, "SNAPSHOT_CORRUPT");
    // Nothing was begun: the run can still be taken elsewhere.
    repo.windlass(&[&["checkpoint", "rollback", &to("PRE_design_v1")][..], &WHY].concat()).exit(0);
    repo.is_whole();
}

#[test]
fn a_state_of_version_1_is_taken_over() {
    let repo = Repo::new();
    repo.write("docs/plan.md", "plan\n");
    let state = repo.place.base().join("state.json");
    let text = json!({
        "current_phase": "data",
        "completed_phases": ["planning"],
        "phase_artifacts": {"planning": ["docs/plan.md", "docs/gone.md"]},
        "status": "running",
        "task": "raise the price",
    });
    std::fs::write(&state, text.to_string()).unwrap();
    let path = state.display().to_string();
    let taken = repo.windlass(&["import", "v1", &path, "--by", "ada", "--agent", "person"]).exit(4);
    assert!(taken.stderr.contains("docs/gone.md"), "{}", taken.stderr);
    assert!(taken.stderr.contains("intake"), "{}", taken.stderr);
    let run = repo.windlass(&["status", "--json"]).exit(0).json();
    let run = repo.stands(&text_of(&run[0], "run_id"));
    let status = |id: &str| {
        let phases = run["phases"].as_array().unwrap();
        text_of(phases.iter().find(|phase| phase["id"] == id).unwrap(), "status")
    };
    assert_eq!((status("planning"), status("data")), ("complete".into(), "pending".into()));
    for bad in ["[]", "{}", r#"{"completed_phases":["nope"],"phase_artifacts":{},"task":"x"}"#] {
        std::fs::write(&state, bad).unwrap();
        repo.windlass(&["import", "v1", &path]).fails_with(2, "IMPORT_INVALID");
    }
}

/// Many files, so that a rollback takes a while.
const MANY: &str = "---
id: many
title: Many files
type: loop
category: test
version: \"1\"
on_restart: hold
phases:
  - id: one
    doer: { command: [sh, -c, \"mkdir -p d; for i in $(seq 1 400); do echo one $i > d/$i; done; echo '{}'\"] }
  - id: two
    needs: [one]
    doer: { command: [sh, -c, \"for i in $(seq 1 400); do echo two $i > d/$i; done; rm d/7; echo '{}'\"] }
  - id: sign
    needs: [two]
    doer: { person: \"is it good?\" }
---
";

/// How many files of [`MANY`] are as the second phase left them, and how many as the first.
fn of_phases(repo: &Repo) -> (usize, usize) {
    let of = |phase: &str| {
        let is = |at: &i32| repo.read(&format!("d/{at}")).starts_with(phase);
        (1..=400).filter(is).count()
    };
    (of("two"), of("one"))
}

#[test]
fn a_binary_that_is_killed_while_it_goes_back_leaves_the_old_or_the_new_state() {
    let seed = soak::seed(0x5eed_0004);
    let mut random = Random::new(seed);
    let repo = Repo::with_loop("many", MANY);
    let run = ["run", "make many", "--loop", "many", "--by", "ada", "--json"];
    let id = id_of(&repo.windlass(&run).exit(4));
    assert_eq!(of_phases(&repo), (399, 0));
    let roll_back = |to: &str| {
        let to = format!("{id}/{to}");
        repo.place.command(&[&["checkpoint", "rollback", &to][..], &WHY].concat())
    };
    // And back to where it was, for the next round.
    let forward = |story: &str| {
        let done = roll_back("POST_two_v1").output().unwrap();
        assert!(done.status.success(), "{story}: {}", String::from_utf8_lossy(&done.stderr));
        repo.windlass(&["queue", "approve", &id, "--by", "ada", "--reason", "on", "--resume"])
            .exit(4);
        assert_eq!(of_phases(&repo), (399, 0), "{story}");
    };
    // How long it takes on this machine, so that the moments are spread over all of it.
    let began = Instant::now();
    assert!(roll_back("POST_one_v1").output().unwrap().status.success());
    let whole = u64::try_from(began.elapsed().as_micros()).unwrap();
    assert_eq!(of_phases(&repo), (0, 400));
    forward("before the first round");
    let (mut before, mut after) = (0, 0);
    for round in 0..soak::rounds(10) {
        let wait = random.below(whole);
        let story = format!("seed {seed}, round {round}, killed after {wait} of {whole} µs");
        let mut child = roll_back("POST_one_v1");
        child.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut child = child.spawn().unwrap();
        std::thread::sleep(Duration::from_micros(wait));
        child.kill().unwrap();
        child.wait().unwrap();
        // What completes it may be killed, too.
        if random.below(2) == 0 {
            let mut child = repo.place.command(&["recover"]);
            child.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
            let mut child = child.spawn().unwrap();
            std::thread::sleep(Duration::from_micros(random.below(whole)));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let recovered = repo.windlass(&["recover", "--json"]);
        assert!(matches!(recovered.code, Some(0 | 4)), "{story}: {recovered}");
        let files = of_phases(&repo);
        if repo.stands(&id)["hold"]["trigger"] == "ROLLED_BACK" {
            assert_eq!(files, (0, 400), "{story}");
            after += 1;
            forward(&story);
        } else {
            assert_eq!(files, (399, 0), "{story}");
            before += 1;
        }
        repo.is_whole();
        // The files that show the run are those of the journal, whoever wrote them.
        repo.windlass(&["export", &id]).exit(0);
    }
    repo.windlass(&["checkpoint", "check"]).exit(0);
    println!("seed {seed}: {before} killed before it began, {after} after");
}
