//! The state of projects outside of them: found by id and place, and never joined to a foreign journal.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Outcome, Place, finish};
use crate::states::{copy, state_of};
use crate::world::{Repo, escalating, id_of, passing, trace_of};

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Moves the project's folder, and leaves an empty one for commands to run in.
fn move_away(place: &Place) -> PathBuf {
    let moved = place.base().join("moved");
    std::fs::rename(place.work(), &moved).unwrap();
    std::fs::create_dir(place.work()).unwrap();
    moved
}

fn states(place: &Place) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(place.state_root()).unwrap();
    let folders = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    // The people of the account and the witnesses of journals belong to no project.
    let is_state = |path: &PathBuf| {
        path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.'))
    };
    folders.filter(is_state).collect()
}

#[test]
fn what_is_recorded_or_secret_lies_outside_of_the_project() {
    let place = Place::with_project();
    place.completed();
    place.run(&["anchor", "../x.anchor"]).exit(0);
    let mut names: Vec<String> = std::fs::read_dir(place.work().join(".windlass"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let kept = [
        ".gitignore",
        "agents",
        "config.toml",
        "core",
        "id",
        "loops",
        "policy",
        "tools.toml",
        "workflows",
    ];
    assert_eq!(names, kept);
    let state = place.state();
    for name in ["windlass.db", "keys", "project.json", "trust.json"] {
        assert!(state.join(name).exists(), "{name}");
    }
    let id = place.read(".windlass/id");
    let name = state.file_name().unwrap().to_str().unwrap();
    assert_eq!(name, format!("work-{}", &id[..8]));
}

#[test]
fn state_folders_are_made_for_their_owner_alone() {
    let place = Place::new();
    place.run(&["init"]).exit(0);
    for folder in [place.state_root(), place.state()] {
        assert_eq!(folder.metadata().unwrap().mode() & 0o7777, 0o700, "{}", folder.display());
    }
    for name in ["windlass.db", "project.json", "trust.json"] {
        let found = place.state().join(name).metadata().unwrap();
        assert_eq!(found.mode() & 0o7777, 0o600, "{name}");
    }
}

#[test]
fn a_moved_project_is_told_and_can_be_bound_again() {
    let place = Place::with_project();
    let before = place.completed();
    let moved = move_away(&place);
    for words in
        [vec!["verify"], vec!["call", "list"], vec!["recover"], vec!["status"], vec!["init"]]
    {
        let outcome = place.run(&[&["-C", "../moved"], &words[..]].concat());
        outcome.fails_with(2, "PROJECT_MOVED").warns("/work`").warns("windlass state move");
    }
    let listed = place.run(&["state", "list", "--json"]).exit(0).json();
    assert_eq!(listed[0]["project_exists"], false, "{listed}");
    place.run(&["-C", "../moved", "state", "move"]).exit(0).says("is now bound to");
    let listed = place.run(&["-C", "../moved", "trace", "list", "--json"]).exit(0).json();
    assert_eq!(listed[0]["trace_id"], before.as_str());
    // It is still the same configuration, which the user trusts.
    let args = r#"{"line":"ls"}"#;
    place.run(&["-C", "../moved", "call", "run", "shell/read", "--args", args]).exit(0);
    place.run(&["-C", "../moved", "state", "move"]).exit(0).says("is bound to");
    assert!(moved.join(".windlass/id").exists());
}

#[test]
fn a_folder_that_was_replaced_by_another_is_told() {
    let place = Place::with_project();
    place.completed();
    let moved = move_away(&place);
    copy(&moved, &place.work());
    std::fs::remove_dir_all(moved).unwrap();
    // The same path and id, but not the same folder: a backup that was put back.
    place.run(&["verify"]).fails_with(2, "PROJECT_MOVED");
    place.run(&["state", "move"]).exit(0);
    place.run(&["verify"]).exit(0).says("1 trace");
}

#[test]
fn a_copied_project_never_joins_the_journal_of_the_first() {
    let place = Place::with_project();
    place.completed();
    let copied = place.base().join("copy");
    copy(&place.work(), &copied);
    for words in [vec!["verify"], vec!["recover"], vec!["state", "move"], vec!["init"]] {
        let outcome = place.run(&[&["-C", "../copy"], &words[..]].concat());
        outcome.fails_with(2, "PROJECT_COPIED").warns("init --new");
    }
    place.run(&["verify"]).exit(0).says("1 trace");
    let made = place.run(&["-C", "../copy", "init", "--new", "--json"]).exit(0).json();
    assert_eq!(made["trusted"], false);
    assert_ne!(
        std::fs::read(copied.join(".windlass/id")).unwrap(),
        place.read(".windlass/id").as_bytes()
    );
    place.run(&["-C", "../copy", "verify"]).exit(0).says("0 traces");
    place.run(&["-C", "../copy", "recover"]).fails_with(3, "PROJECT_UNTRUSTED");
    place.run(&["verify"]).exit(0).says("1 trace");
    place.run(&["init", "--new"]).fails_with(2, "PROJECT_EXISTS");
    assert_eq!(states(&place).len(), 2);
}

#[test]
fn a_repository_that_names_the_id_of_another_project_does_not_get_its_journal() {
    let place = Place::with_project();
    place.completed();
    let other = place.base().join("other");
    std::fs::create_dir(&other).unwrap();
    place.run(&["-C", "../other", "init"]).exit(0);
    std::fs::copy(place.work().join(".windlass/id"), other.join(".windlass/id")).unwrap();
    place.run(&["-C", "../other", "call", "list"]).fails_with(2, "PROJECT_COPIED");
    // A link to it is not even read.
    let id = other.join(".windlass/id");
    std::fs::remove_file(&id).unwrap();
    symlink(place.work().join(".windlass/id"), &id).unwrap();
    let outcome = place.run(&["-C", "../other", "call", "list"]).fails_with(5, "STATE_DAMAGED");
    outcome.warns("symbolic link").warns("hint: ");
    place.run(&["-C", "../other", "init", "--new"]).exit(0);
    assert!(id.symlink_metadata().unwrap().is_file(), "the link is replaced, not followed");
    place.run(&["verify"]).exit(0).says("1 trace");
}

#[test]
fn two_projects_of_the_same_name_have_two_states() {
    let place = Place::new();
    for parent in ["a", "b"] {
        let root = place.base().join(parent).join("app");
        std::fs::create_dir_all(&root).unwrap();
        place.run(&["-C", root.to_str().unwrap(), "init"]).exit(0);
    }
    let names: Vec<String> = states(&place)
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(names.len(), 2);
    assert!(names.iter().all(|name| name.starts_with("app-")), "{names:?}");
    let roots = ["a", "b"].map(|parent| place.base().join(parent).join("app"));
    let args = ["call", "run", "shell/read", "--args", r#"{"line":"ls"}"#];
    place.run(&[&["-C", roots[0].to_str().unwrap()], &args[..]].concat()).exit(0);
    place.run(&["-C", roots[0].to_str().unwrap(), "verify"]).exit(0).says("1 trace");
    place.run(&["-C", roots[1].to_str().unwrap(), "verify"]).exit(0).says("0 traces");
}

#[test]
fn the_folder_of_states_can_be_elsewhere_and_moved() {
    let place = Place::with_project();
    place.completed();
    let elsewhere = place.base().join("elsewhere");
    let path = elsewhere.to_str().unwrap();
    place
        .run_with("WINDLASS_STATE", path, &["verify"])
        .fails_with(1, "STATE_MISSING")
        .warns("elsewhere");
    place.run_with("WINDLASS_STATE", path, &["init"]).fails_with(1, "STATE_MISSING");
    drop(std::fs::remove_dir_all(&elsewhere));
    std::fs::rename(place.state_root(), &elsewhere).unwrap();
    place.run(&["verify"]).fails_with(1, "STATE_MISSING").warns("WINDLASS_STATE");
    place.run_with("WINDLASS_STATE", path, &["verify"]).exit(0).says("1 trace");
    // By the XDG specification, `windlass` in the user's folder for state.
    let xdg = place.base().join("xdg");
    std::fs::create_dir(&xdg).unwrap();
    std::fs::rename(&elsewhere, xdg.join("windlass")).unwrap();
    place.run_with("XDG_STATE_HOME", xdg.to_str().unwrap(), &["verify"]).exit(0);
    place.run_with("WINDLASS_STATE", "", &["verify"]).fails_with(1, "STATE_MISSING");
    place
        .run_with("WINDLASS_STATE", "xdg", &["verify"])
        .fails_with(2, "CONFIG_INVALID")
        .warns("relative");
    // A relative or empty variable of the specification does not count.
    for ignored in ["", "xdg", "../xdg"] {
        place.run_with("XDG_STATE_HOME", ignored, &["verify"]).fails_with(1, "STATE_MISSING");
    }
    for home in [None, Some(""), Some("home")] {
        let mut homeless = place.command(&["verify"]);
        match home {
            None => homeless.env_remove("HOME"),
            Some(home) => homeless.env("HOME", home),
        };
        finish(homeless, &[]).fails_with(1, "STATE_MISSING").warns("set HOME");
    }
}

#[test]
fn a_state_that_others_could_change_is_refused() {
    let place = Place::with_project();
    for folder in [place.state_root(), place.state()] {
        for wrong in [0o770, 0o707, 0o722] {
            mode(&folder, wrong);
            let outcome = place.run(&["verify"]).fails_with(1, "STATE_UNSAFE");
            outcome.warns("chmod 700").warns(folder.to_str().unwrap());
            place.shell("shell/read", "ls", &[]).fails_with(1, "STATE_UNSAFE");
        }
        mode(&folder, 0o700);
        place.run(&["verify"]).exit(0);
        // Only root can give a folder away.
        if chown(&folder, Some(12345), None).is_ok() {
            let outcome = place.run(&["verify"]).fails_with(1, "STATE_UNSAFE");
            outcome.warns("another user").warns("hint: ");
            chown(&folder, Some(0), None).unwrap();
        }
    }
    let file = place.base().join("file");
    std::fs::write(&file, "").unwrap();
    place
        .run_with("WINDLASS_STATE", file.to_str().unwrap(), &["verify"])
        .fails_with(1, "STATE_UNSAFE");
    let new = Place::new();
    std::fs::create_dir_all(new.state_root()).unwrap();
    mode(&new.state_root(), 0o777);
    new.run(&["init"]).fails_with(1, "STATE_UNSAFE");
    assert!(!new.work().join(".windlass").exists());
}

#[test]
fn a_project_around_the_state_is_refused() {
    let place = Place::new();
    let refused = place.run(&["-C", "../home", "init"]).fails_with(1, "STATE_UNSAFE");
    refused.warns("inside of the project").warns("WINDLASS_STATE");
    assert!(!place.home().join(".windlass").exists());
    let (inside, outside) = (place.work().join("state"), place.base().join("states"));
    place.run_with("WINDLASS_STATE", outside.to_str().unwrap(), &["init"]).exit(0);
    std::fs::rename(&outside, &inside).unwrap();
    let path = inside.to_str().unwrap();
    place.run_with("WINDLASS_STATE", path, &["verify"]).fails_with(1, "STATE_UNSAFE");
    // A link does not hide where it lies.
    std::os::unix::fs::symlink(&inside, &outside).unwrap();
    let path = outside.to_str().unwrap();
    place.run_with("WINDLASS_STATE", path, &["verify"]).fails_with(1, "STATE_UNSAFE");
}

#[test]
fn a_state_that_is_gone_is_not_made_anew_in_silence() {
    let place = Place::with_project();
    place.completed();
    std::fs::remove_dir_all(place.state()).unwrap();
    for words in [vec!["verify"], vec!["recover"], vec!["init"], vec!["state", "move"]] {
        place.run(&words).fails_with(1, "STATE_MISSING").warns("backup");
    }
    assert!(states(&place).is_empty());
    // What needs no journal works.
    place.run(&["policy", "check"]).exit(0);
    place.run(&["loop", "list"]).exit(0);
    place.run(&["init", "--new"]).exit(0);
    place.run(&["verify"]).exit(0).says("0 traces");
}

#[test]
fn an_id_that_is_gone_leads_back_to_its_journal() {
    let place = Place::with_project();
    place.completed();
    let id = place.read(".windlass/id");
    std::fs::remove_file(place.work().join(".windlass/id")).unwrap();
    place.run(&["verify"]).fails_with(2, "PROJECT_MISSING").warns("windlass init");
    place.run(&["init"]).fails_with(2, "PROJECT_MOVED").warns("windlass state move");
    place.run(&["state", "move"]).exit(0);
    assert_eq!(place.read(".windlass/id"), id);
    place.run(&["verify"]).exit(0).says("1 trace");
    std::fs::remove_dir_all(place.work().join(".windlass")).unwrap();
    place.run(&["init"]).fails_with(2, "PROJECT_MOVED").warns("init --new");
    place.run(&["init", "--new"]).exit(0);
    place.run(&["verify"]).exit(0).says("0 traces");
}

#[test]
fn a_damaged_record_is_told_and_nothing_is_guessed() {
    let place = Place::with_project();
    let record = std::fs::read(place.state().join("project.json")).unwrap();
    let state = place.state();
    let id = place.read(".windlass/id");
    let extra = String::from_utf8(record.clone()).unwrap().replacen('{', "{\"x\":1,", 1);
    for text in ["", "{}", "not JSON", extra.as_str()] {
        std::fs::write(state.join("project.json"), text).unwrap();
        let outcome = place.run(&["verify"]).fails_with(5, "STATE_DAMAGED");
        outcome.warns("project.json").warns("hint: ");
        place.run(&["state", "list"]).exit(5).warns("[STATE_DAMAGED]");
    }
    std::fs::remove_file(state.join("project.json")).unwrap();
    place.run(&["verify"]).fails_with(5, "STATE_DAMAGED").warns("missing");
    std::fs::write(state.join("project.json"), record).unwrap();
    for text in ["", "x", "../../etc", &id.to_uppercase(), &id.repeat(2)] {
        std::fs::write(place.work().join(".windlass/id"), text).unwrap();
        place.run(&["verify"]).fails_with(5, "STATE_DAMAGED").warns(".windlass/id");
    }
    std::fs::write(place.work().join(".windlass/id"), &id).unwrap();
    place.run(&["verify"]).exit(0);
    copy(&state, &place.state_root().join(format!("copy-{}", &id[..8])));
    place.run(&["verify"]).fails_with(5, "STATE_DAMAGED").warns("two states");
}

#[test]
fn states_are_listed_and_removed() {
    let place = Place::with_project();
    place.completed();
    let id = place.read(".windlass/id").trim().to_owned();
    let listed = place.run(&["state", "list", "--json"]).exit(0).quiet().json();
    let root = place.work().canonicalize().unwrap();
    assert_eq!(listed[0]["id"], id.as_str());
    assert_eq!(listed[0]["path"], root.to_str().unwrap());
    assert_eq!(listed[0]["project_exists"], true);
    assert!(listed[0]["bytes"].as_u64().unwrap() > 4096, "{listed}");
    place.run(&["state", "list"]).exit(0).says(&id).says("yes").says(root.to_str().unwrap());
    for unknown in ["00000000", "x", "", &id[..7]] {
        place
            .run(&["state", "remove", unknown, "--yes"])
            .fails_with(1, "STATE_MISSING")
            .warns("list");
    }
    place.run(&["state", "remove", &id, "--yes"]).fails_with(2, "PROJECT_EXISTS").warns("--force");
    let asked = place.run(&["state", "remove", &id, "--force"]).fails_with(2, "REQUEST_INVALID");
    asked.warns("no terminal").warns("--yes");
    place.run(&["verify"]).exit(0).says("1 trace");
    place.run(&["state", "remove", &id, "--force", "--yes"]).exit(0).says("removed");
    assert!(states(&place).is_empty());
    place.run(&["state", "list"]).exit(0).says("no state in");
    place.run(&["verify"]).fails_with(1, "STATE_MISSING");

    let place = Place::with_project();
    let id = place.read(".windlass/id");
    std::fs::remove_dir_all(place.work().join(".windlass")).unwrap();
    place.run(&["state", "list"]).exit(0).says("no ");
    place.run(&["state", "remove", &id[..8], "--yes"]).exit(0);
}

#[test]
fn nothing_of_a_removed_state_stays_in_the_repository() {
    let repo = Repo::new();
    repo.run(&passing()).exit(0);
    let refs = || repo.git(&["for-each-ref", "refs/windlass"]);
    assert_ne!(refs(), "");
    let id = repo.read(".windlass/id").trim().to_owned();
    repo.windlass(&["state", "remove", &id, "--force", "--yes"]).exit(0).quiet();
    assert_eq!(refs(), "");
}

#[test]
fn a_state_in_use_is_neither_removed_nor_bound() {
    let repo = Repo::new();
    let mut call = repo.place.command(&["call", "run", "shell/run", "--new-key", "--args"]);
    let line = serde_json::json!({ "line": crate::world::UNTIL_GO }).to_string();
    let mut child = call.arg(line).spawn().unwrap();
    repo.until_begun();
    let id = repo.read(".windlass/id").trim().to_owned();
    let words = ["state", "remove", &id, "--force", "--yes"];
    repo.windlass(&words).fails_with(1, "STATE_LOCK_ACQUIRE_FAILED");
    repo.windlass(&["state", "move"]).fails_with(1, "STATE_LOCK_ACQUIRE_FAILED");
    repo.go();
    assert!(child.wait().unwrap().success());
    repo.is_whole();
}

#[test]
fn what_a_crash_between_the_two_folders_left_is_removed_by_the_next_init() {
    let place = Place::with_project();
    // The state is there, and the configuration is not yet.
    let leftover = place.state();
    std::fs::remove_dir_all(place.work().join(".windlass")).unwrap();
    place.write(".windlass.new-1/config.toml", "half");
    let draft = place.state_root().join(".draft-work-00000000");
    std::fs::create_dir(&draft).unwrap();
    place.run(&["init"]).exit(0);
    assert!(!leftover.exists() && !draft.exists());
    assert_eq!(states(&place), [place.state()]);
    assert_eq!(std::fs::read_dir(place.work()).unwrap().count(), 1);
    place.completed();
}

#[test]
fn a_state_with_a_key_is_no_leftover() {
    let place = Place::with_project();
    place.run(&["anchor", "../x.anchor"]).exit(0);
    let state = place.state();
    std::fs::remove_dir_all(place.work().join(".windlass")).unwrap();
    place.run(&["init"]).fails_with(2, "PROJECT_MOVED");
    place.run(&["init", "--new"]).exit(0);
    assert!(state.join("keys/signing.pem").exists());
}

#[test]
fn a_clone_gets_an_id_and_a_journal_of_its_own() {
    let repo = Repo::new();
    repo.run(&passing()).exit(0);
    assert_eq!(repo.git(&["ls-files", ".windlass/id"]), "", "the id is not committed");
    repo.git(&["clone", "--quiet", ".", "../clone"]);
    repo.windlass(&["-C", "../clone", "verify"])
        .fails_with(2, "PROJECT_MISSING")
        .warns("windlass init");
    repo.windlass(&["-C", "../clone", "policy", "check"]).exit(0);
    repo.windlass(&["-C", "../clone", "init"]).exit(0).says("windlass trust");
    repo.windlass(&["-C", "../clone", "verify"]).exit(0).says("0 traces");
    let refused = repo.windlass(&["-C", "../clone", "run", "one"]);
    refused.fails_with(3, "PROJECT_UNTRUSTED").warns("not trusted").warns("windlass trust");
    assert_eq!(repo.traces(), repo.place.ids().len());
    let mut status = Command::new("git");
    status.args(["-C", "../clone", "status", "--porcelain"]);
    repo.place.settle(&mut status);
    assert_eq!(finish(status, &[]).exit(0).text(), "");
}

/// The links of the work trees of a run, whose project was moved and whose state was moved.
#[test]
fn the_work_trees_of_runs_survive_both_moves() {
    let repo = Repo::new();
    let held = repo.run_with(&escalating(), &["--worktree"]).exit(4);
    let id = id_of(&held);
    assert_eq!(repo.events(&trace_of(&held))[0]["worktree"], format!("worktrees/{id}"));
    let moved = repo.place.base().join("moved");
    std::fs::rename(repo.root(), &moved).unwrap();
    std::fs::create_dir(repo.root()).unwrap();
    let elsewhere = repo.place.base().join("elsewhere");
    std::fs::rename(repo.place.state_root(), &elsewhere).unwrap();
    let windlass = |words: &[&str]| -> Outcome {
        let words = [&["-C", moved.to_str().unwrap()], words].concat();
        repo.place.run_with("WINDLASS_STATE", elsewhere.to_str().unwrap(), &words)
    };
    windlass(&["status", &id]).fails_with(2, "PROJECT_MOVED");
    windlass(&["state", "move"]).exit(0);
    let state = state_of(&moved, &elsewhere).unwrap();
    assert!(state.join("worktrees").join(&id).join("built.txt").exists());
    let approve = ["queue", "approve", &id, "--resume", "--by", "ada", "--reason", "good"];
    windlass(&approve).exit(0);
    windlass(&["close", &id]).exit(0).says("removed");
    assert!(!state.join("worktrees").join(&id).exists());
}
