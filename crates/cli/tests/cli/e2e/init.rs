//! `windlass init`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::e2e::snapshot::check;
use crate::harness::{Place, finish};

/// Every file below a folder, with its bytes.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), std::fs::read(path).unwrap());
        }
    }
    found
}

fn git(place: &Place, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=a", "-c", "user.email=a@example.org"]).args(args);
    place.settle(&mut command);
    finish(command, &[]).exit(0).text().to_owned()
}

#[test]
fn a_fresh_project_is_made_and_works() {
    let place = Place::new();
    let made = place.run(&["init"]).exit(0).quiet();
    let second = place.run(&["init"]).fails_with(2, "PROJECT_EXISTS");
    check("init", &place, &[made, second]);
    place.run(&["doctor"]).exit(0);
    place.run(&["verify"]).exit(0).says("intact: 0 traces");
    place.shell("shell/read", "ls", &[]).exit(0);
}

#[test]
fn a_fresh_project_is_told_as_json() {
    let place = Place::new();
    let made = place.run(&["init", "--json"]).exit(0).quiet().json();
    let root = place.work().canonicalize().unwrap();
    assert_eq!(made["root"], root.to_str().unwrap());
    assert_eq!(made["folder"], root.join(".windlass").to_str().unwrap());
    let error = place.run(&["init", "--json"]).exit(2).error();
    assert_eq!(error["code"], "PROJECT_EXISTS");
}

#[test]
fn a_second_init_changes_nothing() {
    let place = Place::new();
    place.run(&["init"]).exit(0);
    place.append(".windlass/config.toml", "# mine");
    place.completed();
    let before = files(&place.work());
    place.run(&["init"]).fails_with(2, "PROJECT_EXISTS").warns("hint: ");
    assert_eq!(files(&place.work()), before);
}

#[test]
fn the_users_own_project_serves_outside_of_any_other() {
    let place = Place::new();
    place.run(&["call", "list"]).fails_with(2, "PROJECT_MISSING");
    place.run(&["init", "--user"]).exit(0).says(".local/share/windlass/.windlass");
    place.run(&["call", "list"]).exit(0);
    let data = place.base().join("data");
    let data = data.to_str().unwrap();
    place.run_with("XDG_DATA_HOME", data, &["call", "list"]).fails_with(2, "PROJECT_MISSING");
    place.run_with("XDG_DATA_HOME", data, &["init", "--user"]).exit(0).says("/data/windlass");
    place.run_with("XDG_DATA_HOME", data, &["call", "list"]).exit(0);
    place.run_with("XDG_DATA_HOME", data, &["init", "--user"]).fails_with(2, "PROJECT_EXISTS");
    let mut homeless = place.command(&["init", "--user"]);
    homeless.env_remove("HOME");
    finish(homeless, &[]).fails_with(1, "FILE_UNREADABLE").warns("HOME");
    for name in ["", "relative"] {
        let ignored = place.run_with("XDG_DATA_HOME", name, &["init", "--user"]);
        ignored.fails_with(2, "PROJECT_EXISTS");
    }
}

#[test]
fn the_users_own_project_is_meant_even_where_another_is_named() {
    let place = Place::new();
    let work = place.work();
    let named = place.run_with("WINDLASS_PROJECT", work.to_str().unwrap(), &["init", "--user"]);
    named.exit(0).says(".local/share/windlass");
    assert!(!work.join(".windlass").exists());
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let place = Place::new();
    place.run(&["init", "-C", "/sys"]).fails_with(1, "STORE_READ_ONLY").warns("/sys/.windlass");
    place.run(&["init", "-C", "nowhere"]).fails_with(1, "FILE_UNREADABLE").warns("nowhere");
    place.write("file", "");
    place.run(&["init", "-C", "file"]).fails_with(1, "FILE_UNREADABLE").warns("file");
    assert_eq!(std::fs::read_dir(place.work()).unwrap().count(), 1);
}

#[test]
fn a_file_in_the_projects_place_is_no_project() {
    let place = Place::new();
    place.write(".windlass", "not a folder");
    place.run(&["init"]).fails_with(1, "FILE_UNREADABLE").warns("hint: ");
    place.run(&["verify"]).fails_with(2, "PROJECT_MISSING");
    assert_eq!(place.read(".windlass"), "not a folder");
}

#[test]
fn what_an_interrupted_init_left_behind_does_no_harm() {
    let place = Place::new();
    place.write(".windlass.new-1/config.toml", "half");
    place.write(".windlass.new-2/config.toml", "at work right now, and too late");
    place.run(&["verify"]).fails_with(2, "PROJECT_MISSING");
    place.run(&["init"]).exit(0);
    place.run(&["doctor"]).exit(0);
    for draft in [".windlass.new-1", ".windlass.new-2"] {
        assert!(!place.work().join(draft).exists(), "leftovers are gone");
    }
}

#[test]
fn of_two_inits_at_once_one_makes_the_project() {
    let place = Place::new();
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| place.run(&["init"]))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let made = outcomes.iter().filter(|outcome| outcome.code == Some(0)).count();
    assert_eq!(made, 1, "{outcomes:#?}");
    for outcome in outcomes.into_iter().filter(|outcome| outcome.code != Some(0)) {
        outcome.fails_with(2, "PROJECT_EXISTS");
    }
    place.run(&["doctor"]).exit(0);
    assert_eq!(std::fs::read_dir(place.work()).unwrap().count(), 1, "nothing is left behind");
}

#[test]
fn what_was_recorded_is_no_change_of_the_repository() {
    let place = Place::new();
    git(&place, &["init", "-q"]);
    place.run(&["init"]).exit(0);
    git(&place, &["add", "-A"]);
    let staged = git(&place, &["diff", "--cached", "--name-only"]);
    assert_eq!(
        staged.lines().collect::<Vec<_>>(),
        [
            ".windlass/.gitignore",
            ".windlass/agents/advocate.md",
            ".windlass/agents/analyst.md",
            ".windlass/agents/architect.md",
            ".windlass/agents/builder.md",
            ".windlass/agents/critic.md",
            ".windlass/agents/custodiet.md",
            ".windlass/agents/data-engineer.md",
            ".windlass/agents/designer.md",
            ".windlass/agents/developer.md",
            ".windlass/agents/documenter.md",
            ".windlass/agents/executor.md",
            ".windlass/agents/framework.md",
            ".windlass/agents/helper.md",
            ".windlass/agents/hygienist.md",
            ".windlass/agents/prompt-hydrator.md",
            ".windlass/agents/qa-engineer.md",
            ".windlass/agents/qa-verifier.md",
            ".windlass/agents/reviewer.md",
            ".windlass/agents/security-engineer.md",
            ".windlass/agents/skeptic.md",
            ".windlass/agents/worker.md",
            ".windlass/config.toml",
            ".windlass/core/AXIOMS.md",
            ".windlass/core/hydration-context.md",
            ".windlass/loops/core.md",
            ".windlass/loops/driver.md",
            ".windlass/loops/driver/intents.toml",
            ".windlass/loops/driver/models.toml",
            ".windlass/loops/driver/profiles.toml",
            ".windlass/loops/driver/routing.toml",
            ".windlass/loops/driver/verification.toml",
            ".windlass/loops/insights.md",
            ".windlass/loops/phases.md",
            ".windlass/loops/spine.md",
            ".windlass/policy/default.toml",
            ".windlass/policy/governance/universal.toml",
            ".windlass/tools.toml",
            ".windlass/workflows/WORKFLOWS.md",
            ".windlass/workflows/batch-processing.md",
            ".windlass/workflows/debugging.md",
            ".windlass/workflows/direct-skill.md",
            ".windlass/workflows/feature-dev.md",
            ".windlass/workflows/minor-edit.md",
            ".windlass/workflows/qa-demo.md",
            ".windlass/workflows/simple-question.md",
            ".windlass/workflows/spec-review.md",
            ".windlass/workflows/tdd-cycle.md",
        ]
    );
    git(&place, &["commit", "-qm", "a project"]);
    place.completed();
    place.held();
    place.run(&["recover"]).exit(4);
    assert_eq!(git(&place, &["status", "--porcelain"]), "");
}

#[test]
fn a_clone_gets_a_journal_of_its_own_and_keeps_what_decides() {
    let place = Place::with_project();
    place.append(".windlass/policy/default.toml", "# ours");
    std::fs::remove_dir_all(place.state()).unwrap();
    std::fs::remove_file(place.work().join(".windlass/id")).unwrap();
    place.run(&["call", "list"]).fails_with(2, "PROJECT_MISSING").warns("windlass init");
    place.run(&["init"]).exit(0).says("empty journal").says("windlass trust");
    assert!(place.read(".windlass/policy/default.toml").ends_with("# ours"));
    place.run(&["doctor"]).exit(0).says("warn");
    place.shell("shell/read", "echo one", &[]).fails_with(3, "PROJECT_UNTRUSTED");
    place.trust();
    place.run(&["doctor"]).exit(0);
    place.completed();
    place.run(&["init"]).fails_with(2, "PROJECT_EXISTS");
}

#[test]
fn an_empty_folder_becomes_a_project() {
    let place = Place::new();
    std::fs::create_dir(place.work().join(".windlass")).unwrap();
    place.run(&["init"]).exit(0);
    place.run(&["doctor"]).exit(0);
}
